"""Versions in the memory of several nodes: parity is made with partners, and all nodes commit or none.

Nodes' first ranks, the agents, exchange the pieces, from the thread that flushes; what they hold of a version meanwhile
is a few pieces.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from wilkins import atomic
from wilkins.atomic import sync
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.partners.nodes import Nodes
from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.checkpoint.storage import erasure, versions
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.clearing import damage, has_room
from wilkins.tasks.checkpoint.storage.erasure import Coder, Partners, spans
from wilkins.tasks.checkpoint.storage.files import Pace, cannot, tidied
from wilkins.tasks.checkpoint.storage.layout import names_of
from wilkins.tasks.checkpoint.storage.node_parts import PARITY, SHEET, Code, Node, NodePart, Sheet, code_of, read_part
from wilkins.tasks.checkpoint.storage.rows import Files, Row
from wilkins.tasks.checkpoint.storage.versions import LATEST, Manifest, Version
from wilkins.tasks.group import Group, first_trouble

_LOG = logging.getLogger("wilkins.checkpoint")
PIECE = 1 << 20
"""Bytes of a chunk that are sent at once; an agent has k + m of them in memory twice."""


class NodeMemories:
    """The folders of a job in the memory of its nodes, one each.

    Args:
        memory: this node's.
        nodes: where the ranks are.
        partners: how parity is made; None: each node has its own part alone.
        piece: bytes of a chunk that have a digest and are sent at once.
    """

    def __init__(self, memory: Path, nodes: Nodes, partners: Partners | None, piece: int = PIECE) -> None:
        self.folder, self.nodes = memory, nodes
        self._partners, self._piece = partners, piece
        self._rows = tuple(Node(name, tuple(nodes.ranks_of(one))) for one, name in enumerate(nodes.names))
        self._groups = erasure.groups(len(nodes.names), partners) if partners is not None else []
        self._count = 0

    def check(self) -> None:
        """Find out now whether parity can be made.

        Raises:
            CheckpointError: there is no pyeclib.
        """
        if self._partners is not None:
            erasure.driver(self._partners.data, self._partners.parity)

    def newest(self) -> int:
        """The number of the newest version that this node has a part of; for agents."""
        return versions.newest(self.folder) if self.nodes.is_agent else 0

    def make_room(self, bytes_of: Sequence[float], ranks: Group, keep: int) -> None:
        """Remove versions beyond `keep` from all nodes now, if one of these has no room for one more. Collective.

        As many as `keep` that verify on all nodes stay, and all that are newer than these.

        Args:
            bytes_of: what each rank writes; infinity: what the file system says of its room is not to be trusted.
        """
        here = self._rows[self.nodes.here]
        size = sum(bytes_of[rank] for rank in here.ranks)
        if self._partners is not None:
            largest = max(sum(bytes_of[rank] for rank in row.ranks) for row in self._rows)
            size += largest * self._partners.parity / self._partners.data
        found: list[Version] = []
        lacking = False
        with contextlib.suppress(OSError):  # reported when the version is written: other ranks wait for this one here
            found = versions.versions(self.folder) if self.nodes.is_agent else []
            lacking = len(found) > keep and not has_room(self.folder, size, names_of(len(here.ranks)) + 2)
        if not any(ranks.allgather(lacking)):
            return
        whole: list[str] = []
        with contextlib.suppress(OSError):
            whole = [one.name for one in found if not damage(one)]
        gathered = [
            set(names) for names in ranks.allgather(whole if self.nodes.is_agent else None) if names is not None
        ]
        common = sorted(set.intersection(*gathered), key=lambda name: int(name.partition("-")[0]))
        if len(common) < keep:
            return
        oldest = int(common[-keep].partition("-")[0])
        if gone := sum(one.serial < oldest for one in found):
            _LOG.warning("no room for a version more in %s: those beyond the %d to keep go now", self.folder, keep)
            tidied(self.folder, len(found) - gone)

    def commit(self, path: Path, manifest: Manifest, ranks: Group, pace: Pace, keep: int) -> str:
        """Make what all ranks have written to the hidden folder `path`, of one name on all nodes, a version on all.

        Returns why there is none, or nothing. Collective. In two phases: when all nodes have synced their part, its
        manifest and its sheet, it is renamed on all. After a kill between two of these renames, the next job renames
        the rest: a node that has renamed shows that all had agreed.
        """
        due = self._partners is not None and self._count % self._partners.every == 0
        self._count += 1
        trouble = ""
        if self.nodes.is_agent:
            trouble = self._prepared(path, manifest, ranks, pace, due=due)
        if trouble := first_trouble(ranks.allgather(trouble)):
            if self.nodes.is_agent:
                versions.drop(path)
            return trouble
        if self.nodes.is_agent:
            try:
                self._rename(path, versions.name_of(manifest.serial, manifest.step))
            except OSError as error:
                trouble = cannot(error, path)
        trouble = first_trouble(ranks.allgather(trouble))
        if self.nodes.is_agent and not trouble:
            tidied(self.folder, keep)
        return trouble

    def _rename(self, path: Path, name: str) -> None:
        atomic.commit(path, self.folder / name)

    def _prepared(self, path: Path, manifest: Manifest, ranks: Group, pace: Pace, *, due: bool) -> str:
        """Returns what went wrong; meets the other agents all the same, or they would wait for ever."""
        code, trouble = None, ""
        digests: list[list[int]] = []
        if due and self._partners is not None:
            code = code_of(manifest, self._rows, self._groups, self._partners.parity, self._piece)
            coding = _Coding(path, manifest, code, self._rows, self.nodes, ranks, pace)
            coding.run()
            digests, trouble = coding.digests, coding.trouble
        if trouble:
            return trouble
        sheet = Sheet(manifest.seal, self.nodes.here, self._rows, code, tuple(map(tuple, digests)))
        try:
            versions.write_synced(path / SHEET, sheet.text())
            versions.write_manifest(path, manifest)
            sync(path)
        except Exception as error:
            return cannot(error, path)
        return ""

    def committed(self, ranks: Group) -> set[tuple[str, str]]:
        """Names and seals of the versions that some node has renamed. Collective."""
        parts, _ = self.parts()
        return set().union(*ranks.allgather({(part.path.name, part.manifest.seal) for part in parts}))

    def recover(self, committed: Collection[tuple[str, str]]) -> None:
        """Clear away what killed jobs left here; a version that some node has renamed is renamed, if it was prepared.

        For agents, which hold the locks of their folders; other ranks do nothing.

        Raises:
            OSError: that cannot be done.
        """
        if not self.nodes.is_agent:
            return
        prepared: dict[tuple[str, str], Path] = {}
        for entry in self.folder.iterdir():
            if name := versions.name_of_hidden(entry.name):
                with contextlib.suppress(Damaged):
                    prepared[name, read_part(entry, name).manifest.seal] = entry
        for (name, seal), entry in prepared.items():
            if (name, seal) in committed and not (self.folder / name).exists():
                self._rename(entry, name)
        for entry in self.folder.iterdir():
            if versions.is_unfinished(entry.name) or entry.name == LATEST:
                versions.remove(entry)

    def parts(self) -> tuple[list[NodePart], list[tuple[Version, str]]]:
        """What this node has of versions, oldest first, and what cannot be read there, and why.

        For agents; other ranks have none.
        """
        found: list[NodePart] = []
        damaged: list[tuple[Version, str]] = []
        for version in versions.versions(self.folder) if self.nodes.is_agent else ():
            one = _part_or_trouble(version)
            if isinstance(one, NodePart):
                found.append(one)
            else:
                damaged.append((version, one))
        return found, damaged


def _part_or_trouble(version: Version) -> NodePart | str:
    try:
        return read_part(version.path)
    except Damaged as error:
        return str(error)


class _Coding:
    """Making the parity of a group, piece by piece.

    A node on which something fails still sends what the others wait for, and reports the failure at the end.
    """

    def __init__(
        self, path: Path, manifest: Manifest, code: Code, rows: Sequence[Node], nodes: Nodes, ranks: Group, pace: Pace
    ) -> None:
        self._path, self._ranks, self._pace = path, ranks, pace
        self._group, self._piece = code.group_of(nodes.here), code.piece
        self._stripes = code.stripes(self._group)
        self._me = self._group.nodes.index(nodes.here)
        self._agents = [nodes.agents[node] for node in self._group.nodes]
        self._row = Row(manifest, rows[nodes.here].ranks)
        self._reading, self._writing = Files(path), Files(path, os.O_WRONLY | os.O_CREAT)
        self._coder: Coder | None = None
        data, parity, size = self._stripes.data, self._stripes.parity, min(code.piece, self._group.chunk)
        # Taken once: fresh pages cost more than what is done with them.
        self._mine, self._theirs, self._made, self._kept = (
            [np.zeros(size, np.uint8) for _ in range(count)] for count in (data, data, parity, parity - 1)
        )
        self.digests: list[list[int]] = [[] for _ in self._agents]
        """Digests of the pieces of this node's chunks, then of its parity chunks."""
        self.trouble = ""

    def run(self) -> None:
        """Write this node's parity. Collective over the agents of a group."""
        try:
            with self._noting():
                self._coder = Coder(self._stripes.data, self._stripes.parity)
                if self._group.chunk:
                    self._writing.reserve(PARITY, self._stripes.parity * self._group.chunk)
            for begin, end in spans(self._group.chunk, self._piece):
                made = self._parity_of(self._gathered(begin, end))
                self._keep(begin, self._swapped(made))
            with self._noting():
                self._writing.sync()
        finally:
            self._reading.close()
            self._writing.close()

    def _gathered(self, begin: int, end: int) -> list[Bytes]:
        """The pieces of the stripe whose parity this node makes; it sends its own pieces to the other nodes."""
        mine, theirs = _cut(self._mine, end - begin), _cut(self._theirs, end - begin)
        with self._noting():
            for chunk, piece in enumerate(mine):
                self._reading.read(self._row, chunk * self._group.chunk + begin, piece)
                self.digests[chunk].append(crc32(piece.data))
        self._pace.wait(sum(map(len, mine)))
        makers = [self._stripes.stripe_of(self._me, chunk) for chunk in range(len(mine))]
        givers = [self._stripes.member_with(self._me, chunk) for chunk in range(len(mine))]
        self._ranks.exchange(
            {self._agents[maker]: piece for maker, piece in zip(makers, mine, strict=True)},
            {self._agents[giver]: piece for giver, piece in zip(givers, theirs, strict=True)},
        )
        return theirs

    def _parity_of(self, pieces: list[Bytes]) -> list[Bytes]:
        made = _cut(self._made, len(pieces[0]))
        with self._noting():
            if self._coder is not None:
                self._coder.parity([piece.data for piece in pieces], [piece.data for piece in made])
        return made

    def _swapped(self, made: list[Bytes]) -> list[Bytes]:
        """The first parity piece stays here, the others go to the next members; returns those that this node keeps."""
        size, away = len(self._agents), range(1, len(made))
        kept = [made[0], *_cut(self._kept, len(made[0]))]
        self._pace.wait(sum(map(len, made[1:])))
        self._ranks.exchange(
            {self._agents[(self._me + part) % size]: made[part] for part in away},
            {self._agents[(self._me - part) % size]: kept[part] for part in away},
        )
        return kept

    def _keep(self, begin: int, kept: list[Bytes]) -> None:
        with self._noting():
            for part, piece in enumerate(kept):
                self._writing.write_at(PARITY, part * self._group.chunk + begin, piece.data)
                self.digests[self._stripes.data + part].append(crc32(piece.data))

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Remember what goes wrong first, and go on: others wait for pieces."""
        try:
            yield
        except CheckpointError as error:
            self.trouble = self.trouble or str(error)
        except Exception as error:
            self.trouble = self.trouble or cannot(error, self._path)


def _cut(buffers: Sequence[Bytes], size: int) -> list[Bytes]:
    return [one[:size] for one in buffers]
