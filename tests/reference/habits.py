"""Random habits of programs, run against the reference machine of the step store, and what must then hold.

A scenario (`scenarios.py`) says which files producers write, and how readers ask for them. Its programs (`programs.py`)
are generators of calls; a scheduler lets one of them move at a time, chosen at random. `Run` keeps books of its own
from what the machine answered and told, and compares them with the files.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from reference.books import Books
from reference.circles import Filled, LetGo, Stopped, relieve, relieve_poll
from reference.programs import (
    MORE,
    RESTS,
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
from reference.records import End, Listed, Missing, Process
from reference.scenarios import FOR_EVER, POLLS, Scenario, Stage
from reference.store import Store

from wilkins.flow.machine import Wait

PATIENCE = 40
"""So often those that poll are let go on while nothing else moves: more often than queues may have to grow for them."""


class Run(Books):
    """A scenario on a machine. `steps` bounds how long it may take."""

    def __init__(self, scenario: Scenario, machine: type[Store] = Store, relief: Any = relieve) -> None:
        self.relief = relief
        self.relieve_poll = relieve_poll
        self.rng = random.Random(scenario.seed)
        super().__init__(scenario, machine)
        for task in range(len(self.store.tasks)):
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
                file.closed |= closed and who == file.begun_by
                if wrote and not (closed or file.closed) and not any(file.openers.values()):
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
                news = len(self.told) + len(self.published)
                moves = self.move(who)
                # A name that others wait for may be settled by the wait of its producer; by an answer nothing is. A
                # stage that goes on to wait may have passed on what a process has left that is over.
                if (begins if not moves else not asks) or len(self.told) + len(self.published) > news:
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
        self.check_files()
        return True
