"""Which samples a rank keeps: decides the slot of every candidate, without touching a sample.

Samples are kept in groups, which share the room: one per class, step or task, or a single one (unlabelled or
regression streams, proportional room). While there is room every candidate is kept. Then groups are held in balance: a
candidate of a group that is not among the largest takes the place of a sample of a largest group.

`reservoir` is Vitter's algorithm R within each group, with class balancing after Chrysakis and Moens: a group is
*full* once it gave up a sample, or was among the largest when one of its own candidates found no room. The n-th
candidate of a full group is kept with probability m/n, m being the group's present size, in place of a random sample.
A full group never grows, and shrinks only by a random sample; so at any time a group is a uniform sample of all its
candidates. A function of the user's decides by the same counts.

Sources: J. S. Vitter, Random sampling with a reservoir, ACM TOMS 11 (1985), algorithm R; A. Chrysakis, M.-F. Moens,
Online continual learning from imbalanced data, ICML 2020, algorithm 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.continual.errors import RehearsalError
from wilkins.tasks.continual.rehearsal.buffer_options import Choice, Eviction, place_of
from wilkins.tasks.continual.rehearsal.draws import Ints


class Placement(NamedTuple):
    """Which candidates are kept, and where; each slot at most once."""

    slots: Ints
    sources: Ints
    """Positions in the list of candidates."""
    replaced: int
    """How many of the samples kept before this, or just placed, had to go."""


@dataclass(slots=True)
class _Group:
    """Slots of a group's samples, in order of arrival (`fifo`, functions) or in any order."""

    members: deque[int] | list[int]
    seen: int = 0
    full: bool = field(default=False)


class Population:
    """The samples of one rank: who is in which slot."""

    def __init__(self, capacity: int, eviction: Eviction | Choice) -> None:
        self.capacity = capacity
        self.eviction = eviction
        self.size = 0
        self._groups: dict[int, _Group] = {}

    def counts(self) -> Ints:
        """Rows of (group, number of samples), ascending by group."""
        rows = [(label, len(group.members)) for label, group in sorted(self._groups.items())]
        return np.array(rows, np.int64).reshape(-1, 2)

    def seen(self) -> int:
        """How many candidates were offered so far."""
        return sum(group.seen for group in self._groups.values())

    def slots(self, entries: Ints, indices: Ints) -> Ints:
        """The slots of samples, given by row of `counts` and position within the group."""
        groups = [group.members for _, group in sorted(self._groups.items())]
        found = (groups[entry][index] for entry, index in zip(entries.tolist(), indices.tolist(), strict=True))
        return np.fromiter(found, np.int64, len(entries))

    def insert(self, groups: Sequence[int], rng: np.random.Generator) -> Placement:
        """Decide for candidates, one after the other, given the group of each."""
        taken: dict[int, int] = {}
        before = self.size
        kept = 0
        for source, label in enumerate(groups):
            slot = self._place(label, rng)
            if slot is not None:
                taken[slot] = source
                kept += 1
        slots = np.fromiter(taken.keys(), np.int64, len(taken))
        sources = np.fromiter(taken.values(), np.int64, len(taken))
        return Placement(slots, sources, kept - (self.size - before))

    def _place(self, label: int, rng: np.random.Generator) -> int | None:
        if label not in self._groups:
            self._groups[label] = _Group(deque() if self.eviction == "fifo" else [])
        group = self._groups[label]
        group.seen += 1
        if self.size < self.capacity:
            group.members.append(self.size)
            self.size += 1
            return self.size - 1
        if not isinstance(self.eviction, str):
            return self._replace_by_choice(label, self.eviction, rng)
        if self.eviction == "reservoir" and group.full:
            return self._replace_by_chance(group, rng)
        largest = max(len(other.members) for other in self._groups.values())
        if len(group.members) == largest:
            if self.eviction == "reservoir":
                group.full = True
                return self._replace_by_chance(group, rng)
            slot = self._give_up(group, rng)
        else:
            victims = [other for other in self._groups.values() if len(other.members) == largest]
            victim = victims[int(rng.integers(len(victims)))]
            victim.full = True
            slot = self._give_up(victim, rng)
        group.members.append(slot)
        return slot

    @staticmethod
    def _replace_by_chance(group: _Group, rng: np.random.Generator) -> int | None:
        """Algorithm R: the n-th candidate replaces member j, j uniform below n, if there is such a member."""
        chosen = int(rng.integers(group.seen))
        return group.members[chosen] if chosen < len(group.members) else None

    def _replace_by_choice(self, label: int, choose: Choice, rng: np.random.Generator) -> int | None:
        held = {one: len(group.members) for one, group in self._groups.items() if group.members}
        offered = {one: group.seen for one, group in self._groups.items()}
        chosen = choose(label, held, offered, rng)
        if chosen is None:
            return None
        if not isinstance(chosen, tuple) or len(chosen) != 2 or not all(isinstance(one, Integral) for one in chosen):
            raise RehearsalError(
                f"'eviction: {place_of(choose)}' gave {chosen!r}; give a group and the position of a sample in it, two "
                "whole numbers, or None to leave the candidate out"
            )
        victim, position = map(int, chosen)
        if not 0 <= position < held.get(victim, 0):
            raise RehearsalError(
                f"'eviction: {place_of(choose)}' chose sample {position} of group {victim} to make room, and of this "
                f"group there are {held.get(victim, 0)}; give a position from 0 on, or None to leave the candidate out"
            )
        slot = self._groups[victim].members[position]
        del self._groups[victim].members[position]
        self._groups[label].members.append(slot)
        return slot

    def _give_up(self, group: _Group, rng: np.random.Generator) -> int:
        """Remove a member: the oldest, or any with equal probability."""
        members = group.members
        if isinstance(members, deque):
            return members.popleft()
        chosen = int(rng.integers(len(members)))
        members[chosen], members[-1] = members[-1], members[chosen]
        return members.pop()

    def state(self) -> dict[str, Any]:
        """Everything decided so far, as arrays."""
        groups = list(self._groups.items())  # a victim is chosen by place in this order, so a restart needs it
        table = [(label, len(group.members), group.seen, group.full) for label, group in groups]
        members = [slot for _, group in groups for slot in group.members]
        return {"groups": np.array(table, np.int64).reshape(-1, 4), "members": np.array(members, np.int64)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`.

        Raises:
            ValueError: the state contradicts itself or has more samples than there is room for.
        """
        members = state["members"].tolist()
        if sorted(members) != list(range(len(members))) or len(members) > self.capacity:
            raise ValueError("the slots of the saved samples contradict each other")
        if sum(state["groups"][:, 1].tolist()) != len(members):
            raise ValueError("the counts of the saved samples contradict each other")
        self._groups, self.size, first = {}, len(members), 0
        for label, count, seen, full in state["groups"].tolist():
            mine = members[first : first + count]
            self._groups[label] = _Group(deque(mine) if self.eviction == "fifo" else mine, seen, bool(full))
            first += count
