"""How long a checkpoint takes to be read: this package's, `torch.load` and safetensors, in turns, from the page cache.

Reading with this package compares every byte with its digest, and fills nothing before the whole version has matched;
the others compare nothing. `--cold` drops the files from the page cache before each turn, as far as the system does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from wilkins.tasks.checkpoint import Checkpointer, restore


def state_of(mib: int, tensors: int) -> dict[str, Any]:
    """Tensors of the same size, that many MiB together."""
    each = max(1, (mib << 18) // tensors)
    whole = torch.arange(each * tensors, dtype=torch.float32).reshape(tensors, each)
    return {f"layer{number}.weight": whole[number].clone() for number in range(tensors)}


def ways(folder: Path, state: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Save the state in each way; what reads it again."""
    with Checkpointer(folder / "wilkins") as checkpointer:
        checkpointer.save(1, state)
    torch.save(state, folder / "state.pt")
    target = {name: torch.empty_like(one) for name, one in state.items()}
    found: dict[str, Callable[[], object]] = {
        "wilkins, new": lambda: restore(folder / "wilkins"),
        "wilkins, in place": lambda: restore(folder / "wilkins", target),
        "torch.load": lambda: torch.load(folder / "state.pt", weights_only=True),
        "torch.load, in place": lambda: copied(torch.load(folder / "state.pt", weights_only=True), target),
    }
    if importlib.util.find_spec("safetensors") is not None:
        from safetensors.torch import load_file, save_file

        save_file(state, folder / "state.safetensors")
        # It maps the file: its bytes are read when they are used.
        found["safetensors"] = lambda: {
            name: one.clone() for name, one in load_file(folder / "state.safetensors").items()
        }
        found["safetensors, in place"] = lambda: copied(load_file(folder / "state.safetensors"), target)
    return found


def copied(state: dict[str, Any], target: dict[str, Any]) -> None:
    """Fill a state as `load_state_dict` does."""
    for name, one in state.items():
        target[name].copy_(one)


def forget(folder: Path) -> None:
    """Drop what the system holds of the files."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(mib: int, tensors: int, rounds: int, *, cold: bool = False) -> dict[str, list[float]]:
    """Seconds of each way, in turns."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        state = state_of(mib, tensors)
        calls = ways(folder, state)
        found: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(rounds + 1):
            for way, call in calls.items():
                if cold:
                    forget(folder)
                began = time.perf_counter()
                got = call()
                found[way].append(time.perf_counter() - began)
                del got
    return {way: times[1:] for way, times in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for large tensors and one for many small ones."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restore", description=__doc__)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--tensors", type=int, nargs="+", default=[128, 20_000])
    options = parser.parse_args(arguments)
    for tensors in options.tensors:
        mib = options.mib if tensors < 1000 else min(options.mib, 80)
        found = measure(mib, tensors, options.rounds, cold=options.cold)
        base = median(found["torch.load"])
        print(f"{mib} MiB in {tensors} tensors, {options.rounds} rounds; load average {os.getloadavg()[0]:.1f}")
        for way, times in found.items():
            print(
                f"{way:<22}{median(times):>8.3f} s ({min(times):.3f} to {max(times):.3f}){median(times) / base:>8.2f} "
                "x torch.load"
            )


if __name__ == "__main__":
    main()
