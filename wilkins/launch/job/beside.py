"""What a rank's launcher has to know of the other tasks of its job: which have ended, and which may fail."""

from __future__ import annotations

from wilkins.launch.job.rendezvous import Rendezvous
from wilkins.launch.watch.others import Others, Standing
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.plan import Plan


class Beside(Others):
    """Where the launchers of all ranks leave it in the folder in which they meet."""

    def __init__(self, plan: Plan, meeting: Rendezvous) -> None:
        super().__init__(())
        self._plan = plan
        self._meeting = meeting
        self._awaited = {before for task in plan.tasks for before in task.after}
        self._told: set[int] = set()

    def standing(self, task: int) -> tuple[Standing, str]:
        lost = self._meeting.task_ended(task)
        return ("goes on" if lost is None else "lost" if lost else "ended"), self._plan.tasks[task].name

    def may_fail(self, run: TaskRun) -> bool | None:
        if not run.plan.spares:
            return False
        return self._meeting.count_failed(run.plan.entry, run.plan.index) <= run.plan.spares

    def tell(self, task: int, *, lost: bool) -> None:
        """A task has ended."""
        if task in self._awaited and task not in self._told:
            self._told.add(task)
            self._meeting.tell_task_ended(task, lost=lost)
