"""Draws the tables of two runs: errors, who made the objects, and the time it took.

Arguments: the table of the run with rehearsal, and of that without; rehearsal.csv and incremental.csv if left out.
"""

import sys
from pathlib import Path

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit("plot.py needs matplotlib; run: pip install matplotlib")

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

SOLVED, PREDICTED = "tab:blue", "tab:orange"
names = sys.argv[1:] or ["rehearsal.csv", "incremental.csv"]
for name in names:
    if not Path(name).exists():
        sys.exit(f"there is no table {name} here; a run writes it: wilkins run workflow.yaml --set table={name}")
tables = [np.genfromtxt(name, delimiter=",", names=True, dtype=None, encoding="utf-8") for name in names]

figure, axes = plt.subplots(len(tables) + 1, 1, figsize=(8, 7), layout="constrained", sharex=True)
for axis, table, title in zip(axes, tables, ("with rehearsal", "without rehearsal"), strict=False):
    frame, family, used = table["frame"], table["family"], np.isnan(table["error_solved"])
    across = axis.get_xaxis_transform()
    axis.fill_between(frame, 0, 1, where=used, step="mid", color=PREDICTED, alpha=0.15, lw=0, transform=across)
    axis.plot(frame, table["error_predicted"], ".-", color=PREDICTED, lw=0.8, ms=4, label="predicted")
    axis.plot(frame, table["error_solved"], "o", color=SOLVED, ms=3.5, label="solved")
    drifts = [k for k in range(1, len(frame)) if family[k] != family[k - 1]]
    for k in drifts:
        axis.axvline(frame[k] - 0.5, color="black", lw=0.8, ls="--")
    for k in (0, *drifts):
        axis.text(frame[k] + 0.5, 0.95, family[k], fontsize=9, va="top", transform=across)
    axis.set(yscale="log", ylim=(0.06, 8), ylabel="error of the object")
    axis.set_yticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
    axis.set_title(f"{title}: {np.sum(~used)} of {len(frame)} frames solved", fontsize=10, loc="left")
axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, ncols=2, frameon=False)

table = tables[0]
axis = axes[-1]
axis.plot(table["frame"], table["seconds_solving"], "o", color=SOLVED, ms=3.5, label="solving (ePIE)")
axis.plot(table["frame"], table["seconds_joining"], ".", color=PREDICTED, ms=4, label="joining what was predicted")
axis.set(yscale="log", ylim=(0.02, 10), xlabel="frame", ylabel="seconds", xlim=(-1, len(table)))
axis.set_title("time for a frame", fontsize=10, loc="left")
axis.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, ncols=2, frameon=False)
figure.savefig("learning.png", dpi=100)
