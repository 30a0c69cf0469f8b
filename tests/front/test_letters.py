"""Letters that a locale or a terminal does not know: names of files are bytes, and what cannot be shown is escaped."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.running import WILKINS, Finished, run_tree, write_program
from wilkins.schema.patterns import intersect

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
UTF_8 = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}

WORKFLOW = """\
name: Größe
tasks:
  - {func: ./schreib-ö.py, args: ["ä b"], outports: [{filename: "größe-*.h5", mode: both}]}
  - {name: read, func: ./read.py, inports: [{filename: "größe-?.h5"}]}
"""

WRITER = """\
import os, sys
import h5py
print(os.fsencode(sys.argv[1]))
for step in range(3):
    with h5py.File("größe-%d.h5".encode() % step, "w") as file:
        file["x"] = [step]
"""

READER = """\
import h5py
for step in range(3):
    with h5py.File("größe-%d.h5".encode() % step, "r") as file:
        print("read", file["x"][0])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "Ordner-ü"
    made.mkdir()
    (made / "größe.yaml").write_text(WORKFLOW, encoding="utf-8")
    write_program(made / "schreib-ö.py", WRITER)
    write_program(made / "read.py", READER)
    return made


def _wilkins(folder: Path, *words: str, env: dict[str, str] = ASCII) -> Finished:
    finished = run_tree([*WILKINS, *words], 60, folder, env)
    assert "Traceback" not in finished.err, finished.err
    return finished


@pytest.mark.usual("ASCII")
@pytest.mark.parametrize("before", [ASCII, UTF_8], ids=["ASCII", "UTF-8"])
def test_a_run_in_an_ascii_locale(folder: Path, before: dict[str, str]) -> None:
    """Files have the names that the workflow file has in UTF-8, and their timeline can be shown under any locale."""
    ran = _wilkins(folder, "run", "größe.yaml", env=before)
    assert ran.code == 0, ran.err
    assert sorted(os.fsencode(file.name) for file in folder.glob("gr*.h5")) == [
        f"größe-{step}.h5".encode() for step in range(3)
    ]
    assert (folder / "wilkins-runs/latest").resolve().name.startswith("Größe-")
    logs = {log.name: log.read_bytes() for log in folder.glob("wilkins-runs/latest/*.log")}
    assert logs["schreib-ö.log"] == f"{'ä b'.encode()!r}\n".encode()
    assert logs["read.log"].startswith(b"read 0\nread 1\nread 2\n")
    summary = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())
    assert [task["outcome"] for task in summary["tasks"]] == ["done", "done"]
    for after in (ASCII, UTF_8):
        shown = _wilkins(folder, "trace", env=after)
        assert shown.code == 0, shown.err
        assert ("schreib-ö" if after is UTF_8 else "schreib-\\xc3\\xb6") in shown.out
        assert _wilkins(folder, "trace", "-o", "trace.svg", env=after).code == 0


def test_commands_in_an_ascii_locale(folder: Path) -> None:
    checked = _wilkins(folder, "check", "größe.yaml")
    assert checked.out == "gr\\xc3\\xb6\\xc3\\x9fe.yaml: all right: 2 tasks, 2 ranks, 1 channel\n", checked.err
    assert "gr\\xc3\\xb6\\xc3\\x9fe-*.h5" in _wilkins(folder, "plan", "größe.yaml").out
    assert "gr\\xc3\\xb6\\xc3\\x9fe-*.h5" in _wilkins(folder, "graph", "größe.yaml").out
    for target in ("graph.mmd", "graph.svg"):
        drawn = _wilkins(folder, "graph", "größe.yaml", "-o", target)
        assert drawn.code == 0, drawn.err
    assert "größe-*.h5" in (folder / "graph.mmd").read_text(encoding="utf-8")
    wrong = _wilkins(folder, "check", "größe.yaml", "--set", "read.nprocs=fünf")
    assert wrong.code == 2
    assert wrong.err.startswith("--set read.nprocs=f\\xc3\\xbcnf: error: ")


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """As of files from other machines; neither can they be shown, nor do they stop anything."""
    (tmp_path / os.fsdecode(b"a\xff.yaml")).write_text("tasks: [{func: /bin/true}]\n")
    checked = _wilkins(tmp_path, "check", os.fsdecode(b"a\xff.yaml"), env=UTF_8)
    assert (checked.code, checked.out) == (0, "a\\xff.yaml: all right: 1 task, 1 rank, 0 channels\n")
    wrong = _wilkins(tmp_path, "check", os.fsdecode(b"a\xff.yaml"), "--set", os.fsdecode(b"true.func=\xff"), env=UTF_8)
    assert wrong.code == 2
    assert wrong.err == "--set true.func=\\xff: error: not UTF-8 text; write it in UTF-8\n"


def test_a_wildcard_stands_for_one_byte() -> None:
    """As in the layer inside the tasks, which knows no letters."""
    assert intersect("a?.h5", "ab.h5")
    assert not intersect("a?.h5", "aö.h5")
    assert intersect("a??.h5", "aö.h5")
