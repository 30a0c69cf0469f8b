"""The dependencies of a host's tasks on tasks of other hosts: which have ended, and which instances may fail.

A keeper reports the end of each task that others come after to the head, which reports it to all other keepers. Only
the head decides whether an instance of an ensemble may fail, since several hosts may lose some at one time.
"""

from __future__ import annotations

from collections.abc import Sequence

from wilkins.launch.hosts.control import Control
from wilkins.launch.hosts.messages import MayFail, MayFailReply, TaskEnded
from wilkins.launch.watch.dependencies import Dependencies, TaskStatus
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import lead_host
from wilkins.plan.split import HostPart


class HostDependencies(Dependencies):
    """The dependencies of tasks where each host's keeper starts its own. `after` of a task in a host's part of the plan
    has the indices of the whole plan."""

    def __init__(self, plan: Plan, part: HostPart, control: Control) -> None:
        super().__init__(())
        self._plan = plan
        self._part = part
        self._control = control
        self._awaited = {before for task in plan.tasks for before in task.after}
        self._ended: dict[int, bool] = {}
        """By task of the whole plan that others come after: whether it is lost."""
        self._may_fail: dict[int, bool | None] = {}
        """By task of the whole plan that has failed; None: the head was asked."""

    def status(self, task: int) -> tuple[TaskStatus, str]:
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
            self._control.send(MayFail(task))
        return self._may_fail[task]

    def handle(self, message: TaskEnded | MayFailReply) -> None:
        """Handle a message of the head about these."""
        if isinstance(message, TaskEnded):
            self._ended[message.task] = message.lost
        else:
            self._may_fail[message.task] = message.allowed

    def report_ended(self, crew: Sequence[TaskRun]) -> None:
        """Report the ends of this host's tasks, the first ones of the crew, that others come after."""
        for task, run in zip(self._part.tasks, crew, strict=False):
            if task not in self._awaited or task in self._ended or run.state != "ended" or run.program is not None:
                continue
            undecided = self._may_fail.get(task, False) is not False and not run.spared
            if not undecided and lead_host(self._plan.tasks[task]) == self._part.host:
                self._ended[task] = run.lost
                self._control.send(TaskEnded(task, run.lost))

    def all_here(self, task: int) -> bool:
        """Whether all tasks that one comes after, by its place in the part, are on this host alone."""
        before = self._part.plan.tasks[task].after
        return all({host for host, _ in self._plan.tasks[one].share} == {self._part.host} for one in before)
