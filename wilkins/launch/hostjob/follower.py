"""One rank of a job over several hosts: its program, or its idle rank, started by messages of its host's keeper."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import time
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.hostjob.messages import Comes, Gone, Leave, Orphaned, Over, Signalled, Start, StartIdle, Stop, Wake
from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.messages import Say
from wilkins.launch.job.programs import IdleRank
from wilkins.launch.programs import process
from wilkins.launch.programs.output import Log, Stream, Terminal
from wilkins.launch.programs.process import GRACE, Program
from wilkins.launch.programs.signals import Signals

_TURN = 0.05
_LINGER = 5.0
"""Seconds in which the other ranks may end cleanly when this host's keeper is gone; then this rank ends the job."""


def connect(name: bytes) -> socket.socket | None:
    """A connection to the keeper of this host; None if there is none.

    Raises:
        ResourceError: somebody else's process has its name.
    """
    taken = socket.socket(socket.AF_UNIX)
    try:
        taken.connect(name)
    except ConnectionRefusedError:
        taken.close()
        return None
    if peer_of(taken) != os.getuid():
        raise ResourceError("another user's process has the name by which the ranks of this job meet")
    return taken


def peer_of(connection: socket.socket) -> int:
    """The user at the other end."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", packed)[1]
    return user


class Follower:
    """A rank's launcher."""

    def __init__(self, connection: socket.socket, rank: int) -> None:
        self._connection = connection
        self._control = Control(connection.fileno(), connection.fileno(), waits=True)
        self._control.send(Comes(rank))
        self._starter = os.getppid()
        self._selector = selectors.DefaultSelector()
        self._program: Program | None = None
        self._log: Log | None = None
        self._idle_rank: IdleRank | None = None
        self._over_sent = True
        self._ranks: tuple[Path, int] = Path(), 0
        self._kill_at = float("inf")
        self._code: int | None = None

    def run(self) -> int:
        """Run the rank until the verdict on the job comes; the verdict is its exit code."""
        process.adopt_orphans()
        with Signals() as signals:
            self._selector.register(signals.reader, selectors.EVENT_READ)
            self._selector.register(self._control.reads, selectors.EVENT_READ, self)
            while self._code is None:
                for key, _ in self._selector.select(_TURN if self._program else 1.0):
                    if key.data is self:
                        self._hear()
                    elif isinstance(key.data, Stream):
                        self._pump(key.data)
                    else:
                        signals.drain()
                self._send_signals(signals)
                self._look()
        return self._code

    def _send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # the keeper has ended, which `_hear` finds
            self._control.send(message)

    def _send_signals(self, signals: Signals) -> None:
        while signals.received:
            self._send(Signalled(signals.received.pop(0)))
        if os.getppid() != self._starter:  # Open MPI's mpirun ends no rank that is not in MPI when it is killed
            self._starter = os.getppid()
            self._send(Orphaned())

    def _hear(self) -> None:
        messages = self._control.received()
        if messages is None:
            self._selector.unregister(self._control.reads)
            self._stop(0.0)
            self._code = 1
            time.sleep(_LINGER)
            return
        for message in messages:
            match message:
                case Start():
                    self._start(message)
                case StartIdle(library, token):
                    self._start_idle_rank(library, token)
                case Wake() if self._idle_rank is not None:
                    self._idle_rank.wake()
                case Stop():
                    self._stop(GRACE)
                case Leave(code):
                    self._code = code

    def _start(self, start: Start) -> None:
        self._ranks = Path(start.ranks), start.place
        terminal = Terminal([start.label, start.widest], quiet=start.quiet, colours=False)
        self._log = Log(start.label, Path(start.log), terminal)
        try:
            self._program = start.program.start()
        except OSError as error:
            about = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
            self._send(Say(f"{start.label}: cannot start {start.program.words[0]}: {about}"))
            self._send(Over(127))
            self._send(Gone(127))
            return
        self._over_sent = False
        self._selector.register(self._program.output, selectors.EVENT_READ, Stream(self._program.output, self._log))

    def _start_idle_rank(self, library: str | None, token: str) -> None:
        """Take part in the job's initialisation and finalisation of MPI, if any program of it does."""
        if library is None:
            self._send(Gone(0))
            return
        self._idle_rank = IdleRank(library, token)
        self._program = self._idle_rank.program

    def _stop(self, grace: float) -> None:
        if self._log is not None:
            self._log.mute()
        if self._program is None:
            self._send(Gone(0))
        else:
            process.send([self._program.pid], signal.SIGTERM if grace else signal.SIGKILL, group=True)
            self._kill_at = min(self._kill_at, time.monotonic() + grace)

    def _pump(self, stream: Stream) -> None:
        pipe = stream.pipe
        if not stream.pump():
            self._selector.unregister(pipe)

    def _look(self) -> None:
        """Check whether the program has ended, and report that."""
        if self._program is None:
            return
        if not self._over_sent and (code := self._over()) is not None:
            self._over_sent = True
            self._send(Over(code))
        ended = process.reap([self._program.pid])
        if not ended:
            if time.monotonic() >= self._kill_at:
                self._kill_at = time.monotonic() + GRACE
                process.send([self._program.pid], signal.SIGKILL, group=True)
            return
        code = ended[self._program.pid]
        self._program = None
        self._end_output()
        if not self._over_sent:
            self._over_sent = True
            over = self._over()
            self._send(Over(code if over is None else over))
        self._send(Gone(code))

    def _end_output(self) -> None:
        """Keep the last output of the program, and close the pipe for processes that it has left."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Stream):
                self._pump(key.data)
                if key.data.pipe >= 0:
                    self._selector.unregister(key.data.pipe)
                    key.data.close()

    def _over(self) -> int | None:
        """The exit code of a program that waits for others in MPI_Finalize; None: it does not yet."""
        path, place = self._ranks
        try:
            with path.open("rb") as file:
                entry = os.pread(file.fileno(), 2, 2 * place)
        except OSError:
            return None
        return entry[1] if len(entry) == 2 and entry[0] else None
