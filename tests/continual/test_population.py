"""Which samples a rank keeps: uniform samples of each class, balanced room, the oldest out first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from continual.chance import equal_cells, rejected, two_sided
from hypothesis import given
from hypothesis import strategies as st

from wilkins.tasks.continual.rehearsal.buffer_options import Choice, Eviction
from wilkins.tasks.continual.rehearsal.population import Population

EVICTIONS: tuple[Eviction, ...] = ("reservoir", "random", "fifo")


def any_of_largest(
    group: int, held: Mapping[int, int], offered: Mapping[int, int], rng: np.random.Generator
) -> tuple[int, int] | None:
    """A user's choice."""
    largest = max(held, key=lambda one: held[one])
    return None if offered[group] % 3 == 0 else (largest, int(rng.integers(held[largest])))


class Watched:
    """A population, and which candidate is in which slot."""

    def __init__(self, capacity: int, eviction: Eviction | Choice, seed: int = 0) -> None:
        self.population = Population(capacity, eviction)
        self.rng = np.random.default_rng(seed)
        self.held: dict[int, tuple[int, int]] = {}
        self.count = 0

    def offer(self, labels: list[int], *, grouped: bool = True) -> None:
        """Offer one batch's candidates, numbered on."""
        groups = labels if grouped else [0] * len(labels)
        placement = self.population.insert(groups, self.rng)
        assert len(set(placement.slots.tolist())) == len(placement.slots)
        for slot, source in zip(placement.slots.tolist(), placement.sources.tolist(), strict=True):
            self.held[slot] = (labels[source], self.count + source)
        self.count += len(labels)

    def by_class(self) -> dict[int, list[int]]:
        """The numbers of the candidates held of each class."""
        found: dict[int, list[int]] = {}
        for label, number in self.held.values():
            found.setdefault(label, []).append(number)
        return {label: sorted(numbers) for label, numbers in found.items()}


@given(
    eviction=st.sampled_from((*EVICTIONS, any_of_largest)),
    capacity=st.integers(1, 12),
    batches=st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=15),
)
def test_books_are_right(eviction: Eviction | Choice, capacity: int, batches: list[list[int]]) -> None:
    """The tables tell what is in the slots, room is used and never exceeded, and a state gives the same again."""
    watched = Watched(capacity, eviction)
    for labels in batches:
        watched.offer(labels)
        population = watched.population
        assert population.size == len(watched.held) == min(capacity, watched.count)
        assert sorted(watched.held) == list(range(population.size))
        assert population.seen() == watched.count
        counts = population.counts()
        assert {label: n for label, n in counts.tolist() if n} == {k: len(v) for k, v in watched.by_class().items()}
        entries = np.repeat(np.arange(len(counts)), counts[:, 1])
        positions = np.concatenate([np.arange(n) for n in counts[:, 1]]) if len(counts) else np.empty(0, int)
        slots = population.slots(entries, positions)
        assert sorted(slots.tolist()) == list(range(population.size))
        assert [watched.held[slot][0] for slot in slots.tolist()] == counts[entries, 0].tolist()
        again = Population(capacity, eviction)
        again.restore(population.state())
        assert (again.counts() == counts).all()
        assert (again.slots(entries, positions) == slots).all()
        assert again.seen() == population.seen()


@pytest.mark.parametrize("eviction", EVICTIONS)
def test_classes_share_the_room(eviction: Eviction) -> None:
    """Classes that come one after the other, and unequally often, end with equal room."""
    watched = Watched(60, eviction)
    for label, times in enumerate([200, 40, 500, 90, 25, 60]):
        for _ in range(times):
            watched.offer([label])
    sizes = {label: len(numbers) for label, numbers in watched.by_class().items()}
    assert sum(sizes.values()) == 60
    assert set(sizes) == set(range(6))
    assert all(9 <= size <= 11 for size in sizes.values())


def test_rare_classes_keep_all() -> None:
    """A class with fewer samples than its share keeps every one; the others use the rest."""
    watched = Watched(30, "reservoir")
    watched.offer([7, 7, 7])
    for _ in range(300):
        watched.offer([0, 1])
    assert watched.by_class()[7] == [0, 1, 2]
    assert sorted(len(numbers) for numbers in watched.by_class().values()) == [3, 13, 14]


@pytest.mark.parametrize("proportional", [False, True], ids=["class", "proportional"])
def test_fifo_keeps_the_newest(proportional: bool) -> None:
    watched = Watched(10, "fifo")
    for step in range(50):
        watched.offer([step % 2], grouped=not proportional)
    numbers = sorted(number for _, number in watched.held.values())
    assert numbers == list(range(40, 50))


def test_proportional_room_follows_the_stream() -> None:
    """With one group, classes are held as often as they come."""
    held: Counter[int] = Counter()
    for seed in range(40):
        watched = Watched(100, "reservoir", seed)
        for _ in range(200):
            watched.offer([0, 0, 0, 1], grouped=False)
        held.update(label for label, _ in watched.held.values())
    assert held[1] / held.total() == pytest.approx(0.25, abs=0.03)


@pytest.mark.usual("mixed", "a class appears late")
@pytest.mark.parametrize("stream", ["one class", "classes in turn", "a class appears late", "mixed"])
def test_reservoir_is_a_uniform_sample(stream: str) -> None:
    """Each candidate of a class is kept equally often, the first as often as the last, also when its room shrank."""
    labels = {
        "one class": [0] * 40,
        "classes in turn": [0] * 20 + [1] * 20 + [2] * 20,
        "a class appears late": [0, 1] * 15 + [2, 0, 1] * 8,
        "mixed": np.random.default_rng(1).integers(0, 3, 45).tolist(),
    }[stream]
    kept = np.zeros(len(labels), np.int64)
    trials = 2000
    for seed in range(trials):
        watched = Watched(12, "reservoir", seed)
        for first in range(0, len(labels), 5):
            watched.offer(labels[first : first + 5])
        for _, number in watched.held.values():
            kept[number] += 1
    chances = {}
    for label in set(labels):
        mine = kept[np.array(labels) == label]
        expected, share = mine.mean(), mine.mean() / trials
        value = ((mine - expected) ** 2).sum() / (expected * (1 - share) * len(mine) / (len(mine) - 1))
        chances[str(label)] = two_sided(float(value), len(mine) - 1)
    assert not rejected(chances)


def test_random_replaces_any_member_of_the_class() -> None:
    """With `random`, the newest candidate is always kept, and any other of its class goes with equal probability."""
    gone = np.zeros(8, np.int64)
    for seed in range(3000):
        watched = Watched(8, "random", seed)
        watched.offer([0] * 9)
        numbers = watched.by_class()[0]
        assert 8 in numbers
        gone[next(number for number in range(8) if number not in numbers)] += 1
    assert not rejected({"gone": equal_cells(gone)})


def test_a_state_that_contradicts_itself() -> None:
    watched = Watched(5, "reservoir")
    watched.offer([0, 1, 1])
    state = watched.population.state()
    with pytest.raises(ValueError, match="slots"):
        Population(5, "reservoir").restore({**state, "members": np.array([0, 1, 1])})
    with pytest.raises(ValueError, match="slots"):
        Population(2, "reservoir").restore(state)
    with pytest.raises(ValueError, match="counts"):
        Population(5, "reservoir").restore({**state, "groups": state["groups"][:1]})
