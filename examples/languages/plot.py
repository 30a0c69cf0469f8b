"""Draws what two readers wrote: wave-<step>.csv (PyTables) and crests.csv (Fortran)."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

step, _, energy = np.loadtxt("crests.csv", delimiter=",").T
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", width_ratios=[2, 1])
for k in range(5):
    line = np.loadtxt(f"wave-{k}.csv", delimiter=",")[:, 0]
    left.plot(line, color=plt.cm.viridis(k / 5), label=f"step {k}")
left.set(xlabel="column", ylabel="height in the first row")
left.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, 1.2), handlelength=1)
right.plot(step, energy, "o-", color="tab:red")
right.set(xlabel="step", ylabel="mean of height squared")
figure.savefig("wave.png", dpi=100)
