"""The promise of channels: from a step to an array of 128 MiB in less than a millisecond, with no byte copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.channels import measure

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("torch", [False, pytest.param(True, marks=pytest.mark.needs("python:torch"))])
def test_views_are_at_once_and_copy_nothing(tmp_path: Path, torch: bool) -> None:
    """Three tries let other load on the machine pass."""
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        publishing, views = measure(folder, torch=torch, steps=5, warm=2)
        assert views.copied == 0 and publishing.copied == 0
        if views.fastest < 1e-3 and views.second < 1e-3:
            return
    # With HDF5's opening of the file.
    pytest.fail(f"the first array of a step took {views.fastest * 1e3:.2f} ms, another {views.second * 1e3:.2f} ms")
