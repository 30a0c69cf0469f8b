"""The picture of a measurement: the time of a step by its size, as a multiple of a memcpy beside another."""

from __future__ import annotations

from pathlib import Path

from .results import Results
from .scenes import BESIDE, SIZES
from .tables import KINDS, ORDER, sizes_of


def draw(results: Results, path: Path) -> None:
    """Write the picture, one panel for each kind of time; bars are the ranges over the turns."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "speed"
    from matplotlib import pyplot

    sizes = sizes_of(results)[1:]
    figure, panels = pyplot.subplots(1, len(KINDS), figsize=(13, 5), sharey=True)
    for panel, kind in zip(panels, KINDS, strict=True):
        for index, name in enumerate(ORDER):
            spreads = {size: results.ratio(f"{kind}, {size}", name, BESIDE) for size in sizes}
            found = {SIZES[size] / SIZES["1 MiB"]: spread for size, spread in spreads.items() if spread}
            panel.errorbar(
                list(found),
                [spread.median for spread in found.values()],
                [
                    [spread.median - spread.low for spread in found.values()],
                    [spread.high - spread.median for spread in found.values()],
                ],
                label=name,
                color=f"C{index % 10}",
                linestyle="-" if name.startswith("wilkins") else "--" if index < 10 else ":",
                marker="o",
                markersize=3,
            )
        panel.set(title=kind, xscale="log", yscale="log", xlabel="size of a step, MiB")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("time / that of a memcpy beside another")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
