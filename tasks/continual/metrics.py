"""The measures of continual learning, from the accuracy matrix: what was forgotten, and what was gained.

R[i, j] is the test accuracy on experience j after training on experience i (Lopez-Paz, Ranzato: Gradient Episodic
Memory for Continual Learning, NeurIPS 2017). Entries above the diagonal may be NaN: not known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wilkins.tasks.errors import TaskError


@dataclass(frozen=True, slots=True)
class Metrics:
    """What an accuracy matrix of T experiences comes to."""

    final_accuracy: float
    """Mean of R[T-1, j] over all experiences j: the accuracy at the end (Lopez-Paz and Ranzato's average accuracy)."""
    average_accuracy: float
    """Mean over i of the mean of R[i, j] over j <= i: the accuracy on what was seen so far, averaged over the stream
    (average incremental accuracy; Rebuffi et al., iCaRL, CVPR 2017)."""
    forgetting: float
    """Mean over j < T-1 of the greatest R[i, j] over all i < T-1, less R[T-1, j] (Chaudhry et al., Riemannian Walk for
    Incremental Learning, ECCV 2018). NaN with one experience."""
    backward_transfer: float
    """Mean over j < T-1 of R[T-1, j] - R[j, j]: negative where later training harmed (Lopez-Paz and Ranzato).
    NaN with one experience."""


def metrics(accuracy: ArrayLike) -> Metrics:
    """The measures of an accuracy matrix: square, a row per experience that was trained on, values from 0 to 1.

    Raises:
        ValueError: the matrix is not square, is empty, or lacks an entry on or below the diagonal.
    """
    matrix = checked(accuracy)
    count = len(matrix)
    seen = [matrix[i, : i + 1].mean() for i in range(count)]
    last = matrix[-1]
    best = np.nanmax(matrix[:-1, :-1], axis=0) if count > 1 else np.empty(0)
    first = matrix.diagonal()
    return Metrics(
        final_accuracy=float(last.mean()),
        average_accuracy=float(np.mean(seen)),
        forgetting=float(np.mean(best - last[:-1])) if count > 1 else math.nan,
        backward_transfer=float(np.mean(last[:-1] - first[:-1])) if count > 1 else math.nan,
    )


def accuracy_so_far(accuracy: ArrayLike) -> NDArray[np.float64]:
    """The mean accuracy on the experiences seen so far, after each experience: the curve that is usually drawn."""
    matrix = checked(accuracy)
    return np.array([matrix[i, : i + 1].mean() for i in range(len(matrix))])


def checked(accuracy: ArrayLike) -> NDArray[np.float64]:
    """An accuracy matrix as an array.

    Raises:
        ValueError: see `metrics`.
    """
    matrix = np.asarray(accuracy, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"an accuracy matrix has a row and a column per experience, not the shape {matrix.shape}")
    missing = np.argwhere(np.isnan(np.tril(matrix)))
    if len(missing):
        i, j = missing[0]
        raise ValueError(f"the accuracy on experience {j} after experience {i} is missing")
    return matrix


def write_json(path: str | PathLike[str], runs: Mapping[str, Sequence[ArrayLike]]) -> None:
    """Write what came out: for each strategy the accuracy matrices of its runs (one per seed), the measures of each,
    and their means and standard deviations over the runs. What is not known is null."""
    found: dict[str, Any] = {}
    for name, matrices in runs.items():
        every = [_fields(metrics(matrix)) for matrix in matrices]
        found[name] = {
            "accuracy": [_known(checked(matrix).tolist()) for matrix in matrices],
            "metrics": [_known(one) for one in every],
            "mean": _known({key: float(np.mean([one[key] for one in every])) for key in every[0]}),
            "standard_deviation": _known({key: float(np.std([one[key] for one in every])) for key in every[0]}),
        }
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read_json(path: str | PathLike[str]) -> dict[str, list[NDArray[np.float64]]]:
    """The accuracy matrices that `write_json` wrote: for each strategy one per run."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    return {name: [np.array(matrix, np.float64) for matrix in one["accuracy"]] for name, one in content.items()}


def draw(path: str | PathLike[str], runs: Mapping[str, Sequence[ArrayLike]], *, title: str = "") -> None:
    """Draw the accuracy on what was seen so far over the stream: a line per strategy, the mean over its runs, in a band
    of one standard deviation. The suffix of `path` says the format.

    Raises:
        TaskError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TaskError("drawing needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, matrices in runs.items():
        curves = 100 * np.array([accuracy_so_far(matrix) for matrix in matrices])
        place = np.arange(1, curves.shape[1] + 1)
        mean, spread = curves.mean(0), curves.std(0)
        (line,) = axes.plot(place, mean, "o-", markersize=3.5, label=f"{name} ({mean[-1]:.1f} %)")
        axes.fill_between(place, mean - spread, mean + spread, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="experiences so far", ylabel="accuracy on their classes in %", ylim=(0, 102), title=title)
    axes.set_xticks(range(1, 1 + max(len(checked(every[0])) for every in runs.values())))
    axes.legend(frameon=False, title="strategy (at the end)", fontsize="small", title_fontsize="small")
    figure.savefig(path, dpi=100)


def _fields(found: Metrics) -> dict[str, float]:
    return {name: getattr(found, name) for name in Metrics.__dataclass_fields__}


def _known(value: Any) -> Any:
    """The same with null for what is not a number."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_known(one) for one in value]
    return None if math.isnan(value) else value
