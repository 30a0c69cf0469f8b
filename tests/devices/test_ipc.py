"""Two processes on one GPU: what is shared by CUDA IPC, and when the host gets a copy all the same."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from devices.device_runs import HEAD, coupled

from support.running import write_program
from wilkins.transport.devices import ipc

PORT = json.dumps({"s*.h5": {"device": "cuda", "path": "ipc", "ipc": True}})
MIXED = json.dumps({"s*.h5": {"device": "cuda", "path": "pinned", "ipc": True}})

WORKFLOW = """
tasks:
- {{func: ./make.py, nprocs: 1, env: {{WILKINS_DEVICES: '{port}'}}, outports: [{{filename: "s*.h5"}}]}}
- {{func: ./use.py, nprocs: {readers}, env: {{WILKINS_DEVICES: '{port}'}}, inports: [{{filename: "s*.h5"}}]}}
"""

MAKE = """
import os, time
from pathlib import Path
x, y = DeviceArray(np.zeros(300000)), DeviceArray(np.zeros((20, 50), "f4"))
for k in range(8):
    x.set(np.arange(300000.0) * k)
    y.set(np.full((20, 50), k))
    wilkins.transport.publish(f"s{k}.h5", {"x": x, "g": {"y": y, "host": np.arange(k)}}, attrs={"k": k})
    x.set(np.full(300000, -1.0))
    if k == 0:
        copied = count("host bytes") if STAND_IN else 0
        while len(list(Path(os.environ["WILKINS_RUN"]).glob("ipc-*.*"))) < READERS:
            time.sleep(0.01)
if STAND_IN:
    print("host bytes", count("host bytes") - copied, "device bytes", count("device bytes"), flush=True)
"""

USE = """
import gc
kept = []
for step in wilkins.transport.open("s*.h5"):
    k = step.index
    x, y = step.buffer("x"), step.buffer("g/y", device="cuda")
    assert step.attrs["k"] == k and np.array_equal(step["g/host"], np.arange(k))
    kept.append((x, y))
    if k % 2:
        step.release()
before = count("host bytes") if STAND_IN else 0
assert before == 0, before
for k, (x, y) in enumerate(kept):
    assert np.array_equal(x.numpy(), np.arange(300000.0) * k), k
    assert np.array_equal(y.numpy(), np.full((20, 50), k))
assert len(kept) == 8
if STAND_IN:
    print("opened", count("opened handles"), flush=True)
"""


def test_nothing_passes_through_the_host(tmp_path: Path, cuda: dict[str, str]) -> None:
    """After the first step, which tells that the reader can open the producer's memory, no byte is copied to the host.

    The producer overwrites its array at once and ends early; each step's values are its own all the same.
    """
    logs = coupled(tmp_path, cuda, "READERS = 1\n" + MAKE, USE, WORKFLOW.format(port=PORT, readers=1))
    if "STAND_IN_RUN" in cuda:
        assert f"host bytes 0 device bytes {8 * (300000 * 8 + 1000 * 4)}" in logs


@pytest.mark.nightly
def test_two_readers_share_a_producers_memory(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    use = USE.replace("READERS", "2")
    logs = coupled(tmp_path, without_gpu, "READERS = 2\n" + MAKE, use, WORKFLOW.format(port=PORT, readers=2))
    assert "host bytes 0" in logs


def test_a_reader_on_another_path_finds_the_values_in_the_file(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    check = """
        import os
        os.environ.pop("WILKINS_DEVICES")
        for k in range(8):
            with h5py.File(f"s{k}.h5") as file:
                assert np.array_equal(file["x"][:], np.arange(300000.0) * k)
    """
    coupled(
        tmp_path,
        without_gpu,
        "READERS = 0\n" + MAKE,
        check,
        WORKFLOW.format(port=MIXED, readers=1),
    )


@pytest.mark.usual("cuIpcOpenMemHandle_v2=1")
@pytest.mark.parametrize(
    "failing",
    ["cuIpcOpenMemHandle_v2=1", "cuIpcOpenEventHandle=801", "cuIpcGetMemHandle=801", "cuIpcGetEventHandle=801"],
)
def test_where_memory_cannot_be_shared_values_are_equal(
    tmp_path: Path, without_gpu: dict[str, str], failing: str
) -> None:
    use = USE.replace("assert before == 0, before", "assert before > 0")
    make = MAKE.replace("while len", "while False and len")
    coupled(
        tmp_path,
        without_gpu | {"STAND_IN_FAIL": failing},
        "READERS = 1\n" + make,
        use,
        WORKFLOW.format(port=PORT, readers=1),
    )


def test_processes_on_different_gpus_find_the_values_by_the_host(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    """Memory of another GPU cannot be opened: equal values, through the host."""
    workflow = WORKFLOW.format(port=PORT, readers=1)
    for task, number in (("make", 0), ("use", 1)):
        at = f"./{task}.py, nprocs: 1, env: {{"
        workflow = workflow.replace(at, f'{at}CUDA_VISIBLE_DEVICES: "{number}", ')
    use = USE.replace("assert before == 0, before", "assert before > 0")
    make = MAKE.replace("while len", "while False and len")
    coupled(tmp_path, without_gpu | {"STAND_IN_DEVICES": "2"}, "READERS = 1\n" + make, use, workflow)


def test_a_program_that_reads_by_hdf5_what_is_on_the_gpu_only_gets_an_error(
    tmp_path: Path, cuda: dict[str, str]
) -> None:
    """And NumPy arrays of such a step come from the GPU."""
    coupled(
        tmp_path,
        cuda,
        "READERS = 1\n" + MAKE,
        """
        for step in wilkins.transport.open("s*.h5"):
            k = step.index
            assert np.array_equal(step["x"], np.arange(300000.0) * k)
            assert np.array_equal(step["g/y", 3:5, ::7], np.full((2, 8), k))
            if k > 1:
                dataset = step.file["x"]
                assert dataset.shape == (300000,) and dataset.dtype == "f8"
                assert "memory of a GPU only" in dataset.attrs["wilkins_device"]
                for part in (np.s_[:], np.s_[5:7]):
                    try:
                        dataset[part]
                    except OSError:
                        pass
                    else:
                        raise AssertionError("values that nobody wrote")
        assert k == 7
        """,
        WORKFLOW.format(port=PORT, readers=1),
    )


@pytest.mark.parametrize(
    ("path", "readers", "answers", "why"),
    [
        ("ipc", 2, {"1.0": "", "1.1": ""}, ""),
        ("ipc", 2, {"1.0": ""}, "1 of 2 readers have not opened"),
        ("ipc", 1, {"1.0": "no device"}, "no device"),
        ("ipc", 0, {}, "another rule"),
        ("pinned", 1, {"1.0": ""}, "not on this path"),
    ],
)
def test_when_the_host_gets_the_values(path: str, readers: int, answers: dict[str, str], why: str) -> None:
    found = ipc.needs_host(path, readers, answers)
    assert (why in found) if why else not found


@pytest.mark.parametrize(
    ("holders", "copied", "done"),
    [
        (None, {"1.0": 9}, False),
        ([], {}, True),
        (["1.0"], {}, False),
        (["1.0"], {"1.0": 4}, False),
        (["1.0"], {"1.0": 5}, True),
        (["1.0", "1.1"], {"1.0": 5, "1.1": 4}, False),
        (["1.0", "1.1"], {"1.0": 6, "1.1": 5}, True),
        (["1.1"], {"1.0": 6, "1.1": 4}, False),
    ],
    ids=["to be taken", "not held", "no answer", "behind", "copied", "one behind", "all copied", "another has copied"],
)
def test_when_a_producer_may_end(holders: list[str] | None, copied: dict[str, int], done: bool) -> None:
    assert ipc.is_copied(holders, 5, copied) is done


@pytest.mark.nightly
def test_readers_of_one_port_do_not_answer_for_those_of_another(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    """While the reader of `t*.h5` has opened nothing yet, its steps are in the file too, whatever others have said."""
    workflow = """
tasks:
- {{func: ./make.py, env: {{WILKINS_DEVICES: '{both}'}}, outports: [{{filename: "s*.h5"}}, {{filename: "t*.h5"}}]}}
- {{func: ./use.py, env: {{WILKINS_DEVICES: '{port}'}}, inports: [{{filename: "s*.h5"}}]}}
- {{func: ./other.py, env: {{WILKINS_DEVICES: '{other}'}}, inports: [{{filename: "t*.h5"}}]}}
"""
    ipc_port = {"device": "cuda", "path": "ipc", "ipc": True}
    told = [json.dumps(dict.fromkeys(names, ipc_port)) for names in (["s*.h5", "t*.h5"], ["s*.h5"], ["t*.h5"])]
    make = """
        import os, time
        from pathlib import Path
        x = DeviceArray(np.arange(1000.0))
        wilkins.transport.publish("s0.h5", {"x": x})
        while not list(Path(os.environ["WILKINS_RUN"]).glob("ipc-*.*")):
            time.sleep(0.01)
        with wilkins.transport.create("s1.h5") as step:
            step["x"] = x
            assert wilkins.transport.devices.ipc.ATTRIBUTE in step.file["x"].attrs, "on the GPU only"
        with wilkins.transport.create("t0.h5") as step:
            step["x"] = x
            assert wilkins.transport.devices.ipc.ATTRIBUTE not in step.file["x"].attrs, "in the file too"
    """
    use = """
        steps = wilkins.transport.open({pattern!r})
        assert all(np.array_equal(step.buffer("x").numpy(), np.arange(1000.0)) for step in steps)
    """
    other = tmp_path / "other.py"
    write_program(other, HEAD.format(here=str(Path(__file__).parent)) + textwrap.dedent(use.format(pattern="t*.h5")))
    text = workflow.format(both=told[0], port=told[1], other=told[2])
    coupled(tmp_path, without_gpu, make, use.format(pattern="s*.h5"), text)


@pytest.mark.parametrize("shape", [(1,), (7, 3), (1 << 32,), (3, 1 << 31), (70000, 70000), (1 << 17, 1 << 17)])
def test_datasets_of_any_size_cannot_be_read(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        ipc.make_unreadable(file, "g/x", shape, np.dtype("f8"))
    assert (tmp_path / "s.h5").stat().st_size < 1 << 20
    with h5py.File(tmp_path / "s.h5") as file:
        dataset = file["g/x"]
        assert (dataset.shape, dataset.dtype) == (shape, "f8")
        for corner in ((0,) * len(shape), tuple(extent - 1 for extent in shape), tuple(n // 2 for n in shape)):
            with pytest.raises(OSError, match="read data"):
                dataset[corner]
