"""What a compressed archive saves and costs, by the kind of field and the bound.

    python -m benchmarks.compression

Each field is a file of its own, copied as the analysis' `archive: compress:` copies it, with every element read again
and compared. The fields are drawn with fixed seeds: smooth waves; waves with turbulence of a spectrum k^(-5/3); noise;
waves with spikes of 1e30; waves with NaN in a hundredth of the elements; whole numbers.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import Rule
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.copy import compressed_copy


def fields(side: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Cubes of a side."""
    rng = np.random.default_rng(0)
    x, y, z = np.meshgrid(*[np.linspace(0, 6, side)] * 3, indexing="ij")
    smooth = np.sin(x) * np.cos(y) * np.sin(z + x)
    yield "smooth f4", smooth.astype("f4")
    waves = np.sqrt(sum(k**2 for k in np.meshgrid(*[np.fft.fftfreq(side, 1 / side)] * 3, indexing="ij")))
    waves[0, 0, 0] = 1
    spectrum = np.fft.fftn(rng.standard_normal(smooth.shape)) * waves ** (-11 / 6)
    turbulent = np.fft.ifftn(spectrum).real
    yield "turbulent f8", smooth + turbulent / turbulent.std() / 10
    yield "noise f4", rng.standard_normal(smooth.shape).astype("f4")
    yield "spikes f8", smooth + (rng.random(smooth.shape) < 1e-4) * 1e30
    yield "NaN f4", np.where(rng.random(smooth.shape) < 0.01, np.nan, smooth).astype("f4")
    yield "integers i4", (smooth * 1000).astype("i4")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression", description=__doc__)
    parser.add_argument("--side", type=int, default=128, help="elements on each side of the cubes")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    rules = [Rule("x"), *(Rule("x", absolute=bound) for bound in (1e-5, 1e-3, 1e-1))]
    print(f"cubes of {options.side}^3; {options.turns} turns, medians; MB/s with all that is read again and compared")
    print(
        f"{'field':<13} {'bound':>8} {'times smaller':>14} {'largest error':>14} {'PSNR':>7} {'MB/s':>7}  blocks kept"
    )
    with tempfile.TemporaryDirectory() as folder, Compressor() as compressor:
        source, target = Path(folder, "source.h5"), Path(folder, "copy.h5")
        for name, field in fields(options.side):
            with h5py.File(source, "w") as file:
                file["x"] = field
            for rule in rules:
                times = []
                for _ in range(options.turns):
                    target.unlink(missing_ok=True)
                    with h5py.File(source) as file:
                        begin = time.perf_counter()
                        (found,) = compressed_copy(file, target, [rule], compressor)
                        times.append(time.perf_counter() - begin)
                psnr = f"{found.apart.psnr(found.low, found.high, found.bound):.1f}" if found.bound else "-"
                print(
                    f"{name:<13} {rule.absolute or 0:>8.0e} {found.bytes / found.stored:>14.2f} "
                    f"{found.apart.largest:>14.3e} {psnr:>7} {found.bytes / statistics.median(times) / 1e6:>7.1f}  "
                    f"{found.kept if found.bound else '-'} of {found.blocks}",
                    flush=True,
                )
        if compressor.deaths:
            print(f"the compressor died {compressor.deaths} times")


if __name__ == "__main__":
    main()
