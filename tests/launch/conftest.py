"""A folder with small programs on streams, and ways to run workflows of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.running import MPIEXEC, WILKINS, Finished, processes_in, run_tree, write_program

PRODUCER = """\
import os, sys, time
import h5py
open("run-folder", "w").write(os.environ["WILKINS_RUN"])
for step in range(int(sys.argv[1])):
    with h5py.File(f"step{step}.h5", "w") as file:
        file["x"] = [step] * 10
    print("wrote", step, flush=True)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""

READER = """\
import sys
import h5py
step = 0
while True:
    with h5py.File(f"step{step}.h5", "r") as file:
        print("read", step, file["x"][:].sum(), flush=True)
    step += 1
"""

ONE_STEP = """\
import sys
import h5py
with h5py.File(sys.argv[1], "r") as file:
    print("handled", sys.argv[1], file["x"][:].sum(), flush=True)
"""


class Case:
    """A user's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"produce.py": PRODUCER, "read.py": READER, "one.py": ONE_STEP}.items():
            write_program(folder / name, text)

    def program(self, name: str, text: str) -> None:
        """Add a program."""
        write_program(self.folder / name, text)

    def workflow(self, text: str) -> None:
        """Write the workflow file."""
        (self.folder / "workflow.yaml").write_text(text, encoding="utf-8")

    def run(self, *options: str, timeout: float = 60, before: tuple[str, ...] = ()) -> Finished:
        """Run it, under ``before`` (an mpiexec and its options), and check that nothing is left of it."""
        finished = run_tree([*before, *WILKINS, "run", *options, "workflow.yaml"], timeout, self.folder)
        assert "Traceback" not in finished.err, finished.err
        self.assert_nothing_left()
        return finished

    def assert_nothing_left(self) -> None:
        """No process runs on, and the run's shared memory is gone."""
        assert processes_in(self.folder) == []
        assert not self.run_folder().is_dir()

    def run_folder(self) -> Path:
        """The run's folder in shared memory, as its producer was told."""
        note = self.folder / "run-folder"
        return Path(note.read_text()) if note.is_file() else Path(os.devnull)

    def log(self, name: str) -> str:
        """A task's log."""
        return (self.folder / "wilkins-runs" / "latest" / f"{name}.log").read_text()

    def summary(self) -> dict[str, Any]:
        """The run's record, with its tasks by name."""
        record: dict[str, Any] = json.loads((self.folder / "wilkins-runs" / "latest" / "summary.json").read_text())
        record["tasks"] = {task["name"]: task for task in record["tasks"]}
        return record


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A fresh folder."""
    return Case(tmp_path)


@pytest.fixture
def mpiexec() -> str:
    """The mpiexec of this Python's MPI."""
    if not Path(MPIEXEC).is_file():
        pytest.fail(f"{MPIEXEC} is missing; install the package `mpich` into this environment")
    return MPIEXEC


FAMILIES = [
    pytest.param("pypi", id="pypi-mpich"),
    pytest.param("mpich", id="debian-mpich", marks=pytest.mark.needs("mpiexec.mpich", "mpicc.mpich")),
    pytest.param("openmpi", id="debian-openmpi", marks=pytest.mark.needs("mpirun.openmpi", "mpicc.openmpi")),
]


class Job:
    """One MPI: its compiler and its mpiexec."""

    def __init__(self, family: str, mpiexec: str) -> None:
        self.compiler = {"pypi": str(Path(mpiexec).parent / "mpicc")}.get(family, f"mpicc.{family}")
        self.library = Path(mpiexec).parent.parent / "lib" if family == "pypi" else None
        self._mpiexec: Sequence[str] = {
            "pypi": [mpiexec],
            "mpich": ["mpiexec.mpich"],
            "openmpi": ["mpirun.openmpi", "--oversubscribe"],
        }[family]

    def on(self, ranks: int) -> tuple[str, ...]:
        """The words that start a job of so many ranks."""
        return (*self._mpiexec, "-n", str(ranks))

    def compile(self, folder: Path, name: str, text: str) -> None:
        """Make a program of a text in C."""
        (folder / f"{name}.c").write_text(text)
        paths = [f"-Wl,-rpath,{self.library}"] if self.library else []
        subprocess.run([self.compiler, "-O1", f"{name}.c", "-o", name, *paths], cwd=folder, check=True, timeout=60)


@pytest.fixture(params=FAMILIES)
def job(request: pytest.FixtureRequest, mpiexec: str) -> Job:
    """Each MPI on this machine."""
    return Job(request.param, mpiexec)
