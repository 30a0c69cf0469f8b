"""A line of 100 Mbit/s carries a smooth field many times as fast, if its elements may be off by 1e-3.

The hosts of the rig share the machine's cores, which pack, unpack, write and read at the same time.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, run_tree, write_program

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", "tc", *NEEDS),
    pytest.mark.timeout(200),
]

WRITE = """#!{python}
import sys, h5py, numpy as np
steps, shape = int(sys.argv[1]), tuple(map(int, sys.argv[2].split("x")))
sides = np.meshgrid(*(np.linspace(0, 6, side) for side in shape), indexing="ij", sparse=True)
field = np.prod(np.broadcast_arrays(*(np.sin((1 + axis / 8) * side) for axis, side in enumerate(sides))), axis=0)
for step in range(steps):
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["heat"] = field
"""
READ = """#!{python}
import json, time, h5py
from wilkins.transport import steps
times = []
for name in steps.names():
    with h5py.File(name) as file:
        file["heat"][()]
    times.append(time.monotonic())
print(json.dumps(times))
"""
WORKFLOW = """
tasks:
  - {{func: ./write.py, args: [{steps}, "{shape}"], outports: [{{filename: "f*.h5"{compress}}}]}}
  - {{func: ./read.py, inports: [{{filename: "f*.h5"}}]}}
"""
COMPRESS = ", compress: [{dset: heat, absolute: 1e-3}]"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(2) as one:
        for host in one.names:
            one.slow(host, 100_000_000)
        yield one


def seconds_a_step(rig: Rig, folder: Path, steps: int, shape: str, compress: str) -> float:
    """From the first step that was read to the last one: several may come at once where they have waited."""
    folder.mkdir()
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))
    (folder / "workflow.yaml").write_text(WORKFLOW.format(steps=steps, shape=shape, compress=compress))
    done = run_tree(
        rig.on("node0", *WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml", folder=folder), 120, folder
    )
    assert done.code == 0, done.err
    print(*(line for line in done.err.splitlines() if "times smaller" in line))
    times = json.loads((folder / "wilkins-runs/latest/read.log").read_text().strip().splitlines()[-1])
    return float(times[-1] - times[0]) / (len(times) - 1)


@pytest.mark.parametrize(("shape", "least"), [("2000x2000", 20), ("160x160x160", 20)])
def test_a_smooth_field_crosses_a_slow_line_many_times_as_fast(
    rig: Rig, tmp_path: Path, shape: str, least: int
) -> None:
    plain = seconds_a_step(rig, tmp_path / "plain", 5, shape, "")
    packed = [seconds_a_step(rig, tmp_path / f"packed-{turn}", 30, shape, COMPRESS) for turn in range(3)]
    faster = plain / statistics.median(packed)
    turns = ", ".join(f"{1e3 * one:.0f}" for one in packed)
    print(f"f8 {shape}: {plain:.2f} s a step, compressed {turns} ms: {faster:.1f} times as fast")
    assert faster >= least


@pytest.mark.parametrize("bandwidth", [100_000_000, 1_000_000_000, 10_000_000_000])
def test_the_faster_way_is_found(tmp_path: Path, bandwidth: int) -> None:
    """By bits per second of the line, whatever the machine packs."""
    with Rig(2) as rig:
        for host in rig.names:
            rig.slow(host, bandwidth)
        steps = 6 if bandwidth < 1e9 else 34
        times = {
            "as they are": seconds_a_step(rig, tmp_path / "plain", steps, "2000x2000", ""),
            "compressed": seconds_a_step(rig, tmp_path / "packed", 34, "2000x2000", COMPRESS),
        }
        when = f"{COMPRESS}, compress_when: faster"
        chosen = seconds_a_step(rig, tmp_path / "chosen", 34, "2000x2000", when)
    shown = ", ".join(f"{name} {1e3 * one:.0f} ms" for name, one in times.items())
    print(f"f8 2000x2000, {bandwidth / 1e6:.0f} Mbit/s: a step {shown}, whichever is faster {1e3 * chosen:.0f} ms")
    assert chosen < 1.5 * min(times.values())


@pytest.mark.parametrize("bandwidth", [100_000_000, 10_000_000_000])
def test_whether_it_pays_is_as_predicted(tmp_path: Path, bandwidth: int) -> None:
    """By bits per second of the line; the fast one has what a machine copies to itself."""
    with Rig(2) as rig:
        if slow := bandwidth < 1e9:
            for host in rig.names:
                rig.slow(host, bandwidth)
        plain = seconds_a_step(rig, tmp_path / "plain", 5 if slow else 30, "2000x2000", "")
        packed = seconds_a_step(rig, tmp_path / "packed", 30, "2000x2000", COMPRESS)
    words = ["plan", "workflow.yaml", "--hosts", "a:1,b:1", "--bandwidth", f"{bandwidth // 8}B/s", "--from", "latest"]
    done = run_tree([*WILKINS, *words], 60, tmp_path / "packed")
    assert done.code == 0, done.err
    (said,) = [line for line in (done.out + done.err).splitlines() if "'compress'" in line]
    print(f"{1e3 * plain:.0f} ms a step, compressed {1e3 * packed:.0f} ms; {said}")
    assert ("' pays, since" in said) == slow
    assert ("makes steps arrive later" in said) == (not slow)
    assert (packed < plain) == slow
