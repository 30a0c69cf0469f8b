"""What it costs to watch a run: CPU time of `wilkins top`, in a terminal or for a browser, and of the launcher that
answers it."""

from __future__ import annotations

import argparse
import http.client
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

PROGRAMS = Path(__file__).parent / "programs"
PAIR = """  - {{func: ./tick, name: w{k}, args: [w, '{k}.dat', '{steps}', '1000', '1024', '{start}'],
     outports: [{{filename: '{k}.dat'}}]}}
  - {{func: ./tick, name: r{k}, args: [r, '{k}.dat'], inports: [{{filename: '{k}.dat'}}]}}
"""


def _cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _share(pid: int, seconds: float) -> float:
    """The part of a core that a process takes."""
    before, began = _cpu(pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu(pid) - before) / (time.monotonic() - began)


def measure(folder: Path, tasks: int, seconds: float, *, web: bool = False) -> tuple[float, float, float]:
    """The part of a core that the launcher takes without a viewer, with one, and that the viewer takes.

    The run has `tasks` tasks, each with a step per second.

    Args:
        web: the viewer is `wilkins top --web`, whose page is read as a browser does; else it is that of a terminal.

    Raises:
        RuntimeError: the viewer ended.
    """
    subprocess.run(["cc", "-O2", str(PROGRAMS / "tick.c"), "-o", str(folder / "tick")], check=True)
    steps, start = int(2 * seconds + 45), int(time.time()) + 10
    pairs = "".join(PAIR.format(k=k, steps=steps, start=start) for k in range(tasks // 2))
    (folder / "workflow.yaml").write_text("tasks:\n" + pairs)
    wilkins = [sys.executable, "-m", "wilkins"]
    run = subprocess.Popen(
        [*wilkins, "run", "--quiet"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(max(start - time.time(), 0) + 5)
        alone = _share(run.pid, seconds)
        with _served(folder, wilkins) if web else _shown(folder, wilkins) as viewer:
            time.sleep(5)
            began, launcher = _cpu(run.pid), time.monotonic()
            watching = _share(viewer.pid, seconds)
            watched = (_cpu(run.pid) - began) / (time.monotonic() - launcher)
            if viewer.poll() is not None:
                raise RuntimeError("wilkins top has ended")
    finally:
        run.terminate()
        run.wait()
    return alone, watched, watching


@contextmanager
def _shown(folder: Path, wilkins: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """`wilkins top` in a terminal."""
    ours, theirs = pty.openpty()
    viewer = subprocess.Popen([*wilkins, "top"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    try:
        yield viewer
    finally:
        viewer.terminate()
        viewer.wait()


@contextmanager
def _served(folder: Path, wilkins: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """`wilkins top --web`, with its page open."""
    viewer = subprocess.Popen([*wilkins, "top", "--web"], cwd=folder, stdout=subprocess.PIPE)
    try:
        assert viewer.stdout is not None
        address = viewer.stdout.readline().decode().partition(": open")[0]
        threading.Thread(target=_browse, args=(address,), daemon=True).start()
        yield viewer
    finally:
        viewer.terminate()
        viewer.wait()


def _browse(address: str) -> None:
    """Ask for the page, and for what is new as the page itself does."""
    found = urlsplit(address)

    def asked(path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", found.port)
        connection.request("GET", path)
        return connection.getresponse()

    try:
        asked(found.path).read()
        for line in asked(f"{found.path}events"):
            if line.strip() == b"event: page":
                asked(found.path).read()
    except (OSError, http.client.HTTPException):
        return


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        return


def main(arguments: Sequence[str]) -> None:
    """Three lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks watching", description="what `wilkins top` costs")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--web", action="store_true", help="of `wilkins top --web`, with its page open")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        alone, watched, watching = measure(Path(folder), options.tasks, options.seconds, web=options.web)
    print(f"{options.tasks} tasks, each with a step per second; parts of a core, over {options.seconds:.0f} s")
    print(f"the launcher, nobody watching  {100 * alone:5.2f}%")
    print(f"the launcher, with a viewer    {100 * watched:5.2f}%")
    print(f"{'wilkins top --web' if options.web else 'wilkins top':<30} {100 * watching:5.2f}%")
