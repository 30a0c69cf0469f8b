"""Reference state machine of the step store: tasks with ranks, in-ports and their sources, names. No I/O.

`wilkins.flow.machine` is one channel of one source, in order. Here whole tasks meet: each event is a call of a process
(it creates or publishes a file, opens a name, looks at one, lists, closes, ends), and each answer is what the native
layer would do: go on, wait, or be told that the file is missing. `wilkins.flow.circles` decides what happens when calls
wait for each other only.

A *wildcard port* is an in-port of which programs name the files; any other one is *in order*. What a rank has *had* is
the set of steps that it has opened. The rules for wildcard ports:

- A step stays until its room is needed. Opening a later one gives up nothing, but for steps that another rank of the
  task has had, in a port of which no step was had by two ranks (`InPortState.shared`): so ranks that divide the files
  do not keep each other's, and ranks that all read all files lose none, in whatever order they come.
- A producer waits while `queue` of its steps were had by no rank (in order: not by all), or so many and `SPARE_STEPS`
  more are needed by some rank. Where that closes a circle of waits, the channel is stretched.
- Steps that all ranks are done with are retained and replaced by later ones, least recently opened first; the one that
  a rank has opened last of a source is not.
- A name that was published may be begun anew. While that is open (the source has begun no other file since the last
  that the rank has had, has not ended, and waits neither for data nor for room), the answer waits. Then the name means
  the step that the rank has had of it, if it is retained; what is gone for good is missing, and stretches nothing.
- Once a source has published a name twice, its names are streams: each open is the oldest step of the name that is
  later than what the rank has had of it, and that it has not given up.
- A look waits as an open does, and takes nothing.
- A rank polls that asks again and again, by looks at one name or by listings, is shown nothing new and reads nothing.
  For listings that are polls, full channels stretch, and nothing is given up (`wilkins.flow.circles.relieve_poll`); a
  look that is one waits as an open does, also where others would not, once all who write wait for room. A task of which
  all ranks poll, and for which nothing more will come, may be ended, if it writes nothing.
- A step that a process has lent to another one stays as if it were open.
- Ranks that make the same calls of a port, one by one, get the same answers (`InPortState.log`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from wilkins.flow.machine import SPARE_STEPS, Go, Wait
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
    holds: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How often it is open, by in-port."""
    used: int = 0
    """When it was opened last."""

    def had_by(self, inport: int, rank: int) -> bool:
        """Whether the rank has had it, in this start of its task or before."""
        return rank in self.had[inport] or inport in self.gone


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
    writing: list[tuple[Process, str, int]] = field(default_factory=list)
    """Files that are begun: by whom, their names, and when."""
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
    """Ranks whose calls were other ones than the log's."""
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
    lists: int | None = None
    """The in-port, if it was a listing."""
    shown: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The highest stamp that a listing has shown, by in-port."""


class Found(NamedTuple):
    """What a name means: a step, or none (`passed`: and it will not come)."""

    slot: Slot | None
    passed: bool = False


class Store:
    """All tasks of a run. `tasks` are their numbers of ranks."""

    def __init__(
        self, tasks: Sequence[int], outports: Sequence[OutPort], inports: Sequence[InPort], channels: Sequence[Channel]
    ) -> None:
        self.tasks = list(tasks)
        self.outports = list(outports)
        self.inports = list(inports)
        self.channels = list(channels)
        self.sources = [
            Source(index, (port.task, rank)) for index, port in enumerate(outports) for rank in range(tasks[port.task])
        ]
        self.states = [ChannelState() for _ in channels]
        self.ports = [InPortState() for _ in inports]
        self.writing_to = [
            [k for k, one in enumerate(channels) if one.outport == port] for port in range(len(outports))
        ]
        self.reading_from = [
            [
                (k, source)
                for k, channel in enumerate(channels)
                if channel.inport == port
                for source in self.sources
                if source.outport == channel.outport
            ]
            for port in range(len(inports))
        ]
        self.living = {Process(task, rank) for task, ranks in enumerate(tasks) for rank in range(ranks)}
        self.ended: set[int] = set()
        self.waits: dict[Process, Call] = {}
        self.resting: set[Process] = set()
        """Processes or threads that sleep until another one of their rank wakes them, or another rank of their task."""
        self.insisting: set[Process] = set()
        """Processes whose look is a poll."""
        self.vain: dict[Rank, Vain] = defaultdict(Vain)
        self.clock = 0

    # Events.

    def create(self, who: Process, name: str) -> Answer:
        """The process begins a file."""
        return self._ask(who, Call("create", self._port(self.outports, who, name), name))

    def publish(self, who: Process, name: str) -> Published:
        """The process has closed a file that it began: it is the source's next step."""
        port = self._port(self.outports, who, name)
        source = self.source(port, who.rank)
        source.writing.remove(next(one for one in source.writing if one[:2] == (who, name)))
        self.clock += 1
        slot = Slot(Step(port, who.rank, len(source.slots), name), self.clock, {})
        kept = []
        dropped: list[tuple[int, Step]] = []
        for index in self._offers(port, name):
            channel = self.channels[index]
            before = self.states[index].offered[who.rank]
            self.states[index].offered[who.rank] = before + 1
            waiting = self.droppable(index, source)
            full = channel.policy.when_full == "drop-newest" and len(waiting) >= channel.policy.queue
            if not channel.policy.keeps(before):
                slot.on[index] = "skipped"
            elif full:
                slot.on[index] = "dropped"
            else:
                slot.on[index] = "kept"
                kept.append(index)
                drops = channel.policy.when_full == "drop-oldest"
                for oldest in waiting[: max(0, len(waiting) + 1 - channel.policy.queue) if drops else 0]:
                    oldest.on[index] = "dropped"
                    dropped.append((index, oldest.step))
        if source.names[name]:
            source.rewrites = True
        elif source.slots:
            source.renames = True
        source.slots.append(slot)
        source.present.append(slot)
        source.names[name].append(slot)
        return Published(slot.step, tuple(kept), tuple(dropped))

    def open(self, who: Process, name: str) -> Answer:
        """The process opens a file to read it."""
        return self._ask(who, Call("open", self._port(self.inports, who, name), name))

    def look(self, who: Process, name: str) -> Answer:
        """The process asks whether a file is there."""
        vain = self.vain[who.of]
        if vain.times >= AGAIN and vain.name == name:
            self.insisting.add(who)
        return self._ask(who, Call("look", self._port(self.inports, who, name), name))

    def list_steps(self, who: Process, inport: int) -> Answer:
        """The process asks what files of an in-port are there."""
        return self._ask(who, Call("list", inport, ""))

    def close(self, who: Process, step: Step) -> None:
        """A process has closed a step that it opened."""
        self.slot(step).holds[self._port(self.inports, who, step.name)] -= 1

    def lend(self, who: Process, step: Step) -> None:
        """Another process has the descriptor of a step that this one has open, too, and closes it by itself."""
        self.slot(step).holds[self._port(self.inports, who, step.name)] += 1

    def rest(self, who: Process) -> None:
        """The process sleeps until another one of its rank wakes it, or another rank of its task."""
        self.resting.add(who)

    def wake(self, who: Process) -> None:
        """The process goes on."""
        self.resting.discard(who)

    def fork(self, who: Process) -> None:
        """A further process of a rank begins."""
        self.living.add(who)

    def exit(self, who: Process) -> list[Published]:
        """The process is over. The files that it has left open are published in the order in which it began them."""
        left = [(begun, name) for source in self.sources for process, name, begun in source.writing if process == who]
        published = [self.publish(who, name) for _, name in sorted(left)]
        self.living.discard(who)
        self.resting.discard(who)
        return published

    def end(self, task: int) -> None:
        """The task is over: no file of it will come, and it is done with all files."""
        self.ended.add(task)
        for source in self.sources:
            if source.rank[0] == task:
                source.writing.clear()
        self._forget_processes(task)

    def restart(self, task: int) -> None:
        """The task's program is over, and is started again: what any of its ranks has had, all have had. A step for
        which it was started, and of which it has opened none, it has left out."""
        ports = [index for index, port in enumerate(self.inports) if port.task == task]
        idle = not any(slot.had.get(index) for index in ports for slot in self._offered_to(index))
        for index in ports:
            if idle and (left_out := self.ports[index].started_for):
                left_out.gone.add(index)
            for slot in self._offered_to(index):
                if slot.had.pop(index, None):
                    slot.gone.add(index)
            state = self.ports[index]
            self.ports[index] = InPortState(shared=state.shared, delivered=state.delivered)
        self.vain = defaultdict(Vain, {rank: vain for rank, vain in self.vain.items() if rank[0] != task})
        self._forget_processes(task)
        self.living |= {Process(task, rank) for rank in range(self.tasks[task])}

    def start_for(self, task: int, inport: int) -> Step | None:
        """The task's program starts for the next step of each in-port that it reads, and is told this one's name."""
        for index, port in enumerate(self.inports):
            was_read = any(index in slot.gone for slot in self._offered_to(index))
            if port.task == task and (index == inport or was_read):
                self.ports[index].started_for = self._next_slot([index])
        told = self.ports[inport].started_for
        return told.step if told else None

    def retry(self, who: Process) -> Answer:
        """The process, which waits, looks again whether it may go on."""
        return self._ask(who, self.waits[who])

    # What is so.

    def source(self, outport: int, rank: int) -> Source:
        """A rank's source of an out-port."""
        return next(one for one in self.sources if one.outport == outport and one.rank[1] == rank)

    def slot(self, step: Step) -> Slot:
        """Where a step is, or was."""
        return self.source(step.outport, step.rank).slots[step.sequence]

    def bound(self, channel: int) -> int:
        """Steps of a source that may wait on the channel, as far as it is stretched now."""
        return self.channels[channel].policy.queue + self.states[channel].stretch

    def limit(self, channel: int) -> float:
        """Steps up to which the channel may be stretched."""
        port = self.inports[self.channels[channel].inport]
        memory = float("inf") if port.memory is None else port.memory
        if port.listing == "end":
            return memory
        return min(max(port.reorder, self.channels[channel].policy.queue), memory)

    def unhad(self, channel: int, source: Source) -> list[Slot]:
        """Steps of the source that wait on the channel: that no rank of the task has had; in order, not all."""
        inport = self.channels[channel].inport
        enough = self.inports[inport].readers if self.inports[inport].in_order else 1
        return [
            slot for slot in self._kept(channel, source) if inport not in slot.gone and len(slot.had[inport]) < enough
        ]

    def droppable(self, channel: int, source: Source) -> list[Slot]:
        """Of these, those that are given up for later ones: not the step whose name the task's program was told."""
        inport = self.channels[channel].inport
        told = None if self.inports[inport].in_order else self.ports[inport].started_for
        return [slot for slot in self.unhad(channel, source) if slot is not told]

    def needed(self, channel: int, source: Source) -> list[Slot]:
        """Steps of the source that some rank may still open from the channel, or has open."""
        inport = self.channels[channel].inport
        return [slot for slot in self._kept(channel, source) if slot.holds[inport] or self._wanted(inport, slot)]

    def gives_up(self, inport: int, rank: int, slot: Slot) -> bool:
        """Whether the rank has left the step, which it has not had, to another rank that has."""
        state = self.ports[inport]
        if state.shared or self.inports[inport].in_order or not slot.had[inport]:
            return False
        return state.latest[rank] > slot.stamp

    def blocking(self, who: Process, call: Call) -> list[int]:
        """The channels that keep the process from creating the file."""
        source = self.source(call.port, who.rank)
        return [index for index in self._offers(call.port, call.name) if self._full(index, source)]

    def can_produce(self, inport: int) -> bool:
        """Whether a further step may come."""
        return any(source.rank[0] not in self.ended for _, source in self.reading_from[inport])

    def polls(self, rank: Rank) -> bool:
        """Whether the rank does nothing but ask, and is shown nothing new."""
        return self.vain[rank].times >= AGAIN

    def polls_in_vain(self, task: int) -> bool:
        """Whether the task does nothing but ask for what will not come, so that it may be ended."""
        if any(port.task == task for port in self.outports):
            return False
        return all(self.vain[task, rank].over >= AGAIN for rank in range(self.tasks[task]))

    def next_step(self, task: int) -> Step | None:
        """The oldest step that no rank of the task has had: for which its program is started again."""
        slot = self._next_slot([inport for inport, port in enumerate(self.inports) if port.task == task])
        return slot.step if slot else None

    def account(self, index: int) -> Account:
        """What became of all steps that were published for the channel."""
        inport = self.channels[index].inport
        count: dict[str, int] = defaultdict(int)
        for channel, source in self.reading_from[inport]:
            for slot in source.slots:
                if channel == index and index in slot.on:
                    count["read" if inport in slot.gone or slot.had[inport] else slot.on[index]] += 1
        parts = [count[fate] for fate in ("read", "skipped", "dropped", "let go", "kept")]
        return Account(sum(parts), *parts)

    def decide(self, who: Process, call: Call) -> Answer:
        """What the process is answered now. Changes nothing."""
        if call.kind == "create":
            return Wait("room") if self.blocking(who, call) else Go()
        if call.kind == "poll":
            return Wait("data") if self.can_produce(call.port) else Listed((), ())
        state = self.ports[call.port]
        if (place := self._place(call.port, who.rank)) is not None and place < len(state.log):
            known, answer = state.log[place]
            if known == call:
                return answer
        if call.kind == "list":
            return self._list(call.port, who.rank)
        found = self.find(call.port, who.rank, call.name)
        if call.kind == "look":
            if found.slot is None and (had := self._had(call.port, who.rank, call.name)):
                found = Found(had)
            if found.slot is not None:
                return Seen(found.slot.step)
            waits = who in self.insisting and self._wait_for_room(call.port)
            if self._may_not_wait(call.port) and not waits and not found.passed and self.can_produce(call.port):
                return Missing("now")
        elif found.slot is not None:
            return Opened(found.slot.step)
        if found.passed:
            return Missing("passed")
        if not self.can_produce(call.port):
            return Missing("ended")
        return Wait("data")

    def find(self, inport: int, rank: int, name: str) -> Found:
        """The step that the rank gets if it opens the name now."""
        if self.inports[inport].in_order:
            return Found(self._next_in_order(inport, rank))
        unread: list[Slot] = []
        again: list[Slot] = []
        passed = False
        for channel, source in self.reading_from[inport]:
            named = source.names.get(name, [])
            had = max((slot.step.sequence for slot in named if slot.had_by(inport, rank)), default=-1)
            own = [
                slot
                for slot in named
                if slot.there
                and slot.on.get(channel) == "kept"
                and slot.step.sequence > had
                and not (source.rewrites and self.gives_up(inport, rank, slot))
            ]
            if own:
                unread.append(own[0])
            elif not named or source.rewrites or not self._is_settled(inport, rank, source, name):
                continue
            elif had >= 0 and source.slots[had].there and inport not in source.slots[had].gone:
                again.append(source.slots[had])
            else:
                passed = True
        best = min(unread or again, key=lambda slot: slot.stamp, default=None)
        return Found(best, best is None and passed)

    # How it comes about.

    def _ask(self, who: Process, call: Call) -> Answer:
        answer = self.decide(who, call)
        if isinstance(answer, Wait):
            self.waits[who] = call
        else:
            self.answer(who, call, answer)
        return answer

    def answer(self, who: Process, call: Call, answer: Answer) -> None:
        """Let the process go on with this answer."""
        self.waits.pop(who, None)
        self.insisting.discard(who)
        self._note_vain(who, call, answer)
        if call.kind == "create":
            source = self.source(call.port, who.rank)
            self._replace_one(source)
            self.clock += 1
            source.writing.append((who, call.name, self.clock))
            return
        state = self.ports[call.port]
        if (place := self._place(call.port, who.rank)) is not None:
            if place == len(state.log):
                state.log.append((call, answer))
            if state.log[place][0] == call:
                state.position[who.rank] = place + 1
            else:
                state.apart.add(who.rank)
        if isinstance(answer, Opened):
            self._take(call.port, who.rank, self.slot(answer.step))

    def _note_vain(self, who: Process, call: Call, answer: Answer) -> None:
        vain = self.vain[who.of]
        if call.kind == "list" and isinstance(answer, Listed):
            last = max((self.slot(step).stamp for step in answer.steps), default=0)
            asks = last <= vain.shown[call.port]
            vain.shown[call.port] = max(last, vain.shown[call.port])
            vain.name, vain.lists = "", call.port
        elif asks := call.kind == "look" and isinstance(answer, Missing):
            vain.name, vain.lists = call.name, None
        elif call.kind == "look" or isinstance(answer, Missing):
            return
        over = not any(port.task == who.task and self.can_produce(index) for index, port in enumerate(self.inports))
        vain.times = vain.times + 1 if asks else 0
        vain.over = vain.over + 1 if asks and over else 0

    def _take(self, inport: int, rank: int, slot: Slot) -> None:
        state = self.ports[inport]
        if self.inports[inport].in_order and slot not in state.delivered:
            state.delivered.append(slot)
        slot.had[inport].add(rank)
        state.shared |= len(slot.had[inport]) > 1
        state.latest[rank] = max(state.latest[rank], slot.stamp)
        state.settled.pop(rank, None)
        state.last[rank, slot.step.outport, slot.step.rank] = slot
        self.clock += 1
        slot.used = self.clock
        slot.holds[inport] += 1

    def _list(self, inport: int, rank: int) -> Answer:
        slots = [
            slot
            for channel, source in self.reading_from[inport]
            for slot in self._kept(channel, source)
            if self.find(inport, rank, slot.step.name).slot is slot or self._stays_had(inport, rank, source, slot)
        ]
        slots.sort(key=lambda slot: slot.stamp)
        listed = Listed(tuple(slot.step.name for slot in slots), tuple(slot.step for slot in slots))
        whole = self.inports[inport].listing == "end"
        began = bool(slots or self.ports[inport].latest[rank]) and not whole
        if began or not self.can_produce(inport) or (self._may_not_wait(inport) and not whole):
            return listed
        return Wait("data")

    def _may_not_wait(self, inport: int) -> bool:
        """Whether a look at a file that is not there is answered at once."""
        if self.inports[inport].looks == "now":
            return True
        for channel, source in self.reading_from[inport]:
            if self.channels[channel].policy.when_full != "block" and any(channel in slot.on for slot in source.slots):
                return True
        return False

    def _wait_for_room(self, inport: int) -> bool:
        """Whether all wait for room that could write for the in-port."""
        writers = {source.rank for _, source in self.reading_from[inport]}
        processes = [who for who in self.living if who.of in writers and who not in self.resting]
        resting = any(who.of in writers for who in self.resting)
        full = [who for who in processes if who in self.waits and self.waits[who].kind == "create"]
        return full == processes and (bool(full) or not resting)

    def _had(self, inport: int, rank: int, name: str) -> Slot | None:
        """The step of the name that the rank has had, if it is retained."""
        any_name = self.inports[inport].in_order
        named = [
            slot
            for channel, source in self.reading_from[inport]
            for slot in self._kept(channel, source)
            if rank in slot.had[inport] and (any_name or slot.step.name == name)
        ]
        return max(named, key=lambda slot: slot.stamp, default=None)

    def _stays_had(self, inport: int, rank: int, source: Source, slot: Slot) -> bool:
        """Whether the rank has had the step, and it is there, even if an open of its name may yet mean a later one."""
        if self.inports[inport].in_order or source.rewrites:
            return False
        return slot.there and inport not in slot.gone and rank in slot.had[inport]

    def _is_settled(self, inport: int, rank: int, source: Source, name: str) -> bool:
        """Whether the source does not begin the name anew, which it has published, as far as the rank may know."""
        begun = self._begun(source)
        latest = next((slot for slot in reversed(source.slots) if slot.had_by(inport, rank)), None)
        if latest is None:
            return name not in begun
        if latest.step.name == name and inport not in latest.gone and source.renames:
            return True
        if name in begun:
            return False
        if begun or source.slots[-1] is not latest or source.rank[0] in self.ended:
            return True
        if self.ports[inport].settled.get(rank) == name:
            return True
        processes = [who for who in self.living if who.of == source.rank]
        return all(who in self.waits and self.waits[who].kind != "create" for who in processes)

    def may_settle(self, who: Process) -> bool:
        """Whether the process waits to open a name again of which its rank has had a step, in case another comes."""
        call = self.waits[who]
        if call.kind != "open" or self.inports[call.port].in_order:
            return False
        if self.ports[call.port].settled.get(who.rank) == call.name:
            return False
        named = [(source, source.names.get(call.name, ())) for _, source in self.reading_from[call.port]]
        return any(
            not source.rewrites and slot.had_by(call.port, who.rank) for source, slots in named for slot in slots
        )

    def _begun(self, source: Source) -> set[str]:
        """Names of files that the source has begun, or waits to begin."""
        waiting = {
            call.name
            for who, call in self.waits.items()
            if call.kind == "create" and call.port == source.outport and who.of == source.rank
        }
        return waiting | {name for _, name, _ in source.writing}

    def _next_in_order(self, inport: int, rank: int) -> Slot | None:
        state = self.ports[inport]
        for slot in state.delivered:
            if not slot.had_by(inport, rank):
                return slot
        fresh = [
            slot
            for channel, source in self.reading_from[inport]
            for slot in self._kept(channel, source)
            if slot not in state.delivered
        ]
        return min(fresh, key=lambda slot: slot.stamp, default=None)

    def _full(self, channel: int, source: Source) -> bool:
        port = self.inports[self.channels[channel].inport]
        policy = self.channels[channel].policy
        if port.task in self.ended:
            return False
        begun = len(source.writing)
        if len(self.needed(channel, source)) + begun >= self.bound(channel) + SPARE_STEPS:
            return True
        if policy.when_full != "block" or not policy.keeps(self.states[channel].offered[source.rank[1]]):
            return False
        return len(self.unhad(channel, source)) >= self.bound(channel)

    def _wanted(self, inport: int, slot: Slot) -> bool:
        """Whether some rank may still open the step, which is on a channel to the in-port."""
        port, had = self.inports[inport], slot.had[inport]
        if port.task in self.ended or inport in slot.gone or len(had) == port.readers:
            return False
        return any(rank not in had and not self.gives_up(inport, rank, slot) for rank in range(port.readers))

    def _replace_one(self, source: Source) -> None:
        """Takes the place of a step that all ranks are done with, if as many are there as are retained."""
        channels = self.writing_to[source.outport]
        ports = [self.channels[index].inport for index in channels]
        whole = any(self.inports[port].listing == "end" for port in ports)
        if len(source.present) < self.outports[source.outport].retained or whole:
            return
        kept = {slot for index in channels for slot in self.needed(index, source)}
        for port in ports:
            kept.update(self.ports[port].last.values())
            kept.update(self._logged(port))
        if free := [slot for slot in source.present if slot not in kept]:
            oldest = min(free, key=lambda slot: (slot.used, slot.stamp))
            oldest.there = False
            source.present.remove(oldest)

    def _logged(self, inport: int) -> Iterator[Slot]:
        """Steps that ranks were given, or shown, which others have yet to ask for."""
        state, readers = self.ports[inport], self.inports[inport].readers
        ranks = [state.position[rank] for rank in range(readers) if rank not in state.apart]
        if readers < 2 or not ranks:
            return
        for _, answer in state.log[min(ranks) :]:
            if isinstance(answer, Opened | Seen):
                yield self.slot(answer.step)
            elif isinstance(answer, Listed):
                yield from map(self.slot, answer.steps)

    def _place(self, inport: int, rank: int) -> int | None:
        """How far the rank has come in the log of the in-port, while it makes the same calls as others."""
        state = self.ports[inport]
        if self.inports[inport].in_order or self.inports[inport].readers < 2 or rank in state.apart:
            return None
        return state.position[rank]

    def _next_slot(self, inports: Sequence[int]) -> Slot | None:
        """The oldest step on these in-ports that no rank of their task has had."""
        slots = [
            slot
            for inport in inports
            for channel, source in self.reading_from[inport]
            for slot in self._kept(channel, source)
            if inport not in slot.gone and not slot.had[inport]
        ]
        return min(slots, key=lambda slot: slot.stamp, default=None)

    def _offered_to(self, inport: int) -> Iterator[Slot]:
        """All steps of the in-port's producers."""
        return (slot for _, source in self.reading_from[inport] for slot in source.slots)

    def _kept(self, channel: int, source: Source) -> Iterator[Slot]:
        return (slot for slot in source.present if slot.on.get(channel) == "kept")

    def _offers(self, outport: int, name: str) -> list[int]:
        """The channels that a file of this name is published for."""
        return [k for k in self.writing_to[outport] if fnmatchcase(name, self.inports[self.channels[k].inport].pattern)]

    def _port(self, ports: Sequence[OutPort | InPort], who: Process, name: str) -> int:
        return next(k for k, port in enumerate(ports) if port.task == who.task and fnmatchcase(name, port.pattern))

    def _forget_processes(self, task: int) -> None:
        self.living = {who for who in self.living if who.task != task}
        self.resting &= self.living
        self.waits = {who: call for who, call in self.waits.items() if who.task != task}
        self.insisting &= self.waits.keys()
