"""Batches of random programs of one process: h5py on HDF5 2.0 and 1.10, in any combination."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from conftest import SYSTEM_PYTHON, missing
from fidelity.batches import Batch, Program, Side, draw
from fidelity.random_serial import programs
from hypothesis.strategies import SearchStrategy

COUNT = 200
"""Programs of a batch."""


def make(start: int, count: int) -> tuple[Batch, SearchStrategy[Program]]:
    """The batch of a seed, and what its programs were drawn from."""
    chance = random.Random(start)
    pythons = ["own"] if missing("system-python:h5py") else ["own", "system"]
    again = chance.random() < 0.4
    named = {
        "family": "serial",
        "kind": "again" if again else "case",
        "write": chance.choice(pythons),
        "read": chance.choice(pythons),
        "queue": chance.randint(2, 5) if again else chance.randint(4, 8),
    }
    strategy = programs(reopened=again)
    return batch(named, draw(strategy, count, start)), strategy


def inputs(kind: str, some: Sequence[Program]) -> dict[str, str]:
    """The programs, and the files that lie on disk under their files' names before them."""
    told = {"batch.json": json.dumps({"kind": kind, "programs": list(some)})}
    return told | {f"{kind}-{k:04d}.h5": "x" * part["stale"] for k, part in enumerate(some) if "stale" in part}


def batch(named: dict[str, Any], drawn: Sequence[Program]) -> Batch:
    """Programs with what else a batch follows from."""
    kind = named["kind"]

    def side(action: str) -> Side:
        python = {"own": sys.executable, "system": SYSTEM_PYTHON}[named[action]]
        argv = (python, "-m", "fidelity.perform", action, f"{action}.txt", "batch.json")
        return Side(action, argv, (f"{action}.txt",), apart=("apart",))

    return Batch(
        drawn,
        (side("write"), side("read")),
        {f"{kind}-*.h5": "next" if kind == "again" else "close", "target-*.h5": "close"},
        lambda some: inputs(kind, some),
        {"file": {}, "calls": [], "take": {"reads": []}},
        named["queue"],
        named=named,
    )
