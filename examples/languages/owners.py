"""Reads steps of the wave with PyTables: how high it is along the borders between the ranks, into wave-<step>.csv."""

import sys
from pathlib import Path

import numpy as np
import tables

for path in map(Path, sys.argv[1:]):
    with tables.open_file(path) as file:
        owner = file.root.owner[:]
        first_rows = np.flatnonzero(np.diff(owner, prepend=-1))
        borders = [file.root.height[row, :] for row in first_rows]
    print(f"{path.name}: {len(first_rows)} ranks wrote it")
    np.savetxt(path.with_suffix(".csv"), np.transpose(borders), fmt="%.9f", delimiter=",")
