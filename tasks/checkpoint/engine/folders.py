"""The folders of a checkpointer: storage, and before it maybe the memories of nodes. Opened, locked, and freed."""

from __future__ import annotations

import errno
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from wilkins.tasks.checkpoint.archive.archive import Archive
from wilkins.tasks.checkpoint.engine.restore import Elsewhere
from wilkins.tasks.checkpoint.engine.spread import spread_versions
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.partners.nodes import Nodes, find_nodes
from wilkins.tasks.checkpoint.partners.parity import PIECE, NodeMemories
from wilkins.tasks.checkpoint.partners.rescue import remembered
from wilkins.tasks.checkpoint.placement.places import Storage
from wilkins.tasks.checkpoint.ranks import together
from wilkins.tasks.checkpoint.storage import levels, versions
from wilkins.tasks.checkpoint.storage.clearing import make_room, mend, recover
from wilkins.tasks.checkpoint.storage.erasure import Partners
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.storage.locks import Lock
from wilkins.tasks.checkpoint.storage.node_parts import has_parts
from wilkins.tasks.group import Group

_LOG = logging.getLogger("wilkins.checkpoint")


class Folders:
    """Where the versions of some ranks are.

    Attributes:
        storage: shared by all ranks.
        memory: in this node's memory; None: there is only storage.
        memories: of all nodes, where there are several, or partners; else None.
        unwritable: why nothing can be saved; empty if it can.
        archive: rank 0's, if versions are spread over places.
        spreads: whether they are.
    """

    def __init__(self, storage: Path, memory: Path | None, ranks: Group) -> None:
        self.storage = storage
        self.memory = memory
        self.memories: NodeMemories | None = None
        self.unwritable = ""
        self.archive: Archive | None = None
        self.spreads = False
        self._ranks = ranks
        self._locks: list[Lock] = []

    def open(self, partners: Partners | None, node: str | None, *, keep: int, leaders: bool, block: int) -> None:
        """Lock and mend them. Collective; the arguments are those of `Checkpointer`.

        Raises:
            CheckpointError: another program writes there, or there are too few nodes; nothing is locked then.
        """
        nodes = find_nodes(self._ranks, node) if self.memory is not None else None
        try:
            self._together(self._open_storage)
            self.unwritable = self._ranks.allgather(self.unwritable)[0]
            if self.memory is None or nodes is None:
                return
            parts = self._ranks.allgather(nodes.is_agent and has_parts(self.memory))
            if partners is None and len(nodes.names) == 1 and not any(parts):
                self._together(self._open_memory)
                self._together(lambda: self._remember(nodes, keep))
                return
            if leaders and len(nodes.names) > 1:
                raise CheckpointError(
                    f"leaders=True: leaders read in the memory of one node, and the ranks are on {len(nodes.names)}; "
                    "leave it out"
                )
            self.memories = NodeMemories(self.memory, nodes, partners, min(PIECE, block))
            self._together(self._open_memories)
            self._together(lambda: self._remember(nodes, keep))
            memories, committed = self.memories, self.memories.committed(self._ranks)
            self._together(lambda: memories.recover(committed))
        except CheckpointError:
            self.unlock()
            raise

    def open_archive(self, storage: Storage, keep: int, pace: Pace) -> None:
        """Lock and mend the places that versions are spread over. Collective.

        Raises:
            CheckpointError: another program has one of them, or none is there; nothing is locked then.
        """
        self.spreads = not self.unwritable
        if self.unwritable:
            return

        def act() -> None:
            if self._ranks.rank == 0:
                self.archive = Archive(storage, self.storage, keep, pace)

        try:
            self._together(act)
        except CheckpointError:
            self.unlock()
            raise
        if self.archive is not None:
            self.archive.tell()

    def unlock(self) -> None:
        """Let other programs write there."""
        if self.archive is not None:
            self.archive.close()
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def sources(self, files: int, pace: Pace) -> tuple[list[Path], list[Elsewhere]]:
        """Folders with versions, and versions that are to be brought to storage first: nodes have parts of them, or
        places have pieces. Collective."""
        away: list[Elsewhere] = []
        if self.spreads:
            away += spread_versions(self.archive, self.storage, self._ranks)
        if self.memories is not None:
            return [self.storage], [*away, *remembered(self.memories, self.storage, self._ranks, files, pace)]
        if self.memory is not None:
            return [self.memory, self.storage], away
        if self._ranks.rank == 0 and (note := levels.in_memory(self.storage)):
            _LOG.warning("restoring from %s, but %s", self.storage, note)
        return [self.storage], away

    def mend(self, folders: Sequence[Path]) -> None:
        """Some version does not verify: `latest` must not lead to it. For rank 0, which has the locks."""
        try:
            for folder in folders if self._ranks.rank == 0 and not self.unwritable else ():
                mend(folder)
        except OSError as error:
            _LOG.warning("`latest` in %s cannot be mended: %s", self.storage, error.strerror)

    def free_memory(self) -> None:
        """Free what is in memory, if all of it is on storage. Collective."""
        if self.memory is None:
            return
        if self.memories is not None:
            agent = self.memories.nodes.is_agent
            all_there = not agent or levels.has_all_of(self.storage, self.memory)
            if not all(self._ranks.allgather(all_there)):
                return
            if agent:
                levels.forget(self.memory)
        elif self._ranks.rank == 0 and levels.has_all_of(self.storage, self.memory):
            levels.forget(self.memory)
        else:
            return
        if self._ranks.rank == 0:
            levels.forgotten(self.storage)

    def _together(self, act: Callable[[], None]) -> None:
        """Do something on all ranks.

        Raises:
            CheckpointError: it failed on one of them; raised on all.
        """

        def named(error: OSError) -> str:
            return f"cannot write checkpoints to {self.storage}: {error.strerror}; give another folder"

        together(self._ranks, act, named)

    def _open_storage(self) -> None:
        if self._ranks.rank != 0:
            return
        try:
            self._locks.append(Lock(self.storage))
            recover(self.storage)
        except OSError as error:
            if error.errno not in versions.NOT_WRITABLE or not versions.versions(self.storage):
                raise
            self.unwritable = f"{self.storage} cannot be written to ({error.strerror})"
            _LOG.warning("%s; the checkpoints there can be restored, and none can be saved", self.unwritable)

    def _remember(self, nodes: Nodes, keep: int) -> None:
        if self._ranks.rank != 0 or self.memory is None or self.unwritable:
            return
        try:
            levels.remember(self.storage, self.memory, nodes.names)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            make_room(self.storage, keep, math.inf, 1)
            levels.remember(self.storage, self.memory, nodes.names)

    def _open_memory(self) -> None:
        if self._ranks.rank == 0 and self.memory is not None:
            levels.open_memory(self.memory)
            self._locks.append(Lock(self.memory))
            recover(self.memory)

    def _open_memories(self) -> None:
        if self.memories is not None and self.memory is not None:
            self.memories.check()
            if self.memories.nodes.is_agent:
                levels.open_memory(self.memory)
                self._locks.append(Lock(self.memory))
