"""HDF5 programs that hand GPU arrays to HDF5 itself: C programs, and h5py through `wilkins.transport.devices.h5`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree
from wilkins.transport.board import native_library

HERE = Path(__file__).parent

WORKFLOW = """
tasks:
- {{func: {make}, args: [write], nprocs: 1, outports: [{{filename: "p*.h5"}}]}}
- {{func: {use}, args: [read], nprocs: 1, inports: [{{filename: "p*.h5"}}]}}
"""

PYTHON = """#!/usr/bin/env python3
import sys
sys.path.insert(0, {here!r})
import h5py
import numpy as np
from gpu_memory import DeviceArray, STAND_IN, count
from wilkins.transport.devices import h5
from wilkins.transport.devices.cuda import gpu

if sys.argv[1] == "write":
    for k in range(4):
        x, y = DeviceArray(np.arange(60.0).reshape(6, 10) + k), DeviceArray(np.arange(5 << 20, dtype="i4") ^ k)
        with h5py.File(f"p{{k}}.h5", "w") as file:
            file.create_dataset("all", (6, 10), "f8").write_direct(h5.pointer(x))
            file.create_dataset("large", (5 << 20,), "i4").write_direct(h5.pointer(gpu(0).upload(y.get())))
            file.create_dataset("packed", (6, 10), "f4", compression=1, chunks=(4, 4)).write_direct(h5.pointer(x))
            rows = DeviceArray(np.full((2, 10), -1.0))
            file.create_dataset("rows", (6, 10), "f8")
            file["rows"].write_direct(h5.pointer(rows), np.s_[1:2], np.s_[3:4])
else:
    for k in range(4):
        x, y = DeviceArray(np.zeros((6, 10))), DeviceArray(np.zeros(5 << 20, "i4"))
        with h5py.File(f"p{{k}}.h5") as file:
            for name in ("all", "packed"):
                x.set(np.zeros((6, 10)))
                file[name].read_direct(h5.pointer(x))
                assert np.array_equal(x.get(), np.arange(60.0).reshape(6, 10) + k), name
            file["large"].read_direct(h5.pointer(y))
            assert np.array_equal(y.get(), np.arange(5 << 20, dtype="i4") ^ k)
            x.set(np.full((6, 10), 7.0))
            file["rows"].read_direct(h5.pointer(x), np.s_[3:4], np.s_[0:1])
            assert np.array_equal(x.get(), [[-1.0] * 10] + [[7.0] * 10] * 5)
    if STAND_IN:
        assert count("pageable bytes") == 0, "staged in pinned memory"
"""


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """The same work by two HDF5 libraries."""
    script = tmp_path / "h5py_program.py"
    script.write_text(PYTHON.format(here=str(HERE)))
    script.chmod(0o755)
    return {"h5py": "./h5py_program.py"}


def run(folder: Path, env: dict[str, str], make: str, use: str) -> None:
    """Run the workflow, and fail with its logs."""
    (folder / "workflow.yaml").write_text(WORKFLOW.format(make=make, use=use))
    finished = run_tree([*WILKINS, "run", "workflow.yaml", "--timeout", "100"], 150, folder, env)
    logs = "\n".join(log.read_text() for log in sorted((folder / "wilkins-runs" / "latest").glob("*.log")))
    assert finished.code == 0, finished.err + logs


def test_h5py_takes_gpu_arrays(tmp_path: Path, cuda: dict[str, str], programs: dict[str, str]) -> None:
    run(tmp_path, cuda, programs["h5py"], programs["h5py"])


@pytest.mark.needs("h5cc")
def test_c_programs_hand_device_pointers_to_hdf5(tmp_path: Path, cuda: dict[str, str]) -> None:
    """Whole datasets in pieces, selections with holes, conversions, storage that was never written."""
    command = ["h5cc", "-shlib", str(HERE / "device_pointers.c"), "-o", str(tmp_path / "pointers"), "-ldl"]
    subprocess.run(command, check=True, cwd=tmp_path)
    run(tmp_path, cuda, "./pointers", "./pointers")


def test_numpy_refuses_what_only_hdf5_may_have(tmp_path: Path, cuda: dict[str, str]) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(HERE)!r})
            import numpy as np
            from gpu_memory import DeviceArray
            from wilkins.transport.devices import h5
            x = h5.pointer(DeviceArray(np.zeros((3, 4))))
            assert x.shape == (3, 4) and "GPU" in repr(x)
            for use in (lambda: x[0], lambda: x + 1, lambda: np.sum(x), lambda: list(x), lambda: x.copy()):
                try:
                    use()
                except TypeError as error:
                    assert "GPU's memory" in str(error)
                else:
                    raise AssertionError
            strided = DeviceArray(np.zeros((3, 4)))
            strided.shape, strided.strides = (4, 3), (8, 32)
            try:
                h5.pointer(strided)
            except BufferError as error:
                assert "contiguous" in str(error)
            else:
                raise AssertionError
        """)
    )
    finished = run_tree([sys.executable, script], 60, tmp_path, cuda)
    assert finished.code == 0, finished.err


@pytest.mark.needs("h5cc", "strace")
def test_a_program_without_cuda_pays_nothing_for_it(tmp_path: Path) -> None:
    """HDF5's reads and writes of host memory make no system call more than they did, also next to other libraries."""
    source = tmp_path / "often.c"
    source.write_text(
        textwrap.dedent("""
            #include <hdf5.h>
            #include <stdlib.h>
            int main(int argc, char** argv) {
                (void)argc;
                double x[8] = {0};
                hsize_t n = 8;
                hid_t file = H5Fcreate("plain.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
                hid_t space = H5Screate_simple(1, &n, NULL);
                hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
                for (int k = atoi(argv[1]); k > 0; --k)
                    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0 ||
                        H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) return 1;
                H5Dclose(set), H5Sclose(space), H5Fclose(file);
                return 0;
            }
        """)
    )
    subprocess.run(["h5cc", "-shlib", str(source), "-o", str(tmp_path / "often")], check=True, cwd=tmp_path)

    def calls(times: int, *env: str) -> int:
        trace = tmp_path / "trace"
        program = [*env, str(tmp_path / "often"), str(times)]
        subprocess.run(["strace", "-f", "-o", str(trace), "env", *program], check=True, cwd=tmp_path)
        return trace.read_text().count("(")

    preload = f"LD_PRELOAD={native_library()}"
    added = (calls(300, preload) - calls(100, preload)) - (calls(300) - calls(100))
    assert abs(added) < 20, "of 400 transfers"
