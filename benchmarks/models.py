"""What a model store costs: a query among many models, and the bytes of models that share most of their layers."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from wilkins.tasks.models import Graph, Layer, ModelStore
from wilkins.tasks.models.index import file_in

ASK = """
import sys, time
began = time.perf_counter()
from wilkins.tasks.models import Graph, Layer, ModelStore, index
layers = [Layer("x", "input")]
for place in range(1, int(sys.argv[2])):
    layers.append(Layer(f"x{place}", "linear", {"width": 0}, (layers[-1].name,)))
imported, used = time.perf_counter(), time.process_time()
ModelStore(sys.argv[1]).query(Graph(tuple(layers), "fx"))
print(imported - began, used, time.perf_counter() - imported, time.process_time() - used)
"""
"""A new process that asks once: seconds to import, and of the query, each by the clock and of the processor."""
Times = list[tuple[float, float]]
"""Seconds by the clock, and of the processor: the latter hardly depend on what else the machine does."""


def architecture(widths: Sequence[int]) -> Graph:
    """A chain of layers with these widths."""
    layers = [Layer("x", "input")]
    for place, width in enumerate(widths, 1):
        layers.append(Layer(f"x{place}", "linear", {"width": width}, (layers[-1].name,)))
    return Graph(tuple(layers), "fx")


def mutated(layers: int, moments: random.Random) -> list[int]:
    """Widths that begin as most others do, and go on otherwise from some layer on."""
    same = moments.randrange(layers)
    return [0] * same + [moments.randrange(1000) for _ in range(layers - 1 - same)]


def alike(layers: int, _: random.Random) -> list[int]:
    """The same widths for all."""
    return [0] * (layers - 1)


@contextmanager
def unsynced() -> Iterator[None]:
    """Make many models fast: nothing of them is to outlast a failure of the machine."""
    with mock.patch("os.fsync"):
        yield


def filled(folder: Path, models: int, layers: int, widths: Callable[[int, random.Random], list[int]]) -> ModelStore:
    """A store of many models without tensors."""
    store, moments = ModelStore(folder), random.Random(1)
    with unsynced():
        for number in range(models):
            store.put(architecture(widths(layers, moments)), {}, name=f"m{number}", score=moments.random())
    return store


def forget(path: Path) -> None:
    """Drop what the system holds of a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def asked(store: ModelStore, asks: Sequence[Graph], *, cold: bool) -> Times:
    """Times of queries, each of which opens the index; with `cold`, its file is not in memory."""
    found = []
    for graph in asks:
        if cold:
            forget(file_in(store.folder))
        found.append(timed(store, graph))
    return found


def timed(store: ModelStore, graph: Graph) -> tuple[float, float]:
    """Ask once."""
    began, used = time.perf_counter(), time.process_time()
    store.query(graph, 5)
    return time.perf_counter() - began, time.process_time() - used


def after_puts(store: ModelStore, asks: Sequence[Graph]) -> Times:
    """Times of queries, each after another model was put; as trainings end, that is not in one tenth of a second."""
    found = []
    for number, graph in enumerate(asks):
        time.sleep(0.15)
        with unsynced():
            store.put(graph, {}, name=f"new-{number}")
        found.append(timed(store, graph))
    return found


def line(what: str, seconds: Sequence[tuple[float, float]]) -> str:
    """Median, 99th percentile and the longest by the clock, and two of the processor, in milliseconds."""
    clock, processor = np.array(seconds).T * 1e3
    numbers = [np.median(clock), np.quantile(clock, 0.99), clock.max()]
    numbers += [np.median(processor), np.quantile(processor, 0.99)]
    return f"{what:<40}" + "".join(f"{number:>10.2f}" for number in numbers)


def queries(models: int, layers: int, asks: int) -> None:
    """Print the times of queries."""
    print(f"{models:,} models of {layers} layers, {asks} queries of 5 models; load average {os.getloadavg()[0]:.1f}")
    print(f"{'ms':<40}" + "".join(f"{title:>10}" for title in ("median", "p99", "longest", "CPU med.", "CPU p99")))
    for what, widths in (("relatives", mutated), ("all alike", alike)):
        with tempfile.TemporaryDirectory() as scratch:
            store = filled(Path(scratch) / "store", models, layers, widths)
            moments = random.Random(2)
            graphs = [architecture(mutated(layers, moments)) for _ in range(asks)]
            time.sleep(0.2)
            began = time.perf_counter()
            store.query(graphs[0], 5)
            made = time.perf_counter() - began
            print(line(f"{what}: index at hand", asked(store, graphs, cold=False)))
            print(line(f"{what}: index not in memory", asked(store, graphs, cold=True)))
            print(line(f"{what}: first query after a put", after_puts(store, graphs[: asks // 4])))
            time.sleep(0.2)
            store.query(graphs[0], 5)
            words = [sys.executable, "-c", ASK, str(store.folder), str(layers)]
            runs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() for _ in range(20)]
            times = [[float(word) for word in run] for run in runs]
            print(line(f"{what}: query of a new process", [(run[2], run[3]) for run in times]))
            print(line(f"{what}: its imports", [(run[0], run[1]) for run in times]))
            size = file_in(store.folder).stat().st_size
            print(f"{what}: the index takes {size / 2**20:.1f} MiB and {made:.1f} s to make\n", flush=True)


def shared(models: int, layers: int, same: int, mib: float) -> None:
    """Print the bytes of models that share most of their layers, and how long they take to be put and got."""
    rng = np.random.default_rng(0)
    each = int(mib * 2**20 / layers / 4)
    parts = [Layer("x", "input")]
    for place in range(layers):
        parts.append(Layer(f"l{place}", "linear", {}, (parts[-1].name,), {"weight": f"l{place}.weight"}))
    graph = Graph(tuple(parts), "fx")
    state = {f"l{place}.weight": rng.standard_normal(each, np.float32) for place in range(layers)}
    with tempfile.TemporaryDirectory() as scratch:
        store = ModelStore(Path(scratch) / "store")
        puts, parent = [], ""
        for number in range(models):
            if number:
                changed = {f"l{place}.weight": rng.standard_normal(each, np.float32) for place in range(same, layers)}
                state |= changed
            began = time.perf_counter()
            parent = store.put(graph, state, parent=parent, score=float(number))
            puts.append(time.perf_counter() - began)
        began = time.perf_counter()
        store.get(parent, library="numpy")
        whole = time.perf_counter() - began
        began = time.perf_counter()
        store.get(parent, [f"l{layers - 1}"], library="numpy")
        one = time.perf_counter() - began
        alone = models * store.record(parent).nbytes
        print(f"{models} models that share {same} of {layers} layers: {store.stored_bytes() / 2**20:.0f} MiB stored, ")
        print(f"  each by itself: {alone / 2**20:.0f} MiB, {alone / store.stored_bytes():.1f} times as much")
        print(f"  put: the first {puts[0]:.2f} s, another one {np.median(puts[1:]):.2f} s (median)")
        print(f"  got: whole {whole:.3f} s, one layer alone {one:.4f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--mib", type=float, default=30.0, help="of each of 20 models that share 27 of 30 layers")
    options = parser.parse_args(arguments)
    shared(20, 30, 27, options.mib)
    print()
    queries(options.models, options.layers, options.queries)


if __name__ == "__main__":
    main()
