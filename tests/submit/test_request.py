"""What a batch job asks for, decided from a plan and the options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wilkins.errors import ResourceError, UsageError
from wilkins.plan.gpus import Machine
from wilkins.plan.graph import wire
from wilkins.plan.plan import Plan
from wilkins.plan.planner import make_plan
from wilkins.spec.load import load
from wilkins.submit.request import JobRequest, Options, cores, gpus_dealt, job_name, job_request


def plan_of(folder: Path, tasks: str, gpus: int = 0) -> Plan:
    """The plan of tasks whose program is `./program`, for a machine with so many GPUs."""
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "heat.yaml").write_text(f"tasks:\n{tasks}")
    document = load(folder / "heat.yaml", [])
    return make_plan(document, wire(document), machine=Machine(gpus))


def requested(plan: Plan, options: Options = Options(), gpus: int = 0) -> JobRequest:  # noqa: B008 - frozen
    return job_request(plan, options, ("wilkins", "run"), Path("/here"), gpus)


def test_cores_are_ranks_times_threads_of_all_instances(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        "  - {name: a, func: ./program, nprocs: 3, threads: 2, mpiexec: 'true'}\n"
        "  - {name: b, func: ./program, taskCount: 4}\n"
        "  - {name: c, func: ./program, env: {OMP_NUM_THREADS: '2,3'}}\n"
        "  - {name: d, func: ./program, env: {OMP_NUM_THREADS: many}}\n",
    )
    assert cores(plan) == 3 * 2 + 4 + 2 * 3 + 1
    assert requested(plan).cores == 17
    assert requested(plan, Options(cores=5)).cores == 5


def test_gpus_are_those_that_tasks_do_not_share(tmp_path: Path) -> None:
    tasks = "  - {name: a, func: ./program, gpus: 2}\n  - {name: b, func: ./program, gpus: 1, taskCount: 2}\n"
    assert gpus_dealt(plan_of(tmp_path, tasks, 4)) == 4
    assert gpus_dealt(plan_of(tmp_path, tasks, 3)) == 3
    assert gpus_dealt(plan_of(tmp_path, "  - {func: ./program}\n", 3)) == 0


def test_a_job_with_too_few_gpus_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "  - {name: a, func: ./program, gpus: 2}\n", 1)
    with pytest.raises(ResourceError, match=r"(?s)asks for 2 GPUs.*the job asks for 1 GPU; --gpus N") as refused:
        requested(plan, gpus=1)
    assert refused.value.exit_code == 3


def test_output_goes_beside_the_records_of_runs(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "  - {func: ./program}\n")
    assert requested(plan).output == tmp_path / "wilkins-jobs"
    assert requested(replace(plan, folder=Path("/elsewhere"))).output == Path("/elsewhere/wilkins-jobs")


def test_what_is_left_out(tmp_path: Path) -> None:
    job = requested(plan_of(tmp_path, "  - {func: ./program}\n"))
    assert (job.name, job.minutes, job.nodes, job.gpus, job.memory, job.queue) == ("heat", 60, 1, 0, None, None)
    assert job.size == "1 core on 1 node, 1 h at most"


def test_sizes_in_words_and_per_node() -> None:
    job = JobRequest("x", (), Path(), Path(), cores=9, nodes=2, gpus=2, minutes=90)
    assert job.cores_per_node == 5
    assert job.size == "9 cores and 2 GPUs on 2 nodes, 1 h 30 min at most"
    assert replace(job, minutes=45).size.endswith(", 45 min at most")


def test_time_and_memory_are_what_all_tasks_expect(tmp_path: Path) -> None:
    """In time, a task stands behind those that it comes after; in memory, all ranks are beside each other."""
    tasks = [
        "{name: a, func: ./program, nprocs: 3, mpiexec: 'true', resources: {memory: 2GiB, walltime: 30min}}",
        "{name: b, func: ./program, after: c, resources: {memory: 1GiB, walltime: 100s}}",
        "{name: c, func: ./program, taskCount: 2, resources: {memory: 512MiB, walltime: 1h}}",
    ]
    job = requested(plan_of(tmp_path, "".join(f"  - {one}\n" for one in tasks)))
    assert (job.minutes, job.expected_memory, job.memory) == (62, 8 << 30, None)
    given = requested(
        plan_of(tmp_path, "".join(f"  - {one}\n" for one in tasks)), Options(minutes=5, memory=1, nodes=2)
    )
    assert (given.minutes, given.expected_memory, given.memory) == (5, 4 << 30, 1)
    tasks.append("{name: d, func: ./program}")
    unknown = requested(plan_of(tmp_path, "".join(f"  - {one}\n" for one in tasks)))
    assert (unknown.minutes, unknown.expected_memory) == (60, None)


def test_several_nodes_need_a_core_for_each_rank(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "  - {func: ./program, nprocs: 4}\n")
    assert requested(plan, Options(nodes=3)).size == "4 cores on 3 nodes, 1 h at most"
    assert requested(plan, Options(cores=3)).nodes == 1
    with pytest.raises(UsageError, match=r"--cores 3: on several nodes each of the 4 ranks needs a core"):
        requested(plan, Options(nodes=3, cores=3))


@pytest.mark.parametrize(
    ("workflow", "name"), [("heat", "heat"), ("Wärme 2", "W_rme_2"), ("-x", "x"), ("ü", "wilkins"), ("a.b-c", "a.b-c")]
)
def test_the_name_of_a_workflow_becomes_one_that_schedulers_take(workflow: str, name: str) -> None:
    assert job_name(workflow) == name


@pytest.mark.parametrize("option", ["name", "queue", "account"])
@pytest.mark.parametrize("value", ["two words", "", "-x", 'a"b', "a\nb", "$HOME"])
def test_a_name_that_breaks_a_line_of_options_is_refused(tmp_path: Path, option: str, value: str) -> None:
    plan = plan_of(tmp_path, "  - {func: ./program}\n")
    with pytest.raises(UsageError, match=f"--{option} .*takes letters, digits"):
        requested(plan, replace(Options(), **{option: value}))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["", "  ", "--exclusive\nrm -r /"])
def test_an_option_is_one_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match=r"--option .* must be one line"):
        requested(plan_of(tmp_path, "  - {func: ./program}\n"), Options(lines=(line,)))
