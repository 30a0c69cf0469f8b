"""Runs on several hosts that are killed and resumed, on other hosts, too: they give what an undisturbed run gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, parallel_c
from resuming import CHAIN, NORM, SIMULATION, SUMS, check, seeds

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("hosts")]

VICTIMS = ("everything", "the launcher", "hosts.keeper", "relay.py", "simulation.py")
PAIR = """
tasks:
  - func: simulation.py
    args: ["30", "0.05"]
    outports: [{filename: "u*.h5"}]
    restart: {files: state.h5}
  - func: sums.py
    inports: [{filename: "u*.h5"}]
    restart: {files: sums.h5}
"""


def on(*hosts: str) -> list[tuple[str, ...]]:
    """Places of a run: hosts each; empty: this machine."""
    return [("--hosts", words) if words else () for words in hosts]


@seeds
def test_a_simulation_and_a_stateful_analysis(tmp_path: Path, seed: int) -> None:
    """On two hosts, on others, and the other way round."""
    places = on("a:1,b:1", "b:1,c:1", "b:1,a:1", "c:2")
    check(tmp_path, seed, 40, PAIR, victims=VICTIMS, places=places, simulation=SIMULATION, sums=SUMS)


HALVED = """
import h5py
while True:
    try:
        with h5py.File("u.h5") as file:
            half, step = file["u"][:] / 2, file.attrs["step"]
    except FileNotFoundError:
        break
    with h5py.File("v.h5", "w") as file:
        file["u"] = half
        file.attrs["step"] = step // 2
"""
TOLD = """
import json
import wilkins.transport
from wilkins.transport import points
point = points.chosen()
total, seen = json.loads(point.label) if point else (0.0, [])
for step in wilkins.transport.open("{pattern}"):
    total = total * 0.9 + float(step["u"].sum())
    seen.append(int(step.attrs["step"]))
    step.release()
    if len(seen) % {every} == 0:
        points.tell(json.dumps([total, seen]), {counts})
with open("result-{name}.txt", "w") as file:
    file.write(f"{{total!r}} {{seen}}")
"""
READERS = """
tasks:
  - func: simulation.py
    args: ["32", "0.05"]
    outports: [{filename: "u.h5"}]
    restart: {files: state.h5}
  - func: halved.py
    inports: [{filename: "u.h5", io_freq: 2}]
    outports: [{filename: "v.h5"}]
    restart: each-step
  - func: all.py
    inports: [{filename: "u.h5"}]
    restart: points
  - func: third.py
    inports: [{filename: "u.h5", io_freq: 3}]
    restart: points
  - func: halves.py
    inports: [{filename: "v.h5"}]
    restart: points
"""


@seeds
def test_readers_of_one_stream_that_are_not_alike(tmp_path: Path, seed: int) -> None:
    """Some of them on one host, which have come to other steps, and take others; some count what they have opened."""
    told = "consumed={{'{0}': step.sequence + 1}}"
    places = on("a:1,b:4", "a:2,b:3", "a:1,b:2,c:2", "c:5", "")
    check(
        tmp_path,
        seed,
        60,
        READERS,
        victims=VICTIMS,
        places=places,
        simulation=SIMULATION.replace('f"u{step:04d}.h5"', '"u.h5"'),
        halved=HALVED,
        all=TOLD.format(pattern="u.h5", every=5, counts=told.format("u.h5"), name="all"),
        third=TOLD.format(pattern="u.h5", every=2, counts=told.format("u.h5"), name="third"),
        halves=TOLD.format(pattern="v.h5", every=3, counts="opened={'v.h5': len(seen)}", name="halves"),
    )


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")
@seeds
def test_a_parallel_simulation_on_two_hosts(tmp_path: Path, seed: int) -> None:
    """Two ranks write a file per step and numbered checkpoints together; a program is started per step."""
    simulation = build("restartable.c", *parallel_c("openmpi", static=bool(seed % 2)), "-lm")
    workflow = CHAIN.format(simulation=simulation, mpiexec="mpirun.openmpi --oversubscribe")
    victims = ("everything", "the launcher", "hosts.keeper", "relay.py", "restartable", "far_files")
    places = on("a:1,b:3", "b:1,a:1,c:2", "a:2,b:2", "a:4")
    check(tmp_path, seed, 20, workflow, victims=victims, places=places, norm=NORM, sums=SUMS.replace("u*.h5", "n*.h5"))
