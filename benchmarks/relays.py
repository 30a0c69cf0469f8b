"""What a task on many hosts costs that writes for one on many others: a real run, in which all hosts are this machine.

Each rank has a host of its own. A host's keeper, programs and relays are real; so is what it takes to begin.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins.launch.programs import process

_WRITE = """#!{python}
import sys, time
from pathlib import Path
from mpi4py import MPI
import h5py
rank = MPI.COMM_WORLD.rank
Path(f"began-w{{rank}}").touch()
for step in range(3):
    if sys.argv[1] == "all" or rank == 0:
        with h5py.File(f"f{{step}}-{{rank}}.h5", "w") as file:
            file["x"] = [step, rank]
Path(f"wrote-{{rank}}").touch()
while not Path("go").exists():
    time.sleep(0.1)
"""
_READ = """#!{python}
from pathlib import Path
from mpi4py import MPI
from wilkins.transport import steps
Path(f"began-r{{MPI.COMM_WORLD.rank}}").touch()
assert len(list(steps.names())) == {steps}
"""
_WORKFLOW = """tasks:
  - {{func: ./write.py, args: [{who}], nprocs: {count}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./read.py, nprocs: {count}, inports: [{{filename: "f*.h5"}}]}}
"""
_HERE = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec sh -c "$*"
"""
_WITHIN = 300.0
_SETTLES = 5.0
"""Seconds in which relays start that are to start."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run costs each of its hosts."""

    relays: float
    """Halves of relays."""
    relays_bytes: float
    """Their memory, with that of the process of which they are forks; what is shared counts once."""
    keeper_bytes: float
    began_s: float
    """Seconds until all programs had begun."""
    cpu_s: float
    """Seconds of processors that halves of relays and keepers of all hosts had taken when all steps were written."""
    end_s: float
    """Seconds from the end of the writer's program to that of the run."""


def measure(folder: Path, count: int, who: str) -> Cost:
    """A run with a writer on so many hosts, and a reader on as many others. `who`: of the ranks writes, all or lead.

    Raises:
        RuntimeError: it failed.
    """
    steps = 3 * (count if who == "all" else 1)
    for name, text in (("write.py", _WRITE), ("read.py", _READ)):
        (folder / name).write_text(text.format(python=sys.executable, steps=steps))
        (folder / name).chmod(0o755)
    (folder / "here").write_text(_HERE)
    (folder / "here").chmod(0o755)
    (folder / "workflow.yaml").write_text(_WORKFLOW.format(who=who, count=count))
    hosts = ",".join(f"h{number}:1" for number in range(2 * count))
    words = [sys.executable, "-m", "wilkins", "run", "--quiet", "--hosts", hosts, "workflow.yaml"]
    began = time.monotonic()
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "WILKINS_RSH": str(folder / "here")},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        _await(folder, run, "began-*", 2 * count)
        began_s = time.monotonic() - began
        _await(folder, run, "wrote-*", count)
        time.sleep(_SETTLES)
        found = list(_processes(run.pid))
        (folder / "go").touch()
        ends = time.monotonic()
        if run.wait(_WITHIN):
            raise RuntimeError((folder / "said").read_text())
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    keepers = [one for one in found if one.what == "keeper"]
    return Cost(
        sum(one.what == "relay" for one in found) / (2 * count),
        sum(one.bytes for one in found if one.what != "keeper") / (2 * count),
        sum(one.bytes for one in keepers) / len(keepers),
        began_s,
        sum(one.cpu_s for one in found),
        time.monotonic() - ends,
    )


def _await(folder: Path, run: subprocess.Popen[bytes], pattern: str, count: int) -> None:
    until = time.monotonic() + _WITHIN
    while len(list(folder.glob(pattern))) < count:
        if run.poll() is not None or time.monotonic() > until:
            raise RuntimeError((folder / "said").read_text())
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class _Process:
    what: str
    bytes: int
    cpu_s: float


def _processes(head: int) -> Iterator[_Process]:
    """Keepers, halves of relays, and processes of which such are forks."""
    for pid in process.descendants(head):
        with contextlib.suppress(OSError):
            entry = Path(f"/proc/{pid}")
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            kinds = {r"relay\.py (send|receive) ": "relay", "/relay_nursery.py ": "nursery", "hosts.keeper ": "keeper"}
            what = next((kind for pattern, kind in kinds.items() if re.search(pattern, words)), "")
            if what == "nursery" and (entry / "comm").read_text() == "wilkins-relay\n":
                what = "relay"
            memory = re.search(r"^Pss: +(\d+)", (entry / "smaps_rollup").read_text(), re.MULTILINE)
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if what and memory:
                cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                yield _Process(what, int(memory[1]) * 1024, cpu)


def main(arguments: Sequence[str]) -> None:
    """A line for each number of hosts, and each way of writing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks relays", description=__doc__)
    parser.add_argument("hosts", type=int, nargs="*", default=[4, 8])
    options = parser.parse_args(arguments)
    print("hosts  writes  halves a host  their MB  keeper, MB  begun, s  CPU, s  end, s")
    for count in options.hosts:
        for who in ("lead", "all"):
            with tempfile.TemporaryDirectory() as folder:
                cost = measure(Path(folder), count, who)
            print(
                f"{count:5}  {who:>6}  {cost.relays:13.1f}  {cost.relays_bytes / 1e6:8.1f}  "
                f"{cost.keeper_bytes / 1e6:10.1f}  {cost.began_s:8.1f}  {cost.cpu_s:6.1f}  {cost.end_s:6.1f}",
                flush=True,
            )
