"""The traces of a run's hosts, as one trace of a run on one machine: without relays, in the numbers of the whole plan.

Each host has its own order of events, and its own numbers for steps that have come to it. A step arrives on a host
after it has left another one, which joins the orders of these two; else events go by the clocks of the hosts.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wilkins.flow.trace import BrokenTraceError, Event, read_trace
from wilkins.launch.records.rundir import CLOCKS
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.plan.relayrules import Relay, lead_host, spans
from wilkins.plan.split import HostPart, host_parts

_OF_PROGRAMS = ("start", "end", "done")
_OF_STEPS = ("create", "publish", "open", "skip", "drop")
_LEFT_OUT = ("skip", "drop")
_KEPT_EVENTS = (*_OF_PROGRAMS, *_OF_STEPS, "back", "remake", "file")

UNCLEAR = -1
"""The number of a step that may be any of several."""


def clocks_ahead(run: Path) -> dict[str, int]:
    """By how many nanoseconds the clock of each host was ahead of that where the run was started; empty: unknown."""
    try:
        clocks = json.loads((run / CLOCKS).read_text(encoding="utf-8"))
        return {host: int(clock["ahead_ns"]) for host, clock in clocks.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def trace_of(run: Path, plan: Plan) -> list[Event]:
    """The events of a run, on one machine or on several hosts, as far as its traces can be read."""
    return _of_hosts(run, plan) if plan.hosts else _trace(run)


def _of_hosts(run: Path, plan: Plan) -> list[Event]:
    hosts = dict.fromkeys(host for task in plan.tasks for host, _ in task.share)
    traces = {host: _trace(run / "hosts" / plan.hosts[host].name) for host in hosts}
    found = host_parts(plan, {event.task for events in traces.values() for event in events})
    ahead = clocks_ahead(run)
    known = all(plan.hosts[part.host].name in ahead for part in found)
    starts = {
        host: ahead[plan.hosts[host].name] if known else events[0].time_ns for host, events in traces.items() if events
    }
    return joined(plan, found, {host: _shifted(traces[host], start) for host, start in starts.items()})


def _trace(folder: Path) -> list[Event]:
    try:
        return read_trace(folder)
    except BrokenTraceError as error:  # a disk that was full: later events are lost
        return error.before
    except OSError:
        return []


def _shifted(events: Sequence[Event], start: int) -> list[Event]:
    return [replace(event, time_ns=event.time_ns - start) for event in events]


def joined(plan: Plan, found: Sequence[HostPart], traces: Mapping[int, Sequence[Event]]) -> list[Event]:
    """Merge traces, given by host, into one.

    A step may arrive on a host without an event on the host that sent it: if that host was lost, the last lines of its
    trace may be, too. Later events of the receiving host are left out then.
    """
    joint = _Joint(plan, found)
    rest = {host: iter(events) for host, events in traces.items()}
    turns: list[tuple[int, int, Event]] = []
    waiting: dict[int, tuple[int, int, Event]] = {}

    def advance(host: int) -> None:
        event = next(rest[host], None)
        if event is not None:
            heapq.heappush(turns, (event.time_ns, host, event))

    for host in rest:
        advance(host)
    while turns:
        turn = heapq.heappop(turns)
        _, host, event = turn
        relay = joint.awaits(host, event)
        if relay is not None:
            waiting[relay] = turn
            continue
        sent = joint.note(host, event)
        if sent in waiting:
            heapq.heappush(turns, waiting.pop(sent))
        advance(host)
    return joint.events


@dataclass(slots=True)
class _Own:
    """A host's part, as its trace is read."""

    part: HostPart
    tasks: dict[str, int]
    """By name: places in the part."""
    relays: dict[str, Relay]
    ports: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By task, direction and pattern."""
    feeds: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By in-port: the out-ports whose steps it gets."""
    known: dict[tuple[str, int], dict[int, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    """By name and number here: their producers' numbers, by out-port here."""
    early: list[Event] = field(default_factory=list)
    """Of steps that no task will get, and that are not published yet."""


class _Joint:
    def __init__(self, plan: Plan, found: Sequence[HostPart]) -> None:
        self.events: list[Event] = []
        self._plan = plan
        self._hosts = {part.host: _own(part) for part in found}
        self._sent: dict[int, list[tuple[str, int]]] = defaultdict(list)
        """By relay: names and numbers of the steps that have left."""
        self._next: dict[int, int] = {}
        """By relay: the number, where it comes, of the next one."""
        self._begin: dict[int, int] = {}
        for part in found:
            port_of = {port.task: port for port in part.plan.ports} if part.receivers else {}
            for task, relay in part.receivers:
                port = port_of[task]
                self._begin[relay.index] = self._next[relay.index] = port.begins[0] if port.begins else 0

    def awaits(self, host: int, event: Event) -> int | None:
        """The relay that has brought a step, if the trace of its other half does not show yet that it was sent."""
        relay = self._hosts[host].relays.get(event.task)
        if relay is None or event.event != "publish" or relay.reads != host:
            return None
        place = event.sequence - self._begin[relay.index]
        sent = self._sent[relay.index]
        return relay.index if place >= len(sent) or sent[place][0] != event.name else None

    def note(self, host: int, event: Event) -> int | None:
        """Take an event over; the relay whose other half it may let go on."""
        own = self._hosts[host]
        if event.event not in _KEPT_EVENTS:
            return None
        if (relay := own.relays.get(event.task)) is not None:
            return self._note_relay(own, relay, event)
        if (place := own.tasks.get(event.task)) is None:
            return None
        task = self._plan.tasks[own.part.tasks[place]]
        if event.rank >= 0:
            event = replace(event, rank=event.rank + own.part.first_ranks[place])
        elif event.event in _OF_PROGRAMS and spans(task) and lead_host(task) != host:
            return None  # of the placeholder of the program on this host
        if event.event in _LEFT_OUT and not _tells(task, host):
            return None
        if event.event == "open" or event.event in _LEFT_OUT:
            self._note_read(own, event)
        else:
            self.events.append(event)
            if event.event == "publish":
                self._publish(own, event, event.sequence)
        return None

    def _note_relay(self, own: _Own, relay: Relay, event: Event) -> int | None:
        if relay.writes == own.part.host:
            if event.event == "open":
                number = event.sequence if relay.brought_by is None else _producers_number(own, event)
                self._sent[relay.index].append((event.name, UNCLEAR if number is None else number))
                return relay.index
            if event.event in _LEFT_OUT:
                self.events += self._for_readers(relay, event)
        elif event.event == "publish" and event.sequence == self._next[relay.index]:
            # (Else it was recorded twice: a process was killed as it published, and another one has finished that.)
            self._next[relay.index] += 1
            self._publish(own, event, self._sent[relay.index][event.sequence - self._begin[relay.index]][1])
        return None

    def _for_readers(self, relay: Relay, event: Event) -> Iterator[Event]:
        for channel in relay.channels:
            port = self._plan.ports[self._plan.channels[channel].inport]
            task = self._plan.tasks[port.task]
            if _tells(task, relay.reads):
                yield replace(event, task=task.name, pattern=port.pattern)

    def _publish(self, own: _Own, event: Event, number: int) -> None:
        """A step is there for readers on its host; its producer has given it a number."""
        port = own.ports.get((event.task, "out", event.pattern))
        if port is None:
            return
        own.known[event.name, event.sequence].setdefault(port, set()).add(number)
        early, own.early = own.early, []
        for one in early:
            self._note_read(own, one)

    def _note_read(self, own: _Own, event: Event) -> None:
        """A task has opened a step, or will not get it."""
        number = _producers_number(own, event)
        if number is None and event.event != "open":
            own.early.append(event)
            return
        self.events.append(replace(event, sequence=UNCLEAR if number is None else number))


def _producers_number(own: _Own, event: Event) -> int | None:
    """The number that the producer has given to the step that is read; None: it is not known."""
    inport = own.ports.get((event.task, "in", event.pattern))
    known = own.known.get((event.name, event.sequence), {})
    outports = own.feeds[inport] if inport is not None else ()
    numbers = {number for outport in outports for number in known.get(outport, ())}
    if not numbers:
        return None
    return numbers.pop() if len(numbers) == 1 else UNCLEAR


def _tells(task: TaskPlan, host: int) -> bool:
    """Whether a route to this host tells of steps that the task does not get: all of its hosts lack the same ones."""
    return not spans(task) or lead_host(task) == host


def _own(part: HostPart) -> _Own:
    tasks = part.plan.tasks
    relays = {tasks[place].name: relay for place, relay in (*part.senders, *part.receivers)}
    own = _Own(part, {tasks[place].name: place for place in range(len(part.tasks))}, relays)
    for port in part.plan.ports:
        own.ports[tasks[port.task].name, port.direction, port.pattern] = port.index
    for channel in part.plan.channels:
        own.feeds[channel.inport].append(channel.outport)
    return own
