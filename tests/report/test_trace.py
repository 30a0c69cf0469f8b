"""The trace of a run says what each task and rank did, in order, for both ways to launch."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, run_tree, write_program
from wilkins.flow.trace import AGAIN, Event, line, read_trace

WRITE = """
import sys, time
import h5py
for step in range(int(sys.argv[1])):
    with h5py.File("out.h5", "w") as f:
        f["x"] = [step] * 1000
    time.sleep(float(sys.argv[2]))
"""

READ = """
import sys, time
import h5py
time.sleep(float(sys.argv[1]))
try:
    while True:
        with h5py.File("out.h5", "r") as f:
            f["x"][:]
except FileNotFoundError:
    sys.exit(int(sys.argv[2]))
"""

WORKFLOW = """
tasks:
- {{func: ./write.py, name: sim, args: ['4', '{pause}'], outports: [{{filename: out.h5}}]}}
- {{func: ./read.py, name: look, args: ['{late}', '{code}'], inports: [{{filename: '*.h5', flow: {flow}}}]}}
"""


def traced(folder: Path, *before: str, late: float = 0, pause: float = 0, code: int = 0) -> list[Event]:
    """The events of a run of four steps from `sim` to `look`."""
    write_program(folder / "write.py", WRITE)
    write_program(folder / "read.py", READ)
    (folder / "workflow.yaml").write_text(WORKFLOW.format(flow="all", late=late, pause=pause, code=code))
    ran = run_tree([*before, *WILKINS, "run", "workflow.yaml"], 60, folder)
    assert ran.code == 0, ran.out + ran.err
    return read_trace(folder / "wilkins-runs" / "latest")


def of(events: list[Event], task: str, *kinds: str) -> list[tuple[str, int]]:
    """A task's events of some kinds, with their sequence numbers."""
    return [(event.event, event.sequence) for event in events if event.task == task and event.event in kinds]


@pytest.mark.usual("alone")
@pytest.mark.parametrize("launch", ["alone", "one job"])
def test_every_step_is_created_published_opened_and_closed(tmp_path: Path, launch: str) -> None:
    before = (MPIEXEC, "-n", "2") if launch == "one job" else ()
    events = traced(tmp_path, *before, code=3)
    assert of(events, "sim", "create", "publish") == [
        pair for step in range(4) for pair in (("create", -1), ("publish", step))
    ]
    assert of(events, "look", "open", "close") == [
        pair for step in range(4) for pair in (("open", step), ("close", step))
    ]
    when = {(event.event, event.sequence): event.time_ns for event in events}
    assert all(when["publish", step] < when["open", step] for step in range(4))
    sizes = {event.bytes for event in events if event.event in ("publish", "open", "close")}
    assert len(sizes) == 1 and sizes.pop() > 8000
    assert {(event.pattern, event.name) for event in events if event.event == "publish"} == {("out.h5", "out.h5")}
    assert {(event.pattern, event.name) for event in events if event.event == "open"} == {("*.h5", "out.h5")}
    for task, code in (("sim", "0"), ("look", "3")):
        own = [event for event in events if event.task == task]
        assert (own[0].event, own[0].rank, own[0].name) == ("start", -1, "-")
        ends = [(event.event, event.rank, event.name) for event in own[-2:]]
        assert ends == [("end", -1, code), ("done", -1, "-")]
        assert {event.rank for event in own[1:-2]} == {0}


def test_waits_begin_and_end(tmp_path: Path) -> None:
    """A late reader lets the producer wait for room; a slow producer lets the reader wait for data."""
    late = traced(tmp_path, late=0.8)
    waits = [event for event in late if event.event in ("wait-room", "go") and event.task == "sim"]
    assert [event.event for event in waits[:2]] == ["wait-room", "go"]
    assert waits[0].pattern == waits[0].name == "out.h5"
    (tmp_path / "slow").mkdir()
    slow = traced(tmp_path / "slow", pause=0.3)
    waits = [event for event in slow if event.event in ("wait-data", "go") and event.task == "look"]
    assert [event.event for event in waits] == ["wait-data", "go"] * (len(waits) // 2)
    assert len(waits) >= 6  # steps 1 to 3 at least
    assert any(end.time_ns - begin.time_ns > 200_000_000 for begin, end in itertools.pairwise(waits))


@pytest.mark.usual("latest-lost0")
@pytest.mark.parametrize(
    ("flow", "lost"),
    [
        ("latest", [("drop", 0), ("drop", 1), ("drop", 2)]),
        ("{some: 2}", [("skip", 0), ("skip", 2)]),
        ("{queue: 1, when_full: drop-newest}", [("drop", 1), ("drop", 2), ("drop", 3)]),
    ],
)
def test_steps_that_a_consumer_does_not_get(tmp_path: Path, flow: str, lost: list[tuple[str, int]]) -> None:
    (tmp_path / "first").write_text("")  # the reader looks for nothing until the writer has ended
    late = READ.replace(
        "time.sleep(float(sys.argv[1]))", "import os\nwhile not os.path.exists('done'): time.sleep(0.02)"
    )
    write_program(tmp_path / "read.py", late)
    write_program(tmp_path / "write.py", WRITE + "open('done', 'w')\n")
    (tmp_path / "workflow.yaml").write_text(WORKFLOW.format(flow=flow, late=0, pause=0, code=0))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    events = read_trace(tmp_path / "wilkins-runs" / "latest")
    assert of(events, "look", "skip", "drop") == lost
    assert {event.pattern for event in events if event.event in ("skip", "drop")} == {"*.h5"}
    assert [step for _, step in of(events, "look", "open")] == sorted({0, 1, 2, 3} - {step for _, step in lost})


def test_a_killed_program_ends_with_its_signal(tmp_path: Path) -> None:
    write_program(tmp_path / "die.py", "import os\nopen('out.h5', 'w').close()\nos.kill(os.getpid(), 9)\n")
    write_program(tmp_path / "read.py", READ)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./die.py, outports: [{filename: out.h5}]}\n"
        "- {func: ./read.py, args: ['0', '0'], inports: [{filename: out.h5}]}\n"
    )
    assert run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path).code == 1
    events = read_trace(tmp_path / "wilkins-runs" / "latest")
    assert [event.name for event in events if event.event == "end" and event.task == "die"] == ["SIGKILL"]


@pytest.mark.nightly
def test_a_limit_on_file_sizes_stops_the_trace_alone(tmp_path: Path) -> None:
    """The trace is longer than the program may write, which would kill it; many steps make it write lines."""
    limit = (
        "import os, resource, signal\n"
        "with open('wilkins-runs/latest/trace.tsv', 'a') as trace:\n    trace.truncate(1 << 31)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    )
    write_program(tmp_path / "write.py", limit + WRITE)
    write_program(tmp_path / "read.py", READ)
    (tmp_path / "workflow.yaml").write_text(
        WORKFLOW.format(flow="all", late=0, pause=0, code=0).replace("'4'", "'400'")
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    summary = json.loads((tmp_path / "wilkins-runs" / "latest" / "summary.json").read_text())
    assert [task["consumed"] for task in summary["tasks"]] == [0, 400]


def test_a_run_whose_trace_stopped_says_so(tmp_path: Path) -> None:
    """For it costs those that go on with it; here the programs may not write files as large as the trace has become."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))\n"
    grow = "with open('wilkins-runs/latest/trace.tsv', 'a') as trace:\n    trace.truncate(1 << 31)\n"
    write_program(tmp_path / "write.py", grow + limit + WRITE + "raise SystemExit(3)\n")
    write_program(tmp_path / "read.py", limit + READ)  # or it would write what the other one has to tell
    reader = "inports: [{filename: '*.h5'"
    workflow = WORKFLOW.format(flow="all", late=0, pause=0, code=0)
    assert reader in workflow
    (tmp_path / "workflow.yaml").write_text(workflow.replace(reader, "restart: each-step, " + reader))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 1, ran.out + ran.err
    assert "to go on with this run: wilkins run --resume " in ran.err
    assert "trace.tsv could not be written to the end, for the disk is full or one of the programs may not" in ran.err


def test_a_torn_last_line_is_passed_over_and_a_strange_one_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.tsv"
    events = [Event(5, "go", "a", 0, "x", "x"), Event(3, "publish", "sim[1]", 2, "out*.h5", "out1.h5", 7, 10**12)]
    path.write_text("".join(map(line, events)) + "9\tgo\ta\t0")
    assert read_trace(path) == sorted(events, key=lambda event: event.time_ns)
    path.write_text(line(events[0]) + "1\tgo\n")
    with pytest.raises(ValueError, match=r"trace.tsv:2: not a line"):
        read_trace(path)
    path.write_text("")
    assert read_trace(path) == []


def test_lines_that_a_killed_process_was_writing_come_once(tmp_path: Path) -> None:
    """However far it had come; another process marks the place, and writes them again."""
    path = tmp_path / "trace.tsv"
    events = [Event(time, "publish", "sim[1]", 2, "out*.h5", f"out{time}.h5", time, 10**12) for time in range(4)]
    before, lines, after = line(events[0]), line(events[1]) + line(events[2]), line(events[3])
    for written in range(len(lines) + 1):
        path.write_text(before + lines[:written] + f"\n{AGAIN}\n" + lines + after)
        assert read_trace(path) == events, lines[:written]


def test_a_trace_with_a_broken_line_is_shown_up_to_it(tmp_path: Path) -> None:
    """As where a full disk cut a line short, and there was room again for what came later."""
    traced(tmp_path)
    path = (tmp_path / "wilkins-runs" / "latest" / "trace.tsv").resolve()
    whole = path.read_text().splitlines(keepends=True)
    broken = next(number for number, text in enumerate(whole) if "\topen\t" in text) + 2
    path.write_text("".join(whole[:broken]) + whole[broken][:20] + "".join(whole[broken + 1 :]))
    ran = run_tree([*WILKINS, "trace", "--format", "text", "wilkins-runs/latest"], 60, tmp_path)
    assert ran.code == 0, ran.err
    assert f"trace.tsv:{broken + 1}: not a line of a run's trace" in ran.err
    assert "is shown" in ran.err
    assert "look" in ran.out
    path.write_text("nothing\n" + "".join(whole))
    ran = run_tree([*WILKINS, "trace", "wilkins-runs/latest"], 60, tmp_path)
    assert ran.code == 2 and "trace.tsv:1: not a line" in ran.err
