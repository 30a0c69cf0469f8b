"""Samples a second that a `StepDataset` hands out: in batches of its own, in those of a DataLoader, and as plain slices
of the files."""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

if TYPE_CHECKING:
    import torch

PATHS = {"x": "x", "y": "y"}
PATTERN = "samples*.h5"


@dataclass(frozen=True, slots=True)
class Speed:
    """Samples a second: medians over rounds."""

    by_clock: float
    by_cpu: float
    """By the CPU time of the process: the rate on a machine without other work."""


def write(folder: Path, steps: int, rows: int) -> None:
    """Steps of small rows: three numbers, and one that is learnt from them."""
    rng = np.random.default_rng(1)
    for step in range(steps):
        x = rng.normal(size=(rows, 3))
        with h5py.File(folder / f"samples{step:04}.h5", "w") as file:
            file["x"] = x
            file["y"] = x @ [1.0, -2.0, 0.5]


def slices(folder: Path, batch: int) -> Iterator[Mapping[str, torch.Tensor]]:
    """The least that a loop can do: read a file, and cut it. Batches end with their step."""
    import torch

    for path in sorted(folder.glob(PATTERN)):
        with h5py.File(path) as file:
            whole = {name: torch.from_numpy(file[name][:]) for name in PATHS}
        for first in range(0, len(whole["y"]), batch):
            yield {name: tensor[first : first + batch] for name, tensor in whole.items()}


def ways(folder: Path, batch: int, shuffle: int) -> dict[str, Callable[[], Iterable[Mapping[str, Any]]]]:
    """What is compared."""
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    pattern = str(folder / PATTERN)

    def own(size: int) -> Iterable[Mapping[str, Any]]:
        return DataLoader(StepDataset(pattern, PATHS, shuffle=size, batch=batch), batch_size=None)

    def loaders(size: int) -> Iterable[Mapping[str, Any]]:
        return DataLoader(StepDataset(pattern, PATHS, shuffle=size), batch_size=batch)

    return {
        "slices of the files, no loader": lambda: slices(folder, batch),
        f"batch={batch}": lambda: own(0),
        f"batch={batch}, shuffle={shuffle}": lambda: own(shuffle),
        f"batch={batch}, shuffle={shuffle}, no loader": lambda: StepDataset(
            pattern, PATHS, shuffle=shuffle, batch=batch
        ),
        f"batch_size={batch}": lambda: loaders(0),
        f"batch_size={batch}, shuffle={shuffle}": lambda: loaders(shuffle),
    }


def measure(
    folder: Path, batch: int, *, shuffle: int = 1000, samples: int = 1_000_000, rounds: int = 5
) -> dict[str, Speed]:
    """Speeds of all ways, in turns. Ways that make each sample by itself are stopped after a tenth of the samples.

    Args:
        folder: has the files.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, way in ways(folder, batch, shuffle).items():
            limit = samples // 10 if name.startswith("batch_size") else samples
            began, cpu = time.perf_counter(), time.process_time()
            count = sum(len(one["y"]) for one in islice(way(), -(-limit // batch)))
            took = (count / (time.perf_counter() - began), count / (time.process_time() - cpu))
            found.setdefault(name, []).append(took)
    return {name: Speed(*map(statistics.median, zip(*taken, strict=True))) for name, taken in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each size of batches."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dataset", description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 256, 1024])
    parser.add_argument("--shuffle", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rows", type=int, default=50_000, help="of a step")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        sys.exit("python -m benchmarks.dataset needs PyTorch: pip install 'wilkins[torch]'")
    import torch

    torch.set_num_threads(1)
    print(
        f"{options.steps} steps of {options.rows} rows of 3 + 1 float64; million samples a second, medians of "
        f"{options.rounds} rounds; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.steps, options.rows)
        for batch in options.batches:
            print(f"\n{'':<40} {'by the clock':>12} {'by CPU time':>12}")
            found = measure(
                folder, batch, shuffle=options.shuffle, samples=options.steps * options.rows, rounds=options.rounds
            )
            for way, speed in found.items():
                print(f"{way:<40} {speed.by_clock / 1e6:>12.3f} {speed.by_cpu / 1e6:>12.3f}", flush=True)


if __name__ == "__main__":
    main()
