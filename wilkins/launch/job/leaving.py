"""How the ranks of a job end: all at one moment, since an mpiexec kills those that outlive a failed one."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import NoReturn

from wilkins.errors import ResourceError
from wilkins.launch.job.rank import Rank
from wilkins.launch.programs import environment as env
from wilkins.terminal.reporting import report

_HOLD = 0.2


def leave_together(code: int, when: float) -> NoReturn:
    """End all ranks at one moment: an mpiexec kills those that outlive a failed one, and reports that instead."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so does srun, but asks first
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if env.job_descriptors():
        _hold_descriptors(when + _HOLD)
    time.sleep(max(0.0, when - time.monotonic()))
    os._exit(code)


def _hold_descriptors(until: float) -> None:
    """Keep the connection to the mpiexec open until all ranks have gone: its end is what makes Hydra kill the rest."""
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    time.sleep(max(0.0, until - time.monotonic()))
    os._exit(0)


def refuse(here: Rank, error: ResourceError) -> int:
    """Report an error that every rank finds by itself, on the first rank only."""
    if here.rank:
        time.sleep(1.0)  # an mpiexec ends all ranks when one fails; the first is to speak before
        return ResourceError.exit_code
    return report(error)
