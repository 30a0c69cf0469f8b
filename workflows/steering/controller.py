"""Reads the temperature of the rod and sets its power, until the mean is what is wanted. Arguments: target, gain."""

import sys

import h5py

target, gain = float(sys.argv[1]), float(sys.argv[2])
power, temperature = 0.0, 0.0

while True:
    try:
        with h5py.File("rod.h5", "r") as file:
            temperature = float(file["temperature"][:].mean())
    except FileNotFoundError:
        break
    power += gain * (target - temperature)
    with h5py.File("power.h5", "w") as file:
        file["power"] = power

print(f"at the end, the temperature is {temperature:.6g} and the power {power:.6g}")
