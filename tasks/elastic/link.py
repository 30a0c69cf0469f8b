"""A rank's connection to its parent: it reports where it is, and hears of its next group or that its own is lost."""

from __future__ import annotations

import base64
import os
import threading
from typing import Any

from wilkins.tasks.elastic.errors import ElasticError, GroupLost
from wilkins.tasks.elastic.membership import Formed, Report, numbers
from wilkins.tasks.elastic.wire import Lines, Message, connect, packed
from wilkins.tasks.started_by import ADDRESS, RANK
from wilkins.values import asdict


class Link:
    """The connection. One thread listens; methods may be called from any other."""

    made = False
    """Whether this process has made one: its parent knows a rank by one connection."""

    def __init__(self, patience: float) -> None:
        self.rank = int(os.environ[RANK])
        if Link.made:
            raise ElasticError(
                f"rank {self.rank}: this program has made an Elastic before, and a rank has one; put what is trained "
                "into one module, and its parameters into one optimizer, in groups"
            )
        Link.made = True
        try:
            self._socket = connect(os.environ[ADDRESS])
        except OSError as error:
            raise ElasticError(
                f"rank {self.rank}: the parent of the ranks does not answer at {os.environ[ADDRESS]}: {error}; if it "
                "has ended, see what it has said; it is `python -m wilkins.tasks.elastic -n RANKS PROGRAM`"
            ) from None
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._group: Formed | None = None
        self._broken = 0
        self._wanted = 0
        self._ended = (0, 0)
        """The last group of which a rank has come to the end, and after which step."""
        self._closed = False
        self.survivors: tuple[int, ...] = ()
        """The ranks that have come to the end, when all steps have been made."""
        self._answers: dict[int, str | None] = {}
        self._questions = 0
        self._send({"rank": self.rank, "patience": patience})
        threading.Thread(target=self._listen, daemon=True, name="elastic-link").start()

    def next_group(self, report: Report) -> Formed | None:
        """Report where this rank is, and wait for its next group; None: all steps have been made.

        Raises:
            ElasticError: the parent is gone.
        """
        with self._news:
            self._group = None
        self._send({"ready": asdict(report)})
        with self._news:
            self._news.wait_for(lambda: self._group or self.survivors or self._closed)
            if self._group is None and not self.survivors:
                raise self._gone()
            return self._group

    def is_broken(self, generation: int, step: int = -1) -> bool:
        """Whether the group of that generation cannot go on.

        Args:
            step: steps that this rank has finished, which waits for the others in the next one.

        Raises:
            ElasticError: the parent is gone, or has given up this rank; or another rank makes no more steps.
        """
        with self._news:
            if self._closed:
                raise self._gone()
            if self._ended[0] == generation and step >= self._ended[1]:
                raise ElasticError(
                    f"rank {self.rank}: another rank has come to the end after step {self._ended[1]}, and this one "
                    f"makes more; ask for as many steps on all ranks: `steps(total)` with one total, also where data "
                    "end earlier on one of them (an empty share is fine: `commit(0)`)"
                )
            return self._broken >= generation

    def is_wanted(self, generation: int) -> bool:
        """Whether somebody waits to join the group of that generation."""
        with self._news:
            return self._wanted >= generation

    def wait_until(self, done: threading.Event, generation: int, patience: float | None = None) -> None:
        """Wait for another thread, which sets `done` and calls `wake`, or until the group is lost.

        Raises:
            GroupLost: it is, or the other thread has needed longer than `patience` seconds.
            ElasticError: the parent is gone.
        """
        with self._news:
            self._news.wait_for(lambda: done.is_set() or self._broken >= generation or self._closed, patience)
            if self._closed:
                raise self._gone()
            if not done.is_set():
                raise GroupLost

    def wake(self) -> None:
        """Have waiting threads look again."""
        with self._news:
            self._news.notify_all()

    def set(self, generation: int, key: str, value: bytes) -> None:
        """Set a key of the group's store."""
        self._send({"set": key, "generation": generation, "value": base64.b64encode(value).decode()})

    def get(self, generation: int, key: str) -> bytes:
        """The value of a key, when it is set.

        Raises:
            GroupLost: nobody will set it any more.
        """
        with self._news:
            self._questions += 1
            number = self._questions
        self._send({"get": key, "generation": generation, "number": number})
        with self._news:
            self._news.wait_for(lambda: number in self._answers or self._closed)
            value = self._answers.pop(number, None)
        if value is None:
            raise GroupLost
        return base64.b64decode(value)

    def tell_loss(self, what: str) -> None:
        """Let the parent say, if this rank dies, what is lost with it."""
        self._send({"loses": what})

    def _gone(self) -> ElasticError:
        return ElasticError(
            f"rank {self.rank}: the parent of the ranks is gone, or has given up this rank since it did not answer; "
            "see what the parent has said"
        )

    def _send(self, message: Message) -> None:
        try:
            with self._sending:
                self._socket.sendall(packed(message))
        except OSError:
            raise self._gone() from None

    def _listen(self) -> None:
        lines = Lines()
        while True:
            try:
                more = self._socket.recv(1 << 16)
                messages = lines.add(more) if more else None
            except (OSError, ValueError):
                messages = None
            with self._news:
                if messages is None:
                    self._closed = True
                for message in messages or ():
                    self._take(message)
                self._news.notify_all()
            if messages is None:
                return

    def _take(self, message: Message) -> None:
        if "form" in message:
            self._group = _formed(message["form"])
        elif "break" in message:
            self._broken = max(self._broken, int(message["break"]))
        elif "wanted" in message:
            self._wanted = max(self._wanted, int(message["wanted"]))
        elif "ended" in message:
            self._ended = int(message["generation"]), int(message["ended"])
        elif "end" in message:
            self.survivors = numbers(message["end"])
        elif "got" in message:
            self._answers[int(message["got"])] = message["value"]


def _formed(given: dict[str, Any]) -> Formed:
    lists = {name: numbers(given[name]) for name in ("members", "holders", "contributors")}
    return Formed(**{**given, **lists})
