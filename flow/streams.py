"""What a simulation moves: ranks that run, streams of steps with those who read them, and relays between hosts."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wilkins.flow import relays
from wilkins.flow.machine import ChannelQueue, Wait
from wilkins.flow.model import ModelInPort, ModelOutPort
from wilkins.flow.network import Carried
from wilkins.flow.pieces import Ranges, Rest, piece
from wilkins.flow.timeline import Activity, Opening


class Spend(NamedTuple):
    """The rank is busy for some nanoseconds."""

    activity: Activity
    time: int
    what: str = ""


class Sleep(NamedTuple):
    """The rank waits until something changes at its port."""

    activity: Activity
    what: str
    on: list[Rank]
    """Where to be found by what changes it."""
    blockers: Callable[[], list[int]]
    """Indices of the tasks that have to act."""


Pauses = Iterator[Spend | Sleep | None]
"""Pauses of a rank. None: everything else that ends at this instant happens first."""


class Rank:
    """A running rank, or all ranks of a task that do the same: the program, and its past."""

    def __init__(self, task: int, rank: int, ranks: int, program: Pauses) -> None:
        self.task = task
        self.rank = rank
        self.ranks = ranks
        self.program = program
        self.asleep: tuple[Sleep, int] | None = None
        self.segments: list[tuple[Activity, int, int, str]] = []

    def did(self, activity: Activity, begin: int, end: int, what: str) -> None:
        """Note a segment; one that goes on is made longer."""
        if begin == end:
            return
        if self.segments and self.segments[-1][0] == activity and self.segments[-1][3] == what != "":
            begin = self.segments.pop()[1]
        self.segments.append((activity, begin, end, what))


@dataclass(slots=True)
class Step:
    """A published step, as it goes on."""

    published: int
    order: int
    comes: Literal["not yet", "now", "is there"] = "is there"
    """What of it lies on other hosts, to the one that has published it."""
    sleepers: list[Rank] = field(default_factory=list)
    """Ranks that wait for that."""
    there: int = 0
    """When the last of its bytes is there: a host that hands it on publishes it as the first ones come."""
    openings: list[Opening] = field(default_factory=list)
    dropped_for: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Source:
    """One stream of steps: of a task's parallel files, of one rank's own files, or what comes from another host."""

    port: ModelOutPort
    writer: int
    """The task whose steps they are."""
    rank: int
    ranks: int
    """Simulated ranks that create and close each file together."""
    host: int
    """Where its steps are published."""
    lies: Mapping[int, Ranges] = field(default_factory=dict)
    """By host: the bytes of a step that lie there, if several hosts have some when it is published."""
    wanted: Ranges = ()
    """Bytes of a step that are read on its host."""
    channels: list[tuple[Inlet, ChannelQueue]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    created: dict[int, int] = field(default_factory=dict)
    """Ranks that have come to create, by iteration."""
    closed: int = 0
    """Ranks that have closed the present step."""
    unpublished: bool = False
    """A step is closed and not yet published."""
    sleepers: list[Rank] = field(default_factory=list)
    ended: bool = False

    def full(self) -> list[int]:
        """Tasks that have to open a step before the next one can be written."""
        return [task for inlet, queue in self.channels if isinstance(queue.create(), Wait) for task in inlet.readers]


@dataclass(slots=True, eq=False)
class Inlet:
    """An in-port, or the begin of a relay, with all that feeds it."""

    port: ModelInPort
    readers: tuple[int, ...]
    """The tasks that get the steps."""
    ranks: range = range(1)
    """Those of the task, or the relay, that open steps here,"""
    of: int = 1
    """and how many do on all hosts."""
    is_of_relay: bool = False
    sources: list[tuple[Source, ChannelQueue, int]] = field(default_factory=list)
    """With the number that the first rank here has in the queue."""
    place_of: dict[Source, int] = field(default_factory=dict)
    going: int = 0
    """Sources that have not ended."""
    offers: list[tuple[int, int, int]] = field(default_factory=list)
    """A heap of the steps that no rank has opened: their order, source and number. Some may have been dropped."""
    log: list[tuple[int, int]] = field(default_factory=list)
    """Source and number of each step that was handed out, the same to all ranks."""
    sleepers: list[Rank] = field(default_factory=list)
    relays: list[Rank] = field(default_factory=list)
    """Relays that wait until a rank asks for a step."""

    def feed(self, source: Source, queue: ChannelQueue) -> None:
        """Join a source to it, by a queue that it may share with others."""
        alone = len(queue.marks) == self.port.readers
        first = 0 if alone else sum(other.port.readers for other, known in source.channels if known is queue)
        source.channels.append((self, queue))
        self.place_of[source] = len(self.sources)
        self.sources.append((source, queue, first))
        self.going += 1

    def wants(self, size: int) -> Ranges:
        """The bytes of a step that are read here."""
        return piece(size, self.ranks, self.of)

    def asked(self) -> bool:
        """Whether a rank that reads waits for a step."""
        return any(rank.rank < self.of for rank in self.sleepers)

    def still_to_act(self) -> list[int]:
        """Tasks that may still give it steps."""
        return [source.writer for source, _, _ in self.sources if not source.ended]

    def offered(self) -> tuple[int, int] | None:
        """Source and number of the first step that no rank has opened."""
        while self.offers:
            _, place, step = self.offers[0]
            kept = self.sources[place][1].kept
            at = bisect_left(kept, step)
            if at < len(kept) and kept[at] == step:
                return place, step
            heapq.heappop(self.offers)
        return None


@dataclass(slots=True)
class Relay:
    """Carries the steps of an out-port to the readers on another host."""

    inlet: Inlet
    outlet: Source
    writes: int
    reads: int
    """The hosts."""
    needs: Ranges
    """The bytes of a step that its readers read, and those to which they hand it on."""
    on_demand: bool = False
    keeps: bool = False
    """It has connected to say which steps of which it has a part it lets go of."""
    carried: Carried = field(default_factory=Carried)
    asks: deque[tuple[int, int]] = field(default_factory=deque)
    """What the receiver has said and the sender not heard: when that comes, and for how many more steps it asks."""
    asked: int = 0
    """Steps that the sender may send yet."""
    sent: deque[OnItsWay | None] = field(default_factory=deque)
    """Steps that have begun to come and were not received. None: no step will come."""
    on_the_way: deque[OnItsWay] = field(default_factory=deque)
    """Steps of which the sender has not heard that they have come."""
    sender: list[Rank] = field(default_factory=list)
    receiver: list[Rank] = field(default_factory=list)
    """Asleep until the other one says something."""

    def hear(self, now: int) -> None:
        """The sender hears what has come by now: but for the first time, also that a step is there."""
        while self.asks and self.asks[0][0] <= now:
            self.asked += self.asks.popleft()[1]
            if self.on_the_way:
                self.on_the_way.popleft()

    def may_send(self) -> bool:
        """Whether the sender may send a step now."""
        in_part = sum(not step.is_whole for step in self.on_the_way)
        few = in_part < relays.MOST_IN_PART
        behind = few and sum(step.sent for step in self.on_the_way) < relays.MOST_BYTES_AT_ONCE
        return self.asked > 0 and (behind or not self.on_the_way)

    def goes_on(self, crossing: OnItsWay) -> bool:
        """Whether the step is handed on while it comes."""
        hands_on = any(inlet.is_of_relay for inlet, _ in self.outlet.channels)
        return hands_on and crossing.is_whole and not crossing.packs and crossing.sent > relays.PIECE

    def room(self) -> int:
        """For how many steps the receiver has room, the one after the queue among them."""
        if self.on_demand:
            return 1
        queues = [queue for _, queue in self.outlet.channels if queue.policy.when_full == "block" and not queue.left]
        least = min((queue.policy.queue + 1 - len(queue.queued()) for queue in queues), default=1)
        return max(1, min(least, relays.MOST_AT_ONCE))


class OnItsWay(NamedTuple):
    """A step on its way to another host."""

    step: Step
    comes: int
    """When its first byte comes,"""
    ends: int
    """and its last one, where only the sender's network takes time."""
    size: int
    sent: int
    packs: int
    rest: Rest
    """The hosts from which the rest of what is needed is brought, and how many bytes."""
    is_whole: bool
    """All of it has been sent."""
