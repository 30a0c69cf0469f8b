"""Heat spreads in a plate: five snapshots, one HDF5 file each."""

import h5py
import numpy as np

plate = np.zeros((200, 200))
plate[80:120, 80:120] = 100.0

for step in range(5):
    with h5py.File(f"heat-{step}.h5", "w") as file:
        file["temperature"] = plate
        file.attrs["step"] = step
    print(f"wrote step {step}")
    for _ in range(100):
        inner = plate[1:-1, 1:-1]
        inner += 0.2 * (plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2] - 4 * inner)
