"""Starts programs of tests with the points at which they are killed (kill_points.py)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from support import kill_points

kill_points.install()
