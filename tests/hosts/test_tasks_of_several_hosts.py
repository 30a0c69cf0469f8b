"""Tasks whose ranks are on several hosts: they write and read together, and by themselves, as on one."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support.running import WILKINS, Finished, processes_in, run_tree, started_tree, wait_for, write_program
from wilkins.launch.programs.process import members

pytestmark = [pytest.mark.timeout(150)]

HERE = Path(__file__).with_name("here")
EACH = """#!{python}
from mpi4py import MPI
import h5py
for step in range(4):
    with h5py.File(f"part{{step}}-{{MPI.COMM_WORLD.rank}}.h5", "w") as file:
        file["x"] = [step, MPI.COMM_WORLD.rank]
"""
ALL_PARTS = """#!{python}
import h5py
for step in range(4):
    for rank in range(3):
        with h5py.File(f"part{{step}}-{{rank}}.h5", "r") as file:
            assert list(file["x"]) == [step, rank]
print("read all parts", flush=True)
"""
TURNS = """#!{python}
import os
from mpi4py import MPI
import h5py
world = MPI.COMM_WORLD
for step in range(5):
    name = f"turns{{step}}.h5"
    for turn in range(world.size):
        if turn == world.rank:
            assert os.path.exists(name) == (turn > 0), name
            with h5py.File(name, "a") as file:
                assert sorted(file) == [f"rank{{rank}}" for rank in range(turn)]
                file[f"rank{{turn}}"] = [step, turn] * 5000
        world.barrier()
"""
ALL_TURNS = """#!{python}
import h5py
for step in range(5):
    with h5py.File(f"turns{{step}}.h5") as file:
        for rank in range(3):
            assert list(file[f"rank{{rank}}"][:2]) == [step, rank]
print("read all turns", flush=True)
"""
SERIAL = """#!{python}
import h5py
import numpy as np
step = 0
while True:
    try:
        file = h5py.File(f"out{{step:03d}}.h5", "r")
    except FileNotFoundError:
        break
    with file:
        x = file["x"][:].reshape({writers}, -1)
    assert np.array_equal(x, 1000 * step + np.arange(len(x))[:, None] + np.arange(x.shape[1]) / 2**20), step
    step += 1
print("serial:", step, "steps", flush=True)
"""


def on_this_machine(folder: Path, hosts: str, *options: str, environment: Mapping[str, str] | None = None) -> Finished:
    """A run with a keeper for each host, all on this machine."""
    environment = {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self", **(environment or {})}
    return run_tree([*WILKINS, "run", *options, "--hosts", hosts, "workflow.yaml"], 90, folder, env=environment)


def together(folder: Path, mpi: str, *, writers: str = "[2, 1, 1]", readers: str = "[0, 1, 2]", steps: int = 6) -> None:
    """Four ranks that write, three that read what they wrote, and one that reads it by itself."""
    program = build("together.c", *parallel_c(mpi, static=False))
    write_program(folder / "serial.py", SERIAL.format(python=sys.executable, writers=4))
    (folder / "workflow.yaml").write_text(
        f"""
tasks:
  - {{func: {program}, name: sim, nprocs: 4, args: [write, {steps}, 50000], placement: {writers},
      outports: [{{filename: "out*.h5"}}]}}
  - {{func: {program}, name: para, nprocs: 3, args: [read, 4], placement: {readers},
      inports: [{{filename: "out*.h5"}}]}}
  - {{func: ./serial.py, inports: [{{filename: "out*.h5"}}]}}
"""
    )


def all_have_read(finished: Finished, steps: int) -> None:
    assert finished.code == 0, finished.out + finished.err
    assert len(re.findall(rf"rank . of 4: {steps} steps", finished.out)) == 4
    assert len(re.findall(rf"rank . of 3: {steps} steps", finished.out)) == 3
    assert f"serial: {steps} steps" in finished.out
    rows = [line.split() for line in finished.err.splitlines() if re.match(r"(sim|para|serial) +[0-9]", line)]
    assert [row[4:6] for row in rows] == [[str(steps), "-"], ["-", str(steps)], ["-", str(steps)]], finished.err


@pytest.mark.usual("mpich")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_ranks_on_several_hosts_write_and_read_one_file(mpi: str, tmp_path: Path) -> None:
    together(tmp_path, mpi)
    all_have_read(on_this_machine(tmp_path, "a:4,b:4,c:4"), 6)


@pytest.mark.nightly
@pytest.mark.usual("[0, 2, 2]")
@pytest.mark.parametrize("writers", ["[1, 3]", "[0, 2, 2]", "[1, 1, 1, 1]"])
def test_wherever_they_are(writers: str, tmp_path: Path) -> None:
    """Rank 0, which keeps the file, is beside readers or away from them."""
    together(tmp_path, "mpich", writers=writers, readers="[2, 1]")
    all_have_read(on_this_machine(tmp_path, "a:4,b:4,c:4,d:4"), 6)


@pytest.mark.nightly
def test_ranks_write_files_of_their_own(tmp_path: Path) -> None:
    """What each host's ranks write gets to the reader, and the reader's end is that of all."""
    write_program(tmp_path / "each.py", EACH.format(python=sys.executable))
    write_program(tmp_path / "all.py", ALL_PARTS.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text(
        """
tasks:
  - {func: ./each.py, nprocs: 3, placement: [1, 1, 1], outports: [{filename: "part*.h5"}]}
  - {func: ./all.py, inports: [{filename: "part*.h5"}]}
"""
    )
    finished = on_this_machine(tmp_path, "a:1,b:2,c:1")
    assert finished.code == 0, finished.out + finished.err
    assert "read all parts" in finished.out


SAME = """#!{python}
from mpi4py import MPI
import h5py, time
world = MPI.COMM_WORLD
for step in range(3):
    turns = [{turns}]
    for turn in range(2):
        if turns[turn] in (world.rank, None):
            with h5py.File("same.h5", "w") as file:
                file["x"] = [step, world.rank]
                if turns[turn] is None:
                    world.barrier()
                    time.sleep(0.5)  # far longer than what is not known of the clocks
        world.barrier()
"""
READ_ALL = """#!{python}
import h5py
while True:
    try:
        with h5py.File("same.h5") as file:
            print("read", *file["x"], flush=True)
    except OSError:
        break
"""


@pytest.mark.nightly
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in turn"])
def test_ranks_on_two_hosts_create_one_name(at_once: bool, tmp_path: Path) -> None:
    """At one time, which is an error of the program, as on one machine; or one after the other, which is none."""
    turns = "None" if at_once else "step % 2, 1 - step % 2"
    text = SAME.format(python=sys.executable, turns=turns).replace("range(2)", "range(len(turns))")
    write_program(tmp_path / "same.py", text)
    write_program(tmp_path / "all.py", READ_ALL.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text(
        """
tasks:
  - {func: ./same.py, nprocs: 2, placement: [1, 1], outports: [{filename: same.h5}]}
  - {func: ./all.py, inports: [{filename: same.h5}]}
"""
    )
    finished = on_this_machine(tmp_path, "a:1,b:1,c:1")
    said = r"ranks 0 \(on a\) and 1 \(on b\) both create 'same.h5'; let each rank write a name of its own"
    told = re.sub(r"\n(wilkins:)? *", " ", finished.err)
    assert finished.code == int(at_once), finished.out + finished.err
    assert bool(re.search(said, told)) == at_once, told
    if not at_once:
        assert finished.out.count("read") == 6


@pytest.mark.nightly
def test_ranks_add_to_one_file_in_turn(tmp_path: Path) -> None:
    """Each opens by itself what ranks on other hosts have written, finds it there, and adds to it."""
    write_program(tmp_path / "turns.py", TURNS.format(python=sys.executable))
    write_program(tmp_path / "reader.py", ALL_TURNS.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text(
        """
tasks:
  - {func: ./turns.py, nprocs: 3, placement: [1, 1, 1], outports: [{filename: "turns*.h5", publish: 3}]}
  - {func: ./reader.py, inports: [{filename: "turns*.h5"}]}
"""
    )
    finished = on_this_machine(tmp_path, "a:1,b:2,c:1")
    assert finished.code == 0, finished.out + finished.err
    assert "read all turns" in finished.out
    assert re.search(r"^turns +3 +1 +done +5 ", finished.err, re.MULTILINE), finished.err


@pytest.mark.nightly
def test_a_program_of_several_hosts_that_reads_one_step_of_many_tasks_and_ends_is_no_success(tmp_path: Path) -> None:
    """On one machine it would be started for each."""
    write = "import h5py, sys\nfor n in range(4):\n    h5py.File(f'{sys.argv[1]}{n}.h5', 'w')['x'] = n\n"
    read = "from mpi4py import MPI\nimport h5py\nprint('read', h5py.File('s0.h5')['x'][()])\n"
    write_program(tmp_path / "write.py", f"#!{sys.executable}\n{write}")
    write_program(tmp_path / "read.py", f"#!{sys.executable}\n{read}")
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {func: ./write.py, args: [s], outports: [{filename: "s*.h5"}]}\n'
        '  - {func: ./write.py, args: [t], outports: [{filename: "t*.h5"}]}\n'
        '  - {func: ./read.py, nprocs: 2, inports: [{filename: "*.h5"}]}\n'
    )
    finished = on_this_machine(tmp_path, "a:2,b:1,c:1")
    assert finished.code == 1
    assert "read: has read one step of '*.h5' and ended, and 3 steps came after that" in finished.said


@pytest.mark.nightly
def test_a_port_that_no_rank_has_used_is_named(tmp_path: Path) -> None:
    """Most ranks never use a port, and no host alone can tell whether none of them has."""
    together(tmp_path, "mpich", steps=2)
    workflow = tmp_path / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace('outports: [{filename: "out*.h5"}]', "outports: [OUT, REST]"))
    workflow.write_text(workflow.read_text().replace("OUT, REST", '{filename: "out*.h5"}, {filename: "rest*.h5"}'))
    extra = '  - {func: ./rest.py, inports: [{filename: "rest*.h5"}]}\n'
    workflow.write_text(workflow.read_text() + extra)
    text = "import h5py\ntry:\n    h5py.File('rest0.h5')\nexcept FileNotFoundError:\n    pass\n"
    write_program(tmp_path / "rest.py", f"#!{sys.executable}\n{text}")
    finished = on_this_machine(tmp_path, "a:4,b:4,c:4")
    assert finished.code == 1
    assert "sim: ended without ever using its memory port 'rest*.h5' on any of its hosts" in finished.err


@pytest.mark.nightly
def test_steps_that_hosts_may_have_read_in_different_orders_are_an_error(tmp_path: Path) -> None:
    write = "from mpi4py import MPI\nimport h5py\nfor n in range(5):\n    h5py.File('same.h5', 'w')['x'] = n\n"
    read = "from mpi4py import MPI\nimport h5py\nfor n in range(10):\n    h5py.File('same.h5')['x'][()]\n"
    for name, text in (("write.py", write), ("read.py", read)):
        write_program(tmp_path / name, f"#!{sys.executable}\n{text}")
    (tmp_path / "workflow.yaml").write_text(
        """
tasks:
  - {func: ./write.py, nprocs: 2, placement: [1, 1], outports: [{filename: same.h5}]}
  - {func: ./read.py, nprocs: 2, placement: [1, 1], inports: [{filename: same.h5}]}
"""
    )
    finished = on_this_machine(tmp_path, "a:2,b:2")
    assert finished.code == 1
    assert "may have read the steps of 'same.h5' in different orders" in finished.err
    assert "were written on several hosts, too (a, b)" in finished.err


@pytest.mark.nightly
def test_many_such_tasks_start_at_once(tmp_path: Path) -> None:
    """On one host: the mpiexec of one executes what the others need, too."""
    task = '  - {func: "true", name: t%d, nprocs: 2, placement: [1, 1]}\n'
    (tmp_path / "workflow.yaml").write_text("tasks:\n" + "".join(task % number for number in range(12)))
    finished = on_this_machine(tmp_path, "a:12,b:12")
    assert finished.code == 0, finished.err


def last_rank(folder: Path) -> list[int]:
    """The program of the last writing rank."""
    found = [pid for pid in members("WILKINS_RANKS", "3:1") if pid in processes_in(folder)]
    return [pid for pid in found if Path(f"/proc/{pid}/exe").resolve().name == "together"]


@pytest.mark.nightly
def test_a_failing_rank_ends_all(tmp_path: Path) -> None:
    together(tmp_path, "mpich", steps=100000)
    environment = {**os.environ, "WILKINS_RSH": str(HERE)}
    words = [*WILKINS, "run", "--hosts", "a:4,b:4,c:4", "workflow.yaml"]
    with started_tree(words, tmp_path, env=environment) as tree:
        traces = tmp_path / "wilkins-runs" / "latest" / "hosts"
        wait_for(lambda: any("\tpublish\t" in one.read_text() for one in traces.glob("*/trace.tsv")), 60, "a step")
        os.kill(last_rank(tmp_path)[0], signal.SIGKILL)
        finished = tree.wait(60)
    assert finished.code == 1
    assert "sim: failed" in finished.err


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
def test_on_hosts_of_their_own(rig: Rig, tmp_path: Path) -> None:
    """Debian's MPICH 4.0 is asked below: across hosts it stands still in MPI_Finalize, without Wilkins too."""
    together(tmp_path, "openmpi")
    words = rig.on("node0", *WILKINS, "run", "--hosts", "node0:4,node1:4,node2:4", "workflow.yaml", folder=tmp_path)
    all_have_read(run_tree(words, 90, tmp_path), 6)
    for host in rig.names:
        assert not rig.shared_memory(host)


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
def test_a_task_that_stands_still_in_mpi_finalize_ends_while_a_reader_waits(rig: Rig, tmp_path: Path) -> None:
    """Debian's MPICH 4.0 does so in two runs of three; the reader waits for a step that may yet come."""
    program = build("together.c", *parallel_c("mpich", static=False))
    write_program(tmp_path / "serial.py", SERIAL.format(python=sys.executable, writers=4))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {program}, name: sim, nprocs: 4, args: [write, 6, 50000], placement: [2, 1, 1],
      outports: [{{filename: "out*.h5"}}]}}
  - {{func: ./serial.py, placement: [node2], inports: [{{filename: "out*.h5"}}]}}
""")
    words = rig.on("node0", *WILKINS, "run", "--hosts", "node0:4,node1:4,node2:4", "workflow.yaml", folder=tmp_path)
    for _ in range(4):
        finished = run_tree(words, 90, tmp_path)
        if finished.code != 0:
            assert finished.code == 4, finished.err
            assert (
                "processes of sim have done their work, and do not end: MPI_Finalize does not return" in finished.said
            )
        assert "rank 3 of 4: 6 steps" in finished.out
