"""Where a plan's tasks, coupled ports and channels stand on the board."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from wilkins.errors import ResourceError
from wilkins.launch.programs.environment import takes_filename
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, may_read_again
from wilkins.schema.patterns import is_wild
from wilkins.transport.board import Board
from wilkins.transport.plan_table import Begin, BoardChannel, BoardPort, BoardTask, FirstStep, Mode, values_of


class BoardPorts:
    """Indices of the ports on the board, which has none of those that join no other task."""

    def __init__(self, plan: Plan) -> None:
        self._takes_filename = {task.index for task in plan.tasks if takes_filename(task)}
        self._read_again = {task.index for task in plan.tasks if task.retries and may_read_again(task)}
        self._coupled = [port for port in plan.ports if port.mode != "plain"]
        self._in_channels = {end for channel in plan.channels for end in (channel.outport, channel.inport)}
        listed = {port.index for port in plan.ports if port.direction == "in" and port.listing == "end"}
        self._listed_whole = {channel.outport for channel in plan.channels if channel.inport in listed}
        self._index = {port.index: place for place, port in enumerate(self._coupled)}

    def index_of(self, port: PortPlan) -> int | None:
        """The board's index of a port; None of one that joins no other task."""
        return self._index.get(port.index)

    def of(self, task: int) -> list[int]:
        """Board indices of a task's coupled ports."""
        return [self._index[port.index] for port in self._coupled if port.task == task]

    def by_plan(self, task: int) -> dict[int, int]:
        """The same, by their indices in the plan."""
        return {port.index: self._index[port.index] for port in self._coupled if port.task == task}

    def joined(self, task: int) -> dict[int, str]:
        """Board indices of those of a task's ports that join it to another task, and what it calls their files."""
        return {
            self._index[port.index]: port.called
            for port in self._coupled
            if port.task == task and port.index in self._in_channels
        }

    def inward(self, task: int) -> list[int]:
        """Board indices of the ports a task reads from, in the order of the workflow file."""
        return [self._index[port.index] for port in self._coupled if port.task == task and port.direction == "in"]

    def board_ports(self) -> list[BoardPort]:
        """The ports as the board wants them: as they are planned, but for what that says otherwise."""
        return [BoardPort(**values_of(BoardPort, port) | self._overrides(port)) for port in self._coupled]

    def _overrides(self, port: PortPlan) -> dict[str, Any]:
        return {
            "mode": self._mode(port),
            "publish": port.publish.when,
            "publish_count": port.publish.count,
            "publish_dset": port.publish.dset or "",
            "publish_file": port.publish.file or "",
            "beside": "\n".join(port.beside),
            "on_disk": port.is_set and port.mode != "memory",
            "reads_again": port.direction == "in" and port.task in self._read_again,
            "alias": port.stands,
            "may_have_alias": self._may_have_alias(port),
        }

    def begins(self) -> list[Begin]:
        """In a resumed run, the numbers of the first steps."""
        return [
            Begin(self._index[port.index], rank, sequence)
            for port in self._coupled
            for rank, sequence in enumerate(port.begins)
        ]

    def first_steps(self, plan: Plan) -> list[FirstStep]:
        """In a resumed run, what its channels get of their producers' ranks."""
        return [
            FirstStep(place, rank, first, offered)
            for place, channel in enumerate(self.planned_channels(plan))
            for rank, (first, offered) in enumerate(channel.rests)
        ]

    def _mode(self, port: PortPlan) -> Mode:
        """Files that are on disk anyway, and wait there for the listing of them all, take no memory as well."""
        if port.is_set:  # (What is in them lies there beside the board.)
            return "memory"
        if port.mode == "both":
            return "file" if port.index in self._listed_whole else "both"
        return "memory" if port.mode == "memory" else "file"

    def _may_have_alias(self, port: PortPlan) -> bool:
        return port.direction == "in" and port.task in self._takes_filename and is_wild(port.called)

    def may_have_alias(self) -> list[tuple[int, PortPlan]]:
        """In-ports, by their board indices, for whose next step a name that the program opens may come to stand."""
        return [(self._index[port.index], port) for port in self._coupled if self._may_have_alias(port)]

    def board_channels(self, plan: Plan) -> list[BoardChannel]:
        """The channels between them, as the board wants them."""
        ends = ("outport", "inport")
        return [
            BoardChannel(**values_of(BoardChannel, channel) | {end: self._index[getattr(channel, end)] for end in ends})
            for channel in self.planned_channels(plan)
        ]

    def planned_channels(self, plan: Plan) -> list[ChannelPlan]:
        """The plan's channels that the board has, in its order."""
        return [one for one in plan.channels if one.outport in self._index and one.inport in self._index]


def create_board(plan: Plan, log: Path, trace: Path, path: Path | None = None, *, can_resume: bool) -> Board:
    """The board of a run.

    Raises:
        ResourceError: the native library or shared memory is missing.
    """
    ports = BoardPorts(plan)
    try:
        return Board.create(
            [BoardTask.starting_in(task.name, task.nprocs, task.cwd) for task in plan.tasks],
            ports.board_ports(),
            ports.board_channels(plan),
            begins=ports.begins(),
            first_steps=ports.first_steps(plan),
            log=log,
            trace=trace,
            path=path,
            trace_at_once=can_resume,
        )
    except FileNotFoundError as error:
        raise ResourceError(str(error.strerror)) from error
    except OSError as error:
        if error.errno == errno.ELIBBAD:
            raise ResourceError(f"{error.filename}: {error.strerror}") from error
        raise ResourceError(
            f"{error.filename or '/dev/shm'}: cannot set up shared memory for the run: {error.strerror}; "
            "look at `df /dev/shm`, and remove what dead runs left with `wilkins clean` (`wilkins help containers`)"
        ) from error
