"""A run that has ended, as a crate needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from wilkins.errors import UsageError
from wilkins.launch.records.rundir import START
from wilkins.plan.plan import Plan
from wilkins.report.crate.outputs import Output, outputs_of
from wilkins.report.page.page import Records, records_of
from wilkins.report.runlist import is_held
from wilkins.terminal import streams


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended."""

    records: Records
    workflow: bytes
    """The workflow file's, as it was."""
    start: Mapping[str, Any]
    """Empty, if an earlier version made the records."""
    began: float
    ended: float
    """In seconds since 1970."""
    outputs: Sequence[Output] = field(default_factory=tuple)

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.records.plan

    @property
    def summary(self) -> Mapping[str, Any]:
        """How it ended."""
        return self.records.summary


def ended_run(run: Path) -> EndedRun:
    """A run that has ended: its directory, or its name among the runs here.

    Raises:
        UsageError: there is no such run, it has not ended, or its workflow file has changed.
    """
    records = records_of(run)
    folder, plan, summary = records.folder, records.plan, records.summary
    if is_held(folder / "plan.json"):
        raise UsageError(f"{run}: the run goes on; a crate is of a run that has ended: wait, or stop the run")
    if not summary:
        raise UsageError(
            f"{run}: the run has left no summary, since its launcher was killed; a crate is of a run that has ended: "
            "go on with it (`wilkins run --resume`), or show what there is (`wilkins report -o report.html`)"
        )
    start: Mapping[str, Any] = {}
    try:
        start = json.loads((folder / START).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        streams.log(f"note: {folder}: has no {START}, so the crate lacks the command line and the commit")
    began = float(start.get("began", (folder / "plan.json").stat().st_mtime))
    ended = float(summary.get("ended", (folder / "summary.json").stat().st_mtime))
    return EndedRun(records, _workflow(plan, start), start, began, ended, outputs_of(plan, began, ended))


def _workflow(plan: Plan, start: Mapping[str, Any]) -> bytes:
    """The workflow file as it was run.

    Raises:
        UsageError: nobody knows any more.
    """
    if isinstance(text := start.get("workflow"), str) and (not plan.digest or _is(text.encode(), plan.digest)):
        return text.encode()
    try:
        data = plan.source.read_bytes()
    except OSError as error:
        raise UsageError(f"{plan.source}: cannot read the workflow file for the crate: {error.strerror}") from error
    if plan.digest and not _is(data, plan.digest):
        raise UsageError(f"{plan.source}: has changed since the run; put back what was run, or run it again")
    return data


def _is(data: bytes, known: str) -> bool:
    return sha256(data).hexdigest() == known
