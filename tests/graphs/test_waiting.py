"""Waiting: it costs nothing, it ends with the stream, and waits that nothing can end are reported, not sat through."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, Finished, run_tree, write_program

LOOP = """
import h5py
while True:
    with h5py.File("out.h5") as f:
        print("read", f["x"][()])
"""

MEASURED = """
import time
begin, cpu = time.monotonic(), time.process_time()
{}
print("CPU", time.process_time() - cpu, "of", time.monotonic() - begin)
"""


def workflow(
    folder: Path, producer: str, consumer: str, *, pattern: str = "out.h5", nprocs: int = 1, timeout: float = 60
) -> Finished:
    """Run two scripts joined by one port."""
    write_program(folder / "produce.py", producer)
    write_program(folder / "consume.py", consumer)
    (folder / "workflow.yaml").write_text(
        f"tasks:\n- {{func: ./produce.py, nprocs: {nprocs}, outports: [{{filename: '{pattern}'}}]}}\n"
        f"- {{func: ./consume.py, nprocs: 1, inports: [{{filename: '{pattern}'}}]}}\n"
    )
    return run_tree([*WILKINS, "run", "workflow.yaml"], timeout, folder)


def writes(steps: int, name: str = "'out.h5'", before: str = "") -> str:
    return (
        f"import h5py, time\nfor i in range({steps}):\n    {before or 'pass'}\n"
        f"    with h5py.File({name}, 'w') as f:\n        f['x'] = i\n"
    )


@pytest.mark.bench
def test_waiting_ten_seconds_costs_ten_milliseconds(tmp_path: Path) -> None:
    """Both ways: a consumer that waits for data, a producer that waits for room."""
    consumer = "import h5py\n" + MEASURED.format("f = h5py.File('out.h5')")
    ran = workflow(tmp_path, writes(1, before="time.sleep(10)"), consumer)
    assert ran.code == 0, ran.err
    used, waited = (float(word) for word in ran.out.split("CPU ")[1].split("\n")[0].split(" of "))
    assert waited > 8 and used < 0.010, (used, waited)

    producer = writes(2) + MEASURED.format("f = h5py.File('out.h5', 'w')") + "f['x'] = 2\n"
    ran = workflow(tmp_path, producer, "import time, h5py\ntime.sleep(11)\n" + LOOP)
    assert ran.code == 0, ran.err
    used, waited = (float(word) for word in ran.out.split("CPU ")[1].split("\n")[0].split(" of "))
    assert waited > 8 and used < 0.010, (used, waited)


def test_an_endless_loop_is_a_good_consumer(tmp_path: Path) -> None:
    """The open after the last step fails as for a missing file; the run succeeds."""
    ran = workflow(tmp_path, writes(4), LOOP)
    assert ran.code == 0, ran.err
    assert [line.split("| ")[1] for line in ran.out.splitlines() if "read" in line] == [f"read {i}" for i in range(4)]
    assert "FileNotFoundError" in ran.out


def test_a_name_never_produced_while_the_producer_waits(tmp_path: Path) -> None:
    """The producer's steps are let go until it ends, which is told; then the file is missing."""
    ran = workflow(tmp_path, writes(20, "f'plt{i}.h5'"), "import h5py\nh5py.File('plt99.h5')\n", pattern="plt*.h5")
    assert ran.code == 1, ran.err
    log = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert log.count("is let go") == 20 - 16
    assert "'plt0.h5' (step 0) is let go" in log and "its rank 0 waits for 'plt99.h5'" in log


def test_a_name_unlike_all_that_are_written(tmp_path: Path) -> None:
    """A cycle of waits: exit 4, and the message says who waits for whom and for which file."""
    ran = workflow(tmp_path, writes(20, "f'plt{i}.h5'"), "import h5py\nh5py.File('plot.h5')\n", pattern="pl*.h5")
    assert ran.code == 4, ran.err
    assert "'consume' rank 0 waits for 'plot.h5'" in ran.err and "'produce' rank 0 waits for room" in ran.err


@pytest.mark.usual("adds")
@pytest.mark.parametrize("first", ["adds", "reads"])
def test_a_reader_that_adds_to_a_file_of_its_own(tmp_path: Path, first: str) -> None:
    """Its name fits the pattern of the in-port, but is unlike all that are written."""
    adds = "open('pltlog.txt', 'a').write(f'{k} ')\n"
    reads = "h5py.File(f'plt{k}.h5').close()\n"
    body = "    ".join([adds, reads] if first == "adds" else [reads, adds])
    reader = f"import h5py\nfor k in range(20):\n    {body}"
    ran = workflow(tmp_path, writes(20, "f'plt{i}.h5'"), reader, pattern="plt*")
    assert ran.code == 0, ran.out + ran.err
    assert (tmp_path / "pltlog.txt").read_text() == "".join(f"{k} " for k in range(20))
    assert "not read" not in ran.err


def test_a_name_never_produced_by_a_producer_that_ends(tmp_path: Path) -> None:
    ran = workflow(tmp_path, writes(2, "f'plt{i}.h5'"), "import h5py\nh5py.File('plt99.h5')\n", pattern="plt*.h5")
    assert ran.code == 1, ran.err
    assert "plt99.h5" in ran.out + ran.err


def test_a_producer_that_never_writes(tmp_path: Path) -> None:
    ran = workflow(tmp_path, "print('nothing')\n", LOOP)
    assert ran.code == 1
    assert "produce" in ran.err and "'out.h5'" in ran.err


@pytest.mark.needs("python:mpi4py")
def test_two_ranks_that_create_one_name(tmp_path: Path) -> None:
    """The error names both ranks and the file."""
    producer = (
        "import h5py\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\nworld.Barrier()\n"
        "with h5py.File('out.h5', 'w') as f:\n    f['x'] = 1\n    world.Barrier()\n"
    )
    ran = workflow(tmp_path, producer, LOOP, nprocs=2)
    assert ran.code == 1
    said = [line for line in ran.err.splitlines() if "both create" in line]
    assert said and "ranks" in said[0] and "0" in said[0] and "1" in said[0] and "out.h5" in said[0], ran.err
