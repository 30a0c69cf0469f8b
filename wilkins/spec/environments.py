"""The environment that a task's program runs in: the default of the workflow, and keys that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from wilkins.errors import Position
from wilkins.spec.workflow import ENVIRONMENT_KEYS, Task, Workflow, function_of, ready_made
from wilkins.values import replace

_WHO_SETS_PATH = "venv", "conda", "modules"


def with_default(workflow: Workflow, task: Task) -> Task:
    """A task with the environment of the whole workflow, unless it says anything about its own.

    What Wilkins runs itself (a ready-made task, a function) takes the modules alone: its Python is that of Wilkins.
    """
    if any(name in task.where for name in ENVIRONMENT_KEYS):
        return task
    names = [name for name in ENVIRONMENT_KEYS if name in workflow.where]
    if ready_made(task) or function_of(task):
        names = [name for name in names if name == "modules"]
    if not names:
        return task
    places = {name: workflow.where.of(name) for name in names}
    where = replace(task.where, keys={**task.where.keys, **places})
    return replace(task, where=where, **{name: getattr(workflow, name) for name in names})


def contradictions(task: Task) -> Iterator[tuple[Position, str]]:
    """Keys that exclude each other, and where they are."""
    given = [name for name in ENVIRONMENT_KEYS if getattr(task, name)]
    if len(given) > 1 and given != ["venv", "modules"]:
        cure = "keep one of them" if "container" in given or "conda" in given else "keep 'venv' and 'modules'"
        yield (
            task.where.of(given[-1]),
            f"{task.label}: {' and '.join(map(repr, given))} each say what the program finds; {cure} (only 'venv' and "
            "'modules' go together)",
        )
        return
    own = next((name for name in ("venv", "conda", "container") if name in given), None)
    if own and (ready_made(task) or function_of(task)):
        what = "a ready-made task" if ready_made(task) else "a function"
        yield (
            task.where.of(own),
            f"{task.label}: {what} runs under the Python that runs Wilkins, so it cannot have {own!r} of its own; "
            f"remove {own!r}, or start a program",
        )
    if (name := next((name for name in _WHO_SETS_PATH if name in given), None)) and "PATH" in (task.env or {}):
        yield (
            task.where.of("env"),
            f"{task.label}: 'env' PATH and {name!r} both say where programs are found; remove PATH from 'env', and "
            "give programs elsewhere by their paths",
        )
    if "container" in given:
        yield from _of_container(task)


def _of_container(task: Task) -> Iterator[tuple[Position, str]]:
    if task.actions:
        yield (
            task.where.of("actions"),
            f"{task.label}: 'actions' are called by the Python of this machine, and the program's is in a container; "
            "remove 'actions', and say by 'publish' of its out-ports when files are complete",
        )
    if task.gpus:
        yield (
            task.where.of("gpus"),
            f"{task.label}: GPUs in a container were not tested; remove 'gpus' or 'container'",
        )
