"""Ensembles that are killed and resumed: each instance goes back to a point of its own; no step is lost or twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.resuming import check, here_and_on, seeds

MEMBER = """
import os, sys, time
import h5py, numpy as np
number, steps, pause = int(sys.argv[1]), 16, float(sys.argv[2])
step, state = 0, np.full(50, float(number))
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        assert int(file.attrs["member"]) == number
        step, state = int(file.attrs["step"]), file["u"][:]
while step < steps:
    state = np.sin(state + step) + number
    with h5py.File(f"u{number}-{step:04d}.h5", "w") as file:
        file["u"] = state
        file.attrs["step"], file.attrs["member"] = step, number
    step += 1
    if step % (2 + number) == 0:
        with h5py.File(f"state{number}.h5", "w") as file:
            file["u"] = state
            file.attrs["step"], file.attrs["member"] = step, number
    time.sleep(pause)
"""
"""A member of an ensemble; each saves its state at moments of its own, over the one before."""

HALVED = """
import sys
import h5py
import wilkins.transport
number = sys.argv[1]
for step in wilkins.transport.open(f"u{number}-*.h5"):
    with step, h5py.File(step.filename.replace("u", "v"), "w") as file:
        file["u"] = step["u"][:] / 2
        file.attrs.update(step.attrs)
"""

GATHER = """
import json, os, sys
import wilkins.transport
from wilkins.transport import points
name, pattern = sys.argv[1:]
totals, seen, count = {}, {}, 0
if "WILKINS_RESTART" in os.environ:  # also if a point is told with its file
    with open(os.environ["WILKINS_RESTART"]) as file:
        totals, seen = json.load(file)
    count = sum(map(len, seen.values()))
for step in wilkins.transport.open(pattern):
    member = str(step.attrs["member"])
    totals[member] = totals.get(member, 0.0) * 0.9 + float(step["u"].sum())
    seen.setdefault(member, []).append(int(step.attrs["step"]))
    assert step.sequence == seen[member][-1]
    step.release()
    count += 1
    if count % 5 == 0:
        place = f"gathered{name}.json" if name != "all" else f"gathered-{count}.json"
        with open(place, "w") as file:
            json.dump([totals, seen], file)
        if name == "all":
            points.tell(place, opened={pattern: count}, file=place)
with open(f"result{name}.txt", "w") as file:
    json.dump([totals, seen], file, sort_keys=True)
"""
"""Reads what members publish, in whatever order it comes; its saves are files that the layer sees, or points."""

MEMBERS = """
tasks:
  - func: member.py
    taskCount: 3
    args: ["{instance}", ["0.01", "0.03", "0.05"]]
    outports: [{filename: "u{instance}-*.h5"}]
    restart: {files: "state{instance}.h5"}
  - func: halved.py
    taskCount: 3
    args: ["{instance}"]
    inports: [{filename: "u{instance}-*.h5"}]
    outports: [{filename: "v{instance}-*.h5"}]
    restart: each-step
  - func: gather.py
    args: [all, "v*.h5"]
    inports: [{filename: "v*.h5"}]
    restart: points
  - name: share
    func: gather.py
    taskCount: 2
    args: ["{instance}", "u*.h5"]
    inports: [{filename: "u*.h5"}]
    restart: {files: "gathered{instance}.json"}
"""


@pytest.mark.nightly
@pytest.mark.timeout(400)
@here_and_on("a:3,b:3,c:3", "b:2,a:7", "c:9", "d:5,a:1,c:3")
@seeds
def test_members_of_an_ensemble(tmp_path: Path, seed: int, places: list[tuple[str, ...]]) -> None:
    """One to one, all into one reader, and three shared out among two; on other hosts each time."""
    victims = ("everything", "the launcher", "member.py", "halved.py", "gather.py")
    programs = {"member": MEMBER, "halved": HALVED, "gather": GATHER}
    check(tmp_path, seed, 60, MEMBERS, victims=victims, places=places, **programs)
