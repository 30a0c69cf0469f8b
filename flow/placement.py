"""On which hosts the ranks of tasks run, decided before anything starts from what tasks ask for and what hosts have.

Takes time that is linear in ranks and hosts, but for a factor log(hosts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wilkins.errors import WilkinsError
from wilkins.values import dataclass, field, replace

UNSPECIFIED = 0
"""Slots of a host that is given by its name alone."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of a run."""

    name: str
    slots: int
    """Ranks that may run there, or `UNSPECIFIED`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a task asks for; with all left out, ``together``: hosts are filled in the order of the workflow file."""

    spread: bool = False
    """Each rank on the host with the most free slots."""
    hosts: tuple[str, ...] = ()
    """These hosts only, filled in this order."""
    counts: tuple[int, ...] = ()
    """The numbers of ranks on the first host, the second, and so on."""
    beside: str = ""
    """The name of another task: rank by rank on the hosts of that one's ranks, in proportion where numbers differ."""

    def __str__(self) -> str:
        if self.beside:
            return f"with {self.beside}"
        if self.hosts or self.counts:
            return f"[{', '.join(map(str, self.hosts or self.counts))}]"
        return "spread" if self.spread else "together"


@dataclass(frozen=True, slots=True)
class Wish:
    """One instance of a task, to be placed."""

    task: str
    """The name that its instances share."""
    instance: int
    nprocs: int
    rule: Rule = Rule()


Share = tuple[tuple[int, int], ...]
"""Where the ranks of an instance run, in their order: pairs of a host's index and the number of ranks there."""


class Misplaced(WilkinsError, ValueError):
    """A task asks for what there is not."""

    def __init__(self, task: str, message: str) -> None:
        super().__init__(message)
        self.task = task


class NoSlots(Misplaced):
    """The hosts have too few slots; of all tasks together if `task` is empty."""


def verify(wishes: Sequence[Wish]) -> None:
    """Look at what tasks ask for, as far as that can be done without knowing the hosts.

    Raises:
        Misplaced: a task is to run with one that is not there, or in a circle, or gives hosts to more or fewer ranks
            than it has.
    """
    _Placing(wishes, ()).verify()


def place(wishes: Sequence[Wish], hosts: Sequence[Host]) -> tuple[Share, ...]:
    """Where each instance runs.

    Tasks that name their hosts come first, then the others in their order; tasks that run with another one take their
    slots together with it. A task that fits on one host is not divided, unless it asks for that.

    Raises:
        Misplaced: a task asks for what there is not.
        NoSlots: the hosts have too few slots.
    """
    return _Placing(wishes, hosts).shares()


def evenly(names: Sequence[str], ranks: int) -> tuple[Host, ...]:
    """Hosts of unknown slots: each gets as many as let all ranks run."""
    return tuple(Host(name, -(-ranks // len(names))) for name in names)


@dataclass(slots=True)
class _Group:
    """An instance and those that run with it, directly or not."""

    leader: int
    followers: list[tuple[int, list[int]]] = field(default_factory=list)
    """Each with the rank of the leader that each of its ranks goes with."""


class _Placing:
    def __init__(self, wishes: Sequence[Wish], hosts: Sequence[Host]) -> None:
        self.wishes = wishes
        self.hosts = hosts
        self.index = {host.name: place for place, host in enumerate(hosts)}
        self.free = _Slots([host.slots for host in hosts])
        self.found: list[Share] = [()] * len(wishes)

    def verify(self) -> list[_Group]:
        for wish in self.wishes:
            given = sum(wish.rule.counts)
            if wish.rule.counts and given != wish.nprocs:
                message = f"'placement' gives hosts to {given} ranks, and the task has {wish.nprocs}"
                raise Misplaced(wish.task, message)
        return self._groups()

    def shares(self) -> tuple[Share, ...]:
        groups = self.verify()
        fixed = [group for group in groups if self._rule(group).hosts or self._rule(group).counts]
        named = {group.leader for group in fixed}
        self._check_total()
        for group in [*fixed, *(group for group in groups if group.leader not in named)]:
            self._place(group)
        return tuple(self.found)

    def _rule(self, group: _Group) -> Rule:
        return self.wishes[group.leader].rule

    def _check_total(self) -> None:
        needed, there = sum(wish.nprocs for wish in self.wishes), self.free.total
        if needed > there:
            raise NoSlots(
                "", f"the workflow has {needed} ranks, and the hosts have {there} slots ({described(self.hosts)})"
            )

    def _groups(self) -> list[_Group]:
        instances: dict[str, list[int]] = {}
        for place_, wish in enumerate(self.wishes):
            instances.setdefault(wish.task, []).append(place_)
        groups: dict[int, _Group] = {}
        leads: dict[int, tuple[int, list[int]]] = {}

        def lead(place_: int) -> tuple[int, list[int]]:
            """The leader of an instance, and the leader's rank that each of its ranks goes with."""
            chain = []
            while self.wishes[place_].rule.beside and place_ not in leads:
                chain.append(place_)
                place_ = self._beside(place_, instances)
                if place_ in chain:
                    names = " with ".join(self.wishes[one].task for one in [*chain[chain.index(place_) :], place_])
                    raise Misplaced(self.wishes[place_].task, f"'placement' leads in a circle: {names}")
            known = leads.get(place_, (place_, list(range(self.wishes[place_].nprocs))))
            for one in reversed(chain):
                count, of = self.wishes[one].nprocs, len(known[1])
                known = leads[one] = known[0], [known[1][rank * of // count] for rank in range(count)]
            return known

        for place_, wish in enumerate(self.wishes):
            leader, ranks = lead(place_) if wish.rule.beside else (place_, [])
            group = groups.setdefault(leader, _Group(leader))
            if leader != place_:
                group.followers.append((place_, ranks))
        return sorted(groups.values(), key=lambda group: group.leader)

    def _beside(self, place_: int, instances: dict[str, list[int]]) -> int:
        """The instance beside which another one runs."""
        wish = self.wishes[place_]
        others = instances.get(wish.rule.beside)
        if others is None:
            raise Misplaced(
                wish.task, f"'placement' names the task {wish.rule.beside!r}, {_meant(wish.rule.beside, instances)}"
            )
        return others[wish.instance * len(others) // len(instances[wish.task])]

    def _place(self, group: _Group) -> None:
        wish = self.wishes[group.leader]
        weights = [1] * wish.nprocs if group.followers else None
        for _, ranks in group.followers:
            for rank in ranks:
                assert weights is not None
                weights[rank] += 1
        if wish.rule.counts:
            share = self._counted(wish, weights)
        elif wish.rule.hosts:
            share = self._filled(wish, weights, list(self._named(wish)))
        elif wish.rule.spread:
            share = self._spread(wish, weights)
        else:
            share = self._together(wish, weights)
        self.found[group.leader] = share
        hosts = [host for host, count in share for _ in range(count)] if group.followers else []
        for follower, ranks in group.followers:
            self.found[follower] = _runs(hosts[rank] for rank in ranks)

    def _named(self, wish: Wish) -> Iterator[int]:
        for name in wish.rule.hosts:
            if name not in self.index:
                raise Misplaced(wish.task, f"'placement' names the host {name!r}, {_meant(name, self.index)}")
            yield self.index[name]

    def _counted(self, wish: Wish, weights: Sequence[int] | None) -> Share:
        counts = wish.rule.counts
        if len(counts) > len(self.hosts):
            raise Misplaced(
                wish.task, f"'placement' gives ranks to {len(counts)} hosts, and there are {len(self.hosts)}"
            )
        first = 0
        for host, count in enumerate(counts):
            self._take(wish, host, _weight(weights, first, count))
            first += count
        return tuple((host, count) for host, count in enumerate(counts) if count)

    def _take(self, wish: Wish, host: int, slots: int) -> None:
        if slots > self.free[host]:
            name, free = self.hosts[host].name, self.free[host]
            raise NoSlots(wish.task, f"it needs {slots} slots on the host {name!r}, which has {free} left")
        self.free.take(host, slots)

    def _together(self, wish: Wish, weights: Sequence[int] | None) -> Share:
        host = self.free.first_with(_weight(weights, 0, wish.nprocs))
        if host is not None:
            self.free.take(host, _weight(weights, 0, wish.nprocs))
            return ((host, wish.nprocs),)
        return self._filled(wish, weights, None)

    def _filled(self, wish: Wish, weights: Sequence[int] | None, among: Sequence[int] | None) -> Share:
        """Hosts filled in order: those given, or all that have slots."""
        share: list[tuple[int, int]] = []
        placed = 0
        places = iter(self.free.with_slots() if among is None else among)
        while placed < wish.nprocs:
            host = next(places, None)
            if host is None:
                raise NoSlots(wish.task, self._lack(wish, wish.nprocs - placed, among))
            count, used = _fitting(weights, placed, wish.nprocs, self.free[host])
            if count:
                self.free.take(host, used)
                share.append((host, count))
                placed += count
        return tuple(share)

    def _lack(self, wish: Wish, ranks: int, among: Sequence[int] | None) -> str:
        where = "the hosts" if among is None else ", ".join(self.hosts[host].name for host in among)
        return f"{ranks} of its {wish.nprocs} ranks find no slot on {where}, after the tasks placed before it"

    def _spread(self, wish: Wish, weights: Sequence[int] | None) -> Share:
        """Slots are dealt one by one to the host with the most free ones; then ranks fill these in their order."""
        dealt: dict[int, int] = {}
        for _ in range(_weight(weights, 0, wish.nprocs)):
            host = self.free.emptiest()
            if not self.free[host]:
                raise NoSlots(wish.task, self._lack(wish, wish.nprocs, None))
            self.free.take(host, 1)
            dealt[host] = dealt.get(host, 0) + 1
        counts: dict[int, int] = {}
        placed = 0
        for host, slots in sorted(dealt.items()):
            counts[host], used = _fitting(weights, placed, wish.nprocs, slots)
            placed += counts[host]
            self.free.give(host, slots - used)
        share = [(host, count) for host, count in sorted(counts.items()) if count]
        if placed < wish.nprocs:  # ranks whose followers did not fit into what was dealt
            rest = weights[placed:] if weights else None
            share += self._filled(replace(wish, nprocs=wish.nprocs - placed), rest, None)
        return _runs(host for host, count in share for _ in range(count))


class _Slots:
    """Free slots of hosts, as a tree of maxima: a query takes time log(hosts)."""

    def __init__(self, slots: Sequence[int]) -> None:
        self._leaves = 1 << max(0, len(slots) - 1).bit_length()
        self._most = [0] * self._leaves + list(slots) + [0] * (self._leaves - len(slots))
        for node in range(self._leaves - 1, 0, -1):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
        self.total = sum(slots)

    def __getitem__(self, host: int) -> int:
        return self._most[self._leaves + host]

    def first_with(self, slots: int, start: int = 0) -> int | None:
        """The first host from `start` on that has at least `slots` free."""
        node = self._leaves + start
        while self._most[node] < slots:
            while node & 1:  # a right child, and all to the right of its parent is to be looked at next
                node >>= 1
                if not node:
                    return None
            node += 1
            if not node & (node - 1):
                return None
        while node < self._leaves:
            node *= 2
            node += self._most[node] < slots
        return node - self._leaves

    def with_slots(self) -> Iterator[int]:
        """Hosts with free slots, in order; slots may be taken during the iteration."""
        start = 0
        while start < self._leaves and (host := self.first_with(1, start)) is not None:
            yield host
            start = host + 1

    def emptiest(self) -> int:
        """The first of the hosts that have the most."""
        host = self.first_with(self._most[1])
        assert host is not None
        return host

    def take(self, host: int, slots: int) -> None:
        """Use slots of a host."""
        node = self._leaves + host
        self._most[node] -= slots
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def give(self, host: int, slots: int) -> None:
        """Take slots back."""
        self.take(host, -slots)


def _weight(weights: Sequence[int] | None, first: int, count: int) -> int:
    """Slots that ranks take, with those that run beside them."""
    return count if weights is None else sum(weights[first : first + count])


def _fitting(weights: Sequence[int] | None, first: int, end: int, slots: int) -> tuple[int, int]:
    """The number of ranks from `first` on that fit into `slots`, and the slots that they take."""
    if weights is None:
        count = min(slots, end - first)
        return count, count
    used = count = 0
    while first + count < end and used + weights[first + count] <= slots:
        used += weights[first + count]
        count += 1
    return count, used


def _meant(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(known)[:1000], n=1)
    return "which is not there" + (f"; did you mean {near[0]!r}?" if near else "")


def described(hosts: Sequence[Host]) -> str:
    """Hosts with their slots, at most a few: ``node0:4, node1:4``."""
    shown = ", ".join(f"{host.name}:{host.slots}" for host in hosts[:4])
    return shown + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")


def _runs(hosts: Iterable[int]) -> Share:
    runs: list[list[int]] = []
    for host in hosts:
        if runs and runs[-1][0] == host:
            runs[-1][1] += 1
        else:
            runs.append([host, 1])
    return tuple((host, count) for host, count in runs)
