"""The measurement of what checkpoints cost runs, and its figures mean something."""

from __future__ import annotations

import pytest

from benchmarks.checkpoint import measure


@pytest.mark.needs("python:torch")
def test_the_measurement_runs() -> None:
    cost = measure("wilkins", mib=1, tensors=2, batch=2, steps=2)
    assert 0 < cost.blocked < 60 and cost.blocked <= cost.durable + 0.1 and cost.step > 0
