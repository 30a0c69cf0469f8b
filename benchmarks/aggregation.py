"""N ranks that write a checkpoint into M files: files, bandwidth, blocked time; by each rank, and by leaders."""

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

from wilkins.tasks.checkpoint.storage.levels import memory_of

PROGRAM = Path(__file__).parent / "programs" / "aggregated.py"
WAYS = {"each rank": "", "memory, then each rank": "memory", "memory, then leaders": "leaders"}


@dataclass(frozen=True, slots=True)
class Written:
    """What checkpoints took; medians over them, of the slowest rank in each."""

    files: int
    """Files of arrays in a version."""
    blocked: float
    """Seconds that `save` and `wait_captured` took."""
    durable: float
    """Seconds from `save` until it was on storage."""
    bandwidth: float
    """Bytes per second to storage: all that the ranks saved, by `durable`."""


def measure(
    ranks: int,
    files: int,
    way: str,
    *,
    mib: int = 128,
    steps: int = 5,
    compute: float = 0.5,
    folder: Path | None = None,
) -> Written:
    """Let some ranks save states of `mib` MiB each.

    Raises:
        RuntimeError: there is no mpiexec, or the run failed.
    """
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if mpiexec is None:
        raise RuntimeError("there is no mpiexec; install an MPI, such as the mpich of PyPI")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = Path(scratch) / "result.json"
        words = [files, WAYS[way], mib, steps, compute, Path(scratch) / "checkpoints", result]
        try:
            done = subprocess.run(
                [mpiexec, "-n", str(ranks), sys.executable, str(PROGRAM), *map(str, words)],
                capture_output=True,
                text=True,
                check=False,
                timeout=1800,
            )
        finally:
            shutil.rmtree(memory_of(Path(scratch) / "checkpoints"), ignore_errors=True)  # a run that failed left it
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        results = json.loads(result.read_text())
    durable = median(results["durable"])
    return Written(results["files"], median(results["blocked"]), durable, ranks * mib * (1 << 20) / durable)


def report(every: Sequence[int], *, mib: int, steps: int, folder: Path | None) -> None:
    """Print a table for these numbers of ranks."""
    print(
        f"{mib} MiB per rank, {steps} checkpoints each; {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}; "
        "medians of the slowest rank"
    )
    print(f"{'ranks':>5}{'files':>6}  {'written by':<24}{'blocked, ms':>12}{'durable, s':>12}{'MB/s':>8}")
    for ranks in every:
        for files in sorted({1, min(2, ranks), ranks}):
            for way in WAYS:
                if files == ranks and way == "memory, then leaders":
                    continue  # each rank leads its own file
                found = measure(ranks, files, way, mib=mib, steps=steps, folder=folder)
                print(
                    f"{ranks:>5}{found.files:>6}  {way:<24}{found.blocked * 1e3:>12.2f}{found.durable:>12.2f}"
                    f"{found.bandwidth / 1e6:>8.0f}",
                    flush=True,
                )
