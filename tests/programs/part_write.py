"""Writes one file per rank and step with h5py and mpi4py: part_write.py STEPS."""

import sys

import h5py
import numpy as np
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
for step in range(int(sys.argv[1])):
    rows = np.arange(9)[:, None] + 9 * rank
    with h5py.File(f"part{rank}-{step:04d}.h5", "w") as f:
        f["rows"] = step * 1e6 + rows * 1000.0 + np.arange(12)
        f.attrs["step"] = step
