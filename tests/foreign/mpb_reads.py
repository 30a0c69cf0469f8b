import h5py

for point in 1, 2:
    for band in 1, 2:
        with h5py.File(f"mpb_bands-e.k{point:02d}.b{band:02d}.z.tm.h5") as f:
            print(point, band, f["z.r"].shape, abs(f["z.r"][:] + 1j * f["z.i"][:]).max().round(3))
