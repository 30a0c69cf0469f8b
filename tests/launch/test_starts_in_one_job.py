"""MPI programs for one step within one MPI job: started by the name of each step, or again after they have ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch.conftest import Case, Job

from support.running import WILKINS, processes_in, started_tree, wait_for

WORKFLOW = """\
tasks:
  - {name: sim, func: ./sim, nprocs: 2, args: ["OUT"], outports: [{filename: "PATTERN"}]}
  - {name: each, func: ./each, nprocs: RANKS, args: ["NAME", MODE], inports: [{filename: "PATTERN"}]MORE}
"""

SIM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        FILE* note = fopen("run-folder", "w");
        fputs(getenv("WILKINS_RUN"), note);
        fclose(note);
        for (int step = 0; step < 3; ++step) {
            char name[32];
            snprintf(name, sizeof name, argv[1], step);
            FILE* file = fopen(name, "w");
            fprintf(file, "%d\n", 10 * step);
            fclose(file);
        }
    }
    MPI_Finalize();
    return 0;
}
"""

EACH = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int rank, size, value = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE* file = fopen(argv[1], "r");
    if (!file || fscanf(file, "%d", &value) != 1) return 1;
    fclose(file);
    value += rank;
    if (access("each-began", F_OK)) fclose(fopen("each-began", "w"));
    MPI_Reduce(&value, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s: %d on %d\n", argv[1], all, size);
    fflush(stdout);
    if (all >= 30 && !strcmp(argv[2], "hang")) {
        fclose(fopen("hangs", "w"));
        for (;;) pause();
    }
    MPI_Finalize();
    return all >= 30 && !strcmp(argv[2], "fail") ? 7 : 0;
}
"""

LATE = r"""
#include <mpi.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
    struct stat first;
    MPI_Init(&argc, &argv);
    while (stat("each-began", &first) || time(NULL) < first.st_mtime + 12) usleep(100000);
    MPI_Finalize();
    return 0;
}
"""

SHOWN = """\
#!/bin/sh
echo "$WORLD_SIZE $RANK $LOCAL_RANK ${WILKINS_WORLD-none}"
exec ./each "$@"
"""

Names = tuple[str, str, str]
"""What the producer writes, the ports' pattern, and the consumer's argument."""

BY_NAME = ("step%d.txt", "step*.txt", "{filename}")
FIXED = ("step.txt", "step.txt", "step.txt")


def prepare(
    case: Case, job: Job, names: tuple[str, str, str], *, ranks: int = 3, mode: str = "", more: str = ""
) -> int:
    """Make programs and workflow; the number of ranks of the whole."""
    job.compile(case.folder, "sim", SIM)
    job.compile(case.folder, "each", EACH)
    text = WORKFLOW
    words = {
        "OUT": names[0],
        "PATTERN": names[1],
        "NAME": names[2],
        "RANKS": str(ranks),
        "MODE": mode or "go",
        "MORE": more,
    }
    for word, value in words.items():
        text = text.replace(word, value)
    case.workflow(text)
    return 2 + ranks


@pytest.mark.usual("pypi-mpich-3-fixed")
@pytest.mark.parametrize("names", [BY_NAME, FIXED], ids=["name", "fixed"])
@pytest.mark.parametrize("ranks", [1, 3], ids=str)
def test_each_step_has_a_start(case: Case, job: Job, ranks: int, names: Names) -> None:
    total = prepare(case, job, names, ranks=ranks)
    finished = case.run(before=job.on(total))
    assert finished.code == 0, finished.err
    values = [ranks * 10 * step + sum(range(ranks)) for step in range(3)]
    told = [f"{names[2].format(filename=f'step{step}.txt')}: {value} on {ranks}" for step, value in enumerate(values)]
    first = "each.0" if ranks > 1 and names is FIXED else "each"  # the job's own ranks have a log each
    logs = dict.fromkeys([first, "each"])
    assert "".join(map(case.log, logs)).splitlines() == told
    each = case.summary()["tasks"]["each"]
    assert (each["starts"], each["outcome"], each["consumed"]) == (3, "done", 3)


@pytest.mark.nightly
def test_a_start_has_no_part_in_the_job_it_is_started_from(case: Case, job: Job) -> None:
    """Each start is a job of its own, with the environment that `wilkins run` alone would give it."""
    job.compile(case.folder, "sim", SIM)
    job.compile(case.folder, "each", EACH)
    case.program(
        "shown.sh", '#!/bin/sh\necho "$WORLD_SIZE $RANK $LOCAL_RANK ${WILKINS_WORLD-none}"\nexec ./each "$@"\n'
    )
    case.workflow(
        """\
tasks:
  - {name: sim, func: ./sim, nprocs: 2, args: ["step%d.txt"], outports: [{filename: "step*.txt"}]}
  - name: each
    func: ./shown.sh
    nprocs: 2
    mpiexec: MPIEXEC
    args: ["{filename}", go]
    inports: [{filename: "step*.txt"}]
""".replace("MPIEXEC", str(list(job.on(2)[:-2])))
    )
    finished = case.run(before=job.on(4))
    assert finished.code == 0, finished.err
    lines = case.log("each").splitlines()
    assert sorted(line for line in lines if "on" in line and "none" in line) == sorted(["2 0 0 none", "2 1 1 none"] * 3)
    assert [line for line in lines if "none" not in line] == [f"step{n}.txt: {20 * n + 1} on 2" for n in range(3)]


@pytest.mark.nightly
def test_programs_without_mpi_on_several_ranks(case: Case, mpiexec: str) -> None:
    """No task is part of the job's world then, and nobody looks for an MPI library."""
    case.workflow(
        """\
tasks:
  - {name: produce, func: ./produce.py, args: ["2"], outports: [{filename: "step*.h5"}]}
  - {name: each, func: ./one.py, nprocs: 2, args: ["{filename}"], inports: [{filename: "step*.h5"}]}
"""
    )
    finished = case.run(before=(mpiexec, "-n", "3"))
    assert finished.code == 0, finished.err
    assert sorted(case.log("each").splitlines()) == ["handled step0.h5 0"] * 2 + ["handled step1.h5 10"] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("names", [BY_NAME, FIXED], ids=["name", "fixed"])
def test_a_failure_in_the_second_start(case: Case, job: Job, names: Names) -> None:
    total = prepare(case, job, names, mode="fail")
    finished = case.run(before=job.on(total))
    assert finished.code == 1
    assert "each: failed at its 2nd start: exit code 7" in finished.err
    each = case.summary()["tasks"]["each"]
    assert (each["starts"], each["outcome"]) == (2, "failed")


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["run", "task"])
def test_time_limits(case: Case, job: Job, place: str) -> None:
    total = prepare(case, job, BY_NAME, mode="hang", more=", timeout: 5" if place == "task" else "")
    finished = case.run(*(["--timeout", "5"] if place == "run" else []), before=job.on(total))
    assert finished.code == 4
    assert "timeout" in finished.err


@pytest.mark.nightly
def test_a_limit_counts_each_start_alone(case: Case, job: Job) -> None:
    """A first program that is over waits for the job's other programs; that time is not its own."""
    total = prepare(case, job, FIXED, more=", timeout: 10")
    job.compile(case.folder, "late", LATE)
    with (case.folder / "workflow.yaml").open("a") as file:
        file.write("  - {name: late, func: ./late, nprocs: 2}\n")
    assert case.run(before=job.on(total + 2)).code == 0


@pytest.mark.nightly
@pytest.mark.parametrize("end", ["interrupted", "killed job", "killed launcher", "killed start"])
def test_the_end_of_a_run_in_the_middle_of_a_start(case: Case, job: Job, end: str) -> None:
    total = prepare(case, job, BY_NAME, mode="hang")
    with started_tree([*job.on(total), *WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        wait_for((case.folder / "hangs").is_file, 60, "the second start")
        program = next(pid for pid in processes_in(case.folder) if _words(pid)[0].endswith("each"))
        launcher = next(pid for pid in _ancestors(program) if "wilkins" in _words(pid))
        start = next(pid for pid in _ancestors(program) if _parent(pid) == launcher)
        victim, number = {
            "interrupted": (tree.process.pid, signal.SIGINT),
            "killed job": (tree.process.pid, signal.SIGKILL),
            "killed launcher": (launcher, signal.SIGKILL),
            "killed start": (start, signal.SIGKILL),
        }[end]
        os.kill(victim, number)
        finished = tree.wait(30)
        if end == "killed launcher":
            assert finished.code != 0
        if end == "killed start":
            assert finished.code == 1
            assert "each: failed at its 2nd start: killed by SIGKILL" in finished.err
        wait_for(lambda: not processes_in(case.folder), 15, "the end of all processes")
        wait_for(lambda: not case.run_folder().is_dir(), 15, "the end of the run's shared memory")


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:  # it has ended
        return [""]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[1])


def _ancestors(pid: int) -> Iterator[int]:
    while (pid := _parent(pid)) > 1:
        yield pid
