"""Steps that are packed on their way between hosts: what that saves of a line's time, and what it takes of cores."""

from __future__ import annotations

from dataclasses import dataclass

MOST_CORES = 4
"""Cores of a host on which a relay packs, at most."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What packing makes of the steps of an out-port, per byte of a step."""

    sent: float = 1.0
    """Bytes that cross."""
    seconds: float = 0.0
    """Of CPU time, on both hosts together."""

    def rate(self, cores: int) -> float:
        """Bytes per second that so many cores of each host pack and unpack, one step at a time."""
        return cores / self.seconds if self.seconds else float("inf")

    def pays_below(self, cores: int) -> float:
        """The bandwidth, in bytes per second, below which packed steps arrive sooner."""
        return (1 - self.sent) * self.rate(cores)


def least_ratio(rate: float, bandwidth: float) -> float | None:
    """How many times smaller packed steps have to be so that they arrive sooner; None: that is out of reach.

    Args:
        rate: bytes per second that are packed and unpacked.
        bandwidth: bytes per second of the line.
    """
    return rate / (rate - bandwidth) if bandwidth < rate else None
