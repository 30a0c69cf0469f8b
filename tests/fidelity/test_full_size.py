"""Files of full size: a dataset of 3 GiB, a group of 100,000 objects; ``make soak`` runs them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fidelity import rig


@pytest.mark.skipif("WILKINS_FULL_SIZE" not in os.environ, reason="takes minutes and 4 GiB of /dev/shm")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["three_gib", "hundred_thousand_objects"])
def test_a_step_of_full_size(tmp_path: Path, name: str) -> None:
    """What all consumers see of a dataset of 3 GiB, and of 100,000 datasets, is what they see of the file."""
    source = rig.PAIRS / "size" / "full.py"
    program = rig.Program((sys.executable, "-m", "fidelity.cases"), (source,), rig.python_cases(source)).only(name)
    try:
        assert rig.both_ways(tmp_path, program, 900) == {name: "same"}
    finally:
        for file in tmp_path.glob("files/case-*.h5"):
            file.unlink()
