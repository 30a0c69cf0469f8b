"""Reference state machine of the step store: tasks with ranks, in-ports and their sources, names. No I/O.

`wilkins.flow.machine` is one channel of one source, in order. Here whole tasks meet: each event is a call of a process
(it creates or publishes a file, opens a name, looks at one, lists, closes, ends), and each answer is what the native
layer would do: go on, wait, or be told that the file is missing. `reference.circles` decides what happens when calls
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
  For listings that are polls, full channels stretch, and nothing is given up (`reference.circles.relieve_poll`); a
  look that is one waits as an open does, also where others would not, once all who write wait for room. A task of which
  all ranks poll, and for which nothing more will come, may be ended, if it writes nothing.
- A step that some process can still see is not replaced: by a mapping that it has kept, or from its parent. It takes
  memory of its port. If that is full, whoever begins a file waits; in a circle of waits the run ends, and names who
  sees steps (`reference.circles.Filled`).
- A file is published when all that have it open have closed it. The end of a process closes its files, or, if that
  leaves them torn, takes them away: then the name may be begun again (`Store.exit`). A fork that has but inherited a
  file, and sleeps, does not hold it.
- A stage is a task with one pattern among its in-ports and out-ports. Each step that it opens is a file of its own from
  then on, for which it waits for room as any writer does. It passes each on once, changed or not: when the process that
  has had it opens another one, waits for data, or ends; or when the task ends, unless that has failed.
- Ranks that make the same calls of a port, one by one, get the same answers (`InPortState.log`).
"""

from __future__ import annotations

from collections import defaultdict

from reference.records import (
    AGAIN,
    Answer,
    Call,
    End,
    File,
    InPortState,
    Listed,
    Missing,
    Opened,
    Process,
    Published,
    Slot,
    Source,
    Step,
    Vain,
)
from reference.rules import Rules

from wilkins.flow.machine import Wait


class Store(Rules):
    """What happens to the tasks of a run."""

    # Events.

    def create(self, who: Process, name: str) -> Answer:
        """The process begins a file."""
        return self._ask(who, Call("create", self._port(self.outports, who, name), name))

    def write(self, who: Process, name: str) -> None:
        """The process writes to a file that it has open."""
        _, file = self.file(who, name)
        file.openers[who] = True
        file.flushed = False

    def flush(self, who: Process, name: str) -> None:
        """HDF5 has flushed a file that the process has open."""
        self.file(who, name)[1].flushed = True

    def publish(self, who: Process, name: str) -> Published | None:
        """The process closes a file that it has written: if nobody else has it open, it is the source's next step."""
        before = len(self.published)
        self._leave(*self.file(who, name), who, whole=True)
        return self.published[-1] if len(self.published) > before else None

    def _publish(self, source: Source, file: File) -> None:
        port, name = source.outport, file.name
        source.writing.remove(file)
        self.clock += 1
        slot = Slot(Step(port, source.rank[1], len(source.slots), name), self.clock, {})
        kept = []
        dropped: list[tuple[int, Step]] = []
        for index in self._offers(port, name):
            channel = self.channels[index]
            before = self.states[index].offered[source.rank[1]]
            self.states[index].offered[source.rank[1]] = before + 1
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
        self.published.append(Published(slot.step, tuple(kept), tuple(dropped)))

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
        slot = self.slot(step)
        for source in self.sources:
            for file in source.writing:
                if file.copy_of is slot and who in file.openers:
                    return self._leave(source, file, who, whole=True)
        slot.holds[who] -= 1
        if not slot.holds[who]:
            del slot.holds[who]
        return None

    def keep(self, who: Process, step: Step) -> None:
        """The process can see a step that it has open, also when it has closed it: by a mapping, say."""
        self.slot(step).views.add(who)

    def forget(self, who: Process, step: Step) -> None:
        """It can no longer."""
        self.slot(step).views.discard(who)

    def rest(self, who: Process) -> None:
        """The process sleeps until another one of its rank wakes it, or another rank of its task. A file that it has
        merely inherited it does not hold."""
        self.resting.add(who)
        for source, file in self.files(who):
            self._settle(source, file)

    def wake(self, who: Process) -> None:
        """The process goes on."""
        self.resting.discard(who)

    def fork(self, who: Process, parent: Process | None = None) -> None:
        """A further process of a rank begins. What its parent has open to write, it has, too; it sees the steps that
        its parent does."""
        self.living.add(who)
        if parent is None:
            return
        for _, file in self.files(parent):
            file.openers[who] = False
        for slot in self.visible(parent):
            slot.views.add(who)

    def exit(self, who: Process, end: End = "return") -> list[Published]:
        """The process is over. What it has left open is closed by a return; so are bytes by any end but a signal. HDF5
        that was flushed, and not written since, is whole, too. Other files of which it is the last writer are none, but
        for those that the process has closed which began them."""
        before = len(self.published)
        for source, file in self.files(who):
            raw = self.outports[source.outport].raw
            closed = end == "return" or (end == "_exit" and raw)
            self._leave(source, file, who, whole=closed or (file.flushed and not raw))
        for slot in self.visible(who):
            slot.holds.pop(who, None)
            slot.views.discard(who)
        if end != "signal":
            self._pass_on(who)
        self.living.discard(who)
        self.resting.discard(who)
        return self.published[before:]

    def end(self, task: int, failed: bool = False) -> None:
        """The task is over: no file of it will come, and it is done with all files. What a stage has not passed on, it
        does now, unless it has failed."""
        for source, file in [] if failed else self.copies(task):
            self._publish(source, file)
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

    # How it comes about.

    def _ask(self, who: Process, call: Call) -> Answer:
        if self.turns(who, call):
            self._pass_on(who)
        answer = self.decide(who, call)
        if isinstance(answer, Wait):
            self.waits[who] = call
            (self.for_room.discard if answer.what == "data" else self.for_room.add)(who)
        else:
            self.answer(who, call, answer)
        return answer

    def answer(self, who: Process, call: Call, answer: Answer) -> None:
        """Let the process go on with this answer."""
        self.waits.pop(who, None)
        self.insisting.discard(who)
        self._note_vain(who, call, answer)
        if call.kind == "create":
            self._begin(who, call, None)
            return
        state = self.ports[call.port]
        if (place := self._place(call.port, who.rank)) is not None:
            if place == len(state.log):
                state.log.append((call, answer))
            if state.log[place] == (call, answer):
                state.position[who.rank] = place + 1
            else:
                state.apart.add(who.rank)
        if isinstance(answer, Opened):
            self._open(who, call, self.slot(answer.step))

    def _open(self, who: Process, call: Call, slot: Slot) -> None:
        if call.port in self.stages:
            if self.own(call) is None:
                self._take(call.port, who.rank, slot)
                self._begin(who, call, slot)
            if (found := self.copy(call)) is not None:
                found[1].used_by = who
                found[1].openers[who] = True
                return
        else:
            self._take(call.port, who.rank, slot)
        slot.holds[who] = slot.holds.get(who, 0) + 1

    def _begin(self, who: Process, call: Call, copy_of: Slot | None) -> None:
        source = self.source(self.stages[call.port] if copy_of else call.port, who.rank)
        self._make_room(source)
        self.clock += 1
        source.writing.append(File(call.name, self.clock, who, copy_of, {who: True}))

    def _leave(self, source: Source, file: File, who: Process, whole: bool) -> None:
        """The process has the file no longer open. `whole`: it is what the process wanted it to be."""
        wrote = file.openers.pop(who)
        file.closed |= whole and who == file.used_by and file.copy_of is None
        if wrote and not (whole or file.closed) and not any(file.openers.values()):
            source.writing.remove(file)
        else:
            self._settle(source, file)

    def _settle(self, source: Source, file: File) -> None:
        """Publish a file that nobody has open who has written to it, or may yet."""
        held = any(wrote or who not in self.resting for who, wrote in file.openers.items())
        if not held and file.copy_of is None:
            self._publish(source, file)

    def turns(self, who: Process, call: Call) -> bool:
        """Whether the process turns from the files that it has had to another one, or waits for one."""
        if call.kind in ("create", "poll") or call.port not in self.stages:
            return False
        return self.own(call) is None if call.kind == "open" else self.decide(who, call) == Wait("data")

    def _pass_on(self, who: Process) -> None:
        """Publish what the process, of a stage, has had last and closed, and what those have that are over."""
        for source, file in self.copies(who.task):
            if file.used_by == who or self._is_left(who, source, file):
                self._publish(source, file)

    def pass_on_left(self, who: Process) -> bool:
        """Publish what processes have left that are over, for one of their rank that waits. False: there is nothing."""
        left = [(source, file) for source, file in self.copies(who.task) if self._is_left(who, source, file)]
        for source, file in left:
            self._publish(source, file)
        return bool(left)

    def _is_left(self, who: Process, source: Source, file: File) -> bool:
        return file.used_by not in self.living and source.rank == who.of

    def _note_vain(self, who: Process, call: Call, answer: Answer) -> None:
        vain = self.vain[who.of]
        if call.kind == "list" and isinstance(answer, Listed):
            last = max((self.slot(step).stamp for step in answer.steps), default=0)
            asks = last <= vain.shown[call.port]
            vain.shown[call.port] = max(last, vain.shown[call.port])
            vain.name = ""
        elif asks := call.kind == "look" and isinstance(answer, Missing):
            vain.name = call.name
        elif call.kind == "look" or isinstance(answer, Missing):
            return
        over = not any(port.task == who.task and self.can_produce(index) for index, port in enumerate(self.inports))
        vain.times = vain.times + 1 if asks else 0
        vain.over = vain.over + 1 if asks and over else 0

    def _take(self, inport: int, rank: int, slot: Slot) -> None:
        state = self.ports[inport]
        if self.inports[inport].in_order and slot not in state.delivered:
            state.delivered.append(slot)
        slot.had[inport].update(range(self.inports[inport].readers) if inport in self.stages else [rank])
        state.shared |= len(slot.had[inport]) > 1 and inport not in self.stages
        state.latest[rank] = max(state.latest[rank], slot.stamp)
        state.settled.pop(rank, None)
        state.last[rank, slot.step.outport, slot.step.rank] = slot
        self.clock += 1
        slot.used = self.clock

    def _make_room(self, source: Source) -> None:
        """Steps that all ranks are done with, and no process sees, are replaced: one of the source's, if as many are
        there as are retained, and of any of its port's, if that has no more memory."""
        port = self.outports[source.outport]
        if len(source.present) >= port.retained:
            self._replace(self.free(source))
        others = [one for one in self.sources if one.outport == source.outport]
        while port.memory is not None and self.in_memory(source.outport) >= port.memory:
            if not self._replace([slot for one in others for slot in self.free(one, pressed=True)]):
                return

    def _replace(self, free: list[Slot]) -> bool:
        if free:
            oldest = min(free, key=lambda slot: (slot.used, slot.stamp))
            oldest.there = False
            self.source(oldest.step.outport, oldest.step.rank).present.remove(oldest)
        return bool(free)

    def _forget_processes(self, task: int) -> None:
        for source in self.sources:
            for slot in source.present:
                slot.holds = {who: times for who, times in slot.holds.items() if who.task != task}
                slot.views = {who for who in slot.views if who.task != task}
        self.living = {who for who in self.living if who.task != task}
        self.resting &= self.living
        self.waits = {who: call for who, call in self.waits.items() if who.task != task}
        self.insisting &= self.waits.keys()
