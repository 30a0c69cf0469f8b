"""The network in the simulation: how long messages between hosts take, where hosts carry one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wilkins.flow.model import ModelHost

SECOND = 10**9
"""Times are whole nanoseconds."""


def nanoseconds(seconds: float) -> int:
    """A time as it is counted here."""
    return round(seconds * SECOND)


class Link:
    """One direction of a host's network. It carries transfers in the order of booking."""

    def __init__(self, bandwidth: float | None) -> None:
        self._bandwidth = bandwidth
        self._free = 0
        self.busy = 0

    def time(self, size: int) -> int:
        """The time that `size` bytes keep it busy."""
        return nanoseconds(size / self._bandwidth) if self._bandwidth else 0

    def book(self, now: int, size: int) -> int:
        """Carry `size` bytes as soon as it is free; returns when that begins."""
        begin = max(now, self._free)
        self._free = begin + self.time(size)
        self.busy += self.time(size)
        return begin


class NetworkLinks(NamedTuple):
    """A host's network."""

    sends: Link
    receives: Link


def network_links(host: ModelHost) -> NetworkLinks:
    """The network of a host, unused."""
    return NetworkLinks(Link(host.bandwidth), Link(host.bandwidth))


@dataclass(slots=True)
class Carried:
    """The steps, bytes and messages that one relay has carried."""

    steps: int = 0
    bytes: int = 0
    """Of these steps,"""
    moved: int = 0
    """and those that were sent for them."""
    messages: int = 1
    """The first one is the sender's greeting."""
    under_way: int = 0
    carrying: int = 0
    packing: int = 0
    at_once: int = 0
    """The most steps that were on their way together."""
    _until: int = 0

    def add(self, size: int, sent: int, asking: int, carrying: int, packing: int, now: int) -> None:
        """Count a step that has come now: its messages took `asking`. What several take at a time counts once."""
        self.steps += 1
        self.bytes += size
        self.moved += sent
        self.under_way += min(asking + carrying + packing, now - self._until)
        self._until = now
        self.carrying += carrying
        self.packing += packing
