"""`wilkins simulate`, `trace` and `graph` as their users meet them: tables, charts, pictures, errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

from wilkins.errors import UsageError
from wilkins.flow.timeline import Activity, Opening, RankTimeline, Segment, StepTimeline, TaskTimeline, Timeline
from wilkins.flow.trace import Event, line
from wilkins.report.draw.gantt import draw_timelines
from wilkins.report.draw.svg import save, width_of

ROOT = Path(__file__).parents[2]
MS = 1_000_000

WORKFLOW = """\
tasks:
  - func: ./simulate
    nprocs: 2
    outports: [{filename: state.h5}]
    model: {step: 0.2s, steps: 10}
  - func: ./analyse
    inports: [{filename: state.h5, io_freq: latest}]
    model: {step: 1s}
"""

CYCLE = """\
tasks:
  - func: ./simulate
    inports: [{filename: steer.h5}]
    outports: [{filename: state.h5}]
    model: {step: 1s, steps: 3}
  - func: ./analyse
    inports: [{filename: state.h5}]
    outports: [{filename: steer.h5}]
    model: {step: 500ms}
"""


def wilkins(folder: Path, *arguments: str, text: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "wilkins", *arguments],
        capture_output=True,
        encoding="utf-8" if text else "latin-1",
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONIOENCODING": "utf-8",
            "COLUMNS": "80",
            **environment,
        },
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a workflow file; nothing that it names exists, for nothing is started."""
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path


def rows(text: str) -> dict[str, list[str]]:
    """The lines of the first table, by their first word."""
    table = text.split("the workflow:")[0].splitlines()
    return {line.split()[0]: line.split() for line in table if line.strip()}


def test_a_table_and_a_chart(folder: Path) -> None:
    done = wilkins(folder, "simulate", "workflow.yaml")
    assert done.stderr == ""
    table = rows(done.stdout)
    assert table["simulate"][:6] == ["simulate", "2", "2", "s", "2", "s"]
    assert table["analyse"][-2:] == ["3", "7"]
    assert "the workflow: 3.2 s" in done.stdout
    chart = [text for text in done.stdout.splitlines() if "█" in text]
    assert [text.split()[0] for text in chart[:3]] == ["simulate:0", "simulate:1", "analyse"]
    assert max(map(len, done.stdout.splitlines()[6:])) <= 80
    assert chart[0].count("█") == pytest.approx(2 / 3.2 * (80 - 12), abs=1.5)


def test_letters_where_the_terminal_has_no_blocks(folder: Path) -> None:
    done = wilkins(folder, "simulate", "workflow.yaml", PYTHONIOENCODING="ascii")
    assert "#" * 20 in done.stdout
    assert done.stdout.isascii()


def test_set_and_rate(folder: Path) -> None:
    done = wilkins(
        folder, "simulate", "workflow.yaml", "--set", "simulate.model.step=50ms", "--set", "analyse.model.step=0"
    )
    assert "the workflow: 500 ms" in done.stdout
    done = wilkins(
        folder,
        "simulate",
        "workflow.yaml",
        "--set",
        "simulate.model.size=1GB",
        "--rate",
        "5GB/s",
        "--set",
        "analyse.inports.0.io_freq=1",
    )
    assert rows(done.stdout)["simulate"][-4:] == ["s", "10", "-", "-"]
    assert "moving" in done.stdout
    assert "the workflow: 12.3 s" in done.stdout, "0.2 + 0.1 to write, and ten times 0.2 to read and 1 to compute"


@pytest.mark.parametrize(("steps", "drawn"), [(8, True), (500, False)])
def test_lines_lead_from_steps_to_readers_and_crosses_mark_the_lost(steps: int, drawn: bool) -> None:
    """As by `latest`, every second one. Of very many, neither is drawn: they would hide the bars."""
    found = tuple(
        StepTimeline("w", 0, "x*.h5", number, number + 0.5, *(((), ("r",)) if number % 2 else ((opening,), ())))
        for number in range(2 * steps)
        for opening in [Opening("r", 0, number + 0.7)]
    )
    ranks = (RankTimeline(0, (Segment("computing", 0.0, 2.0 * steps),)),)
    tasks = tuple(TaskTimeline(name, 2.0 * steps, ranks) for name in ("w", "r"))
    picture = draw_timelines([("", Timeline(tasks, found))])
    for kind, width, mark, more in (("edge", "0.7", "L", 0), ("back", "1.2", "l5 5", 1)):  # one stands in the legend
        drawings = re.findall(f'<path class="{kind}" stroke-width="{width}" d="([^"]*)"', picture)
        assert sum(path.count(mark) for path in drawings) == steps * drawn + more, kind


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "analyse.model.stepp=1"], ["task 'analyse': 'model': unknown key 'stepp'", "did you mean 'step'"]),
        (["--set", "analyse.model.step=-1"], ["'step' must be a time such as 0.2s, 50ms or 10min, not -1"]),
        (["--set", "simulate.model={step: 1}"], ["task 'simulate': nothing says how many steps", "{steps: 10}"]),
        (["--set", "analyse.model={start: 1}"], ["it gives no time that it computes", "--set analyse.model.step=0.2s"]),
        (["--set", "simulate.model.files=mine"], ["'files' must be 'shared' or 'per-rank', not 'mine'"]),
        (["--rate", "fast"], ["--rate must be a rate in bytes (12GB/s) or bits (100Gbit/s", "not 'fast'"]),
        (["--from", "nowhere"], ["nowhere: there is no such folder"]),
        (["--trace", "."], [".: holds no trace"]),
        (["-o", "/nowhere/x.txt"], ["/nowhere/x.txt: cannot write it", "-o"]),
    ],
)
def test_mistakes(folder: Path, options: list[str], words: list[str]) -> None:
    done = wilkins(folder, "simulate", "workflow.yaml", *options)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_a_deadlock_is_shown_and_explained(folder: Path) -> None:
    (folder / "workflow.yaml").write_text(CYCLE)
    done = wilkins(folder, "simulate", "workflow.yaml")
    assert done.returncode == 4
    assert "never" in done.stdout
    assert "task 'simulate', rank 0, has been waiting since 0 s for a step of 'steer.h5' from 'analyse'" in done.stderr
    assert "'first: missing'" in done.stderr
    mended = wilkins(folder, "simulate", "workflow.yaml", "--set", "simulate.inports.0.first=missing")
    assert mended.returncode == 0, mended.stderr
    assert "the workflow: 4.5 s" in mended.stdout


def write_run(folder: Path, slow: float = 1.1) -> Path:
    """A run's directory with the trace that the workflow would leave, a little slower than its model."""
    run = folder / "wilkins-runs" / "latest"
    run.mkdir(parents=True)
    lines = [Event(0, "start", "simulate", -1, "-", "-"), Event(0, "start", "analyse", -1, "-", "-")]
    lines += [Event(int(300 * MS), "wait-data", "analyse", 0, "state.h5", "state.h5")]
    step = int(200 * MS * slow)
    for number in range(10):
        at = 300 * MS + step * (number + 1)
        for rank in (0, 1):
            lines.append(Event(at - 2, "create", "simulate", rank, "state.h5", "state.h5"))
        lines.append(Event(at, "publish", "simulate", 0, "state.h5", "state.h5", number, 1000))
    for turn, number in enumerate((0, 5, 9)):
        at = 300 * MS + step + int(turn * 1000 * MS * slow) + 1
        lines.append(Event(at, "open", "analyse", 0, "state.h5", "state.h5", number, 1000))
        lines.append(Event(at, "go", "analyse", 0, "state.h5", "state.h5"))
        lines.append(Event(at + 10, "close", "analyse", 0, "state.h5", "state.h5", number, 1000))
    lines.append(Event(300 * MS + step * 10 + 90 * MS, "end", "simulate", -1, "-", "0"))
    lines.append(Event(lines[-2].time_ns + int(1100 * MS * slow), "end", "analyse", -1, "-", "3"))
    run.joinpath("trace.tsv").write_text("".join(map(line, sorted(lines, key=lambda event: event.time_ns))))
    return run


def test_a_run_is_shown_as_it_happened(folder: Path) -> None:
    write_run(folder)
    shown = wilkins(folder, "trace")
    assert shown.stderr == ""
    assert "░ starting" in shown.stdout
    assert "▁ ending" in shown.stdout
    assert rows(shown.stdout)["simulate"][:4] == ["simulate", "2", "2.59", "s"]
    bare = wilkins(folder, "trace", "wilkins-runs/latest", "--skip-start")
    assert "starting" not in bare.stdout
    assert rows(bare.stdout)["simulate"][:4] == ["simulate", "2", "2.2", "s"]
    assert rows(bare.stdout)["analyse"][:4] == ["analyse", "1", "3.52", "s"]


def test_prediction_and_run_side_by_side(folder: Path) -> None:
    write_run(folder)
    done = wilkins(folder, "simulate", "workflow.yaml", "--trace", "wilkins-runs/latest")
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].split() == ["the", "workflow", "3.2", "s", "3.52", "s", "+10.0", "%"]
    assert [text.split()[-2:] for text in done.stdout.splitlines() if text.endswith("%")] == [["+10.0", "%"]] * 3


def test_durations_from_a_run(folder: Path) -> None:
    write_run(folder, slow=2)
    (folder / "workflow.yaml").write_text(WORKFLOW.replace("step: 0.2s, ", "").replace("    model: {step: 1s}\n", ""))
    done = wilkins(folder, "simulate", "workflow.yaml", "--from", "wilkins-runs/latest")
    assert done.stderr == ""
    assert "the workflow: 6.4 s" in done.stdout
    told = wilkins(folder, "simulate", "workflow.yaml")
    assert told.returncode == 2
    assert told.stderr.count("gives no time that it computes per step") == 2
    assert told.stderr.count("or take the times of a run: --from wilkins-runs/latest") == 2


@pytest.mark.usual("chosen0")
@pytest.mark.parametrize("chosen", [("-o", "t.json"), ("-o", "t.txt", "--format", "perfetto")])
def test_a_run_for_perfetto(folder: Path, chosen: tuple[str, ...]) -> None:
    write_run(folder)
    done = wilkins(folder, "trace", *chosen)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    events = json.loads((folder / chosen[1]).read_text())["traceEvents"]
    assert len([event for event in events if event["ph"] == "f"]) == 3, "an arrow for each step that was read"
    assert json.loads(wilkins(folder, "trace", "--format", "perfetto").stdout)["traceEvents"] == events


@pytest.mark.parametrize("content", ["", "not a trace\n"])
def test_a_trace_that_is_none(folder: Path, content: str) -> None:
    (folder / "trace.tsv").write_text(content)
    done = wilkins(folder, "trace", ".")
    assert done.returncode == 2
    assert "trace" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_run_yet(folder: Path) -> None:
    done = wilkins(folder, "trace")
    assert done.returncode == 2
    assert "wilkins-runs/latest: there is no such folder; give the folder of a run" in done.stderr


@pytest.mark.usual("graph-x.jpg", "trace-t.html")
@pytest.mark.parametrize("name", ["x.jpg", "t.html"])
@pytest.mark.parametrize("command", ["simulate", "graph", "trace"])
def test_a_file_of_a_kind_that_is_not_made(folder: Path, command: str, name: str) -> None:
    """A text in a file named .jpg would be found out only much later, by somebody else."""
    write_run(folder)
    what = [] if command == "trace" else ["workflow.yaml"]
    done = wilkins(folder, command, *what, "-o", name)
    assert done.returncode == 2
    known = ".svg, .png, .pdf, .dot, .gv, .mmd, .txt" if command == "graph" else ".svg, .png, .pdf, .txt, .json"
    kind = name.split(".")[1]
    assert f"-o {name}: cannot write {kind} files; let the name end in one of {known}, or say what" in done.stderr
    assert not (folder / name).exists()
    assert wilkins(folder, command, *what, "-o", name, "--format", "text").returncode == 0


def test_a_timeline_is_no_graph(folder: Path) -> None:
    done = wilkins(folder, "simulate", "workflow.yaml", "-o", "x.dot")
    assert done.returncode == 2
    assert "one of .svg, .png, .pdf, .txt, .json, or" in done.stderr


@pytest.mark.usual("latest")
@pytest.mark.parametrize("run", ["latest", "wilkins-runs/latest", "wilkins-runs/latest/trace.tsv"])
def test_a_run_is_named_alike_by_all_commands(folder: Path, run: str) -> None:
    write_run(folder)
    shown = wilkins(folder, "trace", run)
    assert rows(shown.stdout)["simulate"], shown.stderr
    (folder / "workflow.yaml").write_text(WORKFLOW.replace("    model: {step: 1s}\n", ""))
    done = wilkins(folder, "simulate", "workflow.yaml", "--from", run, "--trace", run)
    assert done.returncode == 0, done.stderr
    assert "the workflow" in done.stdout


Rectangle = tuple[float, float, float, float]


def texts(picture: str) -> list[Rectangle]:
    """Where the texts of a picture are; of a picture that they do not leave, and in which none meets another."""
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.attrib["viewBox"].split())

    def walk(node: ElementTree.Element, x: float, y: float) -> Iterator[Rectangle]:
        if moved := node.get("transform"):
            by = moved.removeprefix("translate(").rstrip(")").split()
            x, y = x + float(by[0]), y + float(by[1])
        if node.tag.endswith("}text"):
            size = float(node.attrib["font-size"])
            wide = width_of(str(node.text), size, node.attrib["class"])
            left = (
                x + float(node.attrib["x"]) - wide * {"start": 0, "middle": 0.5, "end": 1}[node.attrib["text-anchor"]]
            )
            middle = y + float(node.attrib["y"]) - 0.36 * size
            yield left, middle - size / 2, left + wide, middle + size / 2
        for inner in node:
            yield from walk(inner, x, y)

    found = list(walk(root, 0, 0))
    for left, top, right, bottom in found:
        assert left >= 0 and top >= 0 and right <= width and bottom <= height
    for one, two in combinations(found, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1], (one, two)
    return found


def paths(picture: str, of: str) -> list[str]:
    """The ways of the paths with this attribute."""
    return re.findall(rf'<path [^>]*{of}[^>]* d="([^"]*)"', picture)


@pytest.mark.parametrize("letters", [3, 30, 120])
@pytest.mark.parametrize("states", [1, 6])
@pytest.mark.parametrize("panels", [1, 2])
def test_all_words_of_a_timeline_are_seen(letters: int, states: int, panels: int) -> None:
    activities: tuple[Activity, ...] = get_args(Activity)[:states]
    segments = tuple(Segment(activity, float(n), n + 1.0, "x") for n, activity in enumerate(activities))
    name = "n" * letters
    lost = StepTimeline(name, 0, "x", 0, 0.5, (), ("other",))
    timeline = Timeline((TaskTimeline(name, 3.0, (RankTimeline(0, segments),)),), (lost,))
    picture = draw_timelines([("a title", timeline)] * panels)
    assert len(texts(picture)) > 3 * panels + states
    left, right = map(float, re.findall(r"M(\S+) \S+H(\S+)", paths(picture, 'class="edge"')[0])[0])
    assert right - left > 300, "the bars have room beside long names"


def test_timelines_below_each_other_have_the_scale_of_the_longest() -> None:
    """The run stands below the model, and whichever is longer is shown to its end."""
    short, long = (Timeline((TaskTimeline("sim", end, (RankTimeline(0, ()),)),), ()) for end in (1.0, 3.0))
    for panels in ([("a", short), ("b", long)], [("a", long), ("b", short)]):
        picture = draw_timelines(panels)
        ends = sorted(float(way[1:].split()[0]) for way in paths(picture, 'stroke-width="1.6"') if "v" in way)
        left, right = map(float, re.findall(r"M(\S+) \S+H(\S+)", paths(picture, 'class="edge"')[0])[0])
        assert (ends[1] - left) / (ends[0] - left) == pytest.approx(3, rel=0.01)
        assert left < ends[0] < ends[1] < right


def test_a_very_long_timeline_is_drawn() -> None:
    """What is narrower than a point shares it: as much of the bar has each colour as the rank spent on it."""
    segments = tuple(
        segment
        for n in range(20_000)
        for segment in (Segment("computing", n, n + 0.75), Segment("moving", n + 0.75, n + 1.0))
    )
    timeline = Timeline((TaskTimeline("sim", 2e4, (RankTimeline(0, segments),)),), ())
    picture = draw_timelines([("a title", timeline)])
    assert len(picture) < 200_000
    areas = []
    for kind in ("a1", "a4"):
        (way,) = paths(picture, f'class="{kind}"')
        areas.append(sum(float(wide) * float(high) for wide, high in re.findall(r"h([\d.]+)v([\d.]+)", way)))
    assert areas[0] / areas[1] == pytest.approx(3, rel=0.02)


@pytest.mark.needs("python:matplotlib")
@pytest.mark.parametrize("kind", ["", "name"])
@pytest.mark.parametrize(
    "words", ["simulate:12", "plt*.h5", "every 10th from the 10th, queue 2", "WAIT_AND_MOVE", "Größe", "a-b.c/{1,2}"]
)
def test_texts_have_the_room_that_they_take(words: str, kind: str) -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family="DejaVu Sans", size=10, weight="bold" if kind else "normal")
    wide = TextToPath().get_text_width_height_descent(words, font, ismath=False)[0]
    assert 0.97 * wide < width_of(words, 10, kind) < 1.15 * wide


@pytest.mark.nightly
@pytest.mark.needs("python:typst")
@pytest.mark.parametrize("command", ["simulate", "graph", "trace"])
def test_pictures(folder: Path, command: str) -> None:
    write_run(folder)
    what = [] if command == "trace" else ["workflow.yaml"]
    for suffix, begin in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert wilkins(folder, command, *what, "-o", f"x.{suffix}").returncode == 0
        assert (folder / f"x.{suffix}").read_bytes().startswith(begin)
    piped = wilkins(folder, command, *what, "--format", "svg")
    texts(piped.stdout)
    assert wilkins(folder, command, *what, "--format", "svg", "-o", "y").stderr == ""
    assert (folder / "y").read_text() == piped.stdout, "the same picture each time"


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
def test_graphs_of_every_mode_are_drawn(folder: Path, mode: str) -> None:
    done = wilkins(folder, "graph", "workflow.yaml", "--set", f"simulate.outports.0.mode={mode}", "-o", "x.svg")
    assert done.stderr == ""
    picture = (folder / "x.svg").read_text()
    assert ("stroke-dasharray" in picture) == (mode == "file")
    texts(picture)


def test_a_large_ensemble_is_drawn_as_a_pile(folder: Path) -> None:
    (folder / "workflow.yaml").write_text(
        "tasks:\n- {func: ./sim, taskCount: 500, outports: [{filename: 'x{instance}.h5'}]}\n"
        "- {func: ./ana, taskCount: 500, inports: [{filename: 'x{instance}.h5', mode: file}]}\n"
    )
    assert wilkins(folder, "graph", "workflow.yaml", "-o", "x.svg").stderr == ""
    picture = (folder / "x.svg").read_text()
    assert "500 channels" in picture
    assert len(texts(picture)) < 12


@pytest.mark.parametrize("file_format", ["png", "pdf"])
def test_a_picture_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str) -> None:
    """The message says what to install, and there is no file."""
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(UsageError, match=r"pip install 'wilkins\[draw\]'"):
        save(draw_timelines([]), file_format, tmp_path / f"x.{file_format}")
    assert list(tmp_path.iterdir()) == []
