"""Finds the MPI library that a program uses, without running the program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from wilkins.plan.mpi import Linked, linked_mpi, python_extensions
from wilkins.plan.plan import TaskPlan

_LIBRARY = re.compile(r"lib(mpi|mpich|mpi_abi)\.so(\.\d+)*")
_PROBE = """
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
print("\\n" + "\\n".join(line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/libmpi" in line))
"""


def mpi_library(task: TaskPlan, environment: Mapping[str, str]) -> tuple[Path | None, bool]:
    """The MPI library a task uses, and whether its executable is linked to it (else it loads it later, or never)."""
    library_path = environment.get("LD_LIBRARY_PATH", "")
    found = _only(linked_mpi([task.executable], library_path))
    if found is not None:
        return found, True
    if not task.executable.name.startswith("python"):
        return None, False
    script = next((Path(task.cwd, word) for word in task.args if word.endswith(".py")), None)
    found = _of_mpi4py(task.executable, environment)
    if found is None and script is not None:
        found = _only(linked_mpi(python_extensions(script, task.executable), library_path))
    return found, False


def _only(linked: Sequence[Linked]) -> Path | None:
    return linked[0].library if len(linked) == 1 else None


def _of_mpi4py(interpreter: Path, environment: Mapping[str, str]) -> Path | None:
    """The library that mpi4py uses under this interpreter."""
    try:
        shown = subprocess.run(
            [str(interpreter), "-c", _PROBE],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((Path(line) for line in shown.stdout.splitlines() if _LIBRARY.fullmatch(Path(line).name)), None)
