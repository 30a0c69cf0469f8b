"""Programs take files in another order than they are written: nothing is lost, and no wait lasts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, Finished, run_tree, write_program

WRITE = """
import sys
for name in sys.argv[1:]:
    with open(name, "w") as file:
        file.write(name * 1000)
"""
READ = """
import sys
for name in sys.argv[1:]:
    try:
        with open(name) as file:
            text = file.read()
    except FileNotFoundError:
        print("missing", name, flush=True)
        continue
    print("read" if text == name * 1000 else "TORN", name, flush=True)
"""

Run = Callable[..., tuple[Finished, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a writer of files and a reader of them; what the reader has said of each."""

    def run_them(
        writes: str, reads: str, pattern: str = "s-*", port: str = "", code: int = 0
    ) -> tuple[Finished, list[str]]:
        write_program(tmp_path / "write.py", WRITE)
        write_program(tmp_path / "read.py", READ)
        ports = ", ".join(f"{{filename: '{one}'{{}}}}" for one in pattern.split())
        (tmp_path / "workflow.yaml").write_text(
            "tasks:\n"
            f"- {{name: sim, func: ./write.py, args: {writes}, outports: [{ports.replace('{}', '')}]}}\n"
            f"- {{name: ana, func: ./read.py, args: {reads}, inports: [{ports.replace('{}', port)}], rerun: never}}\n"
        )
        done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
        assert done.code == code, done.err
        return done, (tmp_path / "wilkins-runs" / "latest" / "ana.log").read_text().splitlines()

    return run_them


def names(*numbers: int, prefix: str = "s-") -> str:
    return " ".join(f"{prefix}{number}" for number in numbers)


def test_names_without_leading_zeros(run: Run) -> None:
    """`sorted(glob())` gives s-0, s-1, s-10, s-11, s-2: more lie between than the queue holds."""
    order = sorted(range(12), key=str)
    _, said = run(names(*range(12)), names(*order))
    assert said == [f"read s-{number}" for number in order]


def test_two_files_of_which_one_comes_more_often(run: Run) -> None:
    """Streams: the second file comes only after more of the first than its queue holds."""
    done, said = run("a b a a a a a b", "a b b a a a a a", "a b")
    assert said == [f"read {name}" for name in "abbaaaaa"]
    assert "stuck" not in done.err


def test_mesh_and_part_files_the_other_way_round(run: Run) -> None:
    files = [(f"mesh-{step}", f"part-{step}") for step in range(6)]
    written = [*(mesh for mesh, _ in files[:3]), *(part for _, part in files[:3])]
    written += [name for both in files[3:] for name in both]
    read = [name for mesh, part in files for name in (part, mesh)]
    _, said = run(" ".join(written), " ".join(read), "mesh-* part-*", ", queue: 1")
    assert said == [f"read {name}" for name in read]


def test_two_passes_over_all_files(run: Run) -> None:
    _, said = run(names(*range(8)), names(*range(8), *range(8)))
    assert said == [f"read s-{number}" for number in (*range(8), *range(8))]


def test_a_file_twice_while_its_writer_is_at_others(run: Run, tmp_path: Path) -> None:
    """A writer that waits for room for a part file begins no mesh file anew meanwhile: nothing is let go."""
    written = [f"{kind}-{number}" for kind in ("mesh", "part") for number in range(8)]
    read = [name for place in range(0, 16, 3) for name in reversed(written[place : place + 3]) for _ in range(2)]
    _, said = run(" ".join(written), " ".join(read), "mesh-* part-*", ", reorder: 4")
    assert said == [f"read {name}" for name in read]
    log = tmp_path / "wilkins-runs" / "latest" / "layer.log"
    assert not log.exists() or "let go" not in log.read_text()


NUMBERED = """
import sys
for number, name in enumerate(sys.argv[1:]):
    with open(name, "w") as file:
        file.write(str(number))
"""
FOLLOWED = """
import sys
for number, name in enumerate(sys.argv[1:]):
    with open(name) as file:
        print(name, file.read(), flush=True)
    with open(f"made-{number}", "w") as file:
        file.write(name)
"""
FOLLOWS = """
import sys
for number, name in enumerate(sys.argv[1:]):
    with open(f"made-{number}") as file:
        file.read()
    with open(name) as file:
        file.read()
"""


def test_names_that_repeat_while_their_writer_has_no_room_for_other_files(tmp_path: Path) -> None:
    """The writer waits for room for part files when mesh-0 is opened again: what it then writes is the next mesh-0."""
    numbers = [0, 1, 2, 0, 1, 2, 0]
    for name, program in (("write", NUMBERED), ("read", FOLLOWED), ("follow", FOLLOWS)):
        write_program(tmp_path / f"{name}.py", program)
    both = " ".join(f"part-{number} mesh-{number}" for number in numbers)
    meshes, parts = (" ".join(f"{kind}-{number}" for number in numbers) for kind in ("mesh", "part"))
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n- {{func: ./write.py, args: {both}, outports: [{{filename: 'mesh-*'}}, {{filename: 'part-*'}}]}}\n"
        f"- {{func: ./read.py, args: {meshes}, inports: [{{filename: mesh-*}}], outports: [{{filename: made-*}}]}}\n"
        f"- {{func: ./follow.py, args: {parts}, inports: [{{filename: 'made-*'}}, {{filename: 'part-*', queue: 1}}]}}\n"
    )
    done = run_tree([*WILKINS, "run", "--timeout", "30", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.err
    said = (tmp_path / "wilkins-runs" / "latest" / "read.log").read_text().splitlines()
    assert said == [f"mesh-{number} {2 * place + 1}" for place, number in enumerate(numbers)]


POLL_BY_RANKS = """
import glob, os, time
while not (len(glob.glob("s-?")) >= 6 if BY_LISTING else os.path.exists("s-4")):
    time.sleep(0.05)
print("there" if open("s-4").read() == "s-4" * 1000 else "TORN", flush=True)
"""


def test_ranks_that_all_list_until_there_are_enough(tmp_path: Path) -> None:
    """Each of them alone would keep no queue from growing: another rank might read."""
    write_program(tmp_path / "write.py", WRITE)
    write_program(tmp_path / "read.py", POLL_BY_RANKS.replace("BY_LISTING", "True"))
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n- {{func: ./write.py, args: {names(*range(6))}, outports: [{{filename: 's-*'}}]}}\n"
        f"- {{func: ./read.py, nprocs: 2, mpiexec: '{MPIEXEC}', rerun: never, enough: true,"
        " inports: [{filename: 's-*'}]}\n"
    )
    done = run_tree([*WILKINS, "run", "--timeout", "30", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("there") == 2


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_looks_at_a_file_that_only_one_rank_of_the_writer_can_still_write(tmp_path: Path) -> None:
    """The other one has ended: it is not waited for. Looks that do not wait wait once they are made for `poll_end`."""
    write_program(tmp_path / "write.py", SHARE)
    write_program(tmp_path / "read.py", POLL_BY_RANKS.replace("BY_LISTING", "False"))
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n- {{func: ./write.py, args: '{names(*range(6)).replace(' ', ',')} s-9', nprocs: 2,"
        f" mpiexec: '{MPIEXEC}', outports: [{{filename: 's-*'}}]}}\n"
        "- {func: ./read.py, rerun: never, enough: true,"
        " inports: [{filename: 's-*', looks: now, poll_end: 1s}]}\n"
    )
    done = run_tree([*WILKINS, "run", "--timeout", "30", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("there") == 1


def test_a_file_that_lies_too_far_ahead(run: Run, tmp_path: Path) -> None:
    """The oldest that nobody has had are let go, which is told, and the stream goes on."""
    done, said = run(names(*range(8)), names(6, 0, 5, 7), port=", reorder: 3")
    assert said == ["read s-6", "missing s-0", "read s-5", "read s-7"]
    log = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert "'s-0' (step 0) is let go" in log and "waits for 's-6'" in log and "longer 'reorder' than 3" in log
    assert "s-4" not in log
    assert done.code == 0


@pytest.mark.one_host("two queues and a relay hold steps for which one host has no room")
def test_streams_beyond_the_window_are_stopped(run: Run) -> None:
    """Nothing of a stream is let go."""
    done, _ = run("a a a a a a b", "b a", "a b", ", reorder: 4", code=4)
    assert "the run is stuck and was stopped" in done.err
    assert "queue" in done.err


def test_a_name_that_is_gone_ends_the_run(run: Run) -> None:
    """After many others the first one is asked for again, of which memory has let go."""
    done, said = run(names(*range(60)), names(*range(60), 0), port=", reorder: 0", code=1)
    assert said[:60] == [f"read s-{number}" for number in range(60)] and "missing s-0" not in said
    assert "'s-0' again" in " ".join(done.err.split()) and "mode: both" in done.err


SHARE = """
import os, sys
for name in sys.argv[int(os.environ.get("PMI_RANK", "0")) + 1].split(","):
    with open(name, "w") as file:
        file.write(name * 1000)
"""
SHARE_BY_CHILDREN = """
import subprocess, sys
for name in sys.argv[1].split(","):
    subprocess.run(["sh", "-c", f"yes {name} | head -c 5000 > {name}"], check=True)
"""
SHARE_UNTIL_FINALIZE = """
from mpi4py import MPI
""" + SHARE.replace('int(os.environ.get("PMI_RANK", "0"))', "MPI.COMM_WORLD.Get_rank()")
READ_ANY = """
import os, sys
for name in sys.argv[1:]:
    print("read" if os.path.exists(name) and open(name).read(3) == name else "missing", name, flush=True)
"""


def shared(folder: Path, program: str, shares: list[str], reads: str, port: str = "") -> list[str]:
    """Ranks write their shares of files, one reads them; what it has said. A wait that nobody ends, or somebody only
    after ten seconds without movement, is too long; between hosts, each queue takes some seconds to grow."""
    longest = "40" if "WILKINS_HOSTS" in os.environ else "9"
    write_program(folder / "write.py", program)
    write_program(folder / "read.py", READ_ANY)
    (folder / "workflow.yaml").write_text(
        "tasks:\n"
        f"- {{name: sim, func: ./write.py, args: {json.dumps(shares)}, nprocs: {len(shares)}, mpiexec: {MPIEXEC},"
        " outports: [{filename: 's-*'}]}\n"
        f"- {{name: ana, func: ./read.py, args: {reads}, inports: [{{filename: 's-*'{port}}}], rerun: never}}\n"
    )
    done = run_tree([*WILKINS, "run", "--timeout", longest, "workflow.yaml"], 60, folder)
    assert done.code == 0, done.err
    return (folder / "wilkins-runs" / "latest" / "ana.log").read_text().splitlines()


BY_MPI = pytest.param(SHARE_UNTIL_FINALIZE, marks=pytest.mark.needs("python:mpi4py"))


@pytest.mark.usual("ended", also_between_hosts=["in-finalize"])
@pytest.mark.parametrize("program", [SHARE, BY_MPI], ids=["ended", "in-finalize"])
def test_a_rank_that_has_ended_brings_nothing(tmp_path: Path, program: str) -> None:
    """It has ended, or is in MPI_Finalize, when another one waits for room, and the reader for that one's last file."""
    said = shared(tmp_path, program, ["s-0,s-1,s-2,s-3,s-4,s-5", "s-9"], names(5, 4, 3, 2, 1, 0, 9))
    assert said == [f"read s-{number}" for number in (5, 4, 3, 2, 1, 0, 9)]


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_look_for_what_a_rank_that_has_ended_did_not_write(tmp_path: Path) -> None:
    said = shared(tmp_path, SHARE, ["s-0,s-1,s-2,s-3", "s-4"], names(9, 0, 1, 2, 3, 4), ", reorder: 2")
    assert said == ["missing s-9", *(f"read s-{number}" for number in range(5))]


def test_files_that_children_write(tmp_path: Path) -> None:
    """Nobody is told that the parent waits for them; for a longer queue that need not be known."""
    said = shared(tmp_path, SHARE_BY_CHILDREN, ["s-0,s-1,s-2,s-3,s-4,s-5"], names(5, 4, 3, 2, 1, 0))
    assert said == [f"read s-{number}" for number in (5, 4, 3, 2, 1, 0)]


def test_a_wait_for_memory_lets_steps_of_another_rank_go(tmp_path: Path) -> None:
    write = """
import os, time
rank = os.environ["RANK"]
time.sleep(0.5 * int(rank))
for step in range(2 - int(rank)):
    with open(f"s-{rank}-{step}", "wb") as file:
        file.write(b"x" * 180000)
"""
    reads = READ.replace("text == name * 1000", "len(text) == 180000")
    write_program(tmp_path / "write.py", write)
    write_program(tmp_path / "read.py", reads)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        f"- {{name: sim, func: ./write.py, nprocs: 2, mpiexec: {MPIEXEC},\n"
        "   outports: [{filename: 's-*', memory: 400000}]}\n"
        "- {name: ana, func: ./read.py, args: [s-1-0, s-0-1], inports: [{filename: 's-*'}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    said = (tmp_path / "wilkins-runs" / "latest" / "ana.log").read_text()
    assert said.splitlines() == ["read s-1-0", "read s-0-1"]
