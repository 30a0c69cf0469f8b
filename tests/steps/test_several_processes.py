"""Several processes of a task: they make a file together, fork while others read, and remove what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, run_tree

MODES = ("memory", "both", "file")

BEGIN = """
import multiprocessing, os, sys, threading, time
fork = multiprocessing.get_context("fork")
def together(work, *words):
    ones = [fork.Process(target=work, args=(*words, r)) for r in range(4)]
    for one in ones: one.start()
    for one in ones: one.join()
"""
"""What the programs share."""

# The queue is full: who makes a file waits for room, and the others come meanwhile.
MADE_BY_ONE = """
def work(k, won, r):
    try:
        fd = os.open(f"plt{k}.dat", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return
    won.put(r)
    os.write(fd, b"x" * 5000)
    time.sleep(0.05)
    os.close(fd)
for k in range(6):
    won = fork.SimpleQueue()
    together(work, k, won)
    won.get()
    if not won.empty():
        sys.exit(f"plt{k}.dat was made by several processes")
"""

# The one that turned to it last is done first; the one that began it does not wait for the others. (They are forked
# before, so that no one has the descriptor of another.)
CLOSED_IN_ANY_ORDER = """
def child(name, r, begin, begun, go):
    begin.acquire()
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
    os.pwrite(fd, b"%d" % r * 5000, r * 5000)
    begun.release()
    go.acquire()
    os.pwrite(fd, b"%d" % r * 5000, r * 5000)
    os.close(fd)
for k in range(6):
    name = f"plt{k}.dat"
    ones = []
    for r in 1, 2, 3:
        turns = [fork.Semaphore(0) for _ in range(3)]
        ones.append((fork.Process(target=child, args=(name, r, *turns)), *turns))
        ones[-1][0].start()
    fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
    os.pwrite(fd, b"0" * 5000, 0)
    for one, begin, begun, go in ones:
        begin.release()
        begun.acquire()
    os.close(fd)
    for one, begin, begun, go in reversed(ones):
        go.release()
        one.join()
        time.sleep(0.02)
"""

PARTS = """
time.sleep(0.5)
for k in range(6):
    with open(f"plt{k}.dat") as file:
        text = file.read()
    print(k, len(text), "".join(text[at] for at in range(0, len(text), 5000)))
    time.sleep(0.05)
"""

# All come at once, and nobody knows who begins the file.
OPENED_AT_ONCE = """
def work(k, ready, r):
    ready.wait()
    fd = os.open(f"plt{k}.dat", os.O_CREAT | os.O_WRONLY, 0o644)
    os.pwrite(fd, b"%d" % r * SIZE, r * SIZE)
    ready.wait()
    os.close(fd)
for k in range(20):
    together(work, k, fork.Barrier(4))
"""

REMOVED = """
for k in range(6):
    file = open(f"plt{k}.dat", "w")
    file.write("draft" * 1000)
    file.flush()
    os.remove(f"plt{k}.dat")
    if os.path.exists(f"plt{k}.dat"):
        sys.exit("it is there yet")
    file.close()
    if os.path.exists(f"plt{k}.dat"):
        sys.exit("it is there again")
    with open(f"plt{k}.dat", "w") as file:
        file.write(str(k) * 5000)
"""


def run(folder: Path, makes: str, reads: str, mode: str, pattern: str = "plt*.dat", port: str = "") -> str:
    """What the reader prints."""
    (folder / "makes.py").write_text(BEGIN + makes)
    (folder / "reads.py").write_text(BEGIN + reads)
    (folder / "workflow.yaml").write_text(f"""
tasks:
  - {{func: makes.py, outports: [{{filename: "{pattern}", mode: {mode}}}]}}
  - {{func: reads.py, inports: [{{filename: "{pattern}"{port}}}]}}
""")
    ran = run_tree([*WILKINS, "run", "--timeout", "40", "workflow.yaml"], 60, folder)
    assert ran.code == 0, ran.out + ran.err
    return "".join(f"{line.split('|', 1)[1].strip()}\n" for line in ran.out.splitlines() if line.startswith("reads"))


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_one_process_alone_makes_a_file_that_must_not_be_there(tmp_path: Path, mode: str) -> None:
    assert run(tmp_path, MADE_BY_ONE, PARTS, mode).splitlines() == [f"{k} 5000 x" for k in range(6)]


def test_processes_close_a_file_that_they_write_together_in_any_order(tmp_path: Path) -> None:
    assert run(tmp_path, CLOSED_IN_ANY_ORDER, PARTS, "memory").splitlines() == [f"{k} 20000 0123" for k in range(6)]


@pytest.mark.usual("memory-many bytes")
@pytest.mark.parametrize("size", [500, 5000], ids=["few bytes", "many bytes"])
@pytest.mark.parametrize("mode", MODES)
def test_processes_that_open_one_file_at_once_write_it_together(tmp_path: Path, mode: str, size: int) -> None:
    reads = PARTS.replace("5000", str(size)).replace("range(6)", "range(20)")
    told = run(tmp_path, OPENED_AT_ONCE.replace("SIZE", str(size)), reads, mode)
    assert told.splitlines() == [f"{k} {4 * size} 0123" for k in range(20)]


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_a_file_is_removed_while_it_is_written(tmp_path: Path, mode: str) -> None:
    assert run(tmp_path, REMOVED, PARTS, mode).splitlines() == [f"{k} 5000 {k}" for k in range(6)]


def test_a_program_forks_while_a_thread_of_it_opens_steps(tmp_path: Path) -> None:
    """The child, which has no such thread, opens steps itself."""
    makes = """
for k in range(200):
    with open(f"plt{k}.dat", "wb") as file:
        file.write(b"x" * 200000)
"""
    reads = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, a fork beside threads warns
def child(k):
    with open(f"plt{k}.dat", "rb") as file:
        os._exit(len(file.read()) != 200000)
def read():
    for k in range(0, 200, 2):
        with open(f"plt{k}.dat", "rb") as file:
            file.read()
reader = threading.Thread(target=read)
reader.start()
failed = 0
for k in range(1, 200, 2):
    pid = os.fork()
    if pid == 0:
        child(k)
    failed += os.waitpid(pid, 0)[1] != 0
reader.join()
print(failed, "failed")
"""
    assert run(tmp_path, makes, reads, "memory", port=", flow: {every: 1, queue: 250}") == "0 failed\n"
