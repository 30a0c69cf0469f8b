"""Messages of a host, in which a relay is called by the task whose steps it brings: users know nothing of relays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from wilkins.plan.plan import Plan
from wilkins.plan.split import Part, spans

_WORD = re.compile(r"(?<![\w/.\[\]-])[\w\[\]-]+(?:\.[\w\[\]-]+)*")
"""What may be a task's name; no part of a path."""


def spoken(plan: Plan, parts: Sequence[Part]) -> Callable[[str], str]:
    """What says a message in that way. Where the task writes on several hosts, the host is named, too."""
    names: dict[str, str] = {}
    for part in parts:
        for place, relay in (*part.senders, *part.receivers):
            producer = plan.tasks[plan.ports[relay.outport].task]
            where = f" on {plan.hosts[relay.writes].name}" if spans(producer) else ""
            names[part.plan.tasks[place].name] = f"{producer.name}{where}"
    return lambda text: _WORD.sub(lambda found: names.get(found[0], found[0]), text)
