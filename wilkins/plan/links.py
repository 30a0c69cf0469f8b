"""How ports of a workflow file are named and joined."""

from __future__ import annotations

from typing import Literal

from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class PortRef:
    """A port of an entry of the workflow file."""

    task: int
    direction: Literal["in", "out"]
    port: int


@dataclass(frozen=True, slots=True)
class Link:
    """An out-port and an in-port that are joined, and which of their tasks' instances."""

    outport: PortRef
    inport: PortRef
    pairs: tuple[tuple[int, int], ...]
