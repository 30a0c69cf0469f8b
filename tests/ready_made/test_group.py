"""Groups of ranks do the same over MPI and over torch.distributed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.running import MPIEXEC, must_run
from wilkins.tasks.group import Group, first_in_trouble, first_trouble

PROGRAM = """
import json, pathlib, sys
import numpy
from mpi4py import MPI
from wilkins.tasks.continual import process_group
from wilkins.tasks.group import MPIGroup, TorchGroup
world = MPI.COMM_WORLD
texts = ["", "tüchtig", "0" * 100_000, "\\0"]
with process_group(world):
    found = {}
    rank, size = world.rank, world.size
    groups = {"mpi": MPIGroup(world), "torch": TorchGroup()}
    for kind, group in [*groups.items(), *((f"{kind} again", group.dup()) for kind, group in groups.items())]:
        assert (group.rank, group.size) == (rank, size)
        found[kind] = [group.allgather(texts[(rank + turn) % 4]) for turn in range(4)]
        assert group.allgather((rank, None)) == [(one, None) for one in range(size)]
        assert group.alltoall([10 * rank + to for to in range(size)]) == [10 * to + rank for to in range(size)]
        send, receive = numpy.full((3, 2), rank), numpy.empty((3, 2), int)
        group.exchange({(rank + 1) % size: send}, {(rank - 1) % size: receive})
        assert (receive == (rank - 1) % size).all()
        if kind.endswith("again"):
            group.free()
    if rank == 0:
        groups["mpi"].give_up_after(0.2)
        try:
            groups["mpi"].exchange({}, {1: numpy.empty(1)})
        except TimeoutError as error:
            found["late"] = str(error)
    world.Barrier()
    if rank == 1:
        groups["mpi"].exchange({0: numpy.empty(1)}, {})
    pathlib.Path(sys.argv[1], f"{world.rank}.json").write_text(json.dumps(found))
"""


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:torch")
def test_groups_of_several_ranks(tmp_path: Path) -> None:
    must_run(tmp_path, MPIEXEC, "-n", "3", sys.executable, "-c", PROGRAM, tmp_path, timeout=120)
    texts = ["", "tüchtig", "0" * 100_000, "\0"]
    expected = [[texts[(rank + turn) % 4] for rank in range(3)] for turn in range(4)]
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    for kind in ("mpi", "torch", "mpi again", "torch again"):
        assert [one[kind] for one in found] == [expected] * 3
    assert found[0]["late"] == "the other ranks did not answer"


def test_a_group_of_one() -> None:
    group = Group()
    assert (group.allgather("text"), group.alltoall([7])) == (["text"], [7])


@pytest.mark.parametrize(
    ("troubles", "rank", "trouble"),
    [
        ([""], None, ""),
        (["", "", ""], None, ""),
        (["no room"], 0, "no room"),
        (["", "no room", "no right"], 1, "rank 1: no room"),
    ],
)
def test_the_first_rank_that_has_trouble(troubles: list[str], rank: int | None, trouble: str) -> None:
    assert (first_in_trouble(troubles), first_trouble(troubles)) == (rank, trouble)
