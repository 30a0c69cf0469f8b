"""Parallel files whose ranks are on several hosts cannot be told from those on disk: the cases of tests/fidelity."""

from __future__ import annotations

from pathlib import Path

import pytest
from fidelity import parallel
from fidelity.parallel import Combination

HERE = Path(__file__).with_name("here")
"""Stands for ssh: keepers of all hosts are on this machine, so that nothing needs root."""

EACH = [pytest.param(each, id=str(each), marks=pytest.mark.needs(*each.column.needs)) for each in parallel.usual()]


@pytest.mark.nightly
@pytest.mark.timeout(6 * parallel.LIMIT)
@pytest.mark.parametrize("combination", EACH)
def test_a_step_of_ranks_on_several_hosts_is_what_the_file_would_be(
    combination: Combination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank is on a host of its own."""
    monkeypatch.setenv("WILKINS_RSH", str(HERE))
    monkeypatch.setenv("WILKINS_HOSTS", ",".join(f"host{number}:1" for number in range(8)))
    monkeypatch.setenv("OMPI_MCA_btl", "tcp,self")  # Open MPI's shared memory takes all of them for one host
    found = parallel.both_ways(tmp_path, combination)
    wrong = {name: text for name, text in found.items() if text != "same"}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
