"""The ranks of a job on one host, as its keeper knows them: each is a launcher that starts what the keeper sends."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator

from wilkins.launch.hostjob.follower import peer_of
from wilkins.launch.hostjob.messages import Comes, Gone, Left
from wilkins.launch.hosts.control import Control, Message
from wilkins.values import dataclass


@dataclass(slots=True)
class _Rank:
    """One rank's launcher."""

    socket: socket.socket
    control: Control
    number: int = -1
    """In the job; -1: not received yet."""
    gone: bool = False
    """Its program has ended, or never started."""
    left: bool = False


class Ranks:
    """Connections to the launchers of all ranks here."""

    def __init__(self, listener: socket.socket) -> None:
        """`listener`: the socket that they connect to."""
        self._listener = listener
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        self._by_descriptor: dict[int, _Rank] = {}
        self._by_number: dict[int, _Rank] = {}

    def fileno(self) -> int:
        """Readable when one of them has connected, sent a message or left."""
        return self._poll.fileno()

    def heard(self) -> Iterator[tuple[int, Message]]:
        """Messages of ranks, by their numbers: `Comes` is the first one, `Left` the last."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
                continue
            rank = self._by_descriptor[descriptor]
            messages = rank.control.received()
            if messages is None:
                self._poll.unregister(descriptor)
                del self._by_descriptor[descriptor]
                rank.socket.close()
                rank.gone = rank.left = True
                yield rank.number, Left()
                continue
            for message in messages:
                if isinstance(message, Comes):
                    rank.number = message.rank
                    self._by_number[rank.number] = rank
                elif isinstance(message, Gone):
                    rank.gone = True
                yield rank.number, message

    def _accept(self) -> None:
        taken, _ = self._listener.accept()
        if peer_of(taken) != os.getuid():
            taken.close()
            return
        control = Control(taken.fileno(), taken.fileno(), waits=False)
        self._by_descriptor[taken.fileno()] = _Rank(taken, control)
        self._poll.register(taken, select.EPOLLIN)

    def close_listener(self) -> None:
        """Accept no more connections."""
        self._poll.unregister(self._listener)
        self._listener.close()

    def send(self, rank: int, message: Message) -> None:
        """Send a message to one."""
        self._send(self._by_number[rank], message)

    def send_all(self, message: Message) -> None:
        """Send a message to all."""
        for rank in self._by_number.values():
            self._send(rank, message)

    def _send(self, rank: _Rank, message: Message) -> None:
        if rank.left:
            return
        try:
            rank.control.send(message)
        except OSError:  # its end of the connection is closed, which `heard` finds
            return

    @property
    def all_gone(self) -> bool:
        """Whether the programs of all ranks have ended."""
        return all(rank.gone for rank in self._by_number.values())
