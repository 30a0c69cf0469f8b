"""The rules of the reference machine of the step store: what it knows of a run, and what follows from that.

Nothing here changes anything but itself: `reference.store` has the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from reference.records import (
    AGAIN,
    Account,
    Answer,
    Call,
    Channel,
    ChannelState,
    File,
    Found,
    InPort,
    InPortState,
    Listed,
    Missing,
    Opened,
    OutPort,
    Process,
    Published,
    Rank,
    Seen,
    Slot,
    Source,
    Step,
    Vain,
)

from wilkins.flow.machine import SPARE_STEPS, Go, Wait


class Rules:
    """All tasks of a run, and what is so. `tasks` are their numbers of ranks."""

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
        self.stages = {
            inport: outport
            for inport, read in enumerate(inports)
            for outport, written in enumerate(outports)
            if (read.task, read.pattern) == (written.task, written.pattern)
        }
        """In-ports whose files their task passes on, and the out-ports to which it does."""
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
        self.for_room: set[Process] = set()
        """Those of them that wait for room or memory, and not for a step."""
        self.published: list[Published] = []
        self.resting: set[Process] = set()
        """Processes or threads that sleep until another one of their rank wakes them, or another rank of their task."""
        self.insisting: set[Process] = set()
        """Processes whose look is a poll."""
        self.vain: dict[Rank, Vain] = defaultdict(Vain)
        self.clock = 0

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
        task = self.inports[inport].task
        return [slot for slot in self._kept(channel, source) if slot.is_open(task) or self._wanted(inport, slot)]

    def gives_up(self, inport: int, rank: int, slot: Slot) -> bool:
        """Whether the rank has left the step, which it has not had, to another rank that has."""
        state = self.ports[inport]
        if state.shared or self.inports[inport].in_order or not slot.had[inport]:
            return False
        return state.latest[rank] > slot.stamp

    def blocking(self, who: Process, call: Call) -> list[int]:
        """The channels that keep the process from creating the file; or a stage from copying it, if it is there."""
        port = self.writes(call)
        if port is None:
            return []
        source = self.source(port, who.rank)
        return [index for index in self._offers(port, call.name) if self._full(index, source)]

    def waits_for(self, who: Process) -> str | None:
        """For what the process waits: ``room``, which memory is, too, ``data``, or nothing."""
        return None if who not in self.waits else "room" if who in self.for_room else "data"

    def writes(self, call: Call) -> int | None:
        """The out-port of which the call begins a file."""
        return call.port if call.kind == "create" else self.stages.get(call.port) if call.kind == "open" else None

    def in_memory(self, outport: int) -> int:
        """How many files of the port take memory: all that were begun and not replaced."""
        return sum(len(source.present) + len(source.writing) for source in self.sources if source.outport == outport)

    def lacks_memory(self, outport: int) -> bool:
        """Whether the port has no memory for a file more, and nobody can be made to give any back."""
        memory = self.outports[outport].memory
        if memory is None or self.in_memory(outport) < memory:
            return False
        return not any(self.free(source, pressed=True) for source in self.sources if source.outport == outport)

    def free(self, source: Source, pressed: bool = False) -> list[Slot]:
        """Steps of the source that may be replaced: no rank may still open them, and no process sees them. `pressed`:
        what a rank has opened last, too, or others may yet ask for as it did, for want of memory."""
        channels = self.writing_to[source.outport]
        ports = [self.channels[index].inport for index in channels]
        if any(self.inports[port].listing == "end" for port in ports):
            return []
        needed = {slot for index in channels for slot in self.needed(index, source)}
        for port in [] if pressed else ports:
            needed.update(self._logged(port))
            needed.update(self.ports[port].last.values())
        return [slot for slot in source.present if slot not in needed and not slot.holds and not self.is_seen(slot)]

    def is_seen(self, slot: Slot) -> bool:
        """Whether a program can see the step though it has closed it."""
        return bool(slot.views)

    def seen(self, outport: int) -> list[Slot]:
        """Steps of the port of which that alone keeps the memory."""
        slots = [slot for source in self.sources if source.outport == outport for slot in source.present]
        return [slot for slot in slots if self.is_seen(slot)]

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
            return self._room(who, call) or Go()
        if call.kind == "poll":
            return Wait("data") if self.can_produce(call.port) else Listed((), ())
        state = self.ports[call.port]
        own = self.own(call) if call.kind in ("open", "look") else None
        if own is not None:
            return (Opened if call.kind == "open" else Seen)(own.step)
        if (place := self._place(call.port, who.rank)) is not None and place < len(state.log):
            known, answer = state.log[place]
            if known == call and not (isinstance(answer, Opened | Seen) and not self.slot(answer.step).there):
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
            wait = self._room(who, call) if call.port in self.stages else None
            return wait or Opened(found.slot.step)
        if found.passed:
            return Missing("passed")
        if not self.can_produce(call.port):
            return Missing("ended")
        return Wait("data")

    def copy(self, call: Call) -> tuple[Source, File] | None:
        """The file of a stage's own that the name means, and that it has not passed on."""
        copies = [
            (source, file)
            for source in self.sources
            if source.outport == self.stages.get(call.port)
            for file in source.writing
            if file.copy_of and file.name == call.name
        ]
        return copies[0] if copies else None

    def own(self, call: Call) -> Slot | None:
        """Of that file, or of one that the stage has passed on and may read again, the step that it is called by."""
        if call.port not in self.stages:
            return None
        if (found := self.copy(call)) is not None:
            return found[1].copy_of
        passed = [
            slot
            for source in self.sources
            if source.outport == self.stages[call.port]
            for slot in source.names.get(call.name, [])
            if slot.there
        ]
        return passed[-1] if passed else None

    def file(self, who: Process, name: str) -> tuple[Source, File]:
        """A file that the process has open to write it."""
        return next(found for found in self.files(who) if found[1].name == name)

    def files(self, who: Process) -> list[tuple[Source, File]]:
        """All of them, in the order in which they were begun."""
        found = [(source, file) for source in self.sources for file in source.writing if who in file.openers]
        return sorted(found, key=lambda one: one[1].begun)

    def copies(self, task: int) -> list[tuple[Source, File]]:
        """Files that the task, a stage, has copied and closed, and not passed on, in that order."""
        own = [(source, file) for source in self.sources if source.rank[0] == task for file in source.writing]
        return sorted([one for one in own if one[1].copy_of and not one[1].openers], key=lambda one: one[1].begun)

    def visible(self, who: Process) -> list[Slot]:
        """Steps that the process has open, or can see."""
        slots = [slot for source in self.sources for slot in source.present]
        return [slot for slot in slots if who in slot.holds or who in slot.views]

    def _room(self, who: Process, call: Call) -> Wait | None:
        """What the process waits for that begins a file."""
        port = self.writes(call)
        if self.blocking(who, call):
            return Wait("room")
        return Wait("memory") if port is not None and self.lacks_memory(port) else None

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

    # Of parts.

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
        full = [who for who in processes if self.waits_for(who) == "room"]
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
        return all(self.waits_for(who) == "data" for who in processes)

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
            if self.writes(call) == source.outport and who.of == source.rank and self.waits_for(who) == "room"
        }
        return waiting | {file.name for file in source.writing}

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
        port = self.inports[inport]
        if inport in self.stages or port.in_order or port.readers < 2 or rank in state.apart:
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
