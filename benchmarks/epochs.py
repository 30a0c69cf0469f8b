"""Further epochs over a stream's samples on slow storage: a `StepDataset`, and a plain dataset of the same files with a
DataLoader; how many samples a cache has that keeps what came first, or what was used last; and ranks that wait for each
other at each batch, with reading threads of their own or shared ones (`--ranks`).

Storage is made slow in the function by which both read their files: a request waits for its turn at the bandwidth that
all processes share, and for the latency. The first epoch, which comes with the stream, is not counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np


@dataclass(frozen=True, slots=True)
class Load:
    """What is read."""

    steps: int = 20
    rows: int = 100
    """Rows of a step."""
    width: int = 16384
    """Numbers of four bytes in a row."""
    batch: int = 32
    epochs: int = 4
    """The first one is not counted."""
    train_ms: float = 0.0
    """Time that a loop takes for each batch."""

    @property
    def samples(self) -> int:
        """How many there are."""
        return self.steps * self.rows

    @property
    def size(self) -> int:
        """Bytes of all."""
        return self.samples * (4 * self.width + 8)


def write(folder: Path, load: Load) -> None:
    """The steps, as a run with `mode: both` leaves them."""
    rng = np.random.default_rng(1)
    for step in range(load.steps):
        with h5py.File(folder / f"samples{step:04}.h5", "w") as file:
            file["x"] = rng.random((load.rows, load.width), np.float32)
            file["y"] = np.arange(step * load.rows, (step + 1) * load.rows)


class Storage:
    """Slows reads of files down to a given bandwidth, in this process and its forks, and counts their bytes."""

    def __init__(self, mb_per_s: float, latency_ms: float) -> None:
        self._rate = mb_per_s * 1e6
        self._latency = latency_ms / 1e3
        self._free = multiprocessing.Value("d", 0.0)
        self._bytes = multiprocessing.Value("q", 0)

    def __enter__(self) -> Storage:
        from wilkins.tasks.dataset import disk

        self._real = disk.read_at
        disk.read_at = self._read
        return self

    def __exit__(self, *_: object) -> None:
        from wilkins.tasks.dataset import disk

        disk.read_at = self._real

    def _read(self, fd: int, buffer: memoryview, offset: int) -> None:
        with self._free.get_lock():
            self._free.value = max(self._free.value, time.monotonic()) + len(buffer) / self._rate
            there = self._free.value + self._latency
        with self._bytes.get_lock():
            self._bytes.value += len(buffer)
        time.sleep(max(0.0, there - time.monotonic()))
        self._real(fd, buffer, offset)

    def taken(self) -> int:
        """Bytes that were read since this was asked last."""
        with self._bytes.get_lock():
            count, self._bytes.value = self._bytes.value, 0
        return int(count)


class Plain:
    """Each sample by its number, as people write it: files stay open, and what is small is read at once."""

    def __init__(self, folder: Path, load: Load) -> None:
        self._folder = folder
        self._load = load
        self._files: dict[int, tuple[h5py.Dataset, Any]] = {}

    def __len__(self) -> int:
        return self._load.samples

    def __getitem__(self, number: int) -> dict[str, Any]:
        from wilkins.tasks.dataset import disk

        step, row = divmod(number, self._load.rows)
        if step not in self._files:
            fd = os.open(self._folder / f"samples{step:04}.h5", os.O_RDONLY)
            file = h5py.File(disk._File(fd), "r")
            self._files[step] = file["x"], file["y"][:]
        x, y = self._files[step]
        return {"x": x[row], "y": int(y[row])}


def plain(folder: Path, load: Load, workers: int) -> Iterator[list[int]]:
    """The numbers of each batch, epoch by epoch; an empty batch ends one."""
    from torch.utils.data import DataLoader

    dataset: Any = Plain(folder, load)
    loader = DataLoader(dataset, load.batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(load.epochs):
        for batch in loader:
            yield batch["y"].tolist()
        yield []


def stream(folder: Path, load: Load, workers: int, cache: float) -> Iterator[list[int]]:
    """The same of a `StepDataset` with so large a part of the samples in its cache. Its workers need not begin an epoch
    together: one has come when as many samples have."""
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    pattern, paths = str(folder / "samples*.h5"), {"x": "x", "y": "y"}
    options: dict[str, Any] = {"shuffle": 256, "batch": load.batch, "cache": int(cache * load.size)}
    dataset = StepDataset(pattern, paths, epochs=load.epochs, **options)
    count = 0
    for batch in DataLoader(dataset, batch_size=None, num_workers=workers):
        yield batch["y"].tolist()
        count += len(batch["y"])
        if count // load.samples > (count - len(batch["y"])) // load.samples:
            yield []


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch took: the median of those that are counted."""

    seconds: float
    read: float
    """Bytes from the storage, as a part of all that the samples have."""


def measure(batches: Iterator[list[int]], load: Load, storage: Storage) -> tuple[Epoch, list[list[int]]]:
    """Go through the batches of all epochs. Returns what an epoch took, and each one's order."""
    orders: list[list[int]] = [[]]
    took = []
    storage.taken()
    began = time.perf_counter()
    for numbers in batches:
        if numbers:
            orders[-1] += numbers
            time.sleep(load.train_ms / 1e3)
        else:
            took.append((time.perf_counter() - began, storage.taken()))
            orders.append([])
            began = time.perf_counter()
    seconds, read = zip(*took[1:], strict=True)
    return Epoch(statistics.median(seconds), statistics.median(read) / load.size), orders[: load.epochs]


def hits(orders: Sequence[Sequence[int]], kept: int) -> tuple[float, float]:
    """Hits of a cache of `kept` samples in all epochs but the first: if it keeps those that came first, and those that
    were used last."""
    first = set(orders[0][:kept])
    recent: OrderedDict[int, None] = OrderedDict()
    by_first = by_recent = 0
    for epoch, order in enumerate(orders):
        for number in order:
            if epoch:
                by_first += number in first
                by_recent += number in recent
            recent[number] = None
            recent.move_to_end(number)
            if len(recent) > kept:
                recent.popitem(last=False)
    asked = sum(map(len, orders[1:]))
    return by_first / asked, by_recent / asked


@dataclass(frozen=True, slots=True)
class Lacking:
    """Ranks of one training, and what they have to read."""

    words: str
    widths: tuple[int, ...]
    """Of each rank's samples."""
    cached: tuple[float, ...]
    """Parts of them."""


RANKS = (
    Lacking("one has nothing cached, three 75%", 4 * (32768,), (0.0, 0.75, 0.75, 0.75)),
    Lacking("one has samples of 4 times the size", (4 * 32768, 32768, 32768, 32768), 4 * (0.0,)),
    Lacking("one has 25% cached, three all", 4 * (32768,), (0.25, 1.0, 1.0, 1.0)),
    Lacking("all have nothing cached", 4 * (32768,), 4 * (0.0,)),
)


def together(folder: Path, load: Load, lacking: Lacking, threads: dict[str, int]) -> float:
    """Train on several ranks, which wait for each other at each batch. Returns the seconds of an epoch, the median of
    those after the first; each width has a folder of its own, with as many samples."""
    from wilkins.tasks import StepDataset  # once, not in each rank

    forked = multiprocessing.get_context("fork")
    barrier, took = forked.Barrier(len(lacking.widths)), forked.SimpleQueue()

    def rank(width: int, cached: float) -> None:
        cache = int(cached * replace(load, width=width).size)
        options: dict[str, Any] = {"shuffle": 256, "batch": load.batch, "cache": cache, "epochs": load.epochs}
        dataset = StepDataset(folder / str(width) / "samples*.h5", {"x": "x", "y": "y"}, **options, **threads)
        count, began, epochs = 0, time.perf_counter(), []
        for batch in dataset:
            time.sleep(load.train_ms / 1e3)
            barrier.wait(60)
            count += len(batch["y"])
            if count % load.samples == 0:
                epochs.append(time.perf_counter() - began)
                began = time.perf_counter()
        took.put(statistics.median(epochs[1:]))

    ranks = [forked.Process(target=rank, args=of) for of in zip(lacking.widths, lacking.cached, strict=True)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
        if one.exitcode:
            sys.exit(f"a rank ended with {one.exitcode}")
    return float(max(took.get() for _ in ranks))


def compare_threads(folder: Path, load: Load, counts: Sequence[int], rounds: int) -> None:
    """Print what an epoch takes with so many threads of each rank, and with as many that all ranks share."""
    print(f"\n{'an epoch of four ranks':<36} {'threads':>7} {'fixed':>8} {'shared':>8} {'gain':>6}")
    for width in sorted({width for lacking in RANKS for width in lacking.widths}):
        (folder / str(width)).mkdir()
        write(folder / str(width), replace(load, width=width))
    for lacking in RANKS:
        for count in counts:
            ranks = len(lacking.widths)
            ways: tuple[dict[str, int], ...] = ({"threads": count // ranks}, {"threads_per_host": count})
            times = [[together(folder, load, lacking, way) for way in ways] for _ in range(rounds)]
            fixed, shared = (statistics.median(of) for of in zip(*times, strict=True))
            print(f"{lacking.words:<36} {count:>7} {fixed:>8.2f} {shared:>8.2f} {fixed / shared:>6.2f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.epochs", description=__doc__)
    parser.add_argument("--mb-per-s", type=float, default=200.0, help="of the storage")
    parser.add_argument("--latency-ms", type=float, default=5.0, help="of each request to it")
    parser.add_argument("--train-ms", type=float, default=0.0, help="time that the loop takes for each batch")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2, 8])
    parser.add_argument("--ranks", type=int, nargs="+", metavar="THREADS", help="compare so many threads of four ranks")
    parser.add_argument("--rounds", type=int, default=3, help="of that")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        sys.exit("python -m benchmarks.epochs needs PyTorch: pip install 'wilkins[torch]'")
    load = Load(train_ms=options.train_ms)
    if options.ranks:  # as many bytes of each rank as make four windows, and whole batches
        load = replace(load, rows=24, width=32768, batch=16)
    print(
        f"{load.samples} samples of {load.width * 4 // 1024} KiB in {load.steps} files, batches of {load.batch}; "
        f"storage of {options.mb_per_s:g} MB/s, {options.latency_ms:g} ms a request; "
        f"{load.train_ms:g} ms of work a batch; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    )
    orders: list[list[int]] = []
    with tempfile.TemporaryDirectory() as name, Storage(options.mb_per_s, options.latency_ms) as storage:
        folder = Path(name)
        if options.ranks:
            compare_threads(folder, load, options.ranks, options.rounds)
            return
        write(folder, load)
        print(f"\n{'an epoch':<32} {'workers':>7} {'seconds':>8} {'samples/s':>10} {'read':>6}")
        ways: dict[str, Callable[[int], Iterator[list[int]]]] = {
            "plain DataLoader": lambda workers: plain(folder, load, workers),
            **{
                f"StepDataset, {cache:.0%} in the cache": (
                    lambda workers, cache=cache: stream(folder, load, workers, cache)  # type: ignore[misc]
                )
                for cache in (0.0, 0.25, 1.0)
            },
        }
        for workers in options.workers:
            for way, batches in ways.items():
                epoch, found = measure(batches(workers), load, storage)
                orders = found if way.startswith("Step") and not workers else orders
                print(
                    f"{way:<32} {workers:>7} {epoch.seconds:>8.2f} {load.samples / epoch.seconds:>10.0f} "
                    f"{epoch.read:>6.0%}",
                    flush=True,
                )
    if orders:
        print(f"\n{'samples that a cache has':<32} {'what came first':>16} {'what was used last':>19}")
        for part in (0.1, 0.25, 0.5, 0.75):
            by_first, by_recent = hits(orders, int(part * load.samples))
            print(f"{f'{part:.0%} kept':<32} {by_first:>16.1%} {by_recent:>19.1%}")


if __name__ == "__main__":
    main()
