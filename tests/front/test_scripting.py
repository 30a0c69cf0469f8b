"""Workflows and runs as objects of Python."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import wilkins
from support.running import must_run, processes_in, write_program
from wilkins import Run, Workflow
from wilkins.errors import TaskFailed, UsageError, WorkflowError

WRITE = """\
import h5py, sys
for step in range(int(sys.argv[1])):
    with h5py.File(f"out{step}.h5", "w") as file:
        file["x"] = [step] * 10
"""
READ = """\
import h5py, itertools
total = 0
for step in itertools.count():
    try:
        with h5py.File(f"out{step}.h5") as file:
            total += int(file["x"][:].sum())
    except OSError:
        break
print("total", total, flush=True)
"""
ENDLESS = """\
import h5py, itertools, time
for step in itertools.count():
    with h5py.File(f"out{step}.h5", "w") as file:
        file["x"] = [step]
    time.sleep(0.02)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a producer of so many steps, an endless one, and a reader of all steps there are."""
    for name, text in (("write.py", WRITE), ("read.py", READ), ("endless.py", ENDLESS)):
        write_program(tmp_path / name, text)
    return tmp_path


def pair(folder: Path, steps: int = 5, mode: str = "memory") -> Workflow:
    workflow = Workflow("pair", folder)
    workflow.task("./write.py", args=[str(steps)], outports=[{"filename": "out*.h5", "mode": mode}])
    return workflow.task("./read.py", inports=["out*.h5"])


def endless(folder: Path) -> Workflow:
    return Workflow("endless", folder).task("./endless.py", outports=["out*.h5"]).task("./read.py", inports=["out*.h5"])


def test_a_plan_is_printed_as_by_the_command(folder: Path) -> None:
    workflow = pair(folder)
    shown = must_run(folder, sys.executable, "-m", "wilkins", "plan", str(workflow.save().name))
    assert f"{workflow.plan()}\n" == shown
    assert "write -> read  out*.h5" in shown


def test_a_workflow_runs_and_tells_of_itself(folder: Path) -> None:
    run = pair(folder).run()
    assert (run.code, run.log("read")) == (0, "total 100\n")
    assert [(task["name"], task["outcome"], task["produced"]) for task in run.tasks] == [
        ("write", "done", 5),
        ("read", "done", 0),
    ]
    (channel,) = run.channels
    assert (channel["published"], channel["read"], channel["unread"]) == (5, 5, 0)
    assert run.seconds is not None and run.seconds > 0
    assert [event.name for event in run.events if event.event == "publish"] == [f"out{step}.h5" for step in range(5)]
    assert [task.name for task in run.timeline().tasks] == ["write", "read"]
    assert run.path.parent == folder / "wilkins-runs"
    assert Run(folder / "wilkins-runs" / "latest").path == run.path
    assert [one.path for one in wilkins.runs(folder / "wilkins-runs")] == [run.path]
    assert run.files() == []


def test_the_file_that_is_written_is_what_the_command_runs(folder: Path) -> None:
    workflow = pair(folder, 3)
    path = workflow.save()
    assert path == folder / "pair.yaml"
    content = yaml.safe_load(path.read_text())
    assert content["tasks"][0] == {
        "func": "./write.py",
        "args": ["3"],
        "outports": [{"filename": "out*.h5", "mode": "memory"}],
    }
    must_run(folder, sys.executable, "-m", "wilkins", "run", "--quiet", "pair.yaml")
    assert Run(folder / "wilkins-runs" / "latest").log("read") == "total 30\n"
    assert yaml.safe_load(workflow.to_yaml()) == content


def test_a_file_of_somebody_else_is_not_overwritten(folder: Path) -> None:
    (folder / "pair.yaml").write_text("tasks: []\n")
    with pytest.raises(UsageError, match=r"pair.yaml: no Workflow has written this file, so it is not overwritten"):
        pair(folder).run()
    assert (folder / "pair.yaml").read_text() == "tasks: []\n"


def test_a_file_is_loaded_and_stays_as_it_is(folder: Path) -> None:
    text = "# mine\nparameters: {steps: {default: 2}}\n" + pair(folder, 2).to_yaml().replace("'2'", '"${steps}"')
    (folder / "own.yaml").write_text(text)
    workflow = Workflow.load(folder / "own.yaml")
    assert workflow.run().log("read") == "total 10\n"
    assert workflow.set(steps=4).run().log("read") == "total 60\n"
    assert [task.nprocs for task in workflow.set(**{"read.nprocs": 3, "read.mpiexec": "mpiexec"}).plan().tasks] == [
        1,
        3,
    ]
    assert (folder / "own.yaml").read_text() == text == workflow.to_yaml()
    with pytest.raises(UsageError, match="gets no tasks"):
        workflow.task("./more.py")


def test_other_values_leave_the_workflow_as_it_was(folder: Path) -> None:
    workflow = pair(folder)
    other = workflow.set(**{"read.taskCount": 2})
    assert len(other.plan().tasks) == 3
    assert len(workflow.plan().tasks) == 2
    assert sorted(other.graph().nodes) == ["read[0]", "read[1]", "write"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"nproc": 2}, r"the task './a.py' has no key 'nproc'; did you mean 'nprocs'\?"),
        (
            {"outports": [{"filname": "a.h5"}]},
            r"a port of the task './a.py' has no key 'filname'; did you mean 'filename'",
        ),
    ],
)
def test_a_misspelt_key_is_told_at_once(keys: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Workflow().task("./a.py", **keys)  # type: ignore[arg-type]


def test_a_wrong_value_is_told_with_its_place_in_the_file(folder: Path) -> None:
    with pytest.raises(WorkflowError, match=r"pair.yaml:\d+:\d+: .*'nprocs' must be a whole number"):
        pair(folder).task("./read.py", name="more", nprocs="two", inports=["out*.h5"]).check()


def test_a_run_that_fails_says_what_the_launcher_said(folder: Path) -> None:
    write_program(folder / "bad.py", "raise SystemExit(3)\n")
    workflow = Workflow("bad", folder).task("./bad.py")
    with pytest.raises(TaskFailed, match=r"exit code 1:\n(.*\n)*wilkins: bad: failed: exit code 3"):
        workflow.run()
    assert workflow.run(check=False).code == 1
    with pytest.raises(TaskFailed, match=r"exit code 4:\n(.*\n)*.*longer than --timeout 1 s"):
        endless(folder).run(timeout=1)


def test_a_run_that_cannot_begin_leaves_nothing(folder: Path) -> None:
    with pytest.raises(WorkflowError, match=r"there is no program './none.py'"):
        Workflow("none", folder).task("./none.py").run()
    with pytest.raises(UsageError, match="--timeout must be a time") as told:
        pair(folder).run(timeout="soon")
    assert "wilkins: error" not in str(told.value)
    assert list((folder / "wilkins-runs").iterdir()) == []


def test_a_run_beside_the_script(folder: Path) -> None:
    running = endless(folder).start()
    with pytest.raises(TimeoutError):
        running.wait(0.5)
    snapshot = running.progress(30)
    assert snapshot is not None, running.messages
    assert [task.name for task in snapshot.tasks] == ["endless", "read"]
    assert running.code is None
    assert "goes on" in repr(running)
    running.stop()
    assert running.code == 130
    assert running.wait(check=False).code == 130
    assert running.progress() is None
    assert processes_in(folder) == []


@pytest.mark.nightly
def test_runs_at_once(folder: Path) -> None:
    async def all_of() -> list[Run]:
        others = [pair(folder, steps) for steps in (2, 3, 4)]
        for number, workflow in enumerate(others):
            workflow.name = f"pair{number}"
        return await asyncio.gather(*(one.start() for one in others))

    began = time.monotonic()
    assert [run.log("read") for run in asyncio.run(all_of())] == ["total 10\n", "total 30\n", "total 60\n"]
    assert time.monotonic() - began < 60


@pytest.mark.needs("python:pandas")
def test_tables_and_files(folder: Path) -> None:
    run = pair(folder, 4, mode="both").run()
    assert list(run.frame("tasks")["name"]) == ["write", "read"]
    assert list(run.frame("channels")["read"]) == [4]
    events = run.frame("events")
    assert list(events[events.event == "open"].sequence) == [0, 1, 2, 3]
    assert events.seconds.iloc[0] == 0
    assert events.seconds.is_monotonic_increasing
    assert [path.name for path in run.files()] == [f"out{step}.h5" for step in range(4)]
    assert run.files("read") == []
    with pytest.raises(UsageError, match="the run has no task 'reed'; it has write, read"):
        run.log("reed")


def test_a_notebook_shows_the_graph(folder: Path) -> None:
    assert repr(pair(folder)) == "<workflow pair: 2 tasks>"
    picture = pair(folder)._repr_svg_()
    assert picture.startswith("<svg")
    assert "write" in picture


def test_no_such_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=r"latest: there is no run; wilkins.runs\(\) lists those of a folder"):
        Run()


def test_the_package_names_what_it_has() -> None:
    """For completion, without importing it."""
    words = "import sys, wilkins; print(dir(wilkins)); print([name for name in sys.modules if 'scripting' in name])"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "'Workflow'" in said[0]
    assert said[1] == "[]"
