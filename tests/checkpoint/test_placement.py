"""Where pieces go: the risk is that of all ways to fail, choices are safe and have room, and are worth their name."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from benchmarks import placement as simulation
from wilkins.tasks.checkpoint import CheckpointError, Place, Storage
from wilkins.tasks.checkpoint.placement.choice import RULES, Chooser, Fixed
from wilkins.tasks.checkpoint.placement.places import place_of, storage_of
from wilkins.tasks.checkpoint.placement.survival import domain_numbers, loss_probability, risk_of

EVERY = [*RULES, Fixed(((3, 2), (1, 2)))]


def risk_by_hand(losses: Sequence[float], domains: Sequence[str], parity: int) -> float:
    """Every way in which places fail, one by one; a failure takes all pieces of its domain."""
    risk = 0.0
    for fails in itertools.product((False, True), repeat=len(losses)):
        chance = math.prod(loss if fail else 1 - loss for loss, fail in zip(losses, fails, strict=True))
        gone = {name or place for place, (name, fail) in enumerate(zip(domains, fails, strict=True)) if fail}
        lost = sum((name or place) in gone for place, name in enumerate(domains))
        risk += chance * (lost > parity)
    return risk


def some_places(rng: random.Random, count: int, domains: int = 0) -> list[Place]:
    return [
        Place(
            f"p{number}",
            rng.randrange(10, 10_000),
            rng.uniform(50, 300),
            rng.uniform(50, 300),
            rng.choice((0.0, 0.003, 0.02, 0.3)),
            f"d{rng.randrange(domains)}" if domains else "",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_the_risk_is_that_of_all_ways_to_fail(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 8)
    losses = [rng.choice((0.0, 1e-6, 0.01, 0.3, 0.99)) for _ in range(count)]
    domains = [rng.choice(("", "a", "b", "c")) for _ in range(count)]
    numbers = domain_numbers(domains)
    for parity in range(count):
        expected = risk_by_hand(losses, domains, parity)
        assert risk_of(losses, numbers, parity) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_shared_failures_are_never_understated(seed: int) -> None:
    """Whether the places of a domain fail alone, or all at once, and whatever lies between: no more are lost."""
    rng = random.Random(seed)
    losses = [rng.uniform(0.001, 0.4) for _ in range(6)]
    domains = [rng.choice("abc") for _ in losses]
    for parity in range(6):
        ours = risk_of(losses, domain_numbers(domains), parity)
        assert ours >= risk_of(losses, range(6), parity) - 1e-12
        # All at once: a domain as often as its worst place.
        worst = {name: max(loss for loss, of in zip(losses, domains, strict=True) if of == name) for name in domains}
        together = 0.0
        for gone in itertools.product((False, True), repeat=len(worst)):
            fallen = dict(zip(worst, gone, strict=True))
            chance = math.prod(worst[name] if fall else 1 - worst[name] for name, fall in fallen.items())
            together += chance * (sum(fallen[name] for name in domains) > parity)
        assert ours >= together - 1e-12


def test_rare_losses_are_not_rounded_away() -> None:
    assert risk_of([1e-6] * 4, range(4), 2) == pytest.approx(4e-18, rel=1e-3)
    assert loss_probability(1e-12, 1) == pytest.approx(1e-12)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("rule", EVERY, ids=str)
def test_what_is_chosen_is_safe_and_has_room(rule: str | Fixed, seed: int) -> None:
    rng = random.Random(seed)
    places = some_places(rng, rng.randint(2, 7), rng.choice((0, 0, 2, 4)))
    target = rng.choice((0.9, 0.999, 0.99999))
    free = [rng.choice((-1.0, 0.0, float(place.space or 0))) for place in places]
    size = rng.uniform(1, 8000)
    choice = Chooser(places, target, 1.0, rule).choose(size, free)
    if choice is None:
        if rule in ("least-cost", "drex-sc"):
            assert not any_fits(places, target, free, size)
        return
    assert len(set(choice.places)) == len(choice.places) == choice.data + choice.parity
    assert choice.data >= 1 and choice.parity >= 1
    assert all(free[one] >= choice.chunk for one in choice.places)
    assert choice.chunk * choice.data == pytest.approx(size)
    risk = risk_by_hand(
        [loss_probability(places[one].annual_failure, 1) for one in choice.places],
        [places[one].domain for one in choice.places],
        choice.parity,
    )
    assert risk == pytest.approx(choice.risk, rel=1e-9, abs=1e-15)
    assert risk <= (1 - target) * (1 + 1e-9)


def any_fits(places: Sequence[Place], target: float, free: Sequence[float], size: float) -> bool:
    for count in range(2, len(places) + 1):
        for some in itertools.combinations(range(len(places)), count):
            for data in range(1, count):
                losses = [loss_probability(places[one].annual_failure, 1) for one in some]
                risk = risk_by_hand(losses, [places[one].domain for one in some], count - data)
                if risk < (1 - target) * (1 - 1e-9) and all(free[one] >= size / data for one in some):
                    return True
    return False


def test_the_least_storage_is_the_least() -> None:
    """Of places that are alike, the code with the least bytes of all that are safe enough."""
    places = [Place(f"p{number}", 1000, annual_failure=0.01) for number in range(8)]
    choice = Chooser(places, 0.9999, 1.0, "least-storage").choose(100, [1000.0] * 8)
    loss = loss_probability(0.01, 1)
    safe = [
        (data + parity) / data
        for data in range(1, 8)
        for parity in range(1, 9 - data)
        if risk_of([loss] * (data + parity), range(data + parity), parity) <= 1e-4
    ]
    assert choice is not None and choice.stored == pytest.approx(100 * min(safe))


def test_full_and_lost_places_are_passed_over() -> None:
    places = [Place(f"p{number}", 1000, annual_failure=0.01) for number in range(6)]
    for rule in RULES:
        choice = Chooser(places, 0.99, 1.0, rule).choose(100, [1000, 5, 1000, -1, 1000, 1000])
        assert choice is not None and not {1, 3} & set(choice.places)


def test_repair_counts() -> None:
    """At equal parity, bytes that a repair has to read are worth less than safer places."""
    places = [Place(f"p{number}", 1000, annual_failure=0.5 if number < 4 else 0.001) for number in range(8)]
    choice = Chooser(places, 0.99, 0.01, "least-cost").choose(100, [1000.0] * 8)
    assert choice is not None
    often = Chooser(places, 0.99, 20.0, "least-cost").choose(100, [1000.0] * 8)
    assert often is not None and set(often.places) <= {4, 5, 6, 7}
    assert often.repair_bytes == pytest.approx(len(often.places) * 0.02 * often.chunk * (often.data + 1))


def test_many_places() -> None:
    """More than every set can be looked at of: still safe, with room, and soon."""
    rng = random.Random(5)
    places = [Place(f"p{number}", 10**6, rng.uniform(1, 9), rng.uniform(1, 9), 0.02) for number in range(32)]
    for rule in RULES:
        choice = Chooser(places, 0.99999, 1.0, rule).choose(1000, [1e6] * 32)
        assert choice is not None and choice.risk <= 1e-5 and len(choice.places) <= 32


def test_lost_pieces_go_to_other_domains() -> None:
    places = [Place(f"p{number}", 1000, annual_failure=0.01, domain="aabbccdd"[number]) for number in range(8)]
    chooser = Chooser(places, 0.999)
    assert chooser.replacements([0, 2, 4], 1, 1, 10, [1000.0] * 8) in ([6], [7])
    assert chooser.replacements([0, 2, 4], 1, 1, 10, [0] * 6 + [-1, 900]) == [7]
    assert chooser.replacements([0, 2, 4], 2, 1, 10, [0] * 8) == []
    assert len(chooser.replacements([0, 2], 2, 2, 10, [1000.0] * 8)) == 2


def test_the_simulation_repeats_the_papers_fixed_codes() -> None:
    """The share of the room that MEVA's items take, of the paper's result files, and what is chosen per item."""
    places = simulation.hosts("most-used")
    room = sum(one.space or 0 for one in places)
    items = [40 * size for size in simulation.sizes("MEVA", room)[::40]]
    stored = {
        label: simulation.run(places, rule, 0.9999, items).bytes / room for label, rule in simulation.RULES.items()
    }
    for label, percent in zip(simulation.FIXED, simulation.PAPER["MEVA"][0.9999], strict=False):
        if label != "DAOS":
            assert stored[label] == pytest.approx(percent / 100, abs=0.03), label
    assert stored["least-cost"] > stored["D-Rex LB"] > stored["EC(4,2)"]


def test_repairs_of_the_simulation_never_exceed_the_room() -> None:
    """Half of the hosts are lost; pieces that are left take no more than there is."""
    places = simulation.hosts("most-failing")
    items = [400e9 / 60] * 40
    out = simulation.run(places, "least-cost", 0.99, items, deaths={10: (0,), 20: (8,), 30: (1, 2)})
    assert out.items > 20 and out.moved > 0 and out.least_room >= 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"path": "a"}], "1 places"),
        ([{"path": "a"}, {"path": "a"}], "each once"),
        ([{"path": "a", "speed": 1}, "b"], "remove 'speed'"),
        ([{"space": 1}, "b"], "give the path"),
        ([{"path": "a", "write": 0}, "b"], "positive"),
        ([{"path": "a", "annual_failure": -1}, "b"], "positive"),
        ([{"path": "a", "space": -1}, "b"], "space=-1"),
        ([{"path": ""}, "b"], "no path"),
    ],
)
def test_what_places_may_not_be(given: list[object], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        storage_of(given)  # type: ignore[arg-type]


def test_what_a_storage_may_not_be() -> None:
    for wrong in ({"reliability": 1.0}, {"years": 0.0}, {"keep": 0}):
        with pytest.raises(CheckpointError, match="probability below 1"):
            Storage(["a", "b"], **wrong)
    with pytest.raises(CheckpointError, match="least-cost"):
        Chooser([place_of("a"), place_of("b")], 0.9, 1.0, "cheapest")
    assert storage_of(["a", {"path": "b", "domain": "x"}]).places[1].domain == "x"
