"""A plan as JSON, so that it can be kept with a run's records and handed to the ranks of a job."""

from __future__ import annotations

import json
from typing import Any

from wilkins.names import own_form
from wilkins.plan.plan import Plan
from wilkins.values import fields, plain, restored


def dumps(plan: Plan) -> str:
    """The plan as JSON text, with a line for each task, port and channel."""
    parts = [f"  {json.dumps(field.name)}: {_text(getattr(plan, field.name))}" for field in fields(plan)]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: Any) -> str:
    if not isinstance(value, tuple):
        return json.dumps(value, default=plain)
    return "[" + ",".join(f"\n    {json.dumps(item, default=plain)}" for item in value) + "\n  ]"


def loads(text: str) -> Plan:
    """The plan that `dumps` wrote; of a plan of an earlier version, fields that it does not have are as by default.

    Raises:
        ValueError: the text is not a plan of this version, or of one before it that can be read.
    """
    try:
        return restored(Plan, _own_forms(json.loads(text)))
    except TypeError as error:
        raise ValueError(f"not a plan of this version: {error}") from error


def _own_forms(value: Any) -> Any:
    """Convert names that were written under another locale to this one."""
    if isinstance(value, str):
        return own_form(value)
    if isinstance(value, dict):
        return {own_form(key): _own_forms(item) for key, item in value.items()}
    return [_own_forms(item) for item in value] if isinstance(value, list) else value
