import h5py
import numpy as np

for step in range(4):
    with h5py.File(f"plt{step:04d}.h5", "w") as f:
        f["x"] = np.arange(6.0).reshape(2, 3) + 10 * step
        f.attrs["time"] = 0.5 * step
