"""Starts halves of relays as forks of itself: where a host has many, they share what Python and its modules take.

A keeper starts it with a socket as standard input, and sends a message for each half, with the descriptors that this
inherits. The half is a grandchild: when the process between them has ended, it is the keeper's child, which reaps it
like any program. It loads the layer after that, with variables of its own.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence

from wilkins.transport import relay

STARTER = "WILKINS_STARTER"
"""As of `launch.programs.process`."""
PID = struct.Struct("=i")
MOST = 1 << 16
"""Bytes of a message."""
_MOST_DESCRIPTORS = 16
_ADOPTED_WITHIN = 5.0
_PR_SET_NAME = 15


def packed(args: Sequence[str], variables: Mapping[str, str], cwd: str, numbers: Sequence[int]) -> bytes:
    """The message that starts a half.

    Args:
        args: of the relay's program.
        variables: beside those of this process.
        numbers: those that the descriptors get, which are sent along.
    """
    return json.dumps([list(args), dict(variables), cwd, list(numbers)]).encode()


def main() -> None:
    """Serve the keeper until it leaves; in each half, be that."""
    gc.collect()
    gc.freeze()  # what is not touched stays shared
    keeper = socket.socket(fileno=os.dup(0))
    while True:
        message, received, _, _ = socket.recv_fds(keeper, MOST, _MOST_DESCRIPTORS)
        if not message:
            return
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)
            break
        for descriptor in received:
            os.close(descriptor)
        os.waitpid(between, 0)
    args, variables, cwd, numbers = json.loads(message)
    _leave(int(variables[STARTER]))
    try:
        keeper.send(PID.pack(os.getpid()))
    except OSError:  # it waits no more, and has started another one
        os._exit(1)
    keeper.close()  # the keeper hears that this process is there, or that none is
    _take(dict(zip(numbers, received, strict=True)))
    os.chdir(cwd)
    os.environ.update(variables)
    relay.main(args)


def _leave(keeper: int) -> None:
    """Become a child of the keeper's, in a session of its own."""
    os.setsid()
    until = time.monotonic() + _ADOPTED_WITHIN
    while os.getppid() != keeper and time.monotonic() < until:
        time.sleep(0.001)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"wilkins-relay", 0, 0, 0)


def _take(descriptors: Mapping[int, int]) -> None:
    """Give descriptors their numbers. `descriptors`: by the number that each gets, its number now."""
    beyond = max(*descriptors, *descriptors.values()) + 1
    apart = {number: fcntl.fcntl(now, fcntl.F_DUPFD_CLOEXEC, beyond) for number, now in descriptors.items()}
    for now in descriptors.values():
        os.close(now)
    for number, now in apart.items():
        os.dup2(now, number)
        os.close(now)
    os.dup2(1, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


if __name__ == "__main__":
    main()
