"""Checkpoints of a stream: the program's own files, byte by byte, whole or not there, whoever is killed and when."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import waits
from support.kill_points import POINTS, kill_at
from support.running import WILKINS, Finished, mounted, must_run, processes_in, run_tree, started_tree, wait_for
from wilkins.cli import main
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.stream.task import store
from wilkins.tasks.checkpoint.stream.window import Held

KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "12"))
"""Random moments that are tried (`make soak`: more, and others)."""
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
SIMULATION = """
import os, signal, sys, time
import h5py, numpy as np
name, steps, size, pause, dies = sys.argv[1], *map(float, sys.argv[2:])
took = 0.0
os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
for step in range(int(steps)):
    began = time.monotonic()
    with h5py.File(name.format(step), "w") as file:
        file["u"] = np.full(int(size), step, "f8")
        file.create_dataset("packed", data=np.arange(5000) * step, compression="gzip", chunks=(100,))
        file.attrs["step"] = step
    took += time.monotonic() - began
    if step == dies:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(pause)
print(f"writing took {took:.3f} s")
"""
WORKFLOW = """
tasks:
  - name: simulation
    func: simulation.py
    args: [{name}, "{steps}", "{size}", "{pause}", "{dies}"]
    on_failure: {on_failure}
    outports: [{{filename: "{pattern}"}}]
  - func: wilkins.tasks.checkpoint
    inports: [{{filename: "{pattern}"}}]
    checkpoint: {options}
"""


class Case:
    """A simulation and its checkpoints, in a folder."""

    def __init__(self, folder: Path, name: str = "state.h5", steps: int = 10, size: int = 20_000) -> None:
        self.folder, self.name, self.steps, self.size = folder, name, steps, size
        (folder / "simulation.py").write_text(SIMULATION)

    def write(self, *, pause: float = 0.0, dies: int = -1, on_failure: str = "stop", **options: Any) -> list[str]:
        """The command that runs it."""
        text = WORKFLOW.format(
            name=json.dumps(self.name),
            pattern=re.sub(r"\{.*?\}", "*", self.name),
            steps=self.steps,
            size=self.size,
            pause=pause,
            dies=dies,
            on_failure=on_failure,
            options=json.dumps(options),
        )
        (self.folder / "workflow.yaml").write_text(text)
        return [*WILKINS, "run", "workflow.yaml"]

    def run(self, **settings: Any) -> Finished:
        return run_tree(self.write(**settings), 120, self.folder)

    def alone(self, steps: int) -> Path:
        """The folder in which the program has written its files by itself, the last of some steps."""
        folder = self.folder / f"alone-{steps}"
        folder.mkdir()
        must_run(folder, sys.executable, "../simulation.py", self.name, str(steps), str(self.size), "0", "-1")
        return folder


def kept(folder: Path) -> dict[int, tuple[str, bytes]]:
    """By number of the step: the name that the program gave it, and its bytes. All are whole, and `latest` is one."""
    found = {}
    for version in versions.versions(folder):
        with Contents(version.path) as contents:
            contents.verify()
            tree = dict(contents.index(0).tree["dict"])
        found[version.step] = tree["name"], (version.path / tree["file"]).read_bytes()
    latest = folder / "latest"
    assert (latest / "checkpoint.h5").exists() is bool(found)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] in ([], [".lock"])
    return found


@pytest.mark.usual("out/chk{:04.0f}.h5")
@pytest.mark.parametrize("name", ["state.h5", "out/chk{:04.0f}.h5"])
def test_files_are_those_that_the_program_writes(tmp_path: Path, name: str) -> None:
    """Rewritten names and numbered ones, with folders."""
    case = Case(tmp_path, name, steps=6)
    done = case.run(keep=9, when_full="block")
    assert done.code == 0, done.err
    assert "stored 6 of 6 steps, 0 left out; the newest is checkpoints/000006-step-5/checkpoint.h5" in done.out
    found = kept(tmp_path / "checkpoints")
    assert list(found) == list(range(6))
    for step, (told, data) in found.items():
        assert told == name.format(step)
        if "{" not in name:
            assert (case.alone(step + 1) / told).read_bytes() == data
    if "{" in name:
        alone = case.alone(6)
        assert all((alone / told).read_bytes() == data for told, data in found.values())
    assert not list(tmp_path.glob("*.h5"))
    assert main(["ckpt", "verify", str(tmp_path / "checkpoints")]) == 0


def test_which_steps_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every fourth and the last; the newest three stay. Another run goes on in the same folder."""
    case = Case(tmp_path, steps=11)
    for steps in ([4, 8, 10], [4, 8, 10]):
        done = case.run(every=4, keep=3, when_full="block")
        assert done.code == 0, done.err
        assert list(kept(tmp_path / "checkpoints")) == steps
    assert [one.name for one in versions.versions(tmp_path / "checkpoints")][-1] == "000008-step-10"
    assert main(["ckpt", "show", str(tmp_path / "checkpoints")]) == 0
    assert "checkpoint.h5: the program's state.h5" in capsys.readouterr().out
    assert main(["ckpt", "prune", str(tmp_path / "checkpoints"), "--keep", "1"]) == 0
    assert list(kept(tmp_path / "checkpoints")) == [10]


def test_by_time(tmp_path: Path) -> None:
    done = Case(tmp_path, steps=8, size=10).run(seconds="1h")
    assert done.code == 0, done.err
    assert list(kept(tmp_path / "checkpoints")) == [7]


@pytest.mark.usual("continue")
@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_what_is_in_memory_survives_the_simulation(tmp_path: Path, on_failure: str) -> None:
    """It is killed; its last whole file, which was not due, is on storage, however slowly storage was to be written."""
    case = Case(tmp_path, steps=20, size=100_000)
    done = case.run(dies=7, pause=0.01, on_failure=on_failure, every=1000, rate="100kB" if on_failure == "stop" else 0)
    assert done.code == 1
    assert "simulation: failed: killed by SIGKILL" in done.err
    found = kept(tmp_path / "checkpoints")
    assert max(found) == 7
    assert found[7][1] == (case.alone(8) / "state.h5").read_bytes()


def checkpoint_task(folder: Path) -> int:
    """The process of the task."""
    for pid in processes_in(folder):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if any(word.endswith(b"tasks/__main__.py") for word in words) and b"checkpoint" in words:
            return pid
    return 0


def run_of(pid: int) -> str:
    """The folder in shared memory of the run that a process belongs to."""
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(os.fsdecode(one.removeprefix(b"WILKINS_RUN=")) for one in words if one.startswith(b"WILKINS_RUN="))


@pytest.mark.usual("the run")
@pytest.mark.parametrize("whole", [True, False], ids=["the run", "the task"])
def test_asked_to_end(tmp_path: Path, whole: bool) -> None:
    """The newest step goes to storage before the end."""
    case = Case(tmp_path, steps=100_000, size=1000)
    with started_tree(case.write(pause=0.02, every=100_000, when_full="block"), tmp_path) as tree:
        wait_for(lambda: (tmp_path / "checkpoints" / "latest").exists(), 60, "the first checkpoint")
        waits.until_published(0, 5, run_of(checkpoint_task(tmp_path)))  # two may be queued: others are in its hands
        if not whole:
            os.kill(checkpoint_task(tmp_path), signal.SIGTERM)
            wait_for(lambda: checkpoint_task(tmp_path) == 0, 30, "the end of the task")
        tree.process.send_signal(signal.SIGTERM)
        assert tree.wait(30).code == 143
    found = kept(tmp_path / "checkpoints")
    assert max(found) > 0
    assert found[max(found)][1] == (case.alone(max(found) + 1) / "state.h5").read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", [True, False], ids=["the launcher", "the task"])
def test_killed_in_a_run(tmp_path: Path, launcher: bool) -> None:
    """What was stored is whole, and the next run goes on in the folder."""
    case = Case(tmp_path, steps=100_000, size=50_000)
    with started_tree(case.write(), tmp_path) as tree:
        wait_for(lambda: (tmp_path / "checkpoints" / "latest").exists(), 60, "the first checkpoint")
        if launcher:
            tree.process.kill()
        else:
            os.kill(checkpoint_task(tmp_path), signal.SIGKILL)
        code = tree.wait(30).code
        assert code == (-signal.SIGKILL if launcher else 1)
        wait_for(lambda: not processes_in(tmp_path), 30, "the end of all")
    with Contents((tmp_path / "checkpoints" / "latest").resolve()) as contents:
        contents.verify()
    case.steps = 3
    done = case.run()
    assert done.code == 0, done.err
    found = kept(tmp_path / "checkpoints")
    assert found[2][1] == (case.alone(3) / "state.h5").read_bytes()


@pytest.mark.nightly
def test_slow_storage_does_not_hold_the_program_up(tmp_path: Path) -> None:
    """Each file takes storage two seconds. What it cannot take in time is left out, never the last."""
    done = Case(tmp_path, steps=40, size=100_000).run(rate="400kB", keep=50)
    assert done.code == 0, done.err
    found = kept(tmp_path / "checkpoints")
    assert max(found) == 39
    said = re.search(r"stored (\d+) of 40 steps, (\d+) left out", done.out)
    assert said and int(said[1]) + int(said[2]) == 40 and int(said[2]) > 10
    took = re.search(r"writing took ([0-9.]+) s", done.out)
    assert took and float(took[1]) < 40, "80 s would have been waited for storage"


def test_a_program_that_may_wait_has_every_step_stored(tmp_path: Path) -> None:
    done = Case(tmp_path, steps=8, size=250_000).run(rate="4MB", keep=50, when_full="block")
    assert done.code == 0, done.err
    assert list(kept(tmp_path / "checkpoints")) == list(range(8))


@pytest.mark.nightly
@pytest.mark.needs("root")
def test_checkpoints_beyond_those_to_keep_make_room(tmp_path: Path) -> None:
    """Who lowers `keep` because the disk is full gets room: not only once a checkpoint more was stored."""
    with mounted(tmp_path / "checkpoints", "4m") as disk:
        case = Case(tmp_path, steps=5, size=70_000)
        assert case.run(when_full="block", keep=5).code == 0
        assert list(kept(disk)) == [0, 1, 2, 3, 4]
        with (disk / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * 4096)
        case.steps = 1
        done = case.run(when_full="block", keep=2)
        assert done.code == 0, done.out + done.err
        assert list(kept(disk)) == [4, 0]


def test_a_full_disk(tmp_path: Path) -> None:
    """Told at once; the run goes on, and fails if not even the last step is stored."""
    case = Case(tmp_path, steps=3, size=1000)
    assert case.run(when_full="block").code == 0
    before = kept(tmp_path / "checkpoints")
    case.size = 1_000_000
    command = case.write()
    text = (tmp_path / "workflow.yaml").read_text()
    limited = """    prefix: [sh, -c, 'ulimit -f 2000; exec "$@"', sh]\n    checkpoint:"""
    (tmp_path / "workflow.yaml").write_text(text.replace("    checkpoint:", limited))
    done = run_tree(command, 120, tmp_path)
    assert done.code == 1
    assert "the last step, state.h5, is not on storage: cannot write" in done.out + done.err
    assert "raise the limit" in done.out + done.err
    assert "writing took" in done.out
    assert kept(tmp_path / "checkpoints") == before


class InMemory:
    """A step's bytes in this process's memory."""

    def __init__(self, data: bytes) -> None:
        self.name, self.size, self.sequence = "out/state.h5", len(data), 0
        self._data = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self._data)

    def close(self) -> None:
        """It goes with the object."""


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 8 << 20, (8 << 20) + 1, (17 << 20) + 123])
def test_files_of_any_size_and_place_in_memory(tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    path = store(Held(InMemory(data), 3, True), tmp_path, "checkpoint.h5", Pace(None))
    assert path.read_bytes() == data
    assert kept(tmp_path) == {3: ("out/state.h5", data)}


def test_a_file_that_has_no_room_leaves_the_others_alone(tmp_path: Path) -> None:
    store(Held(InMemory(b"a" * 5000), 1, True), tmp_path, "checkpoint.h5", Pace(None))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    try:
        with pytest.raises(OSError) as met:
            store(Held(InMemory(bytes(9 << 20)), 2, True), tmp_path, "checkpoint.h5", Pace(None))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert met.value.errno == errno.EFBIG
    assert kept(tmp_path) == {1: ("out/state.h5", b"a" * 5000)}


STORING = """
import ctypes, sys
from pathlib import Path
from wilkins.tasks.checkpoint.storage.files import Pace, tidied
from wilkins.tasks.checkpoint.storage.clearing import recover
from wilkins.tasks.checkpoint.storage.locks import Lock
from wilkins.tasks.checkpoint.stream.task import store
from wilkins.tasks.checkpoint.stream.window import Held
class InMemory:
    name, size, sequence = "state.h5", 9 << 20, 0
    def __init__(self, step):
        self.data = ctypes.create_string_buffer(bytes([step % 251]) * self.size, self.size)
        self.address = ctypes.addressof(self.data)
folder = Path("checkpoints")
lock = Lock(folder)
recover(folder)
for step in range(int(sys.argv[1])):
    store(Held(InMemory(step), step, True), folder, "checkpoint.h5", Pace(None))
    tidied(folder, 2)
    print("stored", step, flush=True)
"""


@pytest.mark.usual("commit.renamed")
@pytest.mark.parametrize(
    "point",
    [
        *(point for point in POINTS if point.startswith(("flush.", "commit.", "prune.")) and point != "commit.voted"),
        *range(KILLS),
    ],
)
def test_killed_while_it_stores(tmp_path: Path, point: str | int) -> None:
    """At every point, and at random moments: what is told to be stored is, and all there is is whole."""
    command = [sys.executable, "-c", STORING]
    if isinstance(point, str):
        ended = run_tree([*command, "50"], 60, tmp_path, kill_at(point, 4))
        assert ended.code == -signal.SIGKILL
        out = ended.out
    else:
        with started_tree([*command, "100000"], tmp_path) as tree:
            wait_for(lambda: (tmp_path / "checkpoints" / "latest").exists(), 30, "the first checkpoint")
            time.sleep(random.Random(1000 * SEED + point).uniform(0, 0.4))
            tree.process.kill()
            out = tree.wait(10).out
    told = max((int(step) for step in re.findall(r"stored (\d+)\n", out)), default=-1)
    pointed = (tmp_path / "checkpoints" / "latest").resolve()
    with Contents(pointed) as contents:
        contents.verify()
    assert int(pointed.name.rpartition("-")[2]) >= told
    must_run(tmp_path, *command, "0")  # tidies
    found = kept(tmp_path / "checkpoints")
    assert max(found) >= told
    assert all(data == bytes([step % 251]) * (9 << 20) for step, (_, data) in found.items())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("checkpoint: {}", "checkpoint: {filename: state.h5}", "which would be a step then; give another, such as"),
        ("checkpoint: {}", "checkpoint: {filename: a/b.h5}", "'a/b.h5' cannot be the file's name; give a plain one"),
        (
            "checkpoint: {}",
            "checkpoint: {memory: 9}",
            "'memory' must be a whole number of 1 or more, not 9 (the most is 8)",
        ),
        ("checkpoint: {}", "nprocs: 2\n    checkpoint: {}", "has 2 ranks, and works on one; remove 'nprocs'"),
        ("checkpoint: {}", "taskCount: 2\n    checkpoint: {}", "write for example 'checkpoints/{instance}'"),
        ("checkpoint: {}", "outports: [{filename: x.h5}]\n    checkpoint: {}", "needs one in-port and no out-port"),
        ("state.h5", "m*", "'m*' matches 'manifest.json', which lies in it too; name it more closely"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    command = Case(tmp_path).write()
    text = (tmp_path / "workflow.yaml").read_text()
    (tmp_path / "workflow.yaml").write_text(text.replace(old, new))
    done = run_tree([*command[:-2], "check", "workflow.yaml"], 60, tmp_path)
    assert done.code == 2
    assert said in done.err


@pytest.mark.nightly
def test_instances_have_folders_of_their_own(tmp_path: Path) -> None:
    """One folder for two is refused, before anything is lost."""
    case = Case(tmp_path, "{}.h5", steps=3)
    command = case.write()
    text = (tmp_path / "workflow.yaml").read_text().replace("*.h5", "state.h5").replace('"{}.h5"', "state.h5")
    text = text.replace("    on_failure", "    taskCount: 2\n    on_failure")
    (tmp_path / "workflow.yaml").write_text(text)
    done = run_tree(command, 60, tmp_path)
    assert done.code == 1
    assert (
        "2 producers write 'state.h5', and a folder holds the checkpoints of one; give the task" in done.out + done.err
    )
    each = "    taskCount: 2\n    checkpoint: {folder: 'kept/{instance}', when_full: block, keep: 9}"
    (tmp_path / "workflow.yaml").write_text(text.replace("    checkpoint: {}", each))
    done = run_tree(command, 60, tmp_path)
    assert done.code == 0, done.err
    assert [list(kept(tmp_path / "kept" / instance)) for instance in "01"] == [[0, 1, 2]] * 2


@pytest.mark.nightly
@pytest.mark.needs("python:pyeclib")
def test_checkpoints_are_spread_over_places(tmp_path: Path) -> None:
    """The folder is lost, and a place: the program's file is made of pieces, and the next run goes on behind it."""
    case = Case(tmp_path, steps=4)
    storage = [{"path": f"places/{one}", "domain": f"host{one}", "space": "1GB", "write": "50MB"} for one in range(4)]
    settings: dict[str, Any] = {"keep": 2, "storage": storage, "reliability": 0.99}
    done = case.run(**settings)
    assert done.code == 0, done.said
    assert re.search(r"pieces on as many places, of which \d may be lost", done.out), done.out
    found = versions.versions(tmp_path / "checkpoints")
    newest = (found[-1].path / "checkpoint.h5").read_bytes()
    must_run(tmp_path, "rm", "-r", "checkpoints", "places/1")
    assert main(["ckpt", "fetch", str(tmp_path / "places" / "0"), str(tmp_path / "brought")]) == 0
    assert (tmp_path / "brought" / found[-1].name / "checkpoint.h5").read_bytes() == newest
    must_run(tmp_path, "mkdir", "places/1")
    done = case.run(**settings)
    assert done.code == 0, done.said
    assert versions.versions(tmp_path / "checkpoints")[-1].serial > found[-1].serial
    assert main(["ckpt", "repair", str(tmp_path / "checkpoints"), "--new", str(tmp_path / "places" / "1")]) == 0
    assert main(["ckpt", "verify", str(tmp_path / "checkpoints")]) == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"storage": [{"path": "a"}]}, "1 places; give 2 to 32"),
        ({"storage": [{"path": "a"}, {"path": "a"}]}, "each once"),
        ({"storage": [{"path": "a", "read": 0}, {"path": "b"}]}, "give positive numbers"),
        ({"storage": [{"space": "1GB"}, {"path": "b"}]}, "path"),
        ({"reliability": 1}, "no probability below 1"),
        ({"years": 0}, "no time"),
    ],
)
def test_places_that_cannot_be(
    tmp_path: Path, given: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Case(tmp_path).write(**given)
    assert main(["check", str(tmp_path / "workflow.yaml")]) != 0
    assert words in " ".join(capsys.readouterr().err.split())
