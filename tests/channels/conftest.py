"""What tests of channels share."""

from __future__ import annotations

from pathlib import Path

import pytest
from channels.programs import Tasks


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    """An empty folder for a workflow."""
    return Tasks(tmp_path)
