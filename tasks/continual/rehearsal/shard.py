"""One rank's shard of the buffer: its samples, their slots, and its random generators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from wilkins.tasks.continual.errors import BadSample
from wilkins.tasks.continual.rehearsal.arrays import Rows
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.rehearsal.draws import Ints, draw_candidates, draw_numbers, generators
from wilkins.tasks.continual.rehearsal.population import Placement, Population
from wilkins.tasks.continual.rehearsal.sample_layout import SampleLayout
from wilkins.tasks.continual.rehearsal.sample_store import HostRows, Store, make_store


class Shard:
    """Made empty; the first batch tells what samples are like, and so how many there is room for."""

    def __init__(self, options: RehearsalOptions, rank: int, ranks: int) -> None:
        self.options = options
        self.layout: SampleLayout | None = None
        self.population = Population(0, options.eviction)
        self.classes: Counter[int] = Counter()
        self._generators = generators(options.seed, rank, ranks)
        self._labels = np.empty(0, np.int64)
        self._store: Store | None = None

    def adopt(self, layout: SampleLayout) -> None:
        """Take samples of this layout from now on.

        Raises:
            BadSample: earlier ones were different, or there is not room for a single one.
        """
        if self.layout is not None:
            difference = self.layout.difference(layout)
            if difference is not None:
                raise difference
            return
        capacity = self.options.samples
        if capacity is None:
            assert self.options.bytes is not None
            capacity = self.options.bytes // layout.row_bytes
            if capacity == 0:
                raise BadSample(
                    f"a sample takes {layout.row_bytes:,} bytes, but the buffer has room for {self.options.bytes:,}: "
                    "raise 'bytes'"
                )
        self._store = make_store(self.options.device, capacity, layout.row_bytes)
        self._labels = np.full(capacity, -1, np.int64)
        self.population = Population(capacity, self.options.eviction)
        self.layout = layout

    @property
    def store(self) -> Store:
        """Where the samples are."""
        assert self._store is not None, "no batch was adopted"
        return self._store

    def candidates(self, samples: int) -> Ints:
        """Choose a batch's candidates."""
        options = self.options
        return draw_candidates(
            self._generators[0], samples, options.batch, options.candidates, each=options.eviction == "random"
        )

    def draw(self, population: int) -> Ints:
        """Choose representatives among all ranks' samples."""
        return draw_numbers(self._generators[1], population, self.options.representatives)

    def answer(self, wanted: Ints) -> HostRows:
        """The samples that another rank drew: rows of (row of the table of counts, position)."""
        return self.store.host(self.population.slots(wanted[:, 0], wanted[:, 1]))

    def insert(self, rows: Rows, labels: Ints, groups: Ints) -> Placement:
        """Offer candidates."""
        before = self.population.size
        placement = self.population.insert(groups.tolist(), self._generators[2])
        if len(placement.slots) == 0:
            return placement
        kept = rows if len(placement.sources) == len(rows) and _ascending(placement.sources) else _pick(rows, placement)
        self.store.put(placement.slots, kept)
        if self.options.label is not None:
            self.classes.subtract(self._labels[placement.slots[placement.slots < before]].tolist())
            self._labels[placement.slots] = labels[placement.sources]
            self.classes.update(labels[placement.sources].tolist())
        return placement

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything a restart needs: arrays, and values that JSON can hold."""
        assert self.layout is not None, "no batch was adopted"
        slots = np.arange(self.population.size)
        arrays = {"rows": self.store.host(slots), "labels": self._labels[slots], **self.population.state()}
        values = {
            "layout": self.layout.to_json(),
            "capacity": self.population.capacity,
            "generators": [generator.bit_generator.state for generator in self._generators],
        }
        return arrays, values

    def restore(self, arrays: dict[str, Any], values: dict[str, Any]) -> None:
        """Continue from a `state`.

        Raises:
            ValueError: the state contradicts itself or does not fit this shard's room.
        """
        self.adopt(SampleLayout.from_json(values["layout"]))
        if values["capacity"] != self.population.capacity:
            raise ValueError(
                f"it has room for {values['capacity']} samples, this one for {self.population.capacity}: give the same "
                "'samples' or 'bytes'"
            )
        self.population.restore(arrays)
        slots = np.arange(self.population.size)
        self.store.put(slots, arrays["rows"])
        self._labels[slots] = arrays["labels"]
        if self.options.label is not None:
            self.classes = Counter(arrays["labels"].tolist())
        for generator, state in zip(self._generators, values["generators"], strict=True):
            generator.bit_generator.state = state


def _ascending(sources: Ints) -> bool:
    return bool((np.diff(sources) > 0).all())


def _pick(rows: Rows, placement: Placement) -> Rows:
    if isinstance(rows, np.ndarray):
        return rows[placement.sources]
    return rows[placement.sources.tolist()]
