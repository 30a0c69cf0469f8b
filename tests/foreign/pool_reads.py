import multiprocessing

import h5py


def total(step: int) -> tuple[int, float]:
    with h5py.File(f"plt{step:04d}.h5") as f:
        return step, float(f["x"][()].sum())


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        for line in pool.map(total, range(4), chunksize=1):
            print(*line)
