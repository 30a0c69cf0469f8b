"""Draws both results: h5topng's picture of the field at the end, and arms.csv."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

time, before, behind = np.loadtxt("arms.csv", delimiter=",", skiprows=1).T
mean = np.full(5, 1 / 5)  # over three periods of the light

figure, (field, arms) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", width_ratios=[1, 1.5])
field.imshow(plt.imread("waveguide-ez-000200.00.png"), extent=(-8, 8, -8, 8))
field.set(xlabel="x", ylabel="y", title="$E_z$ at time 200")
arms.plot(time[2:-2], np.convolve(before, mean, "valid"), color="tab:blue", label="before the bend")
arms.plot(time[2:-2], np.convolve(behind, mean, "valid"), color="tab:red", label="behind the bend")
arms.set(xlabel="time", ylabel="intensity in the arm")
arms.legend(frameon=False)
figure.savefig("bend.png", dpi=100)
