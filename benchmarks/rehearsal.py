"""What a rehearsal buffer costs a training loop: time waited for representatives, and spent in the loop, per step."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "rehearse.py"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the slowest rank, over all measured steps."""

    step_ms: float
    """Mean time of a step, everything included."""
    wait_share: float
    """Time waited for representatives, as a share of the steps' time."""
    longest_wait_ms: float
    call_ms: float
    """Time the loop spends in the buffer per step: waiting, choosing and copying candidates."""
    round_ms: float
    """Time from an offer until its representatives were at hand, in the background."""
    elsewhere: float
    """Share of the representatives that came from another rank."""


def measure(
    *, ranks: int = 2, steps: int = 100, step_ms: float = 50.0, sample_bytes: int = 65536, background: bool = True
) -> Cost:
    """Train for a while, with batches of 56 samples, 14 candidates and 8 representatives, and say what it cost.

    Raises:
        RuntimeError: the run failed.
    """
    mpiexec = Path(sys.executable).parent / "mpiexec"
    words = [str(steps), str(step_ms), str(sample_bytes), str(int(background))]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(mpiexec), "-n", str(ranks), sys.executable, str(PROGRAM), *words, folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=60 + 4 * steps * step_ms / 1000,
        )
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        told = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
    return Cost(
        step_ms=max(one["seconds"] for one in told) / steps * 1e3,
        wait_share=max(one["wait_seconds"] / one["seconds"] for one in told),
        longest_wait_ms=max(one["longest_wait"] for one in told) * 1e3,
        call_ms=max(one["call_seconds"] for one in told) / steps * 1e3,
        round_ms=max(one["round_seconds"] for one in told) / steps * 1e3,
        elsewhere=sum(one["drawn_elsewhere"] for one in told) / sum(one["drawn"] for one in told),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table: the exchange in the background, and in the loop."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rehearsal", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-ms", type=float, default=50.0, help="computing per step")
    parser.add_argument("--sample-bytes", type=int, default=65536)
    options = parser.parse_args(arguments)
    print(
        f"{options.ranks} ranks, {options.steps} steps of {options.step_ms:g} ms, samples of {options.sample_bytes} "
        "bytes; b = 56, c = 14, r = 8; slowest rank; times in ms per step"
    )
    print(f"{'exchange':<14} {'step':>8} {'waits':>8} {'longest':>8} {'in calls':>9} {'round':>8} {'from others':>12}")
    for background in (True, False):
        cost = measure(
            ranks=options.ranks,
            steps=options.steps,
            step_ms=options.step_ms,
            sample_bytes=options.sample_bytes,
            background=background,
        )
        name = "in background" if background else "in the loop"
        print(
            f"{name:<14} {cost.step_ms:>8.2f} {cost.wait_share:>8.2%} {cost.longest_wait_ms:>8.2f} "
            f"{cost.call_ms:>9.2f} {cost.round_ms:>8.2f} {cost.elsewhere:>12.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
