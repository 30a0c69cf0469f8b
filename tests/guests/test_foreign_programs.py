"""Programs that nobody wrote for workflows, as they come: what they read of steps is what they read of files."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
import pytest
import yaml

from support.running import WILKINS, Finished, must_run, run_tree

PROGRAMS = Path(__file__).parents[1] / "foreign"
BUILT = Path(__file__).parents[2] / "build" / "foreign"
"""Programs that tools/foreign-programs brings."""
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
CASES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((PROGRAMS / "cases.yaml").read_text())


def put(folder: Path, words: list[str], flags: list[str]) -> list[str]:
    """Bring a program's file into the folder, built if it is one in C, and return the command that starts it."""
    words = [word.replace("{built}", str(BUILT)) for word in words]
    for place, word in enumerate(words):
        source = PROGRAMS / word
        if not word or word.startswith("/") or not source.is_file():
            continue
        shutil.copy(source, folder)
        if source.suffix == ".c":
            must_run(folder, "gcc", word, "-o", source.stem, "-I/usr/include/hdf5/serial", *flags)
            return [f"./{source.stem}", *words[place + 1 :]]
        if place == 0:
            (folder / word).chmod(0o755)
            return [f"./{word}", *words[1:]]
    return words


def lay_out(folder: Path, case: Mapping[str, Any]) -> list[list[str]]:
    """The commands that write, pass on and read, ready in a folder of their own."""
    folder.mkdir()
    if "folder" in case:
        (folder / case["folder"]).mkdir()
    if "link" in case:
        (folder / case["link"]).symlink_to(BUILT / case["link"])
    flags = case.get("flags", [])
    return [put(folder, words, flags) for words in (case["writes"], *case.get("stages", ()), case["reads"])]


def values(file: IO[bytes] | Path) -> dict[str, Any]:
    """All datasets of an HDF5 file."""
    found: dict[str, Any] = {}
    with h5py.File(file, "r") as opened:

        def add(name: str, thing: object) -> None:
            if isinstance(thing, h5py.Dataset):
                found[name] = thing[()]

        opened.visititems(add)
    return found


def content(path: Path) -> list[dict[str, Any]]:
    """The datasets of each HDF5 file that this one is or holds."""
    if path.suffix != ".tar":
        return [values(path)]
    with tarfile.open(path) as archive:
        return [values(BytesIO(member.read())) for one in archive if (member := archive.extractfile(one))]


def ports_of(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys of the ports."""
    return case.get("ports") or [{"filename": case.get("files", "plt*.h5")}]


def alone(folder: Path, case: Mapping[str, Any]) -> str:
    """Run the programs one after the other on files; returns what the reader says."""
    said = ""
    launcher = [*OPEN_MPI, "-n", str(case["ranks"])] if "ranks" in case else []
    for words in lay_out(folder, case):
        python = [sys.executable] if words[0].endswith(".py") else []
        ran = run_tree([*launcher, *python, *words], 120, folder, case.get("env"))
        assert ran.code == 0, f"alone: {ran.out}{ran.err}"
        said, launcher = ran.out, []
    return said


def coupled(folder: Path, case: Mapping[str, Any], mode: str) -> Finished:
    """Run the programs as a workflow."""
    writes, *stages, reads = lay_out(folder, case)
    ports = ports_of(case)
    outports = [{"mode": mode} | port | case.get("outport", {}) for port in ports]
    inports = [{"mode": mode, "filename": port["filename"]} | case.get("inport", {}) for port in ports]
    passed = {"inports": ports, "outports": ports}
    job: dict[str, Any] = {"nprocs": case["ranks"], "mpiexec": OPEN_MPI} if "ranks" in case else {}
    tasks = [
        {"name": "writer", "func": writes[0], "args": writes[1:], "outports": outports} | job,
        *({"name": f"stage{n}", "func": words[0], "args": words[1:]} | passed for n, words in enumerate(stages)),
        {"name": "reader", "func": reads[0], "args": reads[1:], "inports": inports},
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    return run_tree([*WILKINS, "run", "--timeout", "90", "workflow.yaml"], 120, folder, case.get("env"))


def must_say(folder: Path, ran: Finished, said: str) -> None:
    """The run was well, and the reader has said this."""
    (records,) = folder.glob("wilkins-runs/workflow-*")
    log = records / "layer.log"
    told = ran.out + ran.err + (log.read_text() if log.exists() else "")
    assert ran.code == 0, told
    lines = said.splitlines()
    assert [line for line in (records / "reader.log").read_text().splitlines() if line in lines] == lines, told


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        pytest.param(mode, name, id=f"{mode}, {name}", marks=pytest.mark.needs(*case.get("needs", [])))
        for mode in ("memory", "both", "file")
        for name, case in CASES.items()
        if mode == "memory" or "stages" not in case
    ],
)
@pytest.mark.usual("memory, cp")
def test_reads_of_steps_what_it_reads_of_files(tmp_path: Path, mode: str, name: str) -> None:
    case = CASES[name]
    files, steps = tmp_path / "alone", tmp_path / "coupled"
    said = alone(files, case)
    ran = coupled(steps, case, mode)
    must_say(steps, ran, "" if case.get("made") else said)
    assert said or case.get("made")
    if mode != "memory":  # what the writer makes lies on the disk, whole
        listed = [
            [port["filename"]] if isinstance(port["filename"], str) else port["filename"] for port in ports_of(case)
        ]
        names = {path.relative_to(files) for names in listed for name in names for path in files.glob(name)}
        assert names
        assert not [name for name in names if not (steps / name).exists() or not (steps / name).stat().st_size]
    for made in case.get("made", []):
        found, expected = content(steps / made), content(files / made)
        assert expected
        assert expected[0]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_equal(one, other)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.needs(*case["needs"])) for name, case in CASES.items() if "rounds" in case],
)
def test_reads_the_same_in_every_round(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    said = alone(tmp_path / "alone", case)
    for number in range(case["rounds"]):
        folder = tmp_path / str(number)
        must_say(folder, coupled(folder, case, "memory"), said)
