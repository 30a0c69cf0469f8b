"""The report of a training: a line per step in the log, a row per step in a table, results at the end."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from wilkins.tasks.analysis.results import Rows, write_whole
from wilkins.tasks.continual.learner.training_loop import Learner
from wilkins.tasks.continual.metrics import metrics
from wilkins.tasks.continual.task.evaluation import kind_of_error
from wilkins.tasks.group import Group

COLUMNS = ("step", "file", "samples", "updates", "error", "loss", "seconds")


class Report:
    """Collects and writes the report, on rank 0."""

    def __init__(self, options: Mapping[str, Any], ranks: Group) -> None:
        self.rows: list[dict[str, Any]] = []
        """One per step of the stream; of `held_out`, errors on the held-out samples of this step and those before."""
        self._options = options
        self._ranks = ranks
        section = options["results"]
        self._folder = Path(section["folder"]) if section else None
        self._plot = bool(section and section["plot"])
        self._table: Rows | None = None
        self._written = 0

    @property
    def _is_root(self) -> bool:
        return self._ranks.rank == 0

    def restore(self, rows: list[dict[str, Any]]) -> None:
        """Begins with the rows of an earlier part of the training."""
        self.rows = rows
        self._write()

    def step(self, **row: Any) -> None:
        """A step was trained on: `number`, `file`, `samples`, `updates`, `error`, `loss`, `seconds`, `held_out`."""
        row["step"] = row.pop("number")
        before = [one for one in self.rows if one["step"] < row["step"]]
        self.rows = [*before, row]
        self._written = min(self._written, len(before))
        self._write()
        if self._is_root:
            line = f"step {row['step']} ({row['file']}): {row['samples']} samples, {row['updates']} optimiser steps"
            print(f"{line}, error before {row['error']:.4g}, loss {row['loss']:.4g}", flush=True)

    def _write(self) -> None:
        """Write the rows that are not in the table yet: all of them, if another rank has written before."""
        if self._folder is None or not self._is_root:
            return
        if self._table is None:
            self._table, self._written = Rows(self._folder / "training.csv", COLUMNS), 0
        for row in self.rows[self._written :]:
            self._table.add([row[name] for name in COLUMNS])
        self._written = len(self.rows)

    def end(self, learner: Learner, versions: int) -> None:
        """Writes results over the whole training."""
        if not self._is_root:
            return
        line = f"trained on {len(self.rows)} steps in {learner.steps} optimiser steps"
        if self.rows:
            line += f"; the error on the last one, before it was trained on, was {self.rows[-1]['error']:.3g}"
        print(line, flush=True)
        if self._folder is None:
            return
        if self._table is not None:
            self._table.close()
        statistics = learner.strategy.statistics()
        last = self.rows[-1] if self.rows else {"error": math.nan, "loss": math.nan}
        results = {
            "strategy": learner.strategy.name,
            "steps": len(self.rows),
            "updates": learner.steps,
            "versions": versions,
            "error": last["error"],
            "loss": last["loss"],
            "buffer": None if statistics is None else asdict(statistics),
            "held_out": self._held_out() if self._options["held_out"] else None,
        }
        write_whole(self._folder / "training.json", (json.dumps(known(results), indent=2) + "\n").encode())
        if self._plot:
            _draw(self._folder / "training.png", self.rows)
        print(f"results are in {self._folder.resolve()}", flush=True)

    def _held_out(self) -> dict[str, Any]:
        """Errors on each step's held-out samples (columns) after each step (rows), and the measures they come to."""
        errors = np.full((len(self.rows), len(self.rows)), math.nan)
        for place, row in enumerate(self.rows):
            errors[place, : len(row["held_out"])] = row["held_out"][: len(self.rows)]
        found = None
        if kind_of_error(self._options["error"], self._options["loss"]) == "wrong" and len(self.rows):
            with contextlib.suppress(ValueError):  # samples held out before a restart are not known any more
                found = asdict(metrics(1 - errors))
        return {"errors": errors.tolist(), "metrics": found}


def _draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Error and loss of every step, each with its own scale; logarithmic, as they fall by orders of magnitude."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.8), layout="constrained")
    places = [row["step"] for row in rows]
    shown = zip(figure.subplots(2, sharex=True), ("error", "loss"), ("C0", "C1"), strict=True)
    for axes, name, colour in shown:
        axes.plot(places, [row[name] for row in rows], "o-", markersize=2.5, color=colour)
        axes.set(yscale="symlog" if any(row[name] <= 0 for row in rows) else "log")
        axes.set_title(
            "error before a step was trained on" if name == "error" else "loss in training", fontsize="medium"
        )
    axes.set(xlabel="steps of the stream")
    figure.savefig(path, dpi=100)


def known(value: Any) -> Any:
    """The same with None for what is not a finite number, as JSON has it."""
    if isinstance(value, dict):
        return {str(name): known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
