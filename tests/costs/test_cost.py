"""What a warm step costs, counted and not timed: copies, system calls, page faults, allocations."""

from __future__ import annotations

import collections
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

pytestmark = pytest.mark.needs("h5cc", "gcc")

PROGRAMS = Path(__file__).parents[1] / "programs" / "guest"
KIB, MIB = 1 << 10, 1 << 20
FEW, MANY = 100, 300
"""Steps, of which the first ones have to get memory."""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A run whose only task reads what it writes."""
    board = Board.create(
        [BoardTask("loop", 1)],
        [BoardPort(0, "out", "step-*.h5"), BoardPort(0, "in", "step-*.h5")],
        [BoardChannel(0, 1, 1, 2, "block", 1)],
        log=tmp_path / "layer.log",
    )
    yield board
    board.remove()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compiled(tmp_path, "step_often.c", "h5cc", "-shlib")


def compiled(folder: Path, source: str, *command: str) -> Path:
    """Build one of the C programs."""
    target = folder / Path(source).stem
    subprocess.run([*command, str(PROGRAMS / source), "-o", str(target)], check=True, cwd=folder)
    return target


def counted(folder: Path, program: Path, counter: str, steps: int, size: int | str, board: Board | None = None) -> int:
    """What one of the libraries that count says of the program."""
    library = folder / Path(counter).stem
    if not library.exists():
        compiled(folder, counter, "gcc", "-O2", "-fno-builtin", "-shared", "-fPIC")
    layer = board.environment(0, 0) if board else {}
    preload = ":".join(word for word in (str(library), layer.pop("LD_PRELOAD", "")) if word)
    words = ["env", f"LD_PRELOAD={preload}", str(program), str(steps), str(size)]
    ran = subprocess.run(words, cwd=folder, env={**os.environ, **layer}, capture_output=True, text=True, check=True)
    return int(ran.stderr.split(":")[-1])


@pytest.mark.usual("1048576")
@pytest.mark.needs("strace")
@pytest.mark.parametrize("size", [KIB, MIB])
def test_a_warm_step_takes_no_memory_from_the_kernel(tmp_path: Path, board: Board, program: Path, size: int) -> None:
    """Steps of one size live in the memory of earlier ones: nothing is opened, reserved, mapped or cut."""

    def calls(steps: int) -> collections.Counter[str]:
        trace, layer = tmp_path / "trace", board.environment(0, 0)
        preload = f"LD_PRELOAD={layer.pop('LD_PRELOAD')}"
        words = ["strace", "-f", "-o", str(trace), "env", preload, str(program), str(steps), str(size)]
        subprocess.run(words, cwd=tmp_path, env={**os.environ, **layer}, check=True, stdout=subprocess.PIPE)
        return collections.Counter(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.M))

    few = calls(FEW)
    each = {name: n / (MANY - FEW) for name, n in (calls(MANY) - few).items()}
    assert sum(each.values()) <= 30, each
    # (Traces are written now and then.)
    names = {name for name, n in each.items() if n > 0.1}
    assert names <= {"getcwd", "newfstatat", "stat", "futex", "getpid", "brk"}, each
    # HDF5 asks for each file that it creates or opens, the layer whenever HDF5 opens one, and once for the board.
    assert each["getcwd"] <= 2 + 3 + 1, each


@pytest.mark.parametrize("size", [KIB, MIB])
def test_a_warm_step_faults_no_page(tmp_path: Path, board: Board, program: Path, size: int) -> None:
    layer = board.environment(0, 0)
    ran = subprocess.run(
        [str(program), str(MANY), str(size)],
        cwd=tmp_path,
        env={**os.environ, **layer},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout.split(":")[1]) < MANY / 10


def test_a_program_looks_at_its_own_part_of_the_board(tmp_path: Path, program: Path) -> None:
    """Whether a run has few tasks or many: memory that each of many touches is mapped, and unmapped, by all of them."""

    def faults(tasks: int) -> int:
        board = Board.create(
            [BoardTask(f"loop-{k}", 1) for k in range(tasks)],
            [BoardPort(k, way, "step-*.h5") for k in range(tasks) for way in ("out", "in")],
            [BoardChannel(2 * k, 2 * k + 1, 1, 2, "block", 1) for k in range(tasks)],
            log=tmp_path / "layer.log",
        )
        try:
            environment = {**os.environ, **board.environment(tasks // 2, 0)}
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            subprocess.run([program, "4", "1024"], cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
        finally:
            board.remove()

    few = faults(2)
    assert faults(300) - few <= 40


def test_a_byte_is_copied_in_and_out(tmp_path: Path, board: Board, program: Path) -> None:
    """HDF5 copies some of its own at every step: that of small ones is the same."""

    def copied(size: int) -> int:
        few, many = (counted(tmp_path, program, "count_copies.c", steps, size, board) for steps in (FEW, MANY))
        return many - few

    assert (copied(MIB) - copied(KIB)) / (MANY - FEW) / (MIB - KIB) == pytest.approx(2, abs=0.01)


@pytest.mark.nightly
def test_what_will_be_written_in_parts_is_not_cleared(tmp_path: Path, board: Board) -> None:
    """Only blocks in which HDF5 writes a few bytes, of sixteen: the first, and the one around the end."""
    program = compiled(tmp_path, "step_in_columns.c", "h5cc", "-shlib")
    few, many = (counted(tmp_path, program, "count_cleared.c", steps, MIB, board) for steps in (FEW, MANY))
    few_plain, many_plain = (counted(tmp_path, program, "count_cleared.c", steps, MIB) for steps in (FEW, MANY))
    assert ((many - few) - (many_plain - few_plain)) / (MANY - FEW) <= MIB / 8


@pytest.mark.parametrize("where", ["stack", "heap"])
def test_of_a_small_buffer_nobody_asks_whether_it_is_on_a_device(tmp_path: Path, board: Board, where: str) -> None:
    """That takes a search for CUDA among the libraries of the process, a tenth of a call's time."""
    program = compiled(tmp_path, "call_often.c", "h5cc", "-shlib")
    few, many = (counted(tmp_path, program, "count_searches.c", calls, where, board) for calls in (FEW, MANY))
    assert few == many


def test_a_warm_step_allocates_little_more_than_a_file(tmp_path: Path, board: Board, program: Path) -> None:
    """Half of it is HDF5's own, for the property list that names the driver."""
    few, many = (counted(tmp_path, program, "count_allocations.c", steps, KIB, board) for steps in (FEW, MANY))
    few_plain, many_plain = (counted(tmp_path, program, "count_allocations.c", steps, KIB) for steps in (FEW, MANY))
    assert many_plain > few_plain
    assert ((many - few) - (many_plain - few_plain)) / (MANY - FEW) <= 26


@pytest.mark.nightly
@pytest.mark.needs("valgrind")
def test_of_many_datasets_the_layer_runs_few_instructions(tmp_path: Path, board: Board, program: Path) -> None:
    """HDF5 itself runs as many as without the layer: so a step is what it is with HDF5's own drivers."""

    def run(steps: int, environment: dict[str, str]) -> collections.Counter[str]:
        counts = tmp_path / "counts"
        words = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={counts}",
            str(program),
            str(steps),
            "1024",
            "1000",
        ]
        subprocess.run(words, cwd=tmp_path, env={**os.environ, **environment}, check=True, capture_output=True)
        told = subprocess.run(
            ["callgrind_annotate", "--threshold=100", str(counts)], capture_output=True, text=True, check=True
        )
        found: collections.Counter[str] = collections.Counter()
        for count, library in re.findall(r"^ *([\d,]+) \(.*\[.*/([^/]+)\]$", told.stdout, re.MULTILINE):
            found[library] += int(count.replace(",", ""))
        return found

    with_layer = run(6, board.environment(0, 0))
    with_layer.subtract(run(2, board.environment(0, 0)))
    without = run(6, {})
    without.subtract(run(2, {}))
    (hdf5,) = (name for name in without if name.startswith("libhdf5"))
    assert without[hdf5] > 4 * 10**7
    assert with_layer[hdf5] == pytest.approx(without[hdf5], rel=0.02)
    assert with_layer["libwilkins.so"] < 0.03 * without[hdf5]
