"""Versions that are in the memory of nodes, brought to storage: lost parts are decoded from those of their partners.

Each node says which pieces of its part are what was written. All ranks make the same plan of that: whole parts are
copied by the ranks of the node that has them; of the others, pieces that are good are copied, and the rest is made of
any k fragments of their stripe.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np

from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.partners.nodes import Nodes
from wilkins.tasks.checkpoint.partners.parity import NodeMemories
from wilkins.tasks.checkpoint.partners.repair_plan import Copying, Decoding, Holder, Work, work_for
from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.checkpoint.storage import levels, node_parts, versions
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.erasure import Coder, spans
from wilkins.tasks.checkpoint.storage.files import Pace, cannot
from wilkins.tasks.checkpoint.storage.node_parts import PARITY, Code, CodedGroup, NodePart, Sheet
from wilkins.tasks.checkpoint.storage.rows import Files, Row
from wilkins.tasks.checkpoint.storage.versions import Manifest, Version
from wilkins.tasks.group import Group

_LOG = logging.getLogger("wilkins.checkpoint")


class Remembered:
    """A version that is in the memory of nodes, as `restore` meets it.

    Attributes:
        serial: its number.
        step: that was saved.
    """

    where = "in memory"

    def __init__(
        self, name: str, serial: int, step: int, memories: NodeMemories, part: NodePart | None, storage: Path,
        ranks: Group, files: int, pace: Pace,
    ) -> None:  # fmt: skip
        self.name, self.serial, self.step = name, serial, step
        self._memories, self._part, self._storage = memories, part, storage
        self._ranks, self._files, self._pace = ranks, files, pace

    def fetch(self) -> tuple[Version | None, str]:
        """Bring it to storage; returns it, or why that cannot be. Collective.

        Raises:
            CheckpointError: storage cannot be written.
        """
        manifest, sheet, holders = self._look()
        work = work_for(sheet, len(manifest.streams), holders)
        if isinstance(work, str):
            return None, work
        target = levels.relaid(manifest, self._files)
        new, trouble = Path(), ""
        if self._ranks.rank == 0:
            try:
                new = versions.hidden(self._storage, self.name)
            except OSError as error:
                trouble = cannot(error, self._storage)
        name, trouble = self._ranks.allgather((new.name, trouble))[0]
        if trouble:
            raise CheckpointError(f"{self.name} cannot be brought from memory to storage: {trouble}")
        new = self._storage / name
        try:
            self._agree(new, *self._carry_out(work, manifest, target, sheet, new))
            self._agree(new, *self._verified(work, target, new))
            self._agree(new, *self._commit(target, new))
        except Damaged as error:
            return None, str(error)
        return Version(self._storage / self.name, self.serial, self.step), ""

    def _agree(self, new: Path, damage: str, trouble: str) -> None:
        """Raise what went wrong on any rank, on all of them. Collective.

        Raises:
            Damaged: what is in memory is not what was written.
            CheckpointError: storage cannot be written.
        """
        gathered = self._ranks.allgather((damage, trouble))
        if not any(one for pair in gathered for one in pair):
            return
        if self._ranks.rank == 0:
            versions.drop(new)
        if found := next((one for _, one in gathered if one), ""):
            raise CheckpointError(f"{self.name} cannot be brought from memory to storage: {found}")
        raise Damaged(next(one for one, _ in gathered if one))

    def _look(self) -> tuple[Manifest, Sheet | None, list[Holder]]:
        """The parts of it on all nodes, after reading them. Collective."""
        mine = None
        if self._part is not None:
            sheet = self._part.sheet
            was, text = (-1, "") if sheet is None else (sheet.here, sheet.text())
            bad = self._part.bad()
            if bad and self._memories.nodes.is_agent:
                owners = self._part.owners(bad)
                _LOG.warning(
                    "%s: %d pieces are not what was written%s; what partners have is taken instead",
                    self._part.path, len(bad), f", in bytes of {owners}" if owners else "",
                )  # fmt: skip
            mine = self._memories.nodes.here, was, bad, self._part.manifest.text(), text
        gathered = [one for one in self._ranks.allgather(mine) if one]
        # A node that has all of it needs no other.
        gathered.sort(key=lambda one: one[1] != -1)
        holders = [Holder(node, was, frozenset(bad)) for node, was, bad, _, _ in gathered]
        _, _, _, manifest, sheet_text = gathered[0]
        where = self._memories.folder / self.name
        found = node_parts.parsed(sheet_text, where / node_parts.SHEET) if sheet_text else None
        return versions.parsed(manifest, where / versions.MANIFEST), found, holders

    def _carry_out(
        self, work: Work, manifest: Manifest, target: Manifest, sheet: Sheet | None, new: Path
    ) -> tuple[str, str]:
        """Do this rank's share; returns what is wrong with what is in memory, and what with storage."""
        nodes, damage, trouble = self._memories.nodes, "", ""
        here, source = nodes.here, self._memories.folder / self.name
        local = nodes.ranks_of(here)
        mine = sorted(stream for stream, node in work.streams.items() if node == here)
        for stream in mine[local.index(nodes.rank) :: len(local)]:
            wrong = self._copied(source, new, manifest, target, stream)
            damage, trouble = damage or wrong[0], trouble or wrong[1]
        if nodes.is_agent and sheet is not None and sheet.code is not None and (work.copies or work.decodings):
            pieces = _Pieces(manifest, target, sheet, sheet.code, source, new, nodes, self._ranks, self._pace)
            damage, trouble = pieces.carry_out(work, damage, trouble)
        return damage, trouble

    def _copied(self, source: Path, new: Path, manifest: Manifest, target: Manifest, stream: int) -> tuple[str, str]:
        try:
            levels.copy_stream(source, new, manifest, target, stream, self._pace)
        except Damaged as error:
            return str(error), ""
        except Exception as error:
            return "", cannot(error, new)
        return "", ""

    def _verified(self, work: Work, target: Manifest, new: Path) -> tuple[str, str]:
        """Compare what was made again with its digests, on storage; ranks share that."""
        again = [stream for stream in range(len(target.streams)) if stream not in work.streams]
        if not again:
            return "", ""
        trouble = ""
        if self._ranks.rank == 0:
            try:
                versions.write_manifest(new, target)
            except Exception as error:
                trouble = cannot(error, new)
        self._agree(new, "", trouble)
        try:
            with Contents(new) as contents:
                contents.verify(again[self._ranks.rank :: self._ranks.size])
        except Damaged as error:
            return f"what was made again from partners is not what was written: {error}", ""
        return "", ""

    def _commit(self, target: Manifest, new: Path) -> tuple[str, str]:
        if self._ranks.rank == 0:
            try:
                final = self._storage / self.name
                if final.exists():  # it does not verify, or nobody would have asked for this one
                    versions.remove(versions.hide(Version(final, self.serial, self.step)))
                versions.commit(new, target)
            except Exception as error:
                return "", cannot(error, self._storage)
        return "", ""


class Unreadable:
    """A version whose manifest no node can read any more."""

    where = "in memory"

    def __init__(self, name: str, serial: int, step: int, trouble: str) -> None:
        self.name, self.serial, self.step, self._trouble = name, serial, step, trouble

    def fetch(self) -> tuple[Version | None, str]:
        """Returns no version, and why."""
        return None, self._trouble


def remembered(
    memories: NodeMemories, storage: Path, ranks: Group, files: int, pace: Pace
) -> list[Remembered | Unreadable]:
    """The versions that nodes have parts of, oldest first. Collective."""
    parts, damaged = memories.parts()
    mine = {(one.path.name, one.manifest.seal): one for one in parts}
    good = [(one.manifest.serial, one.manifest.step, *key) for key, one in mine.items()]
    bad = [(one.serial, one.step, one.name, trouble) for one, trouble in damaged]
    gathered = ranks.allgather((good, bad))
    found: list[Remembered | Unreadable] = [
        Remembered(name, serial, step, memories, mine.get((name, seal)), storage, ranks, files, pace)
        for serial, step, name, seal in sorted({one for good, _ in gathered for one in good})
    ]
    known = {one.name for one in found}
    lost = {one[2]: one for _, bad in gathered for one in bad if one[2] not in known}
    found += [Unreadable(name, serial, step, trouble) for name, (serial, step, _, trouble) in lost.items()]
    return sorted(found, key=lambda one: one.serial)


class _Pieces:
    """What an agent does with pieces of parts that are not whole."""

    def __init__(
        self, manifest: Manifest, target: Manifest, sheet: Sheet, code: Code, source: Path, new: Path, nodes: Nodes,
        ranks: Group, pace: Pace,
    ) -> None:  # fmt: skip
        self._sheet, self._code, self._nodes, self._ranks, self._pace = sheet, code, nodes, ranks, pace
        self._held = [Row(manifest, one.ranks) for one in sheet.nodes]
        self._rows = [Row(target, one.ranks) for one in sheet.nodes]
        self._reading, self._writing = Files(source), Files(new, os.O_WRONLY | os.O_CREAT)
        self._coders: dict[int, Coder] = {}
        self._damage = self._trouble = ""
        self._target, self._new = target, new

    def carry_out(self, work: Work, damage: str, trouble: str) -> tuple[str, str]:
        """Copy and decode; other nodes get what they wait for even after an error. Returns what is wrong."""
        self._damage, self._trouble = damage, trouble
        try:
            for stream, one in enumerate(self._target.streams):
                if stream not in work.streams:
                    self._writing.extend(one.file, self._target.files[one.file])
            for copying in work.copies:
                if copying.node == self._nodes.here:
                    self._copy(copying)
            for decoding in work.decodings:
                self._decode(decoding)
            self._writing.sync()
        except Exception as error:
            self._trouble = self._trouble or cannot(error, self._new)
        finally:
            self._reading.close()
            self._writing.close()
        return self._damage, self._trouble

    def _copy(self, copying: Copying) -> None:
        group = self._code.group_of(copying.was)
        every = spans(group.chunk, self._code.piece)
        for chunk, piece in copying.pieces:
            begin, end = every[piece]
            data = np.empty(end - begin, np.uint8)
            self._read(copying.was, group, chunk, begin, data)
            self._write(copying.was, chunk * group.chunk + begin, data)

    def _decode(self, decoding: Decoding) -> None:
        here, group = self._nodes.here, decoding.group
        if here != decoding.decoder and here not in [node for _, node in decoding.sources]:
            return
        stripes = self._code.stripes(group)
        begin, end = spans(group.chunk, self._code.piece)[decoding.piece]
        agents, fragments = self._nodes.agents, {}
        send: dict[int, Bytes] = {}
        receive: dict[int, Bytes] = {}
        for fragment, node in decoding.sources:
            if here not in (node, decoding.decoder):
                continue
            data = fragments[fragment] = np.zeros(end - begin, np.uint8)
            if node == here:
                part = stripes.part_of(fragment)
                number = group.nodes[stripes.member_with(decoding.stripe, fragment)]
                self._read(number, group, part if fragment < stripes.data else stripes.data + part, begin, data)
                if decoding.decoder != here:
                    send[agents[decoding.decoder]] = data
            else:
                receive[agents[node]] = data
        self._pace.wait(sum(map(len, send.values())))
        self._ranks.exchange(send, receive)
        if here != decoding.decoder or self._trouble:
            return
        try:
            coder = self._coders.setdefault(stripes.size, Coder(stripes.data, stripes.parity))
            made = coder.data({number: data.data for number, data in fragments.items()})
        except Exception as error:
            self._trouble = str(error) if isinstance(error, CheckpointError) else cannot(error, self._new)
            return
        for chunk, number in decoding.lost:
            self._write(number, chunk * group.chunk + begin, np.frombuffer(made[chunk], np.uint8))

    def _read(self, number: int, group: CodedGroup, chunk: int, begin: int, into: Bytes) -> None:
        data = len(group.nodes) - self._code.parity
        try:
            if chunk < data:
                self._reading.read(self._held[number], chunk * group.chunk + begin, into)
            else:
                self._reading.read_at(PARITY, (chunk - data) * group.chunk + begin, into)
        except OSError as error:
            self._damage = self._damage or f"{error.filename} cannot be read: {error.strerror}"

    def _write(self, number: int, begin: int, data: Bytes) -> None:
        if self._trouble:
            return
        try:
            self._pace.wait(len(data))
            self._writing.write(self._rows[number], begin, data.data)
        except OSError as error:
            self._trouble = cannot(error, self._new)
