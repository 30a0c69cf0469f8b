"""Looks at this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wilkins.doctor.facts import FabricFacts, MachineFacts, Mpi, SharedMemory
from wilkins.launch.programs.environment import without_mpi_job
from wilkins.plan.cores import cores
from wilkins.plan.gpu_count import gpus_here
from wilkins.plan.mpi import Family, launchers, library_family
from wilkins.plan.program import system_libraries
from wilkins.transport import fabric
from wilkins.transport.removal import SHARED_MEMORY

_FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD, "ipc": 0xEFFFFFFF}
"""Inodes of the namespaces in which a machine starts (`enum` in the kernel's ``proc_ns.h``)."""
_GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 of control groups says a number near 2**63 where there is no limit."""
_ASK = """
import ctypes, sys
mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
level, length, text = ctypes.c_int(-1), ctypes.c_int(0), ctypes.create_string_buffer(1 << 14)
mpi.MPI_Init_thread(None, None, 3, ctypes.byref(level))
mpi.MPI_Get_library_version(text, ctypes.byref(length))
print("", level.value, text.value.decode(errors="replace").splitlines()[0], sep="\\n", flush=True)
mpi.MPI_Finalize()
"""
_TRY = "import json; from wilkins.transport import fabric; print(json.dumps(fabric.tried(fabric.wish())))"


def machine() -> MachineFacts:
    """The facts about this machine."""
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    mpis: dict[object, Mpi] = {}
    for family, launcher in launchers(folders):
        library = _library(family, Path(launcher))
        mpis.setdefault(library or launcher, Mpi(family, launcher, library))  # a wheel has the launcher thrice
    return MachineFacts(
        cores=cores(),
        cpu_limit=_cpu_limit(),
        shared=_shared(),
        memory_limit=_memory_limit(),
        namespaces=tuple(kind for kind, first in _FIRST.items() if _inode(kind) not in (first, None)),
        gpus=gpus_here().count,
        mpis=tuple(_asked(mpi) if mpi.library else mpi for mpi in mpis.values()),
        fabric=fabric_facts(),
    )


def fabric_facts() -> FabricFacts:
    """What bytes would cross to other hosts by. UCX is tried in a process of its own."""
    wished = fabric.wish()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRY],
            env={**os.environ, **fabric.VARIABLES},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return FabricFacts(wished, problem=str(error))
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]  # UCX has words of its own before
    if done.returncode or not lines:
        return FabricFacts(wished, problem=f"a process that loads it ends with {done.returncode}")
    ucx, problem = json.loads(lines[-1])
    return FabricFacts(wished, ucx, problem)


def _inode(kind: str) -> int | None:
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino
    except OSError:
        return None


def _shared() -> SharedMemory | None:
    try:
        room = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    writable = os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return SharedMemory(SHARED_MEMORY, room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize, writable)


def _said_by_groups(file: str, controller: str = "", old: str = "") -> Iterator[str]:
    """The values of a file for this process's control group and those above it.

    Args:
        controller, old: where version 1 of control groups has the same, if it has.
    """
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, name = _GROUPS, file
        elif old and controller in controllers.split(","):
            root, name = _GROUPS / controller, old
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (said := _text(folder / name).strip()):
                yield said


def _text(file: Path) -> str:
    """Empty if it is not there, or may not be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _memory_limit() -> int | None:
    said = [int(text) for text in _said_by_groups("memory.max", "memory", "memory.limit_in_bytes") if text.isdigit()]
    return min((limit for limit in said if limit < _UNLIMITED), default=None)


def _cpu_limit() -> float | None:
    pairs = [text.split() for text in _said_by_groups("cpu.max") if not text.startswith("max")]
    return min((int(quota) / int(period) for quota, period in pairs), default=None)


def _asked(mpi: Mpi) -> Mpi:
    """The same with the version and thread level that it reports to a process which initialises it."""
    command = [sys.executable, "-c", _ASK, str(mpi.library)]
    environment = without_mpi_job(os.environ)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return mpi
    lines = done.stdout.splitlines()
    if len(lines) < 3 or not lines[-2].isdigit():
        return mpi
    version = re.search(r"\d+\.\d+[\w.]*", lines[-1])
    return replace(mpi, version=version[0] if version else "", threads=int(lines[-2]))


def _library(family: Family, launcher: Path) -> Path | None:
    """The library that belongs to a launcher: of its own prefix, or of the system."""
    near = [path for folder in ("lib", "lib64") for path in sorted((launcher.parents[1] / folder).glob("libmp*.so.*"))]
    system = [Path(path) for paths in system_libraries().values() for path in paths]
    return next((path for path in (*near, *system) if library_family(path.name) == family and _is_c(path)), None)


def _is_c(path: Path) -> bool:
    """Whether it is the library of the C functions."""
    return path.name.partition(".so")[0] in ("libmpi", "libmpich")
