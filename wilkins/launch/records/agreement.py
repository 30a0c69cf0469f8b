"""Compares what a resumed run has published with what the run before had published under the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from wilkins.flow.trace import BrokenTraceError, read_trace
from wilkins.launch.records.hosttraces import trace_of
from wilkins.plan import planfile

_Step = tuple[str, int, str, int]


def differences(before: Path, now: Path) -> list[str]:
    """Streams of which a step made again has another name: its program did not make the same steps."""
    return _differences(_names(before), _names(now), "in the run before", "now")


def remade_otherwise(trace: Path) -> list[str]:
    """The same, where a task was started again during a run, by the trace of that."""
    first: dict[_Step, str] = {}
    again: dict[_Step, str] = {}
    with contextlib.suppress(OSError, BrokenTraceError):
        for event in read_trace(trace):
            if event.event in ("publish", "remake"):
                known = first if event.event == "publish" else again
                known[event.task, event.rank, event.pattern, event.sequence] = event.name
    return _differences(first, again, "at first", "after a failure")


def _differences(old: Mapping[_Step, str], new: Mapping[_Step, str], then: str, now: str) -> list[str]:
    found: dict[_Step, str] = {}
    for step in sorted(old.keys() & new.keys(), key=lambda one: one[3]):
        task, rank, pattern, number = step
        if old[step] != new[step]:
            found.setdefault(
                (task, rank, pattern, 0),
                f"{task}: step {number} of {pattern!r} was {old[step]!r} {then}, and is {new[step]!r} {now}: "
                "restarted, the program did not make the same steps again, so others may have missed some or had them "
                "twice (`wilkins help restarting`)",
            )
    return list(found.values())


def _names(run: Path) -> dict[_Step, str]:
    plan = planfile.loads((run / "plan.json").read_text(encoding="utf-8"))
    return {
        (event.task, event.rank, event.pattern, event.sequence): event.name
        for event in trace_of(run, plan)
        if event.event == "publish"
    }
