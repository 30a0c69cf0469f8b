"""Draws bounds.json, which compare.py writes: how well networks learn from streams with several bounds; bounds.png."""

import json
import sys
from pathlib import Path

import numpy as np

try:
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter
except ImportError:
    sys.exit("plot.py needs matplotlib: pip install matplotlib")

WHAT = {"digits": "pictures told wrong", "waves": "error of changes"}


def draw(path: str, results: dict[str, dict[str, list[list[float]]]]) -> None:
    """A picture: the error for each bound, with how many times smaller the stream was; bars reach over all seeds."""
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    for panel, (name, what) in zip(panels, WHAT.items(), strict=True):
        runs = [np.array(one).T for one in results[name].values()]
        errors = [one[1] for one in runs]
        middle = np.array([one.mean() for one in errors])
        spread = [middle - [one.min() for one in errors], [one.max() for one in errors] - middle]
        panel.errorbar(range(len(runs)), middle, yerr=spread, fmt="o-", color="#0072b2", capsize=3)
        labels = ("as it is", *list(results[name])[1:])
        smaller = [f"{label}\n{one[0].mean():.1f} x" for label, one in zip(labels, runs, strict=True)]
        panel.set_xticks(range(len(runs)), smaller)
        panel.set(title=name, ylabel=what, yscale="log", ylim=(0.01, 1), xlabel="bound, and how many times smaller")
        panel.set_yticks([0.01, 0.03, 0.1, 0.3, 1])
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=100)


if not Path("bounds.json").exists():
    sys.exit("there is no bounds.json here; compare.py writes it: python compare.py 1")
draw("bounds.png", json.loads(Path("bounds.json").read_text()))
