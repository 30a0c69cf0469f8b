"""Steps cross to another host as fast as MPI moves as many bytes between the same hosts, turn by turn in one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import MPIEXEC, WILKINS, run_tree

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(100),
]

PROGRAMS = Path(__file__).parents[2] / "benchmarks/programs"
WARM = 5
"""First steps, whose memory is fresh."""
WORKFLOW = """
tasks:
  - {{func: {python}, name: w, args: [{carry}, w, {steps}, {size}], outports: [{{filename: "carried-*.raw"}}]}}
  - {{func: {python}, name: r, args: [{carry}, r, {steps}, {size}], inports: [{{filename: "carried-*.raw"}}]}}
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(2) as one:
        yield one


def times(text: str) -> list[float]:
    """What a program has printed."""
    return [float(one) for one in json.loads(text.strip().splitlines()[-1])]


def exchanged(rig: Rig, folder: Path, size: int, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of each step from its close until it could be read elsewhere, and of each message of MPI."""
    carry = PROGRAMS / "carry.py"
    text = WORKFLOW.format(python=sys.executable, carry=carry, steps=steps, size=size)
    (folder / "workflow.yaml").write_text(text)
    (folder / "turn-0").touch()
    mpi = [MPIEXEC, "-hosts", "node0,node1", "-ppn", "1", "-n", "2", sys.executable, str(carry), "mpi"]
    run = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
    with (folder / "exchange.log").open("w") as log:
        words = rig.on("node0", *mpi, str(steps), str(size), folder=folder)
        beside = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        try:
            done = run_tree(rig.on("node0", *run, folder=folder), 60, folder)
            assert done.code == 0, done.err
            assert beside.wait(30) == 0, (folder / "exchange.log").read_text()
        finally:
            beside.kill()
    logs = folder / "wilkins-runs/latest"
    written, read = times((logs / "w.log").read_text()), times((logs / "r.log").read_text())
    took = [after - before for before, after in zip(written, read, strict=True)]
    return took, times((folder / "exchange.log").read_text())


@pytest.mark.parametrize(
    ("size", "steps"), [(1 << 30, 12), (128 << 20, 30), (16 << 20, 60)], ids=["1 GB", "128 MB", "16 MB"]
)
def test_a_step_crosses_as_fast_as_a_message_of_mpi(rig: Rig, tmp_path: Path, size: int, steps: int) -> None:
    steps_took, mpi_took = exchanged(rig, tmp_path, size, steps)
    ratio = statistics.median(mpi_took[WARM:]) / statistics.median(steps_took[WARM:])
    pairs = [theirs / ours for ours, theirs in zip(steps_took[WARM:], mpi_took[WARM:], strict=True)]
    print(f"{size >> 20} MB: {ratio:.2f} of MPI's rate, quartiles {statistics.quantiles(pairs, n=4)}")
    assert ratio >= 0.9


def test_a_small_step_can_be_read_elsewhere_soon(rig: Rig, tmp_path: Path) -> None:
    steps_took, mpi_took = exchanged(rig, tmp_path, 1 << 10, 300)
    took, theirs = (1e6 * statistics.median(some[WARM:]) for some in (steps_took, mpi_took))
    print(f"1 KB: {took:.0f} us from close to readable; there and back by MPI {theirs:.0f} us")
    assert took <= 500


def cpu_times(rig: Rig) -> dict[str, float]:
    """Seconds that each half of a relay has computed."""
    times = {}
    for host in rig.names:
        for line in rig.processes(host, "relay.py"):
            path = f"/proc/{line.split()[0]}/schedstat"
            said = subprocess.run(rig.on(host, "cat", path), capture_output=True, text=True, check=True).stdout
            times[f"{host}: {line}"] = int(said.split()[0]) / 1e9
    return times


def test_a_relay_that_has_nothing_to_do_takes_no_time(rig: Rig, tmp_path: Path) -> None:
    sleeps = "import h5py, time; h5py.File('s0.h5', 'w').close(); time.sleep(16); h5py.File('s1.h5', 'w').close()"
    reads = "import h5py; h5py.File('s0.h5').close(); h5py.File('s1.h5').close()"
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: w, args: [-c, "{sleeps}"], outports: [{{filename: "s*.h5"}}]}}
  - {{func: {sys.executable}, name: r, args: [-c, "{reads}"], inports: [{{filename: "s*.h5"}}]}}
""")
    run = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
    with subprocess.Popen(rig.on("node0", *run, folder=tmp_path), stderr=subprocess.PIPE, text=True) as beside:
        try:
            time.sleep(4)
            before = cpu_times(rig)
            time.sleep(10)
            took = {one: now - before[one] for one, now in cpu_times(rig).items()}
            _, said = beside.communicate(timeout=60)
        finally:
            beside.kill()
    assert beside.returncode == 0, said
    print(f"CPU time of two idle relays in 10 s: {[f'{1e3 * one:.2f} ms' for one in took.values()]}")
    assert len(took) == 2
    assert max(took.values()) <= 5e-3


COMPUTES = """
import json, time, numpy
from carry import write
data, block = memoryview(bytearray({size})), numpy.random.rand(400, 400)
def compute():
    began = time.thread_time()
    for _ in range(20):
        block @ block
    return time.thread_time() - began
alone, served = [], []
for step in range({steps}):
    alone.append(compute())
    write(f"carried-{{step}}.raw", data)
    served.append(compute())
    time.sleep(0.3)
print(json.dumps([alone, served]))
"""
READS = """
from carry import read
data = memoryview(bytearray({size}))
for step in range({steps}):
    read(f"carried-{{step}}.raw", data)
"""


def test_a_producer_computes_as_fast_while_its_step_is_sent(rig: Rig, tmp_path: Path) -> None:
    """In CPU time: hosts of the rig share their cores, which real ones do not."""
    size, steps = 128 << 20, 30
    (tmp_path / "computes.py").write_text(COMPUTES.format(size=size, steps=steps))
    (tmp_path / "reads.py").write_text(READS.format(size=size, steps=steps))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: w, args: [computes.py], outports: [{{filename: "carried-*.raw"}}]}}
  - {{func: {sys.executable}, name: r, args: [reads.py], inports: [{{filename: "carried-*.raw"}}]}}
""")
    set_up = ["env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", f"PYTHONPATH={PROGRAMS}"]
    run = [*set_up, *WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
    done = run_tree(rig.on("node0", *run, folder=tmp_path), 120, tmp_path)
    assert done.code == 0, done.err
    alone, served = json.loads((tmp_path / "wilkins-runs/latest/w.log").read_text())
    slower = statistics.median(served[WARM:]) / statistics.median(alone[WARM:]) - 1
    print(f"CPU time of the same computation while a step is sent: {slower:+.1%}")
    assert slower < 0.03
