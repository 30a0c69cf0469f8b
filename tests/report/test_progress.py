"""How far a run is: lines that rewrite themselves, a line a minute, and `wilkins top` from another terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from report.endless import READ as FOLLOW
from report.endless import WRITE

from support.running import MPIEXEC, WILKINS, started_tree, wait_for, write_program
from support.terminals import Screen, at_terminal
from wilkins.terminal.progress import History, Snapshot, TaskNow, cells, from_json, sentence

LATEST = Path("wilkins-runs/latest")
WORKFLOW = """\
tasks:
  - {func: ./write.py, outports: [{filename: "step*.h5"}]}
  - {func: ./read.py, inports: [{filename: "step*.h5"}]}
  - {func: ./follow.py, taskCount: 2, inports: [{filename: "step*.h5"}]}
"""
READ = FOLLOW.replace("break", "break\n    print('read', step, flush=True)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a workflow that goes on until there is a file `enough`."""
    for name, text in (("write.py", WRITE), ("read.py", READ), ("follow.py", FOLLOW)):
        write_program(tmp_path / name, text)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


def task(name: str, steps: int, **more: object) -> TaskNow:
    known = {"ranks": 1, "state": "running", "bytes": 1000 * steps, "queued": 0, "pid": 0}
    known |= {"doing": "computes", "since_s": 0.0, "entry": name.partition("[")[0], **more}
    return TaskNow(name=name, steps=steps, **known)  # type: ignore[arg-type]


def test_rates_are_those_of_the_last_seconds() -> None:
    history = History()
    for second in range(21):
        steps = min(second, 10) + 100 * max(second - 10, 0)
        history.add(Snapshot(float(second), 0, (task("a", steps),)))
    ((name, ranks, steps_, per_second, bytes_, queued, last, now),) = cells(history)
    assert (name, ranks, steps_, queued, last, now) == ("a", "1", "1010", "0", "now", "computes")
    assert (per_second, bytes_) == ("100", "100 kB")


def test_a_task_whose_last_step_was_before_all_looks() -> None:
    history = History()
    for second in range(13):
        steps = 5 + (second >= 4)
        history.add(Snapshot(float(second), 0, (task("old", 3), task("new", steps), task("none", 0))))
    assert [(row[0], row[3], row[6]) for row in cells(history)] == [
        ("old", "-", "> 12 s ago"),
        ("new", "-", "8 s ago"),
        ("none", "-", "-"),
    ]


def test_an_ensemble_shares_a_line() -> None:
    history = History()
    waits = {"doing": "waits for a.h5, on b", "since_s": 12.3}
    for second in range(2):
        tasks = [task(f"e[{place}]", 2 * second + place, **(waits if place else {})) for place in range(3)]
        history.add(Snapshot(float(second), 0, tuple(tasks)))
    assert list(cells(history)) == [
        ("e x 3", "3", "2 to 4", "6", "6 kB", "0", "now", "1 computes, 2 wait: 12 s"),
    ]
    assert sentence(history, 60) == "after 60 s: e x 3: 2 to 4 steps (6/s), 1 computes, 2 wait: 12 s"


def test_a_sentence_names_some_of_many_tasks() -> None:
    history = History()
    history.add(Snapshot(0.0, 0, tuple(task(f"t{place}", 1) for place in range(9))))
    said = sentence(history, 120)
    assert said.startswith("after 2 min 00 s: t0: 1 steps, computes; t1")
    assert said.endswith("; and 3 tasks more")


def test_a_snapshot_goes_through_a_file() -> None:
    snapshot = Snapshot(1.5, 7, (task("a", 3), task("b[0]", 4)))
    assert from_json(json.loads(json.dumps(snapshot.as_json()))) == snapshot
    with pytest.raises(TypeError):
        from_json({"at": 1, "memory": 2, "tasks": [{"name": "a"}]})


def test_lines_stay_below_what_tasks_print(folder: Path) -> None:
    """And at the end they are gone: nothing of a task's output is missing, doubled or broken."""

    def look(written: str) -> None:
        if written.count("steps/s") >= 3:
            (folder / "enough").touch()

    code, written = at_terminal([*WILKINS, "run", "workflow.yaml"], folder, look)
    assert code == 0, written
    screen = Screen()
    last = written.rindex("steps/s")
    screen.feed(written[: written.index("\x1b[?7h", last)])
    assert re.match(r"task +ranks +steps +steps/s", screen.lines[-6]), screen.lines[-8:]
    assert [line.split()[0] for line in screen.lines[-4:-1]] == ["write", "read", "follow"]
    assert re.match(r"follow x 2 +2 +\d+( to \d+)? ", screen.lines[-2])
    screen.feed(written[written.index("\x1b[?7h", last) :])
    shown = [line for line in screen.lines if "|" in line]
    assert not [line for line in screen.lines if "steps/s" in line]
    assert screen.lines[screen.lines.index(shown[-1]) + 1].startswith("task "), "the summary follows at once"
    for name in ("write", "read"):
        log = (folder / LATEST / f"{name}.log").read_text().splitlines()
        assert [re.sub("\x1b.*?m", "", line.split("| ")[1]) for line in shown if name in line.split("|")[0]] == log


def test_more_tasks_than_the_terminal_has_lines(folder: Path) -> None:
    names = "".join(f"  - {{name: t{place}, func: sleep, args: ['3']}}\n" for place in range(30))
    (folder / "workflow.yaml").write_text(f"tasks:\n{names}", encoding="utf-8")
    code, written = at_terminal([*WILKINS, "run", "workflow.yaml"], folder, rows=12)
    assert code == 0
    assert "\x1b[11F" in written
    screen = Screen()
    screen.feed(written)
    assert [line.split()[0] for line in screen.lines if line.startswith("t")] == [
        "task",
        *(f"t{place}" for place in range(30)),
    ]


def test_a_terminal_that_cannot_move_its_cursor(folder: Path) -> None:
    (folder / "enough").touch()
    code, written = at_terminal([*WILKINS, "run", "workflow.yaml"], folder, env={"TERM": "dumb", "NO_COLOR": "1"})
    assert code == 0
    assert "\x1b" not in written


SOON = """\
import sys
import wilkins.launch.watch.progress as progress
progress._REPORT_EVERY = 1.5
from wilkins.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.usual("alone")
@pytest.mark.parametrize("kind", ["alone", "one job", "hosts"])
def test_a_line_now_and_then_without_a_terminal(folder: Path, kind: str) -> None:
    """Here after a second and a half, else after a minute."""
    command = [sys.executable, "-c", SOON, "run", "--quiet", "workflow.yaml"]
    if kind == "one job":
        command = [str(MPIEXEC), "-n", "4", *command]
    with started_tree([*command, *across(kind)], folder, variables(kind)) as tree:
        wait_for(lambda: tree.told().count("wilkins: after ") >= 2, 40, "a second line")
        (folder / "enough").touch()
        finished = tree.wait(40)
    assert finished.code == 0, finished.err
    lines = [line for line in finished.err.splitlines() if line.startswith("wilkins: after ")]
    assert len(lines) >= 2
    form = r"wilkins: after \d.*: write: \d+ steps \(.*/s\), .*; read: \d+ steps \(.*; follow x 2: \d+.* steps"
    assert re.match(form, lines[-1]), lines
    assert "\x1b" not in finished.err


def across(kind: str) -> list[str]:
    return ["--hosts", "node0:2,node1:2"] if kind == "hosts" else []


def variables(kind: str) -> dict[str, str] | None:
    if kind != "hosts":
        return None
    from hosts import pseudo

    return {**os.environ, "WILKINS_RSH": str(pseudo.HERE)}


def top(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, beside a run that goes on."""
    return subprocess.run(
        [*WILKINS, "top", *words], cwd=folder, capture_output=True, text=True, timeout=40, check=False
    )


@pytest.mark.usual("alone")
@pytest.mark.parametrize("kind", ["alone", "one job", "hosts"])
def test_top_once(folder: Path, kind: str) -> None:
    before = [str(MPIEXEC), "-n", "4"] if kind == "one job" else []
    command = [*before, *WILKINS, "run", "--quiet", "workflow.yaml", *across(kind)]
    with started_tree(command, folder, variables(kind)) as tree:
        wait_for(lambda: (folder / LATEST / "plan.json").exists(), 30, "the run")
        shown = top(folder, "--once")
        assert (shown.returncode, shown.stderr) == (0, "")
        head, _, *rows = shown.stdout.splitlines()
        assert head.split("  ")[0] == "task"
        assert [row.split()[0] for row in rows] == ["write", "read", "follow"]
        assert float(rows[0].split()[3]) > 0
        (folder / "enough").touch()
        assert tree.wait(40).code == 0
    left = {path.name for path in (folder / LATEST).iterdir()}
    assert not left & {"watched", "status.json"}
    ended = top(folder)
    assert ended.returncode == 0
    assert re.fullmatch(r"wilkins-runs/latest: the run has ended after .*: done\n", ended.stdout)


@pytest.mark.usual("70")
@pytest.mark.parametrize("columns", [70, 120])
def test_top_at_a_terminal_until_the_run_ends(folder: Path, columns: int) -> None:
    def look(written: str) -> None:
        if written.count("steps/s") >= 2:
            (folder / "enough").touch()

    with started_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], folder) as tree:
        wait_for(lambda: (folder / LATEST / "plan.json").exists(), 30, "the run")
        code, written = at_terminal([*WILKINS, "top", "latest"], folder, look, columns=columns)
        assert tree.wait(30).code == 0
    assert code == 0, written
    entered, left = written.index("\x1b[?1049h"), written.index("\x1b[?1049l")
    assert entered < left
    assert re.search(r"4 tasks, .* of shared memory", written[entered:left])
    assert re.search(r"write +\d+ +1 ", written[entered:left]), "with its process"
    frames = written[entered:left].split("\x1b[H")
    shown = [line for frame in frames for line in re.sub(r"\x1b\[[?;0-9]*[a-zA-Z]", "", frame).split("\r\n")]
    assert max(map(len, shown)) <= columns
    assert ("bytes/s" in written) == (columns == 120), "what tasks do now comes first"
    assert columns == 70 or re.search(r" [0-9.]+ kB +0 ", written)
    assert "the run has ended" in written[left:]


def test_a_viewer_that_is_killed_or_stopped_disturbs_no_run(folder: Path) -> None:
    with started_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], folder) as tree:
        wait_for(lambda: (folder / LATEST / "plan.json").exists(), 30, "the run")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with subprocess.Popen([*WILKINS, "top", "--once"], cwd=folder, stdout=subprocess.DEVNULL) as viewer:
                wait_for(lambda: (folder / LATEST / "status.json").exists(), 30, "an answer")
                viewer.send_signal(number)
                time.sleep(0.2)
                viewer.kill()
        (folder / "enough").touch()
        assert tree.wait(30).code == 0
    assert not (folder / LATEST / "watched").exists()


@pytest.mark.nightly
def test_top_of_what_is_no_run_or_does_not_answer(folder: Path) -> None:
    none = top(folder)
    assert none.returncode == 2
    assert "wilkins-runs/latest: there is no run; name its directory, or its name in wilkins-runs" in none.stderr
    with started_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], folder) as tree:
        wait_for(lambda: (folder / LATEST / "plan.json").exists(), 30, "the run")
        tree.process.send_signal(signal.SIGSTOP)
        silent = top(folder, "--once")
        tree.process.send_signal(signal.SIGCONT)
        (folder / "enough").touch()
        assert tree.wait(30).code == 0
    assert silent.returncode == 3
    assert "the run's launcher does not answer, though it is there" in silent.stderr
