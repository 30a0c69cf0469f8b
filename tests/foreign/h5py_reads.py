import h5py

for step in range(4):
    with h5py.File(f"plt{step:04d}.h5") as f:
        print(step, f["x"][()].tolist())
