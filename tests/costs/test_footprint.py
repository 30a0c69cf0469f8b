"""The shared memory that `simulate` and `plan` predict: no run takes more, simple ones at least half; warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running import WAITS, WILKINS, Finished, run_tree, write_program
from wilkins.flow.footprint import most_steps
from wilkins.flow.policy import LATEST, FlowPolicy
from wilkins.flow.publish import PublishRule

MIB = 1 << 20
WRITE = """
import sys
import h5py, numpy as np
for step in range(8):
    with h5py.File(sys.argv[1], "w") as file:
        file["x"] = np.full(1 << 20, step, "f8")
"""
READ = f"""
{WAITS}
import sys
import h5py
how, step = sys.argv[1], 0
while True:
    if how == "late" and step < 8 - 3:
        waits.until_waits(0)  # the writer: all that may be queued is
    if how == "latest" and step == 1:
        waits.until_published(0, 8)
    try:
        file = h5py.File("x.h5", "r")
    except FileNotFoundError:
        break
    with file:
        step = int(file["x"][0]) + 1
"""
TASKS = {
    "writer": "{func: ./write.py, args: [x.h5], outports: [{filename: x.h5PORT}], model: {SIZEsteps: 8, step: 1ms}}"
}
for name, flow in {"late": "flow: all", "fast": "flow: all", "latest": "io_freq: latest"}.items():
    port = f"{{filename: x.h5, {flow}}}"
    TASKS[name] = f"{{name: {name}, func: ./read.py, args: [{name}], inports: [{port}], model: {{step: 1ms}}}}"


def workflow(folder: Path, *readers: str, size: str = "size: 8MiB, ", port: str = "") -> None:
    """A writer of eight steps of 8 MiB, and its readers."""
    write_program(folder / "write.py", WRITE)
    write_program(folder / "read.py", READ)
    lines = [TASKS["writer"].replace("SIZE", size).replace("PORT", port), *(TASKS[name] for name in readers)]
    (folder / "workflow.yaml").write_text("tasks:\n" + "".join(f"- {line}\n" for line in lines))


def wilkins(folder: Path, command: str, *words: str) -> Finished:
    done = run_tree([*WILKINS, command, "workflow.yaml", *words], 60, folder)
    assert done.code == 0, done.err
    return done


def said(out: str) -> float:
    """Bytes that a prediction tells."""
    [line] = [line for line in out.splitlines() if line.startswith("shared memory: at most ")]
    number, unit = line.split(",")[0].split()[-2:]
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


@pytest.mark.usual("fast")
@pytest.mark.parametrize("readers", [("late",), ("fast",), ("latest",), ("late", "fast")], ids="-".join)
def test_a_run_takes_no_more_than_predicted_and_at_least_half(tmp_path: Path, readers: tuple[str, ...]) -> None:
    workflow(tmp_path, *readers)
    predicted = said(wilkins(tmp_path, "simulate").out)
    assert predicted == said(wilkins(tmp_path, "plan").out)
    wilkins(tmp_path, "run")
    peak = json.loads((tmp_path / "wilkins-runs" / "latest" / "summary.json").read_text())["memory_peak_bytes"]
    rounded = 1.01  # three digits are shown
    assert peak <= predicted * rounded
    if readers != ("fast",):  # that one may be done with each step before the next is begun
        assert predicted <= 2 * peak * rounded
    if readers == ("late",):  # what the file does not say, the run knows
        workflow(tmp_path, *readers, size="")
        assert "shared memory" not in wilkins(tmp_path, "simulate").out
        assert said(wilkins(tmp_path, "simulate", "--from", "latest").out) == predicted


def test_what_does_not_fit_is_warned_of(tmp_path: Path) -> None:
    """Into the machine's shared memory, or into what the port's `memory` allows; on disk everything does."""
    workflow(tmp_path, "fast", size="size: 100TB, ")
    for command in ("simulate", "plan"):
        told = wilkins(tmp_path, command)
        assert "warning: the steps take up to 400 TB of shared memory at once, and /dev/shm has" in told.err
        assert (
            "task 'write', port 'x.h5', with 4 steps of 100 TB: give it a shorter 'queue' than 2, 'memory: " in told.err
        )
        on_disk = wilkins(tmp_path, command, "--files")
        assert "warning" not in on_disk.err and "shared memory" not in on_disk.out
    workflow(tmp_path, "fast", size="size: 1MB, ", port=", memory: 2MB, queue: 5")
    told = wilkins(tmp_path, "simulate")
    assert said(told.out) == 2e6
    assert "workflow.yaml:2:" in told.err and "7 steps of 1 MB may be there at once, and 'memory' allows" in told.err
    workflow(tmp_path, "fast", size="size: 1MB, ", port=", memory: 500kB")
    assert "a step takes 1 MB, and 'memory' allows the port 500 kB: a run fails" in wilkins(tmp_path, "plan").err


def test_no_more_steps_than_there_are(tmp_path: Path) -> None:
    workflow(tmp_path, "fast")
    told = wilkins(tmp_path, "simulate", "--set", "write.model.steps=1", "--set", "write.outports.0.queue=50")
    assert said(told.out) < 9e6


@pytest.mark.parametrize(
    ("policies", "publish", "most"),
    [
        ([FlowPolicy(queue=1)], PublishRule(), 3),
        ([FlowPolicy(queue=5), FlowPolicy(queue=2)], PublishRule(), 7),
        ([FlowPolicy(), LATEST], PublishRule(), 6),
        ([LATEST], PublishRule(), 3),
        ([FlowPolicy(every=3), FlowPolicy(every=2)], PublishRule(), 7),
        ([FlowPolicy()], PublishRule("flush"), 5),
    ],
)
def test_steps_at_once(policies: list[FlowPolicy], publish: PublishRule, most: int) -> None:
    assert most_steps(policies, publish) == most
