"""Streams of many thousand steps: what a name means does not change with how many came before."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program

COMMON = """\
import os, sys, time
STEPS = 10_000

def wait_for(flag, seconds):
    until = time.monotonic() + seconds
    while not os.path.exists(flag):
        if time.monotonic() > until:
            sys.exit(f"{flag} did not come within {seconds} s")
        time.sleep(0.01)

"""
WRITE = (
    COMMON
    + """\
for step in range(STEPS):
    with open(f"s-{step}.dat", "w") as file:
        file.write(f"step {step}")
open("written", "w").close()
wait_for("asked", 30)  # as long as this task lives, it might write any name that it has not written yet
"""
)
ASK = (
    COMMON
    + """\
wait_for("written", 100)
for step in (0, 1, 100, 5_000, STEPS - 2):
    try:
        open(f"s-{step}.dat")
    except FileNotFoundError:
        print("missing", step)
with open(f"s-{STEPS - 1}.dat") as file:
    print("read", file.read())
open("asked", "w").close()
"""
)


@pytest.mark.nightly
def test_steps_dropped_long_ago_are_missing_at_once(tmp_path: Path) -> None:
    """A reader with the policy `latest` asks for steps that it will not get any more, while their writer still runs."""
    write_program(tmp_path / "write.py", WRITE)
    write_program(tmp_path / "ask.py", ASK)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "  - {name: sim, func: ./write.py, outports: [{filename: 's-*.dat'}]}\n"
        "  - {name: ana, func: ./ask.py, inports: [{filename: 's-*.dat', io_freq: latest}]}\n"
    )
    finished = run_tree([*WILKINS, "run", "workflow.yaml"], 150, tmp_path)
    assert finished.code == 0, finished.out + finished.err
    log = (tmp_path / "wilkins-runs" / "latest" / "ana.log").read_text().splitlines()
    assert log == ["missing 0", "missing 1", "missing 100", "missing 5000", "missing 9998", "read step 9999"]
