"""A folder with small programs that write and read streams of steps, and what each task got when a workflow was run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.running import WILKINS, Finished, run_tree, write_program

WRITE = """\
import sys, time
import h5py
name, steps, tag = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for step in range(steps):
    with h5py.File(name.format(step), "w") as file:
        file["step"] = step
        file["by"] = tag
    time.sleep(float(sys.argv[4]) if len(sys.argv) > 4 else 0)
"""
"""``write.py NAME STEPS TAG [SECONDS]``; NAME may hold ``{}``, for the number of the step."""

READ = """\
import sys, time
import h5py
step = 0
while True:
    try:
        file = h5py.File(sys.argv[1].format(step), "r")
    except FileNotFoundError:
        break
    with file:
        print("got", file["by"].asstr()[()], file["step"][()], flush=True)
    step += 1
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
"""``read.py NAME [SECONDS]``: prints what it gets, until no step comes."""

PASS_ON = """\
import sys
import h5py
while True:
    try:
        source = h5py.File(sys.argv[1], "r")
    except FileNotFoundError:
        break
    with source, h5py.File(sys.argv[2], "w") as target:
        target["step"] = source["step"][()]
        target["by"] = f"{source['by'].asstr()[()]}+{sys.argv[3]}"
"""
"""``pass_on.py FROM TO TAG``: adds its tag to each step and hands it on."""


class Streams:
    """A user's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"write.py": WRITE, "read.py": READ, "pass_on.py": PASS_ON}.items():
            self.program(name, text)

    def program(self, name: str, text: str) -> None:
        """Add a program."""
        write_program(self.folder / name, text)

    def run(self, tasks: str, *options: str, timeout: float = 40, code: int = 0) -> Finished:
        """Run a workflow of these tasks, one after another as YAML lines; it must end with this exit code."""
        (self.folder / "workflow.yaml").write_text(f"tasks:\n{tasks}", encoding="utf-8")
        finished = run_tree([*WILKINS, "run", *options, "workflow.yaml"], timeout, self.folder)
        assert finished.code == code, f"exit code {finished.code}\n{tasks}\n{finished.out}\n{finished.err}"
        assert "Traceback" not in finished.err, finished.err
        return finished

    def got(self, task: str) -> list[str]:
        """What a task has read, in its order: ``TAG STEP``."""
        lines = self.log(task).splitlines()
        return [line.removeprefix("got ") for line in lines if line.startswith("got ")]

    def log(self, task: str) -> str:
        """A task's output."""
        return (self.folder / "wilkins-runs" / "latest" / f"{task}.log").read_text()

    def record(self) -> dict[str, Any]:
        """The run's record."""
        text = (self.folder / "wilkins-runs" / "latest" / "summary.json").read_text()
        record: dict[str, Any] = json.loads(text)
        return record

    def summary(self) -> dict[str, Any]:
        """The tasks of the run's record, by name."""
        return {task["name"]: task for task in self.record()["tasks"]}


def steps(tag: str, numbers: int | range | list[int]) -> list[str]:
    """What one writer's steps look like to a reader."""
    return [f"{tag} {number}" for number in (range(numbers) if isinstance(numbers, int) else numbers)]


def by_writer(got: list[str]) -> dict[str, list[int]]:
    """The numbers of the steps of each writer, in the order of the reader."""
    found: dict[str, list[int]] = {}
    for line in got:
        tag, number = line.split()[:2]
        found.setdefault(tag, []).append(int(number))
    return found
