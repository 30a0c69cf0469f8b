"""Versions that are spread over the memory of hosts, some of which die: they are read, and made safe again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts.rig import NEEDS, Rig

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Storage
from wilkins.tasks.checkpoint.archive.archive import opened
from wilkins.tasks.checkpoint.archive.repairing import repair

pytestmark = [
    pytest.mark.needs("root", "namespaces", "python:pyeclib", *NEEDS),
    pytest.mark.nightly,
    pytest.mark.timeout(150),
]


def test_hosts_die_with_their_pieces(tmp_path: Path) -> None:
    """As many hosts as there is parity, between versions and repairs; a version more than that cannot be read."""
    with Rig(6) as rig:
        places: list[dict[str, Any]] = [
            {"path": str(rig.memory_of(name) / "pieces"), "annual_failure": 0.01, "space": 50_000_000}
            for name in rig.names
        ]
        storage = Storage(places, reliability=0.999, keep=3)
        folder = tmp_path / "versions"
        with Checkpointer(folder, storage=storage, block=65536, keep=1) as checkpointer:
            for step in range(2):
                checkpointer.save(step, {"x": np.full(100_000, float(step))})
            checkpointer.wait()
            rig.kill("node0")  # while the program runs: the next version goes elsewhere
            checkpointer.save(2, {"x": np.full(100_000, 2.0)})
            checkpointer.wait()
        with opened(folder) as archive:
            assert len(archive.absent) == 1
            held = archive.held()
            assert [one.serial for one in held] == [1, 2, 3] and all(one.readable for one in held)
            assert len(held[2].where) == held[2].sheet.pieces
            for done in repair(archive):
                assert done.risk < 1e-2
            assert all(not archive.damaged(one) for one in archive.held())
            parity = archive.held()[-1].sheet.parity
        for number in range(1, 1 + parity):
            rig.kill(f"node{number}")
        with Checkpointer(tmp_path / "again", storage=storage) as checkpointer:
            restored = checkpointer.restore()
            assert restored is not None and restored.step == 2 and (restored.state["x"] == 2.0).all()
        for name in rig.names[1 + parity :]:
            rig.kill(name)
        with pytest.raises(CheckpointError, match="none of the places is there"):
            Checkpointer(tmp_path / "once more", storage=storage)
