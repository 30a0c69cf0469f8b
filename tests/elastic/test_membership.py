"""Who trains together, whatever happens in whatever order: all histories of a small training are walked through.

Ranks are modelled as they act (`training.py`): each computes a share, gets the sum, gets the commit, and steps. Between
any two of these acts any rank may die, and a dead one may be started again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from wilkins.tasks.elastic.membership import Break, End, Ended, Expel, Form, Formed, Membership, Report, Wanted, agreed

STEPS = 2


def test_the_first_group_waits_for_all_that_were_started_and_later_ones_do_not() -> None:
    membership = Membership(range(3))
    assert membership.ready(0, Report(0, fresh=True)) == []
    assert membership.ready(2, Report(0, fresh=True)) == []
    (form,) = membership.gone(1)
    assert isinstance(form, Form) and form.group.members == form.group.contributors == (0, 2)
    assert membership.started(1) == []
    assert membership.gone(0) == [Break(1, (2,))]
    (form,) = membership.ready(2, Report(0, broke=True))
    assert isinstance(form, Form) and form.group.members == (2,)


def test_who_joins_is_waited_for_at_the_end_of_a_step_and_takes_the_state_while_others_train() -> None:
    membership = Membership(range(2))
    membership.ready(0, Report(0, fresh=True))
    membership.ready(1, Report(0, fresh=True))
    assert membership.ready(2, Report(0, fresh=True)) == [Wanted(1, (0, 1))]
    assert membership.ready(1, Report(7)) == []
    (form,) = membership.ready(0, Report(7))
    assert form == Form(Formed(2, (0, 1, 2), 7, source=0, holders=(0, 1), contributors=(0, 1)))


def test_a_step_that_anybody_may_have_finished_is_finished_by_all() -> None:
    group = agreed(3, {0: Report(5), 1: Report(5, prepared=True), 2: Report(0, fresh=True)})
    assert (group.step, group.source, group.holders) == (6, 1, (1,))
    assert not group.again


def test_gradients_that_ranks_hold_are_used_again() -> None:
    assert agreed(2, {0: Report(5, pending=8), 1: Report(5)}).again
    assert not agreed(2, {0: Report(5, pending=8), 1: Report(6)}).again


def test_a_rank_that_does_not_leave_a_broken_group_is_given_up() -> None:
    membership = Membership(range(3))
    for rank in range(3):
        membership.ready(rank, Report(0, fresh=True))
    assert membership.overdue(1) == []  # nothing is wrong
    assert membership.ready(0, Report(1, broke=True)) == [Break(1, (1, 2))]
    membership.ready(2, Report(1, broke=True))
    expel, form = membership.overdue(1)
    assert expel == Expel((1,))
    assert isinstance(form, Form) and form.group.members == (0, 2)
    assert membership.gone(1) == []
    assert membership.overdue(1) == []


def test_a_group_of_which_nobody_has_trained_begins_anew() -> None:
    """It is told from the first one, and from one with a rank that has."""
    members = Membership(range(2))
    (first,) = [*members.ready(0, Report(0, fresh=True)), *members.ready(1, Report(0, fresh=True))]
    members.started(2)
    members.ready(2, Report(0, fresh=True))
    (*_, second) = [*members.gone(1), *members.ready(0, Report(9, broke=True))]
    members.started(3)
    members.ready(3, Report(0, fresh=True))
    (*_, third) = [*members.gone(0), *members.ready(2, Report(0, fresh=True, broke=True))]
    assert [one.anew for one in (first, second, third) if isinstance(one, Form)] == [False, False, True]


def test_who_comes_after_the_end_is_told() -> None:
    membership = Membership([0])
    membership.ready(0, Report(0, fresh=True))
    assert membership.ready(0, Report(9, finished=True)) == [End((0,), (0,))]
    assert membership.ready(1, Report(0, fresh=True)) == [End((1,), (0,))]


def test_who_dies_while_it_waits_for_the_end_is_none_of_the_survivors() -> None:
    membership = Membership(range(3))
    for rank in range(3):
        membership.ready(rank, Report(0, fresh=True))
    assert membership.ready(0, Report(9, finished=True)) == [Ended(1, (1, 2), 9)]
    assert membership.gone(0) == []
    assert membership.ready(1, Report(9, finished=True)) == [Ended(1, (2,), 9)]
    assert membership.ready(2, Report(9, finished=True)) == [End((1, 2), (1, 2))]


@dataclass(frozen=True)
class Rank:
    """A rank as it acts: what it holds, and what it does next."""

    state: tuple[tuple[int, ...], ...] | None = None
    """Who contributed to each step it has made; None: it has no state."""
    doing: str = "connects"
    """connects, waits (for a group), computes, sums, commits, ended, dead."""
    group: Formed | None = None
    sum: tuple[int, ...] | None = None
    """Who contributed to the sum that it holds."""
    pending: bool = False

    def report(self, lossy: bool, broke: bool) -> Report:
        steps = len(self.state or ())
        prepared = self.sum is not None
        pending = int(lossy and self.pending and not prepared)
        return Report(steps, self.state is None, prepared, pending, steps >= STEPS, broke)


class World:
    """Ranks and their parent, which can be copied: one point of a history."""

    def __init__(self, ranks: int, deaths: int, restarts: int, lossy: bool) -> None:
        self.parent = Membership(range(ranks))
        self.ranks = dict.fromkeys(range(ranks), Rank())
        self.deaths, self.restarts, self.lossy = deaths, restarts, lossy
        self.sums: dict[tuple[int, int], tuple[int, ...]] = {}
        """What came out of the all-reduce of a group and step, once it came out."""
        self.committed: dict[int, tuple[int, ...]] = {}
        """Contributors of steps that some rank has finished, by a commit."""

    def copy(self) -> World:
        made = World(0, self.deaths, self.restarts, self.lossy)
        made.parent = Membership([])
        made.parent.__dict__.update(
            {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self.parent).items()}
        )
        made.ranks, made.sums, made.committed = dict(self.ranks), dict(self.sums), dict(self.committed)
        return made

    def key(self) -> object:
        parent = vars(self.parent)
        of_parent = tuple(
            (name, tuple(sorted(value.items())) if isinstance(value, dict) else tuple(sorted(value)))
            if isinstance(value, (dict, set))
            else (name, value)
            for name, value in sorted(parent.items())
            if name != "generation"
        )
        generation = self.parent.generation
        ranks = tuple(
            replace(one, group=one.group and replace(one.group, generation=one.group.generation - generation))
            for _, one in sorted(self.ranks.items())
        )
        sums = tuple(sorted((g - generation, s, who) for (g, s), who in self.sums.items()))
        return of_parent, ranks, self.deaths, self.restarts, sums, tuple(sorted(self.committed.items()))

    def acts(self) -> list[tuple[str, int]]:
        found = [("act", rank) for rank, one in self.ranks.items() if self._can_act(one)]
        alive = [rank for rank, one in self.ranks.items() if one.doing not in ("dead", "ended")]
        if self.deaths and len(alive) > 1:
            found += [("die", rank) for rank in alive]
        if self.restarts:
            found += [("restart", rank) for rank, one in self.ranks.items() if one.doing == "dead"]
        return found

    def _can_act(self, one: Rank) -> bool:
        """An all-reduce waits for those that have not come to it yet; it fails when one of them never will."""
        if one.doing == "sums" and one.group is not None:
            if (one.group.generation, len(one.state or ())) in self.sums:
                return True
            return self._lost(one) or all(self._there(other, one, "sums") for other in one.group.members)
        if one.doing == "commits" and one.group is not None:
            return self._lost(one) or all(self._there(other, one, "commits") for other in one.group.members)
        return one.doing in ("connects", "computes")

    def _there(self, other: int, one: Rank, doing: str) -> bool:
        """Whether another rank of the group takes part in this all-reduce, or has done so."""
        that = self.ranks[other]
        if that.group != one.group:
            return False
        steps, mine = len(that.state or ()), len(one.state or ())
        return steps > mine or (steps == mine and (that.doing == doing or that.doing == "commits"))

    def _lost(self, one: Rank) -> bool:
        assert one.group is not None
        return any(self.ranks[other].group != one.group for other in one.group.members)

    def do(self, act: str, rank: int) -> None:
        one = self.ranks[rank]
        if act == "die":
            self.deaths -= 1
            self.ranks[rank] = Rank(doing="dead")
            self._follow(self.parent.gone(rank))
        elif act == "restart":
            self.restarts -= 1
            self.ranks[rank] = Rank()
            self._follow(self.parent.started(rank))
        elif one.doing == "connects":
            self._wait(rank, one, broke=False)
        elif one.doing == "computes":
            self.ranks[rank] = replace(one, doing="sums", pending=one.group is not None and rank in self._sharing(one))
        elif one.doing == "sums":
            self._sum(rank, one)
        elif one.doing == "commits":
            if self._lost(one) and not all(self._there(other, one, "commits") for other in self._members(one)):
                self._wait(rank, one, broke=True)
            else:
                self._finish(rank, one)

    @staticmethod
    def _members(one: Rank) -> tuple[int, ...]:
        assert one.group is not None
        return one.group.members

    def _sharing(self, one: Rank) -> tuple[int, ...]:
        assert one.group is not None
        return one.group.contributors if len(one.state or ()) == one.group.step else one.group.members

    def _sum(self, rank: int, one: Rank) -> None:
        assert one.group is not None and one.state is not None
        place = (one.group.generation, len(one.state))
        if place not in self.sums:
            if not all(self._there(other, one, "sums") for other in one.group.members):
                self._wait(rank, one, broke=True)
                return
            self.sums[place] = tuple(other for other in one.group.members if self.ranks[other].pending)
        elif self._lost(one):
            # It came out elsewhere; here it may have failed, which is the harder case.
            self._wait(rank, one, broke=True)
            return
        self.ranks[rank] = replace(one, doing="commits", sum=self.sums[place])

    def _finish(self, rank: int, one: Rank) -> None:
        assert one.sum is not None and one.state is not None
        assert one.sum, "a step to which nobody has contributed"
        before = self.committed.setdefault(len(one.state), one.sum)
        assert before == one.sum, "a step that was finished was made again otherwise"
        made = replace(one, state=(*one.state, one.sum), sum=None, pending=False, doing="computes")
        self.ranks[rank] = made
        if len(made.state or ()) >= STEPS:
            self._wait(rank, made, broke=False)

    def _wait(self, rank: int, one: Rank, *, broke: bool) -> None:
        self.ranks[rank] = replace(one, doing="waits", group=None if broke else one.group)
        self._follow(self.parent.ready(rank, one.report(self.lossy, broke)))

    def _follow(self, instructions: object) -> None:
        for one in instructions:  # type: ignore[attr-defined]
            if isinstance(one, Form):
                self._form(one.group)
            elif isinstance(one, End):
                for rank in one.ranks:
                    self.ranks[rank] = replace(self.ranks[rank], doing="ended")
            elif isinstance(one, Break):
                assert all(self.ranks[rank].group is not None for rank in one.ranks)

    def _form(self, group: Formed) -> None:
        """Members come to where the group begins. (A death on the way to it is one in the middle of the next act.)"""
        source = self.ranks[group.source]
        for rank in group.members:
            one = self.ranks[rank]
            assert one.doing == "waits"
            if one.sum is not None and len(one.state or ()) < group.step and one.state is not None:
                self.committed.setdefault(len(one.state), one.sum)
                one = replace(one, state=(*one.state, one.sum))
            if rank == group.source:
                source = replace(one, state=one.state or ())
            pending = one.pending if group.again else False
            self.ranks[rank] = replace(one, group=group, sum=None, pending=pending)
        for rank in group.members:
            one = self.ranks[rank]
            if rank not in group.holders:
                one = replace(one, state=source.state, pending=False)
            one = replace(one, state=one.state or ())
            assert len(one.state or ()) == group.step
            shares = rank in group.contributors and not group.again
            self.ranks[rank] = replace(one, doing="computes" if shares else "sums")
            if len(one.state or ()) >= STEPS:
                self._wait(rank, self.ranks[rank], broke=False)


@pytest.mark.parametrize("lossy", [False, True], ids=["again", "lossy"])
@pytest.mark.parametrize(
    ("ranks", "deaths", "restarts"),
    [(2, 1, 1), (3, 1, 0), (3, 2, 0), pytest.param(3, 2, 2, marks=pytest.mark.nightly)],
)
def test_every_history_ends_with_equal_states(ranks: int, deaths: int, restarts: int, lossy: bool) -> None:
    seen: set[object] = set()
    todo = [World(ranks, deaths, restarts, lossy)]
    ends = 0
    while todo:
        world = todo.pop()
        key = world.key()
        if key in seen:
            continue
        seen.add(key)
        acts = world.acts()
        if not [act for act in acts if act[0] == "act"] and not world.restarts:
            ends += 1
            left = [one for one in world.ranks.values() if one.doing != "dead"]
            assert left and all(one.doing == "ended" for one in left), world.ranks
            finals = {one.state for one in left if one.state is not None}
            assert len(finals) == 1 and len(next(iter(finals)) or ()) == STEPS, world.ranks
        for act in acts:
            then = world.copy()
            then.do(*act)
            todo.append(then)
    assert ends
    print(len(seen), "states,", ends, "ends")
