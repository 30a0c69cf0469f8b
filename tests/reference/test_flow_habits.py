"""Whatever programs do with names, the step store's rules lose, double and mix up nothing, and no circle lasts.

Random habits run on the reference machine; machines with a broken rule must be found out. ``WILKINS_HABITS=n`` runs n
of them with a fresh seed (`make fuzz`); a failure prints the scenario, which `Run` takes as it is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from reference.circles import Filled, Relief, relieve
from reference.habits import Run
from reference.programs import Broken
from reference.records import Answer, Call, End, File, Found, Opened, Process, Published, Rank, Slot, Source, Step
from reference.scenarios import FOR_EVER, Scenario, Stage, scenarios
from reference.store import Store

from wilkins.flow import FlowPolicy
from wilkins.flow.machine import Wait

FRESH = os.environ.get("WILKINS_HABITS")


def habits(examples: int) -> settings:
    """So many scenarios, each as long as it takes."""
    return settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))


@habits(60)
@given(scenarios())
def test_a_few_habits(scenario: Scenario) -> None:
    Run(scenario).run()


@pytest.mark.nightly
@pytest.mark.timeout(0 if FRESH else 900)
@seed(random.randrange(2**32) if FRESH else 0)
@habits(int(FRESH or 3000))
@given(scenarios())
def test_many_habits(scenario: Scenario) -> None:
    Run(scenario).run()


def found(count: int, names: tuple[str, ...], in_turns: bool = True, **habits: Any) -> Scenario:
    """One of those that random habits have found: a producer that writes so many files of each name."""
    patterns = tuple(f"{name}-*" for name in sorted(names))
    files = tuple((patterns.index(f"{name}-*"), f"{name}-{k}") for k in range(count) for name in names)
    if not in_turns:
        files = tuple(sorted(files, key=lambda file: names.index(file[1].split("-")[0])))
    plain: dict[str, Any] = {
        "files": ((files,),),
        "patterns": patterns,
        "inports": ("*",),
        "readers": 1,
        "order": "window",
        "spread": "all",
        "habit": "open",
        "left_out": 0,
        "second": "none",
        "policy": FlowPolicy(),
        "reorder": 1,
        "retained": 1,
        "looks": "wait",
        "leaves_open": False,
        "meets": False,
        "seed": 1,
    }
    return Scenario(**{**plain, **habits})


@pytest.mark.parametrize(
    "scenario",
    [
        # A name is settled once its producer waits to begin the next one.
        found(8, ("mesh", "part"), order="shuffled", second="after", seed=73),
        # The last files come at the end of their program, after all others.
        found(9, ("part", "mesh"), order="ports", reorder=8, leaves_open=True, seed=0),
        # The second reader's queue is shorter than the first one's.
        found(6, ("mesh",), second="after", policy=FlowPolicy(queue=4)),
        # A producer that has no room for a file of one port begins none of another one.
        found(8, ("mesh", "part"), in_turns=False, order="reversed", habit="twice", reorder=4, seed=0),
        found(10, ("mesh", "part"), in_turns=False, order="window", habit="twice", seed=4),
        # A producer that waits for room would have no memory either, since the reader sees all that there is.
        found(
            *(5, ("part", "mesh")),
            files=tuple(
                (tuple((port, f"{name}-{task}-{k}") for k in range(5) for port, name in ((1, "part"), (0, "mesh"))),)
                for task in range(2)
            ),
            inports=("mesh-*",),
            order="written",
            second="after",
            keeps=FOR_EVER,
            memory=4,
        ),
        # Ranks wait for files of different sources, and what one has left of its source another one has yet to read.
        found(
            *(5, ("mesh", "part")),
            files=tuple(
                tuple(
                    tuple((port, f"{name}-{of}-{k}") for k in range(5) for port, name in ((0, "mesh"), (1, "part")))
                    for of in ranks
                )
                for ranks in (("0.0", "0.1"), ("1.0",))
            ),
            order="ports",
            readers=2,
            spread="divided",
            policy=FlowPolicy(queue=1),
            reorder=4,
            seed=102297,
        ),
        # The next file of a stage is there, and the reader sees all that its memory holds, before it has looked again.
        found(
            *(14, ("mesh",)),
            order="written",
            readers=2,
            habit="twice",
            policy=FlowPolicy(queue=1, when_full="drop-oldest"),
            reorder=16,
            looks="now",
            seed=207297,
            keeps=FOR_EVER,
            memory=8,
            raw=True,
            workers="shared",
            stages=(Stage("divided", "open", 0), Stage("one", "twice", 0)),
        ),
    ],
)
def test_habits_that_were_found(scenario: Scenario) -> None:
    Run(scenario).run()


class NeverStretches(Store):
    """A full channel stays as it is: readers in another order lose steps."""

    def limit(self, channel: int) -> float:
        return self.channels[channel].policy.queue


class GivesUpWhatLiesBefore(Store):
    """Opening a later name gives up all earlier ones."""

    def gives_up(self, inport: int, rank: int, slot: Slot) -> bool:
        return self.ports[inport].latest[rank] > slot.stamp

    def unhad(self, channel: int, source: Source) -> list[Slot]:
        inport = self.channels[channel].inport
        return [slot for slot in super().unhad(channel, source) if not self.gives_up(inport, 0, slot)]


class GivesUpWhatOthersHad(Store):
    """A rank gives up what another has had, also where all ranks read all."""

    def gives_up(self, inport: int, rank: int, slot: Slot) -> bool:
        self.ports[inport].shared = False
        return super().gives_up(inport, rank, slot)


class GivesUpNothing(Store):
    """Ranks that divide the files wait for each other's."""

    def gives_up(self, inport: int, rank: int, slot: Slot) -> bool:  # noqa: ARG002
        return False


class ForgetsAtRestart(Store):
    """What a program has had is there for its next start."""

    def restart(self, task: int) -> None:
        super().restart(task)
        for source in self.sources:
            for slot in source.slots:
                slot.gone.clear()


class ReplacesTheLast(Store):
    """What a rank has opened last is replaced as anything that it has had."""

    def _make_room(self, source: Source) -> None:
        for state in self.ports:
            state.last.clear()
        super()._make_room(source)


class ReplacesTheOldest(Store):
    """The oldest step is replaced, whoever needs it."""

    def _make_room(self, source: Source) -> None:
        if len(source.present) >= self.outports[source.outport].retained:
            source.present.pop(0).there = False


class ReadsAgainAtOnce(Store):
    """A name that the rank has had is the old step, also where its source may begin it anew."""

    def _is_settled(self, inport: int, rank: int, source: Source, name: str) -> bool:  # noqa: ARG002
        return True


class TakesAnyWaitForRoomAsTold(Store):
    """A name that the rank has had is the old step, also where its producer waits for room on another port."""

    def _is_settled(self, inport: int, rank: int, source: Source, name: str) -> bool:
        if name in self._begun(source):
            return super()._is_settled(inport, rank, source, name)
        processes = [who for who in self.living if who.of == source.rank]
        return super()._is_settled(inport, rank, source, name) or all(who in self.waits for who in processes)


class SettlesNothing(Store):
    """A name that the rank has had is waited for, also where its producer has no room for a file of another port."""

    def may_settle(self, who: Process) -> bool:  # noqa: ARG002
        return False


class WaitsForWhatIsGone(Store):
    """A name that is gone for good is waited for."""

    def find(self, inport: int, rank: int, name: str) -> Found:
        return Found(super().find(inport, rank, name).slot)


class ForgetsWhatItLeavesOpen(Store):
    """A file that is open when its program ends is none."""

    def exit(self, who: Process, end: End = "return") -> list[Published]:  # noqa: ARG002
        self.living.discard(who)
        return []


class LooksDoNotWait(Store):
    """A look answers at once."""

    def _may_not_wait(self, inport: int) -> bool:  # noqa: ARG002
        return True


class PollsAreNone(Store):
    """Nobody is told from one that asks once."""

    def polls(self, rank: Rank) -> bool:  # noqa: ARG002
        return False


class LooksGiveUpForEver(Store):
    """A look waits no longer for being made again and again."""

    def look(self, who: Process, name: str) -> Answer:
        self.vain[who.of].times = 0
        return super().look(who, name)


class NeverEndsPolls(Store):
    """A task that polls for what will not come goes on."""

    def polls_in_vain(self, task: int) -> bool:  # noqa: ARG002
        return False


class EndsPollsSoon(Store):
    """A task that polls is ended, though more may come."""

    def polls_in_vain(self, task: int) -> bool:
        return all(self.polls((task, rank)) for rank in range(self.tasks[task]))


class ForgetsWhatIsKept(Store):
    """A step is done with when the process that opened it has closed it."""

    def keep(self, who: Process, step: Step) -> None:
        pass


class ForgetsWhatChildrenSee(Store):
    """A child sees nothing of its parent's."""

    def fork(self, who: Process, parent: Process | None = None) -> None:
        super().fork(who, parent)
        for slot in self.visible(who):
            slot.views.discard(who)


class KeepsWhatTheDeadSaw(Store):
    """What a process could see stays when it has ended."""

    def exit(self, who: Process, end: End = "return") -> list[Published]:
        seen = self.visible(who)
        published = super().exit(who, end)
        for slot in seen:
            slot.views.add(who)
        return published


class CountsNoViews(Store):
    """What programs can see takes no memory of the port."""

    def in_memory(self, outport: int) -> int:
        return super().in_memory(outport) - len(self.seen(outport))


class LosesWhatIsFlushed(Store):
    """What a process leaves open is closed by a return alone."""

    def exit(self, who: Process, end: End = "return") -> list[Published]:
        for _, file in self.files(who):
            file.flushed = False
        return super().exit(who, end)


class PublishesTornFiles(Store):
    """Every end of a process closes its files."""

    def exit(self, who: Process, end: End = "return") -> list[Published]:
        for _, file in self.files(who):
            file.flushed = True
        return super().exit(who, end)


class TakesBytesForFlushed(Store):
    """A flush makes bytes whole, too."""

    def _leave(self, source: Source, file: File, who: Process, whole: bool) -> None:
        super()._leave(source, file, who, whole or file.flushed)


class LeavesTornFiles(Store):
    """A file of which the last writer was killed stays begun."""

    def _leave(self, source: Source, file: File, who: Process, whole: bool) -> None:
        if whole or not file.openers[who]:
            super()._leave(source, file, who, whole)


class PublishesAtTheFirstClose(Store):
    """A file is published when the first process closes it."""

    def _leave(self, source: Source, file: File, who: Process, whole: bool) -> None:
        if file.copy_of is None:
            file.openers = {who: file.openers[who]}
        super()._leave(source, file, who, whole)


class TearsWhatWasClosed(Store):
    """A file is torn if its last writer was killed, also where the process has closed it which began it."""

    def _leave(self, source: Source, file: File, who: Process, whole: bool) -> None:
        file.closed = False
        super()._leave(source, file, who, whole)


class ForksHoldFiles(Store):
    """A fork that does nothing holds the files that it has inherited."""

    def fork(self, who: Process, parent: Process | None = None) -> None:
        super().fork(who, parent)
        for _, file in self.files(who):
            file.openers[who] = True


class PassesOnWhatIsClosed(Store):
    """A stage passes on each file when it closes it."""

    def close(self, who: Process, step: Step) -> None:
        super().close(who, step)
        self._pass_on(who)


class PassesOnAtItsEnd(Store):
    """A stage passes on nothing before it ends."""

    def turns(self, who: Process, call: Call) -> bool:  # noqa: ARG002
        return False


class PassesOnWhenItsTaskEnds(Store):
    """What a rank has opened last is passed on when all others have ended, too."""

    def exit(self, who: Process, end: End = "return") -> list[Published]:
        self.leaves = True
        try:
            return super().exit(who, end)
        finally:
            self.leaves = False

    def _pass_on(self, who: Process) -> None:
        if not getattr(self, "leaves", False):
            super()._pass_on(who)


class PassesOnWhatFailed(Store):
    """A stage that fails passes on what it has had."""

    def end(self, task: int, failed: bool = False) -> None:  # noqa: ARG002
        super().end(task)


class LeavesWhatTheDeadHad(Store):
    """A step is let go in a circle where others have left files that nobody has passed on."""

    def pass_on_left(self, who: Process) -> bool:  # noqa: ARG002
        return False


class PassesOnInAnyOrder(Store):
    """What a stage passes on at once comes the other way round."""

    def copies(self, task: int) -> list[tuple[Source, File]]:
        return super().copies(task)[::-1]


class CopiesWithoutRoom(Store):
    """A stage takes the next file, whether there is room for it on its out-port or not."""

    def decide(self, who: Process, call: Call) -> Answer:
        answer = super().decide(who, call)
        if call.kind == "open" and answer == Wait("room"):
            slot = self.find(call.port, who.rank, call.name).slot
            assert slot is not None
            return Opened(slot.step)
        return answer


class CopiesForEachRank(Store):
    """Each rank of a stage has a file of its own of each step."""

    def _take(self, inport: int, rank: int, slot: Slot) -> None:
        super()._take(inport, rank, slot)
        slot.had[inport] = {rank}

    def own(self, call: Call) -> Slot | None:
        copy = self.copy(call)
        return copy[1].copy_of if copy else None


def never(*_: object) -> Relief | None:
    """Nobody looks for circles."""
    return None


def lets_go_first(store: Store, who: Process) -> Relief | None:
    """A step is let go before the channel is stretched."""
    whole = store.inports
    store.inports = [replace(port, memory=0) for port in whole]
    try:
        return relieve(store, who)
    finally:
        store.inports = whole


def takes_one_for_all(store: Store, who: Process) -> Relief | None:
    """A rank of which one process waits is taken to wait, so that a pool loses what its others come for."""
    resting = store.resting
    store.resting = set(store.living)
    try:
        return relieve(store, who)
    finally:
        store.resting = resting


def knows_of_no_rest(store: Store, who: Process) -> Relief | None:
    """Whoever sleeps in a barrier, or waits for its pool, may go on: others wait for ever."""
    resting = store.resting
    store.resting = set()
    try:
        return relieve(store, who)
    finally:
        store.resting = resting


def fills_at_once(store: Store, who: Process) -> Relief | None:
    """A run ends as soon as somebody waits for memory, though those that see steps may be done with them."""
    for other, call in store.waits.items():
        port = store.writes(call)
        if port is not None and store.decide(other, call) == Wait("memory") and (seen := store.seen(port)):
            return Filled(port, tuple((one, slot.step) for slot in seen for one in slot.views))
    return relieve(store, who)


def never_fills(store: Store, who: Process) -> Relief | None:
    """Who waits for memory waits for ever."""
    relief = relieve(store, who)
    return None if isinstance(relief, Filled) else relief


PLAIN: dict[str, Any] = {
    "habit": "open",
    "order": "written",
    "left_out": 0,
    "second": "none",
    "policy": FlowPolicy(),
    "looks": "wait",
    "readers": 2,
    "keeps": 0,
    "memory": None,
    "workers": "none",
    "stages": (),
}
SEES: dict[str, Any] = {"spread": "all", "keeps": 3, "retained": 1}
STAGE = Stage("one", "open", 0)
AIMED: dict[object, dict[str, Any]] = {
    GivesUpWhatOthersHad: {"spread": "own order", "order": "window", "reorder": 16, "retained": 1},
    PollsAreNone: {"habit": "count", "spread": "all"},
    LooksGiveUpForEver: {"habit": "until", "spread": "all", "order": "shuffled", "reorder": 1},
    NeverEndsPolls: {"habit": "more", "spread": "all"},
    EndsPollsSoon: {"habit": "count", "spread": "all"},
    ForgetsWhatIsKept: SEES,
    ForgetsWhatChildrenSee: {"habit": "child", "spread": "all", "retained": 1},
    KeepsWhatTheDeadSaw: {"habit": "child", "spread": "all", "memory": 8},
    CountsNoViews: {**SEES, "keeps": FOR_EVER, "memory": 8},
    fills_at_once: {**SEES, "memory": 8},
    never_fills: {**SEES, "keeps": FOR_EVER, "memory": 8},
    LosesWhatIsFlushed: {"workers": "each", "raw": False},
    PublishesTornFiles: {"workers": "each"},
    TakesBytesForFlushed: {"workers": "each", "raw": True},
    LeavesTornFiles: {"workers": "each"},
    PublishesAtTheFirstClose: {"workers": "shared"},
    TearsWhatWasClosed: {"workers": "shared"},
    ForksHoldFiles: {"workers": "idle"},
    PassesOnWhatIsClosed: {"stages": (STAGE,)},
    PassesOnAtItsEnd: {"stages": (STAGE,)},
    PassesOnWhenItsTaskEnds: {"stages": (replace(STAGE, spread="divided"),)},
    PassesOnWhatFailed: {"stages": (STAGE, replace(STAGE, fails=1))},
    LeavesWhatTheDeadHad: {"stages": (Stage("pool", "open", 2),), "policy": FlowPolicy(queue=1), "reorder": 1},
    PassesOnInAnyOrder: {"stages": (replace(STAGE, habit="overlap"),)},
    CopiesWithoutRoom: {"stages": (STAGE,), "order": "reversed", "reorder": 1},
    CopiesForEachRank: {"stages": (replace(STAGE, spread="all"),), "retained": 100},
    GivesUpNothing: {"spread": "divided", "reorder": 2},
    ReadsAgainAtOnce: {"spread": "all", "habit": "open", "order": "written", "retained": 8},
    ReplacesTheLast: {"spread": "all", "habit": "again", "reorder": 16, "retained": 1},
    TakesAnyWaitForRoomAsTold: {
        "spread": "all",
        "order": "written",
        "second": "after",
        "inports": ("mesh-*",),
        "retained": 8,
        "reorder": 16,
    },
    SettlesNothing: {"spread": "all", "habit": "twice", "order": "reversed", "readers": 1},
    takes_one_for_all: {"spread": "pool", "readers": 1, "reorder": 1},
    knows_of_no_rest: {"spread": "pool", "readers": 1, "reorder": 1, "order": "shuffled"},
}
"""Rules that few scenarios need, and what these have."""

MUTANTS: list[tuple[type[Store], Callable[..., Relief | None]]] = [
    *((machine, relieve) for machine in Store.__subclasses__()),
    *(
        (Store, relief)
        for relief in (never, lets_go_first, takes_one_for_all, knows_of_no_rest, fills_at_once, never_fills)
    ),
]


def is_found_out(scenario: Scenario, machine: type[Store], relief: Callable[..., Relief | None]) -> bool:
    """Whether a rule does not hold."""
    try:
        Run(scenario, machine, relief).run()
    except Broken:
        return True
    return False


@pytest.mark.usual(
    "NeverStretches",
    "GivesUpWhatOthersHad",
    "ForgetsAtRestart",
    "ReplacesTheOldest",
    "ReadsAgainAtOnce",
    "never",
    "ForgetsWhatIsKept",
    "LeavesTornFiles",
    "PassesOnAtItsEnd",
)
@pytest.mark.parametrize(
    ("machine", "relief"),
    MUTANTS,
    ids=[machine.__name__ if machine is not Store else relief.__name__ for machine, relief in MUTANTS],
)
def test_a_broken_rule_is_found_out(machine: type[Store], relief: Callable[..., Relief | None]) -> None:
    drawn = scenarios()
    if aim := AIMED.get(machine) or AIMED.get(relief):
        drawn = drawn.map(lambda one: replace(one, seed=one.seed | 1, **{**PLAIN, **aim}))
        drawn = drawn.filter(lambda one: one.distinct() or not one.stages)
    options = settings(habits(4000), phases=[Phase.generate])
    find(drawn, lambda one: is_found_out(one, machine, relief), settings=options, random=random.Random(1))
