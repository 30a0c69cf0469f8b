"""The command line as its users meet it: output, exit codes, no tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from front import commands_page
from front.front_case import Case

from wilkins import cli
from wilkins.spec import reference

Pair = Callable[..., Case]
ROOT = Path(__file__).parents[2]


def wilkins(*arguments: object, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "wilkins", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        timeout=60,
        check=False,
    )


def test_check(pair: Pair) -> None:
    case = pair()
    done = wilkins("check", "workflow.yaml", folder=case.folder)
    assert (done.returncode, done.stdout) == (0, "workflow.yaml: all right: 2 tasks, 2 ranks, 1 channel\n")


@pytest.mark.usual("check", "run")
@pytest.mark.parametrize("command", ["check", "plan", "graph", "run"])
def test_a_wrong_file_is_told_in_lines(pair: Pair, command: str) -> None:
    case = pair(sim="nproc: 4", inp="io_freq: often")
    done = wilkins(command, "workflow.yaml", folder=case.folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == (
        "workflow.yaml:3:5: error: task 'sim': unknown key 'nproc'; did you mean 'nprocs'?"
    )
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("grpah x.yaml", "; did you mean 'graph'?"),
        ("submit --scheduler slrum x.yaml", "; did you mean 'slurm'?"),
        (
            "run simulate.py",
            "it is a program, and a workflow file is YAML; name it in one, as 'func: simulate.py' of a",
        ),
        ("help io_freq", "there is no page 'io_freq'; it is explained in steps"),
        ("help graphh", "did you mean graphs?"),
    ],
)
def test_what_may_be_meant_is_told(tmp_path: Path, words: str, told: str) -> None:
    done = wilkins(*words.split(), folder=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["fly", "x.yaml"], ["run", "x.yaml", "--tiemout", "3"], ["run", "x.yaml", "--timeout", "soon"], []],
)
def test_usage(arguments: list[str]) -> None:
    done = wilkins(*arguments)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usual("none.yaml", "/proc/self/mem")
@pytest.mark.parametrize("file", ["none.yaml", ".", "/dev/null", "/proc/self/mem", "a\nb"])
def test_strange_files(file: str, tmp_path: Path) -> None:
    done = wilkins("run", file, folder=tmp_path)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_plan_and_graph(pair: Pair) -> None:
    case = pair(sim="nprocs: 2", out="memory: 1GiB")
    shown = wilkins("plan", case.path).stdout
    for words in ("sim -> ana", "plt*.h5", "2 -> 1", "1 GiB", "-n 2", "3 ranks", "mpiexec -n 3 wilkins run"):
        assert words in shown
    assert wilkins("graph", case.path).stdout.splitlines()[1] == "  plt*.h5 -> ana  [all, queue 2, block]"
    whole = wilkins("graph", case.path, "--set", "ana.inports.0.listing=end").stdout.splitlines()[1]
    assert whole == "  plt*.h5 -> ana  [all, listing: end]"
    assert 't0 -->|"plt*.h5"| t1' in wilkins("graph", case.path, "--format", "mermaid").stdout
    assert '"sim" -> "ana" [label="plt*.h5"];' in wilkins("graph", case.path, "--format", "dot").stdout


def test_set(pair: Pair) -> None:
    assert "5 ranks" in wilkins("check", pair().path, "--set", "sim.nprocs=4").stdout


def test_the_file_of_a_folder_need_not_be_named(pair: Pair) -> None:
    case = pair()
    assert wilkins("check", folder=case.folder).stdout.startswith("workflow.yaml: all right")
    case.path.rename(case.folder / "other.yaml")
    done = wilkins("check", folder=case.folder)
    assert done.returncode == 2
    assert "there is no workflow.yaml here" in done.stderr


def test_init_writes_a_file_that_reads(tmp_path: Path) -> None:
    assert wilkins("init", folder=tmp_path).returncode == 0
    case = Case(tmp_path)
    case.program("simulate")
    case.program("analyse.py")
    assert len(case.plan().channels) == 1
    again = wilkins("init", folder=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_version() -> None:
    assert wilkins("--version").stdout.startswith("wilkins 0")


def test_schema_is_json_and_accepts_the_starter(tmp_path: Path) -> None:
    printed = json.loads(wilkins("schema").stdout)
    assert printed == reference.json_schema()
    assert printed["$defs"]["Task"]["required"] == ["func"]
    wilkins("init", folder=tmp_path)
    data = yaml.safe_load((tmp_path / "workflow.yaml").read_text())
    known = printed["$defs"]["Task"]["properties"]
    assert all(key in known for task in data["tasks"] for key in task)


def test_editors_find_the_schema_that_a_new_workflow_file_names(tmp_path: Path) -> None:
    """As the YAML language server reads the line: the file is looked for beside the workflow file."""
    (tmp_path / "here").mkdir()
    wilkins("init", folder=tmp_path)
    wilkins("init", "--from", "pipeline", "here/mine", folder=tmp_path)
    for folder in (tmp_path, tmp_path / "here/mine"):
        word, name = (folder / "workflow.yaml").read_text().splitlines()[0].split("=")
        assert word == "# yaml-language-server: $schema"
        schema = json.loads((folder / name).read_text())
        assert schema == reference.json_schema()
    assert schema["$defs"]["Task"]["properties"]["nprocs"]["default"] == 1
    assert schema["$defs"]["Task"]["properties"]["on_failure"]["default"] == "stop"
    path = tmp_path / "wilkins.schema.json"
    path.write_text(json.dumps({**schema, "title": "an older one"}))
    wilkins("init", "second.yaml", folder=tmp_path)
    assert json.loads(path.read_text()) == schema
    path.write_text("my own")
    wilkins("init", "third.yaml", folder=tmp_path)
    assert path.read_text() == "my own"
    assert "language-server" not in (tmp_path / "third.yaml").read_text()
    assert wilkins("schema", "-o", "other.json", folder=tmp_path).stdout == "wrote other.json\n"
    assert json.loads((tmp_path / "other.json").read_text()) == schema


def test_reference_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "workflow-file.md").read_text(encoding="utf-8")
    again = "print it anew: wilkins schema --format markdown > docs/reference/workflow-file.md"
    assert page == reference.reference(), again


def test_page_of_commands_is_up_to_date() -> None:
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.page(), "python tests/front/commands_page.py"


def test_importing_the_package_is_light() -> None:
    code = "import sys, wilkins, wilkins.cli; print(sorted({'networkx', 'yaml', 'numpy', 'h5py'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, True),
        ({"OMPI_COMM_WORLD_RANK": "3"}, True),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, False),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "8"}, True),
    ],
)
def test_ranks_are_recognised(environment: dict[str, str], expected: bool) -> None:
    assert cli.in_job(environment) is expected


def test_interrupt(pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wilkins.plan.planner.plan_file", interrupted)
    assert cli.main(["check", str(pair().path)]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_no_error(pair: Pair, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    line = f"set -o pipefail; {sys.executable} -m wilkins plan {pair().path} | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk_is_an_error(pair: Pair, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    line = f"{sys.executable} -m wilkins plan {pair().path} > /dev/full"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("wilkins: error: standard output: cannot write to it: No space left on device;"), (
        done.stderr
    )
