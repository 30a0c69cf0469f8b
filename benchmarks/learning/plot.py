"""The picture: what is reached by samples pushed through the model, and the rates of streams that are kept up with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .results import STRATEGIES, Results, Row
from .streams import DIGITS, MOVING, PTYCHOGRAPHY

Shown = dict[str, tuple[int, int]]
"""By stream: size and representatives of the buffer whose settings are drawn."""
_MARKS = dict(zip(STRATEGIES, "sovD^", strict=True))


def draw(results: Results, path: Path, shown: Shown) -> None:
    """Write it."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "learning"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8.5))
    _reached(panels[0, 0], results, DIGITS.name, shown, "digits: two new classes in each step", "wrong, %")
    _reached(panels[0, 1], results, MOVING.name, shown, "rod: a source that moves along it", "error on all steps, %")
    _reached(
        panels[1, 0],
        results,
        PTYCHOGRAPHY.name,
        shown,
        "ptychography: two families, one after the other",
        "error on all steps, %",
    )
    _followed(panels[1, 1], results, shown[MOVING.name])
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _lines(results: Results, stream: str, buffer: tuple[int, int]) -> dict[str, list[Row]]:
    settings = [(row, (row.setting.buffer, row.setting.representatives)) for row in results.rows(stream)]
    rows = [row for row, kept in settings if kept in ((0, 0), buffer)]
    return {name: [row for row in rows if row.setting.strategy == name] for name in STRATEGIES}


def _reached(panel: Any, results: Results, stream: str, shown: Shown, title: str, what: str) -> None:
    for place, (name, rows) in enumerate(_lines(results, stream, shown[stream]).items()):
        label = name if name in STRATEGIES[:2] else f"{name}, {shown[stream][0]} samples"
        panel.errorbar(
            [row.pushed for row in rows],
            [100 * row.every.mean for row in rows],
            [100 * row.every.deviation for row in rows],
            label=label, color=f"C{place}", marker=_MARKS[name], markersize=4, linewidth=1.2, capsize=2,
        )  # fmt: skip
        for row in rows if name in STRATEGIES[:3] else ():
            number = (row.pushed, 100 * row.every.mean)
            panel.annotate(
                row.setting.passes, number, (3, 4), textcoords="offset points", fontsize=7, color=f"C{place}"
            )
    panel.set(title=title, xscale="log", yscale="log", xlabel="samples pushed, by those of the stream", ylabel=what)
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter("{x:g}")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.tick_params(axis="y", which="minor", labelsize=7)
    panel.grid(alpha=0.3, which="both")
    panel.legend(frameon=False, fontsize=8)


def _followed(panel: Any, results: Results, buffer: tuple[int, int]) -> None:
    styles = {1: "-", 3: "--", 10: ":"}
    for place, (name, rows) in enumerate(list(_lines(results, MOVING.name, buffer).items())[:3]):
        for row in rows:
            if style := styles.get(row.setting.passes):
                label = f"{name}, {row.setting.passes}"
                panel.plot(range(1, len(row.rates) + 1), row.rates, style, color=f"C{place}", label=label)
    rate = results.rate(MOVING.name)
    panel.axhline(rate, color="black", linewidth=1)
    last = len(results.counts(MOVING.name))
    panel.annotate("the simulation's", (last, rate), (0, -10), textcoords="offset points", fontsize=8, ha="right")
    panel.set(
        title="rod: rates that are kept up with",
        xlabel="step of the stream",
        ylabel="samples per second of a core",
    )
    panel.set_yscale("log")
    low, high = panel.get_ylim()
    panel.set_ylim(low, 5 * high)  # room for the legend
    panel.yaxis.set_major_formatter("{x:,.0f}")
    panel.set_xticks(range(0, last + 1, 2))
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", title="strategy, passes", title_fontsize=8)
