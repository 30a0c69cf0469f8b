"""What a step costs that is read on eight hosts, by what it costs on one: where lines are slow, and where they are not.

The hosts of the rig share the machine's cores, on which every copy takes its time, whoever sends it.
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
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("hosts"),
]

HOSTS = 8
FIRST = 8
"""Steps before what is read of them is known on all hosts, and comes by itself."""
WRITE = """#!{python}
import json, sys, time, h5py, numpy
data = numpy.arange(int(sys.argv[2]) // 8)
times = []
for step in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[3]))
    data[0] = step
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["x"] = data
    times.append(time.monotonic())
print(json.dumps(times))
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
  - {{func: ./write.py, args: [{steps}, {size}, {pause}], outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./read.py, taskCount: {readers}, inports: [{{filename: "f*.h5"}}]}}
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(HOSTS + 1) as one:
        yield one


def times(log: Path) -> list[float]:
    """At which a program was done with its steps."""
    return list(json.loads(log.read_text().strip().splitlines()[-1]))


def run(
    rig: Rig, folder: Path, readers: int, steps: int, size: int, pause: float = 0.0
) -> tuple[list[float], list[list[float]], float]:
    """When the producer and each reader were done with its steps; and what the producer's host has sent, in steps."""
    folder.mkdir()
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))
    (folder / "workflow.yaml").write_text(WORKFLOW.format(steps=steps, size=size, pause=pause, readers=readers))
    before = rig.traffic("node0")[0]
    hosts = ",".join(f"{name}:1" for name in rig.names[: readers + 1])
    done = run_tree(rig.on("node0", *WILKINS, "run", "--hosts", hosts, "workflow.yaml", folder=folder), 300, folder)
    assert done.code == 0, done.err
    logs = folder / "wilkins-runs/latest"
    read = [times(log) for log in logs.glob("read*.log")]
    assert len(read) == readers
    return times(logs / "write.log"), read, (rig.traffic("node0")[0] - before) / steps / size


def seconds_a_step(rig: Rig, folder: Path, readers: int, steps: int, size: int) -> tuple[float, float]:
    """Between steps, of the slowest reader; and what the producer's host has sent for each, in steps."""
    _, read, sent = run(rig, folder, readers, steps, size)
    return max((one[-1] - one[FIRST]) / (len(one) - 1 - FIRST) for one in read), sent


def seconds_of_a_step(rig: Rig, folder: Path, readers: int, size: int, pause: float) -> float:
    """From its close to when the last reader has read it: of steps that come alone, the median."""
    written, read, _ = run(rig, folder, readers, FIRST + 5, size, pause)
    return statistics.median(max(one[step] for one in read) - written[step] for step in range(FIRST, len(written)))


@pytest.mark.parametrize(
    ("bits", "steps", "size"),
    [(0, 14, 128 << 20), (400_000_000, 20, 32 << 20), (400_000_000, 14, 128 << 20)],
    ids=["128 MiB, no limit", "32 MiB, 400 Mbit/s", "128 MiB, 400 Mbit/s"],  # what is slow stays slow
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
    assert all_ <= 2.5 * one or not bits
    assert sent < 2.5


def test_a_step_that_comes_alone_is_soon_on_eight_hosts(rig: Rig, tmp_path: Path) -> None:
    """Hosts hand on what they have of it while the rest comes."""
    size, pause = 64 << 20, 10.0
    for host in rig.names:
        rig.slow(host, 400_000_000)
    one = seconds_of_a_step(rig, tmp_path / "one", 1, size, pause / 4)
    all_ = seconds_of_a_step(rig, tmp_path / "all", HOSTS, size, pause)
    print(
        f"a step that comes alone: on one host after {one:.2f} s, on {HOSTS} after {all_:.2f} s: {all_ / one:.2f} times"
    )
    assert all_ <= 2.5 * one
