"""Replaces the names of relays in messages by the tasks whose steps they carry, since users know nothing of relays."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import RelayRules, spans

_WORD = re.compile(r"(?<![\w/.\[\]-])[\w\[\]-]+(?:\.[\w\[\]-]+)*")
"""What may be a task's name; no part of a path."""


def relay_name_replacer(plan: Plan) -> Callable[[str], str]:
    """Return the function that replaces the names in a message. The host is added if a task writes on several."""

    @cache
    def rules() -> RelayRules:
        return RelayRules(plan)

    def name(found: re.Match[str]) -> str:
        relay = rules().of_half(found[0])
        if relay is None:
            return found[0]
        producer = plan.tasks[plan.ports[relay.outport].task]
        return f"{producer.name} on {plan.hosts[relay.writes].name}" if spans(producer) else producer.name

    return lambda text: _WORD.sub(name, text)
