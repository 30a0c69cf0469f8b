"""A relay that carries no step takes no process, and ports end as they do where it has one."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.pseudo import HERE

from support.running import WILKINS, started_tree, wait_for, write_program
from wilkins.launch.programs import process
from wilkins.transport.relay_messages import OF_A_STEP, OF_ALL

pytestmark = [pytest.mark.timeout(120)]

WRITE = """#!{python}
import os, sys, time
from mpi4py import MPI
import h5py
rank = MPI.COMM_WORLD.rank
for step in range(4 * (rank == 0)):
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["x"] = step
while not os.path.exists("go"):
    time.sleep(0.02)
for step in range(int(sys.argv[1]) * rank):
    with h5py.File(f"late{{step}}.h5", "w") as file:
        file["x"] = step
"""
READ = """#!{python}
from wilkins.transport import steps
print("read", *sorted(steps.names()), flush=True)
"""
WORKFLOW = """
tasks:
  - {func: ./write.py, nprocs: 2, args: [LATE], outports: [{filename: "*.h5"}]}
  - {func: ./read.py, inports: [{filename: "*.h5"}]}
"""
RUN = [*WILKINS, "run", "--hosts", "a:1,b:1,c:1", "workflow.yaml"]


def halves(folder: Path) -> Counter[str]:
    """The halves of relays that run for a workflow."""
    found: Counter[str] = Counter()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if any(word.endswith(b"relay.py") for word in words) and (entry / "cwd").readlink() == folder:
                found[words[2].decode()] += 1
    return found


def ports_of(keeper: int) -> Iterator[int]:
    """The ports at which a keeper listens."""
    own = set()
    for descriptor in Path(f"/proc/{keeper}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(descriptor.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                yield int(words[1].rpartition(":")[2], 16)


@pytest.mark.usual("alone-used late", "a stranger comes-unused")
@pytest.mark.parametrize("late", [0, 3], ids=["unused", "used late"])
@pytest.mark.parametrize("stranger", [False, True], ids=["alone", "a stranger comes"])
def test_a_host_without_steps(tmp_path: Path, late: int, stranger: bool) -> None:
    """Its relay starts with the first step, and not for whoever connects; at the end there are no processes left."""
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(tmp_path / name, text.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text(WORKFLOW.replace("LATE", str(late)))
    with started_tree(RUN, tmp_path, {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self"}) as run:
        wait_for(lambda: halves(tmp_path) == {"send": 1, "receive": 1}, 60, "the relay of rank 0's host")
        if stranger:
            keepers = [pid for pid in process.descendants(run.process.pid) if b"hosts.keeper" in words_of(pid)]
            ports = [port for keeper in keepers for port in ports_of(keeper)]
            assert ports
            for port in ports:
                socket.create_connection((socket.gethostname(), port)).close()
            time.sleep(1)
            assert halves(tmp_path)["receive"] == 1
        (tmp_path / "go").touch()
        done = run.wait(60)
    assert done.code == 0, done.said
    named = [f"f{step}.h5" for step in range(4)] + [f"late{step}.h5" for step in range(late)]
    assert " ".join(["read", *named]) in done.out
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    messages = {one["writes"]: one["messages"] for one in summary["crossings"]}
    of_b = {"b": OF_A_STEP * late + OF_ALL} if late else {}
    assert messages == {"a": OF_A_STEP * 4 + OF_ALL, **of_b}
    assert halves(tmp_path) == {}


def words_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
