"""On which hosts ranks run: every rank on one, no host with more than its slots, neighbours together."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from wilkins.flow.placement import Host, Misplaced, NoSlots, Rule, Share, Wish, place


def hosts(*slots: int) -> list[Host]:
    return [Host(f"h{number}", count) for number, count in enumerate(slots)]


def counts(shares: tuple[Share, ...]) -> list[dict[int, int]]:
    found = []
    for share in shares:
        ranks: Counter[int] = Counter()
        for host, count in share:
            ranks[host] += count
        found.append(dict(ranks))
    return found


def test_hosts_are_filled_and_what_fits_on_one_is_not_divided() -> None:
    shares = place([Wish("sim", 0, 3), Wish("ana", 0, 2), Wish("plot", 0, 1)], hosts(4, 4))
    assert shares == (((0, 3),), ((1, 2),), ((0, 1),))


def test_a_task_larger_than_any_host_fills_them_in_order() -> None:
    assert place([Wish("sim", 0, 7)], hosts(2, 4, 4)) == (((0, 2), (1, 4), (2, 1)),)


def test_spread_gives_each_host_its_part_in_the_order_of_ranks() -> None:
    shares = place([Wish("sim", 0, 5, Rule(spread=True)), Wish("ana", 0, 3)], hosts(4, 4, 4))
    assert shares == (((0, 2), (1, 2), (2, 1)), ((2, 3),))


def test_a_task_runs_beside_another_rank_by_rank() -> None:
    wishes = [Wish("sim", 0, 4), Wish("ana", 0, 2, Rule(beside="sim")), Wish("other", 0, 2)]
    assert place(wishes, hosts(3, 3, 2)) == (((0, 2), (1, 2)), ((0, 1), (1, 1)), ((2, 2),))


def test_instances_run_beside_instances() -> None:
    sims = [Wish("sim", instance, 2) for instance in range(4)]
    readers = [Wish("ana", instance, 1, Rule(beside="sim")) for instance in range(2)]
    shares = counts(place([*sims, *readers], hosts(5, 5, 5)))
    assert shares[4] == dict.fromkeys(shares[0], 1)
    assert shares[5] == dict.fromkeys(shares[2], 1)


def test_named_and_counted_hosts() -> None:
    wishes = [Wish("a", 0, 2), Wish("b", 0, 2, Rule(hosts=("h1",))), Wish("c", 0, 3, Rule(counts=(1, 0, 2)))]
    assert place(wishes, hosts(3, 3, 3)) == (((0, 2),), ((1, 2),), ((0, 1), (2, 2)))


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ([Wish("a", 0, 5)], "5 ranks, and the hosts have 4 slots (h0:2, h1:2)"),
        ([Wish("a", 0, 3, Rule(hosts=("h1",)))], "1 of its 3 ranks find no slot on h1"),
        ([Wish("a", 0, 1, Rule(hosts=("h7",)))], "names the host 'h7', which is not there"),
        ([Wish("a", 0, 2, Rule(counts=(1,)))], "gives hosts to 1 ranks, and the task has 2"),
        ([Wish("a", 0, 3, Rule(counts=(0, 3)))], "it needs 3 slots on the host 'h1', which has 2 left"),
        ([Wish("a", 0, 1, Rule(beside="b"))], "names the task 'b', which is not there"),
        (
            [Wish("a", 0, 1, Rule(beside="b")), Wish("b", 0, 1, Rule(beside="a"))],
            "'placement' leads in a circle: a with b with a",
        ),
    ],
)
def test_what_cannot_be(wishes: list[Wish], message: str) -> None:
    with pytest.raises(Misplaced) as caught:
        place(wishes, hosts(2, 2))
    assert message in str(caught.value)
    assert isinstance(caught.value, NoSlots) == ("slot" in message)


@pytest.mark.parametrize("seed", range(200))
def test_random_workflows(seed: int) -> None:
    """Each rank has a host, no host more ranks than slots, and it is refused only for want of slots."""
    draw = random.Random(seed)
    machines = hosts(*(draw.randint(0, 6) for _ in range(draw.randint(1, 8))))
    wishes = []
    for task in range(draw.randint(1, 6)):
        beside = Rule(beside=f"t{draw.randrange(task)}") if task and draw.random() < 0.3 else None
        rule = beside or draw.choice([Rule(), Rule(spread=True)])
        nprocs, instances = draw.randint(1, 5), draw.choice([1, 1, 3])
        wishes += [Wish(f"t{task}", instance, nprocs, rule) for instance in range(instances)]
    try:
        shares = counts(place(wishes, machines))
    except NoSlots:
        fits = sum(wish.nprocs for wish in wishes) <= sum(machine.slots for machine in machines)
        assert not fits or any(wish.rule.beside for wish in wishes), "only ranks that go together may find no place"
        return
    for wish, share in zip(wishes, shares, strict=True):
        assert sum(share.values()) == wish.nprocs
    for number, machine in enumerate(machines):
        assert sum(share.get(number, 0) for share in shares) <= machine.slots


def test_a_million_ranks_on_ten_thousand_hosts() -> None:
    many = hosts(*[100] * 10_000)
    shares = place([Wish("sim", 0, 900_000), Wish("ana", 0, 100_000, Rule(beside="sim"))], many)
    assert all(
        sum(count for _, count in share) == wanted for share, wanted in zip(shares, (900_000, 100_000), strict=True)
    )
    assert max(len(share) for share in shares) <= 2 * 10_000
