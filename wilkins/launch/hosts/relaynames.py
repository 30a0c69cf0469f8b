"""Replaces the names of relays in messages by the tasks whose steps they carry, since users know nothing of relays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart, spans

_WORD = re.compile(r"(?<![\w/.\[\]-])[\w\[\]-]+(?:\.[\w\[\]-]+)*")
"""What may be a task's name; no part of a path."""


def relay_name_replacer(plan: Plan, parts: Sequence[HostPart]) -> Callable[[str], str]:
    """Return the function that replaces the names in a message. The host is added if a task writes on several."""
    names: dict[str, str] = {}
    for part in parts:
        for place, relay in (*part.senders, *part.receivers):
            producer = plan.tasks[plan.ports[relay.outport].task]
            where = f" on {plan.hosts[relay.writes].name}" if spans(producer) else ""
            names[part.plan.tasks[place].name] = f"{producer.name}{where}"
    return lambda text: _WORD.sub(lambda found: names.get(found[0], found[0]), text)
