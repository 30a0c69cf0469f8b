"""Draws curves.json, which compare.py writes: the error of the best network, by samples trained on and by bytes."""

import json
import sys

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit("plot.py needs matplotlib; run: pip install matplotlib")

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

COLOURS = {"with transfer": "tab:blue", "without": "tab:orange", "without, 4 x longer": "tab:green"}
try:
    with open("curves.json") as file:
        curves = json.load(file)
except FileNotFoundError:
    sys.exit("there is no curves.json here; compare.py writes it: python compare.py 1")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for name, runs in curves.items():
    error, samples, shared, whole = (
        np.array([run[key] for run in runs]) for key in ("error", "samples", "shared", "whole")
    )
    drawn = [(axes[0], samples / 1000, "-", name), (axes[1], shared / 1e6, "-", f"{name}, as stored")]
    if name == "with transfer":
        drawn.append((axes[1], whole / 1e6, ":", f"{name}, if models were whole"))
    for axis, x, line, label in drawn:
        axis.plot(x.T, error.T, line, color=COLOURS[name], lw=0.6, alpha=0.35)
        axis.plot(np.median(x, axis=0), np.median(error, axis=0), line, color=COLOURS[name], lw=2, label=label)
axes[0].set(xlabel="samples that went through networks, thousands", ylabel="error on test samples", yscale="log")
axes[0].set_yticks([0.3, 0.4, 0.5, 0.6], ["0.3", "0.4", "0.5", "0.6"])
axes[0].minorticks_off()
axes[1].set(xlabel="MB of models", xscale="log")
axes[1].set_xticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
axes[1].minorticks_off()
for axis in axes:
    axis.legend(fontsize=7, frameon=False)
figure.savefig("search.png", dpi=100)
