"""The parent of the ranks: starts them, tells them who trains together, and holds the store by which groups connect.

No rank is special: whichever dies, membership and store are still there. A rank's death is the end of its connection,
which the kernel closes, or of its process, whichever is seen first.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from wilkins.tasks.elastic.membership import Break, End, Ended, Expel, Form, Instruction, Membership, Wanted, report_of
from wilkins.tasks.elastic.wire import Lines, Message, accept, listen, packed
from wilkins.tasks.started_by import ADDRESS, RANK, SIZE
from wilkins.values import asdict

Start = Callable[[int, Mapping[str, str]], int]
"""Starts a rank with these variables in its environment; returns its process, which is a child of this one."""

PATIENCE = 120.0
"""Seconds in which a rank leaves a group that is broken, unless it says otherwise; it may be in the middle of a batch.
Then it is killed."""
GRACE = 3.0
"""Seconds between the polite request to end and the end."""
_LOOK = 0.1
"""Seconds between two looks at processes that have never connected."""
_TRIES, _A_MOMENT = 20, 1e-3
"""How often, after how many seconds each, a process is looked at whose connection has ended."""


class Pages:
    """The store of one group: keys that its members set, and who waits for which."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._waiting: list[tuple[str, int, int]] = []

    def set(self, key: str, value: str) -> list[tuple[int, int]]:
        """Set a key; the ranks that have waited for it, with the numbers of their questions."""
        self._values[key] = value
        answered = [(rank, number) for wanted, rank, number in self._waiting if wanted == key]
        self._waiting = [one for one in self._waiting if one[0] != key]
        return answered

    def get(self, key: str, rank: int, number: int) -> str | None:
        """The value of a key; None: the rank waits for it."""
        if key not in self._values:
            self._waiting.append((key, rank, number))
        return self._values.get(key)

    def close(self) -> list[tuple[int, int]]:
        """Nobody sets a key any more; those that have waited."""
        waiting, self._waiting = self._waiting, []
        return [(rank, number) for _, rank, number in waiting]


class _Rank:
    """A rank's process and connection."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.socket: socket.socket | None = None
        self.code: int | None = None
        self.is_buried = False
        self.loses = ""
        """What is lost if it dies, in its words."""

    def has_ended(self) -> bool:
        """Whether the process has ended; it is reaped then, and its exit code known."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None


class Parent:
    """Runs the ranks of one training, from their start to their end.

    Args:
        start: starts a rank.
        size: how many ranks there are.
        restarts: how often, in all, a rank that has died is started again, to join the others.
        say: is told what becomes of the ranks, a sentence each.
    """

    def __init__(
        self,
        start: Start,
        size: int,
        *,
        restarts: int = 0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._start = start
        self._size = size
        self._restarts = restarts
        self._patience = PATIENCE
        self._say = say
        self._membership = Membership(range(size))
        self._ranks: dict[int, _Rank] = {}
        self._strangers: dict[socket.socket, Lines] = {}
        self._lines: dict[socket.socket, tuple[int, Lines]] = {}
        self._pages: dict[int, Pages] = {}
        self._overdue: tuple[float, int] | None = None
        self._selector = selectors.DefaultSelector()
        self._address = ""
        self._ended_well = False
        self._failed = 0
        self._stopping = False
        self.deaths = 0
        """Ranks that have died before the end of the training."""

    @property
    def ended(self) -> bool:
        """Whether all steps have been made."""
        return self._membership.ended

    def run(self) -> int:
        """Run the training; the exit code: 0 if a rank has ended well, and the one that prints and saves."""
        door, self._address = listen()
        door.setblocking(False)
        self._waits_until = time.monotonic() + PATIENCE
        self._selector.register(door, selectors.EVENT_READ)
        try:
            for rank in range(self._size):
                self._begin(rank)
            while self._living():
                self._turn(door)
        finally:
            self._kill(self._living())
            self._selector.close()
            for one in (door, *self._strangers, *self._lines):
                one.close()
        return self._failed

    def stop(self) -> None:
        """Ask all ranks to end, and start none again; `run` returns when they have."""
        self._stopping = True
        self._overdue = (time.monotonic() + GRACE, -1)
        for one in self._living():
            _send(one.pid, signal.SIGTERM)

    def _living(self) -> list[_Rank]:
        return [one for one in self._ranks.values() if one.code is None]

    def _begin(self, rank: int) -> None:
        self._follow(self._membership.started(rank))
        variables = {ADDRESS: self._address, RANK: str(rank), SIZE: str(self._size)}
        self._ranks[rank] = _Rank(self._start(rank, variables))

    def _turn(self, door: socket.socket) -> None:
        """Wait for what comes next, and see to it."""
        for key, _ in self._selector.select(_LOOK):
            line = key.fileobj
            assert isinstance(line, socket.socket)
            if line is door:
                self._welcome(door)
            else:
                self._hear(line)
        self._reap()
        if (late := self._membership.awaited) and time.monotonic() > self._waits_until:
            self._waits_until += PATIENCE
            self._say(f"ranks {_shown(late)} have not come to their first step yet; the others wait for them")
        if self._overdue and time.monotonic() > self._overdue[0]:
            generation, self._overdue = self._overdue[1], None
            if self._stopping:
                self._kill(self._living())
            else:
                self._follow(self._membership.overdue(generation))

    def _welcome(self, door: socket.socket) -> None:
        line = accept(door)
        if line is None:
            return
        line.setblocking(False)
        self._strangers[line] = Lines()
        self._selector.register(line, selectors.EVENT_READ)

    def _hear(self, line: socket.socket) -> None:
        """Take what has come over a connection; its end is the end of its rank."""
        if line not in self._strangers and line not in self._lines:
            return  # closed a moment ago
        try:
            more = line.recv(1 << 16)
            known = self._lines.get(line)
            messages = (known[1] if known else self._strangers[line]).add(more) if more else None
            for message in messages or ():
                self._take(line, message)
        except BlockingIOError:
            return
        except (OSError, ValueError, KeyError, TypeError):
            messages = None
        if messages is None:
            self._hang_up(line)

    def _hang_up(self, line: socket.socket) -> None:
        """A connection has ended; in most cases so has its process, a moment later."""
        self._selector.unregister(line)
        line.close()
        self._strangers.pop(line, None)
        rank, _ = self._lines.pop(line, (None, None))
        if rank is None:
            return
        one = self._ranks[rank]
        one.socket = None
        for _ in range(_TRIES):
            if one.has_ended():
                self._bury(rank, one)
                return
            time.sleep(_A_MOMENT)
        self._follow(self._membership.gone(rank))

    def _take(self, line: socket.socket, message: Message) -> None:
        if line in self._strangers:
            rank = int(message["rank"])
            one = self._ranks[rank]
            if one.socket is not None:  # of a process that has died a moment ago
                self._hang_up(one.socket)
            self._patience = float(message["patience"])
            self._lines[line] = (rank, self._strangers.pop(line))
            one.socket = line
            return
        rank = self._lines[line][0]
        if "ready" in message:
            self._follow(self._membership.ready(rank, report_of(message["ready"])))
        elif "loses" in message:
            self._ranks[rank].loses = str(message["loses"])
        elif "set" in message:
            self._set(int(message["generation"]), str(message["set"]), str(message["value"]))
        elif "get" in message:
            self._get(int(message["generation"]), str(message["get"]), rank, int(message["number"]))

    def _set(self, generation: int, key: str, value: str) -> None:
        if generation in self._pages:
            for rank, number in self._pages[generation].set(key, value):
                self._tell(rank, {"got": number, "value": value})

    def _get(self, generation: int, key: str, rank: int, number: int) -> None:
        if generation not in self._pages:
            self._tell(rank, {"got": number, "value": None})
            return
        value = self._pages[generation].get(key, rank, number)
        if value is not None:
            self._tell(rank, {"got": number, "value": value})

    def _follow(self, instructions: Iterable[Instruction]) -> None:
        """Do what the membership says."""
        for one in instructions:
            if isinstance(one, Form):
                self._pages = {one.group.generation: Pages()}
                self._overdue = None
                self._ended_well = False  # of what these ranks do, those that have left hold nothing
                self._say(f"group {one.group.generation}: ranks {_shown(one.group.members)} at step {one.group.step}")
                self._tell_all(one.group.members, {"form": asdict(one.group)})
            elif isinstance(one, Break):
                self._overdue = (time.monotonic() + self._patience, one.generation)
                self._tell_all(one.ranks, {"break": one.generation})
                for rank, number in self._pages.pop(one.generation, Pages()).close():
                    self._tell(rank, {"got": number, "value": None})
            elif isinstance(one, Wanted):
                self._tell_all(one.ranks, {"wanted": one.generation})
            elif isinstance(one, Ended):
                self._tell_all(one.ranks, {"ended": one.step, "generation": one.generation})
            elif isinstance(one, End):
                self._tell_all(one.ranks, {"end": one.survivors})
            elif isinstance(one, Expel):
                self._say(f"ranks {_shown(one.ranks)} have not answered for {self._patience:g} s, and are killed")
                self._kill([self._ranks[rank] for rank in one.ranks])

    def _tell_all(self, ranks: Iterable[int], message: Message) -> None:
        for rank in ranks:
            self._tell(rank, message)

    def _tell(self, rank: int, message: Message) -> None:
        line = self._ranks[rank].socket
        if line is not None:
            with contextlib.suppress(OSError):  # its end will be heard
                line.sendall(packed(message))

    def _reap(self) -> None:
        """See which processes have ended."""
        for rank, one in list(self._ranks.items()):
            if one.is_buried or not one.has_ended():
                continue
            if one.socket is not None:
                self._hear_out(one.socket)
            if one.socket is not None:
                self._hang_up(one.socket)
            elif not one.is_buried:
                self._bury(rank, one)

    def _bury(self, rank: int, one: _Rank) -> None:
        """A rank is no more: say so, let the others go on, and start it again if that is wanted."""
        one.is_buried = True
        again = self._judge(rank, one.code or 0)
        self._follow(self._membership.gone(rank))
        if again:
            self._begin(rank)

    def _hear_out(self, line: socket.socket) -> None:
        """Take what a rank has said before it ended."""
        while line in self._lines:
            try:
                if not line.recv(1, socket.MSG_PEEK):
                    return
            except OSError:
                return
            self._hear(line)

    def _judge(self, rank: int, code: int) -> bool:
        """Say what the end of a rank means; whether it is to be started again."""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if self._membership.ended:
            if code:
                self._say(f"rank {rank} {how} after all steps were made")
                if rank == self._membership.survivors[0]:
                    self._failed = _exit_code(code)
            return False
        if code == 0:
            self._ended_well = True
            how = "has left the training, with exit code 0, before all steps were made"
        else:
            self.deaths += 1
        lost = f"; lost with it: {one}" if (one := self._ranks[rank].loses) else ""
        if code and self._restarts > 0 and not self._stopping:
            self._restarts -= 1
            self._say(f"rank {rank} {how}; it is started again, and joins the others{lost}")
            return True
        left = len(self._living())
        on = "all ranks are being ended" if self._stopping else f"{left} go on without it" if left else "none is left"
        self._say(f"rank {rank} {how}; {on}{lost}")
        if code and not left and not self._ended_well:
            self._failed = _exit_code(code)
        return False

    def _kill(self, ranks: Iterable[_Rank]) -> None:
        for one in ranks:
            if one.code is None:
                _send(one.pid, signal.SIGKILL)


def _exit_code(code: int) -> int:
    """As a shell gives it: that of a process killed by a signal is 128 and the signal."""
    return code if code >= 0 else 128 - code


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _shown(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))
