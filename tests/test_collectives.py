"""What ranks tell each other: the same on all of them, over MPI and over torch.distributed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import MPIEXEC, must_run
from wilkins.tasks.collectives import Alone, first_in_trouble, first_trouble

PROGRAM = """
import json, pathlib, sys
from mpi4py import MPI
from wilkins.tasks.collectives import OverMPI, OverTorch
from wilkins.tasks.continual import process_group
world = MPI.COMM_WORLD
texts = ["", "tüchtig", "0" * 100_000, "\\0"]
with process_group(world):
    found = {}
    over = {"mpi": OverMPI(world), "torch": OverTorch()}
    for kind, ranks in over.items():
        assert (ranks.rank, ranks.size) == (world.rank, world.size)
        found[kind] = [ranks.tell(texts[(world.rank + turn) % 4]) for turn in range(4)]
    if world.rank == 0:
        answer = world.Irecv(bytearray(1), source=1)
        over["mpi"].give_up_after(0.2)
        try:
            over["mpi"].wait([answer])
        except TimeoutError as error:
            found["late"] = str(error)
    world.Barrier()
    if world.rank == 1:
        world.Send(b"1", 0)
    elif world.rank == 0:
        answer.Wait()
    pathlib.Path(sys.argv[1], f"{world.rank}.json").write_text(json.dumps(found))
"""


@pytest.mark.needs(MPIEXEC, "python:torch")
def test_every_rank_has_the_texts_of_all(tmp_path: Path) -> None:
    must_run(tmp_path, MPIEXEC, "-n", "3", sys.executable, "-c", PROGRAM, tmp_path, timeout=120)
    texts = ["", "tüchtig", "0" * 100_000, "\0"]
    expected = [[texts[(rank + turn) % 4] for rank in range(3)] for turn in range(4)]
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert [one["mpi"] for one in found] == [one["torch"] for one in found] == [expected] * 3
    assert found[0]["late"] == "the other ranks did not answer"


def test_one_process_tells_itself() -> None:
    assert Alone().tell("text") == ["text"]


@pytest.mark.parametrize(
    ("told", "rank", "trouble"),
    [
        ([""], None, ""),
        (["", "", ""], None, ""),
        (["no room"], 0, "no room"),
        (["", "no room", "no right"], 1, "rank 1: no room"),
    ],
)
def test_the_first_rank_that_has_trouble(told: list[str], rank: int | None, trouble: str) -> None:
    assert (first_in_trouble(told), first_trouble(told)) == (rank, trouble)
