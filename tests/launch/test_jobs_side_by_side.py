"""One-job runs of one user at once, or after one that was killed: none reads, writes or removes what is another's."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.conftest import FAMILIES, Job

from support.running import WILKINS, Tree, processes_in, started_tree, wait_for, write_program
from wilkins.errors import ResourceError
from wilkins.launch.job import rendezvous
from wilkins.launch.job.rendezvous import Rendezvous
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardTask
from wilkins.transport.removal import remove_run, sweep

ALLOCATION = {"SLURM_JOB_ID": "4243"}

WORKFLOW = """\
tasks:
  - {name: produce, func: ./produce.py, args: ["VALUE"], outports: [{filename: "step*.h5"}]}
  - {name: read, func: ./read.py, inports: [{filename: "step*.h5"}]}
"""

PRODUCER = """\
import os, sys, time
from pathlib import Path
import h5py
def await_(name):
    until = time.monotonic() + 60
    while not Path(name).exists():
        assert time.monotonic() < until, name
        time.sleep(0.02)
value = int(sys.argv[1])
for step in range(4):
    with h5py.File(f"step{step}.h5", "w") as file:
        file["x"] = [value]
    if step == 1:
        Path(f"run-folder.{value}").write_text(os.environ["WILKINS_RUN"])
        await_(f"go.{value}")
        if Path(f"fail.{value}").exists():
            sys.exit(7)
"""

READER = """\
import h5py
step = 0
while True:
    with h5py.File(f"step{step}.h5", "r") as file:
        print("read", step, file["x"][0], flush=True)
    step += 1
"""


def _prepare(folder: Path, value: int, name: str = "w.yaml") -> None:
    folder.mkdir(exist_ok=True)
    write_program(folder / "produce.py", PRODUCER)
    write_program(folder / "read.py", READER)
    (folder / name).write_text(WORKFLOW.replace("VALUE", str(value)), encoding="utf-8")


def _read(folder: Path, value: int) -> str:
    """What the reader of the run that was given this value has read."""
    logs = [
        run / "read.log"
        for run in (folder / "wilkins-runs").iterdir()
        if f'"{value}"' in (run / "plan.json").read_text()
    ]
    return logs[0].read_text()


def _running(folder: Path, value: int, tree: Tree) -> Path:
    """The run's folder in shared memory, once its producer has written two steps."""
    note = folder / f"run-folder.{value}"
    wait_for(lambda: (note.is_file() and note.read_text()) or tree.process.poll() is not None, 60, "two steps")
    assert note.is_file(), tree.told()
    return Path(note.read_text())


@pytest.fixture(params=FAMILIES)
def job(request: pytest.FixtureRequest, mpiexec: str) -> Job:
    """Each MPI on this machine."""
    return Job(request.param, mpiexec)


@pytest.mark.usual("pypi-mpich")
def test_jobs_of_one_allocation(tmp_path: Path, job: Job) -> None:
    """A batch script starts two runs at once; one of them fails while the other goes on."""
    well, ill = tmp_path / "well", tmp_path / "ill"
    _prepare(well, 1)
    _prepare(ill, 2)
    (ill / "fail.2").touch()
    words = [*job.on(2), *WILKINS, "run", "w.yaml"]
    with started_tree(words, well, ALLOCATION) as good, started_tree(words, ill, ALLOCATION) as bad:
        own, other = _running(well, 1, good), _running(ill, 2, bad)
        assert own != other
        (ill / "go.2").touch()
        assert bad.wait(60).code == 1, bad.told()
        wait_for(lambda: not other.is_dir(), 10, "the end of the failed run's shared memory")
        assert own.is_dir()
        (well / "go.1").touch()
        assert good.wait(60).code == 0, good.told()
    assert _read(well, 1).startswith("".join(f"read {step} 1\n" for step in range(4)))
    assert "read 0 1" not in _read(ill, 2)
    assert not own.is_dir()


@pytest.mark.nightly
def test_jobs_in_one_folder(tmp_path: Path, job: Job) -> None:
    """The same program files and ports, started twice in the same folder."""
    _prepare(tmp_path, 1, "w1.yaml")
    _prepare(tmp_path, 2, "w2.yaml")
    (tmp_path / "fail.2").touch()
    for value in (1, 2):  # a `Tree` keeps what it prints in its folder
        (tmp_path / f"out{value}").mkdir()
    runs = [
        [*job.on(2), "/bin/sh", "-c", 'cd .. && "$@"; exit $?', "sh", *WILKINS, "run", f"w{value}.yaml"]
        for value in (1, 2)
    ]
    with (
        started_tree(runs[0], tmp_path / "out1", ALLOCATION) as good,
        started_tree(runs[1], tmp_path / "out2", ALLOCATION) as bad,
    ):
        try:
            own, other = _running(tmp_path, 1, good), _running(tmp_path, 2, bad)
            assert own != other
            (tmp_path / "go.2").touch()
            assert bad.wait(60).code == 1, bad.told()
            (tmp_path / "go.1").touch()
            assert good.wait(60).code == 0, good.told()
        finally:
            _end_all(tmp_path)
    assert _read(tmp_path, 1).startswith("".join(f"read {step} 1\n" for step in range(4)))
    assert "read 0 1" not in _read(tmp_path, 2)


@pytest.mark.usual("pypi-mpich")
def test_a_job_after_one_that_was_killed_with_its_guards(tmp_path: Path, job: Job) -> None:
    """What the killed job left is no obstacle to the next one, and is removed by it."""
    killed, next_one = tmp_path / "killed", tmp_path / "next"
    _prepare(killed, 1)
    _prepare(next_one, 2)
    words = [*job.on(2), *WILKINS, "run", "w.yaml"]
    with started_tree(words, killed, ALLOCATION) as tree:
        left = _running(killed, 1, tree)
        tree.process.kill()
        _end_all(killed)
        (next_one / "go.2").touch()
        with started_tree(words, next_one, ALLOCATION) as other:
            assert other.wait(60).code == 0, other.told()
    assert _read(next_one, 2).startswith("".join(f"read {step} 2\n" for step in range(4)))
    assert not left.is_dir()  # by that run, or by any other that a test beside this one has started meanwhile


def _end_all(folder: Path) -> None:
    """Kill everything that works in the folder, at one moment."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in processes_in(folder):
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(pid, number)
    wait_for(lambda: not processes_in(folder), 10, "the end of all processes")


STARTER = """\
import os, subprocess, sys
ranks = [
    subprocess.Popen(
        ["/bin/sh", "-c", '"$@"; exit $?', "sh", *sys.argv[1:]],
        env={**os.environ, "PMI_RANK": str(rank), "PMI_SIZE": "2"},
    )
    for rank in range(2)
]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.mark.nightly
def test_jobs_of_an_unknown_launcher_that_starts_ranks_through_shells(tmp_path: Path) -> None:
    """Neither the launcher nor its variables name the job; the process that started both ranks does."""
    well, ill = tmp_path / "well", tmp_path / "ill"
    for folder, value in ((well, 1), (ill, 2)):
        _prepare(folder, value)
        write_program(folder / "start.py", STARTER)
    (ill / "fail.2").touch()
    words = [WILKINS[0], "start.py", *WILKINS, "run", "w.yaml"]
    with started_tree(words, well, ALLOCATION) as good, started_tree(words, ill, ALLOCATION) as bad:
        own, other = _running(well, 1, good), _running(ill, 2, bad)
        assert own != other
        (ill / "go.2").touch()
        assert bad.wait(60).code == 1, bad.told()
        (well / "go.1").touch()
        assert good.wait(60).code == 0, good.told()
    assert _read(well, 1).startswith("".join(f"read {step} 1\n" for step in range(4)))


@pytest.fixture
def key() -> Iterator[str]:
    """A word that two jobs take for their own, and whose folder is removed at the end."""
    word = secrets.token_hex(12)
    yield word
    remove_run(Rendezvous(word, 0, 2).path)


def _board(path: Path) -> Board:
    return Board.create([BoardTask("a", 1)], [], [], log=Path(os.devnull), path=path)


def test_a_first_rank_leaves_the_folder_of_another_run_alone(key: str) -> None:
    """Whatever made two jobs take one name: the later one fails, says so, and does no harm, not even as it fails."""
    first, second, follower = (Rendezvous(key, rank, 2) for rank in (0, 0, 1))
    board = first.make(_board)
    first.open({"run": "first"})
    before = {file.name: file.read_bytes() for file in first.path.iterdir() if file.name != "board"}
    with pytest.raises(ResourceError, match="another run meets there"):
        second.make(_board)
    second.refuse(3)
    second.close(failed=True)
    assert {file.name: file.read_bytes() for file in first.path.iterdir() if file.name != "board"} == before
    assert follower.enter() == {"run": "first"}
    board.close()


def test_a_first_rank_that_loses_the_race_for_the_folder_leaves_it_alone(key: str) -> None:
    """The other run's folder appears between the look whether one is there and the making."""
    first, second = (Rendezvous(key, 0, 2) for _ in range(2))
    boards: list[Board] = []

    def late(path: Path) -> Board:
        boards.append(first.make(_board))
        return _board(path)

    with pytest.raises(OSError, match="not empty"):
        second.make(late)
    second.refuse(3)
    second.close(failed=True)
    assert sorted(file.name for file in first.path.iterdir()) == ["board"]
    assert not first.path.with_name(f"{first.path.name}.new").exists()
    boards[0].close()


def test_two_ranks_of_one_number_do_not_share_a_run(key: str) -> None:
    """A rank that has come to another job's run finds its place taken, and reads nothing."""
    leader, own, strange = (Rendezvous(key, rank, 2) for rank in (0, 1, 1))
    board = leader.make(_board)
    leader.open({"run": "first"})
    assert own.enter() == {"run": "first"}
    with pytest.raises(ResourceError, match=r"rank 1: .*another run meets there"):
        strange.enter()
    board.close()


KILLED = """\
import os, signal, sys
from pathlib import Path
from wilkins.launch.job import rendezvous
from wilkins.launch.job.rendezvous import Rendezvous
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardTask
rendezvous.SHARED_MEMORY = Path(sys.argv[2])
meeting = Rendezvous(sys.argv[1], 0, 2)
board = meeting.make(lambda path: Board.create([BoardTask("a", 1)], [], [], log=Path(os.devnull), path=path))
meeting.open({"run": "killed"})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nobody_enters_what_a_killed_run_has_left(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the job's own name, as of a job that a scheduler starts again under its old number."""
    monkeypatch.setattr(rendezvous, "SHARED_MEMORY", tmp_path)  # other runs sweep the real one
    subprocess.run([sys.executable, "-c", KILLED, key, str(tmp_path)], cwd=tmp_path, timeout=60, check=False)
    leader, follower = (Rendezvous(key, rank, 2) for rank in (0, 1))
    assert (leader.path / "job.json").is_file()
    monkeypatch.setattr(rendezvous, "_PATIENCE", 0.1)
    with pytest.raises(ResourceError, match="did not set up the run"):
        follower.enter()
    assert leader.path in sweep(tmp_path)
    board = leader.make(_board)
    leader.open({"run": "next"})
    assert follower.enter() == {"run": "next"}
    assert follower.leader_lives()
    board.close()


SWEEP = """
import os, sys
from pathlib import Path
from wilkins.transport.removal import sweep
sys.stdin.read(1)
sweep(Path(sys.argv[1]))
"""


def test_runs_that_sweep_the_same_at_once(tmp_path: Path) -> None:
    """What one of them has removed is nothing to the others: a run that began beside another one ended so."""
    for number in range(600):
        folder = tmp_path / f"wilkins-{os.getuid()}-{number:016x}"
        folder.mkdir()
        (folder / "board").touch()
    command = [sys.executable, "-c", SWEEP, str(tmp_path)]
    sweepers = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for sweeper in sweepers:
        assert sweeper.stdin is not None
        sweeper.stdin.write("x")
        sweeper.stdin.flush()
    told = [sweeper.communicate(timeout=60)[1] for sweeper in sweepers]
    assert told == [""] * len(sweepers)
    assert not list(tmp_path.iterdir())
