"""What it costs to watch a run: CPU time of `wilkins top`, and of the launcher that answers it."""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

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


def measure(folder: Path, tasks: int, seconds: float) -> tuple[float, float, float]:
    """The part of a core that the launcher takes without a viewer, with one, and that the viewer takes.

    The run has `tasks` tasks, each with a step per second.

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
        ours, theirs = pty.openpty()
        viewer = subprocess.Popen([*wilkins, "top"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        threading.Thread(target=_drain, args=(ours,), daemon=True).start()
        try:
            time.sleep(5)
            began, launcher = _cpu(run.pid), time.monotonic()
            watching = _share(viewer.pid, seconds)
            watched = (_cpu(run.pid) - began) / (time.monotonic() - launcher)
            if viewer.poll() is not None:
                raise RuntimeError("wilkins top has ended")
        finally:
            viewer.terminate()
            viewer.wait()
    finally:
        run.terminate()
        run.wait()
    return alone, watched, watching


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
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        alone, watched, watching = measure(Path(folder), options.tasks, options.seconds)
    print(f"{options.tasks} tasks, each with a step per second; parts of a core, over {options.seconds:.0f} s")
    print(f"the launcher, nobody watching  {100 * alone:5.2f}%")
    print(f"the launcher, with a viewer    {100 * watched:5.2f}%")
    print(f"wilkins top                    {100 * watching:5.2f}%")
