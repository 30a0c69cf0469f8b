"""Draws cuts.csv, the consumer's result: the temperature along a line through the plate's middle."""

import sys
from pathlib import Path

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit("plot.py needs matplotlib; run: pip install matplotlib")

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

if not Path("cuts.csv").exists():
    sys.exit("there is no cuts.csv here; the consumer writes it: wilkins run workflow.yaml")
cuts = np.loadtxt("cuts.csv", delimiter=",")
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for step, cut in enumerate(cuts.T):
    axes.plot(cut, color=plt.cm.inferno(0.85 - 0.17 * step), label=f"step {step}")
axes.set(xlabel="position", ylabel="temperature", xlim=(50, 150))
axes.legend(frameon=False)
figure.savefig("cuts.png", dpi=100)
