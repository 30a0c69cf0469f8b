"""What is told about a training: a line per step in the log, a row per step in a table, results at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wilkins.tasks.analysis.results import Rows, write_json
from wilkins.tasks.continual.learner import Learner
from wilkins.tasks.ranks import Ranks

COLUMNS = ("step", "file", "samples", "updates", "error", "loss", "seconds")


class Report:
    """Collects what rank 0 tells."""

    def __init__(self, options: Mapping[str, Any], ranks: Ranks) -> None:
        self.rows: list[dict[str, Any]] = []
        """One per step of the stream; of `held_out`, errors on the held-out samples of this step and those before."""
        self._options = options
        self._tells = ranks.rank == 0
        section = options["results"] if self._tells else None
        self._folder = Path(section["folder"]) if section else None
        self._plot = bool(section and section["plot"])
        self._table: Rows | None = None

    def restore(self, rows: list[dict[str, Any]]) -> None:
        """Begins with the rows of an earlier part of the training."""
        self.rows = rows
        for row in rows:
            self._write(row)

    def step(self, **row: Any) -> None:
        """A step was trained on: `number`, `file`, `samples`, `updates`, `error`, `loss`, `seconds`, `held_out`."""
        row["step"] = row.pop("number")
        self.rows = [one for one in self.rows if one["step"] < row["step"]] + [row]
        self._write(row)
        if self._tells:
            told = f"step {row['step']} ({row['file']}): {row['samples']} samples, {row['updates']} optimiser steps"
            print(f"{told}, error before {row['error']:.4g}, loss {row['loss']:.4g}", flush=True)

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        if self._table is None:
            self._table = Rows(self._folder / "training.csv", COLUMNS)
        self._table.add([row[name] for name in COLUMNS])

    def end(self, learner: Learner, versions: int) -> None:
        """Writes results over the whole training."""
        if not self._tells:
            return
        print(f"trained on {len(self.rows)} steps in {learner.steps} optimiser steps", flush=True)
        if self._folder is None:
            return
        if self._table is not None:
            self._table.close()
        statistics = learner.strategy.statistics()
        last = self.rows[-1] if self.rows else {"error": math.nan, "loss": math.nan}
        write_json(
            self._folder / "training.json",
            {
                "strategy": learner.strategy.name,
                "steps": len(self.rows),
                "updates": learner.steps,
                "versions": versions,
                "error": last["error"],
                "loss": last["loss"],
                "buffer": None if statistics is None else asdict(statistics),
                "held_out": [row["held_out"] for row in self.rows] if self._options["held_out"] else None,
            },
        )
