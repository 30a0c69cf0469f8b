"""How many steps of a source are in shared memory at once, at most: what its channels let be queued and open."""

from __future__ import annotations

from collections.abc import Iterable

from wilkins.flow.policy import FlowPolicy
from wilkins.flow.publish import PublishRule


def most_steps(policies: Iterable[FlowPolicy], publish: PublishRule = PublishRule()) -> int:  # noqa: B008 - frozen
    """The most steps of one source that take memory at once, whoever is faster.

    On each channel that are those queued and the one that its reader has open, with another one that is being written.
    Channels that get every step and hold the producer up share theirs: none is further behind than its queue lets it
    be. Others may each need other ones. A rule by which a file is not published at its first close, or as a copy, has
    one more. A reader is taken to hold one step at a time, or one while it opens the next, its ranks in step, and to
    take steps in an order for which no queue has to grow.
    """
    shared = separate = 0
    for policy in policies:
        needed = policy.queue + 1
        if policy.every == 1 and policy.when_full == "block":
            shared = max(shared, needed)
        else:
            separate += needed
    return 1 + shared + separate + (publish != PublishRule())
