"""Starts halves of relays as forks of one process, where a host has many."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from wilkins.launch.programs.process import OUTPUT, STARTER, Program, children, send
from wilkins.transport import relay_nursery

FEW = 2
"""So many halves of a host are started each by itself."""
_ANSWERS_WITHIN = 20.0


class Nursery:
    """The process, started when it is first needed. It may have as many open files as this one: halves inherit some
    by their numbers."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: of the process, which all that it forks are seen with from outside."""
        self._environment = environment
        self._wire: socket.socket | None = None
        self._pid = 0
        self._fails = False

    def start(
        self, args: Sequence[str], variables: Mapping[str, str], cwd: Path, descriptors: Sequence[int]
    ) -> Program | None:
        """Start a half; None: that cannot be done, and it is to be started by itself.

        Args:
            args: of the relay's program.
            variables: beside those of the process.
            descriptors: which it inherits.
        """
        if self._fails:
            return None
        reads, writes = os.pipe()
        try:
            own = {**variables, STARTER: str(os.getpid()), OUTPUT: str(os.fstat(writes).st_ino)}
            message = relay_nursery.packed(args, own, str(cwd), [1, *descriptors])
            pid = self._asked(message, [writes, *descriptors]) if len(message) <= relay_nursery.MOST else None
        except BaseException:
            os.close(reads)
            raise
        finally:
            os.close(writes)
        if pid is None:
            self._fails = True
            os.close(reads)
            return None
        os.set_blocking(reads, False)
        return Program(pid, reads)

    def _asked(self, message: bytes, descriptors: Sequence[int]) -> int | None:
        """The process of the half; None: there is none, and none will be."""
        try:
            wire = self._wire = self._wire or self._started()
            wire.settimeout(_ANSWERS_WITHIN)
            socket.send_fds(wire, [message], descriptors)
            answer = wire.recv(relay_nursery.PID.size)
        except TimeoutError:
            answer = self._left()
        except OSError:
            return None
        return int(relay_nursery.PID.unpack(answer)[0]) if answer else None

    def _left(self) -> bytes:
        """Give up a process that stands still. Returns the answer that has come all the same: a half that comes later
        cannot say so, and ends."""
        assert self._wire is not None
        self._wire.shutdown(socket.SHUT_RD)
        answer = self._wire.recv(relay_nursery.PID.size)
        self._wire.close()
        if self._pid in children():  # else it has ended, and another may have its number
            send([self._pid], signal.SIGKILL)  # it holds what it was sent, such as pipes whose end others wait for
        self._fails = True
        return answer

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            child = subprocess.Popen(
                [sys.executable, str(relay_nursery.__file__)],
                env=dict(self._environment),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        child.returncode = 0  # reaped by `Children`, not by the object
        self._pid = child.pid
        return ours

    def close(self) -> None:
        """Start no more."""
        if self._wire is not None:
            self._wire.close()
