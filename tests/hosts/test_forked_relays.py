"""Where a host has many relays, their halves are forks of one process: each fails, and is ended, by itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.pseudo import HERE

from support.running import WILKINS, processes_in, run_tree, started_tree, wait_for, write_program
from wilkins.launch.hosts import nursery
from wilkins.launch.hosts.nursery import FEW, Nursery
from wilkins.launch.programs import process
from wilkins.transport import relay_nursery

pytestmark = [pytest.mark.timeout(120)]

WRITERS = FEW + 2
WORKFLOW = f"""
tasks:
  - func: ./write.py
    taskCount: {WRITERS}
    args: ["f{{instance}}-{{}}.h5", 20, 80000, 0.2]
    outports: [{{filename: "f*.h5"}}]
  - {{func: ./read.py, args: [0], inports: [{{filename: "f*.h5"}}]}}
"""
RUN = [*WILKINS, "run", "--hosts", ",".join(f"h{number}:1" for number in range(WRITERS + 1)), "workflow.yaml"]


def forked(folder: Path) -> dict[str, list[int]]:
    """The process of which halves are forks, and these; by their names for the kernel."""
    found: dict[str, list[int]] = {"python": [], "wilkins-relay": []}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if any(word.endswith(b"relay_nursery.py") for word in words) and (entry / "cwd").readlink() == folder:
                name = (entry / "comm").read_text().strip()
                found["wilkins-relay" if name == "wilkins-relay" else "python"].append(int(entry.name))
    return found


def parent_and_session(pid: int) -> tuple[int, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), int(fields[3])


@pytest.mark.usual("nursery", "half")
@pytest.mark.parametrize("killed", ["nobody", "nursery", "half", "keeper"])
def test_one_is_killed(tmp_path: Path, killed: str) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    with started_tree(RUN, tmp_path, {"WILKINS_RSH": str(HERE)}) as run:
        wait_for(lambda: len(forked(tmp_path)["wilkins-relay"]) == WRITERS - FEW, 60, "the halves of the reader's host")
        there = forked(tmp_path)
        half = there["wilkins-relay"][0]
        keeper, session = parent_and_session(half)
        assert b"hosts.keeper" in Path(f"/proc/{keeper}/cmdline").read_bytes()
        assert session == half, "its own"
        (of_halves,) = (pid for pid in there["python"] if parent_and_session(pid)[0] == keeper)
        boards = {process.environment(pid).get("WILKINS_RUN", "") for pid in process.descendants(run.process.pid)} - {
            ""
        }
        if killed != "nobody":
            os.kill({"nursery": of_halves, "half": half, "keeper": keeper}[killed], signal.SIGKILL)
        done = run.wait(60)
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert (done.code == 0) == (killed in ("nobody", "nursery")), done.said
    if killed == "half":
        assert re.search(r"the relay that brings the steps of write.* for read .*killed by SIGKILL", done.err), done.err
    assert boards and not any(Path(board).exists() for board in boards)


SLOW = """
import os, time
from pathlib import Path
from wilkins.transport import relay_nursery
leave = relay_nursery._leave
def slowly(keeper):
    leave(keeper)
    Path("half").write_text(str(os.getpid()))
    until = time.monotonic() + 30  # it does not outlive a test that fails
    while not Path("go").exists() and time.monotonic() < until:
        time.sleep(0.02)
relay_nursery._leave = slowly
relay_nursery.relay.main = lambda args: Path("worked").touch()
relay_nursery.main()
"""
"""A process of which halves say only later that they are there."""


@pytest.mark.parametrize("stands", ["process", "half"])
def test_one_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands: str) -> None:
    """The half is to be started by itself, then; it is not there twice, and nothing is left of what it inherits."""
    monkeypatch.setattr(nursery, "_ANSWERS_WITHIN", 0.5 if stands == "process" else 4.0)
    monkeypatch.chdir(tmp_path)
    process.adopt_orphans()  # as keepers do
    (tmp_path / "slow.py").write_text(SLOW)
    if stands == "half":
        monkeypatch.setattr(relay_nursery, "__file__", str(tmp_path / "slow.py"))
    halves = Nursery(os.environ)
    halves._wire = halves._started()
    if stands == "process":
        os.kill(halves._pid, signal.SIGSTOP)
    reads, writes = os.pipe()
    assert halves.start(["send"], {}, tmp_path, [writes]) is None
    os.close(writes)
    assert os.waitpid(halves._pid, 0)[1] == signal.SIGKILL
    assert halves.start(["send"], {}, tmp_path, []) is None
    if stands == "half":
        half = int((tmp_path / "half").read_text())
        (tmp_path / "go").touch()
        assert os.waitstatus_to_exitcode(os.waitpid(half, 0)[1]) == 1
    process.adopt_orphans(False)
    assert os.read(reads, 1) == b"", "nobody has the other end"
    os.close(reads)
    assert not (tmp_path / "worked").exists()


PORTS = 40


@pytest.mark.nightly
def test_a_host_with_more_relays_than_it_may_have_files_open(tmp_path: Path) -> None:
    """If it may have as many when it asks; its programs may not."""
    write_program(
        tmp_path / "write.py",
        f"""#!{sys.executable}
import resource
for port in range({PORTS}):
    open(f"f{{port}}.raw", "w").write(str(port))
print("may open", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
""",
    )
    write_program(
        tmp_path / "read.py",
        f"""#!{sys.executable}
import resource
for port in range({PORTS}):
    assert open(f"f{{port}}.raw").read() == str(port)
print("may open", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
""",
    )
    ports = ", ".join(f"{{filename: f{port}.raw}}" for port in range(PORTS))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: ./write.py, outports: [{ports}]}}
  - {{func: ./read.py, inports: [{ports}]}}
""")
    words = ["sh", "-c", 'ulimit -Sn 100; exec "$@"', "sh", *WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"]
    done = run_tree(words, 90, tmp_path, {"WILKINS_RSH": str(HERE)})
    assert done.code == 0, done.err
    assert done.out.count("may open 100") == 2
