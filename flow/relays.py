"""Which of an out-port's steps a relay carries to another host, and which of these each reader gets there.

A reader that leaves out steps while it is busy has a relay of its own, which leaves them out: it brings a step when the
reader asks for one (``on demand``), and behind it no step is left out any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from wilkins.flow.machine import SPARE_STEPS
from wilkins.flow.policy import FlowPolicy
from wilkins.values import replace


def taken(policies: Sequence[FlowPolicy]) -> FlowPolicy:
    """The policy of the sender for channels of these policies.

    If all are alike, only steps that they keep cross.
    """
    if _alike(policies):
        return policies[0]
    return FlowPolicy(queue=max(policy.queue for policy in policies))


def given(policies: Sequence[FlowPolicy]) -> list[FlowPolicy]:
    """The policies of the same channels behind the receiver. Where it brings steps on demand, there is room for as many
    as a rank may be ahead of the others of its task."""
    if any(policy.drops for policy in policies):
        return [FlowPolicy(queue=policy.queue + SPARE_STEPS) for policy in policies]
    return [replace(policy, every=1, offset=0) if _alike(policies) else policy for policy in policies]


def _alike(policies: Sequence[FlowPolicy]) -> bool:
    return len(set(policies)) == 1
