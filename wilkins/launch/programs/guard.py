"""A small process that outlives a killed launcher just long enough to end what it started and free its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import TracebackType

from wilkins.errors import ResourceError
from wilkins.launch.programs import process
from wilkins.launch.programs.output import say
from wilkins.transport.removal import sweep

VARIABLE = "WILKINS_LAUNCHER"
"""Marks the processes a launcher started, and all they started, wherever they hang now."""

_PATIENCE = 5.0
_SHELL = "/bin/sh"
_DONE = "done"
# A shell while the launcher lives, since a Python that sleeps, or a fork of the launcher, holds megabytes.
_WATCH = f"""trap '' HUP INT PIPE TERM
read -r word
[ "$word" = {_DONE} ] || exec "$@"
"""
_END = (
    "import sys; token, *sys.path[:] = sys.argv[1:]; from wilkins.launch.programs.guard import end_run; end_run(token)"
)
"""Imports what this process would, and nothing from the folder in which that was started."""


class Guard:
    """Watches over a run while the block lasts; acts only if the launcher dies inside it.

    The run does not depend on it: if it is killed, the launcher says so, once, and does its own part as always.

    Raises:
        ResourceError: at the begin of the block, the process cannot be started.
    """

    def __init__(self) -> None:
        self.token = os.urandom(8).hex()
        """Value of `VARIABLE` in every process that belongs to the launcher."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Guard:
        words = [_SHELL, "-c", _WATCH, "wilkins-guard", sys.executable, "-c", _END, self.token, *sys.path]
        try:
            # It holds none of the launcher's descriptors: whoever listens to the launcher hears its end at once.
            self._process = subprocess.Popen(
                words,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ResourceError(
                f"the process that cleans up should this launcher be killed could not be started: {_SHELL}: "
                f"{error.strerror}; give the launcher a {_SHELL} and room for one more process (`ulimit -u`)"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        guard = self._process
        assert guard and guard.stdin
        try:
            guard.stdin.write(f"{_DONE}\n".encode())
        except BrokenPipeError:
            say(
                "the process that cleans up should this launcher be killed was killed itself; the launcher cleans up "
                "at the end of the run all the same, and after a kill `wilkins clean` does"
            )
        guard.stdin.close()
        guard.wait()


def end_run(token: str) -> None:
    """End what a launcher that was killed has started, and free what its run has left."""
    # A child between fork and exec carries no token yet, but the launcher's lock on the run: it dies in a moment.
    for pause in (0.0, 0.1, 0.5):
        time.sleep(pause)
        end_members(token)
        sweep()


def end_members(token: str, *, variable: str = VARIABLE, leave_within: float = 0.0) -> None:
    """Kill every process that carries the token, after so many seconds in which all may end by themselves."""
    began = time.monotonic()
    while (now := time.monotonic() - began) < _PATIENCE and (alive := process.members(variable, token)):
        if now >= leave_within:
            process.send(alive, signal.SIGKILL)
        process.reap(alive)
        time.sleep(0.02)
