"""A workflow that is built in Python, or read from its file."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from wilkins import atomic
from wilkins.errors import UsageError, count_of, refused, suggest
from wilkins.launch.records.rundir import fresh
from wilkins.schema.reading import key_of, keys_of
from wilkins.scripting.running import Running
from wilkins.spec.workflow import InPort, OutPort, Task
from wilkins.spec.workflow import Workflow as Content

if TYPE_CHECKING:
    import networkx

    from wilkins.plan.plan import Plan
    from wilkins.scripting.run import Run

Given = str | Mapping[str, Any]
"""A port: its `filename`, or its keys as in the workflow file."""

_WRITTEN = "# Written by wilkins.Workflow; what is changed here is overwritten.\n"


class Workflow:
    """Tasks and the files that they exchange: what a workflow file says, with the same keys.

    Args:
        name: of the workflow, and of the file that is written for a run: ``NAME.yaml``.
        folder: where that file is put; programs are looked for, and run, from there.
        keys: of the workflow file itself, such as `parameters`.

    Raises:
        UsageError: the workflow file has no such key.
    """

    def __init__(self, name: str = "workflow", folder: str | Path = ".", **keys: Any) -> None:
        self.name = name
        self.folder = Path(folder)
        self.content: dict[str, Any] = {**_known(Content, "a workflow", keys), "tasks": []}
        """What the file says, as plain data."""
        self._file: Path | None = None
        self._modules: dict[str, str] = {}
        """Of functions that are in no file: the names of theirs, beside the workflow file, and the texts."""
        self._settings: dict[str, str] = {}

    @classmethod
    def load(cls, path: str | Path) -> Workflow:
        """The workflow of a file, which stays as it is.

        Raises:
            WorkflowError: it is no YAML.
        """
        from wilkins.schema.positions import compose, read_text

        path = Path(path)
        text = read_text(path)
        compose(text, str(path))  # which words what is wrong with it
        found = cls(path.stem, path.parent)
        content = yaml.safe_load(text)
        found.content = content if isinstance(content, dict) else {}
        found._file = path
        return found

    def task(
        self,
        func: str | Callable[..., Any],
        *,
        inports: Iterable[Given] = (),
        outports: Iterable[Given] = (),
        **keys: Any,
    ) -> Workflow:
        """Add a task; returns the workflow, so that calls can be chained.

        Args:
            func: its program; or a function, which is called with the task's ports (`wilkins help python-functions`).
                Of a notebook or of the script itself, its text is kept, with what it uses as it is now; `save` writes
                it beside the workflow file.
            inports: files that it reads, and
            outports: that it writes.
            keys: other keys of a task, such as ``nprocs=4``, ``args=[...]``, ``taskCount=8``.

        Raises:
            UsageError: a task or a port has no such key, the workflow is that of a file, or the function uses what
                other processes cannot have.
        """
        if self._file is not None:
            raise UsageError(f"{self._file}: a workflow that was read from a file gets no tasks; add them there")
        if not isinstance(func, str):
            func = self._function(func)
        task: dict[str, Any] = {"func": func, **_known(Task, f"the task {func!r}", keys)}
        for side, kind, ports in (("inports", InPort, inports), ("outports", OutPort, outports)):
            if given := [_port(kind, f"the task {func!r}", port) for port in ports]:
                task[side] = given
        self.content["tasks"].append(task)
        return self

    def set(self, **settings: Any) -> Workflow:
        """The same workflow with other values, as by ``--set``: of parameters, or ``set(**{"simulate.nprocs": 8})``."""
        other = copy.copy(self)
        other.content = copy.deepcopy(self.content)
        other._modules = dict(self._modules)
        other._settings = {**self._settings, **{name: _as_yaml(value) for name, value in settings.items()}}
        return other

    def to_yaml(self) -> str:
        """The workflow file."""
        if self._file is not None:
            return self._file.read_text(encoding="utf-8")
        return yaml.safe_dump(self.content, sort_keys=False, allow_unicode=True, width=120)

    def save(self) -> Path:
        """Write the workflow file, and the modules of its functions, unless it was loaded; returns its path.

        Raises:
            UsageError: there is another file of that name.
            ResourceError: it cannot be written.
        """
        if self._file is not None:
            return self._file
        for name, text in self._modules.items():
            put(self.folder / name, text)
        return put(self.folder / f"{self.name}.yaml", self.to_yaml())

    def check(self) -> tuple[str, ...]:
        """Notes on what may be a mistake.

        Raises:
            WorkflowError: with everything that is wrong.
        """
        return self.plan().notes

    def plan(self) -> Plan:
        """The plan that a run would start. As a text it is what ``wilkins plan`` shows.

        Raises:
            WorkflowError: with everything that is wrong.
        """
        from wilkins.plan.planner import plan_file
        from wilkins.scripting.shown import ShownPlan

        return ShownPlan.of(plan_file(self.save(), self._overrides(), "alone"))

    def graph(self) -> networkx.MultiDiGraph[str]:
        """Task instances, joined by channels.

        Raises:
            WorkflowError: with everything that is wrong.
        """
        from wilkins.plan.graph import compile as compile_graph

        return compile_graph(self.save(), self._overrides())

    def __repr__(self) -> str:
        return f"<workflow {self.name}: {count_of(len(self.content.get('tasks') or ()), 'task')}>"

    def _repr_svg_(self) -> str:
        """The picture of the graph that a notebook shows."""
        from wilkins.plan.graph import wire
        from wilkins.report.draw.graph import of_workflow
        from wilkins.spec.load import load

        document = load(self.save(), self._overrides())
        return of_workflow(document, wire(document))

    def start(self, **options: Any) -> Running:
        """Start a run, and do not wait for it.

        Args:
            options: of ``wilkins run``, such as ``timeout="10min"``, ``hosts="node0:8,node1:8"``, ``strict=True``.

        Raises:
            WorkflowError: with everything that is wrong.
            UsageError: there is another file of the workflow's name.
            ResourceError: the file, or the run's directory, cannot be made.
        """
        self.plan()
        file = self.save().absolute()
        try:
            folder = fresh(file.parent, self.name)
        except OSError as error:
            raise refused(file.parent, "make a directory for the run there", error) from error
        words = [sys.executable, "-m", "wilkins", "run", str(file), "--quiet", "--run-dir", str(folder)]
        for name, value in options.items():
            if value is not None and value is not False:
                words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        for override in self._overrides():
            words += ["--set", override]
        return Running(words, folder)

    def run(self, *, check: bool = True, **options: Any) -> Run:
        """Run the workflow to its end; a notebook shows how far it is meanwhile.

        Args:
            check: raise an error if it does not end well.
            options: as of `start`.

        Raises:
            TaskFailed: it did not end well; the error says what the launcher said.
            WilkinsError: it could not be started.
        """
        return self.start(**options).finish(check=check)

    def _function(self, function: Callable[..., Any]) -> str:
        """The name of a function for a task; a module for it is kept, if it needs one."""
        from wilkins.scripting.functions import module_file, reference

        found = reference(function, self.folder)
        if found.place:
            return f"{found.place}:{found.name}"
        same = (name for name, text in self._modules.items() if text == found.text)
        file = next(same, "") or module_file(self.name, found.name.rpartition(".")[2], self._modules)
        self._modules[file] = found.text
        return f"{file}:{found.name}"

    def _overrides(self) -> list[str]:
        return [f"{name}={value}" for name, value in self._settings.items()]


def put(path: Path, text: str) -> Path:
    """Write a file of a workflow, and return its path.

    Raises:
        UsageError: somebody else has written a file of that name.
        ResourceError: it cannot be written.
    """
    try:
        if path.exists() and not path.read_text(encoding="utf-8").startswith(_WRITTEN):
            raise UsageError(
                f"{path}: no Workflow has written this file, so it is not overwritten; give this one another name"
            )
        atomic.put(path, _WRITTEN + text)
    except OSError as error:
        raise refused(path, "write the workflow's file", error) from error
    return path


def _port(kind: type, who: str, given: Given) -> dict[str, Any]:
    if isinstance(given, str):
        return {"filename": given}
    return _known(kind, f"a port of {who}", given)


def _known(section: type, who: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, if there are such.

    Raises:
        UsageError: there are not.
    """
    known = [key_of(item) for item in keys_of(section)]
    for name in keys:
        if name not in known:
            raise UsageError(f"{who} has no key {name!r}{suggest(name, known)}")
    return dict(keys)


def _as_yaml(value: Any) -> str:
    """A value as ``--set`` takes it, in one line."""
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=sys.maxsize).removesuffix("...\n").strip()
