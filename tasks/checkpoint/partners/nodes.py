"""Which ranks share a node, and so its memory; the first rank of each node is its agent. Pure, but for asking."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wilkins.tasks.group import Group


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a job, in the order of their first ranks."""

    names: tuple[str, ...]
    of: tuple[int, ...]
    """Number of each rank's node."""
    rank: int

    @property
    def here(self) -> int:
        """Number of this rank's node."""
        return self.of[self.rank]

    @property
    def agents(self) -> tuple[int, ...]:
        """The first rank of each node: it cares for the node's folder, and talks to other nodes."""
        return tuple(self.of.index(node) for node in range(len(self.names)))

    @property
    def is_agent(self) -> bool:
        """Whether this rank is its node's."""
        return self.of.index(self.here) == self.rank

    def ranks_of(self, node: int) -> list[int]:
        """All ranks of a node."""
        return [rank for rank, one in enumerate(self.of) if one == node]


def find_nodes(ranks: Group, name: str | None = None) -> Nodes:
    """Ask all ranks where they are: by host name and boot, or the name that each of them is given. Collective."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    own = name or f"{os.uname().nodename}\n{boot.read_text().strip() if boot.exists() else ''}"
    gathered = ranks.allgather(own)
    names = list(dict.fromkeys(gathered))
    return Nodes(tuple(one.partition("\n")[0] for one in names), tuple(map(names.index, gathered)), ranks.rank)
