"""Ranks exchange samples over real MPI: what is fetched is whole, in few messages, and no rank is left waiting."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running import MPIEXEC, WILKINS, run_tree

PROGRAMS = Path(__file__).resolve().parent.parent / "programs" / "rehearsal"
LIMIT = 90


def run(folder: Path, ranks: int, program: str, *words: str) -> list[Any]:
    """What each rank tells, in order of rank."""
    finished = run_tree([MPIEXEC, "-n", str(ranks), sys.executable, PROGRAMS / program, *words], LIMIT, folder)
    assert finished.code == 0, finished.out + finished.err
    return [json.loads((folder / f"told-{rank}").read_text()) for rank in range(ranks)]


@pytest.mark.usual("3-")
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(("ranks", "kind"), [(1, ""), (2, ""), (3, ""), (4, ""), (2, "unequal"), (4, "unequal")])
def test_samples_come_whole(tmp_path: Path, ranks: int, kind: str) -> None:
    """Also from and to a rank that holds nothing; a rank asked for any number of samples sends one message."""
    steps = 60
    told = run(tmp_path, ranks, "exchange.py", str(steps), kind)
    full = [one for one in told if not (kind and one["rank"] == 1)]
    assert {one["population"] for one in told} == {20 * len(full)}
    assert {one["size"] for one in full} == {20}
    assert all(sorted(one["classes"].values()) == [6, 7, 7] for one in full)
    for one in told:
        owners = len(full) - (one in full)
        assert one["messages"] <= steps * owners
        assert one["bytes_received"] == one["drawn_elsewhere"] * one["sample_bytes"]
        if owners:
            assert one["drawn_elsewhere"] / one["drawn"] == pytest.approx(owners / len(full), abs=0.15)
            assert one["drawn_elsewhere"] - 6 <= one["checked_elsewhere"] <= one["drawn_elsewhere"]
            assert one["messages"] > steps / 2
    assert sum(one["bytes_sent"] for one in told) == sum(one["bytes_received"] for one in told)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_many_classes(tmp_path: Path) -> None:
    """Tables of counts that take a message of their own."""
    for one in run(tmp_path, 2, "exchange.py", "80", "many"):
        assert one["population"] == 160
        assert one["drawn_elsewhere"] / one["drawn"] == pytest.approx(0.5, abs=0.15)
        assert len(one["classes"]) > 30


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_two_tasks_of_one_job(tmp_path: Path) -> None:
    """Under `mpiexec wilkins run` every task has a buffer of its own, over its own ranks."""
    tasks = [
        {"name": name, "func": str(PROGRAMS / "exchange.py"), "nprocs": 2, "args": ["20"], "cwd": str(tmp_path / name)}
        for name in ("one", "two")
    ]
    for task in tasks:
        Path(str(task["cwd"])).mkdir()
    (tmp_path / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    finished = run_tree([MPIEXEC, "-n", "4", *WILKINS, "run", "workflow.yaml"], LIMIT, tmp_path)
    assert finished.code == 0, finished.out + finished.err
    for task in tasks:
        told = [json.loads((Path(str(task["cwd"])) / f"told-{rank}").read_text()) for rank in range(2)]
        assert [one["population"] for one in told] == [40, 40]
        assert all(one["drawn_elsewhere"] > 0 for one in told)


@pytest.mark.needs(MPIEXEC)
def test_an_mpi_without_threads(tmp_path: Path) -> None:
    """It is said at once how to go on; without a thread the buffer works there."""
    program = tmp_path / "single.py"
    program.write_text(
        "import mpi4py\n"
        "mpi4py.rc.thread_level = 'single'\n"
        "import numpy as np\n"
        "from mpi4py import MPI\n"
        "from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions\n"
        "room = dict(batch=4, candidates=4, representatives=2, samples=9)\n"
        "try:\n"
        "    RehearsalBuffer(RehearsalOptions(**room), MPI.COMM_WORLD)\n"
        "except RuntimeError as error:\n"
        "    assert 'background=False' in str(error), error\n"
        "with RehearsalBuffer(RehearsalOptions(**room, background=False), MPI.COMM_WORLD) as buffer:\n"
        "    for _ in range(5):\n"
        "        drawn = buffer.update({'x': np.full((4, 2), MPI.COMM_WORLD.rank)})\n"
        "assert len(drawn['x']) == 2\n"
        "assert buffer.statistics().wait_seconds > 0\n"
    )
    finished = run_tree([MPIEXEC, "-n", "2", sys.executable, program], LIMIT, tmp_path)
    assert finished.code == 0, finished.out + finished.err


@pytest.mark.needs(MPIEXEC)
def test_a_script_that_does_not_close(tmp_path: Path) -> None:
    """It ends all the same, with the last exchange still under way."""
    program = tmp_path / "open.py"
    program.write_text(
        "import numpy as np\n"
        "from mpi4py import MPI\n"
        "from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions\n"
        "options = RehearsalOptions(batch=4, candidates=4, representatives=2, samples=9)\n"
        "buffer = RehearsalBuffer(options, MPI.COMM_WORLD)\n"
        "for _ in range(5):\n"
        "    buffer.update({'x': np.zeros((4, 2))})\n"
    )
    finished = run_tree([MPIEXEC, "-n", "2", sys.executable, program], LIMIT, tmp_path)
    assert finished.code == 0, finished.out + finished.err


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:torch")
def test_tensors_over_two_ranks(tmp_path: Path) -> None:
    told = run(tmp_path, 2, "exchange.py", "20", "torch")
    assert all(one["drawn_elsewhere"] > 0 for one in told)


@pytest.mark.usual("nan")
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(
    ("kind", "own", "others"),
    [
        ("shape", ("BadSample", "port 'plt*.h5', step 5, tensor 'x': samples are float64 (9,)"), "rank 1 stopped: "),
        ("nan", ("BadSample", "port 'plt*.h5', step 5, tensor 'x': sample 2 holds NaN"), "rank 1 stopped: "),
        ("other", ("ArithmeticError", "the loss is not finite"), "rank 1 stopped: ArithmeticError: the loss"),
        ("ends", ("RankFailed", "rank 1 closes the buffer at step 5"), "rank 0 offers its batch at step 5"),
        ("layout", ("RankFailed", "samples of rank 0 are unlike"), "samples of rank 1 are unlike those of this one"),
    ],
    ids=["shape", "nan", "other", "ends", "layout"],
)
def test_all_ranks_hear_of_trouble(tmp_path: Path, kind: str, own: tuple[str, str], others: str) -> None:
    """An error on one rank ends the others with its message, instead of leaving them waiting."""
    for rank, error, message in run(tmp_path, 3, "trouble.py", kind):
        if rank == 1:
            assert error == own[0]
            assert own[1] in message
        else:
            assert error == "RankFailed"
            assert others in message
