"""Runs of a producer and a consumer whose arrays are in a GPU's memory, on the stand-in for CUDA or on a GPU."""

from __future__ import annotations

import textwrap
from pathlib import Path

from support.running import WILKINS, run_tree, write_program

HEAD = """#!/usr/bin/env python3
import sys
sys.path.insert(0, {here!r})
import h5py
import numpy as np
import wilkins.transport
from gpu_memory import DeviceArray, STAND_IN, count, peek
"""

WORKFLOW = """
tasks:
- {func: ./make.py, nprocs: 1, outports: [{filename: "s*.h5"}]}
- {func: ./use.py, nprocs: 1, inports: [{filename: "s*.h5"}]}
"""


def coupled(folder: Path, env: dict[str, str], make: str, use: str, workflow: str = WORKFLOW) -> str:
    """Run a producer and a consumer; the run's folder."""
    head = HEAD.format(here=str(Path(__file__).parent))
    write_program(folder / "make.py", head + textwrap.dedent(make))
    write_program(folder / "use.py", head + textwrap.dedent(use))
    (folder / "workflow.yaml").write_text(workflow)
    finished = run_tree([*WILKINS, "run", "workflow.yaml", "--timeout", "100"], 150, folder, env)
    logs = "\n".join(log.read_text() for log in sorted((folder / "wilkins-runs" / "latest").glob("*.log")))
    assert finished.code == 0, finished.err + logs
    return logs
