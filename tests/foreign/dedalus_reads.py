from itertools import count

import h5py

for number in count(1):
    try:
        file = h5py.File(f"snapshots/snapshots_s{number}.h5")
    except FileNotFoundError:
        break
    with file:
        for k in range(file.attrs["writes"]):
            u, energy = file["tasks/u"][k], file["tasks/energy"][k].item()
            print(number, file["scales/iteration"][k], f"{abs(u).sum():.10f}", f"{energy:.10f}")
