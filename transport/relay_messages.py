"""How many messages the halves of a relay have sent each other, and whether all was sent, for the receiver's keeper."""

from __future__ import annotations

import mmap
import os

VARIABLE = "WILKINS_RELAY_MESSAGES"
"""Tells the receiver the descriptor of the memory."""

OF_A_STEP = 2
"""The receiver asks, and the sender answers with the step."""

OF_ALL = 3
"""The sender's greeting; and at the end, a last question and the answer that no step comes."""

_SIZE = 16


class Messages:
    """A count in memory that two processes share: it outlives the one that counts."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of `made`; closed by the caller."""
        self._count = memoryview(mmap.mmap(descriptor, _SIZE)).cast("Q")

    @classmethod
    def made(cls) -> int:
        """The descriptor of a new count."""
        descriptor = os.memfd_create("wilkins-relay-messages")
        os.truncate(descriptor, _SIZE)
        return descriptor

    def add(self, messages: int) -> None:
        """Some more were sent, by either half."""
        self._count[0] += messages

    def end(self) -> None:
        """No step will come any more."""
        self._count[1] = 1

    @property
    def over(self) -> bool:
        """All steps have come."""
        return bool(self._count[1])

    @property
    def count(self) -> int:
        """All so far."""
        return self._count[0]
