"""A launcher whose run stands still sees at once that somebody begins to watch it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

from wilkins.launch.programs.output import Terminal
from wilkins.launch.watch.progress import Progress
from wilkins.plan.plan import Plan
from wilkins.terminal.progress import WATCHED


def test_who_begins_to_watch_right_after_a_turn_is_seen(tmp_path: Path) -> None:
    """The turn that the touch wakes is not due yet; what it hears must not be lost until the longest pause is over."""
    progress = Progress(cast("Plan", None), tmp_path, Terminal([], quiet=True))
    try:
        now = time.monotonic() + 2
        progress.turn(now, lambda: None, dict)
        assert not progress.is_seen(now)
        (tmp_path / WATCHED).touch()
        progress.turn(now + 0.1, lambda: None, dict)
        assert progress.is_seen(now + 0.1)
    finally:
        progress.end()
