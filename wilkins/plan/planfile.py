"""A plan as JSON, so that it can be kept with a run's records and handed to the ranks of a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wilkins.flow.placement import Host, Rule
from wilkins.flow.publish import PublishRule
from wilkins.flow.restart import RestartRule
from wilkins.names import own_form
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, Resumed, TaskPlan
from wilkins.transport.plan_table import ReadKeys
from wilkins.values import asdict, fields, is_dataclass

_PATHS = ("executable", "cwd", "stdin", "source", "folder", "resumes")
_TUPLES = ("args", "prefix", "mpiexec", "gpus", "notes", "lacking", "hook", "begins", "dsets", "after", "beside")
_PAIRS = ("rests", "share")
_EARLIER: dict[str, Any] = {
    "offset": 0,
    "dsets": (),
    "enough": False,
    "retries": 0,
    "retry_delay": 0.0,
    "entry": 0,
    "spares": 0,
    "after": (),
    "looks": "wait",
    "share": (),
    "placement": asdict(Rule()),
    "carries": "",
    "saves": False,
    "is_part": False,
    "part_of": 0,
    "far_host": 0,
    "hosts": (),
    "step_bytes": 0,
    "per_rank": False,
    "is_folder": False,
    "beside": (),
    "passes_on": False,
    "file": None,
    **{field.name: field.default for field in fields(ReadKeys)},
}
"""What fields that plans of earlier versions do not have are in those."""
_SECTIONS = {"restart": RestartRule, "resumed": Resumed}
_VALUES: dict[str, Callable[[Any], Any]] = {
    "placement": lambda rule: Rule(**{**rule, "hosts": tuple(rule["hosts"]), "counts": tuple(rule["counts"])}),
    "hosts": lambda hosts: tuple(Host(**host) for host in hosts),
}


def dumps(plan: Plan) -> str:
    """The plan as JSON text, with a line for each task, port and channel."""
    parts = [f"  {json.dumps(field.name)}: {_text(getattr(plan, field.name))}" for field in fields(plan)]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: Any) -> str:
    if not isinstance(value, tuple):
        return json.dumps(value, default=_plain)
    return "[" + ",".join(f"\n    {json.dumps(item, default=_plain)}" for item in value) + "\n  ]"


def _plain(value: Any) -> Any:
    """What stands in JSON for a value that it has no form for."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)


def loads(text: str) -> Plan:
    """The plan that `dumps` wrote.

    Raises:
        ValueError: the text is not a plan of this version, or of one before it that can be read.
    """
    try:
        data = _own_forms(json.loads(text))
        plan: Plan = _restore(
            Plan,
            {
                **data,
                "tasks": tuple(_restore(TaskPlan, item) for item in data["tasks"]),
                "ports": tuple(_restore(PortPlan, item) for item in data["ports"]),
                "channels": tuple(_restore(ChannelPlan, item) for item in data["channels"]),
            },
        )
        return plan
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a plan of this version: {error}") from error


def _own_forms(value: Any) -> Any:
    """What was written under another locale, with the names as they are under this one."""
    if isinstance(value, str):
        return own_form(value)
    if isinstance(value, dict):
        return {own_form(key): _own_forms(item) for key, item in value.items()}
    return [_own_forms(item) for item in value] if isinstance(value, list) else value


def _restore(kind: Any, data: dict[str, Any]) -> Any:
    values = {}
    for field in fields(kind):
        value = data.get(field.name, _EARLIER[field.name]) if field.name in _EARLIER else data[field.name]
        if field.name in _PATHS and value is not None:
            value = Path(value)
        elif field.name in _TUPLES and value is not None:
            value = tuple(value)
        elif field.name == "publish":
            value = _restore(PublishRule, value)
        elif field.name in _SECTIONS and value is not None:
            value = _restore(_SECTIONS[field.name], value)
        elif field.name in _PAIRS:
            value = tuple((first, second) for first, second in value)
        elif field.name in _VALUES:
            value = _VALUES[field.name](value)
        values[field.name] = value
    return kind(**values)
