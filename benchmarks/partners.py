"""What parity on partner nodes costs: a checkpoint in the memory of nodes, with parity there, and on storage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from wilkins.tasks.checkpoint.storage.levels import MEMORY

PROGRAM = Path(__file__).parent / "programs" / "partnered.py"
LEVELS = ("storage", "memory", "partners")


@dataclass(frozen=True, slots=True)
class Kept:
    """What checkpoints took; medians over them, in seconds."""

    blocked: float
    """In `save` and `wait_captured`, on the slowest rank."""
    done: float
    """From `save` until the version was committed, on the slowest rank."""
    cpu: float
    """CPU seconds of a rank, with those of `save`."""


def measure(
    level: str,
    data: int,
    parity: int,
    *,
    mib: int = 64,
    steps: int = 5,
    compute: float = 0.5,
    folder: Path | None = None,
) -> Kept:
    """Let data + parity ranks, each on a node of its own in name, save states of `mib` MiB each to a level.

    Raises:
        RuntimeError: there is no mpiexec, or the run failed.
    """
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        raise RuntimeError("there is no mpiexec; install an MPI, such as the mpich of PyPI")
    with tempfile.TemporaryDirectory(dir=folder) as scratch, tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        result = Path(scratch) / "result.json"
        words = [level, data, parity, mib, steps, compute, Path(scratch) / "checkpoints", memory, result]
        done = subprocess.run(
            [mpiexec, "-n", str(data + parity), sys.executable, str(PROGRAM), *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        results = json.loads(result.read_text())
    return Kept(*(median(results[name]) for name in Kept.__slots__))


def report(codes: Sequence[tuple[int, int]], *, mib: int, steps: int, folder: Path | None) -> None:
    """Print a table for these numbers of data and parity fragments."""
    print(
        f"{mib} MiB per rank, one rank per node, all nodes this machine; {steps} checkpoints each; "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}; medians of the slowest rank"
    )
    print(
        f"{'nodes':>5}  {'level':<22}{'blocked, ms':>12}{'done, s':>9}{'x memory':>10}{'x storage':>11}"
        f"{'CPU s per rank':>16}{'MB/s':>7}"
    )
    for data, parity in codes:
        found = {level: measure(level, data, parity, mib=mib, steps=steps, folder=folder) for level in LEVELS}
        for level, kept in found.items():
            name = f"parity, {data} + {parity}" if level == "partners" else level
            rate = (data + parity) * mib * (1 << 20) / kept.done
            print(
                f"{data + parity:>5}  {name:<22}{kept.blocked * 1e3:>12.2f}{kept.done:>9.2f}"
                f"{kept.done / found['memory'].done:>10.2f}{kept.done / found['storage'].done:>11.2f}{kept.cpu:>16.2f}"
                f"{rate / 1e6:>7.0f}",
                flush=True,
            )
