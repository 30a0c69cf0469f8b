"""What a keeper does before its host's part of the run begins: it hears the head, and gives signs of life."""

from __future__ import annotations

import selectors
import time
from typing import Any

from wilkins.errors import WilkinsError
from wilkins.launch.hosts.control import BEAT, PATIENCE, Control
from wilkins.launch.hosts.told import Account, State


class Refused(WilkinsError):
    """There is to be no run; the head, or who stands for it, has given the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("there is no run")
        self.code = code


class Opening:
    """What the head says until then."""

    patience = PATIENCE
    """Seconds of silence after which it counts as gone."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._heard = 0.0
        self.rest: list[dict[str, Any]] = []
        """What it said after that for which was waited last."""
        self.selector = selectors.DefaultSelector()
        self.selector.register(control.reads, selectors.EVENT_READ, self._hear)

    def wait(self, word: str) -> dict[str, Any]:
        """Its message with this word.

        Raises:
            EOFError: it has left, is not heard, or has stopped the run.
        """
        self._heard = time.monotonic()
        while time.monotonic() - self._heard <= self.patience:
            while self.rest:
                message = self.rest.pop(0)
                if word in message:
                    return message
                self.heed(message)
            self._control.send(beat=State(), steps=[])
            for key, _ in self.selector.select(BEAT):
                key.data()
        raise EOFError

    def _hear(self) -> None:
        messages = self._control.received()
        if messages is None:
            raise EOFError
        self._heard = time.monotonic()
        self.rest += messages

    def heed(self, message: dict[str, Any]) -> None:
        """Hear what was not waited for."""
        if "stop" in message:
            self._control.send(ended=Account(message["stop"], None))
            raise EOFError
