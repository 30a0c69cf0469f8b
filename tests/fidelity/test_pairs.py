"""Memory cannot be told from a file: what programs see of a step is what they see of the same file on disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import SYSTEM_PYTHON
from fidelity import rig


def assert_same(folder: Path, programs: list[rig.Program]) -> None:
    """Run the programs both ways; every case must come to what its source says."""
    rig.through_files(folder / "files", programs)
    rig.through_channels(folder / "channels", programs)
    found = rig.compare(folder / "files", folder / "channels", programs)
    assert not rig.wrong(found, programs), "\n".join(rig.wrong(found, programs))


def test_h5py(tmp_path: Path) -> None:
    """h5py with its own HDF5, read by itself and by the system's."""
    assert_same(tmp_path, rig.python_pairs(sys.executable, "h5py"))


@pytest.mark.needs("system-python:h5py")
def test_h5py_of_the_system(tmp_path: Path) -> None:
    """Debian's h5py, with HDF5 1.10."""
    assert_same(tmp_path, rig.python_pairs(SYSTEM_PYTHON, "h5py"))
