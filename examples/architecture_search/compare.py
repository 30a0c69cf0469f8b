"""Runs searches with and without transfer, and compares what they take to the same error: `compare.py [SEEDS [FIRST]]`.

All searches push equally many samples through networks. Writes curves.json. Exits with 1 if, in the median of the
seeds, the search with transfer takes more than half the samples, or more than a third of the bytes, to the error at
which the same search without it ends.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from wilkins.tasks.models import ModelStore

SEARCHES = {
    "with transfer": ["transfer=prefix"],
    "without": ["transfer=none"],
    "without, 4 x longer": ["transfer=none", "steps=6", "samples=1024"],  # a quarter of the networks, as many samples
}
HALF, THIRD = 1 / 2, 1 / 3


def course(store: ModelStore) -> dict[str, list[float]]:
    """How a search went, network by network.

    Returns:
        For each network, in the order in which they were put: `samples` that all so far have been trained on; `error`,
        on test samples, of the one with the best score so far; and bytes of all so far: `shared`, as the store has
        them, and `whole`, each by itself.
    """
    found = {"samples": [], "error": [], "shared": [], "whole": []}
    samples = shared = whole = 0
    best, stored = None, set()
    for one in sorted(store.records(), key=lambda record: record.time):
        samples, whole = samples + one.about["samples"], whole + one.nbytes
        for tensor in one.tensors.values():
            shared += tensor.nbytes if tensor.blob not in stored else 0
            stored.add(tensor.blob)
        best = one if best is None or one.score > best.score else best
        for name, value in zip(found, (samples, best.about["test_error"], shared, whole), strict=True):
            found[name].append(value)
    return found


def reached(one: dict[str, list[float]], error: float) -> int | None:
    """Which network was the first with which a search came to an error; None: it never did."""
    return next((place for place, found in enumerate(one["error"]) if found <= error), None)


def ratios(transfer: dict[str, list[float]], other: dict[str, list[float]]) -> tuple[float, float]:
    """Samples, and stored bytes, to the error at which the other search ends, by those it took; infinite: never."""
    error = other["error"][-1]
    mine, its = reached(transfer, error), reached(other, error)
    if mine is None:
        return np.inf, np.inf
    return transfer["samples"][mine] / other["samples"][its], transfer["shared"][mine] / other["whole"][its]


def spread(values: list[float]) -> str:
    """The median, and from where to where."""
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def searched(name: str, words: list[str], seed: int) -> dict[str, list[float]]:
    """Run a search; returns how it went."""
    store = ModelStore(f"stores/{name.replace(',', '').replace(' ', '-')}-{seed}")
    command = [sys.executable, "-m", "wilkins", "run", "workflow.yaml"]
    for word in (*words, f"seed={seed}", f"store={store.folder}"):
        command += ["--set", word]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"the search {name} of seed {seed} failed, as said above; needed is: pip install 'wilkins[torch]'")
    return course(store)


def alone(seed: int) -> float:
    """The error on test samples of one network, that of the first genes, which is trained on all samples of the stream.

    They are kept, as no search does, and gone through until as many have gone through it as through those of a search.
    """
    import torch

    from burgers import samples
    from networks import FIRST, Network
    from search import error, train

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Network(FIRST)
    kept = [samples(256, seed, 0, step) for step in range(24)]
    x, y = (torch.from_numpy(np.concatenate(part)) for part in zip(*kept, strict=True))
    train(model, x, y, passes=12)
    return error(model, *map(torch.from_numpy, samples(512, seed, 2)))


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seeds = range(first, first + count)
    if Path("stores").exists():
        sys.exit("stores has searches of an earlier comparison; remove it to compare anew: rm -r stores")
    curves = {name: [] for name in SEARCHES}
    for seed in seeds:
        for name, words in SEARCHES.items():
            curves[name].append(searched(name, words, seed))
        print(f"seed {seed}:", *(f"{name} {curves[name][-1]['error'][-1]:.3f}" for name in SEARCHES), flush=True)
    Path("curves.json").write_text(json.dumps(curves))

    print(f"median and range of {count} seeds")
    for name, runs in curves.items():
        share = spread([one["shared"][-1] / one["whole"][-1] for one in runs])
        error = spread([one["error"][-1] for one in runs])
        print(f"{name:<20} error at the end {error}, stored bytes by those of whole models {share}")
    print(f"{'one network':<20} error at the end {spread([alone(seed) for seed in seeds])}")
    good = {}
    for name in list(SEARCHES)[1:]:
        pairs = [ratios(*both) for both in zip(curves["with transfer"], curves[name], strict=True)]
        samples, stored = (list(values) for values in zip(*pairs, strict=True))
        good[name] = np.median(samples) <= HALF and np.median(stored) <= THIRD
        print(f"to the error of {name!r}: samples x {spread(samples)}, bytes x {spread(stored)}")
    print(f"at most half the samples, and a third of the bytes: {'yes' if good['without'] else 'NO'}")
    sys.exit(not good["without"])
