"""Runs the analysis on the steps of a task's in-port: every rank reads its part, the first one writes the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import h5py
import numpy as np

from wilkins import transport
from wilkins.tasks.analysis import histogram, picture
from wilkins.tasks.analysis.checked_moments import moments_checked
from wilkins.tasks.analysis.checks import Watch
from wilkins.tasks.analysis.clusters import KMeansAnalyzer
from wilkins.tasks.analysis.datasets import find, parts, pieces, read
from wilkins.tasks.analysis.moments import Moments, merged
from wilkins.tasks.analysis.options import stem_of, table_of
from wilkins.tasks.analysis.progress import Progress, saved
from wilkins.tasks.analysis.results import Rows, filled, write_hdf5, write_json, write_whole
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group
from wilkins.tasks.registry import Ports

if TYPE_CHECKING:
    from wilkins.transport.received import Step

T = TypeVar("T")
Options = Mapping[str, Any]
_WIDEST = 4096
"""Pixels of a picture's side, at most."""


class Analyzer(Protocol):
    """One thing that is done with every step, on all ranks together."""

    def step(self, number: int, step: Step) -> Path | None:
        """Does it with a step; the HDF5 file of the step, by the first rank, if it makes one."""

    def state(self) -> Any:
        """What it has come to so far, for JSON, with its tables on disk; asked for on the first rank."""

    def end(self) -> None:
        """The stream has ended."""


def main(options: Options, ports: Ports, ranks: Group) -> None:
    """Analyses all steps of the task's in-port.

    Args:
        options: the section `analysis:` as plain data.
        ports: the pattern of the one in-port.

    Raises:
        TaskError: a step lacks a dataset, or it is not what an analysis needs.
        OSError: a step cannot be read, or a result not be written.
    """
    folder = Path(options["folder"])
    before = saved(ranks)
    states = iter(before["parts"] if before else ())
    analyzers: list[Analyzer] = [
        make({**section, "checked": options["checked"]}, folder, ranks, next(states, None))
        for name, make in (
            ("moments", MomentsAnalyzer),
            ("histogram", HistogramAnalyzer),
            ("kmeans", KMeansAnalyzer),
            ("slice", SliceAnalyzer),
            ("subsample", SubsampleAnalyzer),
            ("archive", ArchiveAnalyzer),
        )
        for section in options[name]
    ]
    progress = Progress(ports, ranks, lambda: [analyzer.state() for analyzer in analyzers], before)
    if before and ranks.rank == 0:
        print(f"goes on after {progress.count} steps", flush=True)
    with transport.open(ports.inports[0]) as stream:
        for step in stream:
            with step:
                files = [analyzer.step(progress.count, step) for analyzer in analyzers]
                progress.step(step.sequence, [file for file in files if file])
    progress.end()
    for analyzer in analyzers:
        analyzer.end()
    if ranks.rank == 0:
        print(f"analysed {progress.count} steps; results are in {folder.resolve()}")


def _of_pieces(
    dset: h5py.Dataset,
    ranks: Group,
    plain: Callable[[Any], T],
    checked: Callable[[Any], tuple[T, int]],
    watch: Watch | None,
    step: str,
) -> list[T]:
    """What one of the works gives for each piece of this rank's part: the checked one if there is a watch."""
    if watch is None:
        return [plain(piece) for piece in pieces(dset, ranks.rank, ranks.size)]
    watch.step = step
    return [watch.steady(partial(read, dset, part), checked) for part in parts(dset, ranks.rank, ranks.size)]


class MomentsAnalyzer:
    """Moments of a dataset, per step and over the run."""

    def __init__(self, options: Options, folder: Path, ranks: Group, before: Any) -> None:
        self._options = options
        self._ranks = ranks
        self._watch = Watch(ranks.rank, options["dset"]) if options["checked"] else None
        self._stem = folder / f"{stem_of(options['dset'])}-moments"
        self._folder = folder
        self._total = Moments(**before["total"]) if before else Moments()
        head = ["step", "file", *Moments().results()]
        table = self._stem.with_name(f"{self._stem.name}.csv")
        self._rows = Rows(table, head, before and before["table"]) if ranks.rank == 0 else None

    def step(self, number: int, step: Step) -> Path | None:
        """Adds a step."""
        name, path = step.filename, None
        dset = find(step.file, self._options["dset"], name)
        own = merged(_of_pieces(dset, self._ranks, Moments.of, moments_checked, self._watch, name))
        found = merged(self._ranks.allgather(own))
        self._total += found
        if self._rows:
            self._rows.add([number, name, *found.results().values()])
            if self._options["filename"]:
                path = self._folder / filled(self._options["filename"], number, name)
                write_hdf5(path, found.results(), {"step": number, "dset": self._options["dset"]})
        return path

    def state(self) -> Any:
        """The sums, and how long the table is."""
        return {"total": asdict(self._total), "table": self._rows and self._rows.durable()}

    def end(self) -> None:
        """Writes what the run has come to."""
        if self._rows:
            self._rows.close()
            write_json(self._stem.with_name(f"{self._stem.name}.json"), self._total.results())


class HistogramAnalyzer:
    """A histogram of a dataset, per step and over the run."""

    def __init__(self, options: Options, folder: Path, ranks: Group, before: Any) -> None:
        self._options = options
        self._ranks = ranks
        self._watch = Watch(ranks.rank, options["dset"]) if options["checked"] else None
        self._stem = folder / f"{stem_of(options['dset'])}-histogram"
        self._folder = folder
        low, high = options["range"] or (0.0, 1.0)
        edges = histogram.edges_between(low, high, options["bins"])
        self._edges = edges if options["range"] else None  # else they come from the first step that holds numbers
        self._total = histogram.nothing(options["bins"])
        self._rows: Rows | None = None
        if before:
            self._edges = None if before["edges"] is None else np.array(before["edges"])
            self._total = histogram.Counts(**before["total"] | {"bins": np.array(before["total"]["bins"])})
            if before["table"] is not None and self._edges is not None and ranks.rank == 0:
                self._rows = self._table(self._edges, before["table"])

    def step(self, number: int, step: Step) -> Path | None:
        """Adds a step."""
        name, path = step.filename, None
        dset = find(step.file, self._options["dset"], name)
        if self._edges is None:
            own_span = merged(_of_pieces(dset, self._ranks, Moments.of, moments_checked, self._watch, name))
            spans = merged(self._ranks.allgather(own_span))
            if spans.least is not None and spans.greatest is not None:
                self._edges = histogram.edges_between(spans.least, spans.greatest, self._options["bins"])
        edges = histogram.edges_between(0, 1, self._options["bins"]) if self._edges is None else self._edges
        plain = partial(histogram.count, edges=edges)
        checked = partial(histogram.count_checked, edges=edges)
        counts = _of_pieces(dset, self._ranks, plain, checked, self._watch, name)
        own = sum(counts, histogram.nothing(len(edges) - 1))
        found = sum(self._ranks.allgather(own), histogram.nothing(len(edges) - 1))
        self._total += found
        if self._ranks.rank == 0:
            if self._edges is not None:
                self._write_row(number, name, found, edges)
            if self._options["filename"]:
                path = self._folder / filled(self._options["filename"], number, name)
                values = {"counts": found.bins, "edges": edges}
                rest = {"below": found.below, "above": found.above, "nans": found.nans}
                write_hdf5(path, values, {"step": number, "dset": self._options["dset"], **rest})
        return path

    def _write_row(self, number: int, name: str, found: histogram.Counts, edges: Any) -> None:
        if self._rows is None:
            self._rows = self._table(edges)
        self._rows.add([number, name, found.nans, found.below, *found.bins.tolist(), found.above])

    def _table(self, edges: Any, keep: int | None = None) -> Rows:
        head = ["step", "file", "nans", "below", *(f"from {edge}" for edge in edges[:-1].tolist()), "above"]
        return Rows(self._stem.with_name(f"{self._stem.name}.csv"), head, keep)

    def state(self) -> Any:
        """The borders, the counts, and how long the table is."""
        edges = None if self._edges is None else self._edges.tolist()
        total = asdict(self._total) | {"bins": self._total.bins.tolist()}
        return {"edges": edges, "total": total, "table": self._rows and self._rows.durable()}

    def end(self) -> None:
        """Writes what the run has come to."""
        if self._ranks.rank == 0:
            if self._rows:
                self._rows.close()
            total = self._total
            values = {
                "edges": None if self._edges is None else self._edges.tolist(),
                "counts": total.bins.tolist(),
                "below": total.below,
                "above": total.above,
                "nans": total.nans,
            }
            write_json(self._stem.with_name(f"{self._stem.name}.json"), values)


class SliceAnalyzer:
    """A picture of a plane, made by the first rank."""

    def __init__(self, options: Options, folder: Path, ranks: Group, _: Any) -> None:
        self._options = options
        self._ranks = ranks
        self._folder = folder
        stem = stem_of(options["dset"]).replace("{", "{{").replace("}", "}}")
        self._files = options["filename"] or f"{stem}-{{step:05}}.png"

    def step(self, number: int, step: Step) -> None:
        """Draws a step."""
        name = step.filename
        dset = find(step.file, self._options["dset"], name)
        if self._ranks.rank:
            return
        span = tuple(self._options["range"]) or None
        plane = dset[self._selection(dset, name)]
        if self._options["axes"] and self._options["axes"][0] > self._options["axes"][1]:
            plane = plane.T
        write_whole(
            self._folder / filled(self._files, number, name), picture.png(plane, self._options["colours"], span)
        )

    def _selection(self, dset: h5py.Dataset, name: str) -> tuple[Any, ...]:
        shape = dset.shape or ()
        who = f"{name}: the dataset {self._options['dset']!r}, of shape {shape},"
        if len(shape) < 2:
            raise TaskError(f"{who} has no plane to draw; name one of two or more dimensions")
        shown = self._options["axes"] or [len(shape) - 2, len(shape) - 1]
        if max(shown) >= len(shape):
            raise TaskError(f"{who} has no axis {max(shown)}; its axes are 0 to {len(shape) - 1}: mend 'axes'")
        others = [axis for axis in range(len(shape)) if axis not in shown]
        at = self._options["at"] or [shape[axis] // 2 for axis in others]
        if len(at) != len(others):
            raise TaskError(f"{who} has {len(others)} axes besides those shown, and 'at' gives {len(at)} places")
        selection: list[Any] = [slice(None, None, -(-length // _WIDEST) or 1) for length in shape]
        for axis, place in zip(others, at, strict=True):
            if place >= shape[axis]:
                raise TaskError(f"{who} ends at {shape[axis] - 1} on axis {axis}; 'at' says {place}")
            selection[axis] = place
        if not all(shape):
            raise TaskError(f"{who} is empty, which makes no picture")
        return tuple(selection)

    def state(self) -> None:
        """There is none."""

    def end(self) -> None:
        """Nothing is left to do."""


class SubsampleAnalyzer:
    """A smaller file, written by the first rank."""

    def __init__(self, options: Options, folder: Path, ranks: Group, _: Any) -> None:
        self._options = options
        self._ranks = ranks
        self._folder, self._files = folder, options["filename"]

    def step(self, number: int, step: Step) -> Path | None:
        """Writes a step's file."""
        name = step.filename
        dsets = [find(step.file, path, name) for path in self._options["dsets"]]
        if self._ranks.rank:
            return None
        path = self._folder / filled(self._files, number, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as small:
            small.attrs.update(step.file.attrs)
            for dset in dsets:
                small[dset.name] = dset[self._selection(dset, name)]
                small[dset.name].attrs.update(dset.attrs)
        return path

    def _selection(self, dset: h5py.Dataset, name: str) -> tuple[Any, ...]:
        if not dset.shape:
            return ()
        stride = self._options["stride"]
        if len(stride) == 1:
            stride = stride * len(dset.shape)
        if len(stride) != len(dset.shape):
            raise TaskError(
                f"{name}: the dataset {dset.name!r} has {len(dset.shape)} axes, and 'stride' {len(stride)} numbers; "
                "give one for each axis, or one for all"
            )
        return tuple(slice(None, None, every) for every in stride)

    def state(self) -> None:
        """There is none."""

    def end(self) -> None:
        """Nothing is left to do."""


class ArchiveAnalyzer:
    """A real file of each step, written by the first rank."""

    def __init__(self, options: Options, folder: Path, ranks: Group, before: Any) -> None:
        self._folder, self._files = folder, options["filename"]
        self._ranks = ranks
        self._compress = None
        if options["compress"] and ranks.rank == 0:
            from wilkins.tasks.analysis.compressed import CompressedArchive

            self._compress = CompressedArchive(options["compress"], folder / table_of(self._files), before)

    def step(self, number: int, step: Step) -> None:
        """Writes a step."""
        if self._ranks.rank:
            return
        path = self._folder / filled(self._files, number, step.filename)
        if self._compress:
            self._compress.step(number, step, path)
        else:
            write_whole(path, step.file_bytes())

    def state(self) -> Any:
        """How long the table of a compressed archive is, and its sums."""
        return self._compress and self._compress.state()

    def end(self) -> None:
        """Says what compression has come to."""
        if self._compress:
            self._compress.end()
