"""The dependencies of a rank's task on other tasks of its job: which have ended, and which instances may fail."""

from __future__ import annotations

from wilkins.launch.job.rendezvous import Rendezvous
from wilkins.launch.watch.dependencies import Dependencies, TaskStatus
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.plan import Plan


class JobDependencies(Dependencies):
    """The dependencies of tasks in a job, whose launchers share them in the folder of the `Rendezvous`."""

    def __init__(self, plan: Plan, meeting: Rendezvous) -> None:
        super().__init__(())
        self._plan = plan
        self._meeting = meeting
        self._awaited = {before for task in plan.tasks for before in task.after}
        self._reported: set[int] = set()

    def status(self, task: int) -> tuple[TaskStatus, str]:
        lost = self._meeting.task_ended(task)
        return ("goes on" if lost is None else "lost" if lost else "ended"), self._plan.tasks[task].name

    def may_fail(self, run: TaskRun) -> bool | None:
        if not run.plan.spares:
            return False
        return self._meeting.count_failed(run.plan.entry, run.plan.index) <= run.plan.spares

    def report_ended(self, task: int, *, lost: bool) -> None:
        """A task has ended."""
        if task in self._awaited and task not in self._reported:
            self._reported.add(task)
            self._meeting.report_task_ended(task, lost=lost)
