"""GPUs and devices of a workflow reach every rank of its tasks, however it is launched; without them nothing starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch.conftest import Case

TELL = """\
import json, os, sys
import h5py
import mpi4py.MPI
name = f"{sys.argv[1]}-{os.environ['RANK']}"
with open(name, "w") as file:
    json.dump({key: os.environ.get(key) for key in ("CUDA_VISIBLE_DEVICES", "WILKINS_DEVICES")}, file)
"""

WRITE = """\
with h5py.File("step0.h5", "w") as file:
    file["x"] = [1]
"""

READ = """\
h5py.File("step0.h5").close()
"""

WORKFLOW = """\
tasks:
  - {func: ./write.py, args: [write], gpus: 1, outports: [{filename: "step*.h5", device: cuda}]}
  - {func: ./read.py, args: [read], nprocs: 2, gpus: 2, inports: [{filename: "step*.h5", device: "cuda:1"}]}
  - {func: ./look.py, args: [look], inports: [{filename: "step*.h5"}]}
"""


@pytest.mark.usual("alone")
@pytest.mark.parametrize("launch", ["alone", "one job"])
def test_every_rank_is_told(case: Case, mpiexec: str, monkeypatch: pytest.MonkeyPatch, launch: str) -> None:
    monkeypatch.setenv("WILKINS_GPUS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    for name, rest in (("write.py", WRITE), ("read.py", READ), ("look.py", READ)):
        case.program(name, TELL + rest)
    case.workflow(WORKFLOW)
    finished = case.run("--quiet", before=(mpiexec, "-n", "4") if launch == "one job" else ())
    assert finished.code == 0, finished.err
    told = {name: json.loads((case.folder / name).read_text()) for name in ("write-0", "read-0", "read-1", "look-0")}
    assert {name: one["CUDA_VISIBLE_DEVICES"] for name, one in told.items()} == {
        "write-0": "3",
        "read-0": "1,3",
        "read-1": "1,3",
        "look-0": "3,1",
    }
    ports = {name: json.loads(one["WILKINS_DEVICES"])["step*.h5"] for name, one in told.items()}
    assert ports["write-0"] == {"device": "cuda", "path": "pinned", "ipc": True}
    assert ports["read-0"] == ports["read-1"] == {"device": "cuda:1", "path": "ipc", "ipc": True}
    assert ports["look-0"] == {"device": "host", "path": "pinned", "ipc": False}


@pytest.mark.parametrize("launch", ["alone", "one job"])
def test_without_gpus_nothing_starts(case: Case, mpiexec: str, monkeypatch: pytest.MonkeyPatch, launch: str) -> None:
    monkeypatch.setenv("WILKINS_GPUS", "0")
    for name in ("write.py", "read.py", "look.py"):
        case.program(name, "open('started', 'w')\n")
    case.workflow(WORKFLOW)
    finished = case.run(before=(mpiexec, "-n", "4") if launch == "one job" else ())
    assert finished.code == 3
    assert "workflow.yaml:2:45: error: task 'write': asks for 1 GPU, but this machine has none" in finished.err
    assert "task 'read': asks for 2 GPUs" in finished.err
    assert not Path(case.folder / "started").exists()
    assert not Path(case.folder / "wilkins-runs").exists()
