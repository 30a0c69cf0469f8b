"""Runs on several hosts that are killed and resumed, on other hosts, too: they give what an undisturbed run gives."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from programs.build import build, parallel_c
from restarts.test_resume import HALVED, WORKFLOW

from support.resuming import (
    HOSTS,
    SIMULATION,
    SUMS,
    check,
    command_of,
    kill_all,
    make,
    on,
    run,
    seeds,
    seen,
    trace,
)
from support.running import MPIEXEC, WILKINS, Tree, processes_in, run_tree, started_tree, wait_for, write_program

pytestmark = [pytest.mark.timeout(400)]

PAIR = WORKFLOW.format(pause=0.05)
TOLD = """
import json
import wilkins.transport
from wilkins.transport import points
point = points.chosen()
total, seen = json.loads(point.label) if point else (0.0, [])
for step in wilkins.transport.open("{pattern}"):
    total = total * 0.9 + float(step["u"].sum())
    seen.append(int(step.attrs["step"]))
    assert step.sequence == seen[-1]
    step.release()
    if len(seen) % {every} == 0:
        points.tell(json.dumps([total, seen]), {counts})
with open("result-{name}.txt", "w") as file:
    file.write(f"{{total!r}} {{seen}}")
"""
READERS = """
tasks:
  - func: simulation.py
    args: ["32", "0.05"]
    outports: [{filename: "u.h5"}]
    restart: {files: state.h5}
  - func: halved.py
    inports: [{filename: "u.h5", io_freq: 2}]
    outports: [{filename: "v.h5"}]
    restart: each-step
  - func: all.py
    inports: [{filename: "u.h5"}]
    restart: points
  - func: third.py
    inports: [{filename: "u.h5", io_freq: 3}]
    restart: points
  - func: halves.py
    inports: [{filename: "v.h5"}]
    restart: points
"""


@pytest.mark.nightly
@seeds
def test_readers_of_one_stream_that_are_not_alike(tmp_path: Path, seed: int) -> None:
    """Some of them on one host, which have come to other steps, and take others; some count what they have opened."""
    told = "consumed={{'{0}': step.sequence + 1}}"
    places = on("a:1,b:4", "a:2,b:3", "a:1,b:2,c:2", "c:5", "")
    check(
        tmp_path,
        seed,
        60,
        READERS,
        victims=("everything", "the launcher", "simulation.py"),
        places=places,
        simulation=SIMULATION.replace('f"u{step:04d}.h5"', '"u.h5"'),
        halved=HALVED,
        all=TOLD.format(pattern="u.h5", every=5, counts=told.format("u.h5"), name="all"),
        third=TOLD.format(pattern="u.h5", every=2, counts=told.format("u.h5"), name="third"),
        halves=TOLD.format(pattern="v.h5", every=3, counts="opened={'v.h5': len(seen)}", name="halves"),
    )


OWN_FILES = """
import time
import h5py
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for step in range(20):
    with h5py.File(f"p{rank}-{step:04d}.h5", "w") as file:
        file["x"] = [100.0 * rank + step] * 10
    time.sleep(0.03 * (1 + rank))
"""
BY_NAME = """
import json, os
import wilkins.transport
seen = {}
if "WILKINS_RESTART" in os.environ:
    with open(os.environ["WILKINS_RESTART"]) as file:
        seen = json.load(file)
for step in wilkins.transport.open("p*.h5"):
    assert step.filename not in seen, step.filename
    seen[step.filename] = float(step["x"][0])
    step.release()
    if len(seen) % 4 == 0:
        with open("seen.json", "w") as file:
            json.dump(seen, file)
with open("result.txt", "w") as file:
    json.dump(seen, file, sort_keys=True)
"""
TOGETHER = """
import json, os
import h5py
from mpi4py import MPI
world = MPI.COMM_WORLD
step, total = 0, 0.0
if "WILKINS_RESTART" in os.environ:
    with open(os.environ["WILKINS_RESTART"]) as file:
        step, total = json.load(file)
while True:
    try:
        file = h5py.File(f"u{step:04d}.h5")
    except FileNotFoundError:
        break
    with file:
        total = total * 0.9 + world.allreduce(float(file["u"][world.rank :: world.size].sum()))
    step += 1
    if step % 3 == 0 and world.rank == 0:
        with open("together.json", "w") as file:
            json.dump([step, total], file)
    world.barrier()
if world.rank == 0:
    with open("result-together.txt", "w") as file:
        print(step, total, file=file)
"""
RANKS = """
tasks:
  - func: simulation.py
    args: ["24", "0.05"]
    outports: [{filename: "u*.h5"}]
    restart: {files: state.h5}
  - func: together.py
    nprocs: 2
    inports: [{filename: "u*.h5"}]
    restart: {files: together.json}
  - func: own_files.py
    nprocs: 2
    outports: [{filename: "p*.h5"}]
  - func: by_name.py
    inports: [{filename: "p*.h5"}]
    restart: {files: seen.json}
"""


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@seeds
def test_tasks_whose_ranks_are_on_two_hosts(tmp_path: Path, seed: int) -> None:
    """Ranks that read the same steps, one of which saves a state; and ranks whose own files one reader has in part."""
    victims = ("everything", "the launcher", "together.py", "own_files.py")
    places = on("a:2,b:2,c:2", "a:1,b:4,c:1", "b:3,a:3", "c:6")
    check(
        tmp_path,
        seed,
        40,
        RANKS,
        victims=victims,
        places=places,
        simulation=SIMULATION,
        together=TOGETHER,
        own_files=OWN_FILES,
        by_name=BY_NAME,
    )


def killed(folder: Path, step: int, hosts: str) -> None:
    """Everything is killed when there is a step."""
    with started_tree([*WILKINS, "run", "--hosts", hosts, "workflow.yaml"], folder, HOSTS):
        wait_for(lambda: f"\topen\tsums\t0\tu*.h5\tu{step:04d}.h5" in trace(folder), 60, "steps")
        kill_all(folder)


def test_a_host_that_a_task_asks_for_is_not_there(tmp_path: Path) -> None:
    """It gets another place, as an option says, or the run is refused; of no other key an option may be given."""
    placed = PAIR.replace("restart: {files: sums.h5}", "restart: {files: sums.h5}\n    placement: [b]")
    make(tmp_path, placed, simulation=SIMULATION, sums=SUMS)
    killed(tmp_path, 8, "a:1,b:1")
    refused = run(tmp_path, "--resume", "latest", "--hosts", "a:1,c:1")
    assert refused.code == 3
    assert "task 'sums': 'placement' names the host 'b', which is not there; take other hosts" in refused.err
    assert "or another place for the task: --set sums.placement=together" in refused.err
    for option, said in (
        ("sums.placement=[1", "--set sums.placement=[1"),
        ("sums.nprocs=2", "of a run that is gone on with, only the placement can be set: TASK.placement=..."),
        ("sum.placement=[c]", "the run has no task 'sum'; did you mean 'sums'?"),
    ):
        refused = run(tmp_path, "--resume", "latest", "--hosts", "a:1,c:1", "--set", option)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    done = run(tmp_path, "--resume", "latest", "--hosts", "a:1,c:1", "--set", "sums.placement=[c]")
    assert done.code == 0, done.err
    assert re.search(r"^simulation -> sums +u\*\.h5 +a -> c ", done.err, re.MULTILINE), done.err
    assert seen(tmp_path) == list(range(30))


@pytest.mark.nightly
def test_the_hosts_of_the_run_are_taken_if_no_others_are_named(tmp_path: Path) -> None:
    make(tmp_path, PAIR, simulation=SIMULATION, sums=SUMS)
    killed(tmp_path, 8, "a:1,b:1")
    done = run(tmp_path, "--resume", "latest")
    assert done.code == 0, done.err
    assert re.search(r"^simulation +/\S+/state.h5 ", done.out, re.MULTILINE), done.out
    assert re.search(r"^simulation -> sums +u\*\.h5 +a -> b ", done.err, re.MULTILINE), done.err
    assert seen(tmp_path) == list(range(30))
    assert not list(tmp_path.glob("wilkins-runs/*/hosts/*/kept"))


@pytest.mark.nightly
def test_a_host_that_goes_on_alone_is_waited_for(tmp_path: Path) -> None:
    """The head is killed, and a keeper stands still, which may still end what its programs do."""
    make(tmp_path, PAIR.replace("0.05", "0.3"), simulation=SIMULATION, sums=SUMS)
    with started_tree([*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"], tmp_path, HOSTS) as tree:
        wait_for(lambda: "\tu0004.h5" in trace(tmp_path), 60, "steps")
        keeper = keepers(tree)[0]
        os.kill(keeper, signal.SIGSTOP)
        tree.process.kill()
        with started_tree([*WILKINS, "run", "--resume", "latest"], tmp_path, HOSTS) as resumed:
            wait_for(lambda: len(keepers(tree)) == 2, 30, "the end of the other keeper, and of what watches over it")
            assert "goes on with" not in resumed.told()
            os.kill(keeper, signal.SIGCONT)
            done = resumed.wait(60)
    assert done.code == 0, done.err
    assert seen(tmp_path) == list(range(30))


def test_what_the_hosts_that_are_left_have_no_room_for_is_said(tmp_path: Path) -> None:
    make(tmp_path, PAIR.replace("0.05", "0.3"), simulation=SIMULATION, sums=SUMS)
    with started_tree([*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"], tmp_path, HOSTS) as tree:
        wait_for(lambda: "\tu0004.h5" in trace(tmp_path), 60, "steps")
        os.kill(keepers(tree)[0], signal.SIGKILL)
        done = tree.wait(60)
    assert done.code == 1
    assert re.search(r"--hosts ([ab]):1 \1 has 1 slot, and 2 ranks are left: add other hosts$", done.said)


def keepers(tree: Tree) -> list[int]:
    return [pid for pid in processes_in(tree.folder) if "hosts.keeper" in command_of(pid)]


READS_AND_DIES = """#!{python}
import os, subprocess, sys, time
import h5py
step = 0
if "WILKINS_RESTART" in os.environ:
    step = int(open(os.environ["WILKINS_RESTART"]).read())
while True:
    try:
        with h5py.File(f"u{{step:04d}}.h5") as file:
            assert len(file) > 0
    except FileNotFoundError:
        break
    step += 1
    with open("step.txt.part", "w") as file:
        file.write(str(step))
    os.rename("step.txt.part", "step.txt")
    if step == 6 and not os.path.exists("died"):
        open("died", "w").close()
        while subprocess.run(["pgrep", "-f", "^{writer} "], stdout=subprocess.DEVNULL).returncode == 0:
            time.sleep(0.1)
        time.sleep(0.5)
        sys.exit(3)
print("read", step)
"""


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")
def test_ranks_on_several_hosts_that_have_nothing_left_to_do(tmp_path: Path) -> None:
    """They had ended when another failed, and are not started again; what they have done is in both summaries."""
    program = build("restartable.c", *parallel_c("openmpi", static=False), "-lm")
    write_program(tmp_path / "reads.py", READS_AND_DIES.format(python=sys.executable, writer=program))
    args = [6, 3, 1]
    again = f'restart: {{files: "chk*.h5", args: {[*args, "--from", "{file}"]}}}'
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {program}, name: sim, nprocs: 2, args: {args}, outports: [{{filename: "u*.h5"}}], {again}}}
  - {{func: ./reads.py, inports: [{{filename: "u*.h5"}}], restart: {{files: step.txt}}}}
""")
    hosts = [*WILKINS, "run", "--hosts", "a:1,b:1,c:1"]
    first = run_tree(hosts, 120, tmp_path, HOSTS)
    assert (first.code, "reads: failed: exit code 3" in first.err) == (1, True), first.out + first.err
    done = run_tree([*WILKINS, "run", "--resume", "latest"], 120, tmp_path, HOSTS)
    assert done.code == 0, done.out + done.err
    assert re.search(r"^sim +2 +1 +done +8 ", first.err, re.MULTILINE), first.err
    assert "ranks are left" not in first.err
    assert re.search(r"^sim +nothing: it has ended", done.out, re.MULTILINE), done.out
    assert "read 6" in done.out
