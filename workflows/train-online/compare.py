"""Compares predictions with the known function, step by step: online.csv."""

from pathlib import Path

import h5py
import numpy as np
from known import height

from wilkins.transport import steps

good, count, errors = 0, 0, []
with Path("online.csv").open("w") as table:
    print("step,version,good,told,error", file=table)
    for name in steps.names("predicted-*.h5"):
        count += 1
        with h5py.File(name) as file:
            version, told = int(file.attrs["model_version"]), float(file.attrs["model_error"])
            error = np.nan
            if version >= 0:
                right = height(file["place"][:])
                error = np.linalg.norm(file["height"][:] - right) / np.linalg.norm(right)
            print(file.attrs["step"], version, file.attrs["good"], told, error, sep=",", file=table)
            if file.attrs["good"]:
                good += 1
                errors.append(error)

print(f"{good} good steps of {count}" + (f", with an error of {np.mean(errors):.3g}" if good else ""))
