"""What a flow policy is, and the ways a workflow file can write one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

WhenFull = Literal["block", "drop-oldest", "drop-newest"]
DEFAULT_QUEUE = 2


@dataclass(frozen=True, slots=True)
class FlowPolicy:
    """Three numbers on a channel: keep every n-th step, queue so many, and what to do when the queue is full."""

    every: int = 1
    """Keep every n-th step, the first one included."""
    queue: int = DEFAULT_QUEUE
    """Most steps published and not yet opened by every reading rank."""
    when_full: WhenFull = "block"
    """``block`` the producer, or drop the oldest or the newest step."""

    def __post_init__(self) -> None:
        for name in ("every", "queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name!r} must be 1 or more, not {getattr(self, name)}")
        if self.when_full not in get_args(WhenFull):
            raise ValueError(f"'when_full' must be one of {', '.join(get_args(WhenFull))}, not {self.when_full!r}")

    def __str__(self) -> str:
        if self == LATEST:
            return "latest"
        kept = "all" if self.every == 1 else f"every {self.every}"
        return f"{kept}, queue {self.queue}, {self.when_full}"


LATEST = FlowPolicy(1, 1, "drop-oldest")


def from_io_freq(value: int | str, queue: int = DEFAULT_QUEUE) -> FlowPolicy:
    """The policy an ``io_freq`` stands for: ``all`` (or 1, or 0), ``n`` (every n-th step), ``latest`` (or -1).

    Raises:
        ValueError: it is none of these.
    """
    if value in ("all", 0):
        value = 1
    if value in ("latest", -1):
        return LATEST
    if isinstance(value, str) or value < 1:
        raise ValueError(f"{value!r} is not an io_freq: write 1 or 'all', n for every n-th step, or 'latest'")
    return FlowPolicy(every=value, queue=queue)


def from_flow(value: int | str | Mapping[str, int | str], queue: int = DEFAULT_QUEUE) -> FlowPolicy:
    """The policy a ``flow`` stands for: the forms of ``io_freq``, ``{some: n}``, or ``{every, queue, when_full}``.

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
    unknown = set(value) - {"every", "queue", "when_full"}
    if unknown:
        raise ValueError(f"a flow has 'every', 'queue' and 'when_full', not {min(unknown)!r}")
    when_full = value.get("when_full", "block")
    return FlowPolicy(_number(value, "every", 1), _number(value, "queue", queue), when_full)  # type: ignore[arg-type]


def _number(value: Mapping[str, int | str], name: str, default: int) -> int:
    number = value.get(name, default)
    if not isinstance(number, int):
        raise ValueError(f"{name!r} must be a whole number, not {number!r}")
    return number
