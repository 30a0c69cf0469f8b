"""Uses HDF5 on plain files in many ways, writes to both streams, and exits with a code of its own."""

import sys

import h5py
import numpy as np

with h5py.File("a.h5", "w", libver="latest") as f:
    f.create_dataset("chunked", data=np.arange(1000.0), chunks=(100,), compression="gzip", track_times=False)
    f["other"] = h5py.ExternalLink("b.h5", "/x")
    f.attrs["text"] = "grüße"
with h5py.File("b.h5", "w") as f:
    f.create_dataset("x", data=[1, 2, 3], track_times=False)
with h5py.File("a.h5", "r+") as f:
    print(f["other"][:], f["chunked"][::250], f.attrs["text"])
with h5py.File("c.h5", "w", driver="core") as f:
    f.create_dataset("x", (3, 3), "f4", track_times=False)
try:
    h5py.File("missing.h5")
except FileNotFoundError as error:
    print(error, file=sys.stderr)
print(h5py.is_hdf5("a.h5"), h5py.is_hdf5(__file__))
sys.exit(7)
