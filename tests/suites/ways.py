"""Runs a suite one way: plain, under the layer with ports that match none of its files, or all files in memory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from .known import HERE, Suite

Way = Literal["plain", "layer", "memory"]
WAYS: tuple[Way, ...] = ("plain", "layer", "memory")
ROOT = HERE.parent.parent
DEEPEST = 5
"""Folders below that for temporary files in which a suite makes files, at most."""
KEPT = 64
"""Closed files that stay readable to the suite itself, beside some spare ones."""

READER = """
# Takes nothing, so that what the suite finds of its own files does not depend on who is faster.
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.2)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One way, done."""

    outcomes: Path
    """What `recorder` wrote."""
    log: Path
    """What the suite printed."""
    steps: int
    """Files of the suite that were held in memory and closed."""
    on_disk: tuple[Path, ...]
    """Files that it left in its folder for temporary ones."""
    seconds: float


def run(suite: Suite, way: Way, folder: Path, fetched: Path, short: bool) -> Ran:
    """Run the suite in a new folder. What it prints and what the run of the workflow logs stays there."""
    shutil.rmtree(folder, ignore_errors=True)
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    work = scratch
    if (fetched / "test").is_dir():
        work = Path(shutil.copytree(fetched / "test", folder / "test"))
    outcomes = folder / "outcomes.tsv"
    outcomes.touch()
    environment = {
        **os.environ,
        **dict(suite.environment),
        "SUITE_OUTCOMES": str(outcomes),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, *suite.arguments(work, scratch, short)]
    if way != "plain":
        command = _workflow(suite, way, folder, work, command)
    log = folder / "log.txt"
    began = time.monotonic()
    with log.open("wb") as out:
        subprocess.run(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=suite.limit + 60,
            check=False,
        )
    left = tuple(path for path in sorted(scratch.rglob("*")) if path.is_file())
    return Ran(outcomes, log, _steps(folder), left, time.monotonic() - began)


def _workflow(suite: Suite, way: Way, folder: Path, work: Path, command: list[str]) -> list[str]:
    """Write the workflow that runs a command, and return the command that runs it."""
    scratch, over, script = folder / "scratch", folder / "over", folder / "suite"
    script.write_text(f'#!/bin/sh\n"$@"\ncode=$?\ntouch "{over}"\nexit $code\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (folder / "reader.py").write_text(READER)
    patterns = ["no-file-of-a-suite-has-this-name.h5"]
    if way == "memory":
        patterns = [str(scratch) + "/*" * depth for depth in range(1, DEEPEST + 1)] + list(suite.relative)
    keep = {"every": 1, "queue": KEPT, "when_full": "drop-oldest"}
    tasks = [
        {
            "name": "suite",
            "func": str(script),
            "args": command,
            "cwd": str(work),
            "outports": [{"filename": pattern} for pattern in patterns],
        },
        {
            "name": "reader",
            "func": str(folder / "reader.py"),
            "args": [str(over)],
            "inports": [{"filename": pattern, "flow": keep} for pattern in patterns],
        },
    ]
    workflow = folder / "workflow.yaml"
    workflow.write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    limit = str(int(suite.limit))
    return [sys.executable, "-m", "wilkins", "run", "--run-dir", str(folder / "run"), "--timeout", limit, str(workflow)]


def _steps(folder: Path) -> int:
    trace = folder / "run" / "trace.tsv"
    if not trace.exists():
        return 0
    with trace.open(encoding="utf-8") as lines:
        return sum("\tpublish\t" in line for line in lines)
