"""What is no stream: starting a workflow, calls on files that match no port, and the launcher while all wait."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wilkins.launch.programs.guard import VARIABLE

from .results import Results
from .running import BIN, SOURCES, finish, run, start, task, workflow

WILKINS, HAND, WITHOUT = "wilkins", "by hand", "without the layer"
IMPORTS = "the modules of others that a launcher imports"
START_C, START_H5PY, START_MANY = (
    "start to end, two tasks, C",
    "start to end, two tasks, h5py",
    "start to end, 256 tasks, C",
)
CALL_WRITE, CALL_READ = "H5Dwrite of 4 KiB, no port", "H5Dread of 4 KiB, no port"
LAUNCHER_CPU, LAUNCHER_BYTES, LAUNCHER_COUNT = "launcher, CPU s per s", "launcher, memory", "launcher, processes"
LAUNCHER_UNITS = {LAUNCHER_CPU: "s/s", LAUNCHER_BYTES: "B", LAUNCHER_COUNT: ""}


def _timed(commands: Sequence[Sequence[str]], folder: Path) -> float:
    begin = time.perf_counter()
    run(commands, folder)
    return time.perf_counter() - begin


def _pair(program: Sequence[str], layer: str) -> list[list[str]]:
    """A producer and a consumer of one step of 1 KiB."""
    sets = [] if program[-1].endswith(".py") else ["1"]
    return [[*program, role, layer, *sets, "1024", "sheet", "1", "0", "0"] for role in "wr"]


def _by_wilkins(program: Sequence[str], layer: str, count: int, folder: Path) -> float:
    ports = ({"outports": "step-*.h5"}, {"inports": "step-*.h5"})
    commands = _pair(program, layer)
    tasks = [task(name, words, port, taskCount=count) for name, words, port in zip("wr", commands, ports, strict=True)]
    return _timed([workflow(tasks, folder)], folder)


def _by_shell(program: Sequence[str], count: int, folder: Path) -> float:
    """One pair side by side; many pairs with each consumer after its producer, so that none polls."""
    writer, reader = map(shlex.join, _pair(program, "files"))
    many = f"for k in $(seq {count}); do (mkdir $k; cd $k; {writer}; {reader}) & done; wait"
    return _timed([["sh", "-c", f"{writer} & {reader} & wait" if count == 1 else many]], folder)


def _imports(folder: Path) -> float:
    """To the end of a Python program that imports what the launcher does of Python's and PyYAML before a program."""
    python = str(BIN / "python")
    lists = (
        "import sys, wilkins.cli, wilkins.launch.alone, wilkins.plan.planner, wilkins.plan.hosts\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] not in ('wilkins', '__main__')))"
    )
    modules = subprocess.run([python, "-c", lists], capture_output=True, text=True, check=True)
    words = f"import gc\ngc.set_threshold(50_000)\nimport {', '.join(modules.stdout.split())}\ngc.freeze()"
    return _timed([[python, "-c", words]], folder)


def start_turn(programs: Mapping[str, str], many: bool, results: Results) -> None:
    """Start each workflow once, and the same by hand; many: also the one of 256 tasks."""
    python = [str(BIN / "python"), str(SOURCES / "stream.py")]
    rows = [(START_H5PY, python, "h5py", 1)]
    if "stream" in programs:
        rows.append((START_C, [programs["stream"]], "layer", 1))
        if many:
            rows.append((START_MANY, [programs["stream"]], "layer", 128))
    for row, program, layer, count in rows:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            results.add(row, WILKINS, _by_wilkins(program, layer, count, Path(folder)))
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            results.add(row, HAND, _by_shell(program, count, Path(folder)))
        if row == START_C:
            with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                results.add(row, IMPORTS, _imports(Path(folder)))


def calls_turn(programs: Mapping[str, str], calls: int, results: Results) -> None:
    """Let a program make calls on a file that matches no port, as a task, and alone."""
    if "calls" not in programs:
        return
    command = [programs["calls"], str(calls)]
    for name in (WILKINS, WITHOUT):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            folder = Path(place)
            words = command if name == WITHOUT else workflow([task("calls", command, {})], folder)
            run([words], folder)
            log = folder / "log" if name == WITHOUT else folder / "wilkins-runs" / "latest" / "calls.log"
            for row, value in zip((CALL_WRITE, CALL_READ), json.loads(log.read_text()), strict=True):
                results.add(row, name, value)


def launcher_turn(programs: Mapping[str, str], seconds: float, results: Results) -> None:
    """Watch the launcher of a workflow whose producer sleeps and whose consumer waits."""
    if "stream" not in programs:
        return
    writer, reader = _pair([programs["stream"]], "layer")
    late = ["/bin/sh", "-c", f"sleep {seconds + 2}; exec {shlex.join(writer)}"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        tasks = [task("w", late, {"outports": "step-*.h5"}), task("r", reader, {"inports": "step-*.h5"})]
        log = folder / "log"
        process = start(workflow(tasks, folder), folder, log)
        time.sleep(1.5)
        own = [*_launchers(process.pid)]
        used, begin = sum(map(_cpu, own)), time.perf_counter()
        time.sleep(seconds)
        used, passed = sum(map(_cpu, own)) - used, time.perf_counter() - begin
        bytes_ = sum(map(_anonymous_bytes, own))
        finish([process], log)
    results.add(LAUNCHER_CPU, WILKINS, used / passed)
    results.add(LAUNCHER_BYTES, WILKINS, bytes_)
    results.add(LAUNCHER_COUNT, WILKINS, len(own))


def _launchers(pid: int) -> Iterator[Path]:
    """This process and those under it that are the launcher's: a task's processes carry a mark."""
    folder = Path(f"/proc/{pid}")
    if f"{VARIABLE}=".encode() in (folder / "environ").read_bytes():
        return
    yield folder
    for thread in (folder / "task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from _launchers(int(child))


def _cpu(process: Path) -> float:
    """Seconds of CPU that a process has used."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in (process / "task").iterdir()) / 1e9


def _anonymous_bytes(process: Path) -> int:
    """Memory that is in no file; what several processes share counts by its share in each."""
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))
