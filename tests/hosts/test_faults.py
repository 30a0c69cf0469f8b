"""One thing fails at a random moment of a run over three hosts: all else ends soon, says why, and leaves nothing.

The hosts that are left go on with the run: the result is that of an undisturbed one, bit by bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosts.faults import Fault, Shape, Undisturbed, assert_clean, drawn, started, trial, undisturbed, write_workflow
from hosts.rig import NEEDS, Rig

from support.running import wait_for, write_program

pytestmark = [pytest.mark.needs("root", "namespaces", *NEEDS, "mpirun.openmpi")]

SEED = 20
"""Of the first fault; those that follow have the next ones."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.fixture(scope="module")
def whole(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Shape], Undisturbed]:
    """The run in which nothing fails, by the workflow's shape."""
    return undisturbed(rig, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "fault",
    [
        Fault("pair", ("node1", "node0"), "relay", "node0", 1.5),
        pytest.param(Fault("fan-out", ("node0", "node2", "node1"), "all", "node2", 2.0), marks=pytest.mark.nightly),
        pytest.param(Fault("fan-out", ("node2", "node0", "node1"), "cut", "node1", 2.0), marks=pytest.mark.nightly),
        pytest.param(Fault("ranks", ("node1", "node2", "node0"), "files", "node2", 2.5), marks=pytest.mark.nightly),
    ],
    ids=lambda fault: f"{fault.shape}-{fault.what}",
)
def test_a_fault_ends_all(rig: Rig, tmp_path: Path, whole: Callable[[Shape], Undisturbed], fault: Fault) -> None:
    assert trial(rig, tmp_path, fault, whole(fault.shape).results), "the run was over before"


@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(SEED, SEED + 60))
def test_a_fault_at_a_random_moment_ends_all(
    rig: Rig, tmp_path: Path, whole: Callable[[Shape], Undisturbed], seed: int
) -> None:
    fault = drawn(seed, lambda shape: whole(shape).seconds)
    trial(rig, tmp_path, fault, whole(fault.shape).results)


CHATTER = """#!{python}
import time
import h5py
h5py.File("u0000.h5")
print("begun", flush=True)
while True:
    print("x" * 10000, flush=True)
    time.sleep(0.002)
"""


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_a_host_is_cut_off_that_has_much_to_say(rig: Rig, tmp_path: Path) -> None:
    """Its words fill all buffers, and its keeper waits for room with them."""
    fault = Fault("pair", ("node0", "node1"), "cut", "node1", 0.0)
    write_workflow(tmp_path, fault)
    write_program(tmp_path / "read.py", CHATTER.format(python=sys.executable))
    with started(rig, tmp_path, fault) as tree:
        wait_for(lambda: "begun" in tree.told(), 30, "the reader")
        rig.cut("node1")
        try:
            assert "the host node1 is lost, with ana0" in tree.wait(60).err
            assert_clean(rig, tree, fault)
        finally:
            rig.join("node1")
