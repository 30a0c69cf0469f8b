"""A run over three hosts in which one thing fails at a random moment, what has to hold after that, and its rest."""

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

from support.running import WILKINS, Tree, must_run, run_tree, started_tree, write_program

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
    "relay": r"/relay(_nursery)?\.py( |$)",
    "files": "/far_files.py",
    "head": f"^{sys.executable} -m wilkins run ",
}
"""Who is killed, by command lines. The keeper dies together with the process that would clean up after it."""

_PROBE = re.compile(r"open_mpi\.[0-9]+$")
"""An empty file that Open MPI makes and removes as it starts: there if it was killed between the two."""

WRITE = """#!{python}
import os, time
import h5py, numpy
step, u = 0, numpy.zeros(20000)
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        step, u = int(file.attrs["step"]), file["u"][:]
while step < {steps}:
    u = numpy.sin(u + step) + step
    with h5py.File(f"u{{step:04d}}.h5", "w") as file:
        file["u"] = u
    step += 1
    if step % 4 == 0:
        with h5py.File("state.h5", "w") as file:
            file["u"], file.attrs["step"] = u, step
    time.sleep(0.05)
"""
READ = """#!{python}
import json, os, sys
import h5py
name, step, total = sys.argv[1], 0, 0.0
if "WILKINS_RESTART" in os.environ:
    with open(os.environ["WILKINS_RESTART"]) as file:
        step, total = json.load(file)
while True:
    try:
        file = h5py.File(f"u{{step:04d}}.h5", "r")
    except FileNotFoundError:
        break
    with file:
        total = total * 0.9 + float(file["u"][:].sum())
    step += 1
    if step % 3 == 0:
        with open(f"{{name}}.json", "w") as file:
            json.dump([step, total], file)
with open(f"result-{{name}}.txt", "w") as file:
    print(step, total, file=file)
"""
_WRITER = '  - {{func: {}, name: sim, outports: [{{filename: "u*.h5"}}], {}}}\n'
_READER = (
    '  - {{func: ./read.py, name: {0}, args: [{0}], inports: [{{filename: "u*.h5"}}], restart: {{files: {0}.json}}}}\n'
)


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


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run in which nothing fails."""

    seconds: float
    results: dict[str, str]
    """What the readers have found, by file."""


def undisturbed(rig: Rig, folder: Path) -> Callable[[Shape], Undisturbed]:
    """The run in which nothing fails, by its shape."""

    @cache
    def found(shape: Shape) -> Undisturbed:
        fault = Fault(shape, ("node0", "node1", "node2")[: 2 if shape == "pair" else 3], "cut", HEAD, 0.0)
        write_workflow(folder / shape, fault)
        with started(rig, folder / shape, fault) as tree:
            finished = tree.wait(_ENDS_WITHIN)
        assert finished.code == 0, tree.told()
        there = results(folder / shape)
        assert len(there) == len(fault.hosts) - (2 if shape == "ranks" else 1)
        assert all(text.startswith(f"{_STEPS[shape]} ") for text in there.values())
        return Undisturbed(finished.seconds, there)

    return found


def results(folder: Path) -> dict[str, str]:
    """What the readers of a run and of those that it goes on with have found, by file."""
    return {path.name: path.read_text() for path in folder.glob("result-*.txt")}


def write_workflow(folder: Path, fault: Fault) -> None:
    """Its programs and its file."""
    folder.mkdir(exist_ok=True)
    write_program(folder / "write.py", WRITE.format(python=sys.executable, steps=_STEPS[fault.shape]))
    write_program(folder / "read.py", READ.format(python=sys.executable))
    tasks = _WRITER.format("./write.py", "restart: {files: state.h5}")
    if fault.shape == "ranks":
        program, args = build("restartable.c", *parallel_c("openmpi", static=False), "-lm"), [_STEPS["ranks"], 3, 50]
        again = f'restart: {{files: "chk*.h5", args: {[*args, "--from", "{file}"]}}}'
        tasks = _WRITER.format(program, f"nprocs: 4, args: {args}, {again}")
    for number in range(len(fault.hosts) - (2 if fault.shape == "ranks" else 1)):
        tasks += _READER.format(f"ana{number}")
    (folder / "workflow.yaml").write_text("tasks:\n" + tasks)


def trial(rig: Rig, folder: Path, fault: Fault, wanted: dict[str, str]) -> bool:
    """Let a run meet a fault, see to it that all ends as it has to, and go on; False: the fault came too late.

    Args:
        wanted: the results.
    """
    write_workflow(folder, fault)
    with started(rig, folder, fault) as tree:
        time.sleep(fault.after)
        met = happen(rig, fault, tree)
        try:
            finished = tree.wait(_ENDS_WITHIN)
            assert_clean(rig, tree, fault)
            if finished.code:
                assert_goes_on(rig, folder, fault)
        finally:
            if fault.what == "cut":
                rig.join(fault.host)
            for host in rig.names:  # what one trial leaves is not told of the next
                subprocess.run(rig.on(host, "find", "/dev/shm", "-mindepth", "1", "-delete"), check=True)
    print(f"{fault}: {'met' if met else 'too late'}, exit code {finished.code}\n{finished.err}")
    if finished.code == 0 or (not met and fault.what != "all"):
        assert finished.code == 0, tree.told()
    elif fault.what != "head" and (fault.what != "all" or fault.host != HEAD):
        assert_explained(finished.err, fault)
    assert results(folder) == wanted
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


def assert_goes_on(rig: Rig, folder: Path, fault: Fault) -> None:
    """The hosts that are left do the rest."""
    rest = [host for host in rig.names if host != fault.host or fault.what not in ("cut", "all")]
    there = (folder / "wilkins-runs/latest/plan.json").exists()
    what = ("--resume", "latest") if there else ("workflow.yaml",)
    hosts = ",".join(f"{host}:3" for host in rest)
    gone_on = run_tree(rig.on(rest[0], *WILKINS, "run", *what, "--hosts", hosts, folder=folder), _ENDS_WITHIN, folder)
    print(gone_on.out, gone_on.err)
    # A head may be killed when all is recorded, and it had only to end.
    assert gone_on.code == 0 or "the run has finished" in gone_on.err, gone_on.out + gone_on.err


def started(rig: Rig, folder: Path, fault: Fault) -> contextlib.AbstractContextManager[Tree]:
    """The run: each host has as much as fills it."""
    slots = [2 if fault.shape == "ranks" else 1] * len(fault.hosts)
    hosts = ",".join(f"{host}:{count}" for host, count in zip(fault.hosts, slots, strict=True))
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
