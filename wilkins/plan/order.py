"""The order of tasks that no files join (`after`), and keys that a task in one MPI job cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from wilkins.errors import Problem, suggest
from wilkins.plan.graph import Wiring
from wilkins.spec.load import Document
from wilkins.spec.workflow import Task


def after(document: Document, wiring: Wiring, problems: list[Problem]) -> dict[int, tuple[int, ...]]:
    """By the number of an entry of the workflow file: the tasks of a plan that must have ended before it is started."""
    tasks = document.workflow.tasks
    if not any(task.after for task in tasks):
        return {}
    numbers = {str(task.name): number for number, task in enumerate(tasks)}
    named: dict[int, list[int]] = {}
    for number, task in enumerate(tasks):
        for name in task.after:
            if name in numbers:
                named.setdefault(number, []).append(numbers[name])
                continue
            hint = suggest(name, list(numbers)) or f"; there are {', '.join(numbers)}"
            problems.append(Problem(task.where.of("after"), f"{task.label}: 'after': there is no task {name!r}{hint}"))
    problems += _circular(document, wiring, named)
    first = [0, *accumulate(task.taskCount for task in tasks)]
    return {
        number: tuple(place for other in others for place in range(first[other], first[other + 1]))
        for number, others in named.items()
    }


def of_job_ranks(document: Document) -> Iterator[Problem]:
    """Problems with keys that a task cannot have if its ranks are ranks of one MPI job."""
    whys = {
        "after": "MPI_Init of each rank waits for all others, so all of them start at once",
        "on_failure": "MPI can be initialised once in a job, which ends when one of its ranks fails",
        "min_instances": "the job ends when one of its ranks fails",
    }
    for task in document.workflow.tasks:
        if task.nprocs == 1 or any("{filename}" in word for word in task.arguments(0)):
            continue
        restarts = task.on_failure == "restart"
        for key, given in (("after", task.after), ("on_failure", restarts), ("min_instances", task.min_instances)):
            if given:
                what = "'on_failure: restart'" if key == "on_failure" else repr(key)
                yield Problem(
                    task.where.of(key),
                    f"{task.label}: {what} cannot be had here: the {task.nprocs} ranks of the task are ranks of this "
                    f"MPI job, and {whys[key]}; start the workflow without an mpiexec (`wilkins run`, with --hosts if "
                    f"it needs several hosts), where the task is an MPI job of its own, or remove {what}",
                )


def _circular(document: Document, wiring: Wiring, named: dict[int, list[int]]) -> Iterator[Problem]:
    """Problems with tasks that would wait for each other."""
    import networkx as nx

    tasks = document.workflow.tasks
    files = nx.DiGraph((link.outport.task, link.inport.task) for link in wiring.links)
    orders = nx.DiGraph((other, number) for number, others in named.items() for other in others)
    circular = {task for found in nx.strongly_connected_components(orders) if len(found) > 1 for task in found}
    for number, others in named.items():
        where = tasks[number].where.of("after")
        if number in others or number in circular:
            names = ", ".join(str(tasks[one].name) for one in sorted(circular)) or str(tasks[number].name)
            yield Problem(where, f"{tasks[number].label}: 'after' leads back to the task itself ({names})")
            continue
        for other in others:
            joined = [
                pair
                for pair in ((number, other), (other, number))
                if files.has_node(pair[0]) and files.has_node(pair[1]) and nx.has_path(files, *pair)
            ]
            if joined:
                yield Problem(where, _joined(tasks[number], tasks[other]))


def _joined(here: Task, there: Task) -> str:
    """Why files and `after` contradict each other."""
    return (
        f"{here.label}: 'after: {there.name}' does not go with the files that join the two tasks: one of them would "
        "wait for the other's steps, and that for its end; remove 'after', or, if all files are to be there first, "
        "give the in-port 'listing: end'"
    )
