"""Where memory is short, a program's calls on files in memory fail with their own error, and the program goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs.build import SOURCES, build
from streams import Streams

from support import run_tree
from wilkins.transport.board import Board, BoardChannel, BoardPort, BoardTask

MPIEXECS = {"mpich": ("mpiexec.mpich",), "openmpi": ("mpirun.openmpi", "--oversubscribe")}


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A run with a writer of `s*.h5`, whose queue is longer than any test fills it."""
    board = Board.create(
        [BoardTask("writer", 1), BoardTask("reader", 1)],
        [BoardPort(0, "out", "s*.h5"), BoardPort(1, "in", "s*.h5")],
        [BoardChannel(0, 1, 1, 64, "block", 1)],
        log=tmp_path / "layer.log",
    )
    yield board
    board.remove()


@pytest.mark.needs("g++")
@pytest.mark.parametrize("what", ["first", "names", "callbacks"])
def test_names_with_each_allocation_failing(tmp_path: Path, board: Board, what: str) -> None:
    """Opens, looks and lists either do their work or say ENOMEM; what a callback of the program throws reaches it."""
    for k in range(4):  # files on disk that have a port's name are left out of lists
        (tmp_path / f"stale-file-with-a-name-that-is-not-short-{k}.h5").touch()
    program = build("short_memory_names.cpp", "g++", "-std=c++17", "-pthread")
    done = run_tree([program, what], 60, tmp_path, board.environment(0, 0))
    assert done.code == 0, done.err
    assert f"{what}: all answers right" in done.out


@pytest.mark.usual("mpich")
@pytest.mark.parametrize("mpi", [pytest.param(name, marks=pytest.mark.needs(f"mpicc.{name}", MPIEXECS[name][0])) for name in MPIEXECS])
def test_parallel_files_with_each_allocation_failing(tmp_path: Path, mpi: str) -> None:
    """The rank that has no memory is told so, alone or with all others; none waits for ever, and what is written is whole."""
    program = build("short_memory_mpi.c", f"mpicc.{mpi}", "-pthread")
    done = Streams(tmp_path).run(
        f"- {{name: write, func: {program}, nprocs: 2, args: [m.dat], mpiexec: {' '.join(MPIEXECS[mpi])}, outports: [{{filename: m.dat}}]}}\n"
        f"- {{name: read, func: {SOURCES}/bytes_read.py, args: [m.dat], nprocs: 1, inports: [{{filename: m.dat}}]}}\n"
    )
    assert "all answers right" in done.out
    assert "32000 bytes" in done.out
