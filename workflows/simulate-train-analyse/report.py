"""Says in a line how good the network is that came out."""

import h5py

with h5py.File("network.h5") as file:
    seen, steps, error = (file.attrs[name] for name in ("steps_seen", "step", "error"))

print(f"after {seen} snapshots and {steps} optimiser steps, the network foresees how the front changes to {error:.1%}")
