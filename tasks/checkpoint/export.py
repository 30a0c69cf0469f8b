"""A version as one safetensors file: arrays by name that any framework reads, nothing else. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wilkins.atomic import replacing
from wilkins.tasks.checkpoint.engine.restore import check_boxes, fill_box
from wilkins.tasks.checkpoint.engine.state_plan import matches
from wilkins.tasks.checkpoint.errors import CheckpointError, Unsupported
from wilkins.tasks.checkpoint.state import safetensors
from wilkins.tasks.checkpoint.state.sources import Bytes, Spec, numpy_dtype
from wilkins.tasks.checkpoint.state.tree import leaves
from wilkins.tasks.checkpoint.storage.contents import Contents, Entry
from wilkins.tasks.checkpoint.storage.files import cannot


@dataclass(frozen=True, slots=True)
class Exported:
    """What a file holds."""

    version: str
    names: tuple[str, ...]
    tied: Mapping[str, str]
    """Names that are not in the file, since they were another name for an array that is: that one's."""
    bytes: int
    """Bytes of the arrays."""


@dataclass(slots=True)
class _Array:
    """An array of the file."""

    path: str
    entry: Entry
    dtype: str

    @property
    def itemsize(self) -> int:
        return safetensors.TYPES[self.dtype][1]

    @property
    def nbytes(self) -> int:
        return self.itemsize * math.prod(self.entry.spec.whole)


@dataclass(slots=True)
class _Found:
    """The arrays of ranks under a path: the first rank's, and whether that is all."""

    entry: Entry
    identity: tuple[int, int]
    """Rank and number: those of one array are the same."""
    ranks: list[int] = field(default_factory=list)


def to_safetensors(
    version: Path, file: Path, *, only: Sequence[str] = (), root: str = "", rank: int | None = None
) -> Exported:
    """Write arrays of a version to a safetensors file, which takes its name when it is whole.

    An array is named by its path in the state. Shards are joined. Of tied arrays one is written, under the name that
    sorts first; the file's metadata say for each other name which one that is, as `safetensors.torch.save_model` does.

    Args:
        version: its folder, such as `checkpoints/latest`.
        file: what to write.
        only: patterns of paths (`model*`; a name stands for all below it); all else is left out.
        root: only what stands below this path, named from there on: with `model`, a model's own names.
        rank: whose arrays are taken where each rank has its own.

    Raises:
        Unsupported: what is selected holds what the format cannot: plain values, other types, one name several times.
        Damaged: the version is not what was written.
        CheckpointError: nothing is selected; the file cannot be written.
    """
    with Contents(version) as contents:
        found = _select(contents, tuple(only), root.strip("/"), rank)
        arrays, tied = _untied(found, root.strip("/"))
        named = contents.path.resolve().name
        metadata = {"format": "pt" if any(one.entry.spec.library == "torch" for one in arrays.values()) else "np"}
        shapes = {name: (one.dtype, one.entry.spec.whole) for name, one in arrays.items()}
        header = safetensors.header(shapes, metadata | {"wilkins.version": named} | tied)
        try:
            with replacing(file, durable=True) as out:
                out.write(header)
                for one in arrays.values():
                    out.write(_bytes_of(contents, one).data)
        except OSError as error:
            raise CheckpointError(cannot(error, file)) from error
    return Exported(named, tuple(arrays), tied, sum(one.nbytes for one in arrays.values()))


def _select(contents: Contents, only: tuple[str, ...], root: str, rank: int | None) -> dict[str, _Found]:
    """What is to be exported, by its path; refuses what the format cannot hold."""
    name = contents.path.resolve().name
    if rank is not None and not 0 <= rank < contents.ranks:
        raise CheckpointError(f"there is no rank {rank}: {name} was saved by ranks 0 to {contents.ranks - 1}")
    found: dict[str, _Found] = {}
    plain: dict[str, str] = {}
    twice: list[str] = []
    for number in range(contents.ranks):
        index = contents.index(number)
        seen: set[str] = set()
        for path, value in leaves(index.tree):
            if (root and not path.startswith(f"{root}/")) or (only and not matches(path, only)):
                continue
            if path in seen:
                twice.append(path)
            seen.add(path)
            if not (isinstance(value, dict) and "array" in value):
                plain[path] = _kind_of(value)
                continue
            array = int(value["array"])
            entry = index.entries[array]
            if entry.spec.placement != "local":
                found.setdefault(path, _Found(entry, (0, array))).ranks.append(number)
            elif number == rank:
                found[path] = _Found(entry, (number, array), [number])
            elif rank is None:
                found.setdefault(path, _Found(entry, (number, array))).ranks.append(number)
    if plain:
        values = [f"{path or 'the state'} ({kind})" for path, kind in plain.items()]
        raise Unsupported(
            f"{name} holds values that are no arrays, and safetensors holds arrays alone: {_listed(values)}; choose "
            "what to export with --only PATTERN, or --root PATH"
        )
    if twice:
        raise Unsupported(f"{name} has several values of one name: {_listed(twice)}; leave them out with --only")
    own = [path for path, one in found.items() if one.entry.spec.placement == "local" and len(one.ranks) > 1]
    if own:
        raise Unsupported(
            f"each rank has its own {_listed(own)}, and a file holds one array of a name; say whose with --rank K, or "
            "leave them out with --only"
        )
    strange = [
        f"{path} ({one.entry.spec.dtype})"
        for path, one in found.items()
        if _type_of(one.entry.spec) not in safetensors.TYPES
    ]
    if strange:
        raise Unsupported(f"safetensors has no such type: {_listed(strange)}; leave them out with --only")
    if not found:
        raise CheckpointError(f"{name} holds no array that is to be exported; `wilkins ckpt show` lists them")
    return found


def _untied(found: Mapping[str, _Found], root: str) -> tuple[dict[str, _Array], dict[str, str]]:
    """The arrays as they are named and ordered in the file, each once; and the other names of those that have some."""
    arrays: dict[str, _Array] = {}
    tied: dict[str, str] = {}
    first: dict[tuple[int, int], str] = {}
    for path in sorted(found):
        name, one = path[len(root) + 1 :] if root else path, found[path]
        if one.identity in first:
            tied[name] = first[one.identity]
            continue
        first[one.identity] = name
        arrays[name] = _Array(path, one.entry, _type_of(one.entry.spec))
    # Large elements first: each then begins at a multiple of its size.
    ordered = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    return {name: arrays[name] for name in ordered}, tied


def _bytes_of(contents: Contents, array: _Array) -> Bytes:
    """An array's elements in order, little-endian, compared with their digests."""
    spec = array.entry.spec
    if spec.placement == "shard":
        check_boxes(contents, array.path, spec)
        whole = np.empty(spec.whole, np.dtype(f"V{array.itemsize}"))
        fill_box(contents, array.path, spec, whole, (0,) * len(spec.whole))
        memory: Bytes = whole.reshape(-1).view(np.uint8) if whole.size else np.empty(0, np.uint8)
    else:
        memory = contents.read(array.entry, np.empty(array.nbytes, np.uint8))
    if spec.library == "numpy" and (kind := numpy_dtype(spec.dtype)).str.startswith(">"):
        memory = memory.view(kind).astype(kind.newbyteorder("<")).view(np.uint8)
    return memory


def _type_of(spec: Spec) -> str:
    return spec.dtype if spec.library == "torch" else numpy_dtype(spec.dtype).name


def _kind_of(value: Any) -> str:
    """What a value that is no array is, for a person."""
    if isinstance(value, dict):
        kind = str(next(iter(value)))
        return {"scalar": "a NumPy scalar", "size": "a torch.Size"}.get(kind, kind)
    return "None" if value is None else type(value).__name__


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:5]) + (f" and {len(every) - 5} more" if len(every) > 5 else "")
