"""Shared memory: steady for as long as a stream runs, bounded by a cap, and a clear error where it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program

WRITER = """
import sys, zlib
import h5py, numpy as np
steps, mib = int(sys.argv[1]), int(sys.argv[2])
data = np.random.default_rng(0).integers(0, 2**63, mib * 2**17, dtype="u8")
for step in range(steps):
    data[step::4096] += np.uint64(step)
    with h5py.File("big.h5", "w") as f:
        f.create_dataset("x", data.shape, data.dtype).write_direct(data)
        f.attrs["crc"] = zlib.crc32(data)
        f.attrs["step"] = step
"""

READER = """
import json, os, sys, zlib
import h5py, numpy as np
steps, mib = int(sys.argv[1]), int(sys.argv[2])
data = np.zeros(mib * 2**17, dtype="u8")
run = os.environ["WILKINS_RUN"]
def shared():
    return sum(os.stat(os.path.join(run, name)).st_blocks * 512 for name in os.listdir(run))
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
peaks = []
for step in range(steps):
    with h5py.File("big.h5", "r") as f:
        f["x"].read_direct(data)
        assert f.attrs["step"] == step, (f.attrs["step"], step)
        assert f.attrs["crc"] == zlib.crc32(data), step
    peaks.append((resident(), shared()))
json.dump(peaks, open("peaks.json", "w"))
"""


def stream(folder: Path, steps: int, mib: int, cap: str) -> Path:
    """A workflow of a writer and a checking reader of one name."""
    write_program(folder / "writer.py", WRITER)
    write_program(folder / "reader.py", READER)
    path = folder / "workflow.yaml"
    path.write_text(
        f"tasks:\n- {{func: ./writer.py, nprocs: 1, args: ['{steps}', '{mib}'], "
        f"outports: [{{filename: big.h5, memory: {cap}}}]}}\n"
        f"- {{func: ./reader.py, nprocs: 1, args: ['{steps}', '{mib}'], inports: [{{filename: big.h5}}]}}\n"
    )
    return path


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_ten_gigabytes_through_a_gigabyte(tmp_path: Path) -> None:
    """80 steps of 128 MiB, cap 1 GiB: every step checked; what is resident and shared does not grow after step 10."""
    ran = run_tree([*WILKINS, "run", stream(tmp_path, 80, 128, "1GiB")], 300, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    peaks = json.loads((tmp_path / "peaks.json").read_text())
    assert len(peaks) == 80
    for kind in (0, 1):
        early, late = max(peak[kind] for peak in peaks[:10]), max(peak[kind] for peak in peaks[10:])
        assert late <= 1.05 * early, ("resident", "shared")[kind]
    assert max(peak[1] for peak in peaks) <= 1 << 30


def test_a_step_over_the_cap_is_an_error_that_says_so(tmp_path: Path) -> None:
    ran = run_tree([*WILKINS, "run", stream(tmp_path, 3, 16, "10MiB")], 60, tmp_path)
    assert ran.code == 1
    assert "more than the 10485760 that 'memory' allows its port" in ran.err, ran.err


def test_a_cap_of_two_steps_slows_and_loses_nothing(tmp_path: Path) -> None:
    ran = run_tree([*WILKINS, "run", stream(tmp_path, 40, 8, "20MiB")], 60, tmp_path)
    assert ran.code == 0, ran.err
    assert max(peak[1] for peak in json.loads((tmp_path / "peaks.json").read_text())) <= 22 << 20


@pytest.mark.needs("root", "unshare", "mount")
@pytest.mark.parametrize("filled", [False, True], ids=["small", "full"])
def test_shared_memory_too_small_or_full(tmp_path: Path, filled: bool) -> None:
    """A container's 64 MB, or a /dev/shm that others filled: one line that names the task, the file and the cure."""
    workflow = stream(tmp_path, 3, 128 if not filled else 16, "1GiB")
    fill = "head -c 60000000 /dev/zero > /dev/shm/others;" if filled else ""
    script = f'mount -t tmpfs -o size=64m tmpfs /dev/shm; {fill} exec "$@"'
    command = ["unshare", "-m", "bash", "-c", script, "bash", *WILKINS, "run", str(workflow)]
    ran = run_tree(command, 60, tmp_path)
    assert ran.code == 1
    said = [line for line in ran.err.splitlines() if "shared memory" in line and "is full" in line]
    assert said and "big.h5" in said[0] and "writer" in said[0], ran.err
    summary = json.loads((tmp_path / "wilkins-runs" / "latest" / "summary.json").read_text())
    assert summary["memory_peak_bytes"] <= 64 << 20, "what there was no memory for was never taken"
