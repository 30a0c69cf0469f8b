"""What a checkpoint in every iteration costs training: this package's engine, torch.save, torch.distributed.checkpoint.

Each way trains in a process of its own, first without saving, then with; rounds go through the ways in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).parent / "programs" / "checkpointed.py"
WAYS = ("wilkins", "torch.save", "dcp.save", "dcp.async_save", "dcp.async_save, async stager")


@dataclass(frozen=True, slots=True)
class Cost:
    """Per checkpoint, in seconds; medians."""

    blocked: float
    """Time training could do nothing else."""
    slower: float
    """What forward and backward took longer than without saving."""
    durable: float
    """From the call until it was on storage."""
    cpu: float
    """CPU seconds more than without saving; mean."""
    wall: float
    """Time of an iteration more than without saving; mean."""
    step: float
    """Time of an iteration without saving; mean."""


def measure(
    way: str, *, mib: int = 512, tensors: int = 128, batch: int = 256, steps: int = 5, threads: int = 1,
    folder: Path | None = None,
) -> Cost:  # fmt: skip
    """Train in a process of its own and say what saving cost.

    Raises:
        RuntimeError: the run failed.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = Path(scratch) / "result.json"
        words = [way, mib, tensors, batch, steps, threads, Path(scratch) / "checkpoints", result]
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        told = json.loads(result.read_text())
    slower = median(told["computed"]) - median(told["plain"])
    return Cost(
        median(told["blocked"]), slower, median(told["durable"]), told["cpu"], told["wall"], told["step"]
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="parameters; with Adam the state is three times that")
    parser.add_argument("--tensors", type=int, default=128)
    parser.add_argument("--batch", type=int, default=256, help="rows: what forward and backward take")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="that torch computes on")
    parser.add_argument("--folder", type=Path, help="where checkpoints go (default: the folder of temporary files)")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    options = parser.parse_args(arguments)
    costs: dict[str, list[Cost]] = {way: [] for way in options.ways}
    for _ in range(options.rounds):
        for way in options.ways:
            cost = measure(
                way,
                mib=options.mib,
                tensors=options.tensors,
                batch=options.batch,
                steps=options.steps,
                threads=options.threads,
                folder=options.folder,
            )
            costs[way].append(cost)
            print(f"{way}: blocked {cost.blocked:.3f}, slower {cost.slower:+.3f}", file=sys.stderr, flush=True)
    step = median(cost.step for every in costs.values() for cost in every)
    print(
        f"{options.mib} MiB in {options.tensors} tensors with Adam: a state of {3 * options.mib} MiB; an iteration of "
        f"{step:.2f} s on {options.threads} of {os.cpu_count()} cores; {options.rounds} x {options.steps} checkpoints; "
        "seconds per checkpoint, medians"
    )
    print(f"{'':<30} {'blocked':>9} {'slower':>9} {'both':>9} {'durable':>9} {'CPU':>9} {'iteration':>10}")
    for way, every in costs.items():
        values = [
            median(getattr(cost, name) for cost in every) for name in ("blocked", "slower", "durable", "cpu", "wall")
        ]
        blocked, slower, durable, cpu, wall = values
        print(
            f"{way:<30} {blocked:>9.3f} {slower:>+9.3f} {blocked + slower:>9.3f} {durable:>9.2f} {cpu:>9.2f} "
            f"{wall:>+10.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
