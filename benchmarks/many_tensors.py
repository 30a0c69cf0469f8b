"""How long a program waits while a state of very many small tensors is saved: the first time, and in a loop.

By this package, `torch.save` and safetensors, in turns. The others write before they return.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from safetensors.torch import save_file

from benchmarks.restore import state_of
from wilkins.tasks.checkpoint import Checkpointer


def measure(mib: int, tensors: int, rounds: int) -> dict[str, list[float]]:
    """Seconds in each call that saves."""
    state = state_of(mib, tensors)
    found: dict[str, list[float]] = {"wilkins, first": []}
    with tempfile.TemporaryDirectory() as scratch, Checkpointer(Path(scratch) / "wilkins") as checkpointer:
        ways: dict[str, Callable[[int], object]] = {
            "wilkins": lambda step: checkpointer.save(step, state),
            "torch.save": lambda _: torch.save(state, Path(scratch) / "state.pt"),
            "safetensors": lambda _: save_file(state, Path(scratch) / "state.safetensors"),
        }
        for step in range(rounds + 1):
            for way, save in ways.items():
                began = time.perf_counter()
                save(step)
                name = "wilkins, first" if way == "wilkins" and not step else way
                found.setdefault(name, []).append(time.perf_counter() - began)
                checkpointer.wait()  # none is measured beside the writing of another
            for one in state.values():
                one.add_(1)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_tensors", description=__doc__)
    parser.add_argument("--mib", type=int, default=80)
    parser.add_argument("--tensors", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    found = measure(options.mib, options.tensors, options.rounds)
    print(f"{options.mib} MiB in {options.tensors} tensors; load average {os.getloadavg()[0]:.1f}")
    for way, times in found.items():
        print(f"{way:<16}{median(times):>8.3f} s ({min(times):.3f} to {max(times):.3f})")


if __name__ == "__main__":
    main()
