"""Random habits of programs, run against the reference machine of the step store, and what must then hold.

A scenario says which files producers write, and in which order and by which calls readers ask for them. Its programs
are generators of calls; a scheduler lets one of them move at a time, chosen at random. `Run` keeps books of its own
from what the machine answered and told, and compares them with the files.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, Literal

from hypothesis import strategies as st

from wilkins.flow import FlowPolicy
from wilkins.flow.circles import LetGo, Relief, Stopped, relieve, relieve_poll
from wilkins.flow.machine import SPARE_STEPS, Wait
from wilkins.flow.store import Channel, InPort, Listed, Missing, Opened, OutPort, Process, Published, Seen, Step, Store

Program = Generator[tuple[Any, ...], Any, None]
"""Yields calls, and is sent their answers: ``("create", name)``, ``("publish", name)``, ``("open", name)``,
``("look", name)``, ``("list", inport)``, ``("close", step)``, ``("lend", step)``, ``("use", step)``, ``("pause",)``,
``("fork", programs)``, ``("join",)``, ``("meet",)``: all ranks of its task, ``("sleep",)``: whether it makes sense to
go on."""

Order = Literal["written", "reversed", "window", "by name", "ports", "shuffled"]
Spread = Literal["all", "own order", "divided", "pool"]
Habit = Literal[
    "open", "look", "optional", "again", "twice", "two passes", "list", "each step", "count", "more", "until", "child"
]
Second = Literal["none", "in order", "after"]

POLLS: tuple[Habit, ...] = ("count", "more", "until")
PATIENCE = 12
"""So often those that poll are let go on while nothing else moves."""
MORE = "one more"
"""A name that nobody writes."""
RESTS = ("join", "meet")
WORKERS = 3
LEFT_OPEN = 2
"""Files that a producer which leaves some open to its end leaves."""


@dataclass(frozen=True)
class Scenario:
    """Programs and ports."""

    files: tuple[tuple[tuple[tuple[int, str], ...], ...], ...]
    """Of each producing task and rank: an out-port and a name, in the order in which it writes them."""
    patterns: tuple[str, ...]
    """Of the out-ports that every producing task has."""
    inports: tuple[str, ...]
    """Patterns of the reader's in-ports."""
    readers: int
    """Ranks of the reader."""
    order: Order
    spread: Spread
    """Whether the reader's ranks read all files, or divide them, or processes of a rank do."""
    habit: Habit
    left_out: int
    """The first name of so many is not read; 0: all are."""
    second: Second
    """Another task reads the files in order; ``after``: each file after one that the reader made of some file."""
    policy: FlowPolicy
    reorder: int
    retained: int
    looks: Literal["wait", "now"]
    leaves_open: bool
    """Producers leave their last two files open to their end."""
    meets: bool
    """Ranks of a producer meet after each file, as in a barrier."""
    seed: int
    """Of what programs and scheduler choose."""

    def sources(self) -> list[tuple[tuple[int, str], ...]]:
        """Files of each producing rank."""
        return [files for task in self.files for files in task]

    def distinct(self) -> bool:
        """Whether no name is published twice."""
        names = [name for files in self.sources() for _, name in files]
        return len(set(names)) == len(names)

    def written(self) -> list[tuple[int, str]]:
        """Files of all producers that match an in-port, in the order in which they come if all are equally fast."""
        sources = self.sources()
        turns = range(max(map(len, sources)))
        merged = [files[turn] for turn in turns for files in sources if turn < len(files)]
        return [file for file in merged if any(fnmatchcase(file[1], pattern) for pattern in self.inports)]

    def in_turns(self) -> list[str]:
        """Files of all ports, as the second reader reads them."""
        sources = self.sources()
        return [files[turn][1] for turn in range(max(map(len, sources))) for files in sources if turn < len(files)]

    def names(self) -> list[list[str]]:
        """What each rank of the reader asks for, in its order."""
        rng = random.Random(self.seed)

        def ordered() -> list[str]:
            names = [name for _, name in self.written()]
            match self.order:
                case "reversed":
                    names = [name for group in _groups(names, 3) for name in reversed(group)]
                case "window":
                    names = [name for group in _groups(names, 6) for name in rng.sample(group, len(group))]
                case "by name":
                    names.sort()
                case "ports":
                    names = [name for _, name in sorted(self.written(), key=lambda file: -file[0])]
                case "shuffled":
                    rng.shuffle(names)
            return [name for k, name in enumerate(names) if not self.left_out or k % self.left_out]

        first = ordered()
        match self.spread:
            case "own order":
                others = [ordered() for _ in range(1, self.readers)]
                for names in others:
                    if self.seed % 2:  # all begin with the same file
                        names.sort(key=lambda name: name != first[0])
                return [first, *others]
            case "divided":
                return [first[rank :: self.readers] for rank in range(self.readers)]
        return [first] * self.readers

    def is_exact(self) -> bool:
        """Whether each rank must get what it would read of files: all that it asks for, in the order of each name."""
        limit = max(self.reorder, self.policy.queue)
        if self.second != "none":  # the queue of its own channels
            limit = min(limit, max(self.reorder, FlowPolicy().queue))
        if self.second == "after" and self._left_to_second() > limit:
            return False
        most = max(map(len, self.sources()))
        keeps_all = self.retained > most
        if self.policy.every > 1 or self.policy.when_full != "block" or self.looks == "now":
            return False
        if self.spread in ("own order", "pool") and self.habit in ("again", "two passes") and not keeps_all:
            return False
        if self.habit == "two passes" and not keeps_all:
            return False
        if self.habit in ("count", "more"):  # all files must be there before any is read
            return self.distinct() and len(self.names()) == self.readers and most <= limit
        if self.habit == "optional" and self.spread != "all":
            return False  # of two looks in one circle, either may be the one that finds nothing
        if not self.distinct() and (self.order != "written" or self.spread != "all" or self.left_out):
            return False
        if not self.distinct() and self.habit not in ("open", "look", "optional"):
            return False
        if self.spread == "own order" and not keeps_all and len({names[0] for names in self.names() if names}) > 1:
            return False
        unread = [self._unread(names) for names in self.names()]
        return (sum(unread) if self.spread in ("divided", "own order") else unread[0]) <= limit

    def _unread(self, names: list[str]) -> int:
        """Most files of one out-port of a rank that lie before one which is asked for, and are asked for later."""
        if not self.distinct():
            return 1
        places = {name: place for place, name in enumerate(names)}
        others = {name for names in self.names() for name in names if name not in places}
        most = 0
        for files in self.sources():
            # A second reader makes producers that are ahead wait for those that are not; so do ranks that meet.
            beside = self.sources() if self.second != "none" or self.meets else [files]
            for end, (_, awaited) in enumerate(files):
                if awaited not in places:
                    continue
                for one, port in product(beside, range(len(self.patterns))):
                    before = [
                        name
                        for of, name in one[: self._reach(files, end)]
                        if of == port and name not in others and places.get(name, len(names)) >= places[awaited]
                    ]
                    most = max(most, len(before))
        return most

    def _reach(self, files: Sequence[tuple[int, str]], place: int) -> int:
        """How many files a source has begun by the time that the one at this place is published."""
        return len(files) if self.leaves_open and place >= len(files) - LEFT_OPEN else place + 1

    def _left_to_second(self) -> int:
        """Most files of one out-port that the second reader has not come to when the first one waits for a file."""
        order, asked = self.in_turns(), self.names()[0]
        most = 0
        for files in self.sources():
            for end, (_, awaited) in enumerate(files):
                if awaited not in asked:
                    continue
                had = order[: asked.index(awaited) + 1]
                for one, port in product(self.sources(), range(len(self.patterns))):
                    left = [name for of, name in one[: self._reach(files, end)] if of == port and name not in had]
                    most = max(most, len(left))
        return most


def _groups(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[k : k + size] for k in range(0, len(names), size))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Any scenario."""
    ports = draw(st.integers(1, 2))
    layout = draw(st.sampled_from(["plain", "plain", "unpadded", "restart", "blocks"]))
    count = draw(st.one_of(st.integers(1, 7), st.integers(8, 20))) // ports + 1
    cycle = draw(st.integers(1, 3))
    ranks = draw(st.sampled_from([(1,), (1,), (2,), (1, 1), (2, 1)]))
    first = draw(st.permutations(range(ports)))

    def source(tag: str) -> tuple[tuple[int, str], ...]:
        def name(port: int, k: int) -> str:
            number = {"unpadded": f"{k}", "restart": f"{k % cycle}"}.get(layout, f"{k:03}")
            return f"{'mesh' if port == 0 else 'part'}-{tag}-{number}"

        files = [(port, name(port, k)) for k in range(count) for port in first]
        return tuple(sorted(files, key=lambda file: first.index(file[0])) if layout == "blocks" else files)

    spread: Spread = draw(st.sampled_from(["all", "all", "own order", "divided", "pool"]))
    habits: list[Habit] = ["open", "open", "look", "optional", "again", "twice", "two passes", "list", "each step"]
    habits += [*POLLS, "child"]
    habit = draw(st.sampled_from(habits))
    if habit in ("list", "each step", *POLLS):
        spread = "all"
    return Scenario(
        files=tuple(tuple(source(f"{task}.{rank}") for rank in range(n)) for task, n in enumerate(ranks)),
        patterns=("mesh-*", "part-*")[:ports],
        inports=draw(st.sampled_from([("*",), ("mesh-*", "part-*")[:ports], ("mesh-*",)])),
        readers=1 if spread == "pool" else draw(st.integers(1, 3)),
        order=draw(st.sampled_from(["written", "reversed", "window", "by name", "ports", "shuffled"])),
        spread=spread,
        habit=habit,
        left_out=draw(st.sampled_from([0, 0, 0, 2, 5])),
        second=draw(st.sampled_from(["none", "none", "in order", "after"]))
        if habit in ("open", "look", "again") and spread == "all"
        else "none",
        policy=draw(
            st.sampled_from(
                [
                    FlowPolicy(),
                    FlowPolicy(),
                    FlowPolicy(queue=1),
                    FlowPolicy(queue=4),
                    FlowPolicy(2),
                    FlowPolicy(2, offset=1),
                    FlowPolicy(queue=1, when_full="drop-oldest"),
                    FlowPolicy(queue=3, when_full="drop-newest"),
                ]
            )
        ),
        reorder=draw(st.sampled_from([16, 16, 1, 4, 8])),
        retained=draw(st.sampled_from([1, 1, 3, 8, 100])),
        looks=draw(st.sampled_from(["wait", "wait", "wait", "now"])),
        leaves_open=draw(st.sampled_from([False, False, True])),
        meets=draw(st.sampled_from([False, False, True])) and max(ranks) > 1,
        seed=draw(st.integers(0, 2**32)),
    )


Got = list[tuple[str, Step | None]]
"""What a program asked for, and which step it was, or None."""


def write(files: Sequence[tuple[int, str]], leaves_open: bool, meets: bool) -> Program:
    """Writes the files one by one."""
    for number, (_, name) in enumerate(files):
        yield ("create", name)
        if not leaves_open or number < len(files) - LEFT_OPEN:
            yield ("publish", name)
        if meets:
            yield ("meet",)


def read(names: Iterable[str], habit: Habit, got: Got, makes: str = "") -> Program:
    """Reads files by name, and notes which steps they were. `makes`: how the name of a file made of each begins."""
    for number, name in enumerate(names):
        if habit == "optional":
            yield ("look", f"{name}.lock")
        seen = (yield ("look", name)) if habit in ("look", "optional") else None
        answer = None if isinstance(seen, Missing) else (yield ("open", name))
        step = answer.step if isinstance(answer, Opened) else None
        got.append((name, step))
        if step and habit == "twice":
            yield from read([name], "open", got)
        if step:
            yield ("close", step)
        if step and habit == "again":
            yield from read([name], "open", got)
        if makes:
            yield ("create", f"{makes}{number}")
            yield ("publish", f"{makes}{number}")


def read_listed(inports: int, got: Got) -> Program:
    """Lists, reads what it has not read yet, and ends once a listing shows nothing new."""
    known: set[str] = set()
    for port in range(inports):
        while True:
            listed = yield ("list", port)
            fresh = [name for name in listed.names if name not in known]
            if not fresh:
                break
            known.update(fresh)
            yield from read(fresh, "open", got)


def read_when_counted(names: Sequence[str], wanted: Sequence[str], inports: int, got: Got) -> Program:
    """Lists again and again until all that it wants is there, then reads. Notes when it does without."""
    missing = set(wanted)
    while missing:
        shown: set[str] = set()
        for port in range(inports):
            listed = yield ("list", port)
            shown.update(listed.names)
        missing = set(wanted) - shown
        if missing and not (yield ("sleep",)):
            got.append((MORE, None))
            break
    yield from read(names, "open", got)


def read_when_there(names: Iterable[str], got: Got) -> Program:
    """Looks for each file again and again until it is there, or gone, and opens it."""
    for name in names:
        while isinstance(seen := (yield ("look", name)), Missing) and seen.why != "passed":
            if not (yield ("sleep",)):
                raise Broken(f"{name} is asked for again and again ({seen.why}), and nothing comes of it")
        yield from read([name], "open", got)


def read_by_children(names: Iterable[str], got: Got) -> Program:
    """A child reads each file, whose descriptor it has from its parent, which closes it at once."""
    for name in names:
        answer = yield ("open", name)
        step = answer.step if isinstance(answer, Opened) else None
        got.append((name, step))
        if step:
            yield ("lend", step)
            yield ("fork", [read_inherited(step)])
            yield ("close", step)


def read_inherited(step: Step) -> Program:
    """Takes its time, reads the step that it has inherited, and closes it."""
    for _ in range(3):
        yield ("pause",)
    yield ("use", step)
    yield ("close", step)


def read_in_pool(names: Iterable[str], habit: Habit, got: Got) -> Program:
    """Workers take names from one list; their parent waits for them, which nobody is told."""
    queue = iter(names)
    yield ("fork", [read(queue, habit, got) for _ in range(WORKERS)])
    yield ("join",)


def read_after(names: Iterable[str], made: str, got: Got) -> Program:
    """Reads the files in order, and after each one that was made of some file."""
    for number, name in enumerate(names):
        yield from read([name], "open", got)
        yield from read([f"{made}{number}"], "open", got)


class Broken(AssertionError):
    """A rule does not hold."""


class Run:
    """A scenario on a machine. `steps` bounds how long it may take."""

    def __init__(self, scenario: Scenario, machine: type[Store] = Store, relief: Any = relieve) -> None:
        self.scenario = scenario
        self.relief = relief
        self.relieve_poll = relieve_poll
        self.rng = random.Random(scenario.seed)
        producers = len(scenario.files)
        self.reader, self.other = producers, producers + 1
        outports = [
            OutPort(task, pattern, scenario.retained) for task in range(producers) for pattern in scenario.patterns
        ]
        inports = [
            InPort(self.reader, pattern, scenario.readers, scenario.reorder, scenario.looks)
            for pattern in scenario.inports
        ]
        channels = [
            Channel(out, into, scenario.policy)
            for out, port in enumerate(outports)
            for into in range(len(inports))
            if inports[into].pattern in ("*", port.pattern)
        ]
        tasks = [*map(len, scenario.files), scenario.readers]
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
        self.published: list[Step] = []
        self.away: dict[tuple[int, Step], str] = {}
        """What became of steps that a channel did not keep."""
        self.offered: dict[tuple[int, int], int] = {}
        self.had: list[dict[int, list[Step]]] = [{rank: [] for rank in range(port.readers)} for port in inports]
        self.gone: list[set[Step]] = [set() for _ in inports]
        self.passed: dict[tuple[int, str], set[int]] = {}
        """Ranks that were told that a name of an in-port is gone."""
        for task in range(len(tasks)):
            self.start(task)

    def start(self, task: int) -> None:
        """Begin the programs of a task."""
        scenario = self.scenario
        for rank in range(self.store.tasks[task]):
            got = self.got[task, rank]
            if task < self.reader:
                program = write(scenario.files[task][rank], scenario.leaves_open, scenario.meets)
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
                program = read_by_children(scenario.names()[rank], got)
            elif scenario.spread == "pool":
                twice = 2 if scenario.habit == "two passes" else 1
                program = read_in_pool(scenario.names()[0] * twice, scenario.habit, got)
            else:
                twice = 2 if scenario.habit == "two passes" else 1
                makes = "made-" if scenario.second == "after" and rank == 0 else ""
                program = read(scenario.names()[rank] * twice, scenario.habit, got, makes)
            self.begin(Process(task, rank), program)

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
            (self.store.rest if self.calls[who][0] in RESTS else self.store.wake)(who)
        except StopIteration:
            del self.programs[who]
            self.calls.pop(who, None)
            for published in self.store.exit(who):
                self.note_published(published)
            if not any(other.task == who.task for other in self.programs):
                self.over(who.task)

    def over(self, task: int) -> None:
        """All programs of a task have ended."""
        one_step = task == self.reader and self.scenario.habit in ("list", "each step")
        if not one_step or (not self.may_come() and self.store.next_step(task) is None):
            self.store.end(task)

    def may_come(self) -> bool:
        return any(task not in self.store.ended for task in range(self.reader))

    def run(self) -> None:
        """Until all tasks have ended.

        Raises:
            Broken: a rule does not hold.
        """
        still: set[Process] = set()
        for _ in range(20000):
            if len(self.store.ended) == len(self.store.tasks):
                return self.check_end()
            if self.start_again() or self.met():
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
        parents = [who for who, call in self.calls.items() if call[0] == "join"]
        free = [who for who in parents if not any(one.of == who.of for one in self.programs if one != who)]
        for who in free:
            self.go_on(who, None)
        return bool(free)

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
                self.store.fork(worker)
                self.begin(worker, program)
        elif kind in ("close", "lend"):
            getattr(self.store, kind)(who, what[0])
        elif kind == "use":
            if not self.store.slot(what[0]).there:
                raise Broken(f"{who} reads {what[0]}, whose memory is that of another step")
        elif kind == "pause":
            pass
        elif kind == "publish":
            answer = self.store.publish(who, what[0])
            self.note_published(answer)
        elif kind == "list":
            answer = self.store.list_steps(who, what[0])
            if isinstance(answer, Listed) and (relief := self.relieve_poll(self.store, who, what[0])):
                self.told.append((who, relief))
                self.idle = 0
        else:
            answer = getattr(self.store, kind)(who, what[0])
        if isinstance(answer, Wait):
            self.check_wait(who)
            return self.rng.random() < 0.3 and self.relieve(who)
        self.check_answer(who, answer)
        self.go_on(who, answer)
        return True

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
        elif isinstance(relief, Stopped):
            raise Broken(f"stopped: {relief}")
        elif isinstance(relief, Missing | Listed):
            self.go_on(who, relief)
        return True

    # Books.

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

    def check_answer(self, who: Process, answer: Any) -> None:
        """The answer is right, by what was published, had and told so far."""
        kind, what = self.calls[who][0], (*self.calls[who], None)[1]
        if kind not in ("open", "look", "list"):
            return
        inport = what if kind == "list" else self.inport(who, what)
        if isinstance(answer, Opened):
            self.idle = 0
            self.check_step(inport, who.rank, what, answer.step)
            self.had[inport][who.rank].append(answer.step)
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
        steps = [step for step in self.published if step.name == name]
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
        for step in self.published:
            read = any(one[:2] == step[:2] for one in [*self.had[inport][who.rank], *self.gone[inport]])
            if step.name == name and not read and (self.channel(inport, step), step) in self.away:
                raise Broken(f"{who} waits for {step}, which is gone")

    def check_let_go(self, relief: LetGo) -> None:
        """A step may be let go from a channel that is stretched to its end."""
        if self.store.bound(relief.channel) < self.store.limit(relief.channel):
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
        if len(self.published) != sum(map(len, self.scenario.sources())) + self.made() * (
            self.scenario.second == "after"
        ):
            raise Broken("a file was not published")
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
