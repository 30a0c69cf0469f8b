"""Threads that read the samples of a process, or of all processes of a task on one host, shared by what each lacks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from wilkins.tasks.dataset.lack import Ahead, Lack, Window, shares

_LOG = logging.getLogger("wilkins.dataset")
_MESSAGE = struct.Struct("<dq")


def group(world_size: int) -> str:
    """What the processes have in common that share threads: the task of a run; outside of a run the user, the number of
    ranks, and where these meet; if nothing says that, the folder in which they were started."""
    for names in ("WILKINS_RUN", "WILKINS_TASK"), ("MASTER_ADDR", "MASTER_PORT"):
        if all(name in os.environ for name in names):
            job = [os.environ[name] for name in names]
            break
    else:
        job = [str(Path.cwd())]
    return "\n".join([str(os.getuid()), str(world_size), *job])


class Party:
    """The processes of a group on this host, who tell each other what they lack.

    They do so by datagrams between sockets whose names are in no folder: Linux forgets a name when its process ends,
    however it does. A name is one of the group's, with a number that no other process has.
    """

    BEAT = 0.02
    """Seconds between two messages of a process."""
    SILENT = 25
    """Times these seconds: a process that was not heard for so long has stopped, or cannot be told from one."""
    MOST = 1024
    """Processes of a group."""

    def __init__(self, group: str) -> None:
        self._name = b"\0wilkins-threads-" + hashlib.sha256(group.encode()).hexdigest()[:32].encode() + b"-"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._number = next(number for number in range(self.MOST) if self._is_bound(number))
        except (OSError, StopIteration) as error:
            self._socket.close()
            raise OSError(f"{self.MOST} do already" if isinstance(error, StopIteration) else error.strerror) from error
        others = (number for number in range(self.MOST) if number != self._number)
        self._heard: dict[int, tuple[float, Lack | None]] = dict.fromkeys(others, (time.monotonic(), None))
        """By number, of processes that may live: when, and what; None: nothing yet."""

    def _is_bound(self, number: int) -> bool:
        try:
            self._socket.bind(self._name + b"%d" % number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    @property
    def beat(self) -> float:
        """Seconds between two messages: more where many are to be told."""
        return self.BEAT + 0.001 * len(self._heard)

    def share(self, own: Lack, budget: int) -> int:
        """Tell the others what this process lacks, and hear what they do. Returns how many threads it has.

        One that has not said anything yet is taken to lack as much as this one.
        """
        self._hear()
        message = _MESSAGE.pack(*own)
        self._heard = {number: heard for number, heard in self._heard.items() if self._is_told(number, message)}
        since = time.monotonic() - self.SILENT * self.beat
        lacks = {number: lack or own for number, (when, lack) in self._heard.items() if when > since}
        lacks[self._number] = own
        numbers = sorted(lacks)
        return shares([lacks[number] for number in numbers], budget)[numbers.index(self._number)]

    def _is_told(self, number: int, message: bytes) -> bool:
        """Whether a process has this number; one that has not heard what was said before is not told more."""
        try:
            self._socket.sendto(message, self._name + b"%d" % number)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data, control, _, sender = self._socket.recvmsg(_MESSAGE.size, socket.CMSG_SPACE(12))
                users = [struct.unpack("3i", of)[1] for _, kind, of in control if kind == socket.SCM_CREDENTIALS]
                if users == [os.getuid()] and len(data) == _MESSAGE.size and sender.startswith(self._name):
                    lack = Lack(*_MESSAGE.unpack(data))
                    self._heard[int(sender[len(self._name) :])] = time.monotonic(), lack

    def close(self) -> None:
        """Leave."""
        self._socket.close()


class _Read(NamedTuple):
    """One of a window's."""

    window: Window
    samples: int
    read: Callable[[], None]
    future: Future[None]


class Threads:
    """Threads of this process that read.

    Args:
        count: how many; of a group, all its processes on this host together.
        of: the group; None: this process alone.
        ahead: what was asked for.
        done: gives how many samples of the epoch were handed out.
    """

    def __init__(self, count: int, of: str | None, ahead: Ahead, done: Callable[[], int]) -> None:
        self._count = count
        self._ahead = ahead
        self._done = done
        self._lock = threading.Lock()
        self._asked: deque[_Read] = deque()
        self._at_work = 0
        self._limit = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="wilkins-samples")
        self._party: Party | None = None
        self._ends = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="wilkins-shares", daemon=True)
        ahead.begin()
        if of is None:
            return
        try:
            self._party = Party(of)
        except OSError as error:
            _LOG.warning("one thread reads in this process, which cannot share any with other processes: %s", error)
            self._limit = 1
        else:
            self._beats.start()

    def ask(self, end: int, reads: Iterable[tuple[int, Callable[[], None]]]) -> list[Future[None]]:
        """Have a window of samples read, the last of which is number `end` of the epoch, counted from 1.

        Args:
            reads: how many samples, and what reads them.
        """
        with self._lock:
            window = self._ahead.ask(end)
            new = [_Read(window, samples, read, Future()) for samples, read in reads]
            window.left, window.reads = sum(one.samples for one in new), len(new)
            self._asked += new
        self._go_on()
        return [one.future for one in new]

    def come(self) -> None:
        """The window has come that was asked for first."""
        with self._lock:
            self._ahead.come()

    def close(self) -> None:
        """Read nothing more than what is being read."""
        with self._lock:
            self._asked.clear()
        self._ends.set()
        if self._party is not None:
            self._beats.join()
            self._party.close()
        self._pool.shutdown(wait=True)

    def _beat(self) -> None:
        assert self._party is not None
        while not self._ends.wait(self._party.beat):
            self._go_on()

    def _go_on(self) -> None:
        """Have as many threads at work as this process has now."""
        with self._lock:
            if self._party is not None:
                lack = self._ahead.lack(self._done())
                self._limit = max(1, self._party.share(lack, self._count))
            for _ in range(min(self._limit - self._at_work, len(self._asked))):
                try:
                    self._pool.submit(self._work)
                except RuntimeError:  # Python ends, in the middle of an epoch
                    return
                self._at_work += 1

    def _work(self) -> None:
        while (one := self._next()) is not None:
            began = time.monotonic()
            try:
                one.read()
            except BaseException as error:
                one.future.set_exception(error)
            else:
                one.future.set_result(None)
            with self._lock:
                self._ahead.read(one.window, one.samples, time.monotonic() - began)

    def _next(self) -> _Read | None:
        """What a thread reads next; None: it is one too many."""
        with self._lock:
            if self._asked and self._at_work <= self._limit:
                return self._asked.popleft()
            self._at_work -= 1
            return None
