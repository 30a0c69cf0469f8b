"""What `wilkins ckpt` does: list, verify, show, export and prune the versions in a folder. Needs no torch."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from wilkins.tasks.checkpoint.archive import command as of_pieces
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, NotThere
from wilkins.tasks.checkpoint.export import to_safetensors
from wilkins.tasks.checkpoint.state.tree import decode
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage, mend, recover
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.levels import in_memory
from wilkins.tasks.checkpoint.storage.locks import Lock, reading
from wilkins.tasks.checkpoint.storage.node_parts import NodePart, has_parts, read_part
from wilkins.tasks.checkpoint.storage.versions import LATEST, MANIFEST, Version


def _found(folder: Path) -> list[Version]:
    if of_pieces.is_place(folder):
        raise NotThere(
            f"{folder} is a place that has pieces of versions; `wilkins ckpt fetch {folder} FOLDER` makes a version"
        )
    found = versions.versions(folder)
    if not found:
        what = "holds no checkpoints" if folder.is_dir() else "is no folder"
        raise NotThere(f"{folder} {what}; give the folder that checkpoints are kept in")
    return found


def _one(folder: Path, name: str | None) -> Version:
    found = _found(folder)
    if name is None:
        return found[-1]
    for version in found:
        if name in (version.name, str(version.step)):
            return version
    raise NotThere(f"{folder} holds no version {name!r}; it holds {', '.join(one.name for one in found)}")


def listed(folder: Path) -> str:
    """A line per version, oldest first; then those that are spread over places."""
    if of_pieces.is_place(folder) or (of_pieces.has_places(folder) and not versions.versions(folder)):
        return of_pieces.listed(folder)
    latest = folder / LATEST
    target = latest.readlink().name if latest.is_symlink() else ""
    lines = [f"{'version':<28} {'step':>10} {'ranks':>6} {'files':>6} {'bytes':>15}  written"]
    for version in _found(folder):
        try:
            part = read_part(version.path)
        except Damaged as error:
            if version.path.exists():  # else it was pruned meanwhile
                lines.append(f"{version.name:<28} {version.step:>10} damaged: {error}")
            continue
        manifest = part.manifest
        when = _date(manifest.time)
        size = sum(manifest.files.values()) + sum(one.index_bytes for one in manifest.streams)
        mark = "  latest" if version.name == target else _part_of(part)
        lines.append(
            f"{version.name:<28} {version.step:>10} {len(manifest.streams):>6} {len(manifest.files):>6} {size:>15,}  "
            f"{when}{mark}"
        )
    if note := in_memory(folder):
        lines.append(note)
    if of_pieces.has_places(folder):
        lines.append(of_pieces.listed(folder))
    return "\n".join(lines)


def _date(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return "at no date that there is"


def _part_of(part: NodePart) -> str:
    """Which part of a version a node's folder has."""
    if part.sheet is None:
        return ""
    node = part.sheet.nodes[part.sheet.here]
    ranks = ", ".join(map(str, node.ranks))
    text = f"  here: node {part.sheet.here} of {len(part.sheet.nodes)} ({node.name}), rank {ranks}"
    if part.sheet.code is None:
        return f"{text}, no parity"
    return (
        f"{text}, parity for {part.sheet.code.parity} of {len(part.sheet.code.group_of(part.sheet.here).nodes)} nodes"
    )


def verified(folder: Path, name: str | None = None) -> tuple[str, bool]:
    """A line per version, or for one, after reading every byte; and whether all is as it was written."""
    if of_pieces.is_place(folder):
        return of_pieces.verified(folder)
    found = _found(folder) if name is None else [_one(folder, name)]
    answers = [(one, *_read(one)) for one in found]
    there = [answer for answer in answers if answer[2] or answer[0].path.exists()]  # the others were pruned meanwhile
    if not there:
        return verified(folder, name)
    lines = [f"{one.name}: {text}" for one, text, _ in there]
    good = all(good for _, _, good in there)
    if not good:
        lines.append("A damaged version is never restored; bring its files back from a copy, or remove its folder.")
    if name is None and of_pieces.has_places(folder):
        text, whole = of_pieces.verified(folder)
        return "\n".join([*lines, text]), good and whole
    return "\n".join(lines), good


@contextlib.contextmanager
def _explained(version: Version) -> Iterator[None]:
    """Say what to do about a version that cannot be read."""
    try:
        yield
    except Damaged as error:
        if not version.path.exists():
            raise NotThere(f"{version.name} was removed before it was open: a job saves there; try again") from error
        raise CheckpointError(
            f"{version.name} is damaged: {error}; bring its files back from a copy, or name another version "
            f"(`wilkins ckpt verify {version.path.parent}` says which are whole)"
        ) from error


def _read(version: Version) -> tuple[str, bool]:
    try:
        with reading(version.path / MANIFEST):
            if trouble := damage(version):
                return f"damaged: {trouble}", False
            part = read_part(version.path)
    except Damaged as error:
        return f"damaged: {error}", False
    total = sum(one.bytes + one.index_bytes for one in map(part.manifest.streams.__getitem__, part.ranks))
    whose = "" if part.sheet is None else " of this node's part, and its parity"
    return f"all right: {total:,} bytes{whose}", True


def shown(folder: Path, name: str | None = None) -> str:
    """The arrays of every rank in a version, by default the newest one."""
    version = _one(folder, name)
    with _explained(version), Contents(version.path) as contents:
        count = f"{contents.ranks} rank{'' if contents.ranks == 1 else 's'}"
        part = read_part(version.path)
        lines = [f"{version.name}: step {version.step}, saved by {count}{_part_of(part).replace('  here', '; here')}"]
        if part.sheet is None and (program := program_of(contents)):
            size = contents.manifest.files[program["file"]]
            what = f"{program['file']}: the program's {program['name']}, {size:,} bytes"
            return f"{version.name}: step {version.step}\n{what}"
        seen: set[str] = set()
        lines.append(f"{'rank':>4}  {'array':<48} {'type':<16} {'shape':<20} bytes")
        for rank in part.ranks:
            index = contents.index(rank)
            for key, number in index.paths.items():
                spec = index.entries[number].spec
                size = sum(length for _, _, _, length in index.entries[number].parts)
                if spec.placement == "replica":
                    if key in seen:
                        continue
                    seen.add(key)
                who = "all" if spec.placement == "replica" else str(rank)
                shape = "x".join(map(str, spec.shape)) or "scalar"
                if spec.placement == "shard":
                    shape += f" at {','.join(map(str, spec.offsets))} of {'x'.join(map(str, spec.whole))}"
                lines.append(f"{who:>4}  {key:<48} {spec.library + ' ' + spec.dtype:<16} {shape:<20} {size:,}")
    return "\n".join(lines)


def program_of(contents: Contents) -> dict[str, str]:
    """For a version of a program's own files: each file's name here, and the program's name for it."""
    index, stream = contents.index(0), contents.manifest.streams[0]
    if index.entries or stream.file == "data-0.bin":
        return {}
    found = decode(index.tree, lambda _: None)
    if not isinstance(found, dict) or found.get("file") != stream.file or not isinstance(found.get("name"), str):
        raise Damaged(f"{contents.path / stream.index} does not say what the program's file {stream.file} is")
    return {name: found[name] for name in ("file", "name")}


def exported(
    folder: Path, file: Path, name: str | None = None, *, only: Sequence[str], root: str, rank: int | None
) -> str:
    """Write arrays of a version, by default the newest one, to a safetensors file.

    Raises:
        CheckpointError: see `wilkins.tasks.checkpoint.export`; or the version is a program's own file.
    """
    version = _one(folder, name)
    with _explained(version), reading(version.path / MANIFEST):
        if read_part(version.path).sheet is not None:
            raise CheckpointError(
                f"{version.name} is in the memory of several nodes, and {folder} has one node's part; let a job with "
                "memory= restore it, which brings it to storage, and export it from there"
            )
        with Contents(version.path) as contents:
            if program := program_of(contents):
                raise CheckpointError(
                    f"{version.name} is a program's own file, and nothing is known of its arrays; copy "
                    f"{version.path / program['file']} instead"
                )
        done = to_safetensors(version.path, file, only=only, root=root, rank=rank)
    tied = "".join(f"\n{name} is {other}" for name, other in done.tied.items())
    count = f"{len(done.names)} array{'' if len(done.names) == 1 else 's'}"
    return f"wrote {count} of {done.version} to {file}, {done.bytes:,} bytes{tied}"


def pruned(folder: Path, keep: int) -> str:
    """Remove all but the newest versions, of which at least one that verifies is kept.

    Raises:
        CheckpointError: a job is writing there, or nothing would be left that verifies.
    """
    found = _found(folder)
    lock = Lock(folder)
    try:
        if has_parts(folder):  # what a job that was killed left there, the next one may need
            newest = next((one for one in reversed(found) if not damage(one)), None)
        else:
            recover(folder)
            newest = mend(folder)
        if newest is None or newest.name not in [one.name for one in found[-keep:]]:
            raise CheckpointError(
                f"none of the newest {keep} versions in {folder} verifies, so nothing is removed; keep more of them "
                "(--keep), and see `wilkins ckpt verify`"
            )
        gone = versions.prune(folder, keep)
    finally:
        lock.close()
    return "\n".join(f"removed {name}" for name in gone) or "nothing to remove"
