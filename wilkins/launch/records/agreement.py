"""Compares what a resumed run has published with what the run before had published under the same numbers."""

from __future__ import annotations

from pathlib import Path

from wilkins.launch.records.hosttraces import trace_of
from wilkins.plan import planfile

_Step = tuple[str, int, str, int]


def differences(before: Path, now: Path) -> list[str]:
    """Streams of which a step made again has another name: its program did not make the same steps."""
    old, new = _names(before), _names(now)
    found: dict[_Step, str] = {}
    for step in sorted(old.keys() & new.keys(), key=lambda one: one[3]):
        task, rank, pattern, number = step
        if old[step] != new[step]:
            found.setdefault(
                (task, rank, pattern, 0),
                f"{task}: step {number} of {pattern!r} was {old[step]!r} in the run before, and is {new[step]!r} now: "
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
