"""Workflows whose programs fail, once or as often as asked, and what has to come of them, however launched."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, Finished, Tree, processes_in, run_tree, started_tree

LIMIT = 120
MOMENTS = int(os.environ.get("WILKINS_TEST_KILLS", "1"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))

DIES = """\
import os
def dies(who, step, how):
    "Ends the program, once, or as often as the variable says that names it."
    wanted, _, times = os.environ.get("DIE_" + who, "-1:1").partition(":")
    if step != int(wanted):
        return
    with open(f"died-{who}", "a+") as told:
        told.seek(0)
        if len(told.read()) >= int(times or 1):
            return
        told.write("x")
    if how == "kill":
        os.kill(os.getpid(), 9)
    os._exit(3)
"""
SIMULATE = """\
import os, sys, time
import h5py
import numpy as np
from dies import dies
first, last = 0, int(os.environ.get("STEPS", "12"))
if len(sys.argv) > 1:
    with h5py.File(sys.argv[1]) as file:
        first = int(file.attrs["step"])
print("begins at", first, flush=True)
for step in range(first, last):
    time.sleep(float(os.environ.get("PAUSE", "0")))
    dies("before", step, "kill")
    with h5py.File(f"plt{step:04}.h5", "w") as file:
        file["u"] = np.full(1000, float(step))
        dies("simulate", step, "kill")
    if step % 4 == 3:
        with h5py.File(f"chk{step + 1:04}.h5", "w") as file:
            file.attrs["step"] = step + 1
"""
FILTER = """\
import h5py
from dies import dies
from wilkins.transport import steps
for name in steps.names("plt*.h5"):
    with h5py.File(name) as file:
        value = file["u"][0]
        dies("open", value, "exit")
    dies("closed", value, "exit")
    with h5py.File(name.replace("plt", "out"), "w") as file:
        file["v"] = 2 * value
        dies("writing", value, "exit")
    dies("written", value, "exit")
    print("did", int(value), flush=True)
"""
SINK = """\
import sys
import h5py
from wilkins.transport import steps
pattern = sys.argv[1] if len(sys.argv) > 1 else "out*.h5"
for name in steps.names(pattern):
    with h5py.File(name) as file:
        value = file["v" if "v" in file else "u"]
        print("got", name, float(value[()] if value.shape == () else value[0]), flush=True)
"""
ONE = """\
import sys
import h5py
from dies import dies
with h5py.File(sys.argv[1]) as file:
    value = file["u"][0]
dies("one", value, "exit")
with open("one.txt", "a") as told:
    print(int(value), file=told)
"""
TRAIN = """\
import json, sys
import h5py
from dies import dies
from wilkins.transport import steps
total = count = 0
if len(sys.argv) > 1:
    with open(sys.argv[1]) as file:
        total, count = json.load(file)
for name in steps.names("plt*.h5"):
    with h5py.File(name) as file:
        value = int(file["u"][0])
    dies("train", value, "exit")
    total, count = total + value, count + 1
    if count % 3 == 0:
        with open(f"state{count:04}.json", "w") as file:
            json.dump([total, count], file)
print("total", total, count)
"""
TRAINED = """\
  - func: train.py
    inports: [{filename: "plt*.h5"}]
    restart: {files: "state*.json", args: ["{file}"]}
"""
PROGRAMS = {"dies": DIES, "simulate": SIMULATE, "filter": FILTER, "sink": SINK, "one": ONE, "train": TRAIN}
SIMULATION = """\
  - func: simulate.py
    outports: [{filename: "plt*.h5"}]
"""
RESTART = "    on_failure: restart\n    retry_delay: 50ms\n"
CHECKPOINTS = '    restart: {files: "chk*.h5", args: ["{file}"]}\n'
FILTERED = """\
  - func: filter.py
    inports: [{filename: "plt*.h5"}]
    outports: [{filename: "out*.h5"}]
"""
LAST = """\
  - func: sink.py
    inports: [{filename: "out*.h5"}]
"""
READER = """\
  - func: sink.py
    args: ["plt*.h5"]
    inports: [{filename: "plt*.h5"}]
"""


RUN = (*WILKINS, "run")


def job(ranks: int) -> tuple[str, ...]:
    """What starts a workflow as one MPI job."""
    return (MPIEXEC, "-n", str(ranks), *RUN)


def alone_and_in_a_job(ranks: int) -> pytest.MarkDecorator:
    """The test with a `command` that starts a workflow by itself, and one that starts it as a job of so many ranks."""
    marks = [pytest.mark.needs(MPIEXEC), pytest.mark.one_host("an MPI job brings its hosts along")]
    in_a_job = pytest.param(job(ranks), id="job", marks=marks)
    return pytest.mark.parametrize("command", [pytest.param(RUN, id="alone"), in_a_job])


def prepare(folder: Path, workflow: str) -> None:
    """The programs, and the file."""
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "workflow.yaml").write_text("tasks:\n" + workflow)


def run(folder: Path, workflow: str, command: Sequence[str] = RUN, **env: str) -> Finished:
    """Run it to its end. `command`: that starts it."""
    prepare(folder, workflow)
    return run_tree(command, LIMIT, folder, env)


def got(done: Finished) -> list[float]:
    """What the last task has read, in order."""
    return [float(value) for value in re.findall(r"got \S+ (\S+)", done.out)]


def summary(folder: Path) -> dict[str, dict[str, object]]:
    told = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())
    return {task["name"]: task for task in told["tasks"]}


def steps(count: int = 12, factor: float = 1.0) -> list[float]:
    return [factor * step for step in range(count)]


# Killed from outside.

MATRIX = (
    SIMULATION
    + CHECKPOINTS
    + "    ON_FAILURE\n"
    + FILTERED
    + "    restart: each-step\n    ON_FAILURE\n"
    + LAST
    + "    ON_FAILURE\n"
    + '  - func: one.py\n    args: ["{filename}"]\n    inports: [{filename: "plt*.h5"}]\n    ON_FAILURE\n'
    + TRAINED
    + "    ON_FAILURE\n"
)
NAMES = ("simulate", "filter", "sink", "one", "train")


@contextlib.contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    before = set(Path("/dev/shm").iterdir())
    yield
    assert processes_in(folder) == []
    left = [path for path in set(Path("/dev/shm").iterdir()) - before if path.name.startswith("wilkins-")]
    assert not [path for path in left if path.exists() and str(folder).encode() in _board(path)]


def _board(run: Path) -> bytes:
    try:
        return (run / "board").read_bytes()
    except OSError:
        return b""


def pids_of(tree: Tree, number: int) -> list[int]:
    """The processes of a task."""
    found = []
    for pid in processes_in(tree.folder):
        with contextlib.suppress(OSError):
            coupled = b"WILKINS_TASK=" in Path(f"/proc/{pid}/environ").read_bytes()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if coupled and any(word.endswith(f"/{NAMES[number]}.py".encode()) for word in words):
                found.append(pid)
    return found


def kill(tree: Tree, number: int, after_s: float) -> bool:
    """Kill a task's program at a moment of the run; whether it was still there."""
    until = time.monotonic() + after_s
    while tree.process.poll() is None:
        pids = pids_of(tree, number) if time.monotonic() >= until else []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def killed_at_random_moments(
    tmp_path: Path,
    policy: str,
    number: int,
    command: Callable[[Path], Sequence[str]] = lambda _: RUN,
    clean: Callable[[Path], contextlib.AbstractContextManager[None]] = nothing_left,
    *,
    goes_back: bool = True,
) -> None:
    """Kill a task of runs from outside, each at another moment, and see to it that all is as it has to be.

    Args:
        command: that starts a run in a folder.
        clean: sees to it that the run has left nothing.
        goes_back: a run in which one task cannot go back by itself goes on by itself.
    """
    rng = random.Random(f"{SEED} {policy} {number}")
    name, killed = NAMES[number], 0
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        more = "\n    retry_delay: 20ms" if policy == "restart" else ""
        prepare(folder, MATRIX.replace("ON_FAILURE", f"on_failure: {policy}{more}"))
        after_s = rng.uniform(0.2, 2.5)
        with clean(folder), started_tree(command(folder), folder, {"PAUSE": "0.05"}) as tree:
            was_killed = kill(tree, number, after_s)
            done = tree.wait(LIMIT)
            told = f"{policy}, {name} after {after_s:.3f} s, seed {SEED}\n{tree.told()}"
        said = done.said
        if not was_killed or f"{name}: failed" not in said:  # it was at its end
            assert done.code == 0, told
            continue
        killed += 1
        if not goes_back and "cannot be started again by itself" in said:
            assert done.code == 1 and "to go on with this run: mpiexec" in said, told
            continue
        assert re.search(rf"{name}: failed( at its \w+ start)?: (killed by SIGKILL|exit code 137)", said), told
        assert done.code == (0 if policy == "restart" else 1), told
        outcomes = {one: task["outcome"] for one, task in summary(folder).items()}
        if policy == "restart":
            assert set(outcomes.values()) <= {"done", "ended at end of stream"}, told
            _all_there(folder, name, told)
        else:
            assert outcomes[name] == "failed", told
        if policy == "continue":
            others = {one: outcome for one, outcome in outcomes.items() if one != name}
            assert not {"stopped", "not started"} & set(others.values()), told
    print(f"{policy}, {name}: killed {killed} times in {MOMENTS} runs")
    assert killed or MOMENTS < 5


def _all_there(folder: Path, name: str, told: str) -> None:
    """Every step reached every task once; only what keeps a state of its own, or no rule, may miss the one at hand."""
    logs = {log.stem: "" for log in folder.glob("wilkins-runs/workflow-*/*.log")}
    for log in sorted(folder.glob("wilkins-runs/workflow-*/*.log")):
        logs[log.stem] += log.read_text()
    got = re.findall(r"got out(\d+)\.h5", logs["sink"])
    whole = [f"{step:04}" for step in range(12)]
    if name == "sink":  # the next step
        assert len(set(whole) - set(got)) <= 1, told
    else:
        assert sorted(set(got)) == whole, told
    if len(list(folder.glob("wilkins-runs/workflow-*"))) == 1:
        assert got == sorted(set(got)), told
        handled = sorted(map(int, (folder / "one.txt").read_text().split()))
        assert set(handled) == set(range(12)), told
        assert len(handled) <= 12 + (name == "one"), told  # it may have been at the end of its step
    assert f"total {sum(range(12))} 12" in logs["train"], told
