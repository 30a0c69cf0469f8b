"""A folder with a workflow of small programs, one of which tells what it read."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import yaml

from support.running import WILKINS, Finished, run_tree, write_program

TIMEOUT = 90
READ_ALL = """
import sys, h5py
while True:
    try:
        with h5py.File(NAME, "r") as f:
            told = f["x"][()].tolist()
    except FileNotFoundError:
        break
    print(told, file=sys.stderr)
    with open("got.txt", "a") as out:
        print(told, file=out)
"""


class Workflow:
    """A folder with a workflow of small programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: list[dict[str, object]] = []

    def task(self, name: str, program: str | list[str | Path], **keys: object) -> None:
        """Add a task: a Python script, or a command."""
        if isinstance(program, str):
            write_program(self.folder / f"{name}.py", textwrap.dedent(program))
            program = [f"./{name}.py"]
        func, *args = map(str, program)
        self.tasks.append({"name": name, "func": func, "args": args, **keys})

    def reader(self, pattern: str, name: str | None = None, **port: object) -> None:
        """Add a task that opens a fixed name until its stream ends, and tells what it read."""
        script = READ_ALL.replace("NAME", repr(name or pattern))
        self.task("reader", script, inports=[{"filename": pattern, **port}])

    def save(self) -> None:
        """Write the workflow file."""
        (self.folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": self.tasks}))

    def run(self, code: int = 0, *options: str) -> Finished:
        """Run it alone."""
        self.save()
        ran = run_tree([*WILKINS, "run", *options, "workflow.yaml"], TIMEOUT, self.folder)
        assert ran.code == code, f"{ran.out}\n{ran.err}\n{self.log()}"
        return ran

    def got(self) -> list[object]:
        """What the reader read."""
        path = self.folder / "got.txt"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def log(self) -> str:
        """What the layer had to say."""
        path = self.folder / "wilkins-runs" / "latest" / "layer.log"
        return path.read_text() if path.exists() else ""

    def published(self, task: str) -> int:
        """Steps that a task has published."""
        summary = json.loads((self.folder / "wilkins-runs" / "latest" / "summary.json").read_text())
        return next(int(t["produced"]) for t in summary["tasks"] if t["name"] == task)


def out(pattern: str, publish: object, **more: object) -> list[dict[str, object]]:
    """The out-ports of a task with one port."""
    return [{"filename": pattern, "publish": publish, **more}]
