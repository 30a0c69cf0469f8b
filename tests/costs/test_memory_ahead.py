"""Memory is ready before a step asks for it, by what the last run, the workflow file or the first step says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running import OWN_MOUNTS, WILKINS, run_tree, wait_for, write_program
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

MIB = 1 << 20
SHMEM = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")

WRITE = """
import glob, os, resource, sys, time
size, steps, wanted = map(int, sys.argv[1:])
data = b"x" * size
ready = lambda: sum(os.stat(path).st_blocks * 512 for path in glob.glob(os.environ["WILKINS_RUN"] + "/n*"))
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
until = time.monotonic() + 30
while ready() < wanted and time.monotonic() < until:
    time.sleep(0.01)
print("ready", ready())
for step in range(steps):
    before = faults()
    file = os.open(f"step-{step}.bin", os.O_CREAT | os.O_WRONLY)
    os.write(file, data)
    os.close(file)
    print("faults", faults() - before)
"""
READ = """
import sys
for step in range(int(sys.argv[2])):
    with open(f"step-{step}.bin", "rb") as file:
        assert file.read() == b"x" * int(sys.argv[1]), step
"""


def told(folder: Path, size: int, wanted: int, more: str = "") -> dict[str, list[int]]:
    """What the writer of two such steps says, which first waits for so much memory to be ready. `more`: of its task."""
    write_program(folder / "write.py", "#!/usr/bin/env python3\n" + WRITE)
    write_program(folder / "read.py", "#!/usr/bin/env python3\n" + READ)
    tasks = [
        f"{{func: ./write.py, args: ['{size}', '2', '{wanted}'], outports: [{{filename: 'step-*.bin'}}]{more}}}",
        f"{{func: ./read.py, args: ['{size}', '2'], inports: [{{filename: 'step-*.bin'}}]}}",
    ]
    (folder / "workflow.yaml").write_text("tasks:\n" + "".join(f"- {task}\n" for task in tasks))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, folder)
    assert ran.code == 0, ran.err
    said: dict[str, list[int]] = {}
    for line in (folder / "wilkins-runs" / "latest" / "write.log").read_text().splitlines():
        word, number = line.split()
        said.setdefault(word, []).append(int(number))
    return said


def has_huge_pages() -> bool:
    release = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    return release >= (6, 1) and SHMEM.exists() and "[deny]" not in SHMEM.read_text()


@pytest.mark.skipif(not has_huge_pages(), reason="no huge pages in shared memory here")
def test_the_second_run_of_a_workflow_finds_its_memory_ready(tmp_path: Path) -> None:
    """Its first step faults where its memory is mapped, a huge page at a time, and no more for each page."""
    size = 16 * MIB
    pages = size // os.sysconf("SC_PAGE_SIZE")
    first = told(tmp_path, size, 0)
    assert first["ready"] == [0] and first["faults"][0] >= pages
    sizes = json.loads((tmp_path / "wilkins-runs" / "latest" / "step-sizes.json").read_text())
    assert sizes == [{"task": "write", "port": "step-*.bin", "bytes": {"0": size}}]
    second = told(tmp_path, size, size)
    assert second["ready"] == [size]
    assert second["faults"][0] < pages / 2, "the kernel may refuse huge pages, if not many"


def test_a_run_of_small_steps_says_nothing_of_them(tmp_path: Path) -> None:
    told(tmp_path, MIB, 0)
    assert not (tmp_path / "wilkins-runs" / "latest" / "step-sizes.json").exists()
    (tmp_path / "wilkins-runs" / "latest" / "step-sizes.json").write_text("{")
    assert told(tmp_path, MIB, 0)["ready"] == [0], "what cannot be read is as if it were not there"


def test_the_first_run_goes_by_the_model(tmp_path: Path) -> None:
    assert told(tmp_path, 4 * MIB, 4 * MIB, ", model: {size: 4MiB}")["ready"] == [4 * MIB]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = stream(tmp_path)
    yield board
    board.remove()


def stream(folder: Path, cap: int = 0, path: Path | None = None) -> Board:
    """A run whose only task reads what it writes."""
    return Board.create(
        [BoardTask("loop", 1)],
        [BoardPort(task=0, direction="out", pattern="step-*.h5", cap_bytes=cap), BoardPort(0, "in", "step-*.h5")],
        [BoardChannel(0, 1, 1, 2, "block", 1)],
        log=folder / "layer.log",
        path=path,
    )


def ready(board: Board) -> list[int]:
    """Bytes that files of memory made ready take."""
    return sorted(path.stat().st_blocks * 512 for path in board.path.glob("n*"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names are all that is asked for


def test_it_ends_with_the_run_and_at_once(board: Board) -> None:
    before = threads()
    board.expect_step(0, 0, 1 << 40, 4)
    board.make_ready()
    wait_for(lambda: ready(board), 20, "some memory")
    board.end_ready()
    assert threads() == before
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert sum(ready(board)) < free, "a part of what is free, of which it was perhaps just at the beginning"


def test_nothing_is_made_ready_that_the_cap_forbids(tmp_path: Path) -> None:
    board = stream(tmp_path, cap=5 * MIB)
    try:
        board.expect_step(0, 0, 6 * MIB, 4)
        board.make_ready()
        wait_for(lambda: ready(board) == [5 * MIB], 20, "a part of a step")
        board.end_ready()
        assert ready(board) == [5 * MIB]
    finally:
        board.remove()


SMALL = f"""
import sys, time
from pathlib import Path
sys.path[:0] = [{str(Path(__file__).parents[1])!r}]
from costs.test_memory_ahead import ready, stream
folder = Path(sys.argv[1])
board = stream(folder)
board.expect_step(0, 0, 1 << 40, 4)
board.make_ready()
until = time.monotonic() + 1
while time.monotonic() < until:
    assert sum(ready(board)) <= 16 << 20, ready(board)
    time.sleep(0.02)
board.end_ready()
assert 15 << 20 <= sum(ready(board)), ready(board)
board.remove()
"""


@pytest.mark.needs("root", "unshare", "mount")
def test_most_of_a_small_shared_memory_is_left(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm; exec "$@"'
    words = [*OWN_MOUNTS, "bash", "-c", script, "bash", sys.executable, "-c", SMALL, str(tmp_path)]
    ran = run_tree(words, 60, tmp_path)
    assert ran.code == 0, ran.err


def test_of_one_step_there_is_no_more_memory_and_of_more_one_to_spare(tmp_path: Path, board: Board) -> None:
    """Many programs write one file: what is made ready beside it would be as large again."""
    board.expect_step(0, 0, 4 * MIB, 4)
    board.make_ready()
    wait_for(lambda: ready(board) == [4 * MIB], 20, "memory for a step")

    def write(step: int) -> None:
        lines = f"import os; f = os.open('step-{step}.h5', 65); os.write(f, b'x' * (4 << 20)); os.close(f)"
        environment = {**os.environ, **board.environment(0, 0)}
        subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, env=environment, check=True)

    write(0)
    assert board.largest_steps() == {0: {0: 4 * MIB}}
    assert ready(board) == [] and board.report().memory_bytes == 4 * MIB
    write(1)
    wait_for(lambda: ready(board) == [4 * MIB], 20, "one to spare")
    board.end_ready()
    assert board.report().memory_bytes == 12 * MIB
