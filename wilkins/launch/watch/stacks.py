"""The call stack of a running Python program, by py-spy if it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

_WITHIN = 3.0
"""Seconds."""
_MOST_FRAMES = 3


def where(pid: int) -> str:
    """The innermost calls of a Python program's main thread, in a line; empty if py-spy cannot read them.

    The program is not stopped for that.
    """
    tool = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if tool is None:
        return ""
    words = [tool, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return innermost(done.stdout, pid)


def innermost(dump: str, thread: int) -> str:
    """The innermost calls of a thread, from what ``py-spy dump`` prints; empty if it has none."""
    lines = iter(dump.splitlines())
    if not any(line.startswith(f"Thread {thread} ") for line in lines):
        return ""
    frames = [line.strip() for line in takewhile(lambda line: line.startswith("    "), lines)]
    return ", called from ".join(frames[:_MOST_FRAMES])
