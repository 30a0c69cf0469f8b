"""Runs real programs for tests: whole process trees with a hard time limit, and what they may leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

WILKINS = (sys.executable, "-m", "wilkins")
MPIEXEC = os.environ.get("WILKINS_TEST_MPIEXEC", str(Path(sys.executable).parent / "mpiexec"))
"""The mpiexec of this Python's own MPI, if it has one."""
SLOWER = float(os.environ.get("WILKINS_TEST_SLOWER", "1"))
"""How many times slower than others the machine is: so many times longer programs may take."""

OWN_MOUNTS = ["unshare", *(["--map-root-user"] if os.geteuid() != 0 else []), "--mount"]
"""Starts a command that may mount what nobody else sees; root needs no rights of its own making for that."""


WAITS = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from support import waits"
"""The first line of a program that goes on when another one waits (waits.py)."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A tree of processes that has ended by itself."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def said(self) -> str:
        """What Wilkins said on the standard error, in one line: there it breaks lines to fit a terminal."""
        return " ".join(self.err.replace("wilkins: ", "").split())


class Tree:
    """A running tree of processes, all of which have `folder` or one below as their working directory."""

    def __init__(self, argv: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> None:
        if Path(__file__).is_relative_to(folder):
            raise ValueError(f"{folder}: all processes below it are killed at the end; give a folder of the test")
        self.argv = [str(word) for word in argv]
        self.folder = folder
        self._out, self._err = folder / ".stdout", folder / ".stderr"
        self._began = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                self.argv,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait(self, timeout: float) -> Finished:
        """Wait for the end; past `timeout` seconds, kill everything and fail with all that was said and logged."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"still running after {timeout:g} s: {' '.join(self.argv)}\n{self.told()}")
        return Finished(
            code,
            self._out.read_text(errors="replace"),
            self._err.read_text(errors="replace"),
            time.monotonic() - self._began,
        )

    def kill(self) -> None:
        """End every process of the tree."""
        self.process.kill()
        for pid in processes_in(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def told(self) -> str:
        """What the tree printed, and the logs of the latest run in its folder."""
        files = [self._out, self._err, *sorted(self.folder.glob("wilkins-runs/latest/*.log"))]
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')}" for file in files if file.is_file())


def run_tree(
    argv: Sequence[str | Path], timeout: float, folder: Path, env: Mapping[str, str] | None = None
) -> Finished:
    """Run a program and all it starts in a folder, with a hard time limit."""
    with started_tree(argv, folder, env) as tree:
        return tree.wait(timeout * SLOWER)


@contextlib.contextmanager
def started_tree(argv: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Tree]:
    """A tree that runs while the block lasts, and no longer."""
    tree = Tree(argv, folder, env)
    try:
        yield tree
    finally:
        tree.kill()


def processes_in(folder: Path) -> list[int]:
    """Living processes that work in a folder or below it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
    return found


def wait_for(condition: object, timeout: float, what: str) -> None:
    """Wait until a function returns something true; fail past `timeout` seconds."""
    assert callable(condition)
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            pytest.fail(f"not within {timeout:g} s: {what}")
        time.sleep(0.02)


def write_program(path: Path, text: str) -> Path:
    """An executable script."""
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def must_run(folder: Path, *argv: str | Path, timeout: float = 60) -> str:
    """What a program prints that has to succeed within `timeout` seconds."""
    finished = run_tree(argv, timeout, folder)
    assert finished.code == 0, f"{' '.join(map(str, argv))}\n{finished.out}{finished.err}"
    return finished.out


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A file system of this size at a new folder; needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def instructions(call: Callable[[], object]) -> int:
    """How many instructions of Python's machine a call runs: a cost that no load of the machine changes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[[FrameType, str, object], Any]:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
