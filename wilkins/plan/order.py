"""The order of tasks that no files join, and what cannot be asked of a launch that starts all programs at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from wilkins.errors import Problem, suggest
from wilkins.plan.graph import Wiring
from wilkins.plan.plan import Launch
from wilkins.spec.load import Document
from wilkins.spec.workflow import Task


def after(document: Document, wiring: Wiring, launch: Launch, problems: list[Problem]) -> dict[int, tuple[int, ...]]:
    """By the number of an entry of the workflow file: the tasks of a plan that must have ended before it is started."""
    tasks = document.workflow.tasks
    if launch == "one-job":
        problems += alone_only(document, "one MPI job")
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


def alone_only(document: Document, launch: str) -> Iterator[Problem]:
    """What of a workflow needs one launcher that starts every program. `launch`: the other one, in words."""
    for task in document.workflow.tasks:
        restarts = task.on_failure == "restart"
        for key, given in (("after", task.after), ("on_failure", restarts), ("min_instances", task.min_instances)):
            if given:
                what = "'on_failure: restart'" if key == "on_failure" else repr(key)
                yield Problem(
                    task.where.of(key),
                    f"{task.label}: {what} needs one launcher that starts and ends all programs, which {launch} does "
                    f"not have; launch the workflow alone on one machine, or remove {what}",
                )


def _circular(document: Document, wiring: Wiring, named: dict[int, list[int]]) -> Iterator[Problem]:
    """Tasks that would wait for what waits for them."""
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
    """Why files and `after` do not go together."""
    return (
        f"{here.label}: 'after: {there.name}' does not go with the files that join the two tasks: one of them would "
        "wait for the other's steps, and that for its end; remove 'after', or, if all files are to be there first, "
        "give the in-port 'listing: end'"
    )
