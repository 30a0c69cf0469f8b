import h5py

for step in range(6):
    with h5py.File(f"vortex-{step / 10:.2f}.pyfrs", "r") as file:
        print(step, file["stats"][()].decode().splitlines()[1:3], file["soln/p2-quad"][:, 0].mean())
