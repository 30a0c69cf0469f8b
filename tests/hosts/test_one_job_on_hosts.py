"""One MPI job over several hosts: its tasks, its ends and its messages are those of a job on one host."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from hosts.test_newest_on_hosts import same_for_all
from hosts.test_newest_on_hosts import workflow as newest
from hosts.test_tasks_of_several_hosts import all_have_read, together
from launch.conftest import ONE_STEP, PRODUCER, READER, Job
from launch.test_one_job import MIXED, PLAIN, build
from programs.build import build as built
from programs.build import parallel_c

from support.resuming import CHAIN, NORM, SUMS, make, results, want
from support.running import MPIEXEC, WILKINS, Finished, Tree, run_tree, started_tree, wait_for, write_program
from support.surviving import CHECKPOINTS, FILTERED, LAST, RESTART, SIMULATION, got, prepare, steps, summary

pytestmark = [
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(150),
]

OVER_TCP = ("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "tcp,self", "--bind-to", "none")
OURS = "^[^ ]*(python[^ ]* -m wilkins|/s(im|um)( |$)|python[^ ]* [^ ]*(relay|far_files|idle_rank).py)"

RANKS = "#!/usr/bin/env python\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


def words(family: str, hosts: str, ranks: int) -> list[str]:
    """What starts a job of so many ranks on hosts, as many on each as they have slots."""
    if family == "openmpi":
        return ["mpirun.openmpi", "--allow-run-as-root", *OVER_TCP, "--host", hosts, "-n", str(ranks)]
    return [MPIEXEC, "-launcher", "ssh", "-hosts", hosts, "-n", str(ranks)]


def started(
    rig: Rig, folder: Path, hosts: str, ranks: int, *options: str, family: str = "pypi"
) -> AbstractContextManager[Tree]:
    command = [*words(family, hosts, ranks), *WILKINS, "run", *options, "workflow.yaml"]
    return started_tree(rig.on("node0", *command, folder=folder), folder)


def run(rig: Rig, folder: Path, hosts: str, ranks: int, *options: str, family: str = "pypi") -> Finished:
    with started(rig, folder, hosts, ranks, *options, family=family) as tree:
        finished = tree.wait(90)
    assert "Traceback" not in finished.err, finished.err
    nothing_is_left(rig)
    assert list(folder.glob("wilkins-runs/.job-*")) == []
    return finished


def nothing_is_left(rig: Rig) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and not all(_is_clean(rig, host) for host in rig.names):
        time.sleep(0.1)
    assert [(host, rig.processes(host, OURS), rig.shared_memory(host)) for host in rig.names] == [
        (host, [], []) for host in rig.names
    ]


def _is_clean(rig: Rig, host: str) -> bool:
    return not rig.processes(host, OURS) and not rig.shared_memory(host)


def log(folder: Path, name: str) -> str:
    return (folder / "wilkins-runs" / "latest" / f"{name}.log").read_text()


def mixed(folder: Path, mode: str, family: str = "pypi") -> None:
    """Two tasks of two ranks, and one that is started for each step."""
    build(Job(family, MPIEXEC), folder)
    (folder / "workflow.yaml").write_text(MIXED.replace("MODE", mode))


@pytest.mark.usual("pypi-apart")
@pytest.mark.parametrize(
    "hosts",
    ["node0:2,node1:2,node2:1", "node0:1,node1:3,node2:1", "node0:3,node1:2"],
    ids=["apart", "divided", "filled"],
)
@pytest.mark.parametrize("family", ["pypi", "openmpi"])
def test_mpi_tasks_and_a_plain_one(rig: Rig, tmp_path: Path, family: str, hosts: str) -> None:
    """The ranks of a task are on one host or on two."""
    mixed(tmp_path, "once", family)
    finished = run(rig, tmp_path, hosts, 5, family=family)
    assert finished.code == 0, finished.err
    assert log(tmp_path, "each") == "1 of 2\n21 of 2\n41 of 2\n"
    assert log(tmp_path, "sum.0") == "total 126\n"
    assert "sum:0 | total 126" in finished.out
    logs = (tmp_path / "wilkins-runs/latest").rglob("*.log")
    assert {path.name for path in logs if path.name.startswith(("sim.", "sum."))} == {
        *("sim.0.log", "sim.1.log", "sum.0.log", "sum.1.log")
    }, "as on one host"


@pytest.mark.nightly
def test_plain_tasks(rig: Rig, tmp_path: Path) -> None:
    for name, text in {"produce.py": PRODUCER, "read.py": READER, "one.py": ONE_STEP}.items():
        write_program(tmp_path / name, text)
    (tmp_path / "workflow.yaml").write_text(PLAIN)
    finished = run(rig, tmp_path, "node0:1,node1:1,node2:1", 3)
    assert finished.code == 0, finished.err
    assert "produce | wrote 2" in finished.out
    assert log(tmp_path, "read").startswith("read 0 0\nread 1 10\nread 2 20\n")
    assert log(tmp_path, "each") == "handled step0.h5 0\nhandled step1.h5 10\nhandled step2.h5 20\n"


@pytest.mark.nightly
@pytest.mark.parametrize("mpi", ["pypi", "openmpi"])
def test_ranks_write_and_read_one_file(rig: Rig, tmp_path: Path, mpi: str) -> None:
    """Both tasks have ranks on two hosts: their parallel files lie on the host of their first rank."""
    together(tmp_path, "mpich" if mpi == "pypi" else mpi)
    for _ in range(3):
        finished = run(rig, tmp_path, "node0:3,node1:3,node2:2", 8, family=mpi)
        if (
            finished.code != 4 or "MPI_Finalize does not return" not in finished.said
        ):  # else a fault of MPICH 4.0 (docs/guides/hosts.md)
            break
    all_have_read(finished, 6)


@pytest.mark.nightly
@pytest.mark.parametrize("mpi", ["pypi", "openmpi"])
def test_ranks_that_leave_out_steps_get_the_same(rig: Rig, tmp_path: Path, mpi: str) -> None:
    (tmp_path / "workflow.yaml").write_text(newest("mpich" if mpi == "pypi" else mpi))
    for _ in range(3):
        finished = run(rig, tmp_path, "node0:3,node1:1,node2:1", 5, family=mpi)
        if finished.code != 4 or "MPI_Finalize does not return" not in finished.said:  # as above
            break
    assert finished.code == 0, finished.err
    same_for_all(finished, 3, 60)


@pytest.mark.nightly
def test_a_poll_for_what_will_not_come(rig: Rig, tmp_path: Path) -> None:
    """Who asks is no rank of the job, and is ended as on one host; what is printed has no colours."""
    write_program(tmp_path / "produce.py", PRODUCER)
    write_program(
        tmp_path / "poll.py", "import os, time\nwhile not os.path.exists('step9.h5'):\n    time.sleep(0.05)\n"
    )
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {name: produce, func: ./produce.py, args: ["1"], outports: [{filename: "step*.h5"}]}\n'
        '  - {name: poll, func: ./poll.py, inports: [{filename: "step*.h5", poll_end: 1s}]}\n'
    )
    finished = run(rig, tmp_path, "node0:1,node1:1", 2)
    assert finished.code == 0, finished.err
    assert "produce | wrote 0" in finished.out
    told = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    assert [task["outcome"] for task in told["tasks"]] == ["done", "ended while polling"]


@pytest.mark.nightly
def test_a_wrong_number_of_ranks(rig: Rig, tmp_path: Path) -> None:
    mixed(tmp_path, "once")
    finished = run(rig, tmp_path, "node0:2,node1:2", 4)
    assert finished.code == 3
    assert finished.err.count("-n 5 wilkins run workflow.yaml") == 1


def test_a_bad_file(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("tasks:\n  - {name: produce, func: ./produce.py, outprots: []}\n")
    finished = run(rig, tmp_path, "node0:1,node1:1", 2)
    assert finished.code == 2
    assert finished.err.count("outprots") == 1


@pytest.mark.nightly
def test_ranks_that_are_dealt_in_turns(rig: Rig, tmp_path: Path) -> None:
    write_program(tmp_path / "three.py", "from mpi4py import MPI\n")
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./three.py, nprocs: 3}]\n")
    finished = run(rig, tmp_path, "node0,node1", 3)
    assert finished.code == 3
    assert "its ranks are dealt to hosts in turns (node0 node1 node0 ...)" in finished.err


@pytest.mark.usual("pypi-fail")
@pytest.mark.parametrize("mode", ["fail", "late"])
@pytest.mark.parametrize("family", ["pypi", "openmpi"])
def test_a_rank_that_fails(rig: Rig, tmp_path: Path, family: str, mode: str) -> None:
    """Rank 1 of a task, which is on another host than rank 0."""
    mixed(tmp_path, mode, family)
    finished = run(rig, tmp_path, "node0:1,node1:4", 5, family=family)
    assert finished.code == 1, finished.err
    assert f"sim: failed: exit code {7 if mode == 'fail' else 6}" in finished.err
    assert "/sim.1.log" in finished.err
    rows = [line.split() for line in finished.err.splitlines() if line.startswith(("sim ", "sum "))]
    assert [row[2] for row in rows if row[1] == "2"] == ["1", "1"], finished.err  # all hosts have told of their parts


@pytest.mark.usual("MPICH")
@pytest.mark.parametrize("family", ["MPICH", "Open MPI"])
def test_the_plan_prints_the_line_that_places_ranks(rig: Rig, tmp_path: Path, family: str) -> None:
    """Tasks come to hosts in another order than the hosts' own, and to one of them twice."""
    mixed(tmp_path, "once", "pypi" if family == "MPICH" else "openmpi")
    workflow = tmp_path / "workflow.yaml"
    for task, where in (("sim", "[0, 2, 0]"), ("sum", "[1, 0, 1]"), ("each", "[0, 1, 0]")):
        workflow.write_text(workflow.read_text().replace(f"{{name: {task}, ", f"{{name: {task}, placement: {where}, "))
    printed = run_tree([*WILKINS, "plan", "--hosts", "node0:2,node1:3,node2:2", "workflow.yaml"], 30, tmp_path).out
    line = next(line for line in printed.splitlines() if line.startswith(f"one job, by {family}: "))
    start = line.partition(": ")[2].split()
    launcher = [MPIEXEC] if family == "MPICH" else ["mpirun.openmpi", "--allow-run-as-root", *OVER_TCP]
    at = start.index("wilkins")
    command = rig.on("node0", *launcher, *start[1:at], *WILKINS, *start[at + 1 :], folder=tmp_path)
    finished = run_tree(command, 60, tmp_path)
    assert finished.code == 0, finished.err
    assert log(tmp_path, "sum.0") == "total 126\n"
    told = json.loads((tmp_path / "wilkins-runs/latest/plan.json").read_text())
    names = [host["name"] for host in told["hosts"]]
    shares = [[(names[host], count) for host, count in task["share"]] for task in told["tasks"]]
    assert shares == [[("node1", 2)], [("node0", 1), ("node2", 1)], [("node1", 1)]]


def with_a_step(rig: Rig, folder: Path, mode: str = "endless", family: str = "pypi") -> AbstractContextManager[Tree]:
    mixed(folder, mode, family)
    return started(rig, folder, "node0:1,node1:3,node2:1", 5, family=family)


def await_step(folder: Path) -> None:
    each = folder / "wilkins-runs/latest/each.log"
    wait_for(lambda: each.is_file() and each.stat().st_size > 0, 40, "a first step")


@pytest.mark.nightly
def test_an_abort_ends_the_job(tmp_path: Path) -> None:
    """Its mpiexec kills all ranks at once, and so soon that memory of MPI itself may stay, as it does without us."""
    with Rig(3) as rig, with_a_step(rig, tmp_path, "abort") as tree:
        assert tree.wait(40).code != 0
        for host in rig.names:
            wait_for(partial(_has_no_run, rig, host), 30, f"the end of the run on {host}")


def _has_no_run(rig: Rig, host: str) -> bool:
    return not rig.processes(host, OURS) and not any("wilkins" in name for name in rig.shared_memory(host))


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: str(int(number)))
@pytest.mark.parametrize("family", ["pypi", "openmpi"])
def test_a_signal_to_the_mpiexec(rig: Rig, tmp_path: Path, family: str, number: signal.Signals) -> None:
    with with_a_step(rig, tmp_path, family=family) as tree:
        await_step(tmp_path)
        rig.signal("node0", "^[^ ]*mpi(exec|run)", number)
        tree.wait(40)
        nothing_is_left(rig)


@pytest.mark.nightly
@pytest.mark.parametrize("host", ["node0", "node1", "node2"])
@pytest.mark.parametrize("victim", ["program", "launcher", "keeper"])
def test_a_killed_process(rig: Rig, tmp_path: Path, victim: str, host: str) -> None:
    if (victim, host) == ("program", "node2"):  # one that the keeper has started: it alone is no rank of the job
        pytest.skip("it is started anew for each step")
    pattern = {"program": "^(/[^ ]*|[.])/s(im|um)", "launcher": "wilkins run", "keeper": "launch.hostjob.keep"}[victim]
    with with_a_step(rig, tmp_path) as tree:
        await_step(tmp_path)
        first = ["-o"] if victim == "keeper" else []  # the process that cleans up after it is a fork of it
        subprocess.run(rig.on(host, "pkill", "-KILL", *first, "-f", pattern), check=True)
        finished = tree.wait(60)
        assert finished.code != 0
        if victim == "program":
            assert "failed: killed by SIGKILL" in finished.err
        if victim == "keeper":
            assert f"the host {host} is lost" in finished.err
        nothing_is_left(rig)


@pytest.mark.nightly
def test_a_timeout(rig: Rig, tmp_path: Path) -> None:
    mixed(tmp_path, "endless")
    finished = run(rig, tmp_path, "node0:2,node1:2,node2:1", 5, "--timeout", "4")
    assert finished.code == 4, finished.err
    assert "the run took longer than --timeout 4 s" in finished.err


@pytest.mark.nightly
def test_a_host_that_is_cut_off(tmp_path: Path) -> None:
    """The run ends on both sides; its mpiexec may notice much later."""
    mixed(tmp_path, "endless")
    with Rig(2) as rig, started(rig, tmp_path, "node0:2,node1:3", 5) as tree:
        await_step(tmp_path)
        assert rig.processes("node1", OURS)
        rig.cut("node1")
        wait_for(lambda: "the host node1 is lost, with sum, each" in tree.told(), 30, "word of the host")
        for host in rig.names:
            wait_for(partial(_is_clean, rig, host), 60, f"the end of all on {host}")


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")
def test_a_job_is_gone_on_with(rig: Rig, tmp_path: Path) -> None:
    """A rank is killed, and another job on other hosts does the rest."""
    simulation = built("restartable.c", *parallel_c("openmpi", static=False), "-lm")
    workflow = CHAIN.format(simulation=simulation, mpiexec="mpirun.openmpi --oversubscribe")
    wanted = want(tmp_path / "whole", workflow, norm=NORM, sums=SUMS.replace("u*.h5", "n*.h5"))
    folder = make(tmp_path / "killed", workflow, norm=NORM, sums=SUMS.replace("u*.h5", "n*.h5"))
    with started(rig, folder, "node0:1,node1:1,node2:2", 4, family="openmpi") as tree:
        wait_for((folder / "sums.h5").exists, 60, "a checkpoint of the last task")
        rig.signal("node1", "restartable", signal.SIGKILL)
        assert tree.wait(60).code == 1
    nothing_is_left(rig)
    command = [*words("openmpi", "node1:2,node0:2", 4), *WILKINS, "run", "--resume", "latest"]
    done = run_tree(rig.on("node0", *command, folder=folder), 90, folder)
    assert done.code == 0, done.out + done.err
    assert re.search(r"^restartable +/\S+/chk", done.out, re.MULTILINE), done.out
    assert results(folder) == wanted
    nothing_is_left(rig)


@pytest.mark.nightly
def test_programs_that_are_no_ranks_fail(rig: Rig, tmp_path: Path) -> None:
    """They are started again or left out, beside a task on two hosts, and another one comes after them."""
    write_program(tmp_path / "ranks.py", RANKS)
    member = '  - {func: ./member.sh, taskCount: 2, args: ["{instance}"], min_instances: 1, after: ranks}\n'
    workflow = (
        "  - {func: ranks.py, nprocs: 2}\n"
        + SIMULATION
        + CHECKPOINTS
        + RESTART
        + FILTERED
        + "    restart: each-step\n"
        + RESTART
        + LAST
        + member
        + "  - {func: /bin/echo, args: [hello], name: last, after: member}\n"
    )
    write_program(tmp_path / "member.sh", "#!/bin/sh\nexit $1\n")
    prepare(tmp_path, workflow)
    deaths = (
        "import os\nos.environ.update(DIE_simulate='9', DIE_writing='6')\n"  # variables of its own do not get there
    )
    (tmp_path / "dies.py").write_text((tmp_path / "dies.py").read_text().replace("import os\n", deaths))
    finished = run(rig, tmp_path, "node0:1,node1:3,node2:4", 8)
    assert finished.code == 0, finished.err
    assert got(finished) == steps(factor=2.0)
    assert "last | hello" in " ".join(finished.out.split())
    assert "member[1]: left out: of its instances, 1 may fail" in " ".join(finished.err.split())
    told = summary(tmp_path)
    assert [told[name]["retries"] for name in ("simulate", "filter", "sink")] == [1, 1, 0]
