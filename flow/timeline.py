"""A workflow's timeline as values: what every rank did when, and when each step was published, opened or dropped.

Times are seconds from the beginning. A timeline is predicted (`wilkins.flow.simulation`) or made from the trace of a
run (`wilkins.flow.recorded`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Activity = Literal["starting", "computing", "waiting for data", "waiting for room", "moving", "ending"]
"""``starting``: before the first step. ``moving``: a step is written or read. ``ending``: after the last step."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One thing that a rank did without a break."""

    activity: Activity
    begin: float
    end: float
    what: str = ""
    """Pattern of the port that was waited for or moved through."""


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """A rank's segments, in order; they touch."""

    rank: int
    segments: tuple[Segment, ...]

    def total(self, activity: Activity) -> float:
        """Seconds spent on an activity."""
        return sum(segment.end - segment.begin for segment in self.segments if segment.activity == activity)


@dataclass(frozen=True, slots=True)
class TaskTimeline:
    """A task instance."""

    name: str
    end: float | None
    """When its last rank completed; None: never."""
    ranks: tuple[RankTimeline, ...]

    def mean(self, activity: Activity) -> float:
        """Seconds spent on an activity, the mean over the ranks."""
        if not self.ranks:
            return 0.0
        alike = Counter(id(rank.segments) for rank in self.ranks)  # thousands of ranks may share one tuple
        of_one = {id(rank.segments): rank for rank in self.ranks}
        return sum(of_one[which].total(activity) * ranks for which, ranks in alike.items()) / len(self.ranks)


@dataclass(frozen=True, slots=True)
class Opening:
    """A rank took a step."""

    task: str
    rank: int
    time: float
    ranks: int = 1
    """The number of ranks that took it at that time, from `rank` on."""


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """A step that was published."""

    task: str
    """The task that wrote it."""
    source: int
    """Rank that wrote it; of a parallel file, the lead rank."""
    pattern: str
    """The out-port's."""
    number: int
    """0-based among the steps of its source on this port."""
    published: float
    openings: tuple[Opening, ...] = ()
    dropped_for: tuple[str, ...] = ()
    """Reading tasks that did not get it: ``every`` left it out, or their queue was full."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A rank that waits for what cannot come."""

    task: str
    rank: int
    since: float
    activity: Activity
    what: str
    """Pattern of the port it waits at."""
    on: tuple[str, ...]
    """Tasks that would have to act."""

    def __str__(self) -> str:
        who = f"task {self.task!r}, rank {self.rank}, has been waiting since {self.since:.3g} s"
        others = " and ".join(map(repr, self.on)) or "nobody"
        if self.activity == "waiting for data":
            return f"{who} for a step of {self.what!r} from {others}"
        return f"{who} for room on {self.what!r}, until {others} open{'s' if len(self.on) < 2 else ''} a step of it"


@dataclass(frozen=True, slots=True)
class Crossing:
    """The transfers of one out-port from one host to another, predicted."""

    task: str
    """The task that writes the steps."""
    pattern: str
    readers: tuple[str, ...]
    """Tasks on the other host that read them."""
    writes: str
    """The host of the writer."""
    reads: str
    """The host of the readers."""
    steps: int
    bytes: int
    """Of these steps."""
    moved: int
    """Bytes that cross for them: fewer, if they are packed."""
    messages: int
    """For these steps, also in the other direction."""
    under_way: float
    """Seconds for which a step was in transit, with the network to itself; those of several together count once."""
    carrying: float
    """The part of these seconds that is for the bytes of steps,"""
    packing: float = 0.0
    """and that in which they are packed and unpacked."""
    at_once: int = 1
    """The most steps that were in transit together."""


@dataclass(frozen=True, slots=True)
class HostUse:
    """For how many seconds a host's network would be busy, in each direction."""

    name: str
    sending: float
    receiving: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened, or would happen, in a workflow."""

    tasks: tuple[TaskTimeline, ...]
    steps: tuple[StepTimeline, ...]
    """In the order of publication."""
    stuck: tuple[Blocked, ...] = ()
    """Ranks that wait for each other forever."""
    crossings: tuple[Crossing, ...] = ()
    """Predicted only, as are `hosts`."""
    hosts: tuple[HostUse, ...] = ()

    @property
    def end(self) -> float:
        """When the last task completed; of a workflow that is stuck, when nothing moved any more."""
        ends = [segment.end for task in self.tasks for rank in task.ranks for segment in rank.segments[-1:]]
        return max([*ends, *(task.end for task in self.tasks if task.end is not None)], default=0.0)

    def counts(self) -> dict[str, StepCounts]:
        """The steps produced, consumed and dropped, by task."""
        produced = {task.name: 0 for task in self.tasks}
        consumed = dict(produced)
        dropped = dict(produced)
        for step in self.steps:
            produced[step.task] += 1
            for reader in {opening.task for opening in step.openings}:
                consumed[reader] += 1
            for reader in step.dropped_for:
                dropped[reader] += 1
        return {name: StepCounts(produced[name], consumed[name], dropped[name]) for name in produced}


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Numbers of steps of one task."""

    produced: int
    """Published by it."""
    consumed: int
    """Opened by it."""
    dropped: int
    """Published for it and never offered, or given up before it opened them."""
