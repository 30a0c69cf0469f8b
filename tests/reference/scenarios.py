"""Scenarios of random habits: which files producers write, and in which order and how readers ask for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from typing import Literal

from hypothesis import strategies as st

from wilkins.flow import FlowPolicy

Order = Literal["written", "reversed", "window", "by name", "ports", "shuffled"]
Spread = Literal["all", "own order", "divided", "pool"]
Habit = Literal[
    "open", "look", "optional", "again", "twice", "two passes", "list", "each step", "count", "more", "until", "child"
]
Second = Literal["none", "in order", "after"]
Workers = Literal["none", "each", "shared", "idle"]
StageSpread = Literal["one", "divided", "pool", "all"]

POLLS: tuple[Habit, ...] = ("count", "more", "until")
FOR_EVER = 1000
"""More steps than a program reads."""
LEFT_OPEN = 2
"""Files that a producer which leaves some open to its end leaves."""


@dataclass(frozen=True)
class Stage:
    """A task that passes files on."""

    spread: StageSpread
    """Whether its one process opens all files, or each of its two ranks a part, or processes of its rank do, or each of
    two ranks opens all."""
    habit: Literal["open", "look", "twice", "overlap"]
    """``overlap``: it closes each file when it has opened the next."""
    fails: int
    """The file at which it fails, counted from 1; 0: it does not."""

    @property
    def ranks(self) -> int:
        """How many it has."""
        return 2 if self.spread in ("divided", "all") else 1


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
    keeps: int = 0
    """So many steps the reader's processes see at a time when they have closed them."""
    memory: int | None = None
    """Files of each out-port that fit into its memory."""
    raw: bool = False
    """Producers write bytes, and not by HDF5."""
    workers: Workers = "none"
    """Who writes the files of a producer, in which company."""
    stages: tuple[Stage, ...] = ()
    """Tasks through which the files go on their way to the reader."""

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

    def in_order(self) -> list[tuple[int, str]]:
        """Files of all ports, as stages open them."""
        return list(replace(self, inports=("*",)).written())

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
        if self.stages or (self.memory is not None and not self.fits()):
            return False
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

    def fits(self) -> bool:
        """Whether all files fit into the memory of their ports."""
        return self.memory is None or self.memory > sum(map(len, self.sources()))

    def passes_all(self) -> bool:
        """Whether all files get through the stages to the reader, in the order in which they are written."""
        plain = replace(self, stages=())
        whole = all(not one.fails and one.spread == "one" for one in self.stages)
        return whole and not self.left_out and self.order == "written" and not self.leaves_open and plain.is_exact()

    def _unread(self, names: list[str]) -> int:
        """Most files of one out-port of a rank that lie before one which is asked for, and are asked for later."""
        if not self.distinct():
            return 1
        places = {name: place for place, name in enumerate(names)}
        others = {name for names in self.names() for name in names if name not in places}
        most = 0
        for files in self.sources():
            # A second reader makes producers that are ahead wait for those that are not; so do ranks that meet. While a
            # rank waits for a file of one, another rank of an order of its own may have come as far in another one.
            apart = self.readers > 1 and self.spread in ("divided", "own order")
            beside = self.sources() if self.second != "none" or self.meets or apart else [files]
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
    second: Second = "none"
    if habit in ("open", "look", "again") and spread == "all":
        second = draw(st.sampled_from(["none", "none", "in order", "after"]))
    retained = draw(st.sampled_from([1, 1, 3, 8, 100]))
    workers: Workers = draw(st.sampled_from(["none", "none", "each", "shared", "idle"]))
    passable = second == "none" and layout != "restart" and habit not in POLLS
    stages = draw(st.lists(chained(retained), max_size=3).map(tuple)) if passable and draw(st.booleans()) else ()
    keep_all = any(stage.spread == "all" for stage in stages)  # one that is gone would end the run
    orders: list[Order] = ["written", "reversed", "window", "by name", "ports", "shuffled"]
    orders = [*orders, "written", "written"] if stages else orders
    return Scenario(
        files=tuple(tuple(source(f"{task}.{rank}") for rank in range(n)) for task, n in enumerate(ranks)),
        patterns=("mesh-*", "part-*")[:ports],
        inports=draw(st.sampled_from([("*",), ("mesh-*", "part-*")[:ports], ("mesh-*",)])),
        readers=1 if spread == "pool" else draw(st.integers(1, 3)),
        order=draw(st.sampled_from(orders)),
        spread=spread,
        habit=habit,
        left_out=draw(st.sampled_from([0, 0, 0, 2, 5])),
        second=second,
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
        retained=retained,
        looks=draw(st.sampled_from(["wait", "wait", "wait", "now"])),
        leaves_open=draw(st.sampled_from([False, False, True])) and workers == "none",
        meets=draw(st.sampled_from([False, False, True])) and max(ranks) > 1 and workers == "none",
        seed=draw(st.integers(0, 2**32)),
        keeps=draw(st.sampled_from([0, 0, 1, 3, FOR_EVER])),
        memory=draw(st.sampled_from([None, None, None, 8, 16, 100] if not keep_all else [None])),
        raw=draw(st.booleans()),
        workers=workers,
        stages=stages,
    )


@st.composite
def chained(draw: st.DrawFn, retained: int) -> Stage:
    """Any stage. Ranks that all open all files find those that others have passed on only while they are there."""
    spreads: list[StageSpread] = ["one", "one", "divided", "pool"]
    if retained == 100:
        spreads.append("all")
    return Stage(
        spread=draw(st.sampled_from(spreads)),
        habit=draw(st.sampled_from(["open", "open", "look", "twice", "overlap"])),
        fails=draw(st.sampled_from([0, 0, 0, 1, 3])),
    )
