"""What is said of steps whose bytes have changed in memory: whose they are, while the run's folder is there."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

_MOST_SECONDS = 20


@cache
def owners_in(arena: Path, begin: int, end: int) -> str:
    """Whose these bytes of an arena are, in words; empty: that cannot be found.

    They are looked at in a process of its own, which a damaged file may take down.
    """
    words = [sys.executable, "-m", "wilkins.contents.owners", str(arena), str(begin), str(end)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MOST_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
