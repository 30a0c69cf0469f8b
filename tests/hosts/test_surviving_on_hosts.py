"""Programs that fail are started again, left out and put in an order where their partners are on other hosts.

What is the same as on one machine is shown by `pytest --between-hosts tests/restarts/test_surviving.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hosts.pseudo import HERE
from hosts.rig import NEEDS, Rig
from restarts.test_random_failures import CASES, every_step_reaches_every_reader

from support.running import (
    MPIEXEC,
    WILKINS,
    Finished,
    Tree,
    processes_in,
    run_tree,
    started_tree,
    wait_for,
    write_program,
)
from support.surviving import (
    CHECKPOINTS,
    FILTERED,
    LAST,
    LIMIT,
    MOMENTS,
    NAMES,
    READER,
    RESTART,
    SIMULATION,
    got,
    kill,
    killed_at_random_moments,
    nothing_left,
    pids_of,
    prepare,
    run,
    steps,
    summary,
)

HOSTS = {"WILKINS_RSH": str(HERE), "WILKINS_HOSTS": "a:1,b:1,c:1,d:1,e:1"}
LARGE = """\
import h5py, numpy
for step in range(5):
    with h5py.File(f"plt{step:04}.h5", "w") as file:
        file["u"] = numpy.full(500000, float(step))
"""
PARTLY = """\
import h5py
from dies import dies
from wilkins.transport import steps
for name in steps.names("plt*.h5"):
    with h5py.File(name) as file:
        first = float(file["u"][0])
    dies("partly", first, "exit")
    with h5py.File(name) as file:
        print("got x", float(file["u"][-1]), flush=True)
"""
PIECES = """\
import sys, time
import h5py, numpy
from wilkins.transport import steps
for name in steps.names("plt*.h5"):
    step, wrong = int(name[3:7]), 0.0
    with h5py.File(name) as file:
        for begin in range(0, 500000, 20000):
            found = file["u"][begin : begin + 15000]
            wrong += float(abs(found - step - numpy.arange(begin, begin + 15000) % 7).sum())
            open(f"{sys.argv[1]}.reads", "w").close()
            time.sleep(0.01)
    with open(f"{sys.argv[1]}.txt", "a") as told:
        print(step, wrong, file=told)
"""
RANKS = """\
import os, sys
import h5py
from mpi4py import MPI
number, rank = int(sys.argv[1]), MPI.COMM_WORLD.rank
if number < 0:
    print(open("ready").read(), flush=True)
for step in range(4) if number >= 0 else ():
    if number == 1 and rank == 1 and step == 2:
        os.kill(os.getpid(), 9)
    with h5py.File(f"m{number}-{step}-{rank}.h5", "w") as file:
        file["u"] = [100.0 * number + step]
    MPI.COMM_WORLD.Barrier()
"""
WAITS = """\
import time
import h5py
time.sleep(4)
from wilkins.transport import steps
for name in steps.names("plt*.h5"):
    with h5py.File(name) as file:
        print("got x", float(file["u"][0]), flush=True)
"""
SPREAD = """\
import os, sys
import h5py
from mpi4py import MPI
world = MPI.COMM_WORLD
first, total = 0, 0.0
if len(sys.argv) > 1:
    words = open(sys.argv[1]).read().split()
    first, total = int(words[0]), float(words[1])
print("begins at", first, flush=True)
for step in range(first, 12):
    dies = os.path.exists("dies") or not os.path.exists("died")
    if dies and step == 7 and world.rank == int(os.environ["DIE_rank"]):
        open("died", "w").close()
        os.kill(os.getpid(), 9)
    total += world.allreduce(float(world.rank + step))
    if world.rank == 0:
        with h5py.File(f"plt{step:04}.h5", "w") as file:
            file["u"] = [total]
        if step % 4 == 3:
            with open("new", "w") as file:
                print(step + 1, total, file=file)
            os.rename("new", f"chk{step + 1}.txt")
    world.barrier()
"""
SPREAD_OUT = """\
  - func: spread.py
    nprocs: 4
    on_failure: restart
    retries: 2
    retry_delay: 0.1s
    restart: {files: "chk*.txt", args: ["{file}"]}
    outports: [{filename: "plt*.h5"}]
  - func: sink.py
    args: ["plt*.h5"]
    restart: each-step
    inports: [{filename: "plt*.h5"}]
"""
TELL = """\
import h5py
from wilkins.transport import steps
for name in steps.names('out*.h5'):
    with h5py.File(name) as file:
        value = int(file['v'][()])
    with open('told', 'a') as told:
        print(value, file=told)
"""


def _said(done: Finished) -> str:
    return done.said


@pytest.mark.parametrize("last", [2, 4])
@pytest.mark.nightly
def test_what_was_never_read_of_a_step_is_there_when_it_comes_again(tmp_path: Path, last: int) -> None:
    """Only a part of it has crossed when its reader fails; after the last step, its producer has ended long ago."""
    (tmp_path / "large.py").write_text(LARGE)
    (tmp_path / "partly.py").write_text(PARTLY)
    workflow = SIMULATION.replace("simulate", "large") + READER.replace("sink", "partly").replace(
        "    inports", "    restart: each-step\n    inports"
    )
    done = run(tmp_path, workflow + RESTART, **HOSTS, DIE_partly=str(last))
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(5)
    assert "b: partly: failed: exit code 3" in _said(done)


def test_readers_on_all_hosts_get_each_step_once(tmp_path: Path) -> None:
    """One beside the producer, two on one other host, one on a third."""
    readers = "".join(
        f'  - {{func: sink.py, name: r{k}, args: ["plt*.h5"], inports: [{{filename: "plt*.h5", io_freq: {every}}}], '
        f"placement: [{host}]}}\n"
        for k, (host, every) in enumerate([("a", 1), ("b", 1), ("b", 3), ("c", 2)])
    )
    hosts = {**HOSTS, "WILKINS_HOSTS": "a:2,b:2,c:1"}
    done = run(tmp_path, SIMULATION + CHECKPOINTS + RESTART + readers, **hosts, DIE_simulate="6:2", DIE_before="9")
    assert done.code == 0, done.out + done.err
    for k, every in enumerate([1, 1, 3, 2]):
        found = [float(value) for value in re.findall(rf"r{k} +\| got \S+ (\S+)", done.out)]
        assert found == steps()[every - 1 :: every], done.out + done.err
    assert summary(tmp_path)["simulate"]["retries"] == 3


@pytest.mark.nightly
def test_a_reader_of_producers_on_two_hosts_gets_the_step_again(tmp_path: Path) -> None:
    workflow = "".join(
        f'  - {{func: member.py, name: m{k}, args: [{k}], outports: [{{filename: "m{k}-*.h5"}}]}}\n' for k in range(2)
    )
    (tmp_path / "member.py").write_text(
        "import sys, h5py\nfor step in range(6):\n"
        "    with h5py.File(f'm{sys.argv[1]}-{step}.h5', 'w') as file:\n"
        "        file['u'] = [100.0 * int(sys.argv[1]) + step]\n"
    )
    (tmp_path / "read.py").write_text(
        "import h5py\nfrom dies import dies\nfrom wilkins.transport import steps\n"
        "for name in steps.names('m*.h5'):\n    with h5py.File(name) as file:\n        value = float(file['u'][0])\n"
        "    dies('read', value, 'exit')\n    print('got x', value, flush=True)\n"
    )
    reader = '  - func: read.py\n    inports: [{filename: "m*.h5"}]\n    restart: each-step\n'
    done = run(tmp_path, workflow + reader + RESTART, **HOSTS, DIE_read="103:2")
    assert done.code == 0, done.out + done.err
    assert sorted(got(done)) == [100.0 * member + step for member in range(2) for step in range(6)]


@pytest.mark.timeout(2 * LIMIT)
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_reader_is_killed_while_parts_of_large_steps_cross(tmp_path: Path, seed: int) -> None:
    """Again and again, beside one on its host that reads the same steps: what was on its way comes again."""
    rng = random.Random(seed)
    (tmp_path / "large.py").write_text(
        LARGE.replace("range(5)", "range(8)").replace("float(step)", "step + numpy.arange(500000) % 7")
    )
    (tmp_path / "pieces.py").write_text(PIECES)
    readers = "".join(
        f'  - {{func: pieces.py, name: {name}, args: [{name}], inports: [{{filename: "plt*.h5"}}], restart: each-step, '
        "placement: [b], on_failure: restart, retry_delay: 0s, retries: 50}\n"
        for name in ("killed", "other")
    )
    prepare(tmp_path, SIMULATION.replace("simulate", "large") + readers)
    kills = 0
    with (
        nothing_left(tmp_path),
        started_tree([*WILKINS, "run"], tmp_path, {**HOSTS, "WILKINS_HOSTS": "a:1,b:2"}) as tree,
    ):
        while kills < 6 and tree.process.poll() is None:
            if (tmp_path / "killed.reads").exists():
                time.sleep(rng.uniform(0, 0.3))
                kills += _kill(tree, "killed")
                (tmp_path / "killed.reads").unlink()
            time.sleep(0.005)
        done = tree.wait(LIMIT)
    print(f"killed {kills} times")
    assert done.code == 0, done.out + done.err
    for name in ("killed", "other"):
        told = [line.split() for line in (tmp_path / f"{name}.txt").read_text().splitlines()]
        assert [int(step) for step, _ in dict.fromkeys(map(tuple, told))] == list(range(8)), (name, told, done.err)
        assert {float(wrong) for _, wrong in told} == {0.0}
        assert len(told) - 8 <= (kills if name == "killed" else 0)


def _kill(tree: Tree, name: str) -> bool:
    """Kill the program that is started with a word."""
    for pid in processes_in(tree.folder):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if name in words and any(word.endswith("/pieces.py") for word in words):
                os.kill(pid, signal.SIGKILL)
                return True
    return False


@pytest.mark.nightly
def test_a_run_whose_failed_program_waited_is_not_stuck(tmp_path: Path) -> None:
    """The board of its host has it wait for room still, and all others wait for it, for longer than a run may stand."""
    (tmp_path / "waits.py").write_text(WAITS)
    prepare(tmp_path, SIMULATION + RESTART.replace("50ms", "12s") + READER.replace("sink", "waits"))
    with nothing_left(tmp_path), started_tree([*WILKINS, "run"], tmp_path, HOSTS) as tree:
        wait_for(lambda: len(pids_of(tree, 0)) == 1, 30, "the producer")
        assert kill(tree, 0, 3.0)
        done = tree.wait(LIMIT)
    assert done.code == 0, done.out + done.err
    assert got(done) == steps()


@pytest.mark.nightly
def test_a_run_that_went_on_and_one_in_which_a_program_failed_go_on(tmp_path: Path) -> None:
    """A failure, a run that is stopped, its rest on other hosts, and a failure in that."""
    workflow = SIMULATION + CHECKPOINTS + RESTART + FILTERED + "    restart: each-step\n" + RESTART + LAST
    last = LAST.replace("sink", "tell") + "    restart: each-step\n"
    (tmp_path / "tell.py").write_text(TELL)
    prepare(tmp_path, workflow.replace(LAST, last))
    env = {**HOSTS, "STEPS": "24", "PAUSE": "0.1", "DIE_simulate": "6"}
    with nothing_left(tmp_path), started_tree([*WILKINS, "run"], tmp_path, env) as tree:
        wait_for(lambda: len(_lines(tmp_path / "told")) >= 10, 60, "ten steps")
        tree.process.send_signal(signal.SIGINT)
        assert tree.wait(30).code == 130
    assert (tmp_path / "died-simulate").read_text() == "x"
    before = len(_lines(tmp_path / "told"))
    env = {**env, "WILKINS_HOSTS": "b:1,c:1,a:1", "DIE_simulate": "17", "DIE_writing": "19", "PAUSE": "0"}
    (tmp_path / "died-simulate").unlink()
    done = run_tree([*WILKINS, "run", "--resume", "latest"], LIMIT, tmp_path, env)
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "died-simulate").read_text() == (tmp_path / "died-writing").read_text() == "x"
    told = _lines(tmp_path / "told")
    assert sorted(set(told)) == [2 * step for step in range(24)]
    assert len(told) - len(set(told)) <= 1, told  # the one at hand when the run was stopped
    assert told[before:] == sorted(told[before:])
    assert [summary(tmp_path)[name]["retries"] for name in ("simulate", "filter")] == [1, 1]


@pytest.mark.nightly
def test_a_file_that_rested_when_a_checkpoint_was_written_is_not_lost(tmp_path: Path) -> None:
    """In a run that goes on with one in which its program failed then."""
    (tmp_path / "rests.py").write_text(
        "import sys, h5py\nfrom dies import dies\nfirst = 0\n"
        "if len(sys.argv) > 1:\n    with h5py.File(sys.argv[1]) as file:\n        first = int(file.attrs['step'])\n"
        "for step in range(first, 14):\n"
        "    with h5py.File(f'plt{step:04}.h5', 'w') as file:\n        file['u'] = [float(step)]\n"
        "    if step % 5 == 4:\n        with h5py.File(f'chk{step:02}.h5', 'w') as file:\n"
        "            file.attrs['step'] = step + 1\n    dies('rests', step, 'kill')\n"
    )
    (tmp_path / "tell.py").write_text(TELL.replace("out*", "plt*").replace("'v'][()]", "'u'][0]"))
    workflow = (
        '  - func: rests.py\n    outports: [{filename: "plt*.h5", publish: next}]\n'
        + CHECKPOINTS
        + '  - {func: tell.py, inports: [{filename: "plt*.h5"}], restart: each-step}\n'
    )
    done = run(tmp_path, workflow, **HOSTS, DIE_rests="9")
    assert done.code == 1, done.out + done.err
    done = run_tree([*WILKINS, "run", "--resume", "latest"], LIMIT, tmp_path, HOSTS)
    assert done.code == 0, done.out + done.err
    assert sorted(set(_lines(tmp_path / "told"))) == list(range(14)), done.out + done.err
    assert "did not make the same steps again" not in _said(done)


def _lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("rank", range(4), ids=lambda rank: f"rank{rank}")
@pytest.mark.usual("rank2")
def test_ranks_on_several_hosts_go_back_with_all_tasks(tmp_path: Path, rank: int) -> None:
    """They die on either host, and the run goes on by itself from their newest checkpoint."""
    prepare(tmp_path, SPREAD_OUT)
    (tmp_path / "spread.py").write_text(SPREAD)
    words = [*WILKINS, "run", "--hosts", "a:2,b:2,c:1", "workflow.yaml"]
    done = run_tree(words, LIMIT, tmp_path, {**HOSTS, "DIE_rank": str(rank)})
    assert done.code == 0, done.out + done.err
    assert "cannot be started again by itself, since files that its ranks have open together" in _said(done)
    assert re.search(r"spread +\S*chk4.txt", done.out), done.out
    assert done.out.count("begins at 4") == 4
    found = [float(one) for one in re.findall(r"got plt\d+.h5 ([\d.]+)", done.out)]
    totals = [float(sum(4 * one + 6 for one in range(step + 1))) for step in range(12)]
    assert sorted(set(found)) == totals
    assert len(found) <= 13  # the step that the reader had open may come again
    assert len(list((tmp_path / "wilkins-runs").glob("workflow-*"))) == 2


@pytest.mark.needs(MPIEXEC)
def test_ranks_on_several_hosts_that_fail_each_time(tmp_path: Path) -> None:
    prepare(tmp_path, SPREAD_OUT)
    (tmp_path / "spread.py").write_text(SPREAD)
    (tmp_path / "dies").touch()
    words = [*WILKINS, "run", "--hosts", "a:2,b:2,c:1", "workflow.yaml"]
    done = run_tree(words, LIMIT, tmp_path, {**HOSTS, "DIE_rank": "3"})
    assert done.code == 1, done.out + done.err
    assert len(list((tmp_path / "wilkins-runs").glob("workflow-*"))) == 3
    assert _said(done).count("all tasks go back") == 2


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.usual("run")
def test_a_task_of_several_hosts_that_has_nothing_to_go_back_to(tmp_path: Path, command: str) -> None:
    prepare(tmp_path, SIMULATION + "    nprocs: 2\n" + RESTART + READER)
    words = [*WILKINS, command, "--hosts"]
    done = run_tree([*words, "a:1,b:1,c:1"], LIMIT, tmp_path, {"WILKINS_RSH": str(HERE)})
    assert done.code == 3, done.out + done.err
    said = "simulate: with 'on_failure: restart' of a task whose ranks are on several hosts (a, b) all tasks go back"
    assert said in _said(done)
    done = run_tree([*WILKINS, "plan", "--hosts", "a:2,b:1"], LIMIT, tmp_path)
    assert done.code == 0
    assert "one job, by" not in done.out  # it is refused there, too


@pytest.mark.nightly
def test_instances_that_fail_on_two_hosts_at_once(tmp_path: Path) -> None:
    """One of four may fail, and three do."""
    write_program(tmp_path / "member.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.01; done\nexit $1\n")
    workflow = '  - {func: ./member.sh, taskCount: 4, args: ["{instance}"], min_instances: 3}\n'
    workflow += "  - {func: ./go.sh}\n"
    write_program(tmp_path / "go.sh", "#!/bin/sh\nsleep 1\ntouch go\n")
    done = run(tmp_path, workflow, **HOSTS)
    assert done.code == 1, done.out + done.err
    # The one that may fail is not told of if the run has ended before its host could.
    assert _said(done).count("left out: of its instances, 1 may fail") <= 1
    failed = [task for task in summary(tmp_path).values() if task["outcome"] == "failed"]
    assert len(failed) >= 2


@pytest.mark.nightly
@pytest.mark.timeout(2 * LIMIT)
@pytest.mark.parametrize("number", range(1000, 1000 + CASES // 2))
def test_programs_on_random_hosts_are_killed(tmp_path: Path, number: int) -> None:
    """Random workflows, tasks on one to as many hosts as there are tasks, one to three kills."""
    slots = random.Random(number).choices((1, 2, 3), k=9)
    hosts = ",".join(f"h{place}:{count}" for place, count in enumerate(slots))
    env = {**HOSTS, "WILKINS_HOSTS": hosts}
    every_step_reaches_every_reader(tmp_path, number, **env)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(5) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
@pytest.mark.timeout(900 + 60 * MOMENTS)
@pytest.mark.parametrize("number", range(5), ids=NAMES)
@pytest.mark.parametrize("policy", ["stop", "continue", "restart"])
def test_a_task_is_killed_at_a_random_moment(rig: Rig, tmp_path: Path, policy: str, number: int) -> None:
    """Each task on a host with processes and shared memory of its own."""

    @contextlib.contextmanager
    def clean(_: Path) -> Iterator[None]:
        yield
        until = time.monotonic() + 20
        while any(map(rig.running, rig.names)) and time.monotonic() < until:
            time.sleep(0.02)
        assert {host: (rig.running(host), rig.shared_memory(host)) for host in rig.names} == dict.fromkeys(
            rig.names, ({}, [])
        )

    hosts = ",".join(f"{host}:1" for host in rig.names)
    command = partial(rig.on, "node0", *WILKINS, "run", "--hosts", hosts)
    killed_at_random_moments(tmp_path, policy, number, lambda folder: command(folder=folder), clean)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_tasks_of_several_hosts_may_fail_and_come_after_others(tmp_path: Path) -> None:
    """They are members of an ensemble of which one is left out, and wait for their turn."""
    (tmp_path / "ranks.py").write_text(RANKS)
    write_program(tmp_path / "prepare.sh", "#!/bin/sh\nsleep 0.5\necho prepared > ready\n")
    workflow = (
        "  - {func: ./prepare.sh}\n"
        "  - {func: ranks.py, name: late, nprocs: 2, args: [-1], after: prepare}\n"
        '  - {func: ranks.py, name: member, nprocs: 2, taskCount: 2, args: ["{instance}"], min_instances: 1, '
        'outports: [{filename: "m{instance}-*.h5"}]}\n'
        '  - {func: sink.py, args: ["m*.h5"], inports: [{filename: "m*.h5"}]}\n'
        "  - {func: /bin/echo, args: [last], after: [late, member]}\n"
    )
    done = run(tmp_path, workflow, **{**HOSTS, "WILKINS_HOSTS": ",".join(f"h{k}:1" for k in range(9))})
    assert done.code == 0, done.out + done.err
    assert sorted(value for value in got(done) if value < 100) == sorted(2 * steps(4))
    assert sorted(re.findall(r"late +\| (\w+)", done.out)) == ["prepared", "prepared"]
    assert "echo" in done.out and "| last" in done.out
    assert "member[1]: left out: of its instances, 1 may fail" in _said(done)
    outcomes = {name: task["outcome"] for name, task in summary(tmp_path).items()}
    assert outcomes.pop("member[1]") == "failed"
    assert set(outcomes.values()) == {"done"}
