"""What the launcher of a run over a thousand hosts takes: a real one, with keepers that only say what keepers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.many_hosts import measure

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


def test_each_of_a_thousand_hosts_takes_what_each_of_a_hundred_does(tmp_path: Path) -> None:
    """All of them meet, and hear what concerns them; the head has a connection to each."""
    folders = [tmp_path / name for name in ("few", "many")]
    for folder in folders:
        folder.mkdir()
    few, many = (measure(folder, hosts, 5) for folder, hosts in zip(folders, (100, 1000), strict=True))
    assert many.begun_bytes < 1.5 * 10 * few.begun_bytes
    assert many.plan_s < 2 * 10 * max(few.plan_s, 0.02)
    assert many.descriptors < 1100
    assert many.memory_bytes < 100e6
