import multiprocessing

import h5py
import numpy as np


def write(step: int) -> None:
    with h5py.File(f"plt{step:04d}.h5", "w") as f:
        f["x"] = np.arange(6.0).reshape(2, 3) + 10 * step


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        pool.map(write, range(4), chunksize=1)
