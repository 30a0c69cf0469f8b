"""The rate of a channel: writing and reading a large dataset, against a memcpy of the same bytes in the same run."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Rate:
    """Ratios of the time of a transfer to the time of a memcpy of as many bytes."""

    what: str
    write: float
    """Median over the steps."""
    read: float
    write_spread: tuple[float, float]
    """First and third quartile."""
    read_spread: tuple[float, float]
    memcpy_ms: float
    """Median, in the writer."""


def build(folder: Path) -> str | None:
    """Compile the C programs against the machine's serial HDF5; None where there is none."""
    compiler = shutil.which("h5cc")
    if compiler is None:
        return None
    program = folder / "rate"
    subprocess.run([compiler, "-shlib", "-O2", str(PROGRAMS / "rate.c"), "-o", str(program)], check=True, cwd=folder)
    return str(program)


def _task(name: str, command: list[str], ports: str, options: str = "") -> str:
    return (
        f"  - name: {name}\n    func: {command[0]}\n    nprocs: 1\n    args: {json.dumps(command[1:])}\n"
        f"    {ports}: [{{filename: 'rate-*.h5'{options}}}]\n"
    )


def _ratios(log: Path, warm: int) -> tuple[float, tuple[float, float], float]:
    times = json.loads(log.read_text().strip().splitlines()[-1])[warm:]
    quartiles = statistics.quantiles([moved / copied for copied, moved in times], n=4)
    copied = statistics.median(copied for copied, _ in times)
    moved = statistics.median(moved for _, moved in times)
    return moved / copied, (quartiles[0], quartiles[2]), copied * 1e3


def measure(
    folder: Path, *, language: str, files: bool = False, steps: int = 25, mib: int = 128, warm: int = 5
) -> Rate:
    """Run one producer and one consumer and compare.

    Args:
        folder: where to work; must be empty.
        language: ``h5py`` or ``C``.
        files: through files in this folder, the consumer after the producer, instead of a channel.
        steps: how many, the first `warm` of which do not count.
        mib: size of a step.

    Raises:
        RuntimeError: a program failed, or there is no HDF5 for C.
    """
    if language == "C":
        program = build(folder)
        if program is None:
            raise RuntimeError("no h5cc: install the serial HDF5 development files")
        writer, reader = [program, "w"], [program, "r"]
    else:
        writer, reader = [str(PROGRAMS / "write.py")], [str(PROGRAMS / "read.py")]
    size = [str(steps), str(mib)]
    workflow = folder / "workflow.yaml"
    workflow.write_text(
        "tasks:\n"
        + _task("writer", [*writer, *size], "outports", ", memory: 2GiB")
        + _task("reader", [*reader, *size], "inports")
    )
    if files:
        for name, command in (("writer", writer), ("reader", reader)):
            words = [sys.executable, *command] if command[0].endswith(".py") else command
            with (folder / f"{name}.log").open("w") as log:
                subprocess.run([*words, *size], cwd=folder, stdout=log, check=True)
        logs = folder
    else:
        command = [sys.executable, "-m", "wilkins", "run", str(workflow), "--timeout", "300"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(ran.stdout + ran.stderr)
        logs = folder / "wilkins-runs" / "latest"
    write, write_spread, copy_ms = _ratios(logs / "writer.log", warm)
    read, read_spread, _ = _ratios(logs / "reader.log", warm)
    return Rate(f"{language} {'files' if files else 'channel'}", write, read, write_spread, read_spread, copy_ms)
