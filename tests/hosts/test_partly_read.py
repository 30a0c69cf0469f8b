"""Of a step that was made on another host, what is read crosses, and what was read of the last one comes along."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig

from support.hooks import LIBRARY, faults
from support.running import WILKINS, run_tree, write_program

pytestmark = pytest.mark.timeout(120)

PAIR = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", %(steps)d, %(size)d, 0], outports: [{filename: "f*.h5"%(out)s}]}
  - {func: ./read.py, args: [0, %(parts)d], inports: [{filename: "f*.h5"}]}
"""
MAKES = """#!{python}
import h5py, numpy
for step in range(12):
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["plain"] = numpy.arange(400000) + step
        values = (numpy.arange(500 * 1000).reshape(500, 1000) * 7919) % 10007 + step
        file.create_dataset("chunked", data=values, chunks=(50, 100))
        file.create_dataset("packed", data=values, chunks=(50, 100), compression="gzip", compression_opts=1)
"""
READS_SOME = """#!{python}
import random, sys
import h5py, numpy
drawn = random.Random(sys.argv[1])
for step in range(12):
    with h5py.File(f"f{{step}}.h5") as file:
        for _ in range(drawn.randrange(6)):
            if drawn.random() < 0.3:
                first = drawn.randrange(400000)
                assert file["plain"][first] == first + step
            name, row, column = drawn.choice(["chunked", "packed"]), drawn.randrange(450), drawn.randrange(900)
            got = file[name][row : row + 50, column : column + 100]
            rows, columns = numpy.arange(row, row + 50), numpy.arange(column, column + 100)
            assert numpy.array_equal(got, (rows[:, None] * 1000 + columns[None, :]) * 7919 % 10007 + step)
print("all right")
"""


def pair(steps: int, size: int, parts: int, out: str = "") -> str:
    return PAIR % {"steps": steps, "size": size, "parts": parts, "out": out}


def run(folder: Path, workflow: str, hosts: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    (folder / "workflow.yaml").write_text(workflow)
    words = [*WILKINS, "run", "--hosts", hosts, "workflow.yaml"]
    done = run_tree(words, 60, folder, {"WILKINS_RSH": str(pseudo.HERE), **(env or {})})
    assert done.code == 0, done.err
    crossing: dict[str, Any] = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())["crossings"][0]
    return crossing


@pytest.mark.usual("10")
@pytest.mark.parametrize("parts", [10, 3, 1])
def test_a_reader_of_a_part_moves_that_part(tmp_path: Path, parts: int) -> None:
    pseudo.programs(tmp_path)
    steps, learning = 24, 60
    crossing = run(tmp_path, pair(steps, 16_000_000, parts), "a:1,b:1")
    assert crossing["steps"] == steps
    assert 0.999 / parts <= crossing["moved"] / crossing["bytes"] <= 1.1 / parts
    # Once it is known what is read, all that comes with the step: nothing more is asked for.
    assert crossing["messages"] <= steps * (2 if parts == 1 else 3) + learning


READS_ANOTHER_PART = """#!{python}
import random
import h5py, numpy
for step in range(24):
    first = random.Random(step).randrange(1800000)
    with h5py.File(f"f{{step}}.h5") as file:
        assert numpy.array_equal(file["x"][first : first + 200000], numpy.arange(first, first + 200000))
"""


@pytest.mark.nightly
def test_a_reader_of_another_part_of_each_step_moves_that_part(tmp_path: Path) -> None:
    """What was read of one step is no reason to bring it of the next, if it was not read of that."""
    pseudo.programs(tmp_path)
    write_program(tmp_path / "read.py", READS_ANOTHER_PART.format(python=sys.executable))
    crossing = run(tmp_path, pair(24, 16_000_000, 1), "a:1,b:1")
    assert crossing["steps"] == 24
    assert crossing["moved"] <= 0.13 * crossing["bytes"]


READS_BY_THREADS = """#!{python}
import random, threading
import numpy
from mpi4py import MPI
for step in range(3):
    file, wrong = MPI.File.Open(MPI.COMM_SELF, f"f{{step}}.h5", MPI.MODE_RDONLY), []
    bytes_of = numpy.fromfile(f"f{{step}}.h5", numpy.uint8) if step == 2 else None
    def read(number):
        drawn, got = random.Random(number), numpy.empty(1000, numpy.uint8)
        for _ in range(3000):
            at = drawn.randrange(15000000)
            file.Read_at(at, got)
            if bytes_of is not None and (got != bytes_of[at : at + 1000]).any():
                wrong.append(at)
    threads = [threading.Thread(target=read, args=[number]) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    file.Close()
    assert not wrong
"""


@pytest.mark.nightly
@pytest.mark.needs("python:mpi4py")
def test_threads_that_read_by_one_handle(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    write_program(tmp_path / "read.py", READS_BY_THREADS.format(python=sys.executable))
    assert run(tmp_path, pair(3, 16_000_000, 1), "a:1,b:1")["steps"] == 3


def test_a_step_that_nobody_reads_stays_where_it_was_made(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    opens = "import h5py\nfor step in range(9):\n    h5py.File(f'f{step}.h5').close()\n"
    write_program(tmp_path / "read.py", f"#!{sys.executable}\n{opens}")
    crossing = run(tmp_path, pair(9, 8_000_000, 1), "a:1,b:1")
    assert crossing["steps"] == 9
    assert crossing["moved"] <= 0.02 * crossing["bytes"]


@pytest.mark.nightly
@pytest.mark.parametrize("library", ["installed", pytest.param("small", marks=pytest.mark.needs("hooks"))])
def test_readers_of_random_places_get_what_was_written(tmp_path: Path, library: str) -> None:
    """Two tasks on the host, of which each gets what the other one has brought; small: no step comes whole at once."""
    write_program(tmp_path / "makes.py", MAKES.format(python=sys.executable))
    write_program(tmp_path / "reads.py", READS_SOME.format(python=sys.executable))
    workflow = """
tasks:
  - {func: ./makes.py, outports: [{filename: "f*.h5"}]}
  - {func: ./reads.py, name: one, args: [one], inports: [{filename: "f*.h5"}]}
  - {func: ./reads.py, name: two, args: [two], inports: [{filename: "f*.h5"}]}
"""
    small = {"WILKINS_LIBRARY": str(LIBRARY)} if library == "small" else {}
    crossing = run(tmp_path, workflow, "a:1,b:2", small)
    for name in ("one", "two"):
        assert (tmp_path / f"wilkins-runs/latest/{name}.log").read_text() == "all right\n"
    assert crossing["moved"] < crossing["bytes"]


@pytest.mark.nightly
def test_little_memory_where_steps_are_made_suffices(tmp_path: Path) -> None:
    """Steps that are kept there because their names might be opened again go when the producer needs their memory."""
    pseudo.programs(tmp_path)
    crossing = run(tmp_path, pair(12, 8_000_000, 10, ", memory: 33MB"), "a:1,b:1")
    assert crossing["steps"] == 12


READS_TWICE = """#!{python}
import h5py
held = None
for step in range(6):
    before, held = held, h5py.File(f"f{{step}}.h5")
    if before:
        assert before["x"][7] == 7
        before.close()
try:
    h5py.File("f6.h5")
except FileNotFoundError:
    assert held["x"][1999990] == 1999990
    held.close()
    with h5py.File("f5.h5") as again:
        assert again["x"][1000000] == 1000000
    print("all right")
"""


@pytest.mark.nightly
def test_steps_can_be_read_after_the_end_of_the_stream(tmp_path: Path) -> None:
    """By a program that has one open still, and that opens it again, long after its producer has ended."""
    pseudo.programs(tmp_path)
    write_program(tmp_path / "read.py", READS_TWICE.format(python=sys.executable))
    crossing = run(tmp_path, pair(6, 16_000_000, 1), "a:1,b:1")
    assert (tmp_path / "wilkins-runs/latest/read.log").read_text() == "all right\n"
    # Four steps at most are kept where they were made: a program that comes late finds another one, of six, whole.
    assert crossing["moved"] <= (0.1 + 1 / 6) * crossing["bytes"]


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
def test_the_network_carries_a_tenth_for_a_reader_of_a_tenth(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(pair(20, 64_000_000, 10))
    with Rig(2) as rig:
        before = rig.traffic("node0")[0]
        words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
        done = run_tree(rig.on("node0", *words, folder=tmp_path), 60, tmp_path)
        sent = rig.traffic("node0")[0] - before
    assert done.code == 0, done.err
    print(f"node0 has sent {sent / (20 * 64e6):.1%} of the bytes of its steps, with all headers")
    assert sent <= 0.11 * 20 * 64_000_000


@pytest.mark.nightly
@pytest.mark.needs("hooks")
def test_a_step_that_is_published_late_stays_where_it_was_made(tmp_path: Path) -> None:
    """Its bytes are promised before it is published: the host that has them keeps them from then on."""
    pseudo.programs(tmp_path)
    reads = (
        "import h5py\nfor _ in range(9):\n    with h5py.File('f.h5') as file:\n        assert file['x'][-1] == 49999\n"
    )
    write_program(tmp_path / "read.py", f"#!{sys.executable}\n{reads}")
    workflow = pair(9, 400_000, 1, ", mode: file").replace("f{}.h5", "f.h5").replace("f*.h5", "f.h5")
    late = faults("task=write-from-a-0,seed=1,chance=0.3,delay=5ms")
    assert run(tmp_path, workflow, "a:1,b:1", late)["steps"] == 9
