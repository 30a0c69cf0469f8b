"""What very many hosts cost the launcher that directs a run: a real one, and keepers that only say what keepers say.

Half of the hosts have a producer with a rank on each core, the other half its reader. No program is started.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import selectors
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wilkins.flow.placement import Host as Slots
from wilkins.launch.hosts import head
from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.host import Host
from wilkins.launch.hosts.messages import Addresses, Beat, Ready, Setup, StopRun
from wilkins.launch.hosts.status import Echo, HostResult, PartEnded, Status
from wilkins.launch.options import RunOptions
from wilkins.plan import planfile
from wilkins.plan.graph import wire
from wilkins.plan.placing import placed
from wilkins.plan.plan import Plan
from wilkins.plan.planner import make_plan
from wilkins.plan.split import HostPart, host_parts
from wilkins.spec.load import load

CORES = 100
PAIRS = """tasks:
  - {{func: ./sim.py, nprocs: {cores}, taskCount: {half}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./ana.py, nprocs: {cores}, taskCount: {half}, inports: [{{filename: "f*.h5"}}]}}
"""
GROUP = 250
"""Keepers that one process stands for."""
_CARRIED = struct.Struct("=120x QQ")
"""Of ``struct tcp_info``: bytes sent that were acknowledged, and bytes received."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What so many hosts cost."""

    plan_s: float
    """CPU seconds in which the head plans,"""
    part_s: float
    """and each host finds its part of the plan."""
    plan_bytes: int
    begun_s: float
    """Seconds from the head's start until the last host could begin."""
    begun_bytes: int
    """Bytes that had crossed by then, to and from all hosts,"""
    later_bytes: float
    """and that cross each second for each host later."""
    core: float
    """The part of a core that the head takes then."""
    memory_bytes: int
    descriptors: int
    end_s: float
    """Seconds from a signal to the end of the run."""


def _planned(folder: Path, hosts: int) -> Plan:
    for name in ("sim.py", "ana.py"):
        (folder / name).touch(mode=0o755)
    file = folder / "workflow.yaml"
    file.write_text(PAIRS.format(cores=CORES, half=hosts // 2))
    document = load(file, [])
    return placed(
        make_plan(document, wire(document)), document, [Slots(f"n{number}", CORES) for number in range(hosts)]
    )


def _keep(ends: Sequence[tuple[socket.socket, HostPart]], told: int) -> None:
    """Be the keepers of some hosts: each sets up its part, says once a second that it goes on, and ends when told."""
    selector = selectors.DefaultSelector()
    for end, part in ends:
        selector.register(end, selectors.EVENT_READ, (Control(end.fileno(), end.fileno(), waits=True), part))
    waiting, next_sign = len(ends), time.monotonic() + 1
    while selector.get_map():
        for key, _ in selector.select(max(0.0, next_sign - time.monotonic())):
            control, part = key.data
            messages = control.received()
            if messages is None:
                selector.unregister(key.fileobj)
            for message in messages or ():
                _answer(control, part, message)
                if isinstance(message, Addresses):
                    waiting -= 1
                    if waiting == 0:
                        os.write(told, struct.pack("=dQ", time.monotonic(), _carried([end for end, _ in ends])))
        if time.monotonic() >= next_sign:
            next_sign += 1
            for key in selector.get_map().values():
                with contextlib.suppress(OSError):
                    key.data[0].send(Status(steps=(1,)))


def _carried(ends: Sequence[socket.socket]) -> int:
    return sum(sum(_CARRIED.unpack_from(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256))) for end in ends)


def _answer(control: Control, part: HostPart, message: Message) -> None:
    match message:
        case Setup():
            control.send(Ready({f"host {part.host}": "10.100.200.201:40000"}))
        case Beat(said):
            now = time.monotonic_ns()
            control.send(Status(steps=(1,), echo=Echo(said, now, now)))
        case StopRun(code):
            control.send(PartEnded(HostResult(code, None)))


class _Head(head.Head):
    """Its keepers have connected already."""

    def __init__(self, ends: Mapping[int, socket.socket], *rest: Any) -> None:
        self._ends = ends
        super().__init__(*rest)

    def start(self, part: HostPart) -> Host:
        end, name = self._ends[part.host].fileno(), self.plan.hosts[part.host].name
        (self.records.path / "hosts" / f"{name}.log").touch()
        return Host(part, name, name, None, Control(end, end, waits=False), time.monotonic())


def _direct(folder: Path, plan: Plan, ends: Mapping[int, socket.socket]) -> None:
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    head.run(plan, RunOptions(run_dir=folder / "run"), partial(_Head, ends))


def measure(folder: Path, hosts: int, seconds: float) -> Cost:
    """Direct so many hosts; while all work, watch the head for so many seconds."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    began = time.process_time()
    plan = _planned(folder, hosts)
    parts = host_parts(plan)
    plan_s = time.process_time() - began
    text = planfile.dumps(plan)
    began = time.process_time()
    host_parts(planfile.loads(text))
    part_s = time.process_time() - began
    told, tells = os.pipe()
    ours: dict[int, socket.socket] = {}
    children = []
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        for first in range(0, hosts, GROUP):
            theirs = []
            for part in parts[first : first + GROUP]:
                theirs.append((socket.create_connection(listener.getsockname()), part))
                ours[part.host], _ = listener.accept()
            children.append(_forked(_keep, theirs, tells, closes=ours.values()))
            for end, _ in theirs:
                end.close()
    began = time.monotonic()
    directing = _forked(_direct, folder, plan, ours)
    begun = [struct.unpack("=dQ", os.read(told, 16)) for _ in children]
    before, carried = _cpu(directing), _carried(list(ours.values()))
    time.sleep(seconds)
    core, carried = (_cpu(directing) - before) / seconds, _carried(list(ours.values())) - carried
    process = Path(f"/proc/{directing}")
    memory = next(line for line in (process / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    descriptors = len(list((process / "fd").iterdir()))
    for end in ours.values():
        end.close()
    ends = time.monotonic()
    os.kill(directing, signal.SIGTERM)
    for child in (directing, *children):
        os.waitpid(child, 0)
    end_s = time.monotonic() - ends
    os.close(told)
    os.close(tells)
    return Cost(
        plan_s,
        part_s,
        len(text),
        max(when for when, _ in begun) - began,
        sum(bytes_ for _, bytes_ in begun),
        carried / seconds / hosts,
        core,
        int(memory.split()[1]) * 1024,
        descriptors,
        end_s,
    )


def _forked(does: Any, *arguments: Any, closes: Any = ()) -> int:
    """A child process that does something, and ends."""
    if (child := os.fork()) == 0:
        try:
            for end in closes:
                end.close()
            does(*arguments)
        finally:
            os._exit(0)
    return child


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str]) -> None:
    """A line for each number of hosts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks many-hosts", description=__doc__)
    parser.add_argument("hosts", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    print("hosts  plan, s  a part, s  plan, MB  begun, s  for each, kB  later, B/s  core, %  memory, MB  files  end, s")
    for hosts in options.hosts:
        with tempfile.TemporaryDirectory() as folder:
            cost = measure(Path(folder), hosts, options.seconds)
        print(
            f"{hosts:5}  {cost.plan_s:7.2f}  {cost.part_s:9.2f}  {cost.plan_bytes / 1e6:8.2f}  {cost.begun_s:8.2f}  "
            f"{cost.begun_bytes / hosts / 1e3:12.2f}  {cost.later_bytes:10.0f}  {100 * cost.core:7.1f}  "
            f"{cost.memory_bytes / 1e6:10.1f}  {cost.descriptors:5}  {cost.end_s:6.1f}",
            flush=True,
        )
