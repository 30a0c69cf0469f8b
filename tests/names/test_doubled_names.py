"""One name from two producers: a reader that asks for it by name is told who they are, never given one by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, Finished, run_tree, write_program

COMMON = """\
import os, pathlib, sys, time
import h5py
HOME = pathlib.Path(__file__).parent

def wait_for(*flags):
    until = time.monotonic() + 60
    while not all((HOME / flag).exists() for flag in flags):
        if time.monotonic() > until:
            sys.exit(f"nobody has set {flags}")
        time.sleep(0.01)

def read(name):
    with h5py.File(name) as file:
        return file["by"].asstr()[()]

"""
WRITE = (
    COMMON
    + """\
tag, flag, *names = sys.argv[1:]
for name in names:
    if flag != "-":
        wait_for(flag)
    with h5py.File(name, "w") as file:
        file["by"] = f"{tag} {name}"
(HOME / f"{tag}.written").touch()
"""
)
BY_NAME = """\
wait_for("a.written", "b.written")
print("read", read("s0.h5"))
"""
BY_NAME_EARLY = """\
print("read", read("s0.h5"))
(HOME / "read").touch()
"""
IN_ORDER = """\
from wilkins.transport import steps
wait_for("a.written", "b.written")
for name in steps.names():
    assert os.path.exists(name)
    print("read", read(name), read(name))
"""
ONE_OF_EACH = """\
wait_for("a.written", "b.written")
print("read", read("s1.h5"))
print("read", read("s2.h5"))
"""
ONCE = """\
wait_for("a.written", "b.written")
print("read", read(sys.argv[1]), read(sys.argv[1]))
"""
JOBS = pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "3")], ids=["alone", "one job"])
MODES = pytest.mark.parametrize("mode", ["memory", "both", "file"])


def run(folder: Path, tasks: str, reader: str, job: tuple[str, ...] = ()) -> Finished:
    """Run a workflow of writers, each in its own folder, and this reader."""
    for task in ("a", "b"):
        (folder / "runs" / task / "out").mkdir(parents=True)
    write_program(folder / "write.py", WRITE)
    write_program(folder / "ana.py", COMMON + reader)
    (folder / "workflow.yaml").write_text(f"tasks:\n{tasks}")
    return run_tree([*job, *WILKINS, "run", "workflow.yaml"], 120, folder)


def write(task: str, words: str, mode: str = "memory", more: str = "") -> str:
    """A task that writes files; the first of its `words` are its tag, and what it waits for."""
    port = f"outports: [{{filename: 's*.h5', mode: {mode}}}]"
    return f"  - {{name: {task}, func: ./write.py, cwd: 'runs/{task}', args: [{words}], {port}{more}}}\n"


def ana(mode: str = "memory", more: str = "") -> str:
    """The task that reads."""
    return f"  - {{name: ana, func: ./ana.py, inports: [{{filename: 's*.h5', mode: {mode}}}]{more}}}\n"


def read(folder: Path) -> list[str]:
    """What the reader has read."""
    lines = (folder / "wilkins-runs" / "latest" / "ana.log").read_text().splitlines()
    return [line.removeprefix("read ") for line in lines if line.startswith("read ")]


def both_of(finished: Finished, one: str, other: str) -> str:
    """How two tasks are named; between hosts, the steps of either may come first."""
    named = f"task '{one}' and task '{other}'"
    return named if named in finished.err else f"task '{other}' and task '{one}'"


@pytest.mark.usual("memory-alone", also_between_hosts=["both-one job", "file-alone"])
@JOBS
@MODES
def test_two_tasks_have_published_the_name(
    tmp_path: Path, job: tuple[str, ...], mode: str, between_hosts: bool
) -> None:
    tasks = write("a", "a, '-', s0.h5", mode) + write("b", "b, '-', s0.h5", mode) + ana(mode)
    finished = run(tmp_path, tasks, BY_NAME, job)
    assert finished.code == 1, finished.out + finished.err
    assert f"'ana' asks for 's0.h5' by name, which {both_of(finished, 'a', 'b')} have both published" in finished.err
    assert "give each a name of its own" in finished.err
    assert "wilkins.transport.steps.names" in finished.err
    assert read(tmp_path) == [] or between_hosts  # what is published on one host is not yet there on another


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize(
    ("job", "mode"), [((), "memory"), ((MPIEXEC, "-n", "3"), "both"), ((), "file")], ids=["memory", "both", "file"]
)
def test_the_second_task_publishes_the_name_when_it_was_read(tmp_path: Path, job: tuple[str, ...], mode: str) -> None:
    tasks = write("a", "a, '-', s0.h5", mode) + write("b", "b, read, s0.h5", mode) + ana(mode)
    finished = run(tmp_path, tasks, BY_NAME_EARLY, job)
    assert finished.code == 1, finished.out + finished.err
    assert f"'ana' asks for 's0.h5' by name, which {both_of(finished, 'a', 'b')} have both published" in finished.err


def test_two_instances_of_an_ensemble(tmp_path: Path) -> None:
    writer = write("sim", "[a, b], '-', s0.h5", more=", taskCount: 2").replace("runs/sim", "runs/{instance}")
    finished = run(tmp_path, writer + ana(), BY_NAME)
    assert finished.code == 1, finished.out + finished.err
    assert f"{both_of(finished, 'sim[0]', 'sim[1]')} have both published" in finished.err


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_two_patterns_of_different_depth(tmp_path: Path) -> None:
    tasks = write("a", "a, '-', s0.h5") + write("b", "b, read, out/s0.h5").replace("'s*.h5'", "'out/s*.h5'")
    finished = run(tmp_path, tasks + ana(), BY_NAME_EARLY)
    assert finished.code == 1, finished.out + finished.err
    assert f"{both_of(finished, 'a', 'b')} have both published" in finished.err


@pytest.mark.nightly
@pytest.mark.also_between_hosts
@pytest.mark.needs(MPIEXEC)
def test_two_ranks_one_after_the_other(tmp_path: Path, between_hosts: bool) -> None:
    """The second writes the name when the reader is done with the first's, so that nothing else tells the two apart."""
    ranks = """\
rank = os.environ["PMI_RANK"]
if rank == "1":
    wait_for("read")
for name in ["s0.h5", "s1.h5"] if rank == "0" else ["s0.h5"]:
    with h5py.File(name, "w") as file:
        file["by"] = rank
"""
    write_program(tmp_path / "ranks.py", COMMON + ranks)
    writer = "  - {name: sim, func: ./ranks.py, nprocs: 2, outports: [{filename: 's*.h5'}]}\n"
    finished = run(tmp_path, writer + ana(), 'read("s0.h5"), read("s1.h5")\n(HOME / "read").touch()\n')
    assert finished.code == 1, finished.out + finished.err
    both = "task 'sim on h1' and task 'sim on h2'" if between_hosts else "ranks 0 and 1 of task 'sim'"
    assert f"{both} have both published" in finished.err


@pytest.mark.usual("memory-alone", also_between_hosts=["file-one job"])
@JOBS
@MODES
def test_a_reader_in_order_gets_both(tmp_path: Path, job: tuple[str, ...], mode: str) -> None:
    tasks = write("a", "a, '-', s0.h5, s1.h5", mode) + write("b", "b, '-', s0.h5, s1.h5", mode) + ana(mode)
    finished = run(tmp_path, tasks, IN_ORDER, job)
    assert finished.code == 0, finished.out + finished.err
    assert sorted(read(tmp_path)) == [f"{by} {name} {by} {name}" for by in "ab" for name in ("s0.h5", "s1.h5")]


def test_names_that_only_one_task_publishes(tmp_path: Path) -> None:
    tasks = write("a", "a, '-', s0.h5, s1.h5") + write("b", "b, '-', s0.h5, s2.h5") + ana()
    finished = run(tmp_path, tasks, ONE_OF_EACH)
    assert finished.code == 0, finished.out + finished.err
    assert read(tmp_path) == ["a s1.h5", "b s2.h5"]


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_program_that_is_started_for_each_file(tmp_path: Path) -> None:
    """It opens its file twice, and must get the same one both times."""
    tasks = write("a", "a, '-', s0.h5, s1.h5") + write("b", "b, '-', s0.h5, s1.h5")
    finished = run(tmp_path, tasks + ana(more=", args: ['{filename}']"), ONCE)
    assert finished.code == 0, finished.out + finished.err
    assert sorted(read(tmp_path)) == [f"{by} {name} {by} {name}" for by in "ab" for name in ("s0.h5", "s1.h5")]
