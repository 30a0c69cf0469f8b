"""Steps between hosts by UCX and by TCP, turn by turn in one run: how long each takes, and what relays take for it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, write_program

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", "ucx", *NEEDS),
    pytest.mark.timeout(300),
]

CARRY = """#!{python}
import json, sys, time
sys.path.insert(0, {programs!r})
from pathlib import Path
import carry
role, mine, all, steps, size = sys.argv[1], *map(int, sys.argv[2:])
data, times = carry.memory(size), []
for step in range(steps):
    turn = all * step + mine
    name = f"carried-{{mine}}-{{step}}.raw"
    if role == "w":
        carry.await_turn(turn)
        data[0] = data[-1] = step % 256
        times.append(carry.write(name, memoryview(data)))
    else:
        times.append(carry.read(name, memoryview(data)))
        assert data[0] == data[-1] == step % 256
        carry.end_turn(turn)
print(json.dumps(times))
"""
WORKFLOW = """
tasks:
  - {{func: ./carry.py, name: w, args: [w, {mine}, 2, {steps}, {size}], outports: [{{filename: "carried-*.raw"}}]}}
  - {{func: ./carry.py, name: r, args: [r, {mine}, 2, {steps}, {size}], inports: [{{filename: "carried-*.raw"}}]}}
"""
WARM = 3
FABRICS = ("tcp", "ucx")


def used_by(rig: Rig) -> dict[str, tuple[float, int]]:
    """Seconds of processors and peak bytes of each half of a relay, by fabric and host."""
    found = {}
    for host in rig.names:
        for line in rig.processes(host, "relay.py"):
            pid = line.split()[0]
            of = f"/proc/{pid}"
            look = f"cat {of}/schedstat; grep VmHWM {of}/status; tr '\\0' '\\n' < {of}/environ | grep ^WILKINS_FABRIC"
            words = rig.on(host, "sh", "-c", look)
            said = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
            if len(said) >= 7:
                found[f"{said[-1].partition('=')[2]} {host}"] = (int(said[0]) / 1e9, int(said[4]) << 10)
    return found


@pytest.mark.parametrize(("size", "steps"), [(256 << 20, 16), (16 << 20, 40)], ids=["256 MB", "16 MB"])
def test_what_a_step_takes_by_each(tmp_path: Path, size: int, steps: int) -> None:
    """No bound: UCX by TCP is not meant to be faster, and hosts of namespaces have no other network."""
    with Rig(2) as rig:
        beside = {}
        for mine, fabric in enumerate(FABRICS):
            folder = tmp_path / fabric
            folder.mkdir()
            write_program(
                folder / "carry.py",
                CARRY.format(python=sys.executable, programs=str(Path(__file__).parents[2] / "benchmarks/programs")),
            )
            (folder / "workflow.yaml").write_text(WORKFLOW.format(mine=mine, steps=steps, size=size))
        for number in range(2 * steps + 1):
            (tmp_path / "ucx" / f"turn-{number}").symlink_to(tmp_path / "tcp" / f"turn-{number}")
        (tmp_path / "tcp/turn-0").touch()
        try:
            for fabric in FABRICS:
                words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "--fabric", fabric, "workflow.yaml"]
                beside[fabric] = subprocess.Popen(
                    rig.on("node0", *words, folder=tmp_path / fabric), stderr=subprocess.PIPE, text=True
                )
            used: dict[str, tuple[float, int]] = {}
            while any(one.poll() is None for one in beside.values()):
                used.update(used_by(rig))
                time.sleep(0.3)
            for one in beside.values():
                assert one.returncode == 0, one.stderr and one.stderr.read()
        finally:
            for one in beside.values():
                one.kill()
        took = {}
        for fabric in FABRICS:
            logs = tmp_path / fabric / "wilkins-runs/latest"
            written, read = (json.loads((logs / f"{role}.log").read_text().splitlines()[-1]) for role in "wr")
            took[fabric] = [after - before for before, after in zip(written, read, strict=True)][WARM:]
        medians = {fabric: statistics.median(some) for fabric, some in took.items()}
        print()
        for fabric, seconds in medians.items():
            print(f"{size >> 20} MB by {fabric}: {1e3 * seconds:.1f} ms, {size / seconds / 1e9:.2f} GB/s")
        for who, (seconds, peak) in sorted(used.items()):
            print(f"  relay {who}: {seconds:.2f} s of CPU time, {peak >> 20} MiB at most")
        print(f"  tcp/ucx {medians['tcp'] / medians['ucx']:.2f}")
