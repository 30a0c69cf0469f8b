"""The launcher's small parts: environments, commands, ranks, plans as text, units, explanations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running import started_tree, wait_for
from wilkins.errors import ResourceError
from wilkins.flow.publish import PublishRule
from wilkins.launch.job.rank import Rank, hosts_key, job_key, this_rank
from wilkins.launch.programs import environment
from wilkins.launch.programs.ranks import ranks_left
from wilkins.launch.watch import explain
from wilkins.launch.watch.stacks import innermost, where
from wilkins.plan import planfile
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, TaskPlan
from wilkins.terminal import tables
from wilkins.transport.report_table import Report
from wilkins.values import restored

TASK = TaskPlan(
    index=0,
    name="sim",
    instance=0,
    nprocs=2,
    kind="mpi",
    executable=Path("/bin/sim"),
    args=("-i", "{filename}"),
    cwd=Path("/data"),
    env={"A": "1"},
    prefix=("numactl", "-m0"),
    mpiexec=("mpiexec", "--bind-to", "none"),
    stdin=Path("/data/in"),
    timeout=3.5,
)


def test_a_plan_survives_its_text() -> None:
    ports = (
        PortPlan(0, 0, "out", "a*.h5", "memory", 10, "f:1:2", PublishRule("write", 3, "/x")),
        PortPlan(1, 0, "in", "b.h5", "plain"),
    )
    channels = (ChannelPlan(2, 3, "drop-oldest", outport=0, inport=1, readers=4),)
    plan = Plan("w", Path("/w.yaml"), "one-job", (TASK,), ports, channels, 2, ("note",))
    assert planfile.loads(planfile.dumps(plan)) == plan


def test_a_plan_of_an_earlier_version_can_be_resumed() -> None:
    """Its channels have no offset: what `io_freq: n` kept then, it keeps in what is left of that run."""
    ports = (PortPlan(0, 0, "out", "a.h5", "memory"), PortPlan(1, 0, "in", "a.h5", "memory"))
    plan = Plan("w", Path("/w.yaml"), "alone", (TASK,), ports, (ChannelPlan(5, outport=0, inport=1),), 2)
    data = json.loads(planfile.dumps(plan))
    del data["channels"][0]["offset"]
    assert planfile.loads(json.dumps(data)) == plan


def test_another_text_is_no_plan() -> None:
    with pytest.raises(ValueError, match=r"not a plan of this version: .*'name' is missing"):
        planfile.loads("{}")


def test_a_plan_with_a_field_of_another_type_is_refused() -> None:
    plan = Plan("w", Path("/w.yaml"), "alone", (TASK,), (), (ChannelPlan(5, outport=0, inport=1),), 2)
    data = json.loads(planfile.dumps(plan))
    data["channels"][0]["when_full"] = "burst"
    with pytest.raises(ValueError, match=r"channels: when_full: not one of \('block', .*'burst'"):
        planfile.loads(json.dumps(data))


def test_a_job_is_hidden_from_programs_that_are_not_its_ranks() -> None:
    job = {"PMI_RANK": "0", "PMI_FD": "5", "HYDI_CONTROL_FD": "7", "MPIR_CVAR_X": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    job |= {"OMPI_COMM_WORLD_RANK": "0", "PMIX_ID": "1", "SLURM_PROCID": "0", "SLURM_JOB_ID": "9", "PATH": "/bin"}
    assert environment.without_mpi_job(job) == {"OMPI_ALLOW_RUN_AS_ROOT": "1", "SLURM_JOB_ID": "9", "PATH": "/bin"}


def test_outside_a_job_settings_for_an_mpiexec_stay() -> None:
    settings = {"OMPI_MCA_btl": "self", "HYDRA_IFACE": "lo"}
    assert environment.without_mpi_job(settings) == settings


def test_the_layer_is_preloaded_first() -> None:
    layer = {"LD_PRELOAD": "/l.so", "WILKINS_TASK": "0"}
    assert environment.merged({"LD_PRELOAD": "/mine.so"}, {}, layer)["LD_PRELOAD"] == "/l.so:/mine.so"
    assert environment.merged({}, {"LD_PRELOAD": "/task.so"}, layer)["LD_PRELOAD"] == "/l.so:/task.so"
    assert environment.merged({}, {}, layer)["LD_PRELOAD"] == "/l.so"


def test_the_command_of_an_mpi_task() -> None:
    words = environment.mpi_words(TASK, {"LD_PRELOAD": "/l.so"}, "plt 1.h5")
    assert words[:5] == ["mpiexec", "--bind-to", "none", "-n", "2"]
    assert words[-7:] == ["/usr/bin/env", "LD_PRELOAD=/l.so", "numactl", "-m0", "/bin/sim", "-i", "plt 1.h5"]


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, Rank(1, 4, True, "mpiexec")),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}, Rank(1, 4, False, "mpiexec")),
        (
            {
                "OMPI_COMM_WORLD_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "PMIX_RANK": "0",
            },
            Rank(0, 2, True, "mpirun"),
        ),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_NODES": "1"}, Rank(3, 8, True, "srun")),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_NODES": "2"}, Rank(3, 8, False, "srun")),
        ({"PMIX_RANK": "3", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, Rank(3, 8, False, "srun")),
        ({"PMI_RANK": "one"}, None),
    ],
)
def test_which_rank_this_is(variables: dict[str, str], found: Rank | None) -> None:
    assert this_rank(variables) == found


def test_jobs_have_different_keys() -> None:
    keys = {job_key({}), job_key({"PMIX_NAMESPACE": "1"}), job_key({"PMIX_NAMESPACE": "2"})}
    assert len(keys) == 3
    assert job_key({}) == job_key({})


def test_steps_of_an_allocation_have_different_keys_where_their_launcher_cannot_be_seen() -> None:
    """As in a container with processes of its own; a job that is started again has its old numbers, and its count."""
    job = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}
    assert (
        len({job_key(job), job_key({**job, "SLURM_STEP_ID": "1"}), job_key({**job, "SLURM_RESTART_COUNT": "1"})}) == 3
    )


def test_the_hosts_of_a_job_have_a_word_in_common() -> None:
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}
    jobs = [step, {**step, "SLURM_STEP_ID": "1"}, {"PMIX_NAMESPACE": "1"}, {"PALS_APID": "2"}, {"WILKINS_JOB_ID": "3"}]
    assert len({hosts_key(job) for job in jobs}) == len(jobs)
    assert hosts_key({**step, "SLURM_NODEID": "0"}) == hosts_key({**step, "SLURM_NODEID": "1"})
    assert hosts_key({**step, "PMIX_NAMESPACE": "1"}) == hosts_key({"PMIX_NAMESPACE": "1"})
    with pytest.raises(ResourceError, match=r"set WILKINS_JOB_ID to a word"):
        hosts_key({"PMI_RANK": "0", "SLURM_JOB_ID": "1"})


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (128_000_000, "128 MB"), (1.5e9, "1.5 GB"), (2e15, "2e+03 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert tables.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0002, "0.2 ms"), (0.0123, "12.3 ms"), (4.56, "4.56 s"), (125, "2 min 05 s"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert tables.duration(seconds) == text


def report_of_waits(reached: list[int], *more: dict[str, Any]) -> dict[str, Any]:
    """A producer of two ranks, one of which waits for room on rank 3 of its reader; `more`: waits of the reader."""
    wait = {
        "rank": 1,
        "pid": 7,
        "what": "room",
        "port": 0,
        "name": "a1.h5",
        "seconds": 31.2,
        "on": [{"task": 1, "first": 3, "last": 3}],
    }
    return {
        "tasks": [
            {"name": "sim", "nprocs": 2, "waits": [wait], "flushes": []},
            {"name": "plot", "nprocs": 4, "waits": list(more), "flushes": []},
        ],
        "ports": [
            {"task": 0, "direction": "out", "pattern": "a*.h5", "steps": 2, "waits_first": True},
            {"task": 1, "direction": "in", "pattern": "a*.h5", "steps": 2, "waits_first": True, "asked": ""},
            {"task": 1, "direction": "in", "pattern": "b*.h5", "steps": 0, "waits_first": True, "asked": ""},
        ],
        "channels": [
            {
                "outport": 0,
                "inport": 1,
                "every": 1,
                "offset": 0,
                "queued": 2,
                "next": "a0.h5",
                "held": 0,
                "reached": reached,
            }
        ],
    }


@pytest.mark.parametrize(
    ("reached", "cure"),
    [
        ([2, 0, 0, 0], "  if only rank 0 of plot read, as so far, give the in-port 'a*.h5' of plot `nreaders: 1`"),
        (
            [2, 2, 2, 0],
            "  if only ranks 0, 1 and 2 of plot read, as so far, give the in-port 'a*.h5' of plot `nreaders: 3`",
        ),
        ([0, 2, 0, 0], "let the first 1 read instead, or all 4"),
        ([0, 0, 0, 0], "  plot has opened no step of 'a*.h5' so far"),
    ],
)
def test_a_wait_for_room_proposes_the_key_and_its_value(reached: list[int], cure: str) -> None:
    first, second = explain.waits(restored(Report, report_of_waits(reached)))
    assert first == "sim[1] has waited 31 s for room to write a1.h5, on plot[3]"
    assert second.endswith(cure)


def nobody(_pid: int) -> str:
    """No tool can tell where a process is."""
    return ""


def test_the_task_that_all_wait_for_is_named_with_its_process() -> None:
    """Of tasks that wait themselves, and of ended ones, there is nothing to be seen."""
    report = report_of_waits([2, 0, 0, 0])
    report["tasks"][0]["state"] = report["tasks"][1]["state"] = "running"
    (said,) = explain.awaited(restored(Report, report), {0: 11, 1: 12}, nobody)
    assert said.startswith("  plot (process 12) has had 2 steps and waits for no task; it computes, or waits for")
    assert said.endswith(": `py-spy dump --pid 12` or `gdb -p 12` shows where")
    assert "process" not in explain.awaited(restored(Report, report), {}, nobody)[0]
    report["tasks"][1]["state"] = "ended"
    assert explain.awaited(restored(Report, report), {0: 11, 1: 12}, nobody) == []
    report["tasks"][1]["state"] = "running"
    (said,) = explain.awaited(restored(Report, report), {0: 11, 1: 12}, lambda pid: f"fit (train.py:{pid})")
    assert said.endswith("it computes, or waits for something else, in fit (train.py:12)")
    both = report_of_waits([2, 0, 0, 0], report["tasks"][0]["waits"][0])
    assert explain.awaited(restored(Report, both), {}, nobody) == []


def test_the_innermost_calls_are_those_of_the_main_thread() -> None:
    dump = (
        'Process 7: python x.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 9 (active): "other"\n    run (t.py:1)\n'
        'Thread 7 (idle): "MainThread"\n    solve (x.py:3)\n    step (x.py:9)\n    main (x.py:20)\n'
        '    <module> (x.py:30)\nThread 8 (idle): "third"\n    wait (t.py:5)\n'
    )
    assert innermost(dump, 7) == "solve (x.py:3), called from step (x.py:9), called from main (x.py:20)"
    assert innermost(dump, 9) == "run (t.py:1)"
    assert innermost("", 7) == innermost(dump, 10) == ""


@pytest.mark.nightly
@pytest.mark.needs("py-spy")
def test_where_a_python_program_is(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(
        "import time\ndef rests():\n    open('there', 'w').close()\n    time.sleep(60)\nrests()\n"
    )
    with started_tree([sys.executable, "sleeps.py"], tmp_path) as tree:
        wait_for((tmp_path / "there").exists, 30, "the program")
        wait_for(lambda: where(tree.process.pid).startswith("rests (sleeps.py:4)"), 30, "the place")
    assert where(tree.process.pid) == ""


def test_a_reader_that_asks_for_a_name_that_nobody_wrote_is_told_so() -> None:
    wait = {
        "rank": 0,
        "pid": 8,
        "what": "data",
        "port": 1,
        "name": "a01.h5",
        "strange": False,
        "seconds": 30.0,
        "on": [{"task": 0, "first": 0, "last": 0}],
    }
    (cure,) = explain.cures(restored(Report, report_of_waits([0, 0, 0, 0], wait)))
    assert cure == (
        "  plot has opened no step of 'a*.h5' so far: it asks for 'a01.h5', and none of the steps that wait "
        "for it (2) has that name; compare it with 'a0.h5', which sim has written"
    )


@pytest.mark.parametrize(
    ("alias_state", "alias", "cure"),
    [
        (
            "no",
            "",
            "no file like 'in.h5' was written for the in-port 'a*.h5' of plot, but 'a0.h5' was: if 'in.h5' means the "
            "next step, whatever that is called, give ",
        ),
        ("found", "next.h5", "'next.h5' stands for the next step of 'a*.h5' for plot, so 'in.h5' never comes"),
        (
            "prevented",
            "in.h5",
            "plot: 'in.h5', which it has opened, would stand for the next step of 'a*.h5', but is a ",
        ),
    ],
)
def test_a_reader_that_asks_for_a_name_like_none_that_was_written(alias_state: str, alias: str, cure: str) -> None:
    wait = {
        "rank": 0,
        "what": "data",
        "port": 1,
        "name": "in.h5",
        "strange": True,
        "seconds": 30.0,
        "on": [{"task": 0, "first": 0, "last": 0}],
    }
    report = report_of_waits([2, 2, 2, 1], wait)
    report["ports"][1] |= {"alias_state": alias_state, "alias": alias}
    (told,) = explain.cures(restored(Report, report))
    assert told.startswith(f"  {cure}")
    assert ("`as: in.h5`" in told) == (alias_state != "found")


def test_a_wait_for_room_of_readers_that_all_read_proposes_nothing() -> None:
    assert explain.cures(restored(Report, report_of_waits([2, 2, 2, 1]))) == []


def test_a_reader_that_waits_for_another_file_is_to_have_a_longer_queue() -> None:
    wait = {
        "rank": 3,
        "pid": 8,
        "what": "data",
        "port": 2,
        "name": "",
        "strange": False,
        "seconds": 30.0,
        "on": [{"task": 0, "first": 0, "last": 1}],
    }
    (cure,) = explain.cures(restored(Report, report_of_waits([2, 2, 2, 1], wait)))
    assert cure.endswith("give the in-port 'a*.h5' of plot a longer queue, such as `queue: 4`")


def test_a_reader_that_keeps_all_its_steps_open_is_told_how_many() -> None:
    report = report_of_waits([2, 2, 2, 2])
    report["channels"][0] |= {"queued": 0, "held": 14}
    (cure,) = explain.cures(restored(Report, report))
    assert cure == (
        "  plot has 14 steps of 'a*.h5' open at once: let it close those that it has done with, or give the in-port "
        "'a*.h5' of plot a longer queue, such as `queue: 28`"
    )


def circle(*edges: tuple[int, int], waits_first: bool = True, steps: int = 0) -> dict[str, Any]:
    """Tasks that wait for data of others."""
    tasks: list[dict[str, Any]] = [{"name": f"t{n}", "nprocs": 1, "waits": [], "flushes": []} for n in range(4)]
    ports = []
    for port, (waiting, on) in enumerate(edges):
        ports.append(
            {"task": waiting, "pattern": f"p{port}.h5", "steps": steps, "waits_first": waits_first, "asked": ""}
        )
        wait = {
            "rank": 0,
            "pid": 7,
            "what": "data",
            "port": port,
            "name": "",
            "strange": False,
            "seconds": 1.0,
            "on": [{"task": on, "first": 0, "last": 0}],
        }
        tasks[waiting]["waits"].append(wait)
    return {"tasks": tasks, "ports": ports, "channels": []}


def test_tasks_that_wait_for_each_others_first_step_are_to_begin_without() -> None:
    (cure,) = explain.cures(restored(Report, circle((0, 1), (1, 2), (2, 3), (3, 1))))
    assert cure.startswith("  t1, t2 and t3 wait for each other's first step; let one begin without: give the in-port ")
    assert "'p1.h5' of t1 `first: missing`" in cure
    assert "`first: file`" in cure
    assert explain.cures(restored(Report, circle((0, 1), (1, 2)))) == []
    assert explain.cures(restored(Report, circle((0, 1), (1, 0), steps=1))) == []
    assert explain.cures(restored(Report, circle((0, 1), (1, 0), waits_first=False))) == []


def test_a_rank_imports_no_yaml_graph_hdf5_or_mpi() -> None:
    heavy = "{'yaml', 'networkx', 'h5py', 'mpi4py', 'numpy'}"
    code = f"import sys, wilkins.launch.job.onejob; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_ranks_that_have_a_process_are_known_unless_one_of_unknown_rank_runs() -> None:
    parents = {10: 1, 11: 10, 20: 11, 21: 11, 22: 21, 30: 1}
    assert ranks_left(10, parents, {20: 0, 21: 1, 22: 1}) == {0, 1}
    assert ranks_left(10, {10: 1, 11: 10, 22: 11}, {22: 1}) == {1}
    # What 21 is, only its child tells, as long as that runs.
    assert ranks_left(10, parents, {20: 0, 22: 1}) == {0, 1}
    assert ranks_left(10, {10: 1, 11: 10, 20: 11, 21: 11}, {20: 0}) is None
    assert ranks_left(10, {10: 1, 30: 1}, {}) is None
    # It was adopted when its parent ended.
    assert ranks_left(10, {10: 1, 11: 10, 20: 11, 30: 1}, {20: 0, 30: 1}) == {0, 1}
