"""Finds the restart points of tasks in the trace of a run.

Positions follow from the order of a rank's own events: what it had published and opened when its checkpoint was whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from wilkins.flow.recovery import Position
from wilkins.flow.trace import Event
from wilkins.plan.plan import Plan, PortPlan, TaskPlan
from wilkins.resume.restart_point import Joined, RestartPoint, Stream
from wilkins.schema.patterns import intersect, is_wild
from wilkins.transport import points
from wilkins.transport.points import Point


@dataclass(slots=True)
class _Rank:
    """The progress of a rank."""

    consumed: dict[Joined, int] = field(default_factory=dict)
    before: list[tuple[dict[Joined, int], dict[Stream, int]]] = field(default_factory=list)
    """Its position (consumed, published) before each step, and after each good end."""
    left: dict[Joined, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Steps that it has skipped for later ones, and may still read."""
    opened: dict[int, list[tuple[Joined, int, bool] | None]] = field(default_factory=lambda: defaultdict(list))
    """By in-port: the steps in the order in which it opened them, each with its number, and whether the rank had read
    all before it then; None: from whom is unclear."""

    @property
    def is_even(self) -> bool:
        """Whether it has read each stream without gaps: one number per stream then says how far."""
        return not any(self.left.values())


@dataclass(slots=True)
class _Task:
    """The progress of a task."""

    ranks: dict[int, _Rank] = field(default_factory=lambda: defaultdict(_Rank))
    published: dict[Stream, int] = field(default_factory=dict)
    files: dict[int, RestartPoint] = field(default_factory=dict)
    """By inode, in the order in which they were written."""
    unclear: str = ""
    """Why its points are unknown."""
    opened: int = 0
    """Steps since its last start."""
    loops: bool = False
    again: int = 0
    """How many of a rank's `before` came before its last start."""
    ended_badly: bool = False
    """Its last program has ended, and no event says that the task has."""
    done: bool = False
    spoiled: bool = False
    """It ended after one of its producers had failed: more steps may come for it."""


class _Order:
    """The order in which a task opened the steps of an in-port, as far as all its ranks read the same ones."""

    def __init__(self, first: Mapping[Joined, int], steps: Sequence[tuple[Joined, int, bool]]) -> None:
        self._first = first
        """The position at the beginning."""
        self._steps = steps
        self._count = 0
        self._reached = dict(first)

    def reached(self, count: int) -> dict[Joined, int] | None:
        """The position on each stream after `count` steps; None: impossible or unknown.

        For growing counts, each step is looked at once.
        """
        if not 0 <= count <= len(self._steps):
            return None
        if count < self._count:
            self._count, self._reached = 0, dict(self._first)
        for joined, number, _ in islice(self._steps, self._count, count):
            self._reached[joined] = max(self._reached.get(joined, 0), number + 1)
        self._count = count
        return dict(self._reached) if count == 0 or self._steps[count - 1][2] else None


class History:
    """The restart points of a run's tasks, by the run's events."""

    def __init__(self, plan: Plan, events: Iterable[Event]) -> None:
        self._plan = plan
        self._number = {task.name: task.index for task in plan.tasks}
        self._ports = {
            (port.task, port.direction, port.pattern): port.index for port in plan.ports if port.mode != "plain"
        }
        self._into: dict[int, list[int]] = defaultdict(list)
        self._out_of: dict[int, list[int]] = defaultdict(list)
        self._joined: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, channel in enumerate(plan.channels):
            self._into[channel.inport].append(place)
            self._out_of[channel.outport].append(place)
            self._joined[channel.outport, channel.inport].append(place)
        self._of_task: dict[int, list[PortPlan]] = defaultdict(list)
        for port in plan.ports:
            self._of_task[port.task].append(port)
        self._tasks = [_Task() for _ in plan.tasks]
        self.published: dict[Stream, int] = {}
        self.files: dict[int, int] = {}
        """By inode: the task that has written the file last that has the number."""
        self._unpublished: dict[Stream, set[str]] = defaultdict(set)
        """Names of files that wait for the program's next one, or for more closes, before they are steps."""
        self._most: dict[Stream, int] = {}
        """The highest count that was published on streams whose closed files may stay unpublished."""
        self._begins: dict[Stream, int] = {}
        for port in plan.ports:
            for rank, begin in enumerate(port.begins):
                if begin:
                    self._begins[port.index, rank] = begin
                    self._count(port.task, (port.index, rank), begin)
        self._names: dict[Stream, list[str]] = defaultdict(list)
        self._lost: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self._who: dict[tuple[str, int], dict[int, list[Stream]]] = defaultdict(lambda: defaultdict(list))
        self._matching: dict[Joined, list[int]] = defaultdict(lambda: [0])
        self._orders: dict[int, _Order] = {}
        self._checkpoints: dict[tuple[Stream, int], RestartPoint] = {}
        for place, channel in enumerate(plan.channels):
            reader = plan.ports[channel.inport].task
            for rank, (first, _) in enumerate(channel.rests):
                if first:
                    for of_task in range(plan.tasks[reader].nprocs):
                        self._tasks[reader].ranks[of_task].consumed[place, (channel.outport, rank)] = first
        for event in events:
            if event.task in self._number:
                self._note(event, self._number[event.task])

    def points_of(
        self, task: TaskPlan, reported: Sequence[Point], kept: Mapping[tuple[Stream, int], str]
    ) -> list[RestartPoint]:
        """The points of this run, the oldest first.

        Args:
            reported: the points that the task has reported.
            kept: files of the task that others have taken to storage, by stream and number.
        """
        state = self._tasks[task.index]
        found: list[RestartPoint] = []
        how = task.restart.how if task.restart else None
        if how == "files":
            found = [point for point in (*state.files.values(), *self._stored(task, kept)) if self._holds(point)]
            found.sort(key=lambda point: sum(point.position.published.values()))
        elif how == "each-step":
            found = self._steps(task, state, each=True)
        elif reported:
            found = [point for one in reported if (point := self._reported(task, one))]
        elif how is None:
            found = self._steps(task, state, each=False)
        if state.done and not state.spoiled:
            found.append(self._point("ended", {}, self._own(task)))
        return [] if state.unclear and how == "files" else found

    def consumed(self, task: TaskPlan) -> dict[Joined, int]:
        """By stream: one past the last step that a rank of the task has read."""
        far: dict[Joined, int] = {}
        for rank in self._tasks[task.index].ranks.values():
            for joined, count in rank.consumed.items():
                far[joined] = max(far.get(joined, 0), count)
        return far

    def last_step(self, task: TaskPlan) -> RestartPoint | None:
        """The position of the task before the step that it opened last; None: no step, or an unclear order."""
        state = self._tasks[task.index]
        ranks = [rank for _, rank in sorted(state.ranks.items()) if rank.before]
        if state.unclear or not ranks:
            return None
        place = min(len(rank.before) for rank in ranks) - 1
        if any(rank.before[place][0] != ranks[0].before[place][0] for rank in ranks):
            return None
        return self._between_steps(state, ranks[0].before[place][0], place)

    def loops(self, task: TaskPlan) -> bool:
        """Whether the task has read several steps in one start."""
        return self._tasks[task.index].loops

    def unclear(self, task: TaskPlan) -> str:
        """Why the task has no points although it has checkpoints; empty if that is not so."""
        return self._tasks[task.index].unclear

    def _note(self, event: Event, task: int) -> None:
        state = self._tasks[task]
        match event.event:
            case "start":
                for stream in [one for one in self._unpublished if self._plan.ports[one[0]].task == task]:
                    self._unpublished[stream].clear()
                state.opened = 0
                state.ended_badly = False
                state.again = max((len(rank.before) for rank in state.ranks.values()), default=0)
            case "create":
                port = self._ports.get((task, "out", event.pattern))
                if port is not None and self._plan.ports[port].publish.defers:
                    self._unpublished[port, event.rank].add(event.name)
            case "publish" | "remake":
                self._publish(event, task)
            case "back":
                port = self._ports.get((task, "out", event.pattern))
                if port is not None:
                    self._count(task, (port, event.rank), event.sequence)
            case "open":
                self._open(event, task)
            case "skip" | "drop":
                self._lose(event, task)
            case "file":
                # What has the number now is this one, and no earlier file of any task.
                if event.sequence in self.files:
                    self._tasks[self.files[event.sequence]].files.pop(event.sequence, None)
                self.files[event.sequence] = task
                self._file(event, task)
            case "end":
                state.ended_badly = True
                if event.name == "0":
                    ranks = range(self._plan.tasks[task].nprocs) if event.rank < 0 else (event.rank,)
                    for rank in ranks:
                        self._between(task, rank)
            case "done":
                state.done = True
                state.ended_badly = False
                producers = {
                    self._plan.ports[self._plan.channels[place].outport].task
                    for port in self._of_task[task]
                    for place in self._into[port.index]
                }
                state.spoiled = any(self._tasks[one].ended_badly for one in producers)

    def _count(self, task: int, stream: Stream, count: int) -> None:
        self.published[stream] = self._tasks[task].published[stream] = count

    def _publish(self, event: Event, task: int) -> None:
        port = self._ports.get((task, "out", event.pattern))
        if port is None:
            return
        stream = port, event.rank
        if stream in self._unpublished:
            self._unpublished[stream].discard(event.name)
            self._most[stream] = max(self._most.get(stream, 0), event.sequence + 1)
        if event.sequence < self.published.get(stream, 0):
            return  # recorded twice: a process was killed while it published, and another one has finished that
        self._count(task, stream, event.sequence + 1)
        if event.event == "publish":  # and not made again
            self._names[stream].append(event.name)
            self._who[event.name, event.sequence][port].append(stream)
        rule = self._plan.tasks[task].restart
        in_memory = self._plan.ports[port].mode == "memory"
        if rule and rule.files and in_memory and intersect(event.pattern, rule.files) and self._is_even(task):
            self._checkpoints[stream, event.sequence] = self._by_rank(task, event.rank, {})

    def _open(self, event: Event, task: int) -> None:
        port = self._ports.get((task, "in", event.pattern))
        if port is None:
            return
        state = self._tasks[task]
        rank = state.ranks[event.rank]
        found = self._from(port, event)
        if len(found) != 1:
            rank.opened[port].append(None)
            state.unclear = f"step {event.sequence} of {event.name!r} may have come from any of several producers"
            return
        if event.rank == min(state.ranks):
            state.opened += 1
            state.loops = state.loops or state.opened > 1
        self._between(task, event.rank)
        self._leave(rank, found[0], event.sequence)
        rank.consumed[found[0]] = max(rank.consumed.get(found[0], 0), event.sequence + 1)
        rank.opened[port].append((found[0], event.sequence, rank.is_even))

    def _leave(self, rank: _Rank, joined: Joined, number: int) -> None:
        """Notes which steps a rank has left for later as it opens this one, where names mean steps."""
        place, stream = joined
        inport = self._plan.ports[self._plan.channels[place].inport]
        rank.left[joined].discard(number)
        if inport.stands or not is_wild(inport.pattern):
            return
        names, begin = self._names[stream], self._begins.get(stream, 0)
        for earlier in range(max(rank.consumed.get(joined, 0), begin), min(number, begin + len(names))):
            name = names[earlier - begin]
            if (name, earlier) not in self._lost[inport.index] and intersect(inport.pattern, name):
                rank.left[joined].add(earlier)

    def _lose(self, event: Event, task: int) -> None:
        """Records that a step was skipped or dropped for the task."""
        port = self._ports.get((task, "in", event.pattern))
        if port is None:
            return
        self._lost[port].add((event.name, event.sequence))
        for joined in self._from(port, event):
            for rank in self._tasks[task].ranks.values():
                rank.left[joined].discard(event.sequence)

    def _from(self, inport: int, event: Event) -> list[Joined]:
        """The streams that an opened step may belong to. Searches the port's channels, or the step's writers."""
        who = self._who.get((event.name, event.sequence), {})
        if len(who) < len(self._into[inport]):
            return [
                (place, stream) for out in who for place in self._joined.get((out, inport), ()) for stream in who[out]
            ]
        return [
            (place, stream)
            for place in self._into[inport]
            for stream in who.get(self._plan.channels[place].outport, ())
        ]

    def _between(self, task: int, rank: int) -> None:
        of_rank, rule = self._tasks[task].ranks[rank], self._plan.tasks[task].restart
        if rule and rule.how != "each-step":
            return
        own = self._own(self._plan.tasks[task])
        # A gap between steps is no point to go back to: the later step was read first.
        of_rank.before.append((dict(of_rank.consumed) if of_rank.is_even else {}, own))

    def _file(self, event: Event, task: int) -> None:
        rule = self._plan.tasks[task].restart
        port = self._ports.get((task, "out", event.pattern))
        if port is None or rule is None or not rule.files or not intersect(rule.files, event.name):
            return
        state = self._tasks[task]
        if not self._is_even(task):
            return
        stream = port, event.rank
        point = self._by_rank(task, event.rank, {stream: self.published.get(stream, 0) + 1})
        state.files[event.sequence] = _with_file(point, event.name, event.sequence)

    def _is_even(self, task: int) -> bool:
        return all(rank.is_even for rank in self._tasks[task].ranks.values())

    def _by_rank(self, task: int, rank: int, more: Mapping[Stream, int]) -> RestartPoint:
        """The point at which a rank of the task is now."""
        plan, state = self._plan.tasks[task], self._tasks[task]
        own = self._own(plan)
        writers = {of_rank for (_, of_rank), count in own.items() if count} - {rank}
        if writers:
            state.unclear = f"rank {rank} wrote its checkpoints, but rank {min(writers)} publishes files of its own"
        reading = {of_rank: one.consumed for of_rank, one in state.ranks.items() if one.consumed}
        consumed = reading.get(rank)
        if consumed is None and reading:
            consumed = next(iter(reading.values()))
            if any(other != consumed for other in reading.values()):
                state.unclear = (
                    f"rank {rank} wrote its checkpoints, and the ranks that read have read different steps then"
                )
        # A closed, unpublished file is complete for the program: started from here, it does not write it again.
        for stream, names in self._unpublished.items():
            if names and self._plan.ports[stream[0]].task == task:
                own[stream] = own.get(stream, 0) + len(names)
        return self._point("file", dict(consumed or {}), {**own, **more})

    def _holds(self, point: RestartPoint) -> bool:
        """Whether all files that were unpublished when a checkpoint was written have been published since."""
        published = point.position.published
        return all(published.get(stream, 0) <= self._most.get(stream, 0) for stream in self._unpublished)

    def _own(self, task: TaskPlan) -> dict[Stream, int]:
        return dict(self._tasks[task.index].published)

    def _steps(self, task: TaskPlan, state: _Task, *, each: bool) -> list[RestartPoint]:
        """The points between two steps: before each, of a task that keeps no state; or where its program had ended."""
        ranks = [rank for _, rank in sorted(state.ranks.items()) if rank.before]
        if state.unclear or not ranks:
            return []
        most = min(len(rank.before) for rank in ranks)
        if not each:
            per_start = task.rerun == "always" or any("{filename}" in word for word in task.args)
            most = most if per_start else min(most, state.again)
        found = []
        for place in range(most):
            consumed = ranks[0].before[place][0]
            if not consumed or any(rank.before[place][0] != consumed for rank in ranks[1:]):
                continue
            found.append(self._between_steps(state, consumed, place))
        return found

    def _between_steps(self, state: _Task, consumed: Mapping[Joined, int], place: int) -> RestartPoint:
        published: dict[Stream, int] = {}
        for number, rank in state.ranks.items():
            if rank.before:
                published |= {stream: n for stream, n in rank.before[place][1].items() if stream[1] == number}
        return self._point("step", consumed, published)

    def _reported(self, task: TaskPlan, reported: Point) -> RestartPoint | None:
        consumed: dict[Joined, int] = {}
        published: dict[Stream, int] = {}
        for port in self._of_task[task.index]:
            if port.mode == "plain":
                continue
            if port.direction == "in" and port.pattern in reported.opened:
                reached = self._reported_opened(task, port, reported.opened[port.pattern])
                if reached is None:
                    return None
                consumed |= reached
                continue
            count = (reported.consumed if port.direction == "in" else reported.published).get(port.pattern, 0)
            if not count:
                continue
            found = self._reported_out(port, count) if port.direction == "out" else self._reported_in(port, count)
            if found is None:  # one number cannot say how far it was with several
                return None
            place, stream = found
            if place is None:
                published[stream] = count
            else:
                consumed[place, stream] = count
        point = self._point("told", consumed, published)
        return RestartPoint("told", point.position, point.offered, reported.file, 0, points.line(reported))

    def _reported_out(self, port: PortPlan, count: int) -> tuple[None, Stream] | None:
        """The stream of which a task reports `count` published steps; None: impossible or unclear."""
        streams = [stream for stream in self._tasks[port.task].published if stream[0] == port.index]
        # Points of earlier runs are in those runs' own records.
        if len(streams) != 1 or not self._begins.get(streams[0], 0) <= count <= self.published[streams[0]]:
            return None
        return None, streams[0]

    def _reported_in(self, port: PortPlan, count: int) -> tuple[int, Stream] | None:
        """The channel and the stream of which a task reports `count` consumed steps; None as above."""
        found: dict[Joined, int] = {}
        for place in self._into[port.index]:
            channel = self._plan.channels[place]
            for rank in range(self._plan.tasks[self._plan.ports[channel.outport].task].nprocs):
                stream = channel.outport, rank
                # Before this run, it may have read more than has been made again by now.
                most = max(self.published.get(stream, 0), channel.rests[rank][0] if channel.rests else 0)
                if most:
                    found[place, stream] = most
        if len(found) != 1 or count > next(iter(found.values())):
            return None
        return next(iter(found))

    def _reported_opened(self, task: TaskPlan, port: PortPlan, count: int) -> dict[Joined, int] | None:
        """The position of a task on each stream of an in-port after opening `count` of its steps; None as above."""
        line = task.resumed.env.get(points.CHOSEN) if task.resumed else None
        now = count - (points.parsed(line).opened.get(port.pattern, 0) if line else 0)
        order = self._orders.get(port.index)
        if order is None:
            order = self._orders[port.index] = self._order(task, port)
        return order.reached(now)

    def _order(self, task: TaskPlan, port: PortPlan) -> _Order:
        """The order in which all ranks of the task opened the port's steps."""
        first = {
            (place, (self._plan.channels[place].outport, rank)): first
            for place in self._into[port.index]
            for rank, (first, _) in enumerate(self._plan.channels[place].rests)
            if first
        }
        of_ranks = [
            rank.opened[port.index] for rank in self._tasks[task.index].ranks.values() if port.index in rank.opened
        ]
        together = zip(*of_ranks, strict=False)
        alike = takewhile(lambda steps: steps[0] and all(other == steps[0] for other in steps), together)
        return _Order(first, [steps[0] for steps in alike if steps[0]])

    def _stored(self, task: TaskPlan, kept: Mapping[tuple[Stream, int], str]) -> list[RestartPoint]:
        return [
            _with_file(point, file, 0)
            for (stream, number), file in kept.items()
            if self._plan.ports[stream[0]].task == task.index and (point := self._checkpoints.get((stream, number)))
        ]

    def _point(self, how: str, consumed: Mapping[Joined, int], published: Mapping[Stream, int]) -> RestartPoint:
        offered = {}
        for stream, count in published.items():
            for place in self._out_of[stream[0]]:
                offered[place, stream] = self._offered(place, stream, count)
        return RestartPoint(how, Position(dict(consumed), dict(published)), offered)  # type: ignore[arg-type]

    def _offered(self, place: int, stream: Stream, count: int) -> int:
        """How many of the stream's first steps had names for the channel's in-port."""
        channel = self._plan.channels[place]
        wanted = self._plan.ports[channel.inport].pattern
        if wanted == self._plan.ports[channel.outport].pattern:
            return count
        begin = self._begins.get(stream, 0)
        before = channel.rests[stream[1]][1] if channel.rests else 0
        matching, names = self._matching[place, stream], self._names[stream]
        for name in islice(names, len(matching) - 1, None):
            matching.append(matching[-1] + intersect(wanted, name))
        return before + matching[min(max(count - begin, 0), len(names))]


def _with_file(point: RestartPoint, file: str, inode: int) -> RestartPoint:
    return RestartPoint("file", point.position, point.offered, file, inode)
