"""The dependencies between tasks (`after`): which of them have ended, and which instances of an ensemble may fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wilkins.launch.watch.taskrun import TaskRun

TaskStatus = Literal["goes on", "ended", "lost"]
"""Of a task; ``lost``: it has ended, and has not done its work."""


class Dependencies:
    """The dependencies of tasks where one launcher starts all tasks of the run."""

    def __init__(self, crew: Sequence[TaskRun]) -> None:
        self._crew = crew

    def status(self, task: int) -> tuple[TaskStatus, str]:
        """The status of a task that another one comes after, and its name."""
        run = next(one for one in self._crew if one.plan.index == task)
        if run.lost:
            return "lost", run.name
        return "ended" if run.state == "ended" else "goes on", run.name

    def may_fail(self, run: TaskRun) -> bool | None:
        """Whether enough instances of an ensemble are left without this one, which has failed; None: not known yet."""
        lost = [one for one in self._crew if one.plan.entry == run.plan.entry and (one.spared or one is run)]
        return len(lost) <= run.plan.spares
