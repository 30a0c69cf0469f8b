"""A program is a guest: without a matching port nothing about it changes, and with one, no file of its own does."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

PROGRAMS = Path(__file__).parents[1] / "programs" / "guest"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A run whose only port is `port.h5`, which the test's programs never name."""
    board = Board.create(
        [BoardTask("guest", 1), BoardTask("reader", 1)],
        [BoardPort(0, "out", "port.h5"), BoardPort(1, "in", "port.h5")],
        [BoardChannel(0, 1, 1, 2, "block", 1)],
        log=tmp_path / "layer.log",
    )
    yield board
    board.remove()


def compiled(folder: Path, source: str, *command: str) -> Path:
    """Build one of the C programs."""
    target = folder / Path(source).stem
    subprocess.run([*command, str(PROGRAMS / source), "-o", str(target)], check=True, cwd=folder)
    return target


@pytest.mark.needs("h5cc", "strace", "gcc")
def test_an_unmatched_call_makes_no_system_call_and_no_allocation(tmp_path: Path, board: Board) -> None:
    """Hundreds of HDF5 calls on a plain file cost, one more, exactly what they cost without the layer."""
    program = compiled(tmp_path, "open_often.c", "h5cc", "-shlib")
    counter = compiled(tmp_path, "count_allocations.c", "gcc", "-O2", "-shared", "-fPIC")
    layer = board.environment(0, 0)
    library = layer.pop("LD_PRELOAD")

    def cost(times: int, *preload: str, **env: str) -> tuple[int, int]:
        env = {**os.environ, **env}
        words = ["env", f"LD_PRELOAD={':'.join([str(counter), *preload])}", str(program), "plain.h5", str(times)]
        ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        found = re.search(r"allocations: (\d+)", ran.stderr)
        assert found
        words[1] = f"LD_PRELOAD={':'.join(preload)}"
        trace = tmp_path / "trace"
        subprocess.run(["strace", "-f", "-o", str(trace), *words], cwd=tmp_path, env=env, check=True)
        return int(found[1]), trace.read_text().count("(")

    cost(1)  # the file is there from now on
    few, many = cost(100), cost(300)
    few_layer, many_layer = cost(100, library, **layer), cost(300, library, **layer)
    assert many[0] > few[0] and many[1] > few[1]
    assert many_layer[0] - few_layer[0] == many[0] - few[0], "allocations"
    assert many_layer[1] - few_layer[1] == many[1] - few[1], "system calls"


def test_files_without_a_port_are_byte_identical(tmp_path: Path, board: Board) -> None:
    """A script that uses HDF5 in many ways writes and prints the same with the layer and without."""
    script = str(PROGRAMS / "plain.py")
    outcomes = []
    for name, env in (("alone", {}), ("guest", board.environment(0, 0))):
        folder = tmp_path / name
        folder.mkdir()
        ran = run_tree(["python3", script], 60, folder, env)
        assert ran.code == 7, ran.err
        written = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix == ".h5"}
        outcomes.append((ran.out, ran.err, written))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][2]) == 3
    assert not (tmp_path / "layer.log").exists()


def test_programs_stay_as_they_are_and_no_file_appears(tmp_path: Path) -> None:
    """After a run the programs have the checksums they had, and the folder holds only them and the run's records."""
    write_program(
        tmp_path / "make.py",
        "import os, h5py\nprint('run in', os.environ['WILKINS_RUN'])\nfor i in range(3):\n"
        "    with h5py.File(f'plt{i}.h5', 'w') as f:\n        f['x'] = list(range(i, i + 5))\n",
    )
    write_program(
        tmp_path / "use.py",
        "import h5py\nfor i in range(3):\n"
        "    with h5py.File(f'plt{i}.h5') as f:\n        assert list(f['x']) == list(range(i, i + 5))\n",
    )
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./make.py, nprocs: 1, outports: [{filename: 'plt*.h5'}]}\n"
        "- {func: ./use.py, nprocs: 1, inports: [{filename: 'plt*.h5'}]}\n"
    )
    before = {p.name: hashlib.sha256(p.read_bytes()).digest() for p in tmp_path.iterdir()}
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.err
    after = {p.name: hashlib.sha256(p.read_bytes()).digest() for p in tmp_path.iterdir() if p.is_file()}
    assert {name: digest for name, digest in after.items() if name in before} == before
    assert not list(tmp_path.rglob("*.h5"))
    assert not Path(re.search(r"run in (/dev/shm/wilkins-\S+)", ran.out)[1]).exists()  # type: ignore[index]
