"""Whether a run over several hosts can still go on: decided from what their keepers tell of waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wilkins.plan.plan import Plan
from wilkins.plan.split import Part

_STILL_FOR = 5.0
"""Seconds for which nothing has moved on any host, and every program has waited, before that counts as for ever. What
is under way between two hosts moves within that time, or its sender and receiver do not both wait."""


class Stillness:
    """Follows the states of all hosts."""

    def __init__(self) -> None:
        self._since: float | None = None

    def told(self, plan: Plan, states: Sequence[tuple[Part, dict[str, Any]]], now: float) -> str:
        """Why the run is stuck; empty if it is not, or not known to be."""
        if not states or not all(_stands(part, state) for part, state in states) or not _relays_wait(states):
            self._since = None
            return ""
        if self._since is None:
            self._since = now
        if now - self._since < _STILL_FOR:
            return ""
        return "\n".join(["the run is stuck and was stopped: all programs on all hosts wait", *_lines(plan, states)])


def _stands(part: Part, state: dict[str, Any]) -> bool:
    """Every program of a host's own tasks waits, or has ended."""
    if "tasks" not in state:
        return False
    own = [state["tasks"][place] for place in range(len(part.tasks))]
    return all(task["state"] == "ended" or len(task["waits"]) == task["nprocs"] for task in own)


def _relays_wait(states: Sequence[tuple[Part, dict[str, Any]]]) -> bool:
    """Of each relay, one half waits for a step or for room: nothing is under way between the two."""
    waits: dict[int, bool] = {}
    for part, state in states:
        for place, relay in (*part.senders, *part.receivers):
            task = state["tasks"][place]
            idle = task["state"] == "ended" or bool(task["waits"])
            waits[relay.index] = waits.get(relay.index, False) or idle
    return all(waits.values())


def _lines(plan: Plan, states: Sequence[tuple[Part, dict[str, Any]]]) -> list[str]:
    found = []
    for part, state in states:
        host = plan.hosts[part.host].name
        for place, index in enumerate(part.tasks):
            for wait in state["tasks"][place]["waits"]:
                what = f"a step of {wait['name']}" if wait["for"] == "data" else f"room to write {wait['name']}"
                found.append(f"  {plan.tasks[index].name} on {host} has waited {wait['seconds']:.0f} s for {what}")
    return found
