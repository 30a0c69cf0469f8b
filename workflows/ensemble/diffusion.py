"""Follows all members at once and fits how fast each diffuses; writes diffusion.csv. Argument: members."""

import itertools
import sys
from pathlib import Path

import h5py
import numpy as np

members = range(int(sys.argv[1]))
times: list[float] = []
distances: list[list[float]] = []
lengths = [0.0 for _ in members]

for snapshot in itertools.count():
    row = []
    try:
        for member in members:
            with h5py.File(f"walk-{member}-{snapshot:04}.h5", "r") as file:
                row.append(float((file["position"][:] ** 2).sum(axis=1).mean()))
                time, lengths[member] = float(file.attrs["time"]), float(file.attrs["length"])
    except FileNotFoundError:
        break
    times.append(time)
    distances.append(row)

off = []
with Path("diffusion.csv").open("w") as table:
    print("member,length,diffusion,expected", file=table)
    for member in members:
        # In two dimensions, the mean square distance is 4 D t.
        slope = np.dot(times, [row[member] for row in distances]) / np.dot(times, times)
        expected = lengths[member] ** 2 / 2
        print(f"{member},{lengths[member]:g},{slope / 4:.6g},{expected:.6g}", file=table)
        off.append(abs(slope / 4 / expected - 1))

print(f"{len(off)} members: the diffusion that is found is off what is expected by {max(off):.1%} at most")
