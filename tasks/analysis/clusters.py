"""The clusters of a stream's samples: reads them, moves the centres step by step, writes the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.analysis import checked_kmeans, kmeans
from wilkins.tasks.analysis.checked_kmeans import CheckedTable
from wilkins.tasks.analysis.checks import Flipped, Guarded, Watch, seal, twice
from wilkins.tasks.analysis.datasets import find, own_rows, read
from wilkins.tasks.analysis.kmeans import Array, Assigned, Doubles, Frame, Table
from wilkins.tasks.analysis.options import stem_of_all
from wilkins.tasks.analysis.results import Rows, filled, write_hdf5, write_json
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group
from wilkins.tasks.ranks import agree

if TYPE_CHECKING:
    from wilkins.transport.received import Step

_PIECE = 1 << 20
"""Elements read at once."""
_CANDIDATES = 4096
"""Samples of the first step, at least, among which the first centres are chosen."""


class Samples:
    """The samples of a step: rows of one dataset, or of several beside each other.

    Raises:
        TaskError: a dataset is missing, has no axis, or another length than the first.
    """

    def __init__(self, file: h5py.File, paths: list[str], step: str) -> None:
        self._dsets = [find(file, path, step) for path in paths]
        for path, dset in zip(paths, self._dsets, strict=True):
            if not dset.shape:
                raise TaskError(f"{step}: the dataset {path!r} has no axis, and so no rows; name one that has")
            if dset.shape[0] != self._dsets[0].shape[0]:
                raise TaskError(
                    f"{step}: the dataset {path!r} has {dset.shape[0]} rows, and {paths[0]!r} has "
                    f"{self._dsets[0].shape[0]}; 'dsets' of one k-means need as many rows each"
                )
        self._widths = [int(np.prod(dset.shape[1:])) for dset in self._dsets]
        self.count = int(self._dsets[0].shape[0])
        self.features = sum(self._widths)
        single = all(dset.dtype.kind == "f" and dset.dtype.itemsize <= 4 for dset in self._dsets)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        if not self.features:
            raise TaskError(f"{step}: rows of {', '.join(map(repr, paths))} hold nothing; name other datasets")

    def rows(self, first: int, last: int) -> Array:
        """Samples in single precision if all datasets have that or less, else in double: (last - first, features)."""
        found = np.empty((last - first, self.features), self.dtype)
        if len(self._dsets) == 1 and self._dsets[0].dtype == self.dtype and self._dsets[0].size:
            self._dsets[0].read_direct(found.reshape(-1, *self._dsets[0].shape[1:]), np.s_[first:last])
            return found
        place = 0
        for dset, width in zip(self._dsets, self._widths, strict=True):
            found[:, place : place + width] = read(dset, slice(first, last)).reshape(last - first, width)
            place += width
        return found


class KMeansAnalyzer:
    """k-means on the samples of each step: every rank assigns its part, all move the centres alike."""

    def __init__(self, options: Mapping[str, Any], folder: Path, ranks: Group, before: Any) -> None:
        self._options, self._folder, self._ranks = options, folder, ranks
        self._k = int(options["k"])
        self._stem = folder / f"{stem_of_all(options['dsets'])}-kmeans"
        self._watch = Watch(ranks.rank, "+".join(options["dsets"])) if options["checked"] else None
        self._centres: Guarded | None = None
        self._weights = Guarded(np.zeros(self._k), "weights of the clusters")
        self._frame = Frame(np.zeros(0), 1.0)
        self._sums = {"samples": 0, "left_out": 0, "inertia": 0.0}
        head = ["step", "file", "samples", "left_out", "inertia", "moved", *(f"in {one}" for one in range(self._k))]
        table = self._stem.with_name(f"{self._stem.name}.csv")
        self._rows = Rows(table, head, before and before["table"]) if ranks.rank == 0 else None
        if before and before["centres"] is not None:
            self._centres = Guarded(np.array(before["centres"]), "centres")
            self._weights.put(np.array(before["weights"]))
            self._frame = Frame(np.array(before["origin"]), before["scale"])
            self._sums = before["sums"]

    def step(self, number: int, step: Step) -> Path | None:
        """Moves the centres by a step; one that holds no samples leaves them where they are."""
        name = step.filename
        if self._watch:
            self._watch.step = name
        samples = Samples(step.file, self._options["dsets"], name)
        if self._centres is None and samples.count:
            self._begin(samples, name)
        if self._centres is None:
            return self._write(number, name, _nothing(self._k, samples.features), 0.0, np.zeros((self._k, 0)))
        if samples.features != len(self._frame.origin):
            raise TaskError(
                f"{name}: samples of {samples.features} features, and those before have {len(self._frame.origin)}; the "
                "shapes of 'dsets' must stay, but for the first axis"
            )
        start = self._get(self._centres).copy()
        decay = 0.5 ** (1 / self._options["half_life"]) if self._options["half_life"] else 1.0
        weights = self._get(self._weights) * decay
        found = _nothing(self._k, samples.features)
        for _ in range(self._options["passes"]):
            found = self._assign(samples, self._get(self._centres))
            self._centres.put(self._same(partial(kmeans.moved, start, weights, found)))
        self._weights.put(weights + found.counts)
        if self._watch:
            self._agree()
        return self._write(number, name, found, *self._outcome(start, found))

    def _get(self, guarded: Guarded) -> Array:
        return guarded.get(self._watch) if self._watch else guarded.values

    def _same(self, work: Callable[[], Array]) -> Array:
        """A small result; checked, it is computed twice."""
        if self._watch is None:
            return work()
        try:
            return twice(work)
        except Flipped as fault:
            self._watch.note(fault)
        try:
            return twice(work)
        except Flipped as fault:
            raise self._watch.again(fault) from None

    def _agree(self) -> None:
        """All ranks have the same centres."""
        assert self._watch is not None and self._centres is not None
        seals = self._ranks.allgather(seal(self._centres.values))
        trouble = "" if len(set(seals)) == 1 else str(self._watch.again("the centres differ between the ranks"))
        agree(self._ranks, trouble)

    def _begin(self, samples: Samples, name: str) -> None:
        """Chooses the first centres among samples drawn from the whole step: the same on any number of ranks."""
        random = np.random.default_rng(self._options["seed"])
        size = min(samples.count, max(_CANDIDATES, 20 * self._k))
        picked = np.sort(random.choice(samples.count, size, replace=False))
        mine = []
        for first, last in self._ranges(samples):
            here = picked[np.searchsorted(picked, first) : np.searchsorted(picked, last)] - first
            if len(here):
                mine.append(self._drawn(samples, first, last, here))
        drawn = np.concatenate([one for some in self._ranks.allgather(mine) for one in some])
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        trouble = ""
        if len(drawn) < self._k:
            trouble = (
                f"{name}: {len(drawn)} finite samples among {size} drawn, and k-means of {self._options['dsets']} "
                f"needs {self._k} in the first step; mend 'k', or leave the first step out with 'io_freq' or 'flow'"
            )
        agree(self._ranks, trouble)
        frame, state = Frame.of(drawn), random.bit_generator.state

        def chosen() -> Array:
            random.bit_generator.state = state
            return kmeans.first_centres(frame.seen(drawn), self._k, random)

        centres = self._same(chosen) if self._ranks.rank == 0 else drawn[:0]
        self._frame, first_ones = self._ranks.allgather((frame, centres))[0]
        self._centres = Guarded(first_ones, "centres")

    def _drawn(self, samples: Samples, first: int, last: int, here: Array) -> Doubles:
        """Some of a piece's samples, in double precision."""
        read_rows = partial(samples.rows, first, last)
        if self._watch is None:
            return read_rows()[here].astype(np.float64)
        return self._watch.steady(read_rows, lambda piece: (piece[here].astype(np.float64), seal(piece)))

    def _ranges(self, samples: Samples) -> Iterator[tuple[int, int]]:
        """This rank's rows in pieces of whole blocks."""
        first, last = own_rows(samples.count, self._ranks.rank, self._ranks.size)
        block = kmeans.block_rows(samples.features, self._k, samples.dtype)
        at_once = max(1, _PIECE // samples.features // block) * block
        for start in range(first, last, at_once):
            yield start, min(start + at_once, last)

    def _assign(self, samples: Samples, centres: Doubles) -> Assigned:
        """One pass over the step, of all ranks together."""
        own = _nothing(self._k, samples.features)
        labels: list[Array] = []
        assign = self._assigner(samples, centres)
        block = kmeans.block_rows(samples.features, self._k, samples.dtype)
        sums = Guarded(own.sums, "sums of the clusters")
        counts = Guarded(own.counts, "counts of the clusters")
        for first, last in self._ranges(samples):
            for found in assign(first, last, block):
                sums.put(self._get(sums) + found.sums)
                counts.put(self._get(counts) + found.counts)
                own.inertia += found.inertia
                own.left_out += found.left_out
                if self._options["labels"]:
                    labels.append(found.labels)
        own.sums, own.counts = self._get(sums), self._get(counts)
        if labels:
            own.labels = np.concatenate(labels)
        return self._together(own)

    def _assigner(self, samples: Samples, centres: Doubles) -> Callable[[int, int, int], Iterator[Assigned]]:
        """Assigns rows, block by block."""
        seen = self._frame.seen
        if self._watch is None:
            table = Table.of(centres, samples.dtype)

            def plain(first: int, last: int, block: int) -> Iterator[Assigned]:
                piece = samples.rows(first, last)
                for start in range(0, last - first, block):
                    yield kmeans.assigned(seen(piece[start : start + block]), table)

            return plain
        assert self._centres is not None
        watch, known = self._watch, CheckedTable(self._centres, samples.dtype, self._watch)

        def again(first: int, last: int) -> Array:
            return seen(samples.rows(first, last))

        def checked(first: int, last: int, block: int) -> Iterator[Assigned]:
            piece = again(first, last)
            seals = [seal(piece[start : start + block]) for start in range(0, last - first, block)]
            for place, before in enumerate(seals):
                start, end = place * block, min((place + 1) * block, last - first)
                yield checked_kmeans.block(
                    piece[start:end],
                    before,
                    partial(again, first + start, first + end),
                    known,
                    watch,
                )

        return checked

    def _together(self, own: Assigned) -> Assigned:
        """The assignment of all ranks."""
        parts = self._ranks.allgather((own, _seals(own)))
        found = _nothing(*own.sums.shape)
        for rank, (part, seals) in enumerate(parts):
            if self._watch and _seals(part) != seals:
                raise self._watch.again(f"a bit of what rank {rank} has found has flipped on the way")
            found.sums += part.sums
            found.counts += part.counts
            found.inertia += part.inertia
            found.left_out += part.left_out
        if self._options["labels"]:
            found.labels = np.concatenate([part.labels for part, _ in parts])
        return found

    def _outcome(self, start: Doubles, found: Assigned) -> tuple[float, Doubles]:
        """How far a centre has moved at most, and the centres, in the units of the data."""
        assert self._centres is not None
        found.inertia = max(0.0, found.inertia / self._frame.scale / self._frame.scale)
        moved = float(np.sqrt(np.square(self._centres.values - start).sum(axis=1)).max()) / self._frame.scale
        self._sums["samples"] += int(found.counts.sum())
        self._sums["left_out"] += found.left_out
        self._sums["inertia"] += found.inertia
        return moved, self._frame.outside(self._centres.values)

    def _write(self, number: int, name: str, found: Assigned, moved: float, centres: Doubles) -> Path | None:
        if self._rows is None:
            return None
        samples = int(found.counts.sum())
        self._rows.add([number, name, samples, found.left_out, found.inertia, moved, *found.counts.tolist()])
        if not self._options["filename"]:
            return None
        path = self._folder / filled(self._options["filename"], number, name)
        values: dict[str, Any] = {"centres": centres, "counts": found.counts}
        if self._options["labels"]:
            values["labels"] = found.labels
        facts = {"samples": samples, "left_out": found.left_out, "inertia": found.inertia, "moved": moved}
        write_hdf5(path, values, {"step": number, "dsets": self._options["dsets"], **facts})
        return path

    def state(self) -> Any:
        """The centres, their weights and frame, the sums, and how long the table is."""
        return {
            "centres": None if self._centres is None else self._get(self._centres).tolist(),
            "weights": self._get(self._weights).tolist(),
            "origin": self._frame.origin.tolist(),
            "scale": self._frame.scale,
            "sums": self._sums,
            "table": self._rows and self._rows.durable(),
        }

    def end(self) -> None:
        """Writes what the run has come to."""
        if self._rows is None:
            return
        self._rows.close()
        centres = None if self._centres is None else self._frame.outside(self._get(self._centres)).tolist()
        values = {"centres": centres, "weights": self._get(self._weights).tolist(), **self._sums}
        write_json(self._stem.with_name(f"{self._stem.name}.json"), values)


def _seals(found: Assigned) -> tuple[int, ...]:
    return seal(found.sums), seal(found.counts), seal(found.labels)


def _nothing(clusters: int, features: int) -> Assigned:
    counts: NDArray[np.int64] = np.zeros(clusters, np.int64)
    return Assigned(np.zeros((clusters, features)), counts, 0.0, 0, np.zeros(0, np.int32))
