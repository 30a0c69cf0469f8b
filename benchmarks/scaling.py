"""How a channel's costs grow with the number of tasks: ensembles, fan-in and fan-out of small serial programs."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "tick.c"
BYTES = 4096


@dataclass(frozen=True, slots=True)
class Scale:
    """The cost of a step in a workflow, by its numbers of writing and reading tasks."""

    writers: int
    readers: int
    late_us: float
    """Median time from just before the writer closes a step until a reader has it open."""
    writer_cpu_us: float
    """CPU time per step written, the program's own few calls included; mean over the writers."""
    reader_cpu_us: float
    """CPU time per step read; mean over the readers."""

    @property
    def cpu_us(self) -> float:
        """CPU time of writing a step and of all that read it, per step delivered."""
        copies = max(1, self.readers // self.writers)
        return self.writer_cpu_us / copies + self.reader_cpu_us


def build(folder: Path) -> Path:
    """Compile the program.

    Raises:
        RuntimeError: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("no C compiler: install gcc")
    subprocess.run([compiler, "-O2", "-o", str(folder / "tick"), str(PROGRAM)], check=True)
    return folder / "tick"


def measure(folder: Path, writers: int, readers: int, *, steps: int = 60, period_ms: float = 100.0) -> Scale:
    """Run `writers` producers of a step per period, in blocks, with `readers` consumers.

    Raises:
        RuntimeError: the run failed, or a step was lost or came twice.
    """
    program = build(folder)
    start = time.time() + 2.0 + 0.03 * (writers + readers)
    workflow = folder / "workflow.yaml"
    words = ["w", "step.bin", str(steps), str(period_ms), str(BYTES), f"{start:.3f}"]
    workflow.write_text(
        "tasks:\n"
        f"  - {{name: w, func: {program}, taskCount: {writers}, args: {json.dumps(words)},\n"
        "     outports: [{filename: step.bin}]}\n"
        f"  - {{name: r, func: {program}, taskCount: {readers}, args: [r, step.bin],\n"
        "     inports: [{filename: step.bin}]}\n"
    )
    records = folder / "run"
    command = [sys.executable, "-m", "wilkins", "run", str(workflow), "--run-dir", str(records), "--quiet"]
    done = subprocess.run([*command, "--timeout", "300"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
    written = [json.loads(_log(records, "w", k, writers).read_text()) for k in range(writers)]
    read = [json.loads(_log(records, "r", k, readers).read_text()) for k in range(readers)]
    if sum(task["steps"] for task in read) != max(writers, readers) * steps:
        raise RuntimeError(f"steps were lost or came twice: {[task['steps'] for task in read]}")
    return Scale(
        writers,
        readers,
        late_us=statistics.median(late for task in read for late in task["late_us"]),
        writer_cpu_us=statistics.fmean(task["cpu_us"] for task in written),
        reader_cpu_us=statistics.fmean(task["cpu_us"] for task in read),
    )


def _log(records: Path, name: str, instance: int, count: int) -> Path:
    return records / (f"{name}[{instance}].log" if count > 1 else f"{name}.log")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling", description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="per producer")
    parser.add_argument("--tasks", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    options = parser.parse_args(arguments)
    print(
        f"{options.steps} steps per producer, one every 100 ms, {BYTES} bytes; in microseconds; 'per step' per delivery"
    )
    print(f"{'writers -> readers':<20} {'late, median':>12} {'CPU write':>10} {'CPU read':>10} {'CPU per step':>13}")
    for shape in ("n", "in", "out"):
        for count in options.tasks:
            writers, readers = (1 if shape == "out" else count), (1 if shape == "in" else count)
            with tempfile.TemporaryDirectory() as folder:
                scale = measure(Path(folder), writers, readers, steps=options.steps)
            print(
                f"{f'{writers} -> {readers}':<20} {scale.late_us:>12.0f} {scale.writer_cpu_us:>10.0f} "
                f"{scale.reader_cpu_us:>10.0f} {scale.cpu_us:>13.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
