"""A small process that outlives a killed launcher just long enough to end what it started and free its memory."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path
from types import TracebackType

from wilkins.launch.programs import process
from wilkins.launch.programs.output import say
from wilkins.transport.board import sweep

VARIABLE = "WILKINS_LAUNCHER"
"""Marks the processes a launcher started, and all they started, wherever they hang now."""

_PATIENCE = 5.0
_DONE = b"done"


class Guard:
    """Watches over a run while the block lasts; acts only if the launcher dies inside it.

    The run does not depend on it: if it is killed, the launcher says so, once, and does its own part as always.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        """Value of `VARIABLE` in every process that belongs to the launcher."""
        self._pipe = -1
        self._pid = 0
        self._lost = False

    def __enter__(self) -> Guard:
        read_end, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._pipe)
                _watch(read_end, self.token)
                status = 0
            finally:
                os._exit(status)
        os.close(read_end)
        return self

    def note(self, segment: Path) -> None:
        """Let the guard know of shared memory that it must remove too."""
        self._tell(os.fsencode(segment) + b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(_DONE + b"\n")
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _tell(self, line: bytes) -> None:
        if self._lost:
            return
        try:
            os.write(self._pipe, line)
        except BrokenPipeError:
            self._lost = True
            say(
                "the process that cleans up should this launcher be killed was killed itself; the launcher cleans up "
                "at the end of the run all the same, and after a kill `wilkins clean` does"
            )


def _watch(pipe: int, token: str) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    told = b""
    while part := os.read(pipe, 65536):
        told += part
    lines = told.splitlines()
    if _DONE not in lines:
        # A child between fork and exec carries no token yet, but the launcher's lock on the run: it dies in a moment.
        for pause in (0.0, 0.1, 0.5):
            time.sleep(pause)
            end_members(token)
            sweep()
        for segment in lines:
            with contextlib.suppress(OSError):
                os.unlink(segment)  # noqa: PTH108, names are bytes


def end_members(token: str) -> None:
    """Kill every process that carries the token."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and (alive := process.members(VARIABLE, token)):
        process.send(alive, signal.SIGKILL)
        process.reap(alive)
        time.sleep(0.02)
