"""What the checks of the ready-made analyses cost: k-means, moments and histogram with them and without, by turns.

Each figure is of whole steps, as the task runs them on one rank: reading by HDF5 from a file in memory, computing, and
a row of the table. CPU time, so that other work on the machine counts little; one thread of BLAS.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from types import SimpleNamespace
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import h5py
import numpy as np

from wilkins.tasks.analysis import checked_kmeans, kmeans
from wilkins.tasks.analysis.checked_kmeans import CheckedTable
from wilkins.tasks.analysis.checks import Guarded, Watch, seal
from wilkins.tasks.analysis.clusters import KMeansAnalyzer
from wilkins.tasks.analysis.run import HistogramAnalyzer, MomentsAnalyzer
from wilkins.tasks.group import Group

SHAPES = ((8, 8), (8, 64), (8, 256), (32, 8), (32, 32), (32, 256), (128, 8), (128, 64), (128, 256))
"""Features and clusters."""
KINDS: Mapping[str, Any] = {"moments": MomentsAnalyzer, "histogram": HistogramAnalyzer, "kmeans": KMeansAnalyzer}


def by_turns(kind: str, options: Mapping[str, Any], step: Any, folder: Path, rounds: int) -> tuple[float, list[float]]:
    """CPU time of a step without checks, in seconds, and the ratios with by without, a pair per round."""
    analyzers = []
    for checked in (False, True):
        place = folder / str(checked)
        analyzers.append(KINDS[kind]({**options, "filename": None, "checked": checked}, place, Group(), None))
    times: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            began = time.process_time()
            analyzers[which].step(number, step)
            times[which].append(time.process_time() - began)
    plain, checked_times = (one[1:] for one in times)
    return median(plain), [more / less for less, more in zip(plain, checked_times, strict=True)]


def line(what: str, seconds: float, elements: int, ratios: Sequence[float]) -> str:
    """A row of the table."""
    low, middle, high = quantiles(ratios, n=4)
    each = seconds / elements * 1e9
    return f"{what:<28}{each:>8.2f} ns{100 * (middle - 1):>7.0f} % ({100 * (low - 1):.0f} to {100 * (high - 1):.0f})"


def samples(kind: str, features: int, clusters: int, elements: int) -> Any:
    """Samples around as many centres as there are to find."""
    random = np.random.default_rng(features * 1000 + clusters)
    centres = random.normal(size=(clusters, features)) * 4
    count = elements // features
    found = centres[random.integers(clusters, size=count)] + random.normal(size=(count, features))
    return found.astype(kind)


def parts(kind: str, features: int, clusters: int, rounds: int) -> None:
    """Prints what the parts of a block's checks take, each by itself, as shares of the block without checks."""
    dtype = np.dtype(kind)
    rows = kmeans.block_rows(features, clusters, dtype)
    x = samples(kind, features, clusters, rows * features)
    watch = Watch(0, "x")
    centres = kmeans.first_centres(x.astype(float), clusters, np.random.default_rng(0))
    for _ in range(3):
        found = kmeans.assigned(x, kmeans.Table.of(centres, dtype))
        centres = kmeans.moved(centres, np.zeros(clusters), found)
    known = CheckedTable(Guarded(centres, "centres"), dtype, watch)
    distances = kmeans.products(x, known.table)
    lengths = checked_kmeans._lengths(x, known.tiny)[1]
    margins = known.margins(lengths, known.row_bounds(lengths, certain=False))
    ones, before = np.ones(rows, dtype), seal(x)
    works: dict[str, Callable[[], Any]] = {
        "plain": lambda: kmeans.assigned(x, known.table),
        "checked": lambda: (seal(x), checked_kmeans.block(x, before, x.copy, known, watch)),
        "nearest": lambda: (kmeans.nearest(distances), kmeans.square(x)),
        "seals": lambda: (seal(x), seal(x)),
        "inputs": lambda: (ones @ x, x @ known.total),
        "products": lambda: (distances @ known.ones(clusters), ones @ distances),
        "second look": lambda: (
            checked_kmeans._chosen(distances, margins, known.room),
            checked_kmeans._lengths(x, known.tiny),
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds * 10):
        for name, work in works.items():
            began = time.process_time()
            work()
            times[name].append(time.process_time() - began)
    took = {name: median(one) for name, one in times.items()}
    took["second look"] -= took["nearest"]
    named = [took[name] / took["plain"] for name in ("seals", "inputs", "products", "second look")]
    whole = took["checked"] / took["plain"] - 1
    shares = "".join(f"{100 * share:>10.0f} %" for share in (*named, whole - sum(named), whole))
    print(f"{f'{kind} d={features} k={clusters}':<20}{took['plain'] * 1e6:>8.0f} us{shares}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checked_analysis", description=__doc__)
    parser.add_argument("--mib", type=int, default=32, help="size of a step of f8; of f4 half of it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="analyses and types to measure, such as kmeans-f4")
    parser.add_argument("--parts", action="store_true", help="what the parts of the checks of k-means take instead")
    options = parser.parse_args(arguments)
    if options.parts:
        print("blocks in memory, without reading; load average", round(os.getloadavg()[0], 1))
        heads = ("seals", "sums of x", "sums of xC", "2nd look", "the rest", "all")
        print(f"{'':<20}{'plain':>11}" + "".join(f"{head:>12}" for head in heads))
        for kind in ("f8", "f4"):
            for features, clusters in SHAPES:
                parts(kind, features, clusters, options.rounds)
        return
    elements = (options.mib << 20) // 8
    print(f"steps of {elements} elements, {options.rounds} pairs; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':<28}{'without, each':>11} {'more with checks: median (quartiles)':>38}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        for kind in ("f8", "f4"):
            cases: list[tuple[str, str, dict[str, Any], tuple[int, int]]] = []
            for features, clusters in SHAPES:
                more = {"dsets": ["x"], "k": clusters, "passes": 1, "half_life": None, "seed": 0, "labels": False}
                cases.append(("kmeans", f"d={features} k={clusters}", more, (features, clusters)))
            cases.append(("moments", "", {"dset": "x"}, (1, 1)))
            cases.append(("histogram", "64 bins", {"dset": "x", "bins": 64, "range": ()}, (1, 1)))
            for name, words, more, shape in cases:
                if options.only not in f"{name}-{kind}":
                    continue
                with h5py.File(folder / "step.h5", "w") as file:
                    file["x"] = samples(kind, shape[0], shape[1], elements)
                with h5py.File(folder / "step.h5") as file:
                    step = SimpleNamespace(file=file, filename="step.h5")
                    seconds, ratios = by_turns(name, more, step, folder, options.rounds)
                print(line(f"{name} {kind} {words}", seconds, elements, ratios), flush=True)


if __name__ == "__main__":
    main()
