"""Draws the consumer's two results: fraction.csv and distances.csv."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

step, fraction = np.loadtxt("fraction.csv", delimiter=",", skiprows=1).T
distance, first, last = np.loadtxt("distances.csv", delimiter=",").T
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(step, fraction, "o-", markersize=3, color="tab:blue")
left.set(xlabel="time step", ylabel="crystalline atoms", ylim=(0, 1))
right.plot(distance, first, color="tab:red", label="first frame")
right.plot(distance, last, color="tab:blue", label="last frame")
right.set(xlabel="distance", ylabel="radial distribution function", xlim=(0.8, 4), ylim=(0, None))
right.legend(frameon=False)
figure.savefig("freezing.png", dpi=100)
