"""Circles of waits in the step store, and how they end: a channel is stretched, a look finds nothing, a step is let go.

A rank can move if one of its processes or threads neither waits nor rests (sleeps until another one of its rank wakes
it, or is in a call of MPI's that other ranks of its task end), or if a call that waits can be answered by what others
that can move may do. A rank of which all rest is woken by the others of its task. A rank whose processes are all over
moves no more; a task whose are, is started again when a step comes.
Those left wait for each other only. What is done about it is done where the circle is, not at what hangs on it: among
ranks each of which waits for all the others, directly or not.

It is a waiting process that finds this out (`relieve`), whenever it looks. In this order:

1. A full channel in the circle is stretched by one step, up to `Store.limit`. A stretch stays. It costs no step, so
   here a rank waits if one of its processes does, and a rank of a task of which another one waits is taken to rest.

What follows may cost something, so all processes of the ranks in the circle must be known to wait or to rest.

2. What processes of a stage have left that are over is passed on.
3. A name that a rank in the circle opens again is taken to mean the step that it has had: its producer, which waits for
   room elsewhere, does not write the name anew before that ends.
4. Ranks that have read the same steps are taken to divide them from now on, if that frees room: what one rank has had
   is given up by those that have had a later one.
5. A look or a listing of the circle finds nothing: that costs no data. Not a look that is a poll: nobody would gain.
6. If nobody in the circle polls by listings, a step is let go from a full channel of a wildcard port: the oldest that
   no rank has had, or, where there are fewer than the channel may hold, the oldest that some rank has not had.
7. The run is stopped. If somebody waits for memory that is full of steps which programs can see, it is said who does.

Who waits for memory waits for those that have the port's steps to read, or to write, or can see them; to let a step go
is of use to it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reference.records import Call, Listed, Missing, Process, Rank, Slot, Step
from reference.store import Store

from wilkins.flow.machine import Wait


class Stretched(NamedTuple):
    """The channel may hold so many steps of each source from now on."""

    channel: int
    bound: int


class PassedOn(NamedTuple):
    """Files are passed on that other processes of its rank have left."""

    process: Process


class Settled(NamedTuple):
    """The name that the process waits to open again means the step that its rank has had."""

    process: Process


class Divided(NamedTuple):
    """Ranks that read this in-port are taken to divide its steps."""

    inport: int


class LetGo(NamedTuple):
    """A step that some rank may still have wanted is given up. `waits`: for what, in the circle."""

    channel: int
    step: Step
    waits: tuple[tuple[Process, Call], ...]


class Filled(NamedTuple):
    """The memory of the out-port is full of steps that these processes can see: the run is stopped."""

    outport: int
    views: tuple[tuple[Process, Step], ...]


class Stopped(NamedTuple):
    """Nothing can end these waits."""

    waits: tuple[tuple[Process, Call], ...]


Relief = Stretched | PassedOn | Settled | Divided | Missing | Listed | LetGo | Filled | Stopped


def relieve(store: Store, who: Process) -> Relief | None:
    """A waiting process looks whether it waits in a circle, and does something about it.

    Returns None if it does not, if the circle is for others to end, or if they may yet move.
    """
    circle = find_circle(store, who, known=False)
    if not circle:
        return None
    full = [(channel, process) for process in _waiting(store, circle) for channel in _full(store, process)]
    for channel, process in full:
        if store.bound(channel) < store.limit(channel) and not _lacks_memory(store, process):
            store.states[channel].stretch += 1
            return Stretched(channel, store.bound(channel))
    circle = find_circle(store, who, known=True)
    if not circle:
        return None
    waits = tuple((process, store.waits[process]) for process in _waiting(store, circle))
    for process, _ in waits:
        if store.pass_on_left(process):
            return PassedOn(process)
    for process, call in waits:
        if store.may_settle(process):
            store.ports[call.port].settled[process.rank] = call.name
            return Settled(process)
    full = [(channel, process) for process, _ in waits for channel in _full(store, process)]
    for channel, process in full:
        inport = store.channels[channel].inport
        if store.ports[inport].shared and _divides(store, channel, process):
            store.ports[inport].shared = False
            return Divided(inport)
    call = store.waits[who]
    if _gives_up(store, who):
        nothing = Missing("circle") if call.kind == "look" else Listed((), ())
        store.answer(who, call, nothing)
        return nothing
    if any(call.kind == "poll" or _gives_up(store, process) for process, call in waits):
        return None
    candidates = [(slot, channel) for channel, process in full for slot in _least_wanted(store, channel, process)]
    if not candidates:
        return next((_filled(store, process) for process, _ in waits if _sees_any(store, process)), Stopped(waits))
    slot, channel = min(candidates, key=lambda one: one[0].stamp)
    slot.on[channel] = "let go"
    return LetGo(channel, slot.step, waits)


def relieve_poll(store: Store, who: Process, inport: int) -> Relief | None:
    """A process that has just listed the in-port looks whether others wait for its rank, which polls."""
    if not store.polls(who.of) or any(other.of == who.of for other in store.waits):
        return None
    store.waits[who] = Call("poll", inport, "")
    try:
        return relieve(store, who)
    finally:
        del store.waits[who]


def _gives_up(store: Store, who: Process) -> bool:
    """Whether the process waits only as long as somebody else may end that."""
    return store.waits[who].kind in ("look", "list") and who not in store.insisting


def find_circle(store: Store, who: Process, known: bool) -> set[Rank]:
    """The circle that the process's rank is in, or nothing.

    `known`: a rank counts as one that waits only if all of its processes wait or rest.
    """
    needs = _needs(store, known)
    stuck = set(needs)
    moved = True
    while moved:
        moved = False
        for rank in sorted(stuck):
            if any(all(group - stuck for group in groups) for groups in needs[rank]):
                stuck.remove(rank)
                moved = True
    if who.of not in stuck:
        return set()
    others = {rank: {other for groups in needs[rank] for group in groups for other in group & stuck} for rank in stuck}
    # A rank of which nothing is left waits for nobody.
    circle = {rank for rank in _reach(who.of, others) if needs[rank]}
    return circle if all(who.of in _reach(rank, others) for rank in circle) else set()


Groups = list[set[Rank]]
"""What ends a wait: one rank of each group moves. None: it can end now."""


def _needs(store: Store, known: bool) -> dict[Rank, list[Groups]]:
    """Of each rank that waits, what would end the wait of each of its processes."""
    processes: dict[Rank, list[Process]] = {
        (task, rank): [] for task, count in enumerate(store.tasks) if task not in store.ended for rank in range(count)
    }
    for process in store.living:
        processes[process.of].append(process)
    running = {process.task for process in store.living}
    needs = {}
    for rank, own in processes.items():
        waiting = [process for process in own if process in store.waits]
        sure = all(process in store.waits or process in store.resting for process in own)
        if not own and rank[0] not in running:
            feeders = {
                one for k, port in enumerate(store.inports) if port.task == rank[0] for one in _producers(store, k)
            }
            needs[rank] = [[feeders] if store.next_step(rank[0]) is None else []]
        elif not own or (waiting and (sure or not known)):
            needs[rank] = [_groups(store, process) for process in waiting]
        elif not waiting and (sure or not known) and any(one.task == rank[0] for one in store.waits):
            needs[rank] = [[{(rank[0], other) for other in range(store.tasks[rank[0]]) if other != rank[1]}]]
    return needs


def _groups(store: Store, who: Process) -> Groups:
    call = store.waits[who]
    match store.decide(who, call):
        case Wait("room"):
            return [_readers(store, channel) for channel in store.blocking(who, call)]
        case Wait("memory"):
            return [_users_of_memory(store, who)]
        case Wait():
            return [_producers(store, call.port)]
    return []


def _port(store: Store, who: Process) -> int:
    """The out-port of which the process waits to begin a file."""
    port = store.writes(store.waits[who])
    assert port is not None
    return port


def _lacks_memory(store: Store, who: Process) -> bool:
    """Whether a process that waits for room would have no memory for the file either."""
    return store.lacks_memory(_port(store, who))


def _users_of_memory(store: Store, who: Process) -> set[Rank]:
    """Ranks that may have to do with it that there is no memory for the file: who can see others of the port, has them
    open, may yet read them, or writes them."""
    outport = _port(store, who)
    found: set[Rank] = set()
    for channel in store.writing_to[outport]:
        if any(store.needed(channel, source) for source in store.sources if source.outport == outport):
            found |= _readers(store, channel)
    for source in store.sources:
        if source.outport == outport:
            found |= {process.of for slot in source.present for process in (*slot.views, *slot.holds)}
            found |= {process.of for file in source.writing for process in (*file.openers, file.used_by)}
    return found


def _sees_any(store: Store, who: Process) -> bool:
    """Whether the process waits to begin a file and lacks memory for it, and its port has steps that somebody sees."""
    begins = store.decide(who, store.waits[who]) in (Wait("room"), Wait("memory"))
    return begins and _lacks_memory(store, who) and bool(store.seen(_port(store, who)))


def _filled(store: Store, who: Process) -> Filled:
    outport = _port(store, who)
    views = [(process, slot.step) for slot in store.seen(outport) for process in sorted(slot.views)]
    return Filled(outport, tuple(views))


def _reach(start: Rank, others: dict[Rank, set[Rank]]) -> set[Rank]:
    """The ranks that a rank waits for, directly or not."""
    found: set[Rank] = set()
    ahead = [start]
    while ahead:
        new = others[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def _waiting(store: Store, ranks: set[Rank]) -> list[Process]:
    return sorted(process for process in store.waits if process.of in ranks and process in store.living)


def _full(store: Store, who: Process) -> list[int]:
    """The channels that keep the process from beginning a file: of its port, all that take memory, if it lacks that."""
    call = store.waits[who]
    match store.decide(who, call) if store.writes(call) is not None else None:
        case Wait("room"):
            return store.blocking(who, call)
        case Wait("memory"):
            return list(store.writing_to[_port(store, who)])
    return []


def _readers(store: Store, channel: int) -> set[Rank]:
    port = store.inports[store.channels[channel].inport]
    return {(port.task, rank) for rank in range(port.readers)}


def _producers(store: Store, inport: int) -> set[Rank]:
    return {source.rank for _, source in store.reading_from[inport] if source.rank[0] not in store.ended}


def _divides(store: Store, channel: int, who: Process) -> bool:
    """Whether the producer lacks room for steps that some rank has had."""
    source = store.source(_port(store, who), who.rank)
    return len(store.unhad(channel, source)) < store.bound(channel)


def _least_wanted(store: Store, channel: int, who: Process) -> Iterator[Slot]:
    """The step that the channel may let go to make room for the producer."""
    port = store.inports[store.channels[channel].inport]
    if port.in_order or port.listing == "end":
        return
    source = store.source(_port(store, who), who.rank)
    unhad = store.unhad(channel, source)
    if _lacks_memory(store, who):  # Of all sources; to let go of what programs see gives none back.
        sources = [one for one in store.sources if one.outport == source.outport]
        slots = [slot for one in sources for slot in store.needed(channel, one) if not store.is_seen(slot)]
        slots.sort(key=lambda slot: slot.stamp)
    else:
        slots = unhad if len(unhad) >= store.bound(channel) else store.needed(channel, source)
    yield from [slot for slot in slots if not slot.is_open(port.task)][:1]
