"""An archive whose datasets are compressed, and the table of what that has saved and cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins import atomic
from wilkins.compression.bounds import Rule
from wilkins.compression.errors import CannotCopy
from wilkins.names import text_of
from wilkins.tasks.analysis.results import Rows, write_whole
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.copy import Compressed, compressed_copy

if TYPE_CHECKING:
    from wilkins.transport.received import Step

_HEAD = ["step", "file", "dset", "bytes", "stored", "bound", "largest_error", "mean_error", "psnr"]
_HEAD += ["blocks", "blocks_kept"]
_NOTHING = {"steps": 0, "bytes": 0, "stored": 0, "whole": 0, "compared": 0, "seconds": 0.0}


class CompressedArchive:
    """Writes files that are smaller than the steps, by the first rank."""

    def __init__(self, rules: Sequence[Mapping[str, Any]], table: Path, before: Any) -> None:
        """Args:
        rules: the entries of `compress:`.
        table: the file of the table.
        before: what a resumed run goes on from.
        """
        self._rules = [Rule(one["dset"], one["absolute"], one["relative"]) for one in rules]
        if any(rule.lossy for rule in self._rules):
            Compressor.check()
        self._used = set(before.get("used", ()) if before else ())
        self._compressor = Compressor()
        self._sums = _NOTHING | (before["sums"] if before else {})
        self._rows = Rows(table, _HEAD, before and before["table"])

    def step(self, number: int, step: Step, path: Path) -> None:
        """Writes the file of a step."""
        began = time.perf_counter()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = atomic.part_of(path)
        part.unlink(missing_ok=True)
        whole, why = step.file_bytes(), ""
        found: tuple[Compressed, ...] = ()
        try:
            found = compressed_copy(step.file, part, self._rules, self._compressor)
            self._sums["compared"] += 1
            self._used |= {rule.dset for one in found for rule in one.rules}
            if not found:
                why = "no dataset of it is to be compressed"
            elif part.stat().st_size >= len(whole):
                found, why = (), "compressed, it would not be smaller"
            else:
                part.replace(path)
        except CannotCopy as error:
            why = str(error)
        except Exception as error:  # of HDF5, which has many: the step itself is there all the same
            why = f"{type(error).__name__}: {error}"
        finally:
            part.unlink(missing_ok=True)
        if why:
            write_whole(path, whole)
            self._sums["whole"] += 1
            print(f"{text_of(step.filename)}: archived as it is: {why}", flush=True)
        self._sums["steps"] += 1
        self._sums["bytes"] += len(whole)
        self._sums["stored"] += path.stat().st_size
        self._sums["seconds"] += time.perf_counter() - began
        for one in found:
            mean = one.apart.total / one.apart.elements if one.apart.elements else 0.0
            psnr = one.apart.psnr(one.low, one.high, one.bound) if one.bound else float("inf")
            kept = one.kept if one.bound else one.blocks
            row = [number, step.filename, one.dset, one.bytes, one.stored, one.bound, one.apart.largest, mean, psnr]
            self._rows.add([*row, one.blocks, kept])

    def state(self) -> Any:
        """How long the table is, the sums, and which entries have fitted a dataset."""
        return {"sums": self._sums, "used": sorted(self._used), "table": self._rows.durable()}

    def end(self) -> None:
        """Says what it has come to."""
        self._rows.close()
        self._compressor.close()
        sums = self._sums
        if sums["steps"]:
            times = sums["bytes"] / sums["stored"] if sums["stored"] else 1.0  # all files are empty
            rate = sums["bytes"] / sums["seconds"] / 1e6
            print(
                f"archived {sums['steps']} steps, {sums['whole']} of them as they are: {sums['bytes']} bytes in "
                f"{sums['stored']}, {times:.3g} times smaller, at {rate:.3g} MB/s",
                flush=True,
            )
        for dset in sorted({rule.dset for rule in self._rules} - self._used) if sums["compared"] else ():
            print(f"compress: no dataset that can be compressed fits {dset!r}, or an earlier entry fits it", flush=True)
        if self._compressor.deaths:
            print(f"the compressor died {self._compressor.deaths} times; these blocks were kept bit by bit", flush=True)
