"""Starts what a plan decided, watches over it, and reports: alone on this machine, or as ranks of one MPI job."""

from __future__ import annotations

from wilkins.launch.alone import clean, run
from wilkins.launch.options import RunOptions

__all__ = ["RunOptions", "clean", "run"]
