"""The ready-made tasks: which there are, what options each takes, which module runs it. Imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wilkins.values import dataclass

PREFIX = "wilkins.tasks."
"""What ``func`` begins with for a ready-made task."""

GROUP = "wilkins.tasks"
"""The group of entry points by which other packages register tasks; each names a `ReadyMade`."""


@dataclass(frozen=True, slots=True)
class ReadyMade:
    """A task that is used from YAML alone: ``func: wilkins.tasks.NAME`` and a section with its options."""

    name: str
    doc: str
    """What it does, in a sentence, for the reference."""
    options: type
    """The section: a frozen dataclass declared with `wilkins.schema.reading.key`, in a module that imports nothing
    heavy."""
    module: str
    """Has ``main(options, ports, ranks)``, called on every rank with the section as plain data, the patterns of the
    task's ports (a `Ports`), and its ranks (a `wilkins.tasks.group.Group`). A `wilkins.tasks.errors.TaskError` or
    OSError is shown to the user as it is."""
    check: Callable[[Any, Any], Iterable[tuple[str, str]]] = lambda *_: ()
    """Checks the options of a task (a `wilkins.spec.workflow.Task`): gives keys of the section, and messages."""
    code: Callable[[Any], Iterable[tuple[str, str]]] = lambda _: ()
    """The functions that the options name, as `wilkins.tasks.code` finds them: keys of the section, and names."""
    calls: Callable[[Any], Iterable[tuple[str, str, Collection[str]]]] = lambda _: ()
    """Of these functions, those that are called with arguments by name alone: the key with the arguments, the function,
    and the names of its arguments."""
    saves: Callable[[Any], bool] = lambda _: False
    """Whether the options ask for saves that make a run resumable by themselves."""
    elastic: Callable[[Any], bool] = lambda _: False
    """Whether the options ask for ranks that go on without those that die: each is a process of its own then, and no
    rank of an MPI job."""
    section: str = ""
    """What the section is called in a workflow file; left out: as the task."""

    needs: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """The modules that the options need and that do not come with the package, each with the extra that brings it."""

    @property
    def key(self) -> str:
        """The section's name."""
        return self.section or self.name


class Ports(NamedTuple):
    """The patterns of a task's ports, and where the workflow file lies."""

    inports: tuple[str, ...]
    outports: tuple[str, ...]
    folder: str = "."
    """The workflow file's folder, where files lie that come with it; the task may run in another."""


@cache
def all_tasks() -> Mapping[str, ReadyMade]:
    """By name: the package's own, which lie beside this file, and those of other packages."""
    from importlib import metadata

    here = Path(__file__).resolve().parent
    own = sorted(path.parent.name for path in here.glob("*/options.py"))
    found = {name: importlib.import_module(f"wilkins.tasks.{name}.options").TASK for name in own}
    for entry in metadata.entry_points(group=GROUP):
        if entry.name not in found:
            found[entry.name] = entry.load()
    return found


def sections() -> Mapping[str, type]:
    """The options of every ready-made task by the name of their section."""
    return {task.key: task.options for task in all_tasks().values()}
