"""The offsets between the clocks of hosts, from the times of heartbeats between the head and a keeper."""

from __future__ import annotations

from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The offset of a host's monotonic clock from the head's, in nanoseconds.

    Computed as NTP does (RFC 5905, section 8), from a heartbeat and its echo, and the one with the shortest round trip.
    """

    ahead_ns: int
    """The offset."""
    within_ns: int
    """A bound of its error."""


def compared(before: Clock | None, said: int, heard: int, echoed: int, returned: int) -> Clock:
    """The offset of a clock after one more heartbeat.

    Args:
        before: the offset so far, if any.
        said: when the head sent it,
        heard: when the host received it, by its own clock,
        echoed: when it answered, by that clock, too, and
        returned: when the head received that.
    """
    within = ((returned - said) - (echoed - heard) + 1) // 2
    if before is not None and before.within_ns <= within:
        return before
    return Clock((heard - said + echoed - returned) // 2, within)
