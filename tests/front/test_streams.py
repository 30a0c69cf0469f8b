"""Commands whose standard streams are closed, full, read by nobody, or too narrow: each ends with its own exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from front.front_case import Case

from support.running import Finished, run_tree

Pair = Callable[..., Case]

COMMANDS = {
    "run workflow.yaml": 0,
    "check workflow.yaml": 0,
    "plan workflow.yaml": 0,
    "graph workflow.yaml": 0,
    "graph --format svg workflow.yaml": 0,
    "simulate workflow.yaml": 0,
    "trace none": 2,
    "trace run": 0,
    "schema": 0,
    "list": 0,
    "init other.yaml": 0,
    "ckpt list .": 2,
    "clean": 0,
    "run --help": 0,
    "--help": 0,
    "--version": 0,
    "check bad.yaml": 2,
    "run": 0,
    "fly": 2,
}

TASKS = """\
tasks:
  - {func: /bin/true, model: {step: 1s, steps: 1}}
  - {func: /bin/echo, args: [hello], model: {step: 1s, steps: 1}}
"""


def _run(folder: Path, command: str, redirections: str) -> Finished:
    line = f"exec {shlex.quote(sys.executable)} -m wilkins {command} {redirections}"
    return run_tree(["/bin/sh", "-c", line], 60, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a workflow file, a wrong one and a run."""
    (tmp_path / "workflow.yaml").write_text(TASKS)
    (tmp_path / "bad.yaml").write_text("tasks: 7\n")
    return tmp_path


@pytest.mark.usual("run workflow.yaml", "check bad.yaml")
@pytest.mark.parametrize("command", COMMANDS)
def test_closed_streams(folder: Path, command: str) -> None:
    """What cannot be shown is left out; nothing of it lands in files that were opened in a stream's place."""
    if command == "trace run":
        assert _run(folder, "run --run-dir run workflow.yaml", "").code == 0
    for redirections in (">&-", "2>&-", "<&- >&- 2>&-"):
        (folder / "other.yaml").unlink(missing_ok=True)
        finished = _run(folder, command, redirections)
        assert finished.code == COMMANDS[command], (redirections, finished)
        assert "Traceback" not in finished.out + finished.err, (redirections, finished)
        if "2>&-" in redirections:
            assert finished.err == ""
        if ">&-" in redirections.split():
            assert finished.out == ""
    if command.startswith("run workflow"):
        logs = {log.name: log.read_text() for log in folder.glob("wilkins-runs/latest/*.log")}
        assert logs == {"true.log": "", "echo.log": "hello\n"}


@pytest.mark.usual("run workflow.yaml")
@pytest.mark.parametrize("command", ["plan workflow.yaml", "check bad.yaml", "run workflow.yaml", "--help"])
def test_errors_that_nobody_can_be_told(folder: Path, command: str) -> None:
    """Neither a full disk behind stderr nor a reader that is gone changes the exit code."""
    assert _run(folder, command, "2>/dev/full").code == COMMANDS[command]
    words = f"{shlex.quote(sys.executable)} -m wilkins {command}"
    finished = run_tree(["/bin/bash", "-c", f"set -o pipefail; ({words}) 2>&1 | true"], 60, folder)
    assert finished.code == COMMANDS[command]


@pytest.mark.parametrize("command", ["--help", "--version", "graph --format svg workflow.yaml"])
def test_output_that_a_full_disk_cuts_short(folder: Path, command: str) -> None:
    finished = _run(folder, command, ">/dev/full")
    assert finished.code == 1
    assert finished.err.startswith("wilkins: error: standard output: cannot write to it: No space left on device;")
    assert finished.err.count("\n") == 1


def test_a_resumed_run_goes_on_when_nobody_reads_what_it_says(folder: Path) -> None:
    """Its first line is about the run it goes on with."""
    (folder / "fail.sh").write_text("#!/bin/sh\ntest -e mended\n")
    (folder / "fail.sh").chmod(0o755)
    (folder / "workflow.yaml").write_text("tasks:\n  - {func: ./fail.sh, restart: {files: 'ckpt*'}}\n")
    assert _run(folder, "run workflow.yaml", "").code == 1
    (folder / "mended").touch()
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m wilkins run --resume latest | true"
    finished = run_tree(["/bin/bash", "-c", line], 60, folder)
    assert finished.code == 0
    assert "1  done" in finished.err, finished.err
