"""Runs on one machine: streams, programs started once per step, ends, failures, time limits, records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch.conftest import ONE_STEP, Case

from support.running import WILKINS, mounted, run_tree

TWO = """\
tasks:
  - name: produce
    func: ./produce.py
    args: ["{steps}", "{pause}"]
    outports: [{{filename: "step*.h5"}}]
  - name: consume
    func: ./{consumer}
    {more}
    inports: [{{filename: "step*.h5"}}]
"""


def two(consumer: str, more: str = "", steps: int = 3, pause: float = 0) -> str:
    return TWO.format(consumer=consumer, more=more, steps=steps, pause=pause)


def test_a_stream_ends_with_its_producer(case: Case) -> None:
    case.workflow(two("read.py"))
    finished = case.run()
    assert finished.code == 0
    assert "produce | wrote 2\n" in finished.out
    assert "consume | read 2 20\n" in finished.out
    assert "ended at end of stream" in finished.err
    tasks = case.summary()["tasks"]
    assert tasks["produce"]["produced"] == 3
    assert tasks["consume"]["consumed"] == 3
    assert tasks["consume"]["outcome"] == "ended at end of stream"
    assert not list(case.folder.glob("step*.h5"))


def test_strict_end_makes_that_a_failure(case: Case) -> None:
    case.workflow(two("read.py", "strict_end: true"))
    finished = case.run()
    assert finished.code == 1
    assert "consume: failed: exit code 1" in finished.err


def test_a_program_for_one_step_is_started_for_each(case: Case) -> None:
    case.workflow(two("one.py", 'args: ["{filename}"]'))
    assert case.run().code == 0
    assert case.log("consume") == "handled step0.h5 0\nhandled step1.h5 10\nhandled step2.h5 20\n"
    assert case.summary()["tasks"]["consume"]["starts"] == 3


@pytest.mark.nightly
def test_a_program_without_the_name_too(case: Case) -> None:
    case.program("look.py", 'import glob, h5py\nprint(h5py.File(glob.glob("step*.h5")[0])["x"][0], flush=True)\n')
    case.workflow(two("look.py", 'args: ["{filename}"]'))
    assert case.run().code == 0
    assert case.log("consume") == "0\n1\n2\n"


@pytest.mark.nightly
def test_a_program_that_leaves_its_step_out_gets_the_next_one(case: Case) -> None:
    """It looks at the name that it is given, and ends without opening anything."""
    case.program(
        "some.py",
        "import sys, h5py\nprint(sys.argv[1], flush=True)\n"
        "if sys.argv[1] != 'step1.h5':\n    h5py.File(sys.argv[1])['x'][0]\n",
    )
    case.workflow(two("some.py", 'args: ["{filename}"]', steps=4))
    assert case.run().code == 0
    assert case.log("consume") == "step0.h5\nstep1.h5\nstep2.h5\nstep3.h5\n"


def test_rerun_never(case: Case) -> None:
    case.workflow(two("one.py", 'args: ["{filename}"]\n    rerun: never'))
    assert case.run().code == 0
    assert case.log("consume") == "handled step0.h5 0\n"


def test_a_failure_stops_the_others(case: Case) -> None:
    case.program("fail.py", "import sys\nprint('about to fail', flush=True)\nsys.exit(3)\n")
    case.workflow(two("fail.py", steps=1000, pause=0.1))
    finished = case.run()
    assert finished.code == 1
    assert "wilkins: consume: failed: exit code 3" in finished.err
    assert finished.seconds < 20
    assert case.summary()["tasks"]["produce"]["outcome"] == "stopped"


def test_on_failure_continue_lets_the_others_finish(case: Case) -> None:
    case.program("fail.py", "raise SystemExit(3)\n")
    case.workflow(two("fail.py", "on_failure: continue", steps=10))
    finished = case.run()
    assert finished.code == 1
    assert "wrote 9" in finished.out
    assert case.summary()["tasks"]["produce"]["outcome"] == "done"


def test_a_crash_is_named(case: Case) -> None:
    case.program("crash.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    case.workflow(two("crash.py"))
    finished = case.run()
    assert finished.code == 1
    assert "consume: failed: killed by SIGSEGV" in finished.err


def test_a_port_that_is_never_used(case: Case) -> None:
    case.program("other.py", "print('I do something else')\n")
    case.workflow(two("other.py"))
    finished = case.run()
    assert finished.code == 1
    assert "consume: ended without ever using its memory port 'step*.h5'" in finished.err


@pytest.mark.parametrize("place", ["run", "task"])
def test_time_limits(case: Case, place: str) -> None:
    case.program("sleep.py", "import time\ntime.sleep(1000)\n")
    case.workflow(two("sleep.py", "timeout: 1" if place == "task" else ""))
    finished = case.run(*(["--timeout", "1"] if place == "run" else []))
    assert finished.code == 4
    assert "timeout" in finished.err


def test_a_cycle_of_waits_is_reported(case: Case) -> None:
    case.program("pong.py", 'import h5py, sys\nh5py.File(sys.argv[1], "r")\nh5py.File(sys.argv[2], "w")\n')
    case.workflow(
        """\
tasks:
  - {name: a, func: ./pong.py, args: [b.h5, a.h5], inports: [{filename: b.h5}], outports: [{filename: a.h5}]}
  - {name: b, func: ./pong.py, args: [a.h5, b.h5], inports: [{filename: a.h5}], outports: [{filename: b.h5}]}
"""
    )
    finished = case.run()
    assert finished.code == 4
    assert "stuck" in finished.err


def test_output_reaches_the_log_unchanged(case: Case) -> None:
    case.program(
        "bytes.py", 'import os\nos.write(1, b"\\xff\\0half")\nos.write(2, b" line\\r\\n")\nos.write(1, b"rest")\n'
    )
    case.workflow("tasks:\n  - {name: raw, func: ./bytes.py}\n")
    finished = case.run()
    assert finished.code == 0
    latest = case.folder / "wilkins-runs" / "latest"
    assert (latest / "raw.log").read_bytes() == b"\xff\0half line\r\nrest"
    assert finished.out.endswith("raw | rest\n")


def test_records_of_a_run(case: Case) -> None:
    case.workflow(two("read.py"))
    assert case.run("--run-dir", "records").code == 0
    records = case.folder / "records"
    assert {"plan.json", "versions.json", "summary.json", "produce.log"} <= {file.name for file in records.iterdir()}
    assert json.loads((records / "plan.json").read_text())["tasks"][0]["name"] == "produce"
    again = case.run("--run-dir", "records")
    assert again.code == 2
    assert "--run-dir" in again.err


def test_each_run_has_its_directory(case: Case) -> None:
    case.workflow("tasks:\n  - {name: quick, func: ./true.sh}\n")
    case.program("true.sh", "#!/bin/sh\n")
    assert [case.run().code for _ in range(2)] == [0, 0]
    runs = case.folder / "wilkins-runs"
    folders = sorted(entry for entry in runs.iterdir() if not entry.is_symlink())
    assert len(folders) == 2
    assert (runs / "latest").resolve() == max(folders, key=lambda entry: entry.stat().st_mtime_ns)


def test_a_program_that_cannot_be_started(case: Case) -> None:
    case.program("gone.sh", "#!/bin/sh\n")
    case.workflow("tasks:\n  - {name: gone, func: ./gone.sh, prefix: [./no-such-tool]}\n")
    finished = case.run()
    assert finished.code in (1, 2)
    assert "no-such-tool" in finished.err


def test_the_programs_environment(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.program(
        "env.py", 'import os\nfor name in ("A", "WORLD_SIZE", "RANK", "LD_PRELOAD"): print(os.environ.get(name))\n'
    )
    case.workflow("tasks:\n  - {name: env, func: ./env.py, env: {A: b c}}\n")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert case.run().code == 0
    assert case.log("env").splitlines() == ["b c", "1", "0", "None"]


def test_what_a_task_leaves_running_is_ended(case: Case) -> None:
    case.program("daemon.sh", "#!/bin/sh\nsetsid sh -c 'sleep 1000 & sleep 1000' &\nsleep 0.2\n")
    case.workflow("tasks:\n  - {name: daemon, func: ./daemon.sh}\n")
    assert case.run().code == 0


@pytest.mark.nightly
def test_an_mpi_task_beside_a_plain_one(case: Case, mpiexec: str) -> None:
    case.program(
        "ranks.py",
        "from mpi4py import MPI\nimport h5py, os\nworld = MPI.COMM_WORLD\n"
        "assert (world.rank, world.size) == (int(os.environ['RANK']), int(os.environ['WORLD_SIZE']))\n"
        "for step in range(3):\n"
        "    total = world.reduce(world.rank + step)\n"
        "    if world.rank == 0:\n"
        "        with h5py.File(f'step{step}.h5', 'w') as file: file['x'] = [total]\n",
    )
    case.workflow(
        f"""\
tasks:
  - {{name: ranks, func: ./ranks.py, nprocs: 2, mpiexec: {mpiexec}, outports: [{{filename: "step*.h5"}}]}}
  - {{name: read, func: ./read.py, inports: [{{filename: "step*.h5"}}]}}
"""
    )
    assert case.run().code == 0
    assert case.log("read").startswith("read 0 1\nread 1 3\nread 2 5\n")


def test_clean_says_what_it_removed(case: Case) -> None:

    finished = run_tree([*WILKINS, "clean"], 30, case.folder)
    assert finished.code == 0
    assert "remove" in finished.out
    assert Path("/dev/shm").is_dir()


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "fork user ^slurm,tm,lsf"), ({"HYDRA_LAUNCHER": "ssh", "OMPI_MCA_ras": "slurm"}, "ssh user slurm")],
)
def test_an_mpiexec_starts_ranks_itself_unless_the_user_says_otherwise(
    case: Case, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], found: str
) -> None:
    """MPICH's would ask Slurm for a job step, and those of two tasks wait for each other."""
    for name in ("HYDRA_LAUNCHER", "HYDRA_RMK", "OMPI_MCA_ras"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    case.program("mpiexec.sh", '#!/bin/sh\necho "by $HYDRA_LAUNCHER $HYDRA_RMK $OMPI_MCA_ras"\n')
    case.workflow("tasks: [{name: ranks, func: ./mpiexec.sh, nprocs: 2, mpiexec: ./mpiexec.sh}]\n")
    assert case.run().code == 0
    assert case.log("ranks") == f"by {found}\n"


def test_two_ranks_that_create_one_name(case: Case, mpiexec: str) -> None:
    # None closes it before both have created it: what is closed may be read, and its name be free again.
    opened = "from mpi4py import MPI\nimport h5py\nfile = h5py.File('step0.h5', 'w')\n"
    case.program("same.py", opened + "MPI.COMM_WORLD.Barrier()\nfile.close()\n")
    case.workflow(
        f"""\
tasks:
  - {{name: same, func: ./same.py, nprocs: 2, mpiexec: {mpiexec}, outports: [{{filename: "step*.h5"}}]}}
  - {{name: read, func: ./read.py, inports: [{{filename: "step*.h5"}}]}}
"""
    )
    finished = case.run()
    assert finished.code == 1
    assert "step0.h5" in finished.err


@pytest.mark.nightly
def test_an_mpi_program_for_one_step_is_started_for_each(case: Case, mpiexec: str) -> None:
    case.program("pair.py", "from mpi4py import MPI\n" + ONE_STEP)
    case.workflow(two("pair.py", f'args: ["{{filename}}"]\n    nprocs: 2\n    mpiexec: {mpiexec}'))
    assert case.run().code == 0
    assert case.summary()["tasks"]["consume"]["starts"] == 3
    assert sorted(case.log("consume").splitlines()) == sorted(2 * [f"handled step{i}.h5 {10 * i}" for i in range(3)])


def test_a_reader_that_goes_away(case: Case) -> None:
    """Output to a pipe that nobody reads any more does not disturb the run."""
    case.workflow(two("read.py", steps=20, pause=0.05))
    command = " ".join([*WILKINS, "run", "workflow.yaml", "| head -n 1"])
    finished = run_tree(["/bin/bash", "-c", f"set -o pipefail; {command}"], 60, case.folder)
    assert finished.code == 0
    assert "read 19 190\n" in case.log("consume")


def test_a_script_may_open_its_step_with_several_programs(case: Case) -> None:
    """Started with the name of a step, also a fixed one, all of a script's programs see that step until it ends."""
    case.program(
        "rewrite.py",
        "import h5py\nfor i in range(3):\n    with h5py.File('out.h5', 'w') as file:\n        file['x'] = i\n",
    )
    case.program("tools.sh", '#!/bin/sh\nfor k in 1 2 3; do python3 show.py "$1" || exit 1; done\n')
    case.program("show.py", "import sys, h5py\nprint('saw', h5py.File(sys.argv[1])['x'][()])\n")
    case.workflow(
        "tasks:\n  - {func: ./rewrite.py, outports: [{filename: out.h5}]}\n"
        "  - {func: ./tools.sh, args: ['{filename}'], inports: [{filename: out.h5}]}\n"
    )
    finished = case.run()
    assert finished.code == 0, finished.err
    assert [line.split("saw ")[1] for line in finished.out.splitlines() if "saw " in line] == list("000111222"), (
        finished.out
    )


@pytest.mark.needs("root", "mount")
def test_a_full_disk_under_the_records(case: Case, tmp_path: Path) -> None:
    """The run ends, and says which file could not be written, and why."""
    case.workflow("tasks:\n  - {func: /usr/bin/head, args: [-c, 2M, /dev/zero]}\n")
    with mounted(tmp_path / "disk", "1m") as disk:
        finished = case.run("--run-dir", str(disk / "run"))
    assert finished.code == 3
    log = disk / "run" / "head.log"
    assert finished.err == (
        f"wilkins: error: {log}: cannot write there what the task prints: No space left on device; "
        "free some space there\n"
    )


def test_records_that_somebody_removes_during_the_run(case: Case) -> None:
    case.program("remove.sh", "#!/bin/sh\nrm -r wilkins-runs/*/\n")
    case.workflow("tasks:\n  - {func: ./remove.sh}\n")
    finished = case.run()
    assert finished.code == 3
    assert "summary.json: cannot write this record of the run: No such file or directory; see what" in finished.err
