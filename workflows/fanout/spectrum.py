"""Finds the mean wavelength of the pattern in each snapshot it is given; writes spectrum.csv."""

from pathlib import Path

import h5py
import numpy as np

from wilkins.transport import steps

wavelength = np.nan
with Path("spectrum.csv").open("w") as table:
    print("time,wavelength", file=table)
    for name in steps.names("gs-*.h5"):
        with h5py.File(name, "r") as file:
            field = file["v"][:]
            time = file.attrs["time"]
        power = np.abs(np.fft.fft2(field - field.mean())) ** 2
        frequency = np.hypot(*np.meshgrid(*(np.fft.fftfreq(length) for length in field.shape), indexing="ij"))
        wavelength = power.sum() / (power * frequency).sum()
        print(f"{time},{wavelength:.9g}", file=table, flush=True)

print(f"the pattern's mean wavelength is {wavelength:.3g} cells at the end")
