"""How many messages the halves of a relay have sent each other, by what bytes cross, what was compressed, and whether
all was sent, for the receiver's keeper; and which rules of compression fit nothing, for the sender's."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable

from wilkins.values import dataclass

VARIABLE = "WILKINS_RELAY_MESSAGES"
"""Tells each half the descriptor of its memory."""

OF_A_STEP = 2
"""The receiver asks, and the sender answers with the step."""

OF_ALL = 3
"""The sender's greeting; and at the end, a last question and the answer that no step comes."""

_NUMBERS = 80
_TEXT_MAX = 512
_SIZE = _NUMBERS + _TEXT_MAX
_MOST_RULES = 64
"""Rules whose use is counted, a bit each; all others count as used."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """What compression has done on the way of the steps so far."""

    before: int = 0
    """Bytes of the parts that it took."""
    after: int = 0
    """Bytes that crossed for these."""
    steps: int = 0
    """Steps of which it took some."""
    largest_error: float = 0.0
    """The largest difference of an element,"""
    part_of_bound: float = 0.0
    """and the largest part of its bound that such a difference is."""
    cpu_seconds: float = 0.0
    """On both hosts."""


class Messages:
    """A count in memory that two processes share: it outlives the one that counts."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of `made`; closed by the caller."""
        memory = memoryview(mmap.mmap(descriptor, _SIZE))
        self._count, self._measured = memory[:56].cast("Q"), memory[56:_NUMBERS].cast("d")
        self._text = memory[_NUMBERS:]

    @classmethod
    def made(cls) -> int:
        """The descriptor of a new count."""
        descriptor = os.memfd_create("wilkins-relay-messages")
        os.truncate(descriptor, _SIZE)
        return descriptor

    def add(self, messages: int) -> None:
        """Some more were sent, by either half."""
        self._count[0] += messages

    def crosses_by(self, kind: str, why: str) -> None:
        """Bytes cross by that, for a reason in words."""
        text = f"{kind}\n{why}".encode()[:_TEXT_MAX]
        self._text[: len(text)] = text

    @property
    def fabric(self) -> tuple[str, str]:
        """By what bytes cross, and why; empty before the halves have met."""
        kind, _, why = bytes(self._text).rstrip(b"\0").decode(errors="replace").partition("\n")
        return kind, why

    def end(self) -> None:
        """No step will come any more."""
        self._count[1] = 1

    def unpacked(self, before: int, after: int, error: float, part: float, seconds: float) -> None:
        """A step has come, and so many bytes of it in fewer."""
        self._count[2] += before
        self._count[3] += after
        self._count[4] += before > 0
        self._measured[0] = max(self._measured[0], error)
        self._measured[1] = max(self._measured[1], part)
        self._measured[2] += seconds

    def packed(self, unfit: Iterable[int]) -> None:
        """A step was looked at, and these rules fit no dataset of it that could be packed."""
        before = self._count[6] if self._count[5] else ~0
        self._count[6] = before & sum(1 << number for number in unfit if number < _MOST_RULES)
        self._count[5] += 1

    @property
    def unfit(self) -> tuple[int, ...]:
        """Rules that have fitted nothing in any step so far; none before the first one."""
        return tuple(number for number in range(_MOST_RULES) if self._count[5] and self._count[6] >> number & 1)

    @property
    def compressed(self) -> Compressed:
        """What compression has done so far."""
        return Compressed(*self._count[2:5], *self._measured)

    @property
    def over(self) -> bool:
        """All steps have come."""
        return bool(self._count[1])

    @property
    def count(self) -> int:
        """All so far."""
        return self._count[0]
