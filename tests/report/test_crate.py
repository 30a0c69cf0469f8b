"""`wilkins report --crate`: a run as a Workflow Run RO-Crate."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.running import WILKINS, must_run, run_tree, started_tree, wait_for, write_program
from wilkins.cli import main
from wilkins.launch.records.rundir import commit_of

ROOT = Path(__file__).parents[2]
LATEST = Path("wilkins-runs/latest")
WORKFLOW = """\
tasks:
  - func: simulate.py
    args: ["3"]
    outports: [{filename: "heat-*.h5", mode: both}]
  - func: analyse.py
    inports: [{filename: "heat-*.h5"}]
    outports: [{filename: result.h5}]
"""
SIMULATE = """\
import h5py, sys
for step in range(int(sys.argv[1])):
    with h5py.File(f"heat-{step}.h5", "w") as file:
        file["u"] = [step] * 10
"""
ANALYSE = """\
import h5py, itertools, os
for step in itertools.count():
    try:
        h5py.File(f"heat-{step}.h5").close()
    except OSError:
        break
h5py.File("result.h5", "w").close()
if os.path.exists("broken"):
    raise SystemExit("it is broken")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a workflow whose files stay on disk."""
    (tmp_path / "simulate.py").write_text(SIMULATE, encoding="utf-8")
    (tmp_path / "analyse.py").write_text(ANALYSE, encoding="utf-8")
    (tmp_path / "workflow.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    return subprocess.run(
        ["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


def entities(metadata: str) -> dict[str, dict[str, Any]]:
    return {one["@id"]: one for one in json.loads(metadata)["@graph"]}


def values_of(found: dict[str, dict[str, Any]], entity: str) -> dict[str, str]:
    """Names and values of the additional properties of an entity."""
    known = found[entity]["additionalProperty"]
    values = [found[one["@id"]] for one in (known if isinstance(known, list) else [known])]
    return {one["name"]: one["value"] for one in values}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.needs("python:rocrate", "git")
def test_what_was_run_with_what_and_what_came_of_it(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "all")
    (folder / "analyse.py").write_text(f"{ANALYSE}# changed\n", encoding="utf-8")
    must_run(folder, *WILKINS, "run", "--quiet", "--set", 'simulate.args=["2"]', "workflow.yaml")
    said = must_run(folder, *WILKINS, "report", "--crate", "out", "latest")
    assert "a Workflow Run RO-Crate of workflow-" in said and "3 files" in said

    found = entities((folder / "out/ro-crate-metadata.json").read_text())
    assert {"@id": "https://w3id.org/ro/crate/1.1"} in found["ro-crate-metadata.json"]["conformsTo"]
    root, run, workflow = found["./"], found["#run"], found["workflow.yaml"]
    assert {"@id": "https://w3id.org/ro/wfrun/workflow/0.5"} in root["conformsTo"]
    assert root["mainEntity"] == run["instrument"] == {"@id": "workflow.yaml"}
    assert run["actionStatus"] == "http://schema.org/CompletedActionStatus" and "error" not in run
    assert run["startTime"] < run["endTime"]
    of_run = values_of(found, "#run")
    assert of_run["exit code"] == "0" and of_run["host"]
    assert json.loads(of_run["command line"])[:3] == ["wilkins", "run", "--quiet"]
    setting = found[run["object"]["@id"]]
    assert (setting["name"], setting["value"]) == ("simulate.args", '["2"]')
    assert found[setting["exampleOfWork"]["@id"]]["workExample"] == {"@id": setting["@id"]}

    assert (folder / "out/workflow.yaml").read_text() == WORKFLOW
    of_git = values_of(found, "workflow.yaml")
    assert of_git["git commit"] == git(folder, "rev-parse", "HEAD")
    assert of_git["file changed since that commit"] == "analyse.py"
    assert workflow["version"].endswith("-dirty")

    program = found[(folder / "simulate.py").as_uri()]
    assert program["sha256"] == sha256(folder / "simulate.py")
    needs = program["softwareRequirements"]
    libraries = [found[one["@id"]] for one in (needs if isinstance(needs, list) else [needs])]
    assert "HDF5" in {one["name"].partition(",")[0] for one in libraries}
    assert found["#task-analyse"]["result"] == {"@id": (folder / "result.h5").as_uri()}
    assert values_of(found, "#task-simulate")["steps published"] == "2"
    for name in ("heat-0.h5", "heat-1.h5", "result.h5"):
        output = found[(folder / name).as_uri()]
        assert (output["sha256"], output["contentSize"]) == (
            sha256(folder / name),
            str((folder / name).stat().st_size),
        )
        assert {"@id": output["@id"]} in run["result"]
    for name in ("summary.json", "trace.tsv", "simulate.log", "report.html"):
        record = found[f"records/{name}"]
        assert record["sha256"] == sha256(folder / "out/records" / name)
        assert {"@id": record["@id"]} in run["result"]


@pytest.mark.needs("python:rocrate")
def test_a_failed_run_in_one_file_with_its_outputs(folder: Path) -> None:
    """An archive that ro-crate-py reads. What changed after the run does not get in."""
    (folder / "broken").touch()
    (folder / "heat-9.h5").touch()
    subprocess.run(["touch", "-d", "2020-01-01", folder / "heat-9.h5"], check=True)
    assert run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 40, folder).code == 1
    (folder / "workflow.yaml").write_text("tasks: []\n", encoding="utf-8")
    must_run(folder, *WILKINS, "report", "--crate", "out.zip", "--with-files")
    from rocrate.rocrate import ROCrate

    with zipfile.ZipFile(folder / "out.zip") as archive:
        archive.extractall(folder / "out")
    crate = ROCrate(folder / "out")
    action = crate.dereference("#run")
    assert action["actionStatus"] == "http://schema.org/FailedActionStatus" and "analyse" in action["error"]
    assert crate.dereference("#task-analyse")["error"] == "exit code 1"
    assert crate.mainEntity.id == "workflow.yaml"
    assert (folder / "out/workflow.yaml").read_text() == WORKFLOW
    copied = {path.name for path in (folder / "out/outputs").iterdir()}
    assert copied == {"heat-0.h5", "heat-1.h5", "heat-2.h5", "result.h5"}
    assert sha256(folder / "out/outputs/heat-2.h5") == crate.dereference("outputs/heat-2.h5")["sha256"]


VALIDATE = """\
import json, sys
from pathlib import Path
import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils import http

class Answer:  # of w3id.org, which tests do without
    status_code = 200
    headers = {"Content-Type": "application/ld+json"}

    def json(self):
        context = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text())
        for term in ("ComputationalWorkflow", "FormalParameter"):  # 1.3 has these elsewhere than 1.1
            context["@context"][term] = f"https://bioschemas.org/{term}"
        return context

http.HttpRequester.get = lambda *_, **__: Answer()
settings = services.ValidationSettings(
    rocrate_uri=sys.argv[1],
    profile_identifier="workflow-run-crate",
    requirement_severity=models.Severity.REQUIRED,
    offline=True,
    skip_availability_check=True,
)
result = services.validate(settings)
print("passed" if result.passed() else [str(issue.message) for issue in result.get_issues()])
"""


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.needs("python:rocrate")
def test_the_validator_finds_nothing_that_is_required(folder: Path) -> None:
    """It wants other versions of libraries than the tests, and gets an environment of its own, from PyPI."""
    venv.create(folder / "validator", with_pip=True)
    python = folder / "validator/bin/python"
    must_run(folder, python, "-m", "pip", "install", "-q", "--upgrade", "pip>=25.1", timeout=200)  # which knows --group
    group = f"{ROOT / 'pyproject.toml'}:crates"
    must_run(folder, python, "-m", "pip", "install", "-q", "--group", group, "rocrate", timeout=300)
    must_run(folder, *WILKINS, "run", "--quiet", "--set", 'simulate.args=["2"]', "workflow.yaml")
    must_run(folder, *WILKINS, "report", "--crate", "out")
    assert must_run(folder, python, "-c", VALIDATE, "out", timeout=100).strip() == "passed"
    metadata = folder / "out/ro-crate-metadata.json"
    metadata.write_text(metadata.read_text().replace('"mainEntity"', '"otherEntity"'))
    assert "passed" not in must_run(folder, python, "-c", VALIDATE, "out", timeout=100)


@pytest.mark.needs("python:rocrate")
def test_runs_of_which_there_is_no_crate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(
        folder / "simulate.py",
        f"{SIMULATE}import pathlib, time\nwhile not pathlib.Path('enough').exists(): time.sleep(0.05)\n",
    )
    monkeypatch.chdir(folder)

    def refusal(*words: str) -> str:
        assert main(["report", *words]) in (2, 3)
        return " ".join(capsys.readouterr().err.replace("wilkins: ", "").split())

    assert "there is no such folder; give the folder of a run" in refusal("--crate", "out", "missing")
    with started_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], folder) as tree:
        wait_for(lambda: (folder / LATEST / "start.json").exists(), 30, "the run")
        assert "the run goes on; a crate is of a run that has ended" in refusal("--crate", "out")
        (folder / "enough").touch()
        assert tree.wait(40).code == 0
    (folder / "full").mkdir()
    (folder / "full/file").touch()
    assert "full: is there already; name a new or empty folder" in refusal("--crate", "full")
    assert "cannot write the run's crate there: No such file" in refusal("--crate", "missing/out.zip")
    assert "give --crate FOLDER or --crate FILE.zip, too" in refusal("--with-files")
    (folder / LATEST / "start.json").unlink()
    assert main(["report", "--crate", "older"]) == 0
    assert "has no start.json, so the crate lacks the command line" in " ".join(capsys.readouterr().err.split())
    (folder / "workflow.yaml").write_text("tasks: []\n", encoding="utf-8")
    assert "has changed since the run; put back what was run" in refusal("--crate", "changed")
    (folder / LATEST / "summary.json").unlink()
    assert "the run has left no summary, since its launcher was killed" in refusal("--crate", "killed")


def test_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    must_run(folder, *WILKINS, "run", "--quiet", "workflow.yaml")
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    assert main(["report", "--crate", "out"]) == 2
    assert "pip install 'wilkins[provenance]'" in capsys.readouterr().err


@pytest.mark.needs("git")
def test_the_commit_is_read_without_git(tmp_path: Path) -> None:
    """As a branch, packed or not, as a tag that is checked out, and in a second working tree."""
    assert commit_of(tmp_path) is None
    home = tmp_path / "home"
    (home / "below").mkdir(parents=True)
    git(home, "init", "--quiet")
    assert commit_of(home) is None
    git(home, "commit", "--quiet", "--allow-empty", "-m", "first")
    first = git(home, "rev-parse", "HEAD")
    assert commit_of(home / "below") == first
    git(home, "pack-refs", "--all")
    assert commit_of(home) == first
    git(home, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "second"))
    git(tmp_path / "second", "commit", "--quiet", "--allow-empty", "-m", "second")
    assert commit_of(tmp_path / "second") == git(tmp_path / "second", "rev-parse", "HEAD") != first
    git(home, "checkout", "--quiet", "--detach")
    assert commit_of(home) == first
    shutil.rmtree(home / ".git/refs")
    assert commit_of(home) == first
