"""The options of a rehearsal buffer, as a value that needs neither torch nor MPI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import numpy as np

Choice = Callable[[int, Mapping[int, int], Mapping[int, int], "np.random.Generator"], "tuple[int, int] | None"]
"""Chooses which sample makes room for a candidate, given the candidate's group, how many samples of each group are
held and how many were offered so far, this one included, and a generator: a group and the position of a sample in it,
0 for the one that came first; or None, if the candidate is to go."""
Eviction = Literal["reservoir", "random", "fifo"]
Balance = Literal["class", "step", "task", "proportional"]
NanPolicy = Literal["error", "skip", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """What a rehearsal buffer keeps and gives back. Wrong values raise `ValueError`."""

    batch: int
    """b: samples a rank trains on per step, before representatives are added."""
    candidates: int
    """c: samples of each batch that are offered to the buffer, 1 to b."""
    representatives: int
    """r: samples a rank gets back per step; it trains on b + r."""
    samples: int | None = None
    """Room of each rank's part, as a number of samples. Either this or `bytes`."""
    bytes: int | None = None
    """Room of each rank's part, in bytes of samples."""
    label: str | None = None
    """The tensor of classes, a whole number from 0 on for each sample; none for unlabelled streams and regression."""
    classes: int | None = None
    """How many classes there are, if that is known: labels must be below it. Left out: classes may come at any time."""
    eviction: Eviction | Choice = "reservoir"
    """Which sample makes room. `reservoir` keeps a uniform sample of all that was offered; `random` takes each sample
    of a batch with probability c/b and replaces any; `fifo` replaces the oldest; a function chooses itself. After a
    restart the same samples make room if the function goes by its arguments alone."""
    balance: Balance = "class"
    """What gets the same room: `class`, all classes; `step` or `task`, all values of the batches' tensor of that name,
    whole numbers from 0 on (a `Learner` adds `step`, the number of the experience); `proportional`: nothing, so that
    each has room by its share of the stream."""
    nan: NanPolicy = "error"
    """What to do with a candidate that holds NaN: stop with an `error`, `skip` it, or `keep` it."""
    device: str = "host"
    """Where samples are kept: `host`, or a torch device such as `cuda:0`."""
    background: bool = True
    """Exchange samples in a thread, while the step is trained. Needs an MPI with MPI_THREAD_MULTIPLE."""
    seed: int = 0
    """All draws follow from this number, the rank and the number of ranks."""

    def __post_init__(self) -> None:
        for name in ("batch", "candidates", "representatives"):
            _positive(name, getattr(self, name))
        if self.candidates > self.batch:
            raise ValueError(f"'candidates' ({self.candidates}) must not exceed 'batch' ({self.batch})")
        if (self.samples is None) == (self.bytes is None):
            raise ValueError("the room of the buffer is given by either 'samples' or 'bytes', one of the two")
        for name in ("samples", "bytes", "classes"):
            if getattr(self, name) is not None:
                _positive(name, getattr(self, name))
        for name, kinds in (("eviction", Eviction), ("balance", Balance), ("nan", NanPolicy)):
            if getattr(self, name) not in get_args(kinds) and not (name == "eviction" and callable(self.eviction)):
                raise ValueError(f"{name!r} must be one of {', '.join(get_args(kinds))}, not {getattr(self, name)!r}")
        if self.classes is not None and self.label is None:
            raise ValueError("'classes' is given, but not 'label': name the tensor that holds the classes")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"'seed' must be a whole number from 0 on, not {self.seed!r}")

    @property
    def group(self) -> str | None:
        """The tensor whose values share the room equally, if one does."""
        return {"class": self.label, "proportional": None}.get(self.balance, self.balance)

    @property
    def eviction_name(self) -> str:
        """The eviction as a text: a word, or the place of a function."""
        return self.eviction if isinstance(self.eviction, str) else place_of(self.eviction)


def place_of(function: Callable[..., Any]) -> str:
    """Where a function comes from, as a text that is the same after a restart."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name!r} must be a whole number, 1 or more, not {value!r}")
