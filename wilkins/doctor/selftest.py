"""Runs a workflow of one step, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wilkins.doctor.findings import Finding
from wilkins.launch.programs.environment import without_mpi_job

_FILES = {
    "write.py": "import h5py\nwith h5py.File('step.h5', 'w') as file:\n    file['x'] = range(10)\n",
    "read.py": "import h5py\nwith h5py.File('step.h5') as file:\n    print('sum', file['x'][:].sum())\n",
    "workflow.yaml": "tasks:\n"
    "- {func: write.py, outports: [{filename: step.h5}]}\n"
    "- {func: read.py, inports: [{filename: step.h5}]}\n",
}
_LIMIT = 60
"""Seconds, after which the run ends itself."""


def self_test() -> Finding:
    """Whether one step gets from one program to another in memory."""
    with tempfile.TemporaryDirectory(prefix="wilkins-doctor-") as name:
        folder = Path(name)
        for file, text in _FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "wilkins", "run", "--timeout", str(_LIMIT), "workflow.yaml"]
        began = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=without_mpi_job(os.environ),
                capture_output=True,
                text=True,
                timeout=2 * _LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            text = f"a workflow of one step did not end within {2 * _LIMIT} s"
            return Finding("wrong", "self-test", text, "wilkins help stuck, and wilkins clean afterwards")
        took = time.monotonic() - began
        went = done.returncode == 0 and "sum 45" in done.stdout and not (folder / "step.h5").exists()
    if went:
        return Finding("ok", "self-test", f"a step went from one program to another in memory ({took:.1f} s in all)")
    said = (done.stderr or done.stdout).strip().splitlines()
    return Finding(
        "wrong", "self-test", f"a workflow of one step failed: {said[-1] if said else 'no word'}", "mend what it says"
    )
