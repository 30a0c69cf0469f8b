"""A run over three hosts in which one thing fails at a random moment, and what has to hold after that."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from hosts.rig import Rig
from programs.build import build, parallel_c

from support import WILKINS, Tree, must_run, started_tree, write_program

HEAD = "node0"
"""Where `wilkins run` is called, whichever hosts have tasks."""

_STEPS = {"pair": 40, "fan-out": 40, "ranks": 15}
_ENDS_WITHIN = 60.0
"""Seconds from the fault to the end of all: 15 of silence, and what ending and cleaning take."""

Shape = Literal["pair", "fan-out", "ranks"]
"""Of the workflow: a channel between two hosts, one to two hosts, a task whose ranks are on two hosts."""

What = Literal["cut", "all", "keeper", "relay", "files", "head"]
"""What fails: a host's network, all its processes, its keeper, a relay, its server of files; or the run's head."""

_NAMED = {
    "all": "",
    "keeper": f"^{sys.executable} -m wilkins.launch.hosts.keeper",
    "relay": "/relay.py ",
    "files": "/far_files.py",
    "head": f"^{sys.executable} -m wilkins run ",
}
"""Who is killed, by command lines. The keeper dies together with the process that would clean up after it."""

_PROBE = re.compile(r"open_mpi\.[0-9]+$")
"""An empty file that Open MPI makes and removes as it starts: there if it was killed between the two."""

WRITE = """#!{python}
import sys, time
import h5py, numpy
for step in range({steps}):
    with h5py.File(f"out{{step:03d}}.h5", "w") as file:
        file["x"] = numpy.full(20000, float(step))
    time.sleep(0.05)
"""
READ = """#!{python}
import h5py
step = 0
while True:
    try:
        file = h5py.File(f"out{{step:03d}}.h5", "r")
    except FileNotFoundError:
        break
    with file:
        x = file["x"][:]
        assert (x.astype(int) // 1000 == step).all() if {ranks} else (x == step).all(), step
    step += 1
print("read", step, "steps", flush=True)
"""
_READER = '  - {{func: ./read.py, name: {}, placement: [{}], inports: [{{filename: "out*.h5"}}]}}\n'


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails, where, and when."""

    shape: Shape
    hosts: tuple[str, ...]
    """First that of the producer."""
    what: What
    host: str
    after: float
    """Seconds from the start. What is not there yet fails as soon as it is."""


def drawn(seed: int, lasts: Callable[[Shape], float]) -> Fault:
    """A fault, at random. `lasts`: how long runs take in which nothing fails."""
    draw = random.Random(seed)
    shape = draw.choice(get_args(Shape))
    hosts = draw.sample([f"node{number}" for number in range(3)], 2 if shape == "pair" else 3)
    what = draw.choice([what for what in get_args(What) if what != "files" or shape == "ranks"])
    served = hosts[:2] if what == "files" else hosts
    host = HEAD if what == "head" else draw.choice(served)
    return Fault(shape, tuple(hosts), what, host, draw.random() * lasts(shape))


def undisturbed(rig: Rig, folder: Path) -> Callable[[Shape], float]:
    """How long a run takes if nothing fails, by its shape; it gives all results then."""

    @cache
    def lasts(shape: Shape) -> float:
        fault = Fault(shape, ("node0", "node1", "node2")[: 2 if shape == "pair" else 3], "cut", HEAD, 0.0)
        write_workflow(folder / shape, fault)
        with started(rig, folder / shape, fault) as tree:
            finished = tree.wait(_ENDS_WITHIN)
        assert finished.code == 0, tree.told()
        assert_complete(folder / shape, fault)
        return finished.seconds

    return lasts


def write_workflow(folder: Path, fault: Fault) -> None:
    """Its programs and its file."""
    folder.mkdir(exist_ok=True)
    ranks = fault.shape == "ranks"
    write_program(folder / "write.py", WRITE.format(python=sys.executable, steps=_STEPS[fault.shape]))
    write_program(folder / "read.py", READ.format(python=sys.executable, ranks=ranks))
    first, *others = fault.hosts
    tasks = f'  - {{func: ./write.py, name: sim, placement: [{first}], outports: [{{filename: "out*.h5"}}]}}\n'
    if ranks:
        program = build("together.c", *parallel_c("openmpi", static=False))
        placed = f"nprocs: 4, placement: [{first}, {others[0]}]"
        tasks = f"  - {{func: {program}, name: sim, args: [write, {_STEPS[fault.shape]}, 5000, 50], {placed},\n"
        tasks += '      outports: [{filename: "out*.h5"}]}\n'
        others = others[1:]
    for number, host in enumerate(others):
        tasks += _READER.format(f"ana{number}", host)
    (folder / "workflow.yaml").write_text("tasks:\n" + tasks)


def trial(rig: Rig, folder: Path, fault: Fault) -> bool:
    """Let a run meet a fault, and see to it that all ends as it has to; False: the fault came too late."""
    write_workflow(folder, fault)
    with started(rig, folder, fault) as tree:
        time.sleep(fault.after)
        met = happen(rig, fault, tree)
        try:
            finished = tree.wait(_ENDS_WITHIN)
            assert_clean(rig, tree, fault)
        finally:
            if fault.what == "cut":
                rig.join(fault.host)
            for host in rig.names:  # what one trial leaves is not told of the next
                subprocess.run(rig.on(host, "find", "/dev/shm", "-mindepth", "1", "-delete"), check=True)
    print(f"{fault}: {'met' if met else 'too late'}, exit code {finished.code}\n{finished.err}")
    if finished.code == 0 or (not met and fault.what != "all"):
        assert finished.code == 0, tree.told()
        assert_complete(folder, fault)
    elif fault.what != "head" and (fault.what != "all" or fault.host != HEAD):
        assert_explained(finished.err, fault)
    return met


def assert_clean(rig: Rig, tree: Tree, fault: Fault) -> None:
    """No process runs on, and nothing is in shared memory."""
    until = time.monotonic() + _ENDS_WITHIN
    while any((running := {host: rig.running(host) for host in rig.names}).values()):
        assert time.monotonic() < until, f"run on: {running}\n{tree.told()}"
        time.sleep(0.02)
    if fault.what == "all" and fault.host == HEAD:  # nobody is left there
        must_run(tree.folder, *rig.on(HEAD, *WILKINS, "clean", folder=tree.folder))
    left = {host: [name for name in rig.shared_memory(host) if not _PROBE.match(name)] for host in rig.names}
    assert not any(left.values()), f"in shared memory: {left}\n{tree.told()}"


def assert_explained(said: str, fault: Fault) -> None:
    """The first words, up to the table, name the host that failed, or one that cannot be reached, and a task."""
    words = re.sub(r"/\S+", "", said.partition("\ntask ")[0])
    hosts = [fault.host]
    if fault.what == "cut" and fault.host == HEAD:
        hosts = [host for host in fault.hosts if host != HEAD]
    assert any(host in words for host in hosts), said
    assert re.search(r"\b(sim|ana[01])\b", words), said


def assert_complete(folder: Path, fault: Fault) -> None:
    """Every reader has read every step."""
    logs = sorted((folder / "wilkins-runs/latest").glob("ana*.log"))
    assert logs
    for log in logs:
        assert log.read_text().splitlines() == [f"read {_STEPS[fault.shape]} steps"], log


def started(rig: Rig, folder: Path, fault: Fault) -> contextlib.AbstractContextManager[Tree]:
    """The run."""
    hosts = ",".join(f"{host}:2" for host in fault.hosts)
    return started_tree(rig.on(HEAD, *WILKINS, "run", "--hosts", hosts, "workflow.yaml", folder=folder), folder)


def happen(rig: Rig, fault: Fault, tree: Tree) -> bool:
    """Let it fail, as soon as it is there; False: the run was over before."""
    if fault.what == "cut":
        rig.cut(fault.host)
        return True
    while tree.process.poll() is None:
        stopped: set[int] = set()
        while found := _found(rig, fault) - stopped:  # all at once, with what they are just starting
            _send(found, signal.SIGSTOP)
            stopped |= found
        _send(stopped, signal.SIGKILL)
        if stopped:
            tree.process.send_signal(signal.SIGCONT)  # stopped with the head, which is its child
            return True
        time.sleep(0.005)
    return False


def _found(rig: Rig, fault: Fault) -> set[int]:
    return {pid for pid, words in rig.running(fault.host).items() if re.search(_NAMED[fault.what], words)}


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
