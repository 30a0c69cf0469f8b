"""One round of the buffer: draw representatives from all ranks, fetch them, and only then insert the new candidates.

All ranks take part in every round. Ranks exchange their counts at its beginning, and a part does not change
before it has answered every rank. A rank therefore gets exactly the samples that it draws by these counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from wilkins.tasks.continual.errors import BadSample, RankFailed, RehearsalError
from wilkins.tasks.continual.rehearsal.arrays import Array, Kind, Rows, unpack, with_nan
from wilkins.tasks.continual.rehearsal.draws import Ints, locate, places
from wilkins.tasks.continual.rehearsal.exchange import Fetched, fetch
from wilkins.tasks.continual.rehearsal.sample_layout import SampleLayout
from wilkins.tasks.continual.rehearsal.shard import Shard
from wilkins.tasks.continual.rehearsal.statistics import Statistics
from wilkins.tasks.group import Group

Intent = Literal["offer", "fail", "close"]
_INTENTS: tuple[Intent, ...] = ("offer", "fail", "close")


@dataclass(frozen=True, slots=True)
class Offer:
    """The input of a rank to a round."""

    step: int
    intent: Intent = "offer"
    reason: str = ""
    """Why the rank stops, if it does."""
    first: bool = False
    """The first round since the start: ranks compare what their samples are like."""
    port: str = ""
    rows: Rows = None
    """The candidates."""
    chosen: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Where in the batch they were."""
    labels: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    groups: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """What each candidate shares its room with."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """What arrays the representatives are to be."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of a round for a rank."""

    rows: Rows
    arrays: dict[str, Array]
    kinds: Mapping[str, Kind]


def play(shard: Shard, group: Group, offer: Offer, so_far: Statistics) -> tuple[Drawn | None, Statistics]:
    """Take part in a round; representatives, unless it is one of closing.

    Raises:
        BadSample: a candidate holds NaN, and the policy is to stop.
        RankFailed: another rank stopped or does not agree.
    """
    began = time.perf_counter()
    failure: RehearsalError | None = None
    skipped = 0
    if offer.intent == "offer":
        try:
            offer, skipped = _without_nan(shard, offer)
        except BadSample as error:
            failure, offer = error, replace(offer, intent="fail", reason=str(error))
    tables = _agree(shard, group, offer, failure)
    if offer.intent != "offer":
        return None, so_far

    population = sum(int(table[:, 1].sum()) for table in tables)
    numbers = shard.draw(population)
    located = locate(np.sort(numbers), [table[:, 1] for table in tables])
    wanted = [
        np.stack([located.entry[here], located.position[here]], axis=1)
        for here in (located.rank == rank for rank in range(group.size))
    ]
    assert shard.layout is not None
    fetched = fetch(group, wanted, shard.answer, shard.layout.row_bytes)
    mine = wanted[group.rank]
    rows = shard.store.join(
        _stacked(fetched, range(group.rank), shard.layout),
        shard.population.slots(mine[:, 0], mine[:, 1]),
        _stacked(fetched, range(group.rank + 1, group.size), shard.layout),
        places(numbers),
    )
    drawn = Drawn(rows, unpack(rows, shard.layout, offer.kinds), offer.kinds)
    placement = shard.insert(offer.rows, offer.labels, offer.groups)
    elsewhere = sum(len(part) for part in fetched.rows.values())
    return drawn, replace(
        so_far,
        step=offer.step + 1,
        capacity=shard.population.capacity,
        size=shard.population.size,
        sample_bytes=shard.layout.row_bytes,
        classes={label: count for label, count in sorted(shard.classes.items()) if count},
        population=population,
        candidates=so_far.candidates + len(offer.labels),
        kept=so_far.kept + len(placement.slots),
        replaced=so_far.replaced + placement.replaced,
        skipped=so_far.skipped + skipped,
        drawn=so_far.drawn + len(rows),
        drawn_elsewhere=so_far.drawn_elsewhere + elsewhere,
        messages=so_far.messages + len(fetched.rows),
        bytes_received=so_far.bytes_received + elsewhere * shard.layout.row_bytes,
        bytes_sent=so_far.bytes_sent + fetched.sent,
        round_seconds=so_far.round_seconds + time.perf_counter() - began,
    )


def _without_nan(shard: Shard, offer: Offer) -> tuple[Offer, int]:
    """The offer, less the candidates that hold NaN, and how many these were."""
    if shard.options.nan == "keep" or len(offer.labels) == 0:
        return offer, 0
    assert shard.layout is not None
    bad = with_nan(unpack(offer.rows, shard.layout, offer.kinds))
    if not bad:
        return offer, 0
    if shard.options.nan == "error":
        name, mask = next(iter(bad.items()))
        raise BadSample(
            f"sample {offer.chosen[np.argmax(mask)]} holds NaN; mend the source, or set nan='skip' or nan='keep'",
            port=offer.port,
            step=offer.step,
            tensor=name,
        )
    good = np.flatnonzero(~np.any(list(bad.values()), axis=0))
    rows = offer.rows[good] if isinstance(offer.rows, np.ndarray) else offer.rows[good.tolist()]
    kept = {name: getattr(offer, name)[good] for name in ("chosen", "labels", "groups")}
    fewer = replace(offer, rows=rows, **kept)
    return fewer, len(offer.labels) - len(good)


def _agree(shard: Shard, group: Group, offer: Offer, failure: RehearsalError | None) -> list[Ints]:
    """Exchange counts, and find out whether all ranks are in the same step and of one mind."""
    head = [offer.step, _INTENTS.index(offer.intent), int(offer.first)]
    gathered = group.allgather(np.array([*head, *shard.population.counts().ravel()], np.int64))
    steps = [int(values[0]) for values in gathered]
    intents = [_INTENTS[int(values[1])] for values in gathered]
    if "fail" in intents or any(values[2] for values in gathered):
        layout = shard.layout.to_json() if shard.layout is not None else ""
        texts = group.allgather(offer.reason if offer.intent == "fail" else layout)
        if failure is not None:
            raise failure
        if offer.intent != "fail":
            _check_others(shard, offer, intents, texts)
    if offer.intent == "fail":
        return []
    if len(set(steps)) > 1 or len(set(intents)) > 1:
        doing = {"offer": "offers its batch", "close": "closes the buffer"}
        raise RankFailed(
            "the ranks of a rehearsal buffer must offer equally many batches (empty ones, if need be) and close it "
            "together, but "
            + ", ".join(
                f"rank {rank} {doing[intent]} at step {step}"
                for rank, (step, intent) in enumerate(zip(steps, intents, strict=True))
            )
        )
    return [values[3:].reshape(-1, 2) for values in gathered]


def _check_others(shard: Shard, offer: Offer, intents: list[Intent], texts: list[str]) -> None:
    for rank, (intent, text) in enumerate(zip(intents, texts, strict=True)):
        if intent == "fail":
            raise RankFailed(f"rank {rank} stopped: {text}")
    if shard.layout is None:
        return
    for rank, text in enumerate(texts):
        difference = shard.layout.difference(SampleLayout.from_json(text)) if text else None
        if difference is not None:
            where = difference.at(offer.port, offer.step)
            raise RankFailed(f"samples of rank {rank} are unlike those of this one: {where}")


def _stacked(fetched: Fetched, ranks: range, layout: SampleLayout) -> Any:
    parts = [fetched.rows[rank] for rank in ranks if rank in fetched.rows]
    return np.concatenate(parts) if parts else np.empty((0, layout.row_bytes), np.uint8)
