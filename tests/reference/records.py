"""What the reference machine of the step store (`reference.store`) is told, answers, and knows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wilkins.flow.machine import Go, Wait
from wilkins.flow.policy import FlowPolicy

DEFAULT_REORDER = 16
"""Steps up to which a channel is stretched where calls would wait for each other."""

AGAIN = 3
"""Asking so often in vain is polling. (Of looks, the native layer asks for `poll_end`; here is no time.)"""

Rank = tuple[int, int]
"""Task, and rank within it."""


class Process(NamedTuple):
    """A process of a task's rank. A rank begins with its process 0."""

    task: int
    rank: int = 0
    number: int = 0

    @property
    def of(self) -> Rank:
        """The rank that it belongs to."""
        return self.task, self.rank


@dataclass(frozen=True, slots=True)
class OutPort:
    """Files that a task writes."""

    task: int
    pattern: str
    retained: int = 1
    """Steps of one source that fit into the memory which is kept for those that were had."""
    memory: int | None = None
    """Files of all its sources that fit into its memory; None: any number."""
    raw: bool = False
    """They are written as bytes, and not by HDF5."""


@dataclass(frozen=True, slots=True)
class InPort:
    """Files that a task reads. A pattern without wildcards, or `fixed`, makes it in order."""

    task: int
    pattern: str
    readers: int = 1
    """Ranks that read it, the first ones."""
    reorder: int = DEFAULT_REORDER
    looks: Literal["wait", "now"] = "wait"
    listing: Literal["now", "end"] = "now"
    memory: int | None = None
    """Steps of one source that fit into the memory that its channels may be stretched to; None: any number."""
    fixed: bool = False

    @property
    def in_order(self) -> bool:
        """Whether each open is the next step, whatever its name."""
        return self.fixed or not any(sign in self.pattern for sign in "*?[")


@dataclass(frozen=True, slots=True)
class Channel:
    """An edge from an out-port to an in-port, by their indices."""

    outport: int
    inport: int
    policy: FlowPolicy = FlowPolicy()


class Step(NamedTuple):
    """The file that a source has published as its `sequence`-th, from 0."""

    outport: int
    rank: int
    sequence: int
    name: str


End = Literal["return", "_exit", "signal"]
"""How a process ends. To return is to call `exit`, too."""


class Call(NamedTuple):
    """What a process asks for: of a port, by its index."""

    kind: Literal["create", "open", "look", "list", "poll"]
    """``poll``: nothing that it is answered; it has listed so often that it is as if it waited."""
    port: int
    name: str


class Published(NamedTuple):
    """The file is a step. `kept`: the channels it goes to; `dropped`: what these gave up for it."""

    step: Step
    kept: tuple[int, ...]
    dropped: tuple[tuple[int, Step], ...] = ()


class Opened(NamedTuple):
    """The process reads this step now."""

    step: Step


class Seen(NamedTuple):
    """The file is there: an open would be this step."""

    step: Step


class Listed(NamedTuple):
    """Names that an open would find, in the order of publication."""

    names: tuple[str, ...]
    steps: tuple[Step, ...]


class Missing(NamedTuple):
    """There is no such file: its producers have ended, it is gone for good, or the look may not wait (``now``: as the
    port says; ``circle``: all would wait for each other)."""

    why: Literal["ended", "passed", "now", "circle"]


Answer = Go | Wait | Opened | Seen | Listed | Missing


class Account(NamedTuple):
    """What became of the files of an out-port on a channel, in numbers of steps."""

    published: int
    read: int
    """Had by some rank."""
    skipped: int
    dropped: int
    let_go: int
    unread: int


Fate = Literal["kept", "skipped", "dropped", "let go"]


@dataclass(slots=True, eq=False)
class Slot:
    """A published step and where it went."""

    step: Step
    stamp: int
    """Order of publication over all sources."""
    on: dict[int, Fate]
    """By channel."""
    had: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Ranks that have had it, by in-port."""
    gone: set[int] = field(default_factory=set)
    """In-ports whose task has had it before it was started again."""
    there: bool = True
    """Not replaced by a later step."""
    holds: dict[Process, int] = field(default_factory=dict)
    """How often processes have it open."""
    views: set[Process] = field(default_factory=set)
    """Processes that can see it though they have not opened it, or have closed it."""
    used: int = 0
    """When it was opened last."""

    def had_by(self, inport: int, rank: int) -> bool:
        """Whether the rank has had it, in this start of its task or before."""
        return rank in self.had[inport] or inport in self.gone

    def is_open(self, task: int) -> bool:
        """Whether a process of the task has it open."""
        return any(who.task == task for who in self.holds)


@dataclass(slots=True, eq=False)
class File:
    """A file that is begun, and no step yet."""

    name: str
    begun: int
    """Order in which files are begun, over all sources."""
    used_by: Process
    """Who has begun it; of a copy, who has opened it last."""
    copy_of: Slot | None = None
    """Of a stage: the step that it is to pass on."""
    openers: dict[Process, bool] = field(default_factory=dict)
    """Who has it open, and whether it has written to it, or has only inherited it."""
    flushed: bool = False
    """HDF5 has flushed it, and it was not written since."""
    closed: bool = False
    """Who has begun it has closed it, so that it is whole however others end."""


@dataclass(slots=True, eq=False)
class Source:
    """A rank that writes an out-port."""

    outport: int
    rank: Rank
    slots: list[Slot] = field(default_factory=list)
    """Of all steps, by number."""
    present: list[Slot] = field(default_factory=list)
    """Of those that were not replaced."""
    names: dict[str, list[Slot]] = field(default_factory=lambda: defaultdict(list))
    writing: list[File] = field(default_factory=list)
    """Files that are begun, in that order."""
    rewrites: bool = False
    """It has published one name twice."""
    renames: bool = False
    """It has published two names one after the other."""


@dataclass(slots=True, eq=False)
class ChannelState:
    """What changes of a channel."""

    stretch: int = 0
    offered: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Steps published so far that match the in-port, by source."""


@dataclass(slots=True, eq=False)
class InPortState:
    """How far the ranks of a task are with an in-port."""

    latest: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By rank: the highest stamp that it has had."""
    last: dict[tuple[int, int, int], Slot] = field(default_factory=dict)
    """By rank, out-port and rank of the source: what it opened last."""
    shared: bool = False
    """Two ranks have had the same step."""
    log: list[tuple[Call, Answer]] = field(default_factory=list)
    """Calls and their answers, as the first rank to make each got it."""
    position: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By rank: how far it has come in the log."""
    apart: set[int] = field(default_factory=set)
    """Ranks whose calls were other ones than the log's, or that were answered otherwise since a step of it is gone."""
    delivered: list[Slot] = field(default_factory=list)
    """Of a port in order: its steps as they are handed out, the same to all ranks."""
    settled: dict[int, str] = field(default_factory=dict)
    """By rank: a name that is taken to mean the step that it has had, until it opens one."""
    started_for: Slot | None = None
    """The step for which the task's program, which runs, was started."""


@dataclass(slots=True)
class Vain:
    """What a rank has asked for in vain since it has begun or opened a file."""

    times: int = 0
    over: int = 0
    """So many of these times nothing more could come on any in-port of its task."""
    name: str = ""
    """Of the last look."""
    shown: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The highest stamp that a listing has shown, by in-port."""


class Found(NamedTuple):
    """What a name means: a step, or none (`passed`: and it will not come)."""

    slot: Slot | None
    passed: bool = False
