"""What a step costs that is read on eight hosts, by what it costs on one: where lines are slow, and where they are not.

The hosts of the rig share the machine's cores, on which every copy takes its time, whoever sends it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, run_tree, write_program

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", "tc", *NEEDS),
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("hosts"),
]

HOSTS = 8
FIRST = 8
"""Steps before what is read of them is known on all hosts, and comes by itself."""
WRITE = """#!{python}
import sys, h5py, numpy
data = numpy.arange(int(sys.argv[2]) // 8)
for step in range(int(sys.argv[1])):
    data[0] = step
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["x"] = data
"""
READ = """#!{python}
import json, time, h5py
from wilkins.transport import steps
times = []
for step, name in enumerate(steps.names()):
    with h5py.File(name) as file:
        x = file["x"][()]
    times.append(time.monotonic())
    assert x[0] == step and x[-1] == len(x) - 1
print(json.dumps(times))
"""
WORKFLOW = """
tasks:
  - {{func: ./write.py, args: [{steps}, {size}], outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./read.py, taskCount: {readers}, inports: [{{filename: "f*.h5"}}]}}
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(HOSTS + 1) as one:
        yield one


def seconds_a_step(rig: Rig, folder: Path, readers: int, steps: int, size: int) -> tuple[float, float]:
    """Between steps, of the slowest reader; and what the producer's host has sent for each, in steps."""
    folder.mkdir()
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))
    (folder / "workflow.yaml").write_text(WORKFLOW.format(steps=steps, size=size, readers=readers))
    before = rig.traffic("node0")[0]
    hosts = ",".join(f"{name}:1" for name in rig.names[: readers + 1])
    done = run_tree(rig.on("node0", *WILKINS, "run", "--hosts", hosts, "workflow.yaml", folder=folder), 300, folder)
    assert done.code == 0, done.err
    took = []
    for log in (folder / "wilkins-runs/latest").glob("read*.log"):
        times = json.loads(log.read_text().strip().splitlines()[-1])
        took.append((times[-1] - times[FIRST]) / (len(times) - 1 - FIRST))
    assert len(took) == readers
    return max(took), (rig.traffic("node0")[0] - before) / steps / size


@pytest.mark.parametrize(
    ("bits", "steps", "size"),
    [(400_000_000, 20, 32 << 20), (400_000_000, 14, 128 << 20), (0, 14, 128 << 20)],
    ids=["32 MiB, 400 Mbit/s", "128 MiB, 400 Mbit/s", "128 MiB, no limit"],
)
def test_eight_hosts_cost_little_more_than_one(rig: Rig, tmp_path: Path, bits: int, steps: int, size: int) -> None:
    for host in rig.names if bits else ():
        rig.slow(host, bits)
    one, sent_to_one = seconds_a_step(rig, tmp_path / "one", 1, steps, size)
    all_, sent = seconds_a_step(rig, tmp_path / "all", HOSTS, steps, size)
    print(
        f"a step to one host {one:.2f} s, to {HOSTS} {all_:.2f} s: {all_ / one:.2f} times as long; the producer's host "
        f"sends {sent:.1f} times a step ({sent_to_one:.1f})"
    )
    assert all_ <= 2.6 * one or not bits
    assert sent < 2.5
