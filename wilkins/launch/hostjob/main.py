"""One process of `mpiexec -n N wilkins run FILE` over several hosts: the process of each rank.

The first process on a host starts its keeper; rank 0 directs the run, and a child of it is its rank.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.hostjob.follower import Follower, connect
from wilkins.launch.hostjob.meeting import PATIENCE
from wilkins.launch.job.leaving import leave_together, refuse
from wilkins.launch.job.planned import Planner
from wilkins.launch.job.rank import Rank, hosts_key
from wilkins.launch.options import RunOptions
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process

_ENDS_WITHIN = 5.0
_LEAVE_AFTER = 0.4
"""Seconds from the verdict to the moment at which all ranks exit together, so that all hosts get it before."""


def main(path: Path, options: RunOptions, make: Planner, here: Rank, runs: Path) -> int:
    """Be one rank of the job; the exit code is the same on all ranks.

    Args:
        path: the workflow file, or the run that is gone on with.
        make: decides what is run; used on the first rank alone.
        here: this process's place in the job.
        runs: the folder of runs, unless an option names another.
    """
    folder = options.run_dir.parent if options.run_dir else runs
    try:
        key = hosts_key()
    except ResourceError as error:
        return refuse(here, error)
    meeting = folder / f".job-{key}.json"
    # All ranks on one machine meet, also those that an mpiexec starts there as on two hosts.
    name = b"\0wilkins-%d-%s" % (os.getuid(), key.encode())
    own = os.fork() if here.rank == 0 else 0
    if own:
        from wilkins.launch.hostjob.lead import lead  # with it comes all that a head needs, and other ranks do not

        code = lead(path, options, make, here, meeting)
        leaves = time.monotonic() + _LEAVE_AFTER
        _await(own)
    else:
        code = _follow(name, meeting, here)
        leaves = time.monotonic() + _LEAVE_AFTER
        if here.rank == 0:
            os._exit(0)
    if code:
        leave_together(code, leaves)
    return code


def _follow(name: bytes, meeting: Path, here: Rank) -> int:
    if here.rank == 0:
        os.setsid()
        process.end_with_parent()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if connection := connect(name):
            with connection:
                return Follower(connection, here.rank).run()
        _start_keeper(name, meeting)
        time.sleep(0.01)
    return 1


def _start_keeper(name: bytes, meeting: Path) -> None:
    """Start this host's keeper, unless another rank does."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(name)
        except OSError:
            return
        listener.listen(4096)
        os.set_inheritable(listener.fileno(), True)
        subprocess.Popen(
            [sys.executable, "-m", "wilkins.launch.hostjob.keep", str(listener.fileno()), str(meeting.absolute())],
            env=env.user_environment(),
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )


def _await(child: int) -> None:
    """Wait for the process that was rank 0; it has nothing to do any more."""
    until = time.monotonic() + _ENDS_WITHIN
    while time.monotonic() < until and not process.reap([child]):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
