"""The page of a run: what it says, what its script is given, and how it works in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sys
import time
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from support.running import WILKINS, must_run, run_tree
from support.small_workflows import Workflow
from wilkins.flow import TRACE_FILE
from wilkins.flow.timeline import Activity, RankTimeline, Segment, TaskTimeline, Timeline
from wilkins.flow.trace import Event, line
from wilkins.plan import planfile
from wilkins.plan.planner import plan_file
from wilkins.report.draw.svg import ACTIVITIES
from wilkins.report.page.advice import Join, Share, advise, oversubscribed, shares
from wilkins.report.page.held import last_steps
from wilkins.report.page.html import crossings_of
from wilkins.report.page.page import page_of, records_of
from wilkins.report.page.value import value_of
from wilkins.report.runs import events_of_run, timeline_of_run
from wilkins.terminal.tables import duration, size

WRITE = """\
import h5py, sys
for step in range(12):
    with h5py.File(f"plt{step:04}.h5", "w") as file:
        file["u"] = [float(step)] * 1000
print("wrote </script><b>& all")
"""
READ = """\
import h5py
from wilkins.transport import steps
for name in steps.names("plt*.h5"):
    with h5py.File(name) as file:
        file["u"][()]
"""
WORKFLOW = """\
# it's a <comment> & </script> more
tasks:
  - {func: write.py, outports: [{filename: "plt*.h5"}]}
  - {func: read.py, inports: [{filename: "plt*.h5", io_freq: 2}]}
  - {func: read.py, name: all, inports: [{filename: "plt*.h5"}]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a run that has ended."""
    folder = tmp_path_factory.mktemp("report")
    for name, text in (("write.py", WRITE), ("read.py", READ), ("workflow.yaml", WORKFLOW)):
        (folder / name).write_text(text)
    must_run(folder, *WILKINS, "run")
    return folder


class _Words(HTMLParser):
    """The text of a page, without that of scripts and styles; and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.loads: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._inside.append(tag)
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        if self._inside[-1:] == [tag]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += f" {data}"


def _data(page: str) -> dict[str, Any]:
    found = re.search(r'id="data">([^<]*)<', page)
    assert found
    value: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return value


def test_the_page_has_all_of_a_run(folder: Path) -> None:
    said = must_run(folder, *WILKINS, "report", "latest", "-o", "run.html")
    assert said.strip() == "run.html: open it in a browser; it needs no network"
    page = (folder / "run.html").read_text()
    words = _Words(page)
    text = " ".join(words.text.split())
    assert words.loads == []
    for word in ("ended well", "3 tasks", "write", "read", "all", "plt*.h5", "wrote </script><b>& all", "numpy"):
        assert word in text, word
    assert "# it's a <comment> & </script> more" in text
    assert "12 steps read" in text
    assert "6 steps read" in text
    row = re.search(r"write read plt\*\.h5 (\d+) (\d+) (\d+)", text)
    assert row
    assert row.groups() == ("12", "6", "6")
    assert page.count("</script>") == 2


HOLDS = """\
import h5py, numpy as np
for step in range(2):
    with h5py.File(f"u{step}.h5", "w") as file:
        field = file.create_dataset("u", data=np.full((80, 80), np.nan), chunks=(40, 40), compression="gzip")
        field[:40] = step
        field.attrs["units"] = "<K>"
        file["<b>\\x1b"] = 1
    with h5py.File(f"only{step}.h5", "w") as file:
        file["in_memory"] = step
    with open(f"t{step}.fits", "wb") as file:
        file.write(b"SIMPLE  =" + bytes(991))
"""
HELD = """\
tasks:
  - func: write.py
    outports: [{filename: "u*.h5", mode: both}, {filename: "only*.h5"}, {filename: "t*.fits", mode: file}]
  - {func: read.py, inports: [{filename: "u*.h5"}, {filename: "only*.h5"}, {filename: "t*.fits"}]}
"""
READS = """\
import h5py
for step in range(2):
    h5py.File(f"u{step}.h5"), h5py.File(f"only{step}.h5"), open(f"t{step}.fits").read()
"""


def test_the_page_shows_what_the_last_steps_on_the_disk_hold(tmp_path: Path) -> None:
    for name, text in (("write.py", HOLDS), ("read.py", READS), ("workflow.yaml", HELD)):
        (tmp_path / name).write_text(text)
    must_run(tmp_path, *WILKINS, "run", "--quiet")
    must_run(tmp_path, *WILKINS, "report")
    page = (tmp_path / "report.html").read_text()
    section = page.partition('<section id="steps">')[2].partition("</section>")[0]
    text = " ".join(_Words(section).text.split())
    assert "write: u*.h5 The last step that is on the disk: u1.h5 , HDF5, " in text
    assert "dataset shape type units size stored attributes /<b>\\x1b scalar int64 8 B /u 80 x 80 float64 <K>" in text
    assert "51.2 kB chunks 40 x 40, gzip 1" in text
    assert "1 1 <K> 80 x 80 values; blank where none is finite" in text
    assert "t1.fits , FITS, 1 kB; its contents are not shown" in text
    assert "only" not in text, "it was in memory alone"
    assert section.count('<img src="data:image/png;base64,') == section.count("<img") == 1
    last = tmp_path / "u1.h5"
    published = last.stat().st_mtime_ns
    last.write_bytes(b"\x89HDF\r\n\x1a\n")
    os.utime(last, ns=(published, published))  # else, on a slow machine, it is of a later time than the run
    now = records_of(tmp_path / "wilkins-runs" / "latest")
    assert "cannot be read" in page_of(now), "it says what is there, as long as that may be of the run"
    for path in (*tmp_path.glob("u*.h5"), *tmp_path.glob("t*.fits")):
        os.utime(path, (0, 0))
    assert 'id="steps"' not in page_of(now), "files are of another run"


def test_the_last_step_is_the_newest_file_or_folder_of_the_run(tmp_path: Path) -> None:
    """Of each name of a list; and a checkpoint whose name its program has removed, as long as the run keeps it."""
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - func: /bin/true\n    restart: {files: 'chk*.h5', args: [x]}\n    outports:\n"
        "      - {filename: 't*.zarr/', mode: both}\n      - {filename: ['x*.xdmf', 'x*.h5'], mode: file}\n"
        "      - {filename: 'chk*.h5', mode: both}\n      - {filename: 'gone*.h5', mode: both}\n"
        "      - {filename: 'm*.h5'}\n  - {func: /bin/cat, inports: [{filename: 'm*.h5'}]}\n"
    )
    plan = plan_file(tmp_path / "workflow.yaml")
    for name in ("t1.zarr", "t2.zarr", "t3.zarr"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text("{}")
    for name in ("x1.xdmf", "x1.h5", "x2.xdmf", "x2.h5", "m1.h5"):
        (tmp_path / name).touch()
    times = {"t1.zarr": 100, "t1.zarr/zarr.json": 120, "t2.zarr": 110, "t2.zarr/zarr.json": 110, "t3.zarr": 300}
    times |= {"t3.zarr/zarr.json": 100, "x1.xdmf": 150, "x2.xdmf": 140, "x1.h5": 120, "x2.h5": 130, "m1.h5": 120}
    for name, changed in times.items():
        os.utime(tmp_path / name, (changed, changed))
    kept = tmp_path / "run" / "kept" / "0" / "chk7.h5"
    kept.parent.mkdir(parents=True)
    kept.touch()
    os.utime(kept, (130, 130))
    found = {one.port: one.path for one in last_steps(plan, tmp_path / "run", 90, 200)}
    names = {"t*.zarr/": "t1.zarr", "x*.xdmf": "x1.xdmf", "x*.h5": "x2.h5"}
    assert found == {port: tmp_path / name for port, name in names.items()} | {"chk*.h5": kept}
    assert last_steps(plan, tmp_path, 400, 500) == []


def test_the_page_of_a_run_in_memory_has_no_such_part(folder: Path) -> None:
    assert 'id="steps"' not in page_of(records_of(folder / "wilkins-runs/latest"))


def test_the_script_is_given_the_timeline(folder: Path) -> None:
    """Every segment, step and opening, to a millionth of a second."""
    page = page_of(records_of(folder / "wilkins-runs/latest"))
    value, timeline = _data(page), timeline_of_run(folder / "wilkins-runs/latest")
    tick = value["tick"]
    assert [task["name"] for task in value["tasks"]] == ["write", "read", "all"]
    for task, one in zip(timeline.tasks, value["tasks"], strict=True):
        for rank, row in zip(task.ranks, one["rows"], strict=True):
            ends = list(accumulate(row["lengths"], initial=row["at"]))[1:]
            assert [segment.end for segment in rank.segments] == pytest.approx([end * tick for end in ends], abs=2e-6)
            assert [ACTIVITIES.index(segment.activity) for segment in rank.segments] == list(map(int, row["kinds"]))
            ports = [value["patterns"][port] if port >= 0 else "" for port in row["ports"]]
            assert ports == [segment.what for segment in rank.segments]
    steps = value["steps"]
    assert steps["name"] == [f"plt{step:04}.h5" for step in range(12)]
    times = [time * tick for time in accumulate(steps["time"])]
    assert times == pytest.approx([step.published for step in timeline.steps], abs=2e-6)
    assert steps["opens"] == [len(step.openings) for step in timeline.steps]
    assert sorted(steps["openTask"]) == [1] * 6 + [2] * 12
    assert steps["drops"] == [[1] if step % 2 == 0 else 0 for step in range(12)]
    assert all(size > 8000 for size in steps["bytes"])


def test_many_ranks_are_shown_in_part() -> None:
    ranks = tuple(RankTimeline(rank, (Segment("computing", 0.0, 1.0),)) for rank in range(3000))
    timeline = Timeline((TaskTimeline("big", 1.0, ranks), TaskTimeline("small", 1.0, ranks[:3])), ())
    value = value_of(timeline, [], [])
    assert [task["ranks"] for task in value["tasks"]] == [3000, 3]
    assert len(value["tasks"][1]["rows"]) == 3
    assert 100 <= len(value["tasks"][0]["rows"]) <= 400


# Words.


def _spent(name: str, **parts: float) -> Share:
    return Share(name, 10.0, {key.replace("_", " "): part for key, part in parts.items()})  # type: ignore[misc]


def test_shares_are_those_of_the_ranks() -> None:
    def rank(number: int, *pieces: tuple[Activity, float]) -> RankTimeline:
        ends = list(accumulate(length for _, length in pieces))
        return RankTimeline(
            number,
            tuple(
                Segment(activity, end - length, end, "x*.h5" if activity.startswith("waiting") else "")
                for (activity, length), end in zip(pieces, ends, strict=True)
            ),
        )

    timeline = Timeline(
        (
            TaskTimeline(
                "two", 4.0, (rank(0, ("computing", 4.0)), rank(1, ("computing", 2.0), ("waiting for data", 2.0)))
            ),
            TaskTimeline("none", None, ()),
        ),
        (),
    )
    (share,) = shares(timeline)
    assert (share.name, share.seconds, share.waits_on) == ("two", 4.0, "x*.h5")
    assert share.of == {"computing": 0.75, "waiting for data": 0.25}


@pytest.mark.parametrize(
    ("found", "summary", "words"),
    [
        (
            [_spent("sim", computing=0.9), _spent("look", waiting_for_data=0.8, computing=0.1)],
            {},
            "sim sets the pace: it computed 90 % of its time, while look waited for its steps 80 %. A faster sim makes",
        ),
        (
            [_spent("sim", computing=0.3, waiting_for_room=0.6), _spent("look", computing=0.95)],
            {},
            "look holds up sim, which waited for room 60 %, while it computed 95 % of its time. Make look faster, give "
            "it instances (`taskCount`)",
        ),
        (
            [_spent("sim", starting=0.5, computing=0.5)],
            {},
            "sim spent 50 % of its time before the first step (sim: 5 s)",
        ),
        ([_spent("sim", moving=0.7, computing=0.3)], {}, "sim spent 70 % of its time with files open"),
        ([_spent("sim", computing=1.0)], {}, "No task waited for another"),
        (
            [],
            {
                "channels": [
                    {"producer": "sim", "consumer": "look", "files": "x*.h5", "published": 9, "read": 4}
                    | {"dropped": 2, "let_go": 0, "unread": 3}
                ]
            },
            "look missed some of the 9 steps of x*.h5 that sim made: 2 were given up, since the queue was full and 3 "
            "were not read before it ended.",
        ),
        ([], {"tasks": [{"name": "sim", "retries": 2}]}, "sim failed and was started again 2 times."),
    ],
)
def test_where_the_time_went_in_words(found: list[Share], summary: dict[str, Any], words: str) -> None:
    assert words in " ".join(advise(found, [Join("sim", "look", "x*.h5")], summary))


def test_a_task_that_has_no_step_was_not_slow_to_begin_one() -> None:
    assert advise([_spent("sim", starting=1.0)], [], {}) == advise([], [], {})


def test_a_reader_of_the_newest_steps_holds_nobody_up_and_misses_none() -> None:
    """Its policy leaves out what comes while it is busy."""
    spent = [_spent("sim", computing=0.3, waiting_for_room=0.6), _spent("look", computing=0.95)]
    channel = {"producer": "sim", "consumer": "look", "files": "x*.h5", "published": 9, "read": 4}
    summary = {"channels": [channel | {"dropped": 5, "let_go": 0, "unread": 0}]}
    assert advise(spent, [Join("sim", "look", "x*.h5", blocks=False)], summary) == advise([], [], {})


def test_a_program_of_mpi_may_get_more_ranks() -> None:
    spent = [_spent("sim", computing=0.3, waiting_for_room=0.6), _spent("look", computing=0.95)]
    (message,) = advise(spent, [Join("sim", "look", "x*.h5", parallel=True)], {})
    assert "give it more ranks or instances (`nprocs`, `taskCount`)" in message


def test_keys_in_advice_are_set_as_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wilkins.report.page.page.advise", lambda *_: ["give <sim> `queue: 4`"])
    assert "<li>give &lt;sim&gt; <code>queue: 4</code></li>" in page_of(records_of(folder / "wilkins-runs/latest"))


def test_more_ranks_than_cores() -> None:
    (message,) = oversubscribed({"few": 2, "many": 9}, 4)
    assert message.startswith("many had 9 ranks on 4 cores: they took turns")


def test_what_crossed_between_hosts() -> None:
    """Also of runs whose records do not say how near to its bound an error came."""
    crossing: dict[str, Any] = {
        "producer": "sim",
        "consumers": ["look", "<b>"],
        "files": "x*.h5",
        "writes": "a",
        "reads": "b",
    }
    crossing |= {"steps": 3, "bytes": 30_000_000, "moved": 30_000_000, "messages": 9, "compressed": 0}
    plain = " ".join(_Words(crossings_of({"crossings": [crossing]})).text.split())
    assert plain.endswith("moved sim look and <b> x*.h5 a -> b 3 30 MB 30 MB")
    packed = {**crossing, "moved": 2_000_000, "compressed": 29_000_000, "compressed_to": 1_000_000}
    packed |= {"largest_error": 0.00099, "part_of_bound": 0.9999, "compression_s": 0.25}
    text = " ".join(_Words(crossings_of({"crossings": [packed, crossing, {**crossing, "steps": 0}]})).text.split())
    assert "times smaller largest error of its bound CPU sim" in text
    assert "3 30 MB 2 MB 29 0.00099 100 % 250 ms sim" in text
    assert "3 30 MB 30 MB - - - - Times smaller: of what was compressed." in text
    del packed["part_of_bound"]
    assert "29 0.00099 - 250 ms" in " ".join(_Words(crossings_of({"crossings": [packed]})).text.split())
    assert crossings_of({"crossings": []}) == crossings_of({}) == ""


# What is not there, or wrong.


def test_what_a_run_has_said_is_on_its_page(tmp_path: Path) -> None:
    flow = Workflow(tmp_path)
    flow.task("sim", "import h5py\nh5py.File('a.h5', 'w')['rho'] = 1\n", outports=[{"filename": "a.h5"}])
    flow.task("ana", "import h5py\nprint(h5py.File('a.h5')['rhoo'][()])\n", inports=[{"filename": "a.h5"}])
    flow.run(1)
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    (message,) = [one for one in summary["messages"] if "rhoo" in one]
    assert "did you mean '/rho'?" in " ".join(message.split())
    assert message in _Words(page_of(records_of(tmp_path / "wilkins-runs/latest"))).text


def test_a_run_that_failed_or_goes_on(folder: Path, tmp_path: Path) -> None:
    """Its page has what there is."""
    run = tmp_path / "run"
    shutil.copytree(folder / "wilkins-runs/latest", run, symlinks=False)
    summary = json.loads((run / "summary.json").read_text())
    summary["tasks"][1].update(outcome="failed", exit="exit code 3")
    (run / "summary.json").write_text(json.dumps({**summary, "exit_code": 1, "reason": "read: failed: <exit code 3>"}))
    (run / "read.log").write_text("\n".join(f"line {number}" for number in range(40)) + "\nthe <mesh> is empty\n")
    page = page_of(records_of(run))
    text = _Words(page).text
    assert "exit code 1" in text
    assert "read: failed: <exit code 3>" in text
    assert text.index("read printed last:") < text.index("line 39") < text.index("the <mesh> is empty")
    assert text.index("the <mesh> is empty") < text.index("Where the time went")
    assert page.count("<details open ") == 1
    (run / "summary.json").unlink()
    assert "goes on, or was killed" in _Words(page_of(records_of(run))).text
    (run / TRACE_FILE).unlink()
    text = _Words(page_of(records_of(run))).text
    assert "There is no timeline" in text
    assert "holds no trace" in text


def test_how_a_run_was_started_is_on_its_page(folder: Path, tmp_path: Path) -> None:
    """The workflow file is that of the run, also when it has changed since."""
    shutil.copytree(folder, tmp_path / "moved", symlinks=True)
    moved = tmp_path / "moved"
    must_run(moved, *WILKINS, "run", "workflow.yaml", "--set", "read.timeout=50")
    text = (moved / "workflow.yaml").read_text()
    (moved / "workflow.yaml").write_text("tasks: []\n")
    said = " ".join(_Words(page_of(records_of(moved / "wilkins-runs/latest"))).text.split())
    assert "command wilkins run workflow.yaml --set read.timeout=50" in said
    assert f"folder {moved}" in said
    assert " ".join(text.split()) in said


def test_what_tasks_have_used_is_on_the_page(tmp_path: Path) -> None:
    """As the system has counted it: processors' seconds, and the most memory of a process."""
    spin = "import os, time\nx = bytearray(80_000_000)\nwhile time.process_time() < 0.6: pass"
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n  - {{func: {sys.executable}, name: spin, args: [-c, {json.dumps(spin)}], "
        "resources: {memory: 64MiB, walltime: 2min}}\n"
        "  - {func: /bin/true, name: rest}\n"
    )
    must_run(tmp_path, *WILKINS, "run", "workflow.yaml")
    task, _ = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["tasks"]
    assert 0.6 <= task["cpu_s"] < 2
    assert 80e6 < task["rss_bytes"] < 200e6
    said = " ".join(_Words(page_of(records_of(tmp_path / "wilkins-runs/latest"))).text.split())
    assert f" {size(task['rss_bytes'])} rest 1" in said
    assert (
        f"spin {size(task['rss_bytes'])}, more than {size(64 << 20)} {duration(task['wall_s'])} of {duration(120)}"
        in said
    )
    assert "rest -" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["latest", "-o", "run.pdf"], "-o run.pdf: the page is HTML; let the name end in .html"),
        (["latest", "-o", "run"], "-o run: the page is HTML"),
        (["latest", "-o", "none/run.html"], "none/run.html: cannot write it: No such file or directory"),
        (["nothing"], "nothing: there is no such folder"),
        (["."], ".: holds no run's records"),
    ],
)
def test_what_cannot_be_written_or_found(folder: Path, words: list[str], message: str) -> None:
    done = run_tree([*WILKINS, "report", *words], 60, folder)
    assert done.code == 2, done.out + done.err
    assert message in " ".join(done.err.split())


def test_names_of_any_letters_stand_in_the_page(tmp_path: Path) -> None:
    """Bytes that are no text, signs of HTML, quotes."""
    name = "<script>&\"'\udcff\\.h5"
    run = _made(tmp_path, 2, 3, name)
    page = page_of(records_of(run))
    page.encode()
    assert page.count("<script") == 2
    assert _data(page)["steps"]["name"][0].startswith("f0-000000<script>&\"'")


# In a browser.


def _made(folder: Path, tasks: int, steps: int, suffix: str = ".h5") -> Path:
    """The records of a run in which each task reads what the one before it writes."""
    workflow = "tasks:\n"
    for task in range(tasks):
        inport = f'inports: [{{filename: "f{task - 1}-*"}}], ' if task else ""
        workflow += f'  - {{func: /bin/true, name: t{task}, {inport}outports: [{{filename: "f{task}-*"}}]}}\n'
    (folder / "workflow.yaml").write_text(workflow)
    plan = plan_file(folder / "workflow.yaml")
    run = folder / "run"
    run.mkdir()
    (run / "plan.json").write_text(planfile.dumps(plan))
    events = []
    for task in range(tasks):
        name = f"t{task}"
        events += [Event(0, "start", name, -1, "-", "-"), Event(10**6 * (steps + tasks + 2), "end", name, -1, "-", "0")]
        for step in range(steps):
            now = 10**6 * (step + task + 1)
            file, before = f"f{task}-{step:06}{suffix}", f"f{task - 1}-{step:06}{suffix}"
            if task:
                events += [
                    Event(now - 900_000, "wait-data", name, 0, f"f{task - 1}-*", before),
                    Event(now - 500_000 + 7 * step % 1000, "go", name, 0, f"f{task - 1}-*", before),
                    Event(now - 499_000 + 7 * step % 1000, "open", name, 0, f"f{task - 1}-*", before, step, 1000),
                    Event(now - 400_000, "close", name, 0, f"f{task - 1}-*", before, step, 1000),
                ]
            events += [
                Event(now - 200_000, "create", name, 0, f"f{task}-*", file),
                Event(now - 100_000 + 13 * step % 1000, "publish", name, 0, f"f{task}-*", file, step, 1000 + step % 5),
            ]
    events.sort(key=lambda event: event.time_ns)
    with (run / TRACE_FILE).open("w", encoding="utf-8", errors="surrogateescape") as trace:
        trace.writelines(map(line, events))
    return run


def _open(browser: Any, page: Path) -> float:
    """Open a page; the seconds until its chart is there."""
    browser.get(page.as_uri())
    until = time.monotonic() + 60
    while browser.execute_script("return document.documentElement.dataset.ready") != "yes":
        assert time.monotonic() < until, browser.get_log("browser")
        time.sleep(0.01)
    return float(browser.execute_script("return performance.now()")) / 1000


def _range(browser: Any) -> tuple[float, float]:
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    found = browser.execute_script("const d = document.getElementById('gantt').dataset; return [d.from, d.to]")
    return float(found[0]), float(found[1])


needs_browser = pytest.mark.needs("chromium", "chromedriver", "python:selenium")


@pytest.mark.nightly
@needs_browser
def test_the_page_in_a_browser(folder: Path, browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    must_run(folder, *WILKINS, "report", "latest", "-o", "shown.html")
    _open(browser, folder / "shown.html")
    whole = _range(browser)
    assert whole[0] == 0
    browser.find_element(By.ID, "in").click()
    zoomed = _range(browser)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    browser.find_element(By.ID, "gantt").send_keys(Keys.ARROW_RIGHT)
    assert _range(browser)[0] > zoomed[0]
    browser.find_element(By.ID, "gantt").send_keys("+")
    assert _range(browser)[1] - _range(browser)[0] == pytest.approx(0.6 * (zoomed[1] - zoomed[0]), rel=0.01)
    browser.find_element(By.ID, "all").click()
    assert _range(browser) == pytest.approx(whole)
    timeline = timeline_of_run(folder / "wilkins-runs/latest")
    browser.find_element(By.ID, "find").send_keys("plt0007.h5", Keys.ENTER)
    found = browser.find_element(By.ID, "found").text
    assert found.startswith("1 of 1: plt0007.h5, step 7 of write")
    low, high = _range(browser)
    assert low <= timeline.steps[7].published <= high
    browser.find_element(By.ID, "find").clear()
    browser.find_element(By.ID, "find").send_keys("no such", Keys.ENTER)
    assert browser.find_element(By.ID, "found").text == "no step is called so"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.nightly
@needs_browser
def test_charts_show_what_is_unread_and_rates_as_they_are(tmp_path: Path, browser: Any) -> None:
    """A step a millisecond, of which the last five are never read."""
    from selenium.webdriver.common.by import By

    run = _made(tmp_path, 2, 200)
    trace = run / TRACE_FILE
    kept = [
        text
        for text in trace.read_text().splitlines(keepends=True)
        if not re.search(r"\topen\tt1\t.*f0-00019[5-9]", text)
    ]
    trace.write_text("".join(kept))
    must_run(tmp_path, *WILKINS, "report", run, "-o", "made.html")
    _open(browser, tmp_path / "made.html")

    def most(name: str) -> float:
        _range(browser)
        return float(browser.execute_script(f"return document.getElementById('{name}').dataset.most"))

    assert most("queues") >= 5
    assert most("rates") == pytest.approx(1000, rel=0.05)
    for _ in range(4):
        browser.find_element(By.ID, "in").click()
        assert most("rates") == pytest.approx(1000, rel=0.05)


@pytest.mark.nightly
@needs_browser
def test_the_page_on_a_phone_and_in_print(folder: Path, browser: Any) -> None:
    must_run(folder, *WILKINS, "report", "latest", "-o", "phone.html")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    _open(browser, folder / "phone.html")
    widths = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert widths[0] <= widths[1] == 390
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.wide')].filter(one => one.querySelector('table')"
        " && one.scrollWidth > one.clientWidth).length"
    )
    assert cut == 0
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.long td')].slice(0, 3)"
        ".map(one => getComputedStyle(one, '::before').content)"
    )
    assert labels == ["none", '"ranks"', '"starts"']
    small = browser.execute_script(
        "return [...document.querySelectorAll('p, li, td, h2, button')].filter(one => one.offsetParent"
        " && parseFloat(getComputedStyle(one).fontSize) < 12).length"
    )
    assert small == 0
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    shown = browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert shown == {}
    hidden = browser.execute_script("return getComputedStyle(document.querySelector('.controls')).display")
    assert hidden == "none"


@pytest.mark.nightly
@needs_browser
def test_a_page_of_a_hundred_thousand_steps(tmp_path: Path, browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    run = _made(tmp_path, 10, 10_000)
    must_run(tmp_path, *WILKINS, "report", run, "-o", "big.html", timeout=300)
    size = (tmp_path / "big.html").stat().st_size
    opened = sorted(_open(browser, tmp_path / "big.html") for _ in range(3))[1]
    print(f"{size / 1e6:.2f} MB, open in {opened:.2f} s", file=sys.stderr)
    assert size < 10e6
    assert opened < 3
    browser.find_element(By.ID, "find").send_keys("f4-007777.h5", Keys.ENTER)
    assert browser.find_element(By.ID, "found").text.startswith("1 of 1: f4-007777.h5, step 7777 of t4, at 7.78")


def test_events_of_a_made_run_are_those_of_a_real_one(tmp_path: Path) -> None:
    """The large page is one of steps that were read."""
    run = _made(tmp_path, 3, 5)
    timeline = timeline_of_run(run)
    assert len(events_of_run(run)[1]) == 6 + 3 * 10 + 2 * 20
    assert [len(step.openings) for step in timeline.steps] == [0 if step.task == "t2" else 1 for step in timeline.steps]
