"""For programs of tests: go on when another task waits, or a step is there, instead of after some time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wilkins.transport.board import Board

LIMIT = 60.0


def until_waits(task: int, run: str | Path | None = None) -> None:
    """Until a rank of the task of this number waits for data, or for room.

    `run`: the run's folder in shared memory; default: that of the program which asks.

    Raises:
        TimeoutError: none did within LIMIT seconds.
    """
    _until(lambda report: report["tasks"][task]["waits"], run, f"no rank of task {task} waits")


def until_published(port: int, steps: int, run: str | Path | None = None) -> None:
    """Until an out-port, by its number on the board, has published some steps; `run` as above.

    Raises:
        TimeoutError: it has not within LIMIT seconds.
    """
    _until(lambda report: report["ports"][port]["steps"] >= steps, run, f"port {port} has not published {steps} steps")


def _until(condition: Callable[[dict[str, Any]], Any], run: str | Path | None, failed: str) -> None:
    board = Board.attach(Path(run or os.environ["WILKINS_RUN"]))
    until = time.monotonic() + LIMIT
    try:
        while not condition(board.report()):
            if time.monotonic() > until:
                raise TimeoutError(failed)
            time.sleep(0.02)
    finally:
        board.close()
