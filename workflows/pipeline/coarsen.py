"""Makes each plate smaller: the mean of every block of cells. Argument: cells along a side of a block."""

import itertools
import sys

import h5py

block = int(sys.argv[1])

for step in itertools.count():
    try:
        with h5py.File(f"heat-{step:04}.h5", "r") as file:
            plate = file["temperature"][:]
            time = file.attrs["time"]
    except FileNotFoundError:
        break
    if any(length % block for length in plate.shape):
        sys.exit(
            f"coarsen.py: a plate of {plate.shape} has no whole blocks of {block}; make 'size' a multiple of 'block'"
        )
    rows, columns = (length // block for length in plate.shape)
    with h5py.File(f"coarse-{step:04}.h5", "w") as file:
        file["temperature"] = plate.reshape(rows, block, columns, block).mean(axis=(1, 3))
        file.attrs["time"] = time
        file.attrs["block"] = block
