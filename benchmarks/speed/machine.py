"""The machine of a measurement: what it is, what is installed, and how much else it had to do."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import h5py

QUIET = 0.03
"""Part of the processors that others may use on a machine that counts as quiet."""


def busy(seconds: float = 0.5) -> float:
    """The part of all processors that was in use for so long, while this process slept."""
    before = _ticks()
    time.sleep(seconds)
    idle, whole = (after - first for after, first in zip(_ticks(), before, strict=True))
    return 1 - idle / max(whole, 1)


def _ticks() -> tuple[int, int]:
    """Ticks so far: idle ones (also those of waiting for a disk), and all."""
    ticks = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return ticks[3] + ticks[4], sum(ticks)


def wait_for_quiet(minutes: float) -> bool:
    """Wait until nothing else runs, for so long at most; whether that came."""
    end = time.monotonic() + 60 * minutes
    while busy(5) > QUIET:
        if time.monotonic() > end:
            return False
    return True


def describe() -> dict[str, Any]:
    """Date, processors, system and versions."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"Linux {platform.release()}",
        "huge pages": f"{_chosen('enabled')}, in shared memory {_chosen('shmem_enabled')}",
        "commit": _said("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        "versions": _versions(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _chosen(setting: str) -> str:
    """The word in brackets of a setting of huge pages."""
    try:
        return Path(f"/sys/kernel/mm/transparent_hugepage/{setting}").read_text().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        return "unknown"


def _said(*command: str) -> str:
    """The first line of a command's output; empty where that fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.split("\n", 1)[0].strip()


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version(), "HDF5 of h5py": h5py.version.hdf5_version}
    here = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    found |= {name: here[name] for name in ("h5py", "numpy", "mpi4py", "mpich", "adios2") if name in here}
    said = {
        "HDF5 of h5cc": _said("sh", "-c", "h5cc -showconfig | sed -n 's/.*HDF5 Version: *//p'"),
        "h5pcc.mpich": _said("sh", "-c", "mpiexec.mpich --version | sed -n 's/ *Version: */MPICH /p'"),
        "h5pcc.openmpi": _said("mpiexec.openmpi", "--version"),
    }
    return found | {name: version for name, version in said.items() if version}
