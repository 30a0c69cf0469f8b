"""Numbers of a run for Prometheus: in a file while the run lasts, and at an address."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from report.endless import READ, WRITE

from support.running import MPIEXEC, WILKINS, run_tree, started_tree, wait_for, write_program
from wilkins.cli import main
from wilkins.launch.metrics.exporter import Address, check, form_of, target_of
from wilkins.launch.metrics.families import Form, Look, RunFacts, families_of, text
from wilkins.launch.metrics.usage import Usages
from wilkins.plan.planner import plan_file
from wilkins.transport.report_table import ChannelFacts, PortFacts, Report, TaskFacts, Wait

LATEST = Path("wilkins-runs/latest")
WORKFLOW = """\
tasks:
  - {func: ./write.py, outports: [{filename: "step*.h5"}]}
  - {func: ./read.py, taskCount: 2, inports: [{filename: "step*.h5"}]}
"""

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a workflow that goes on until there is a file `enough`."""
    for name, program in (("write.py", WRITE), ("read.py", READ)):
        write_program(tmp_path / name, program)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


def parsed(said: str, form: Form) -> Samples:
    """The samples of a text, by name and labels (but `run`), as Prometheus' own client reads it."""
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as strict

    families: Iterable[Any] = (strict if form == "openmetrics" else parser).text_string_to_metric_families(said)
    found: Samples = {}
    for family in families:
        assert family.type != "unknown" and family.documentation, family
        for sample in family.samples:
            labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "run"))
            assert (sample.name, labels) not in found, "Prometheus refuses a sample that comes twice"
            found[sample.name, labels] = sample.value
    return found


def of_task(found: Samples, name: str) -> dict[str, float]:
    """The samples of one name, by task."""
    return {dict(labels)["task"]: value for (sampled, labels), value in found.items() if sampled == name}


@pytest.mark.needs("python:prometheus_client")
@pytest.mark.parametrize("form", ["openmetrics", "prometheus"])
def test_what_a_report_says(folder: Path, form: Form) -> None:
    """A name may hold any bytes."""
    strange = 'a"b\\c\nd\udcff*.h5'
    wait = Wait(rank=0, what="data", seconds=2.5)
    report = Report(
        tasks=(
            TaskFacts("write", 1, "running", starts=1, waiting_s=0.25, copying_s=0.5, moved_bytes=10),
            TaskFacts("read[0]", 1, "running", starts=2, waiting_s=7.0, waits=(wait,)),
            TaskFacts("read[1]", 1, "ended"),
        ),
        ports=(
            PortFacts(0, "out", strange, steps=5, bytes=50),
            PortFacts(1, "in", strange, steps=3, bytes=30, dropped=1),
            PortFacts(2, "in", strange),
        ),
        channels=(ChannelFacts(0, 1, queued=1, published=5, read=3, dropped=1), ChannelFacts(0, 2, published=5)),
        memory_bytes=4096,
        memory_peak_bytes=8192,
    )
    run = RunFacts("run-1", "0.1.0", "here", began=1000.0, at=1010.5)
    look = Look(plan_file(folder / "workflow.yaml"), run, report)
    found = parsed(text(families_of(look), form, run.name), form)
    port = 'a"b\\c\nd\\xff*.h5'
    read = (("port", port), ("task", "read[0]"))
    assert found["wilkins_steps_published_total", (("port", port), ("task", "write"))] == 5
    assert found["wilkins_steps_read_total", read] == 3
    assert found["wilkins_read_bytes_total", read] == 30
    assert found["wilkins_steps_dropped_total", read] == 1
    channel = (("consumer", "read[0]"), ("inport", port), ("outport", port), ("producer", "write"))
    assert found["wilkins_channel_queued_steps", channel] == 1
    assert found["wilkins_channel_steps_offered_total", channel] == 5
    assert of_task(found, "wilkins_task_waiting_seconds_total") == {"write": 0.25, "read[0]": 7.0, "read[1]": 0}
    assert of_task(found, "wilkins_task_longest_wait_seconds")["read[0]"] == 2.5
    assert found["wilkins_task_waiting_ranks", (("task", "read[0]"), ("what", "data"))] == 1
    assert found["wilkins_task_state", (("state", "ended"), ("task", "read[1]"))] == 1
    assert found["wilkins_memory_peak_bytes", ()] == 8192
    assert found["wilkins_run_start_time_seconds", ()] == 1000.0
    assert ("wilkins_run_exit_code", ()) not in found


@pytest.mark.needs("python:prometheus_client")
@pytest.mark.usual("alone")
@pytest.mark.parametrize("kind", ["alone", "one job", "hosts"])
def test_a_run_gives_out_its_numbers(folder: Path, kind: str) -> None:
    """At an address while it goes on; in files also afterwards: those of its end."""
    words = ["run", "--quiet", "--metrics=:0", "--metrics=w.prom", "--metrics=w.txt", "workflow.yaml"]
    before = [str(MPIEXEC), "-n", "3"] if kind == "one job" else []
    across = ["--hosts", "node0:2,node1:2"] if kind == "hosts" else []
    with started_tree([*before, *WILKINS, *words, *across], folder, variables(kind)) as tree:
        wait_for(lambda: has_published(folder / "w.txt"), 40, "steps in a file")
        (address,) = re.findall(r"metrics are at (http://127\.0\.0\.1:\d+/metrics)", tree.told())
        kind_, said = asked(address, "application/openmetrics-text; version=1.0.0")
        assert kind_ == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        there = parsed(said, "openmetrics")
        assert of_task(there, "wilkins_steps_published_total")["write"] > 0
        assert ("wilkins_run_exit_code", ()) not in there
        kind_, said = asked(address, "text/plain")
        assert kind_.startswith("text/plain; version=0.0.4")
        assert parsed(said, "prometheus").keys() >= there.keys()
        (folder / "enough").touch()
        assert tree.wait(40).code == 0
    summary = json.loads((folder / LATEST / "summary.json").read_text())
    for name, form in (("w.prom", "prometheus"), ("w.txt", "openmetrics")):
        found = parsed((folder / name).read_text(), form)  # type: ignore[arg-type]
        consumed = {task["name"]: task["consumed"] for task in summary["tasks"] if task["consumed"]}
        assert of_task(found, "wilkins_steps_read_total") == consumed
        assert found["wilkins_run_exit_code", ()] == 0
        assert set(of_task(found, "wilkins_task_cpu_seconds_total")) == (set(NAMES) if kind == "alone" else set())
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def has_published(file: Path) -> bool:
    return file.exists() and re.search("^wilkins_steps_published_total.* [1-9]", file.read_text(), re.M) is not None


NAMES = ("write", "read[0]", "read[1]")


def variables(kind: str) -> dict[str, str] | None:
    if kind != "hosts":
        return None
    from hosts import pseudo

    return {**os.environ, "WILKINS_RSH": str(pseudo.HERE)}


def asked(address: str, accept: str) -> tuple[str, str]:
    """What an address answers, with its kind."""
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": accept}), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_programs_that_a_task_starts_again_add_up() -> None:
    """The processor time of a task never falls."""
    usages = Usages()
    own = usages.take({0: os.getpid()})[0]
    assert own.cpu_s > 0 and own.resident_bytes > 1 << 20 and own.processes >= 1
    other = usages.take({0: os.getppid()})[0]
    assert other.cpu_s >= own.cpu_s
    assert usages.take({})[0].cpu_s >= other.cpu_s
    assert usages.take({})[0].processes == 0


def test_where_numbers_go() -> None:
    assert target_of("9464") == target_of(":9464") == Address("127.0.0.1", 9464)
    assert str(target_of("[::1]:9464")) == "[::1]:9464"
    assert target_of("0.0.0.0:80") == Address("0.0.0.0", 80)
    assert target_of("out/run.prom") == Path("out/run.prom")
    assert form_of(Path("run.prom")) == "prometheus"
    assert form_of(Path("run.txt")) == "openmetrics"


def test_where_they_cannot_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything is started."""
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for word, code, why in (
            (f":{port}", 3, "another program or run listens there; give another port, or :0 for one that is free"),
            ("192.0.2.1:9464", 3, "give an address of this machine, or only a port"),
            (":70000", 2, "a port is at most 65535"),
            (
                "missing/run.prom",
                3,
                "missing/run.prom: cannot write the run's metrics there: No such file",
            ),
            (".", 2, "is a folder; name a file in it, such as wilkins.prom"),
        ):
            assert main(["run", "--metrics", word, "workflow.yaml"]) == code
            said = " ".join(capsys.readouterr().err.replace("wilkins: ", "").split())
            assert why in said, (word, said)
    assert not (folder / "wilkins-runs").exists()
    left = {path.name for path in folder.iterdir()}
    check([str(folder / "run.prom")])
    assert {path.name for path in folder.iterdir()} == left, "to find out leaves nothing"


def test_a_file_that_cannot_be_written_any_more_does_not_end_the_run(folder: Path) -> None:
    (folder / "out").mkdir()
    write_program(folder / "write.py", WRITE.replace("import h5py", 'import os\nos.rmdir("out")\nimport h5py'))
    (folder / "enough").touch()
    finished = run_tree([*WILKINS, "run", "--quiet", "--metrics=out/w.prom", "workflow.yaml"], 40, folder)
    assert finished.code == 0, finished.err
    assert "out/w.prom: cannot write the metrics of the run: No such file or directory" in finished.said
