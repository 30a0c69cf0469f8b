"""How many steps of a source are in shared memory at once, at most: what its channels let be queued and open."""

from __future__ import annotations

from collections.abc import Iterable

from wilkins.flow.policy import FlowPolicy
from wilkins.flow.publish import PublishRule


def most_steps(policies: Iterable[FlowPolicy], publish: PublishRule = PublishRule()) -> int:  # noqa: B008 - frozen
    """The most steps of one source that take memory at once, at any speeds.

    Each channel holds its queued steps and the one that its reader has open; another step is being written. Channels
    that get every step and block the producer share their steps, since none is behind by more than its queue. Other
    channels may each hold different steps. A rule that publishes copies, or not at the first close, needs one more.

    Assumed: a reader holds one step at a time, or one while it opens the next; its ranks are in step; it takes steps
    in an order that lets no queue grow.
    """
    shared = separate = 0
    for policy in policies:
        needed = policy.queue + 1
        if policy.every == 1 and policy.when_full == "block":
            shared = max(shared, needed)
        else:
            separate += needed
    return 1 + shared + separate + (publish != PublishRule())
