"""When programs that do nothing but ask for what will not come are ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wilkins.launch.watch.polling import Polls
from wilkins.transport.report_table import Report
from wilkins.values import restored


@pytest.mark.parametrize("poll_end", [1.0, 10.0, 600.0])
def test_a_program_is_ended_soon_after_its_poll_end(poll_end: float) -> None:
    """Whenever its producers ended: between two looks at the run, too."""
    ports = [SimpleNamespace(direction="in", mode="memory", task=1, poll_end=poll_end)]
    plan: Any = SimpleNamespace(ports=ports, tasks=[SimpleNamespace(cwd=Path("/"))] * 2)
    polls = Polls(plan)
    now, looks, over_at = 0.0, 0, 0.1
    while now < 3 * poll_end + 10:
        now += polls.every_s
        looks += 10
        poll = {"rank": 0, "port": 0, "looks": looks}
        writer: dict[str, Any] = {
            "state": "ended" if now > over_at else "running",
            "nprocs": 1,
            "waits": [],
            "unmatched_names": [],
        }
        reader = {"state": "running", "nprocs": 1, "waits": [], "polls": [poll], "unmatched_names": []}
        inport, outport = {"task": 1, "direction": "in"}, {"task": 0, "direction": "out"}
        report = {
            "tasks": [writer, reader],
            "ports": [inport, outport],
            "channels": [{"outport": 1, "inport": 0, "next": ""}],
        }
        if polls.only_polls(restored(Report, report), 1, list, now):
            break
    assert poll_end <= now - over_at <= poll_end + 2
