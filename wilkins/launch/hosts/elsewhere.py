"""What a keeper has to know of tasks on other hosts: which have ended that come before its own, and which may fail.

A keeper tells the head the end of each task that others come after, and the head all other keepers. Whether an instance
of an ensemble may fail, the head alone says, since all hosts may lose some at one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wilkins.launch.hosts.control import Control
from wilkins.launch.watch.others import Others, Standing
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.plan import Plan
from wilkins.plan.split import Part, leads


class Elsewhere(Others):
    """Where each host's keeper starts tasks of its own. Tasks that come before others have their numbers of the whole
    plan in these, also in a part of it."""

    def __init__(self, plan: Plan, part: Part, control: Control) -> None:
        super().__init__(())
        self._plan = plan
        self._part = part
        self._control = control
        self._awaited = {before for task in plan.tasks for before in task.after}
        self._ended: dict[int, bool] = {}
        """By task of the whole plan that others come after: whether it is lost."""
        self._may_fail: dict[int, bool | None] = {}
        """By task of the whole plan that has failed; None: the head was asked."""

    def standing(self, task: int) -> tuple[Standing, str]:
        name = self._plan.tasks[task].name
        if task not in self._ended:
            return "goes on", name
        return "lost" if self._ended[task] else "ended", name

    def may_fail(self, run: TaskRun) -> bool | None:
        if not run.plan.spares:
            return False
        task = self._part.tasks[run.plan.index]
        if task not in self._may_fail:
            self._may_fail[task] = None
            self._control.send(may_fail=task)
        return self._may_fail[task]

    def heed(self, message: dict[str, Any]) -> None:
        """Hear what the head says of these."""
        if "task_ended" in message:
            self._ended[message["task_ended"]] = message["lost"]
        elif "spare" in message:
            self._may_fail[message["spare"]] = message["may_fail"]

    def tell(self, crew: Sequence[TaskRun]) -> None:
        """Tell the ends of this host's tasks, the first ones of the crew, that others come after."""
        for task, run in zip(self._part.tasks, crew, strict=False):
            if task not in self._awaited or task in self._ended or run.state != "ended" or run.program is not None:
                continue
            undecided = self._may_fail.get(task, False) is not False and not run.spared
            if not undecided and leads(self._plan.tasks[task]) == self._part.host:
                self._ended[task] = run.lost
                self._control.send(task_ended=task, lost=run.lost)

    def all_here(self, task: int) -> bool:
        """Whether all tasks that one comes after, by its place in the part, are on this host alone."""
        before = self._part.plan.tasks[task].after
        return all({host for host, _ in self._plan.tasks[one].share} == {self._part.host} for one in before)
