"""Which of an out-port's steps a relay carries to another host, which of these each reader gets there, and which hosts
hand them on to others.

A reader that leaves out steps while it is busy has a relay of its own, which leaves them out: it brings a step when the
reader asks for one (``on demand``), and behind it no step is left out any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wilkins.flow.machine import SPARE_STEPS
from wilkins.flow.policy import FlowPolicy
from wilkins.values import dataclass, replace

FEW_HOSTS = 3
"""To so many other hosts a producer's host sends its steps by itself."""

_HANDS_ON_TO = 2

MOST_AT_ONCE = 8
"""Steps that a relay has on their way (``transport/native/python/relay_receive.cpp``),"""
MOST_BYTES_AT_ONCE = 4 << 20
"""behind so many bytes as they cross (``relay_send.cpp``),"""
MOST_IN_PART = 4
"""and of which so many come in part, at most."""
COMES_WHOLE = 256 << 10
"""Steps that have no more bytes than this come whole. Where ranks on several hosts have written one of these, all of it
comes to their first host before it is published."""
PIECE = 1 << 20
"""Of a longer step that comes whole to a host that hands it on, so many bytes go on together, while the rest comes
(``relay.hpp``)."""
TRIPS_TO_OPEN = 1
"""Times there and back in which a rank opens a file of another host, by the connection of the one before,"""
TRIPS_TO_KEEP = 4
"""and in which a relay connects, once, when the first step has come of which it has a part: to show the run's key, and
to say which of these it lets go of (measured: 3.5)."""
TRIPS_OF_A_FILE = 5
"""Times there and back between a rank that writes a file with others, by HDF5, and the first one's host (measured:
`docs/benchmarks/hosts.md`). What their MPI says beside that is none of the file's."""


@dataclass(frozen=True, slots=True)
class Way:
    """The steps of an out-port that one host has, for the readers on another one."""

    outport: int
    writes: int
    reads: int
    policies: tuple[FlowPolicy, ...]
    """Of the readers."""
    may_fork: bool = True
    """Whether the steps may come by way of a third host, as far as their producer goes."""


def forwarders(ways: Sequence[Way]) -> list[int | None]:
    """For each way: the earlier one whose readers' host hands the steps on to this one's. None: their own host sends
    them.

    Hosts with readers of the same steps form a tree, in which each sends them to two others, if they are more than
    `FEW_HOSTS`, all take every step, and no other steps come to them from the host that has these: then it would not
    be known which was published first.
    """
    between = Counter((way.writes, way.reads) for way in ways)
    groups: dict[tuple[int, int, FlowPolicy], list[int]] = {}
    for place, way in enumerate(ways):
        policy = way.policies[0]
        whole = _alike(way.policies) and policy.every == 1 and policy.when_full == "block"
        if way.may_fork and whole and between[way.writes, way.reads] == 1:
            groups.setdefault((way.outport, way.writes, policy), []).append(place)
    found: list[int | None] = [None] * len(ways)
    for group in groups.values():
        if len(group) > FEW_HOSTS:
            for at in range(_HANDS_ON_TO, len(group)):
                found[group[at]] = group[at // _HANDS_ON_TO - 1]
    return found


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
