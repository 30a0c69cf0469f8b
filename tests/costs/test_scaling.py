"""What a step costs does not depend on how many tasks the workflow has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.scaling import measure

pytestmark = pytest.mark.bench


@pytest.mark.needs("gcc")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fan_in", [False, True], ids=["n to n", "n to 1"])
def test_cost_per_step_from_4_to_64_tasks(tmp_path: Path, fan_in: bool) -> None:
    """Latency and CPU time grow by at most 20 %. Four tries let other load on the machine pass."""
    seen = []
    for attempt in range(4):
        scales = []
        for count in (4, 64):
            folder = tmp_path / f"{attempt}-{count}"
            folder.mkdir()
            scales.append(measure(folder, count, 1 if fan_in else count, steps=40))
        seen.append(scales)
        few, many = scales
        if many.late_us <= 1.2 * few.late_us and many.cpu_us <= 1.2 * few.cpu_us:
            return
    pytest.fail(f"never within 20 %: {seen}")


@pytest.mark.needs("gcc")
@pytest.mark.timeout(120)
def test_fan_out_to_64_readers(tmp_path: Path) -> None:
    """Every reader gets every step; a delivery costs no more CPU than with 4 readers."""
    few = measure(tmp_path, 1, 4, steps=30)
    folder = tmp_path / "many"
    folder.mkdir()
    many = measure(folder, 1, 64, steps=30)
    assert many.cpu_us <= 1.2 * few.cpu_us
