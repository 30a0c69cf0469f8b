"""What a rehearsal buffer costs a training loop: time waited for representatives, and spent in the loop, per step; and,
with the learner, what rehearsal costs over incremental training."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

PROGRAMS = Path(__file__).parent / "programs"
BATCH, REPRESENTATIVES = 56, 8


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs on the slowest rank, over all measured steps."""

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
    words = [str(steps), str(step_ms), str(sample_bytes), str(int(background))]
    results = _results("rehearse.py", ranks, words, 60 + 4 * steps * step_ms / 1000)
    return Cost(
        step_ms=max(one["seconds"] for one in results) / steps * 1e3,
        wait_share=max(one["wait_seconds"] / one["seconds"] for one in results),
        longest_wait_ms=max(one["longest_wait"] for one in results) * 1e3,
        call_ms=max(one["call_seconds"] for one in results) / steps * 1e3,
        round_ms=max(one["round_seconds"] for one in results) / steps * 1e3,
        elsewhere=sum(one["drawn_elsewhere"] for one in results) / sum(one["drawn"] for one in results),
    )


@dataclass(frozen=True, slots=True)
class Overhead:
    """What rehearsal costs over incremental training, with the learner. Of the slowest rank."""

    incremental_ms: float
    """Median time of a step."""
    ratio: float
    """Time of an epoch with rehearsal by that of an incremental one: the median over rounds of all in turn."""
    ratio_larger: float
    """The same ratio of incremental training with batches of b + r samples: the cost of the samples alone."""
    wait_share: float
    """Time waited for representatives, as a share of the steps' time."""
    elsewhere: float
    """Share of the representatives that came from another rank."""

    samples_ratio: ClassVar[float] = (BATCH + REPRESENTATIVES) / BATCH
    """(b + r) / b: what the ratios are if nothing costs anything but the number of samples."""


def learn(
    *, ranks: int = 2, rounds: int = 10, steps: int = 10, step_ms: float = 50.0, sample_bytes: int = 65536,
    device: str = "cpu", kept: str = "host",
) -> Overhead:  # fmt: skip
    """Train incrementally, the same with larger batches, and with rehearsal, in turns: `rounds` times `steps` steps.

    Incremental steps last `step_ms` or more. Batches of 56 samples, 14 candidates, 8 representatives. The model is on
    `device`, the buffer in `host` memory or on a device. Needs torch.

    Raises:
        RuntimeError: the run failed.
    """
    words = [str(rounds), str(steps), str(step_ms), str(sample_bytes), device, kept]
    results = _results("learn.py", ranks, words, 300 + 60 * rounds * steps * step_ms / 1000)
    ratios, medians = [], []
    for one in results:
        times = {name: np.reshape(one[name], (rounds, steps)) for name in ("incremental", "larger", "rehearsal")}
        epochs = {name: seconds.sum(1) for name, seconds in times.items()}
        ratios.append([float(np.median(epochs[name] / epochs["incremental"])) for name in ("larger", "rehearsal")])
        medians.append(float(np.median(times["incremental"])) * 1e3)
    return Overhead(
        incremental_ms=max(medians),
        ratio=max(one[1] for one in ratios),
        ratio_larger=max(one[0] for one in ratios),
        wait_share=max(one["wait_seconds"] / sum(one["rehearsal"]) for one in results),
        elsewhere=sum(one["drawn_elsewhere"] for one in results) / sum(one["drawn"] for one in results),
    )


def _mpiexec() -> str:
    """That of Python's own environment, or else the first on PATH."""
    own = Path(sys.executable).parent / "mpiexec"
    return str(own) if own.exists() else "mpiexec"


def _results(program: str, ranks: int, words: Sequence[str], limit: float) -> list[dict[str, Any]]:
    """The results that each rank of a program writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [_mpiexec(), "-n", str(ranks), sys.executable, str(PROGRAMS / program), *words, folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table: the exchange in the background, and in the loop; then one of the learner."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rehearsal", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-ms", type=float, default=50.0, help="computing per step")
    parser.add_argument("--sample-bytes", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=10, help="of both strategies in turn, with the learner")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, or a GPU such as cuda:0")
    parser.add_argument("--out", type=Path, help="file for what was found with the learner, as JSON")
    options = parser.parse_args(arguments)
    if options.device == "cpu":
        exchange(options)
    if importlib.util.find_spec("torch") is None:
        print("\nThe learner needs PyTorch: pip install 'wilkins[torch]'")
        return
    kinds = {"host": "host"} if options.device == "cpu" else {"host": "host", "device": options.device}
    found = {
        name: learn(
            ranks=options.ranks,
            rounds=options.rounds,
            steps=max(1, options.steps // options.rounds),
            step_ms=options.step_ms,
            sample_bytes=options.sample_bytes,
            device=options.device,
            kept=kept,
        )
        for name, kept in kinds.items()
    }
    for name, one in found.items():
        print_overhead(name, one)
    if options.out:
        options.out.write_text(json.dumps({name: asdict(one) for name, one in found.items()}))


def exchange(options: argparse.Namespace) -> None:
    """Print what the buffer costs, with its exchange in the background and in the loop."""
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


def print_overhead(kept: str, found: Overhead) -> None:
    """Print what rehearsal costs with the learner, its buffer in `host` memory or on the `device`."""
    print(f"\nThe learner, in turns; medians; an epoch's time by that of incremental training; samples kept: {kept}")
    print(f"{'training':<26} {'step':>9} {'epoch':>7} {'by (b+r)/b':>11} {'waits':>7} {'from others':>12}")
    print(f"{'incremental, b':<26} {found.incremental_ms:>6.1f} ms {1:>7.3f}")
    for name, ratio in (("incremental, b + r", found.ratio_larger), ("rehearsal, b and r", found.ratio)):
        line = f"{name:<26} {found.incremental_ms * ratio:>6.1f} ms {ratio:>7.3f} {ratio / found.samples_ratio:>11.3f}"
        print(line + (f" {found.wait_share:>7.2%} {found.elsewhere:>12.0%}" if name.startswith("rehearsal") else ""))


if __name__ == "__main__":
    main()
