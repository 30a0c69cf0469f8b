"""What it costs a fast stream that its run can be resumed: each event is on disk before anybody can act on it."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
WORKFLOW = """tasks:
  - {{func: {tiny}, name: writer, args: [w, '{steps}'], outports: [{{filename: 'tiny-*.h5'}}]{restart_files}}}
  - {{func: {tiny}, name: reader, args: [r, '{steps}'], inports: [{{filename: 'tiny-*.h5'}}]{restart_steps}}}
"""


def seconds_per_step(folder: Path, steps: int, *, resumable: bool) -> tuple[float, float]:
    """A writer and a reader of tiny steps: what one step takes of time, and of CPU time in both.

    Args:
        folder: where to work; is made.
        steps: how many.
        resumable: with `restart:` of both tasks, or without.

    Raises:
        RuntimeError: the run failed.
    """
    folder.mkdir()
    restarts = (", restart: {files: state.h5}", ", restart: each-step") if resumable else ("", "")
    text = WORKFLOW.format(tiny=PROGRAMS / "tiny.py", steps=steps, restart_files=restarts[0], restart_steps=restarts[1])
    (folder / "workflow.yaml").write_text(text)
    command = [sys.executable, "-m", "wilkins", "run", "workflow.yaml", "--timeout", "300"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stdout + ran.stderr)
    logs = [(folder / "wilkins-runs" / "latest" / f"{task}.log").read_text().split() for task in ("writer", "reader")]
    return float(logs[0][-2]), sum(float(words[-1]) for words in logs)


def main(arguments: Sequence[str]) -> None:
    """Both kinds of run in turn, and their medians."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks restarts", description="a stream of tiny steps with and without `restart:`"
    )
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    pairs: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            without, with_it = (
                seconds_per_step(Path(folder) / f"{number}-{resumable}", options.steps, resumable=resumable)
                for resumable in (False, True)
            )
            pairs.append((without, with_it))
    print(
        f"{options.steps} tiny steps of h5py from one writer to one reader, {options.rounds} runs of each in turn; "
        "microseconds per step, medians"
    )
    print(f"{'':<8}  {'without restart:':>16}  {'with restart:':>13}  {'ratio':>5}")
    for what, name in enumerate(("time", "CPU time")):
        before, after = ([1e6 * pair[kind][what] for pair in pairs] for kind in (0, 1))
        ratio = statistics.median(pair[1][what] / pair[0][what] for pair in pairs)
        print(f"{name:<8}  {statistics.median(before):16.0f}  {statistics.median(after):13.0f}  {ratio:5.2f}")
