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
from flow_habits import Broken, Run, Scenario, scenarios
from hypothesis import HealthCheck, Phase, find, given, seed, settings

from wilkins.flow import FlowPolicy
from wilkins.flow.circles import Relief, relieve
from wilkins.flow.store import Answer, Found, Process, Published, Rank, Slot, Source, Step, Store

FRESH = os.environ.get("WILKINS_HABITS")


def habits(examples: int) -> settings:
    """So many scenarios, each as long as it takes."""
    return settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@habits(150)
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

    def _replace_one(self, source: Source) -> None:
        for state in self.ports:
            state.last.clear()
        super()._replace_one(source)


class ReplacesTheOldest(Store):
    """The oldest step is replaced, whoever needs it."""

    def _replace_one(self, source: Source) -> None:
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

    def exit(self, who: Process) -> list[Published]:
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


class OneRankPolls(Store):
    """Of ranks that poll, only the one that lists now is known to."""

    def list_steps(self, who: Process, inport: int) -> Answer:
        self.lists = who.of
        return super().list_steps(who, inport)

    def polls(self, rank: Rank) -> bool:
        return super().polls(rank) and rank == self.lists


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


class ForgetsWhatIsLent(Store):
    """A step is done with when the process that opened it has closed it."""

    def lend(self, who: Process, step: Step) -> None:
        pass


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


PLAIN: dict[str, Any] = {
    "habit": "open",
    "order": "written",
    "left_out": 0,
    "second": "none",
    "policy": FlowPolicy(),
    "looks": "wait",
    "readers": 2,
}
AIMED: dict[object, dict[str, Any]] = {
    GivesUpWhatOthersHad: {"spread": "own order", "order": "window", "reorder": 16, "retained": 1},
    PollsAreNone: {"habit": "count", "spread": "all"},
    OneRankPolls: {"habit": "count", "spread": "all", "reorder": 16},
    LooksGiveUpForEver: {"habit": "until", "spread": "all", "order": "shuffled", "reorder": 1},
    NeverEndsPolls: {"habit": "more", "spread": "all"},
    EndsPollsSoon: {"habit": "count", "spread": "all"},
    ForgetsWhatIsLent: {"habit": "child", "spread": "all", "retained": 1},
    GivesUpNothing: {"spread": "divided", "reorder": 2},
    ReadsAgainAtOnce: {"spread": "all", "habit": "open", "order": "written", "retained": 8},
    ReplacesTheLast: {"spread": "all", "habit": "again", "reorder": 16, "retained": 1},
    TakesAnyWaitForRoomAsTold: {"spread": "all", "habit": "open", "order": "written", "second": "after"},
    SettlesNothing: {"spread": "all", "habit": "twice", "order": "reversed", "readers": 1},
    takes_one_for_all: {"spread": "pool", "readers": 1, "reorder": 1},
    knows_of_no_rest: {"spread": "pool", "readers": 1, "reorder": 1, "order": "shuffled"},
}
"""Rules that few scenarios need, and what these have."""

MUTANTS: list[tuple[type[Store], Callable[..., Relief | None]]] = [
    *((machine, relieve) for machine in Store.__subclasses__()),
    *((Store, relief) for relief in (never, lets_go_first, takes_one_for_all, knows_of_no_rest)),
]


def is_found_out(scenario: Scenario, machine: type[Store], relief: Callable[..., Relief | None]) -> bool:
    """Whether a rule does not hold."""
    try:
        Run(scenario, machine, relief).run()
    except Broken:
        return True
    return False


@pytest.mark.usual(
    "NeverStretches", "GivesUpWhatOthersHad", "ForgetsAtRestart", "ReplacesTheOldest", "ReadsAgainAtOnce", "never"
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
    options = settings(habits(4000), phases=[Phase.generate])
    find(drawn, lambda one: is_found_out(one, machine, relief), settings=options, random=random.Random(1))
