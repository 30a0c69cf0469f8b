"""How a keeper starts with the head before its host's part begins: the keeper waits, and sends heartbeats."""

from __future__ import annotations

import selectors
import time
from typing import TypeVar

from wilkins.errors import WilkinsError
from wilkins.launch.hosts.control import SILENT_FOR, Control, Message
from wilkins.launch.hosts.messages import StopRun
from wilkins.launch.hosts.pulse import BEAT
from wilkins.launch.hosts.status import HostResult, PartEnded, Status

M = TypeVar("M", bound=Message)


class Refused(WilkinsError):
    """The run was refused; the exit code came from the head, or from the process that acts for it."""

    def __init__(self, code: int) -> None:
        super().__init__("there is no run")
        self.code = code


class Startup:
    """Waits for the messages of the head until then."""

    patience = SILENT_FOR
    """Seconds of silence after which it counts as gone."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._heard = 0.0
        self.rest: list[Message] = []
        """The messages after the last one that was waited for."""
        self.selector = selectors.DefaultSelector()
        self.selector.register(control.reads, selectors.EVENT_READ, self._hear)

    def wait(self, kind: type[M]) -> M:
        """Wait for a message of this kind.

        Raises:
            EOFError: the head has left, is silent, or has stopped the run.
        """
        self._heard = time.monotonic()
        while time.monotonic() - self._heard <= self.patience:
            while self.rest:
                message = self.rest.pop(0)
                if isinstance(message, kind):
                    return message
                self.handle(message)
            self._control.send(Status())
            for key, _ in self.selector.select(BEAT):
                key.data()
        raise EOFError

    def _hear(self) -> None:
        messages = self._control.received()
        if messages is None:
            raise EOFError
        self._heard = time.monotonic()
        self.rest += messages

    def handle(self, message: Message) -> None:
        """Handle a message that was not waited for."""
        if isinstance(message, StopRun):
            self._control.send(PartEnded(HostResult(message.code, None)))
            raise EOFError
