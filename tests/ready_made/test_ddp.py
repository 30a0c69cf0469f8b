"""A PyTorch DDP script written for files on disk is a task as it is: same losses, same weights as on real files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import pytest

from support.running import MPIEXEC, WILKINS, must_run, run_tree, started_tree
from wilkins.launch.programs.environment import free_port, world_variables

PROGRAMS = Path(__file__).parents[1] / "programs" / "ddp"
RANKS = 2
THREADS = {"OMP_NUM_THREADS": "1"}

WORKFLOW = """\
tasks:
  - {name: simulate, func: simulate.py, args: ["2"], outports: [{filename: "samples*.h5"}]}
  - name: train
    func: train.py
    args: OPTIONS
    nprocs: 2
    threads: 1
    inports: [{filename: "samples*.h5"}]
"""

pytestmark = pytest.mark.needs("python:torch")


def trained(folder: Path) -> dict[str, Any]:
    """What the first rank has written: the losses, and the weights."""
    with h5py.File(folder / "weights.h5") as file:
        return {name: dset[()].tolist() for name, dset in file.items()}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the programs make of real files, started as torchrun would start them."""
    folder = tmp_path_factory.mktemp("on-disk")
    must_run(folder, sys.executable, PROGRAMS / "simulate.py", "2")
    port = free_port()
    with ExitStack() as stack:
        trees = []
        for rank in range(RANKS):
            place = folder / str(rank)
            place.mkdir()
            for file in folder.glob("samples*.h5"):
                (place / file.name).symlink_to(file)
            env = THREADS | world_variables(RANKS, rank=rank, local_rank=rank, port=port)
            words: list[str | Path] = [sys.executable, PROGRAMS / "train.py"]
            trees.append(stack.enter_context(started_tree(words, place, env)))
        for tree in trees:
            finished = tree.wait(240)
            assert finished.code == 0, finished.err
    found = trained(folder / "0")
    assert len(found["losses"]) == 2
    assert len(set(found["losses"])) == 2
    yield found
    shutil.rmtree(folder)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("launch", "options"),
    [
        pytest.param("alone", "", id="alone"),
        pytest.param("alone", "--workers 2", id="alone-forked-workers"),
        pytest.param("one job", "--workers 1 --start spawn", id="one-job-spawned-workers"),
    ],
)
def test_an_unmodified_trainer(on_disk: dict[str, Any], tmp_path: Path, launch: str, options: str) -> None:
    """With workers of a DataLoader, each opens the file again: it is the step that their rank holds. (What the workers'
    rank does itself in one job, the DDP of two ranks, is the same without them.)"""
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, tmp_path)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW.replace("OPTIONS", repr(options.split())), encoding="utf-8")
    before = [] if launch == "alone" else [MPIEXEC, "-n", str(1 + RANKS)]
    finished = run_tree([*before, *WILKINS, "run", "workflow.yaml"], 280, tmp_path, THREADS)
    assert finished.code == 0, finished.err
    assert not list(tmp_path.glob("samples*.h5")), "the samples go through memory"
    assert trained(tmp_path) == on_disk
    train = next(line for line in finished.err.splitlines() if line.startswith("train "))
    assert train.split()[:4] == ["train", "2", "1", "done"]
    log = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    for rank in range(RANKS):
        assert f"task 'train' rank {rank}: no such file 'samples002.h5': the stream has ended" in log
