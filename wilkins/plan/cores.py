"""The cores of this machine, and tasks that oversubscribe them."""

from __future__ import annotations

import os

from wilkins.plan.plan import Plan, TaskPlan


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def oversubscribed(plan: Plan, here: int) -> list[str]:
    """Warnings of tasks with more ranks than a machine has cores, each task of an ensemble once.

    Args:
        here: cores of the machine.
    """
    tasks = {task.origin: task for task in reversed(plan.tasks) if task.nprocs > here}
    return [_oversubscribed(task, here) for task in reversed(tasks.values())]


def _oversubscribed(task: TaskPlan, here: int) -> str:
    name = task.entry_name
    return (
        f"{task.origin}: warning: task {name!r}: 'nprocs: {task.nprocs}' is more than this machine has cores, {here}: "
        "its ranks take turns, and those of MPI spin while they wait; give fewer, or more hosts (`wilkins help hosts`)"
    )
