"""A version's part in one node's memory: what its ranks wrote, parity of partners, the sheet that says what is where.

MEMORY/000012-step-4000/manifest.json    of the whole version, the same on all nodes
                        partners.json    the sheet: which ranks' streams each node has, how parity is made
                        index-2.json     per rank of this node
                        data-2.bin
                        parity.bin       m parity chunks
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.erasure import Stripes, chunk_bytes, spans
from wilkins.tasks.checkpoint.storage.owners import owners
from wilkins.tasks.checkpoint.storage.regular_files import SHEETS, read_small
from wilkins.tasks.checkpoint.storage.rows import Files, Row
from wilkins.tasks.checkpoint.storage.versions import Manifest

SHEET, PARITY = "partners.json", "parity.bin"
FORMAT, FORMAT_VERSION = "wilkins-partners", 1
_NUMBERS = checked_json.items(checked_json.whole())
_SHEET = checked_json.record(
    {
        "format": checked_json.text,
        "version": checked_json.whole(),
        "manifest": versions.SHA256,
        "here": checked_json.whole(),
        "nodes": checked_json.items(checked_json.record({"name": checked_json.text, "ranks": _NUMBERS}), least=1),
        "code": checked_json.nothing_or(
            checked_json.record(
                {
                    "parity": checked_json.whole(1),
                    "piece": checked_json.whole(1, versions.LARGEST_BLOCK),
                    "groups": checked_json.items(
                        checked_json.record({"nodes": _NUMBERS, "chunk": checked_json.whole()})
                    ),
                }
            )
        ),
        "crc32": checked_json.items(checked_json.items(versions.CRC32)),
    }
)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the job that wrote a version."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodedGroup:
    """Nodes that keep parity of each other."""

    nodes: tuple[int, ...]
    chunk: int
    """Bytes of a chunk."""


@dataclass(frozen=True, slots=True)
class Code:
    """How parity was made."""

    parity: int
    piece: int
    """Bytes of a chunk that have a digest, and are sent at once."""
    groups: tuple[CodedGroup, ...]

    def group_of(self, node: int) -> CodedGroup:
        """The group that a node belongs to."""
        return next(one for one in self.groups if node in one.nodes)

    def stripes(self, group: CodedGroup) -> Stripes:
        """Where the fragments of a group are."""
        return Stripes(len(group.nodes), self.parity)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a node knows of a version beside its manifest."""

    manifest: str
    """The manifest's seal."""
    here: int
    """Number of this node."""
    nodes: tuple[Node, ...]
    code: Code | None
    """None: this version has no parity."""
    crc32: tuple[tuple[int, ...], ...]
    """Digests of the pieces of this node's chunks, then of its parity chunks."""

    def text(self) -> str:
        """As it is written."""
        body = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(self)}
        return json.dumps({"sha256": versions.seal_of(json.loads(json.dumps(body))), **body}) + "\n"


def read_sheet(path: Path) -> Sheet | None:
    """The sheet of a version's part; None if the version is whole in one folder, and has none.

    Raises:
        Damaged: it is not what was written.
    """
    file = path / SHEET
    try:
        return parsed(read_small(file, SHEETS), file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from error


def parsed(text: str | bytes, file: Path) -> Sheet:
    """A sheet from the text of a file, or from the text that another rank sent.

    Raises:
        Damaged: it is not what was written.
    """
    try:
        values = _SHEET(versions.unsealed(text, FORMAT, FORMAT_VERSION), "")
        nodes = tuple(Node(one["name"], one["ranks"]) for one in values["nodes"])
        code = values["code"]
        if code is not None:
            groups = tuple(CodedGroup(one["nodes"], one["chunk"]) for one in code["groups"])
            code = Code(code["parity"], code["piece"], groups)
        sheet = Sheet(values["manifest"], values["here"], nodes, code, values["crc32"])
        _check_sheet(sheet)
    except checked_json.Wrong as error:
        raise Damaged(f"{file} is not what was written: {error}") from error
    return sheet


def _check_sheet(sheet: Sheet) -> None:
    """Check that a sheet's numbers lead to existing parts.

    Raises:
        Wrong: they do not.
    """
    if sheet.here >= len(sheet.nodes):
        raise checked_json.wrong("here", sheet.here, "the number of a node")
    if sheet.code is None:
        return
    if sorted(one for group in sheet.code.groups for one in group.nodes) != list(range(len(sheet.nodes))):
        raise checked_json.Wrong("code.groups do not have each node once")
    if any(len(group.nodes) <= sheet.code.parity for group in sheet.code.groups):
        raise checked_json.Wrong("code.groups have no more nodes than parity")
    group = sheet.code.group_of(sheet.here)
    pieces = -(-group.chunk // sheet.code.piece)
    if [len(one) for one in sheet.crc32] != [pieces] * len(group.nodes):
        raise checked_json.Wrong("crc32 has not a digest for each piece of each chunk")


@dataclass(frozen=True, slots=True)
class NodePart:
    """What a node's folder has of a version."""

    path: Path
    manifest: Manifest
    sheet: Sheet | None
    """None: all of it."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Whose streams are here."""
        return (
            tuple(range(len(self.manifest.streams))) if self.sheet is None else self.sheet.nodes[self.sheet.here].ranks
        )

    def bad(self) -> list[tuple[int, int]]:
        """The pieces that are not what was written, after reading all that has digests here: chunk and piece.

        Parity chunks count on after the node's own. Without parity nothing is read.
        """
        if self.sheet is None or self.sheet.code is None:
            return []
        group = self.sheet.code.group_of(self.sheet.here)
        data = self.sheet.code.stripes(group).data
        row, found, files = Row(self.manifest, self.ranks), [], Files(self.path)
        buffer = np.empty(self.sheet.code.piece, np.uint8)
        try:
            for chunk, digests in enumerate(self.sheet.crc32):
                for piece, (begin, end) in enumerate(spans(group.chunk, self.sheet.code.piece)):
                    into = buffer[: end - begin]
                    try:
                        if chunk < data:
                            files.read(row, chunk * group.chunk + begin, into)
                        else:
                            files.read_at(PARITY, (chunk - data) * group.chunk + begin, into)
                    except OSError:
                        found.append((chunk, piece))
                        continue
                    if crc32(into.data) != digests[piece]:
                        found.append((chunk, piece))
        finally:
            files.close()
        return found

    def damage(self) -> str:
        """What is wrong with this node's part, after reading every byte of it; nothing if all is as it was written."""
        try:
            with Contents(self.path) as contents:
                contents.verify(self.ranks)
                for rank in self.ranks:
                    contents.index(rank)
        except Damaged as error:
            return str(error)
        if bad := self.bad():
            whose = self.owners(bad)
            return (
                f"{self.path}: {len(bad)} pieces of parity do not match their digests{whose and f'; those of {whose}'}"
            )
        return ""

    def owners(self, bad: Sequence[tuple[int, int]]) -> str:
        """Whose bytes damaged pieces hold, in words; empty where they are all parity."""
        if self.sheet is None or self.sheet.code is None:
            return ""
        group = self.sheet.code.group_of(self.sheet.here)
        data, every = self.sheet.code.stripes(group).data, spans(group.chunk, self.sheet.code.piece)
        ranges = [
            (chunk * group.chunk + every[piece][0], chunk * group.chunk + every[piece][1])
            for chunk, piece in bad
            if chunk < data
        ]
        row = Row(self.manifest, self.ranks)

        def index(rank: int) -> bytes:
            stream = self.manifest.streams[rank]
            return read_small(self.path / stream.index, stream.index_bytes)

        return owners(self.manifest, row, ranges, index, self.path)


def read_part(path: Path, name: str = "") -> NodePart:
    """What a folder has of a version; `name` is the version's, if the folder is still hidden.

    Raises:
        Damaged: its manifest or its sheet is not what was written.
    """
    manifest, sheet = versions.read_manifest(path), read_sheet(path)
    written = versions.name_of(manifest.serial, manifest.step)
    if written != (name or path.name):
        raise Damaged(f"{path} was written as {written}, and has been renamed; give it its name back")
    if sheet is not None:
        ranks = sorted(rank for node in sheet.nodes for rank in node.ranks)
        if sheet.manifest != manifest.seal or ranks != list(range(len(manifest.streams))):
            raise Damaged(f"{path / SHEET} belongs to another version")
    elif not all((path / one.file).exists() and (path / one.index).exists() for one in manifest.streams):
        raise Damaged(f"{path} has neither {SHEET} nor all files of the version")
    return NodePart(path, manifest, sheet)


def has_parts(folder: Path) -> bool:
    """Whether a folder holds versions of which parts are on other nodes."""
    return any(os.path.lexists(one.path / SHEET) for one in versions.versions(folder))


def code_of(
    manifest: Manifest, nodes: Sequence[Node], groups: Sequence[Sequence[int]], parity: int, piece: int
) -> Code:
    """How parity of a version is made over groups of nodes."""
    found = []
    for members in groups:
        lengths = [Row(manifest, nodes[one].ranks).length for one in members]
        found.append(CodedGroup(tuple(members), chunk_bytes(lengths, len(members) - parity)))
    return Code(parity, piece, tuple(found))
