"""How a rank finds the parent that has started it, if it is one of `wilkins.tasks.elastic`."""

from __future__ import annotations

ADDRESS = "WILKINS_ELASTIC"
"""Tells a rank the name of the socket at which its parent listens."""
RANK = "WILKINS_ELASTIC_RANK"
"""Tells a rank its number, which is its own for the whole training."""
SIZE = "WILKINS_ELASTIC_SIZE"
"""Tells a rank how many there were at the beginning."""
INTERFACE = "WILKINS_ELASTIC_INTERFACE"
"""Tells a rank the address by which ranks on other hosts reach it; without it, all are on this host."""
