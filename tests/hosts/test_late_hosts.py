"""A host that comes up late is waited for, and the end of the run reaches it all the same."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hosts.pseudo import HERE, programs

from support.running import WILKINS, processes_in, run_tree, started_tree, wait_for, write_program

pytestmark = [pytest.mark.timeout(120)]

LATE = """#!/bin/sh
# Stands for ssh: every host is this machine; it takes so many seconds to get to b.
touch "began-$1"
if [ "$1" = b ]; then sleep {seconds}; fi
exec {here} "$@"
"""
WORKFLOW = """
tasks:
  - {func: ./write.py, name: sim, args: ["a{}.h5", 5, 8000, 0.01], outports: [{filename: "a*.h5"}]}
  - {func: ./read.py, name: ana, args: [0], inports: [{filename: "a*.h5"}]}
"""
WORDS = [*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"]


def late(folder: Path, seconds: int) -> dict[str, str]:
    """A workflow over two hosts; the environment in which the second one is late."""
    programs(folder)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    return {"WILKINS_RSH": str(write_program(folder / "late", LATE.format(seconds=seconds, here=HERE)))}


@pytest.mark.nightly
def test_the_others_wait_for_it(tmp_path: Path) -> None:
    """For longer than a host may be silent that is up."""
    finished = run_tree(WORDS, 60, tmp_path, late(tmp_path, 18))
    assert finished.code == 0, finished.err


def test_a_signal_meanwhile_ends_all(tmp_path: Path) -> None:
    """The late one hears of its part and of the end at once."""
    with started_tree(WORDS, tmp_path, late(tmp_path, 3)) as tree:
        wait_for((tmp_path / "began-b").exists, 20, "the start of the keepers")
        os.kill(tree.process.pid, signal.SIGINT)
        finished = tree.wait(20)
        assert finished.code == 128 + signal.SIGINT
        assert finished.seconds < 10, finished.err
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")


def test_a_host_whose_shell_prints_is_named(tmp_path: Path) -> None:
    programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    noisy = f'#!/bin/sh\nif [ "$1" = b ]; then echo "Welcome to b"; fi\nexec {HERE} "$@"\n'
    variables = {"WILKINS_RSH": str(write_program(tmp_path / "noisy", noisy))}
    finished = run_tree(WORDS, 60, tmp_path, variables)
    assert finished.code == 1
    assert "the host b is lost, with ana" in finished.err
    assert "no message of this version of Wilkins: 'Welcome to b'; is the same version" in finished.err
    assert "Traceback" not in finished.err


DIES = """#!{python}
import os
if os.environ["PMI_RANK"] == "0" and {number}:
    os.kill(os.getpid(), {number})
from mpi4py import MPI
"""
JOB = """
tasks:
  - {func: ./dies.py, nprocs: 2, placement: [1, 1], outports: [{filename: "a*.h5"}]}
  - {func: ./read.py, args: [0], inports: [{filename: "a*.h5"}]}
"""
JOB_WORDS = [*WILKINS, "run", "--hosts", "a:2,b:1", "workflow.yaml"]


def late_ranks(folder: Path, number: int) -> dict[str, str]:
    """A job of two hosts whose rank 0 dies by this signal; the environment in which the other one starts later."""
    programs(folder)
    write_program(folder / "dies.py", DIES.format(python=sys.executable, number=int(number)))
    (folder / "workflow.yaml").write_text(JOB)
    slow = f'#!/bin/sh\ncase "$*" in b*WILKINS_PART*) touch reached; sleep 2 ;; esac\nexec {HERE} "$@"\n'
    return {"WILKINS_RSH": str(write_program(folder / "slow", slow))}


@pytest.mark.usual("SIGKILL")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=["SIGKILL", "SIGSEGV"])
def test_a_rank_that_dies_at_once_ends_its_task(number: int, tmp_path: Path) -> None:
    """MPICH's mpiexec stands still for ever where a signal ends a rank before all its launch agents have connected."""
    finished = run_tree(JOB_WORDS, 30, tmp_path, late_ranks(tmp_path, number))
    assert (tmp_path / "reached").exists(), finished.err
    assert finished.code == 1
    assert "dies: failed" in finished.err


@pytest.mark.nightly
def test_a_rank_that_is_killed_before_it_starts_ends_its_task(tmp_path: Path) -> None:
    shells = tmp_path / "wilkins-runs" / "latest" / "hosts" / "a" / "dies.sh.waits"
    with started_tree(JOB_WORDS, tmp_path, late_ranks(tmp_path, 0)) as tree:
        wait_for(lambda: shells.exists() and shells.read_text(), 20, "the shell of rank 0")
        os.kill(int(shells.read_text()), signal.SIGKILL)
        finished = tree.wait(20)
    assert finished.code == 1
    assert "dies: failed" in finished.err
