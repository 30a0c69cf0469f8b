"""What tools/original-tests says of a checkout of the original Wilkins: of ones made here, right, wrong, endless."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.running import Finished, run_tree

TOOL = Path(__file__).parents[2] / "tools" / "original-tests"

WORKFLOW = """\
tasks:
  - func: "./producer-test.py"
    nprocs: 1
    outports: [{filename: particles.h5, dsets: [{name: "*", passthru: 0, metadata: 1}]}]
  - func: "./consumer-test.py"
    nprocs: 1
    inports: [{filename: particles.h5, dsets: [{name: "*", passthru: 0, metadata: 1}]}]
"""

PRODUCER = """\
import h5py
import numpy as np
with h5py.File("particles.h5", "w") as file:
    file["data"] = np.full((4, 3, 2), VALUE, "f")
"""

CONSUMER = """\
import h5py
with h5py.File("particles.h5", "r") as file:
    print(file["data"][:])
"""


def judged(folder: Path, *words: str, value: str = "1", consumer: str = CONSUMER) -> Finished:
    """What comes of one of its tests, in a checkout with such programs."""
    texts = {
        "tests/wilkins_stateful_test.yaml": "",
        "tests/wilkins_python_test_memory.yaml": WORKFLOW,
        "examples/python/producer.py": PRODUCER.replace("VALUE", value),
        "examples/python/consumer.py": consumer,
        "examples/lowfive/actions/passthru-actions.py": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    test = () if "cycle-memory" in words else ("python-prod-con-memory",)
    return run_tree([sys.executable, TOOL, folder, "--work", folder / "work", *test, *words], 120, folder)


@pytest.mark.parametrize(
    "launch", ["alone", pytest.param("job", marks=[pytest.mark.needs("mpiexec.mpich"), pytest.mark.nightly])]
)
def test_all_is_right(tmp_path: Path, launch: str) -> None:
    finished = judged(tmp_path, "--launch", launch)
    assert (finished.code, "1 of 1 passed" in finished.out) == (0, True), finished.out + finished.err


def test_values_are_wrong(tmp_path: Path) -> None:
    finished = judged(tmp_path, "--launch", "alone", value="2")
    assert finished.code == 1
    assert "FAILED  python-prod-con-memory" in finished.out
    assert "the logs have 0 times" in finished.out


@pytest.mark.nightly
def test_a_file_is_on_the_disk(tmp_path: Path) -> None:
    finished = judged(tmp_path, "--launch", "alone", consumer=CONSUMER + "h5py.File('own.h5', 'w')\n")
    assert finished.code == 1
    assert "on the disk are own.h5" in finished.out


@pytest.mark.nightly
def test_a_run_does_not_end(tmp_path: Path) -> None:
    finished = judged(tmp_path, "--launch", "alone", "--limit", "5", consumer="import time\ntime.sleep(600)\n")
    assert finished.code == 1
    assert "still running after 5 s" in finished.out


@pytest.mark.needs("mpicxx.mpich", "pkg-config")
def test_the_checkout_has_no_diy(tmp_path: Path) -> None:
    finished = judged(tmp_path, "--launch", "alone", "cycle-memory")
    assert finished.code == 2
    assert "ext/diy: DIY is not there" in finished.err and "--diy" in finished.err


def test_there_is_no_checkout(tmp_path: Path) -> None:
    finished = run_tree([sys.executable, TOOL, tmp_path], 60, tmp_path)
    assert finished.code == 2
    assert "no checkout of the original Wilkins" in finished.err
