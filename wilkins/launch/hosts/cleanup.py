"""Cleans up on a host whose keeper is gone: ``cleanup.py RUN HOST``, started there by the head."""

from __future__ import annotations

import sys
from pathlib import Path

from wilkins.launch.hosts import remote
from wilkins.launch.programs.guard import end_members
from wilkins.transport.removal import sweep


def clean(run: Path, host: str) -> None:
    """End what an mpiexec on another host has started here, and free what the run has left."""
    end_members(remote.mark_of(run, host), variable=remote.MARK)
    sweep()


if __name__ == "__main__":
    clean(Path(sys.argv[1]), sys.argv[2])
