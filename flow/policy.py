"""What a flow policy is, and the ways a workflow file can write one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from wilkins.values import dataclass

WhenFull = Literal["block", "drop-oldest", "drop-newest"]
DEFAULT_QUEUE = 2


@dataclass(frozen=True, slots=True)
class FlowPolicy:
    """What a channel does with steps: which it keeps, how many may wait, and what to do when the queue is full."""

    every: int = 1
    """Keep every n-th step."""
    queue: int = DEFAULT_QUEUE
    """Most steps published and not yet opened by every reading rank."""
    when_full: WhenFull = "block"
    """``block`` the producer, or drop the oldest or the newest step."""
    offset: int = 0
    """Steps before the first one that is kept, less than `every`: steps offset, offset + every, ... are, from 0."""

    def __post_init__(self) -> None:
        for name in ("every", "queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name!r} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.offset < self.every:
            raise ValueError(f"'offset' must be 0 or more and less than 'every' ({self.every}), not {self.offset}")
        if self.when_full not in get_args(WhenFull):
            raise ValueError(f"'when_full' must be one of {', '.join(get_args(WhenFull))}, not {self.when_full!r}")

    def __str__(self) -> str:
        if self == LATEST:
            return "latest"
        return f"{kept_words(self.every, self.offset)}, queue {self.queue}, {self.when_full}"

    @property
    def drops(self) -> bool:
        """Whether steps that come while the readers are busy are left out."""
        return self.when_full != "block"

    def keeps(self, step: int) -> bool:
        """True if step number `step`, from 0, is kept."""
        return step % self.every == self.offset


LATEST = FlowPolicy(1, 1, "drop-oldest")


def kept_words(every: int, offset: int) -> str:
    """Which steps are kept: ``all``, ``every 5th from the 1st``."""
    return "all" if every == 1 else f"every {ordinal(every)} from the {ordinal(offset + 1)}"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def from_io_freq(value: int | str, queue: int = DEFAULT_QUEUE) -> FlowPolicy:
    """The policy an ``io_freq`` stands for: ``all`` (or 1, or 0), ``n`` (steps n, 2n, ..., from 1), ``latest`` (or -1).

    Raises:
        ValueError: it is none of these.
    """
    if value in ("all", 0):
        value = 1
    if value in ("latest", -1):
        return LATEST
    if isinstance(value, str) or value < 1:
        raise ValueError(f"{value!r} is not an io_freq: write 1 or 'all', n for every n-th step, or 'latest'")
    return FlowPolicy(every=value, queue=queue, offset=value - 1)


def from_flow(value: int | str | Mapping[str, int | str], queue: int = DEFAULT_QUEUE) -> FlowPolicy:
    """The policy a ``flow`` stands for: an ``io_freq``, ``{some: n}``, or ``{every, offset, queue, when_full}``.

    Raises:
        ValueError: it is none of these.
    """
    if not isinstance(value, Mapping):
        return from_io_freq(value, queue)
    if set(value) == {"some"}:
        every = _number(value, "some", 1)
        if every < 1:
            raise ValueError(f"'some' must be 1 or more, not {every}")
        return from_io_freq(every, queue)
    if "some" in value:
        raise ValueError("'some' stands alone; for {some: n} with more write {every: n, offset: n - 1, ...}")
    unknown = set(value) - {"every", "offset", "queue", "when_full"}
    if unknown:
        raise ValueError(f"a flow has 'every', 'offset', 'queue' and 'when_full', not {min(unknown)!r}")
    return FlowPolicy(
        _number(value, "every", 1),
        _number(value, "queue", queue),
        value.get("when_full", "block"),  # type: ignore[arg-type]
        _number(value, "offset", 0),
    )


def _number(value: Mapping[str, int | str], name: str, default: int) -> int:
    number = value.get(name, default)
    if not isinstance(number, int):
        raise ValueError(f"{name!r} must be a whole number, not {number!r}")
    return number
