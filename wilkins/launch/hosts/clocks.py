"""How far the clocks of hosts are apart: from the times of signs of life between the head and a keeper."""

from __future__ import annotations

from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """A host's monotonic clock, beside the head's; both in nanoseconds.

    As NTP has it (RFC 5905, section 8), from a sign of life and its echo. Of several, that counts whose way took least.
    """

    ahead_ns: int
    """By so much."""
    within_ns: int
    """The error is no larger."""


def compared(before: Clock | None, said: int, heard: int, echoed: int, returned: int) -> Clock:
    """What is known of a clock after one more sign of life.

    Args:
        before: what was known, if anything.
        said: when the head said it,
        heard: when the host heard it, by its own clock,
        echoed: when it answered, by that clock, too, and
        returned: when the head heard that.
    """
    within = ((returned - said) - (echoed - heard) + 1) // 2
    if before is not None and before.within_ns <= within:
        return before
    return Clock((heard - said + echoed - returned) // 2, within)
