"""Steps that are packed on their way between hosts: what that saves of a line's time, and what it takes of cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_CORES = 4
"""Cores of a host on which a relay packs, at most."""
_CLEARLY = 0.9
"""Of the time of another way, what a way takes that is faster for sure."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What packing makes of the steps of an out-port, per byte of a step."""

    sent: float = 1.0
    """Bytes that cross."""
    seconds: float = 0.0
    """Of time on one core, on both hosts together."""
    when_faster: bool = False
    """Only where steps arrive sooner by it."""

    def rate(self, cores: int) -> float:
        """Bytes per second that so many cores of each host pack and unpack, one step at a time."""
        return cores / self.seconds if self.seconds else float("inf")

    def pays_below(self, cores: int) -> float:
        """The bandwidth, in bytes per second, below which packed steps arrive sooner."""
        return (1 - self.sent) * self.rate(cores)

    def on(self, cores: int, bandwidth: float | None) -> Packing:
        """What it is on a line: nothing, where that is faster and so wanted.

        Args:
            bandwidth: bytes per second of the line; None: no limit is known.
        """
        slower = self.when_faster and (bandwidth is None or self.pays_below(cores) <= bandwidth)
        return Packing() if slower else self


def quickest(ways: Sequence[Packing], bandwidth: float) -> int:
    """The way in which a step arrives first.

    Args:
        ways: those that lose less come first; a later one has to be faster by a tenth.
        bandwidth: bytes per second of the line.

    Returns:
        Its place.
    """
    best, seconds = 0, float("inf")
    for place, way in enumerate(ways):
        took = way.seconds + way.sent / bandwidth
        if took < _CLEARLY * seconds:
            best, seconds = place, took
    return best


def least_ratio(rate: float, bandwidth: float) -> float | None:
    """How many times smaller packed steps have to be so that they arrive sooner; None: that is out of reach.

    Args:
        rate: bytes per second that are packed and unpacked.
        bandwidth: bytes per second of the line.
    """
    return rate / (rate - bandwidth) if bandwidth < rate else None
