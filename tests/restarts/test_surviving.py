"""Tasks that fail are started again, left out, or the end of their run; and tasks may come after others."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, Tree, processes_in, run_tree, started_tree, wait_for, write_program
from support.surviving import (
    CHECKPOINTS,
    FILTERED,
    LAST,
    LIMIT,
    MOMENTS,
    NAMES,
    ONE,
    READER,
    RESTART,
    RUN,
    SIMULATION,
    TRAIN,
    TRAINED,
    alone_and_in_a_job,
    got,
    killed_at_random_moments,
    prepare,
    run,
    steps,
    summary,
)
from wilkins.launch.watch.decide import delay

# Producers.


@pytest.mark.usual("anew-before", "checkpoint-simulate", also_between_hosts=["anew-simulate", "checkpoint-before"])
@pytest.mark.parametrize("where", ["simulate", "before"])
@pytest.mark.parametrize(("more", "begins"), [("", [0, 0]), (CHECKPOINTS, [0, 8])], ids=["anew", "checkpoint"])
def test_a_producer_goes_on_and_no_step_comes_twice(tmp_path: Path, where: str, more: str, begins: list[int]) -> None:
    done = run(tmp_path, SIMULATION + RESTART + more + READER, **{f"DIE_{where}": "9"})
    assert done.code == 0, done.out + done.err
    assert [int(value) for value in re.findall(r"begins at (\d+)", done.out)] == begins
    assert got(done) == steps()
    assert "simulate: failed: killed by SIGKILL" in done.err
    assert "simulate: is started again in 0.05 s (retry 1 of 3)" in " ".join(done.err.split())
    words = "from the beginning" if begins[1] == 0 else f"from {tmp_path}/chk0008.h5"
    assert f"simulate: starts again {words}" in done.said
    told = summary(tmp_path)
    assert (told["simulate"]["starts"], told["simulate"]["retries"], told["simulate"]["outcome"]) == (2, 1, "done")
    assert (told["sink"]["consumed"], told["sink"]["retries"]) == (12, 0)
    assert told["simulate"]["produced"] == 12 + (3 if more else 0)


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_producer_that_fails_again_and_again_while_it_makes_steps_again(tmp_path: Path) -> None:
    """At a step that it makes again, then at one beyond, then at the first new one."""
    done = run(
        tmp_path,
        SIMULATION + RESTART + CHECKPOINTS + READER,
        DIE_simulate="10:1",
        DIE_before="9:2",
        STEPS="14",
    )
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(14)
    assert summary(tmp_path)["simulate"]["retries"] == 3


def test_steps_on_disk_are_whole_after_a_failure(tmp_path: Path) -> None:
    import h5py

    workflow = SIMULATION.replace('"}', '", mode: both}') + RESTART + READER
    done = run(tmp_path, workflow, DIE_simulate="7")
    assert done.code == 0, done.out + done.err
    assert got(done) == steps()
    for step in range(12):
        with h5py.File(tmp_path / f"plt{step:04}.h5") as file:
            assert list(file["u"][:2]) == [step, step]


@pytest.mark.parametrize("mode", ["memory", "both"])
@pytest.mark.parametrize("name", ["state.h5", "plt{step}.h5"])
@pytest.mark.parametrize("death", ["before", "rests", "after"])
@pytest.mark.usual(also_between_hosts=["rests-plt{step}.h5-both"])
def test_a_file_that_rests_when_a_checkpoint_is_written(tmp_path: Path, death: str, name: str, mode: str) -> None:
    """It is a step only when the program turns to its next file: a checkpoint in between holds it, or is none."""
    (tmp_path / "rests.py").write_text(
        "import sys, h5py\nfrom dies import dies\nfirst = 0\n"
        "if len(sys.argv) > 1:\n    with h5py.File(sys.argv[1]) as file:\n        first = int(file.attrs['step'])\n"
        f"for step in range(first, 14):\n    dies('before', step, 'kill')\n"
        f"    with h5py.File(f'{name}', 'w') as file:\n        file['u'] = [float(step)]\n"
        "    if step % 5 == 4:\n        with h5py.File(f'chk{step:02}.h5', 'w') as file:\n"
        "            file.attrs['step'] = step + 1\n    dies('rests', step, 'kill')\n"
    )
    pattern = name.replace("{step}", "*")
    workflow = (
        f'  - func: rests.py\n    outports: [{{filename: "{pattern}", mode: {mode}, publish: next}}]\n'
        + RESTART
        + CHECKPOINTS
        + f'  - {{func: sink.py, args: ["{pattern}"], inports: [{{filename: "{pattern}"}}]}}\n'
    )
    step = {"before": "9", "rests": "9", "after": "12"}[death]
    done = run(tmp_path, workflow, **{f"DIE_{'before' if death == 'after' else death}": step})
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(14)


@pytest.mark.needs(MPIEXEC)
@pytest.mark.one_host("a task on several hosts is not started again")
def test_ranks_are_started_again_together(tmp_path: Path) -> None:
    """One rank of two is killed while both write files of their own."""
    (tmp_path / "ranks.py").write_text(
        "import os\nfrom mpi4py import MPI\nimport h5py\nfrom dies import dies\nrank = MPI.COMM_WORLD.rank\n"
        "for step in range(8):\n    if rank == 1:\n        dies('ranks', step, 'kill')\n"
        "    with h5py.File(f'plt{step:04}-{rank}.h5', 'w') as file:\n        file['u'] = [100.0 * rank + step]\n"
        "    MPI.COMM_WORLD.Barrier()\n"
    )
    workflow = SIMULATION.replace("simulate.py", "ranks.py\n    nprocs: 2") + RESTART + READER
    done = run(tmp_path, workflow, DIE_ranks="5")
    assert done.code == 0, done.out + done.err
    assert sorted(got(done)) == [*steps(8), *(100.0 + step for step in range(8))]


def test_a_program_that_makes_other_steps_is_told(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "import os, h5py\nfrom dies import dies\nword = 'b' if os.path.exists('died-other') else 'a'\n"
        "for step in range(6):\n    dies('other', step, 'kill')\n"
        "    with h5py.File(f'plt{word}{step}.h5', 'w') as file:\n        file['u'] = [float(step)]\n"
    )
    done = run(tmp_path, SIMULATION.replace("simulate.py", "other.py") + RESTART + READER, DIE_other="3")
    told = done.said
    assert "other: step 0 of 'plt*.h5' was 'plta0.h5' at first, and is 'pltb0.h5' after a failure" in told


# Consumers.


@pytest.mark.usual("writing", also_between_hosts=["closed"])
@pytest.mark.parametrize("where", ["open", "closed", "writing", "written"])
def test_a_filter_handles_a_step_again_and_its_own_comes_once(tmp_path: Path, where: str) -> None:
    workflow = SIMULATION + FILTERED + "    restart: each-step\n" + RESTART + LAST
    done = run(tmp_path, workflow, **{f"DIE_{where}": "6"})
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(factor=2.0)
    assert "filter: starts again for the step at which it failed" in done.err
    told = summary(tmp_path)
    assert (told["filter"]["consumed"], told["filter"]["produced"], told["filter"]["retries"]) == (12, 12, 1)


def test_a_consumer_goes_on_with_the_next_step(tmp_path: Path) -> None:
    """The step at which it failed counts as had."""
    done = run(tmp_path, SIMULATION + FILTERED + RESTART + LAST, DIE_open="6")
    assert done.code == 0, done.out + done.err
    assert got(done) == [value for value in steps(factor=2.0) if value != 12.0]
    assert "filter: starts again with the next step" in done.err


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_stream_of_one_name_comes_again(tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(
        "import h5py\nfor step in range(9):\n    with h5py.File('state.h5', 'w') as file:\n"
        "        file['u'] = [float(step)]\n"
    )
    (tmp_path / "read.py").write_text(
        "import h5py\nfrom dies import dies\nwhile True:\n    with h5py.File('state.h5') as file:\n"
        "        value = float(file['u'][0])\n    dies('read', value, 'exit')\n    print('got x', value, flush=True)\n"
    )
    workflow = (
        "  - func: write.py\n    outports: [{filename: state.h5}]\n"
        "  - func: read.py\n    inports: [{filename: state.h5}]\n    restart: each-step\n" + RESTART
    )
    done = run(tmp_path, workflow, DIE_read="4:2")
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(9)


def test_a_program_for_each_step_is_started_again_for_its_step(tmp_path: Path) -> None:
    workflow = (
        SIMULATION + '  - func: one.py\n    args: ["{filename}"]\n    inports: [{filename: "plt*.h5"}]\n' + RESTART
    )
    done = run(tmp_path, workflow, DIE_one="5:3")
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "one.txt").read_text().split() == [str(step) for step in range(12)]
    assert summary(tmp_path)["one"]["retries"] == 3


@pytest.mark.nightly
def test_the_retries_of_one_step_do_not_count_for_the_next(tmp_path: Path) -> None:
    workflow = (
        SIMULATION + '  - func: one.py\n    args: ["{filename}"]\n    inports: [{filename: "plt*.h5"}]\n' + RESTART
    )
    prepare(tmp_path, workflow + "    retries: 1\n")
    (tmp_path / "one.py").write_text(ONE.replace('dies("one"', 'dies("one" if value != 8 else "two"'))
    done = run_tree([*WILKINS, "run"], LIMIT, tmp_path, {"DIE_one": "5", "DIE_two": "8"})
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "one.txt").read_text().split() == [str(step) for step in range(12)]


def test_all_go_back_where_one_cannot_by_itself(tmp_path: Path) -> None:
    """The state of a consumer lacks steps that are gone: the run goes on as `--resume` would."""
    done = run(tmp_path, SIMULATION + CHECKPOINTS + TRAINED + RESTART, DIE_train="10")
    assert done.code == 0, done.out + done.err
    assert f"total {sum(range(12))} 12" in done.out
    told = done.said
    assert f"its newest restart point, {tmp_path}/state0009.json, is behind" in told
    assert "all tasks go back to where none of them misses a step" in told
    assert "wilkins run --resume" not in done.err
    assert len(list((tmp_path / "wilkins-runs").glob("workflow-*"))) == 2


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_state_that_was_never_saved_lacks_all_steps(tmp_path: Path) -> None:
    done = run(tmp_path, SIMULATION + CHECKPOINTS + TRAINED + RESTART, DIE_train="1")
    assert done.code == 0, done.out + done.err
    assert f"total {sum(range(12))} 12" in done.out
    assert "it has no restart point yet" in done.said


@pytest.mark.nightly
def test_a_task_goes_on_alone_from_a_point_of_an_earlier_run(tmp_path: Path) -> None:
    """All have gone back together, and it fails before it has read anything in the run that goes on."""
    prepare(tmp_path, SIMULATION + CHECKPOINTS + TRAINED + RESTART)
    fails = '    dies("anew", 0, "exit")\n    with open(sys.argv[1]) as file:\n'
    (tmp_path / "train.py").write_text(TRAIN.replace("    with open(sys.argv[1]) as file:\n", fails))
    done = run_tree([*WILKINS, "run"], LIMIT, tmp_path, {"DIE_train": "10", "DIE_anew": "0"})
    assert done.code == 0, done.out + done.err
    assert f"total {sum(range(12))} 12" in done.out
    assert f"train: starts again from {tmp_path}/state0009.json" in done.said
    assert len(list((tmp_path / "wilkins-runs").glob("workflow-*"))) == 2


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_going_back_together_counts_as_a_retry(tmp_path: Path) -> None:
    done = run(tmp_path, SIMULATION + CHECKPOINTS + TRAINED + RESTART + "    retries: 2\n", DIE_train="10:99")
    assert done.code == 1, done.out + done.err
    assert (tmp_path / "died-train").read_text() == "xxx"
    assert "to go on with this run: wilkins run --resume" in done.err


def test_what_a_failed_program_leaves_running_is_ended_first(tmp_path: Path) -> None:
    """A process of the first start would go on to write steps beside the second."""
    (tmp_path / "forks.py").write_text(
        "import os, time, h5py\nfirst = not os.path.exists('first')\nopen('first', 'w').close()\n"
        "for step in range(3):\n    with h5py.File(f'plt{step}.h5', 'w') as file:\n        file['u'] = [float(step)]\n"
        "if first:\n    if os.fork() == 0:\n        os.setsid()\n        with open('left', 'w') as file:\n"
        "            print(os.getpid(), file=file)\n        time.sleep(100)\n    time.sleep(0.3)\n    os._exit(1)\n"
    )
    done = run(tmp_path, SIMULATION.replace("simulate.py", "forks.py") + RESTART + READER)
    assert done.code == 0, done.out + done.err
    assert done.seconds < 60
    assert not Path("/proc", (tmp_path / "left").read_text().strip()).exists()
    assert got(done) == steps(3)


# What ends the run all the same.


@alone_and_in_a_job(2)
@pytest.mark.usual("alone")
def test_when_retries_are_used_up_the_run_stops(tmp_path: Path, command: Sequence[str]) -> None:
    done = run(tmp_path, SIMULATION + RESTART + "    retries: 2\n" + READER, command, DIE_simulate="7:99")
    assert done.code == 1
    assert (tmp_path / "died-simulate").read_text() == "xxx"
    assert "simulate: failed at its 3rd start: killed by SIGKILL" in done.said
    assert processes_in(tmp_path) == []


def test_the_run_can_be_stopped_before_a_start(tmp_path: Path) -> None:
    prepare(tmp_path, SIMULATION + RESTART.replace("50ms", "1h") + READER)
    with started_tree([*WILKINS, "run"], tmp_path, {"DIE_simulate": "3"}) as tree:
        wait_for(lambda: "is started again in 3600 s" in " ".join(_said(tree).split()), 60, "the failure")
        tree.process.send_signal(signal.SIGINT)
        done = tree.wait(30)
    assert done.code == 130
    assert processes_in(tmp_path) == []


def _said(tree: Tree) -> str:
    return (tree.folder / ".stderr").read_text().replace("wilkins: ", "")


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_run_that_waits_for_a_start_is_not_stuck(tmp_path: Path) -> None:
    """All others wait; nothing ends the run before the start comes."""
    done = run(tmp_path, SIMULATION + RESTART.replace("50ms", "4s") + READER, DIE_simulate="3")
    assert done.code == 0, done.out + done.err
    assert got(done) == steps()


def test_delays_double_up_to_a_minute() -> None:
    assert [delay(1.0, failures) for failures in (1, 2, 3, 6, 7, 8)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    assert [delay(300.0, failures) for failures in (1, 2)] == [300.0, 300.0]
    assert [delay(0.0, failures) for failures in (1, 9)] == [0.0, 0.0]


# Ensembles.

MEMBER = """\
import sys
import h5py
import os
number = int(sys.argv[1])
for step in range(6):
    if str(number) in os.environ["LOST"].split() and step == 3:
        sys.exit(5)
    with h5py.File(f"m{number}-{step}.h5", "w") as file:
        file["u"] = [100.0 * number + step]
"""
ENSEMBLE = """\
  - func: member.py
    taskCount: 4
    args: ["{instance}"]
    outports: [{filename: "m{instance}-*.h5"}]
    min_instances: 3
  - func: sink.py
    args: ["m*.h5"]
    inports: [{filename: "m*.h5"}]
"""


@alone_and_in_a_job(5)
@pytest.mark.parametrize(
    "more", ["", "    on_failure: restart\n    retry_delay: 0s\n    retries: 1\n"], ids=["once", "retries"]
)
@pytest.mark.usual("once-alone")
def test_an_instance_that_is_not_needed_is_left_out(tmp_path: Path, more: str, command: Sequence[str]) -> None:
    (tmp_path / "member.py").write_text(MEMBER)
    done = run(tmp_path, ENSEMBLE.replace("    min", f"{more}    min"), command, LOST="2")
    assert done.code == 0, done.out + done.err
    whole = [100.0 * number + step for number in range(4) for step in range(6)]
    assert sorted(got(done)) == [value for value in whole if value not in (203.0, 204.0, 205.0)]
    assert "member[2]: left out: of its instances, 1 may fail" in done.said
    told = summary(tmp_path)
    assert [told[f"member[{k}]"]["outcome"] for k in range(4)] == ["done", "done", "failed", "done"]
    assert told["member[2]"]["retries"] == (1 if more else 0)


@alone_and_in_a_job(5)
@pytest.mark.usual("alone")
def test_one_failure_too_many_stops_an_ensemble(tmp_path: Path, command: Sequence[str]) -> None:
    (tmp_path / "member.py").write_text(MEMBER)
    done = run(tmp_path, ENSEMBLE, command, LOST="1 2")
    assert done.code == 1
    assert processes_in(tmp_path) == []


# Order without data.


def test_a_task_starts_after_others(tmp_path: Path) -> None:
    write_program(tmp_path / "prepare.sh", "#!/bin/sh\nsleep 0.5\necho ready > prepared\n")
    write_program(tmp_path / "check.sh", "#!/bin/sh\ncat prepared plotted\n")
    write_program(tmp_path / "plot.sh", "#!/bin/sh\ntest -f prepared && echo plotted > plotted\n")
    workflow = (
        "  - {func: ./check.sh, after: [plot, prepare]}\n"
        "  - {func: ./plot.sh, after: prepare}\n"
        "  - func: ./prepare.sh\n"
    )
    done = run(tmp_path, workflow)
    assert done.code == 0, done.out + done.err
    assert re.findall(r"check +\| (\w+)", done.out) == ["ready", "plotted"]


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_producer_may_come_after_another_of_one_reader(tmp_path: Path) -> None:
    (tmp_path / "member.py").write_text(MEMBER)
    workflow = (
        '  - {func: member.py, name: one, args: [1], outports: [{filename: "m1-*.h5"}]}\n'
        '  - {func: member.py, name: two, args: [2], after: one, outports: [{filename: "m2-*.h5"}]}\n'
        '  - {func: sink.py, args: ["m*.h5"], inports: [{filename: "m*.h5"}]}\n'
    )
    done = run(tmp_path, workflow, LOST="")
    assert done.code == 0, done.out + done.err
    assert got(done) == [100.0 * number + step for number in (1, 2) for step in range(6)]


@alone_and_in_a_job(3)
@pytest.mark.usual("alone")
def test_what_comes_after_an_ensemble_starts_though_one_has_failed(tmp_path: Path, command: Sequence[str]) -> None:
    write_program(tmp_path / "member.sh", "#!/bin/sh\nexit $1\n")
    workflow = (
        '  - {func: ./member.sh, taskCount: 2, args: ["{instance}"], min_instances: 1}\n'
        "  - {func: /bin/echo, args: [hello], name: second, after: member}\n"
    )
    done = run(tmp_path, workflow, command)
    assert done.code == 0, done.out + done.err
    assert "hello" in done.out


@alone_and_in_a_job(3)
@pytest.mark.usual("alone")
def test_what_comes_after_a_failure_is_not_started(tmp_path: Path, command: Sequence[str]) -> None:
    workflow = (
        "  - {func: /bin/false, on_failure: continue}\n"
        "  - {func: /bin/echo, args: [hello], name: second, after: 'false'}\n"
        "  - {func: /bin/echo, args: [hello], name: third, after: second}\n"
    )
    done = run(tmp_path, workflow, command)
    assert done.code == 1
    assert "hello" not in done.out
    assert "second: not started, since false, which it comes after, did not end well" in done.err
    told = summary(tmp_path)
    assert [told[name]["outcome"] for name in ("false", "second", "third")] == ["failed", "not started", "not started"]
    assert told["second"]["starts"] == 0


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_an_order_that_waits_in_a_circle_with_files_ends(tmp_path: Path) -> None:
    """`late` gives `join` a step only after the end of `write`, whose steps `join` does not take before."""
    (tmp_path / "write.py").write_text(
        "import h5py, numpy\nfor step in range(9):\n    with h5py.File('state.h5', 'w') as file:\n"
        "        file['u'] = numpy.full(100000, step)\n"
    )
    (tmp_path / "late.py").write_text("import h5py\nh5py.File('late.h5', 'w').close()\n")
    (tmp_path / "join.py").write_text("import h5py\nh5py.File('late.h5').close()\nh5py.File('state.h5').close()\n")
    workflow = (
        "  - {func: write.py, outports: [{filename: state.h5, memory: 2MB}]}\n"
        "  - {func: join.py, inports: [{filename: late.h5}, {filename: state.h5, reorder: 0}]}\n"
        "  - {func: late.py, after: write, outports: [{filename: late.h5}]}\n"
    )
    done = run(tmp_path, workflow)
    assert done.code == 4, done.out + done.err
    told = done.said
    assert re.search(r"\blate\b.* waits, to be started, for the end of .* \('after'\)", told)


@pytest.mark.parametrize(
    ("workflow", "message"),
    [
        ("  - {func: /bin/true, retries: 2}\n", "'retries' goes with 'on_failure: restart'"),
        ("  - {func: /bin/true, retry_delay: 2s, on_failure: continue}\n", "but that is 'continue'"),
        ("  - {func: /bin/true, min_instances: 1}\n", "'min_instances' is for an ensemble"),
        ("  - {func: /bin/true, taskCount: 2, min_instances: 3}\n", "more than its 'taskCount' of 2"),
        ("  - {func: /bin/true, taskCount: 2, min_instances: 1, on_failure: continue}\n", "remove one of them"),
        (
            "  - {func: /bin/true, after: fals}\n  - func: /bin/false\n",
            "there is no task 'fals'; did you mean 'false'?",
        ),
        ("  - {func: /bin/true, after: 'true'}\n", "'after' leads back to the task itself"),
        (
            "  - {func: /bin/true, after: 'false'}\n  - {func: /bin/false, after: 'true'}\n",
            "leads back to the task itself (true, false)",
        ),
        (
            SIMULATION + FILTERED.replace('"out*.h5"', '"out*.h5", publish: next') + RESTART,
            "with 'publish: next' a file waits after its close, and is lost if the program fails",
        ),
        (SIMULATION + READER + "    after: simulate\n", "does not go with the files that join the two tasks"),
        (SIMULATION + "    after: sink\n" + READER, "does not go with the files that join the two tasks"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, workflow: str, message: str) -> None:
    prepare(tmp_path, workflow)
    done = run_tree([*WILKINS, "check"], LIMIT, tmp_path)
    assert done.code == 2, done.out + done.err
    assert message in " ".join(done.err.split())
    assert re.search(r"workflow\.yaml:\d+:\d+: ", done.err)


# Killed from outside, at random moments.


@pytest.mark.timeout(900 + 60 * MOMENTS)
@pytest.mark.parametrize("number", range(5), ids=NAMES)
@pytest.mark.parametrize("policy", ["stop", "continue", "restart"])
@alone_and_in_a_job(5)
@pytest.mark.usual("alone-stop-filter")
def test_a_task_is_killed_at_a_random_moment(tmp_path: Path, policy: str, number: int, command: Sequence[str]) -> None:
    killed_at_random_moments(tmp_path, policy, number, lambda _: command, goes_back=command == RUN)


def test_the_plan_tells_of_orders_and_failures(tmp_path: Path) -> None:
    workflow = (
        "  - {func: /bin/true, name: first, on_failure: restart, retries: 5}\n"
        "  - {func: /bin/true, name: many, taskCount: 4, min_instances: 3, after: first}\n"
        "  - {func: /bin/true, name: last, after: [many, first]}\n"
    )
    prepare(tmp_path, workflow)
    done = run_tree([*WILKINS, "plan"], LIMIT, tmp_path)
    assert done.code == 0, done.err
    for line in (
        "first is started again up to 5 times if it fails",
        "many[0..3] starts when first has ended well",
        "many[0..3]: 1 of 4 may fail",
        "last starts when many and first have ended well",
    ):
        assert line in done.out, done.out
