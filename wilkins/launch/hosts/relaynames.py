"""Replaces the names of relays in messages by the tasks whose steps they carry, since users know nothing of relays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart, Relay, half_name, spans

_WORD = re.compile(r"(?<![\w/.\[\]-])[\w\[\]-]+(?:\.[\w\[\]-]+)*")
"""What may be a task's name; no part of a path."""
_HALF = re.compile(r".+-(?:to|from)-.+-(\d+)")
"""What may be a relay's."""


def relay_name_replacer(plan: Plan, parts: Sequence[HostPart]) -> Callable[[str], str]:
    """Return the function that replaces the names in a message. The host is added if a task writes on several."""

    @cache
    def relays() -> dict[int, Relay]:
        return {relay.index: relay for part in parts for _, relay in part.receivers}

    def name(found: re.Match[str]) -> str:
        half = _HALF.fullmatch(found[0])
        relay = relays().get(int(half[1])) if half else None
        if relay is None or found[0] not in (half_name(plan, relay, sends=sends) for sends in (False, True)):
            return found[0]
        producer = plan.tasks[plan.ports[relay.outport].task]
        return f"{producer.name} on {plan.hosts[relay.writes].name}" if spans(producer) else producer.name

    return lambda text: _WORD.sub(name, text)
