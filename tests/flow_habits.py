"""Random habits of programs, run against the reference machine of the step store, and what must then hold.

A scenario (`flow_scenarios.py`) says which files producers write, and how readers ask for them. Its programs
(`flow_programs.py`) are generators of calls; a scheduler lets one of them move at a time, chosen at random. `Run` keeps
books of its own from what the machine answered and told, and compares them with the files.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from flow_programs import (
    MORE,
    RESTS,
    WORKERS,
    Broken,
    Got,
    Program,
    pass_on,
    read,
    read_after,
    read_by_children,
    read_in_pool,
    read_listed,
    read_when_counted,
    read_when_there,
    write,
    write_by_workers,
)
from flow_scenarios import FOR_EVER, LEFT_OPEN, POLLS, Scenario, Stage

from wilkins.flow.circles import Filled, LetGo, Relief, Stopped, relieve, relieve_poll
from wilkins.flow.machine import SPARE_STEPS, Wait
from wilkins.flow.records import Channel, End, InPort, Listed, Missing, Opened, OutPort, Process, Published, Seen, Step
from wilkins.flow.store import Store

PATIENCE = 12
"""So often those that poll are let go on while nothing else moves."""


@dataclass
class Written:
    """A file that is begun."""

    of: tuple[int, int]
    """The rank that writes it."""
    name: str
    openers: dict[Process, bool]
    """Who has it open, and whether it has written to it."""
    flushed: bool = False


@dataclass
class Passed:
    """A file that a stage has opened, and not passed on."""

    openers: list[Process]
    last: Process
    """Who has opened it last."""


class Run:
    """A scenario on a machine. `steps` bounds how long it may take."""

    def __init__(self, scenario: Scenario, machine: type[Store] = Store, relief: Any = relieve) -> None:
        self.scenario = scenario
        self.relief = relief
        self.relieve_poll = relieve_poll
        self.rng = random.Random(scenario.seed)
        producers = len(scenario.files)
        self.reader, self.other = producers, producers + 1 if scenario.second != "none" else -1
        self.stages = dict(enumerate(scenario.stages, producers + 1))
        outports = [
            OutPort(task, pattern, scenario.retained, scenario.memory, scenario.raw)
            for task in range(producers)
            for pattern in scenario.patterns
        ]
        inports = [
            InPort(self.reader, pattern, scenario.readers, scenario.reorder, scenario.looks)
            for pattern in scenario.inports
        ]
        tasks = [*map(len, scenario.files), scenario.readers]
        channels: list[Channel] = []
        nearest = range(len(outports))
        for task, stage in self.stages.items():
            tasks.append(stage.ranks)
            first = len(inports)
            inports += [InPort(task, pattern, stage.ranks, scenario.reorder) for pattern in scenario.patterns]
            channels += [Channel(out, first + scenario.patterns.index(outports[out].pattern)) for out in nearest]
            nearest = range(len(outports), len(outports) + len(scenario.patterns))
            outports += [OutPort(task, pattern, scenario.retained, scenario.memory) for pattern in scenario.patterns]
        channels += [
            Channel(out, into, scenario.policy)
            for out in nearest
            for into in range(len(scenario.inports))
            if inports[into].pattern in ("*", outports[out].pattern)
        ]
        if scenario.second != "none":
            tasks.append(1)
            inports += [InPort(self.other, pattern, 1, scenario.reorder) for pattern in scenario.patterns]
            channels += [
                Channel(out, len(scenario.inports) + scenario.patterns.index(port.pattern))
                for out, port in enumerate(outports)
            ]
        if scenario.second == "after":
            outports.append(OutPort(self.reader, "made-*", scenario.retained))
            inports.append(InPort(self.other, "made-*"))
            channels.append(Channel(len(outports) - 1, len(inports) - 1))
        self.store = machine(tasks, outports, inports, channels)
        self.programs: dict[Process, Program] = {}
        self.calls: dict[Process, tuple[Any, ...]] = {}
        self.got: dict[tuple[int, int], Got] = {(task, rank): [] for task, n in enumerate(tasks) for rank in range(n)}
        self.told: list[tuple[Process, Relief]] = []
        self.idle = 0
        """How often nothing moved but those that poll, since a step was published or opened, or a channel gave way."""
        self.polled = False
        """The reader was ended, since it did nothing but poll."""
        self.children = 0
        self.filled = False
        """The run was ended for want of memory."""
        self.noted = 0
        self.published: list[Step] = []
        self.away: dict[tuple[int, Step], str] = {}
        """What became of steps that a channel did not keep."""
        self.offered: dict[tuple[int, int], int] = {}
        self.had: list[dict[int, list[Step]]] = [{rank: [] for rank in range(port.readers)} for port in inports]
        self.gone: list[set[Step]] = [set() for _ in inports]
        self.passed: dict[tuple[int, str], set[int]] = {}
        """Ranks that were told that a name of an in-port is gone."""
        self.writing: list[Written] = []
        """Files that are begun, and no steps yet."""
        self.passing: dict[tuple[int, str], Passed] = {}
        """Files that stages have opened, in that order, by task and name."""
        self.failed: set[int] = set()
        self.views: dict[Process, list[Step]] = {}
        """Steps that processes have open, or can see."""
        for task in range(len(tasks)):
            self.start(task)

    def start(self, task: int) -> None:
        """Begin the programs of a task."""
        scenario = self.scenario
        for rank in range(self.store.tasks[task]):
            got = self.got[task, rank]
            if task < self.reader and scenario.workers == "none":
                program = write(scenario.files[task][rank], scenario.leaves_open, scenario.meets)
            elif task < self.reader:
                rng = random.Random(scenario.seed + rank)
                program = write_by_workers(scenario.files[task][rank], scenario.workers, scenario.raw, rng)
            elif stage := self.stages.get(task):
                program = self.passes_on(stage, rank, got)
            elif task == self.other:
                names = scenario.in_turns()
                after = scenario.second == "after"
                program = read_after(names[: self.made()], "made-", got) if after else read(names, "open", got)
            elif scenario.habit == "list":
                program = read_listed(len(scenario.inports), got)
            elif scenario.habit == "each step":
                told = self.store.next_step(task)
                program = read([told.name] if told else [], "open", got)
            elif scenario.habit in ("count", "more"):
                names = scenario.names()[rank]
                wanted = [*names, MORE] if scenario.habit == "more" else names
                program = read_when_counted(names, wanted, len(scenario.inports), got)
            elif scenario.habit == "until":
                program = read_when_there(scenario.names()[rank], got)
            elif scenario.habit == "child":
                program = read_by_children(scenario.names()[rank], got, stay=scenario.keeps == FOR_EVER)
            elif scenario.spread == "pool":
                twice = 2 if scenario.habit == "two passes" else 1
                worker = partial(read, habit=scenario.habit, got=got, keeps=scenario.keeps)
                program = read_in_pool(worker, scenario.names()[0] * twice)
            else:
                twice = 2 if scenario.habit == "two passes" else 1
                makes = "made-" if scenario.second == "after" and rank == 0 else ""
                program = read(scenario.names()[rank] * twice, scenario.habit, got, makes, scenario.keeps)
            self.begin(Process(task, rank), program)

    def passes_on(self, stage: Stage, rank: int, got: Got) -> Program:
        """The program of a rank of a stage."""
        names = [name for _, name in self.scenario.in_order()]
        if stage.spread == "pool":
            return read_in_pool(partial(pass_on, stage=stage, got=got), names)
        return pass_on(names[rank :: stage.ranks] if stage.spread == "divided" else names, stage, got)

    def made(self) -> int:
        """How many files the reader makes."""
        return len(self.scenario.names()[0])

    def begin(self, who: Process, program: Program) -> None:
        """A process begins."""
        self.programs[who] = program
        self.go_on(who, None)

    def go_on(self, who: Process, answer: Any) -> None:
        """The process gets its answer and makes its next call, or ends."""
        try:
            self.calls[who] = self.programs[who].send(answer)
        except StopIteration:
            self.calls[who] = ("end", "return")
        if self.calls[who][0] == "end":
            self.leave(who, self.calls[who][1])
        else:
            (self.store.rest if self.calls[who][0] in RESTS else self.store.wake)(who)
            self.wake_parent(who)
            self.check_files()

    def leave(self, who: Process, end: End) -> None:
        """The process ends so, and with its last one its task; a rank that fails takes the others with it."""
        del self.programs[who], self.calls[who]
        self.store.exit(who, end)
        self.views.pop(who, None)
        for file in list(self.writing):
            if who in file.openers:
                wrote = file.openers.pop(who)
                closed = end == "return" or (end == "_exit" if self.scenario.raw else file.flushed)
                if wrote and not closed and not any(file.openers.values()):
                    self.writing.remove(file)
        for taken, copy in list(self.passing.items()):
            if who in copy.openers:
                copy.openers.remove(who)
                if end == "signal" and not copy.openers:
                    del self.passing[taken]
        self.check_files(turned=who if end != "signal" else None)
        self.check_torn()
        self.wake_parent(who)
        others = [other for other in self.programs if other.task == who.task]
        if end == "signal" and who.number == 0:
            self.failed.add(who.task)
        if not others:
            self.over(who.task)
        elif who.task in self.failed:
            self.leave(others[0], "signal")

    def over(self, task: int) -> None:
        """All programs of a task have ended."""
        one_step = task == self.reader and self.scenario.habit in ("list", "each step")
        if not one_step or (not self.may_come() and self.store.next_step(task) is None):
            failed = task in self.failed
            self.passing = {key: copy for key, copy in self.passing.items() if key[0] != task or not failed}
            self.store.end(task, failed)
            self.check_files()
            if left := [name for of, name in self.passing if of == task]:
                raise Broken(f"stage {task} has not passed on {left}")

    def may_come(self) -> bool:
        """Whether a further file may come to the reader."""
        return any(
            self.store.can_produce(port) for port, one in enumerate(self.store.inports) if one.task == self.reader
        )

    def run(self) -> None:
        """Until all tasks have ended.

        Raises:
            Broken: a rule does not hold.
        """
        still: set[Process] = set()
        for _ in range(20000):
            if self.filled:
                return None
            if len(self.store.ended) == len(self.store.tasks):
                return self.check_end()
            if self.start_again() or (self.scenario.meets and self.met()):
                still.clear()
                continue
            able = [who for who in self.programs if who not in still and self.calls[who][0] not in (*RESTS, "sleep")]
            if able:
                if self.rng.random() < 0.1:
                    self.wake(goes_on=True)
                who = self.rng.choice(able)
                begins = who not in self.store.waits
                asks = self.scenario.habit in POLLS and self.calls[who][0] in ("look", "list")
                told = len(self.told)
                moves = self.move(who)
                # A name that others wait for may be settled by the wait of its producer; by an answer nothing is.
                if (begins if not moves else not asks) or len(self.told) > told:
                    still.clear()
                if not moves:
                    still.add(who)
                continue
            waiting = sorted(self.store.waits)
            self.rng.shuffle(waiting)
            moved = any(self.relieve(who) for who in waiting)
            self.idle += 1
            if not (moved or self.joined() or self.end_polls() or self.wake(goes_on=self.idle < PATIENCE)):
                raise Broken(f"waits that last: {self.store.waits}")
            still.clear()
        raise Broken("it does not end")

    def wake(self, goes_on: bool) -> bool:
        """Let those that poll ask again, or, if they do not go on, do without."""
        sleepers = [who for who, call in self.calls.items() if call[0] == "sleep"]
        for who in sleepers:
            self.go_on(who, goes_on)
        return bool(sleepers)

    def end_polls(self) -> bool:
        """End the reader if it does nothing but poll for what will not come."""
        if self.reader in self.store.ended or not self.store.polls_in_vain(self.reader):
            return False
        if self.may_come():
            raise Broken("it is ended while files may come")
        self.polled = True
        for who in [who for who in self.programs if who.task == self.reader]:
            del self.programs[who], self.calls[who]
        self.store.end(self.reader)
        return True

    def joined(self) -> bool:
        """Let parents of pools whose workers have ended go on."""
        free = [who for who, call in self.calls.items() if call[0] == "join" and self.is_joined(who)]
        for who in free:
            for one in self.others(who):
                self.go_on(one, None)
            if not self.others(who):
                self.go_on(who, None)
        return bool(free)

    def others(self, who: Process) -> list[Process]:
        """The other processes of its rank."""
        return [one for one in self.programs if one.of == who.of and one != who]

    def is_joined(self, who: Process) -> bool:
        """Whether those that the process waits for have ended, or wait for it."""
        return all(self.calls[one][0] == "idle" for one in self.others(who))

    def wake_parent(self, child: Process) -> None:
        """Its parent may go on at once if it waits for what has happened."""
        parent = Process(*child.of)
        if self.calls.get(parent, ("",))[0] == "join" and self.is_joined(parent):
            self.store.wake(parent)

    def met(self) -> bool:
        """Let ranks go on that have met."""
        for task in range(self.reader):
            ranks = [who for who in self.programs if who.task == task]
            if ranks and all(self.calls[who] == ("meet",) for who in ranks):
                for who in ranks:
                    self.go_on(who, None)
                return True
        return False

    def start_again(self) -> bool:
        """Start a program for the next step, or end its task, if none runs."""
        if self.reader in self.store.ended or any(who.task == self.reader for who in self.programs):
            return False
        if self.store.next_step(self.reader) is None:
            if self.may_come():
                return False
            self.store.end(self.reader)
            return True
        self.store.restart(self.reader)
        for port, had in enumerate(self.had):
            if self.store.inports[port].task == self.reader:
                self.gone[port].update(step for steps in had.values() for step in steps)
                for rank in had:
                    had[rank] = []
        self.start(self.reader)
        return True

    def move(self, who: Process) -> bool:
        """Let a process make its call, or look again at what it waits for. False if it waits."""
        kind, *what = self.calls[who]
        answer: Any = None
        if who in self.store.waits:
            answer = self.store.retry(who)
        elif kind == "fork":
            for program in what[0]:
                self.children += 1
                worker = Process(who.task, who.rank, self.children)
                self.store.fork(worker, who)
                self.views[worker] = list(self.views.get(who, ()))
                for file in self.writing:
                    if who in file.openers:
                        file.openers[worker] = False
                self.begin(worker, program)
        elif kind in ("close", "keep", "forget"):
            getattr(self.store, kind)(who, what[0])
            self.note_view(who, kind, what[0])
        elif kind in ("use", "pause"):
            pass
        elif kind in ("write", "flush", "publish"):
            getattr(self.store, kind)(who, what[0])
            self.note_written(who, kind, what[0])
        elif kind == "list":
            answer = self.store.list_steps(who, what[0])
            if isinstance(answer, Listed) and (relief := self.relieve_poll(self.store, who, what[0])):
                self.told.append((who, relief))
                self.idle = 0
        else:
            answer = getattr(self.store, kind)(who, what[0])
        self.check_files(turned=self.turned(who, answer))
        if isinstance(answer, Wait):
            self.check_wait(who)
            return self.rng.random() < 0.3 and self.relieve(who)
        self.check_answer(who, answer)
        self.check_memory()
        self.go_on(who, answer)
        return True

    def turned(self, who: Process, answer: Any) -> Process | None:
        """The process, if it is one of a stage that turns to another file, or waits for one."""
        kind, *what = self.calls[who]
        if kind == "open" and (who.task, what[0]) not in self.passing:
            passed = [one for one in self.published if self.store.outports[one.outport].task == who.task]
            return None if any(one.name == what[0] for one in passed) else who
        return who if kind == "look" and answer == Wait("data") else None

    def relieve(self, who: Process) -> bool:
        """Let a waiting process look whether it waits in a circle. False if nothing came of it."""
        if who not in self.store.waits:
            return False
        relief = self.relief(self.store, who)
        if relief is None:
            return False
        self.told.append((who, relief))
        if not isinstance(relief, Missing | Listed):
            self.idle = 0
        if isinstance(relief, LetGo):
            self.check_let_go(relief)
            self.away[relief.channel, relief.step] = "let go"
        elif isinstance(relief, Filled):
            self.check_filled(relief)
            self.filled = True
        elif isinstance(relief, Stopped):
            raise Broken(f"stopped: {relief}")
        elif isinstance(relief, Missing | Listed):
            self.go_on(who, relief)
        return True

    # Books.

    def note_view(self, who: Process, kind: str, step: Step) -> None:
        views = self.views.setdefault(who, [])
        if kind == "keep":
            views.append(step)
        elif step in views:
            views.remove(step)
        else:
            self.passing[who.task, step.name].openers.remove(who)

    def note_written(self, who: Process, kind: str, name: str) -> None:
        file = next(one for one in self.writing if one.name == name and who in one.openers)
        if kind == "publish":
            del file.openers[who]
        else:
            file.flushed = kind == "flush"
            file.openers[who] = True

    def note_published(self, published: Published) -> None:
        step = published.step
        self.idle = 0
        if step.sequence != sum(one[:2] == step[:2] for one in self.published):
            raise Broken(f"{step} is not the next one")
        self.published.append(step)
        for index, channel in enumerate(self.store.channels):
            if channel.outport != step.outport or not fnmatchcase(
                step.name, self.store.inports[channel.inport].pattern
            ):
                continue
            before = self.offered.get((index, step.rank), 0)
            self.offered[index, step.rank] = before + 1
            policy = channel.policy
            if index not in published.kept:
                self.away[index, step] = "dropped" if policy.keeps(before) else "skipped"
                if policy.keeps(before) and policy.when_full != "drop-newest":
                    raise Broken(f"{step} is not kept")
            elif not policy.keeps(before):
                raise Broken(f"{step} is kept")
            unread = [one for one in self.kept(index) if one[:2] == step[:2] and not self.was_had(channel.inport, one)]
            bound = self.store.limit(index) if policy.when_full == "block" else policy.queue + 1 + SPARE_STEPS
            bound = max(bound, policy.queue) + (LEFT_OPEN if self.scenario.leaves_open else 0)
            if self.store.outports[step.outport].task in self.stages:  # Its processes may each have one to pass on.
                bound += WORKERS
            if len(unread) > bound and self.store.inports[channel.inport].task not in self.store.ended:
                raise Broken(f"{len(unread)} steps wait on channel {index}")
        for index, step in published.dropped:
            self.away[index, step] = "dropped"

    def kept(self, channel: int) -> list[Step]:
        """Steps that the channel took and has not given up."""
        outport = self.store.channels[channel].outport
        pattern = self.store.inports[self.store.channels[channel].inport].pattern
        steps = [step for step in self.published if step.outport == outport and fnmatchcase(step.name, pattern)]
        return [step for step in steps if (channel, step) not in self.away]

    def was_had(self, inport: int, step: Step) -> bool:
        return step in self.gone[inport] or any(step in steps for steps in self.had[inport].values())

    def channel(self, inport: int, step: Step) -> int:
        return next(
            index
            for index, channel in enumerate(self.store.channels)
            if channel.inport == inport and channel.outport == step.outport
        )

    def inport(self, who: Process, name: str) -> int:
        return next(
            k for k, port in enumerate(self.store.inports) if port.task == who.task and fnmatchcase(name, port.pattern)
        )

    # Rules.

    def note_taken(self, who: Process, inport: int, step: Step) -> None:
        """A process of a stage has opened a step: the first to do so makes it a file of the stage's."""
        key = who.task, step.name
        if key in self.passing:
            self.passing[key].openers.append(who)
            self.passing[key].last = who
        elif self.store.outports[step.outport].task == who.task:  # It was passed on, and is read again.
            self.views.setdefault(who, []).append(step)
        else:
            self.check_step(inport, who.rank, step.name, step)
            if self.was_had(inport, step):
                raise Broken(f"stage {who.task} is given {step} twice")
            for steps in self.had[inport].values():
                steps.append(step)
            self.passing[key] = Passed([who], who)

    def check_files(self, turned: Process | None = None) -> None:
        """What was published is what nobody writes any more; of a stage, what those have had that turn to another file
        or end. All of that was."""
        news = self.store.published[self.noted :]
        self.noted = len(self.store.published)
        placed = {key: place for place, key in enumerate(self.passing)}
        places: list[tuple[Process, int]] = []
        for published in news:
            step = published.step
            task = self.store.outports[step.outport].task
            if task in self.stages:
                copy = self.passing.pop((task, step.name), None)
                if copy is None or copy.openers or task in self.failed:
                    raise Broken(f"{step} is passed on twice, or while it is open, or by a stage that has failed")
                if copy.last in self.programs and copy.last != turned:
                    raise Broken(f"{step} is passed on before {copy.last} is done with it")
                places.append((copy.last, placed[task, step.name]))
            else:
                named = [one for one in self.writing if one.of == (task, step.rank) and one.name == step.name]
                file = next((one for one in named if not self.is_held(one)), None)
                if file is None:
                    raise Broken(f"{step} is published, and is torn or still open")
                self.writing.remove(file)
            self.note_published(published)
        if places != sorted(places, key=lambda one: one[1]) and len({who for who, _ in places}) == 1:
            raise Broken(f"{news} are not passed on in the order in which they were opened")
        if turned and (left := [k for k, one in self.passing.items() if one.last == turned and not one.openers]):
            raise Broken(f"{turned} goes on, and {left} is not passed on")
        if done := [file for file in self.writing if not self.is_held(file)]:
            raise Broken(f"{done} is not published")

    def check_torn(self) -> None:
        """Nothing is left of files whose writers have ended."""
        begun = {(*source.rank, file.name) for source in self.store.sources for file in source.writing}
        known = {(*file.of, file.name) for file in self.writing}
        known.update((task, rank, name) for task, name in self.passing for rank in (0, 1))
        if torn := begun - known:
            raise Broken(f"{torn} is left of processes that have ended")

    def is_held(self, file: Written) -> bool:
        """Whether somebody writes the file, or may yet."""
        return any(wrote or self.calls[who][0] not in RESTS for who, wrote in file.openers.items())

    def seen(self) -> set[Step]:
        """What programs have open, or can see."""
        return {step for steps in self.views.values() for step in steps}

    def check_memory(self) -> None:
        """What a program can see is there, and no port takes more memory than it has."""
        seen = self.seen()
        if gone := [step for step in seen if not self.store.slot(step).there]:
            raise Broken(f"{gone} can be seen, and the memory is that of other steps")
        if self.scenario.memory is None:
            return
        for outport, port in enumerate(self.store.outports):
            begun = [(file.of[0], file.name) for file in self.writing] + list(self.passing)
            begun = [one for one in begun if one[0] == port.task and fnmatchcase(one[1], port.pattern)]
            if port.memory and len(begun) + sum(step.outport == outport for step in seen) > port.memory:
                raise Broken(f"port {outport} takes more memory than it has")

    def check_filled(self, filled: Filled) -> None:
        """The run may end: the memory is full of what is needed, or seen by those that wait."""
        seen = {step for step in self.seen() if step.outport == filled.outport}
        if self.scenario.fits() or not seen.issuperset(step for _, step in filled.views) or not filled.views:
            raise Broken(f"{filled}, and they see {seen}")
        for who, step in filled.views:
            if step not in self.views.get(who, ()):
                raise Broken(f"{who} does not see {step}")
            if who not in self.store.waits and self.calls[who][0] not in RESTS:
                raise Broken(f"{who} may yet be done with {step}")
        for source in self.store.sources:
            for slot in source.present if source.outport == filled.outport else ():
                if slot.step not in seen and not self.is_wanted(slot.step):
                    raise Broken(f"{slot.step} takes memory, and nobody needs it")

    def is_wanted(self, step: Step) -> bool:
        """Whether some rank has not had the step, and a channel has it."""
        return any(
            channel.outport == step.outport
            and fnmatchcase(step.name, self.store.inports[channel.inport].pattern)
            and (index, step) not in self.away
            and any(step not in had for had in self.had[channel.inport].values())
            for index, channel in enumerate(self.store.channels)
        )

    def check_answer(self, who: Process, answer: Any) -> None:
        """The answer is right, by what was published, had and told so far."""
        kind, what = self.calls[who][0], (*self.calls[who], None)[1]
        if kind == "create":
            self.writing.append(Written(who.of, what, {who: True}))
        if kind not in ("open", "look", "list"):
            return
        inport = what if kind == "list" else self.inport(who, what)
        if isinstance(answer, Opened):
            self.idle = 0
            if who.task in self.stages:
                self.note_taken(who, inport, answer.step)
                return
            self.check_step(inport, who.rank, what, answer.step)
            self.had[inport][who.rank].append(answer.step)
            self.views.setdefault(who, []).append(answer.step)
        elif isinstance(answer, Seen):
            if answer.step.name != what or answer.step not in self.published:
                raise Broken(f"{who} looks at {what} and sees {answer.step}")
        elif isinstance(answer, Missing):
            self.check_missing(inport, who, what, answer)
        elif isinstance(answer, Listed):
            for step in answer.steps:
                if step in self.gone[inport] or step not in self.published:
                    raise Broken(f"{who} is shown {step}")

    def check_step(self, inport: int, rank: int, name: str, step: Step) -> None:
        """A rank may be given the step for this name."""
        had = self.had[inport][rank]
        if step.name != name or step not in self.published:
            raise Broken(f"rank {rank} opens {name} and gets {step}")
        if step in self.gone[inport]:
            raise Broken(f"{step} was had before its task was started again")
        if self.away.get((self.channel(inport, step), step)) and not self.was_had(inport, step):
            raise Broken(f"{step} was {self.away[self.channel(inport, step), step]}, and is given")
        named = [one for one in self.published if one[:2] == step[:2] and one.name == name]
        if step in had:
            if len(named) > 1 and not self.told_alike(inport, rank, step):
                raise Broken(f"{step} is given twice, and its name was published anew")
            return
        kept = [one for one in named if (self.channel(inport, one), one) not in self.away]
        before = [one for one in kept if one.sequence < step.sequence and not self.was_had(inport, one)]
        if before:
            raise Broken(f"{step} is given before {before[0]}")

    def told_alike(self, inport: int, rank: int, step: Step) -> bool:
        """Another rank was given it so, in calls that were the same."""
        return any(other != rank and steps.count(step) > 1 for other, steps in self.had[inport].items())

    def check_missing(self, inport: int, who: Process, name: str, missing: Missing) -> None:
        """The rank may be told that there is no such file."""
        kind = self.calls[who][0]
        may_come = any(
            self.store.outports[channel.outport].task not in self.store.ended
            for channel in self.store.channels
            if channel.inport == inport
        )
        if missing.why == "now":
            drops = self.scenario.policy.when_full != "block"
            if kind == "open" or not (self.store.inports[inport].looks == "now" or drops):
                raise Broken(f"{who} is told at once that there is no {name}")
            return
        if missing.why == "circle":
            if kind == "open":
                raise Broken(f"{who} is told of a circle")
            return
        if missing.why == "ended" and may_come:
            raise Broken(f"{who} is told that no {name} will come")
        linked = {channel.outport for channel in self.store.channels if channel.inport == inport}
        steps = [step for step in self.published if step.name == name and step.outport in linked]
        if missing.why == "passed" and not steps:
            raise Broken(f"{who} is told that {name} was there")
        self.passed.setdefault((inport, name), set()).add(who.rank)
        if missing.why == "passed" and self.passed[inport, name] != {who.rank}:
            return  # Ranks that make the same calls are answered alike.
        had = self.had[inport][who.rank]
        order = {step: place for place, step in enumerate(self.published)}
        for step in steps:
            told = self.away.get((self.channel(inport, step), step))
            if told or step in had or step in self.gone[inport]:
                continue
            later = any(order[one] > order[step] for one in had)
            if not (self.was_had(inport, step) and later):
                raise Broken(f"{who} does not get {step}, of which nobody was told ({missing.why})")

    def check_wait(self, who: Process) -> None:
        """Nobody waits for a file that is gone, of a source of which the rank has had nothing."""
        kind, name = self.calls[who]
        if kind not in ("open", "look") or not self.scenario.distinct():
            return
        inport = self.inport(who, name)
        linked = {channel.outport for channel in self.store.channels if channel.inport == inport}
        for step in self.published:
            if step.outport not in linked:
                continue
            read = any(one[:2] == step[:2] for one in [*self.had[inport][who.rank], *self.gone[inport]])
            if step.name == name and not read and (self.channel(inport, step), step) in self.away:
                raise Broken(f"{who} waits for {step}, which is gone")

    def check_let_go(self, relief: LetGo) -> None:
        """A step may be let go from a channel that is stretched to its end."""
        if self.store.bound(relief.channel) < self.store.limit(relief.channel) and self.scenario.memory is None:
            raise Broken(f"{relief.step} is let go before the channel is stretched")
        if self.away.get((relief.channel, relief.step)):
            raise Broken(f"{relief.step} is let go twice")

    def check_end(self) -> None:
        """Nothing is lost, doubled or wrong that the account does not tell."""
        for index, channel in enumerate(self.store.channels):
            pattern = self.store.inports[channel.inport].pattern
            offered = [
                step for step in self.published if step.outport == channel.outport and fnmatchcase(step.name, pattern)
            ]
            had = [step for step in offered if self.was_had(channel.inport, step)]
            fates = [self.away.get((index, step), "kept") for step in offered if step not in had]
            books = [len(offered), len(had), *(fates.count(fate) for fate in ("skipped", "dropped", "let go", "kept"))]
            if list(self.store.account(index)) != books:
                raise Broken(f"the account of channel {index} is {self.store.account(index)}, not {books}")
        written = sum(map(len, self.scenario.sources())) + self.made() * (self.scenario.second == "after")
        if sum(self.store.outports[step.outport].task not in self.stages for step in self.published) != written:
            raise Broken("a file was not published")
        if self.stages and self.scenario.passes_all():
            names = [name for _, name in self.scenario.written()]
            for rank in range(self.scenario.readers):
                if sorted({name for name, step in self.got[self.reader, rank] if step}) != sorted(names):
                    raise Broken(f"behind stages, rank {rank} has read {self.got[self.reader, rank]}")
        if self.scenario.is_exact():
            self.check_exact()

    def check_exact(self) -> None:
        """Each rank has read what it would read of files."""
        for _, relief in self.told:
            if isinstance(relief, LetGo):
                raise Broken(f"{relief}: the reader is within its window")
        if self.scenario.habit == "more":
            if not self.polled or any(self.got[self.reader, rank] for rank in range(self.scenario.readers)):
                raise Broken(f"it is not ended while polling, and has read {self.got}")
            return
        if self.scenario.habit in ("list", "each step"):
            expected = sorted({name for _, name in self.scenario.written()})
            for rank in range(self.scenario.readers):
                if sorted(name for name, _ in self.got[self.reader, rank]) != expected:
                    raise Broken(f"rank {rank} has read {self.got[self.reader, rank]}")
            return
        times = {"again": 2, "twice": 2, "two passes": 2}.get(self.scenario.habit, 1)
        for (task, rank), got in self.got.items():
            if task == self.reader and self.scenario.distinct():
                names = sorted(self.scenario.names()[rank] * times)
                if sorted(name for name, step in got if step or name == MORE) != names:
                    raise Broken(f"rank {rank} has read {got}")
            elif task == self.reader:
                for name in {name for name, _ in got}:
                    numbers = [step.sequence if step else None for asked, step in got if asked == name]
                    steps = [step.sequence for step in self.published if step.name == name]
                    if numbers != steps:
                        raise Broken(f"rank {rank} has read {numbers} of {name}, not {steps}")
            elif task == self.other and any(step is None for _, step in got) and self.scenario.distinct():
                raise Broken(f"the second reader has read {got}")
