"""The options of a rehearsal buffer, as a value that needs neither torch nor MPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Eviction = Literal["reservoir", "random", "fifo"]
Balance = Literal["class", "proportional"]
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
    eviction: Eviction = "reservoir"
    """Which sample makes room. `reservoir` keeps a uniform sample of all that was offered; `random` takes each sample
    of a batch with probability c/b and replaces any; `fifo` replaces the oldest."""
    balance: Balance = "class"
    """`class`: all classes get the same room. `proportional`: classes get room by their share of the stream."""
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
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(f"{name!r} must be one of {', '.join(get_args(kinds))}, not {getattr(self, name)!r}")
        if self.classes is not None and self.label is None:
            raise ValueError("'classes' is given, but not 'label': name the tensor that holds the classes")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"'seed' must be a whole number from 0 on, not {self.seed!r}")

    @property
    def by_class(self) -> bool:
        """Whether room is shared out among classes."""
        return self.label is not None and self.balance == "class"


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name!r} must be a whole number, 1 or more, not {value!r}")
