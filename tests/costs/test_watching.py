"""To watch a run in a browser costs less than a hundredth of a core."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.watching import measure

pytestmark = pytest.mark.bench


@pytest.mark.needs("cc")
@pytest.mark.timeout(300)
def test_the_page_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """CPU time, so that other load on the machine hardly counts."""
    alone, watched, watching = measure(tmp_path, 8, 30, web=True)
    print(
        f"launcher {100 * alone:.2f}%, watched {100 * watched:.2f}%, top --web {100 * watching:.2f}%", file=sys.stderr
    )
    assert watching < 0.01
    assert watched - alone < 0.005
