"""GDumb, a baseline: keep a balanced choice of samples, and train anew on nothing else (Prabhu, Torr, Dokania: GDumb: A
Simple Approach that Questions Our Progress in Continual Learning, ECCV 2020).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from wilkins.tasks.continual.learner.batches import INPUT
from wilkins.tasks.continual.learner.strategies import with_past
from wilkins.tasks.continual.learner.strategy import Strategy
from wilkins.tasks.continual.learner.terms import Batch
from wilkins.tasks.continual.rehearsal.arrays import describe, labels_of
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.rehearsal.draws import generators
from wilkins.tasks.continual.rehearsal.statistics import Statistics

if TYPE_CHECKING:
    from mpi4py import MPI


class GDumb(Strategy):
    """Begin anew at every experience and train on what a greedy sampler has kept so far, in balance.

    Each rank keeps its own samples, in host memory. Of `options` their room, label, balance and seed count; they are
    saved with the state.
    """

    name = "gdumb"
    buffered = False
    restarts = True

    def __init__(self, options: RehearsalOptions | None, comm: MPI.Intracomm | None = None, *, port: str = "") -> None:
        if options is None or options.group is None:
            raise ValueError("the strategy 'gdumb' needs room, and classes, steps or tasks to balance: give both")
        super().__init__(options, comm, port=port)
        self._options = options
        self._group = str(options.group)
        rank, ranks = (comm.rank, comm.size) if comm else (0, 1)
        self._rng = generators(options.seed, rank, ranks)[2]
        self._kept: dict[str, Tensor] = {}
        self._seen: list[int] = []
        self._experiences = 0
        self._room = options.samples or 0

    def begin(self, data: Batch, *, again: bool = False) -> Batch:
        if again:
            return dict(self._kept)
        if self._group == "step":
            data = {**data, "step": torch.full((len(data[INPUT]),), self._experiences)}
        self._experiences += 1
        every, before = with_past(self._kept, data), len(next(iter(self._kept.values()), ()))
        if self._options.bytes:
            self._room = self._options.bytes // describe(every)[0].row_bytes
        groups = self._groups(every)
        rows = greedy_choice(groups[:before], groups[before:], self._seen, self._room, self._rng)
        self._seen = list(dict.fromkeys([*self._seen, *groups]))
        self._kept = {name: tensor[rows] for name, tensor in every.items()}
        return dict(self._kept)

    def _groups(self, samples: Batch) -> list[int]:
        found: list[int] = labels_of(samples[self._group], self._options.classes, self._group).tolist()
        return found

    def statistics(self) -> Statistics:
        groups = Counter(self._groups(self._kept)) if self._kept else Counter()
        return Statistics(capacity=self._room, size=groups.total(), classes=dict(sorted(groups.items())))

    def state_dict(self) -> dict[str, Any]:
        return {
            "kept": dict(self._kept),
            "seen": self._seen,
            "experiences": self._experiences,
            "room": self._room,
            "generator": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._kept, self._seen = dict(state["kept"]), list(state["seen"])
        self._experiences, self._room = state["experiences"], state["room"]
        self._rng.bit_generator.state = state["generator"]


def greedy_choice(
    kept: Sequence[int], new: Sequence[int], seen: Sequence[int], room: int, rng: np.random.Generator
) -> list[int]:
    """Which samples to keep, of those that were kept before and new ones, given the group of each, and all groups seen
    before: the greedy sampler (algorithm 1 of the paper). Ascending positions in both together.

    A new sample is taken if its group has less than an equal share of the room. If there is no room left, a random
    sample of the largest group, of equal ones that came first, has to go.
    """
    members: dict[int, list[int]] = {group: [] for group in seen}
    for place, group in enumerate(kept):
        members[group].append(place)
    size = len(kept)
    for place, group in enumerate(new, len(kept)):
        mine = members.setdefault(group, [])
        if len(mine) * len(members) >= room:
            continue
        if size >= room:
            largest = max(members.values(), key=len)
            largest.pop(int(rng.integers(len(largest))))
            size -= 1
        mine.append(place)
        size += 1
    return sorted(place for mine in members.values() for place in mine)
