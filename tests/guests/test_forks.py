"""A program that forks while other threads of it make calls: the child can make the same calls."""

from __future__ import annotations

import pytest
from programs.build import build

from support.small_workflows import Workflow

FORKS = 500

WRITER = """
import os, h5py
with h5py.File("s0.h5", "w") as f:
    f["x"] = 1
os.mkdir("t0.d")
with open("t0.d/a", "w") as f:
    f.write("x")
"""
READER = """
import os
assert os.path.exists("u0.d/a")
with open("u0.d/a"):
    pass
"""


@pytest.mark.parametrize(
    "call", ["open", "list", "watch", "prepare-spawn", "read-folder", "write-folder", "move-into-folder"]
)
def test_no_child_hangs_in_what_a_thread_of_its_parent_was_doing(flow: Workflow, call: str) -> None:
    """A mutex that another thread has as a process is forked would be locked in the child for ever."""
    program = build("forks.c", "cc", "-pthread")
    flow.task("writer", WRITER, outports=[{"filename": "s*.h5"}, {"filename": "t*.d/"}])
    flow.task(
        "forks",
        [program, call, str(FORKS)],
        inports=[{"filename": "s*.h5"}, {"filename": "t*.d/"}],
        outports=[{"filename": "u*.d/"}],
    )
    flow.task("reader", READER, inports=[{"filename": "u*.d/"}])
    flow.run()
