"""Where memory is short, a program's calls on files in memory fail with their own error, and the program goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs.build import SOURCES, build

from support import hooks
from support.running import WILKINS, run_tree, write_program
from support.streams import Streams
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

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
@pytest.mark.parametrize(
    "mpi", [pytest.param(name, marks=pytest.mark.needs(f"mpicc.{name}", MPIEXECS[name][0])) for name in MPIEXECS]
)
def test_parallel_files_with_each_allocation_failing(tmp_path: Path, mpi: str) -> None:
    """The rank without memory is told so, alone or with all others; none waits for ever, what is written is whole."""
    program = build("short_memory_mpi.c", f"mpicc.{mpi}", "-pthread")
    done = Streams(tmp_path).run(
        f"- {{name: write, func: {program}, nprocs: 2, args: [m.dat], mpiexec: {' '.join(MPIEXECS[mpi])},\n"
        "   outports: [{filename: m.dat}]}\n"
        f"- {{name: read, func: {SOURCES}/bytes_read.py, args: [m.dat], inports: [{{filename: m.dat}}]}}\n"
    )
    assert "all answers right" in done.out
    assert "32000 bytes" in done.out


WRITE = """\
import h5py
try:
    with h5py.File("first.h5", "w") as file:
        file["x"] = range(3)
except (OSError, RuntimeError) as error:  # RuntimeError: h5py's for a close that fails
    print("told:", error)
with h5py.File("second.h5", "w") as file:
    file["x"] = range(5)
"""
READ = """\
import h5py
for attempt in range(2):
    try:
        print(len(h5py.File("second.h5")["x"]), "values")
        break
    except OSError as error:
        print("told:", error)
"""
READ_STEPS = """\
import wilkins.transport
steps = wilkins.transport.open("second.h5")
try:
    step = next(steps)
except wilkins.transport.ChannelError as error:
    print("told:", error)
    step = next(steps)
print(len(step["x"]), "values")
"""


@pytest.mark.usual("create", "channel")
@pytest.mark.needs("hooks")
@pytest.mark.parametrize(
    ("fault", "read"),
    [
        ("task=write,throw=create.before-map", READ),
        ("task=write,throw=close.begun", READ),
        ("task=read,throw=open.found", READ),
        ("task=read,throw=take.kept", READ_STEPS),
    ],
    ids=["create", "close", "open", "channel"],
)
def test_programs_are_told_of_what_the_layer_throws(tmp_path: Path, fault: str, read: str) -> None:
    """HDF5's calls and those of channels fail as others of theirs do; what the program does next goes well."""
    write_program(tmp_path / "write.py", WRITE)
    write_program(tmp_path / "read.py", read)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./write.py, name: write, outports: [{filename: '*.h5'}]}\n"
        "- {func: ./read.py, name: read, inports: [{filename: second.h5}]}\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path, hooks.faults(fault))
    assert done.code == 0, f"{done.out}{done.err}"
    assert "told:" in done.out
    assert "5 values" in done.out
    said = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert "because there is no memory for what it has to keep" in said
