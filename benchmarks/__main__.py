"""Runs the measurements and prints a table: `python -m benchmarks [--steps N] [--mib N]`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from .rate import Rate, measure


def row(rate: Rate) -> str:
    """One line of the table."""
    low, high = rate.write_spread
    low_read, high_read = rate.read_spread
    return (
        f"{rate.what:<16}  {rate.write:5.2f} ({low:.2f} .. {high:.2f})   "
        f"{rate.read:5.2f} ({low_read:.2f} .. {high_read:.2f})"
        f"   {rate.memcpy_ms:8.1f}"
    )


def main() -> None:
    """Channels and files, h5py and C."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="rates of channels and files, as multiples of a memcpy's time"
    )
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--mib", type=int, default=128, help="size of a step")
    options = parser.parse_args()
    print(
        f"{options.steps} steps of {options.mib} MiB, the first 5 left out; "
        "time / time of a memcpy, medians (and quartiles)"
    )
    print(f"{'':<16}  {'write':<22} {'read':<22} memcpy, ms")
    for language in ("h5py", "C"):
        for files in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                print(
                    row(measure(Path(folder), language=language, files=files, steps=options.steps, mib=options.mib)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
