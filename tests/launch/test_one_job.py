"""Runs as ranks of one MPI job: plain and MPI tasks, ends, failures, wrong numbers of ranks, under three MPIs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from launch.conftest import Case, Job

from support.running import WILKINS, processes_in, started_tree, wait_for

PROGRAMS = Path(__file__).parents[1] / "programs"

PLAIN = """\
tasks:
  - {name: produce, func: ./produce.py, args: ["3"], outports: [{filename: "step*.h5"}]}
  - {name: read, func: ./read.py, inports: [{filename: "step*.h5"}]}
  - {name: each, func: ./one.py, args: ["{filename}"], inports: [{filename: "step*.h5"}]}
"""

MIXED = """\
tasks:
  - {name: sim, func: ./sim, nprocs: 2, args: [MODE], outports: [{filename: "step*.txt"}]}
  - {name: sum, func: ./sum, nprocs: 2, inports: [{filename: "step*.txt"}]}
  - {name: each, func: /bin/cat, args: ["{filename}"], inports: [{filename: "step*.txt"}]}
"""

SIM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        FILE* note = fopen("run-folder", "w");
        fputs(getenv("WILKINS_RUN"), note);
        fclose(note);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // no rank ends the job before that
    int steps = strcmp(argv[1], "endless") ? 3 : 100000;
    for (int step = 0; step < steps; ++step) {
        int mine = 10 * step + rank, all = 0;
        MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            char name[32];
            snprintf(name, sizeof name, "step%d.txt", step);
            FILE* file = fopen(name, "w");
            fprintf(file, "%d of %d\n", all, size);
            fclose(file);
        }
        if (step == 1 && rank == 1 && !strcmp(argv[1], "fail")) exit(7);
        if (step == 1 && rank == 1 && !strcmp(argv[1], "abort")) MPI_Abort(MPI_COMM_WORLD, 5);
        if (steps > 3) usleep(50000);
    }
    MPI_Finalize();
    if (!strcmp(argv[1], "late")) return rank == 1 ? 6 : 0;
    return 0;
}
"""

SUM = r"""
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int rank, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0;; ++step) {
        char name[32];
        int value = 0, all = 0;
        snprintf(name, sizeof name, "step%d.txt", step);
        FILE* file = fopen(name, "r");
        if (!file) break;
        if (fscanf(file, "%d", &value) != 1) return 1;
        fclose(file);
        MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        total += all;
    }
    if (rank == 0) printf("total %d\n", total);
    MPI_Finalize();
    return 0;
}
"""


def build(job: Job, folder: Path) -> None:
    """Compile the MPI programs."""
    for name, text in {"sim": SIM, "sum": SUM}.items():
        job.compile(folder, name, text)


@pytest.mark.usual("debian-mpich")
def test_plain_tasks(case: Case, job: Job) -> None:
    case.workflow(PLAIN)
    finished = case.run(before=job.on(3))
    assert finished.code == 0
    assert "produce | wrote 2" in finished.out
    assert case.log("read").startswith("read 0 0\nread 1 10\nread 2 20\n")
    assert case.log("each") == "handled step0.h5 0\nhandled step1.h5 10\nhandled step2.h5 20\n"
    tasks = case.summary()["tasks"]
    assert tasks["each"]["starts"] == 3
    assert tasks["read"]["outcome"] == "ended at end of stream"


@pytest.mark.usual("pypi-mpich")
def test_a_wrong_number_of_ranks(case: Case, job: Job) -> None:
    case.workflow(PLAIN)
    finished = case.run(before=job.on(2))
    assert finished.code == 3
    assert finished.err.count("-n 3 wilkins run workflow.yaml") == 1


@pytest.mark.usual("pypi-mpich")
def test_a_bad_file(case: Case, job: Job) -> None:
    case.workflow("tasks:\n  - {name: produce, func: ./produce.py, outprots: []}\n")
    finished = case.run(before=job.on(3))
    assert finished.code == 2
    assert finished.err.count("outprots") == 1


@pytest.mark.usual("pypi-mpich")
def test_mpi_tasks_and_a_plain_one(case: Case, job: Job) -> None:
    build(job, case.folder)
    case.workflow(MIXED.replace("MODE", "once"))
    finished = case.run(before=job.on(5))
    assert finished.code == 0
    assert case.log("each") == "1 of 2\n21 of 2\n41 of 2\n"
    assert case.log("sum.0") == "total 126\n"
    assert case.summary()["tasks"]["sim"]["produced"] == 3


@pytest.mark.nightly
def test_a_job_on_hosts_that_are_one_machine(case: Case, mpiexec: str) -> None:
    """Its mpiexec takes this machine for several: they are one."""
    build(Job("pypi", mpiexec), case.folder)
    case.workflow(MIXED.replace("MODE", "once"))
    here = str(PROGRAMS.parent / "hosts/here")
    hosts = ("-launcher", "ssh", "-launcher-exec", here, "-hosts", "a:1,b:3,c:1")
    finished = case.run(before=(mpiexec, *hosts, "-n", "5"))
    assert finished.code == 0, finished.err
    assert len(json.loads((case.folder / "wilkins-runs/latest/plan.json").read_text())["hosts"]) == 1
    assert case.log("sum.0") == "total 126\n"
    assert case.summary()["tasks"]["sim"]["produced"] == 3


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi", "mpicc.openmpi")
def test_tasks_that_make_windows_at_the_same_time(case: Case, mpiexec: str) -> None:
    """Open MPI names a window's memory by job and communicator, which the worlds of two tasks may have in common."""
    job = Job("openmpi", mpiexec)
    words = [job.compiler, "-O1", str(PROGRAMS / "windows.c"), "-o", "windows"]
    subprocess.run(words, cwd=case.folder, check=True, timeout=60)
    tasks = (f"  - {{name: t{n}, func: ./windows, nprocs: {n}, args: ['{n}']}}\n" for n in (2, 3))
    case.workflow("tasks:\n" + "".join(tasks))
    finished = case.run(before=job.on(5))
    assert finished.code == 0, finished.err
    for ranks in (2, 3):
        for rank in range(ranks):
            assert case.log(f"t{ranks}.{rank}") == f"world of {ranks}: rank {rank} is well\n"


@pytest.mark.usual("debian-mpich-fail")
@pytest.mark.parametrize("mode", ["fail", "late"])
def test_a_rank_that_fails(case: Case, job: Job, mode: str) -> None:
    build(job, case.folder)
    case.workflow(MIXED.replace("MODE", mode))
    finished = case.run(before=job.on(5))
    assert finished.code == 1
    assert f"sim: failed: exit code {7 if mode == 'fail' else 6}" in finished.err


@pytest.mark.usual("pypi-mpich")
def test_an_abort_ends_the_job(case: Case, job: Job) -> None:
    build(job, case.folder)
    case.workflow(MIXED.replace("MODE", "abort"))
    with started_tree([*job.on(5), *WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        assert tree.wait(30).code != 0
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        wait_for(lambda: not case.run_folder().is_dir(), 10, "the end of the run's shared memory")


@pytest.mark.usual("debian-mpich-2", "debian-openmpi-15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: str(int(number)))
def test_a_signal_to_the_mpiexec(case: Case, job: Job, number: signal.Signals) -> None:
    build(job, case.folder)
    case.workflow(MIXED.replace("MODE", "endless"))
    with started_tree([*job.on(5), *WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        log = case.folder / "wilkins-runs" / "latest" / "each.log"
        wait_for(lambda: log.is_file() and log.stat().st_size > 0, 30, "a first step")
        os.kill(tree.process.pid, number)
        tree.wait(20)  # the exit code is the mpiexec's own; MPICH's says 0 now and then when it is interrupted
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        wait_for(lambda: not case.run_folder().is_dir(), 10, "the end of the run's shared memory")


@pytest.mark.usual("first launcher")
@pytest.mark.parametrize("victim", ["program", "launcher", "first launcher"])
def test_a_killed_process(case: Case, mpiexec: str, victim: str) -> None:
    job = Job("pypi", mpiexec)
    build(job, case.folder)
    case.workflow(MIXED.replace("MODE", "endless"))
    with started_tree([*job.on(5), *WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        log = case.folder / "wilkins-runs" / "latest" / "each.log"
        wait_for(lambda: log.is_file() and log.stat().st_size > 0, 30, "a first step")
        programs = [pid for pid in processes_in(case.folder) if _first_word(pid).endswith("/sum")]
        launcher = _parent(programs[0])
        if victim == "first launcher":
            launcher = int((case.run_folder() / "leader").read_text())
        os.kill(programs[0] if victim == "program" else launcher, signal.SIGKILL)
        finished = tree.wait(20)
        assert finished.code != 0
        if victim == "program":
            assert "sum: failed: killed by SIGKILL" in finished.err
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        wait_for(lambda: not case.run_folder().is_dir(), 10, "the end of the run's shared memory")


def _first_word(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:  # it has ended
        return ""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[1])


def test_steps_that_were_not_read_with_strict(case: Case, mpiexec: str) -> None:
    """All ranks exit alike, and the first one tells."""
    case.program("once.py", "import h5py\nh5py.File('step0.h5').close()\n")
    case.workflow(
        'tasks:\n  - {name: produce, func: ./produce.py, args: ["3"], outports: [{filename: "step*.h5"}]}\n'
        '  - {name: once, func: ./once.py, rerun: never, inports: [{filename: "step*.h5"}]}\n'
    )
    finished = case.run("--strict", before=(mpiexec, "-n", "2"))
    assert finished.code == 1
    assert "once: did not read 2 of the 3 steps of 'step*.h5' that produce" in finished.err
    assert "--strict makes that a failure" in finished.err
    assert case.summary()["channels"][0]["unread"] == 2


def test_a_poll_for_what_will_not_come(case: Case, mpiexec: str) -> None:
    """Ended is only a program that is no rank of the job."""
    case.program("poll.py", "import os, time\nwhile not os.path.exists('step9.h5'):\n    time.sleep(0.05)\n")
    case.workflow(
        'tasks:\n  - {name: produce, func: ./produce.py, args: ["1"], outports: [{filename: "step*.h5"}]}\n'
        '  - {name: poll, func: ./poll.py, inports: [{filename: "step*.h5", poll_end: 1s}]}\n'
    )
    finished = case.run(before=(mpiexec, "-n", "2"))
    assert finished.code == 0
    assert case.summary()["tasks"]["poll"]["outcome"] == "ended while polling"
