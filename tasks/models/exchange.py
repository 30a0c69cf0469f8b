"""Models as files that other tools read: safetensors, and the folders of Hugging Face. Needs neither torch nor NumPy.

model.safetensors                        tensors by name; the metadata hold what the store knows of the model
FOLDER/config.json, model.safetensors    as `transformers` writes them
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.atomic import new_folder, replacing
from wilkins.errors import refused
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.state import checked_json, safetensors
from wilkins.tasks.checkpoint.storage.regular_files import SHEETS, open_regular, read_small
from wilkins.tasks.models import graph as graphs
from wilkins.tasks.models.errors import ModelError
from wilkins.tasks.models.graph import Graph, chain_of_names, without_compiled
from wilkins.tasks.models.records import Record
from wilkins.tasks.models.tensors import Raw, Stored

CONFIG, TENSORS, PARTS = "config.json", "model.safetensors", "model.safetensors.index.json"
_OURS = "wilkins.model"
"""The key of metadata, and of a config, that holds what the store knows."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A model in files."""

    graph: Graph
    tensors: Mapping[str, Raw]
    about: Mapping[str, Any]
    score: float | None = None
    tags: tuple[str, ...] = ()


def exported(
    record: Record, tensors: Mapping[str, Stored], read: Callable[[Stored], bytearray], target: Path
) -> list[Path]:
    """Write tensors of a model to a `.safetensors` file, or to a new folder; returns the files.

    Args:
        record: the model.
        tensors: which of its tensors.
        read: gives the bytes of one.
        target: the file, if it is named so, else the folder.

    Raises:
        ModelError: there is such a folder, or no tensor to write.
        ResourceError: it cannot be written.
    """
    if not tensors:
        raise ModelError(f"the model {record.name!r} has no tensor there, so there is nothing to write; see its layers")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".safetensors":
            _write_tensors(record, tensors, read, target)
            return [target]
        if target.exists():
            raise ModelError(f"{target} is there already; give a new folder, or a file that ends with .safetensors")
        with new_folder(target) as folder:
            config = record.about.get("config")
            config = {**(config if isinstance(config, dict) else {}), _OURS: _known(record)}
            (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            _write_tensors(record, tensors, read, folder / TENSORS)
    except OSError as error:
        raise refused(target, "be written", error) from error
    return [target / CONFIG, target / TENSORS]


def _write_tensors(
    record: Record, tensors: Mapping[str, Stored], read: Callable[[Stored], bytearray], file: Path
) -> None:
    # Large elements first: each then begins at a multiple of its size.
    names = sorted(tensors, key=lambda name: (-safetensors.TYPES[tensors[name].dtype][1], name))
    shapes = {name: (tensors[name].dtype, tensors[name].shape) for name in names}
    header = safetensors.header(shapes, {"format": "pt", _OURS: json.dumps(_known(record))})
    with replacing(file, durable=True) as out:
        out.write(header)
        for name in names:
            out.write(read(tensors[name]))


def _known(record: Record) -> dict[str, Any]:
    """What a file says of the model beside its tensors."""
    return {
        "name": record.name,
        "graph": record.graph.plain(),
        "score": record.score,
        "tags": list(record.tags),
        "about": dict(record.about),
    }


_KNOWN = checked_json.record(
    {
        "name": checked_json.text,
        "graph": graphs.restored,
        "score": checked_json.nothing_or(checked_json.real),
        "tags": checked_json.items(checked_json.text),
        "about": checked_json.table(checked_json.text, lambda value, _: value),
    }
)


def found(source: Path) -> Foreign:
    """The model in a safetensors file, or in a folder as Hugging Face has them, also in several parts.

    Its layers are those that it had in a store, or else the chain that the names of its tensors give.

    Raises:
        ModelError: it is no model, or one in another format.
    """
    config: dict[str, Any] = {}
    try:
        if source.is_dir():
            if (source / CONFIG).exists():
                config = _object(source / CONFIG)
            files = _parts(source)
        else:
            files = [source]
        tensors: dict[str, Raw] = {}
        metadata: dict[str, str] = {}
        for file in files:
            with _opened(file) as descriptor:
                places, said = safetensors.places(descriptor, file)
            tensors |= {without_compiled(name): _raw(file, place) for name, place in places.items()}
            metadata |= said
    except OSError as error:
        raise ModelError(f"{source} cannot be read: {error.strerror}; give a safetensors file or a folder") from error
    except CheckpointError as error:
        raise ModelError(str(error)) from error
    ours = config.pop(_OURS, None)
    try:
        if ours is None and _OURS in metadata:
            ours = checked_json.parse(metadata[_OURS])
        known = None if ours is None else _KNOWN(ours, _OURS)
    except checked_json.Wrong as error:
        raise ModelError(f"{source} does not say what a model store writes: {error}; export it again") from error
    about = {"config": config} if config else {}
    if known is None or any(name not in tensors for one in known["graph"].layers for name in one.tensors.values()):
        shapes = {name: (one.dtype, one.shape) for name, one in tensors.items()}
        return Foreign(chain_of_names(shapes, about), tensors, about)
    return Foreign(known["graph"], tensors, about | known["about"], known["score"], known["tags"])


def _parts(folder: Path) -> list[Path]:
    """The files of a folder that hold its tensors."""
    if (folder / PARTS).exists():
        names = _object(folder / PARTS).get("weight_map")
        try:
            parts = checked_json.table(checked_json.text, checked_json.file_name)(names, "weight_map")
        except checked_json.Wrong as error:
            raise ModelError(f"{folder / PARTS} does not say where tensors are: {error}") from error
        return [folder / name for name in sorted(set(parts.values()))]
    if (folder / TENSORS).exists():
        return [folder / TENSORS]
    raise ModelError(
        f"{folder} holds neither {TENSORS} nor {PARTS}; save the model with safetensors (in transformers: "
        "`save_pretrained`), or give the file"
    )


def _object(file: Path) -> dict[str, Any]:
    try:
        values = checked_json.parse(read_small(file, SHEETS))
    except checked_json.Wrong as error:
        raise ModelError(f"{file} is no JSON that can be used: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{file} holds no object of JSON")
    return values


def _raw(file: Path, place: safetensors.Place) -> Raw:
    """A tensor in a file, which is read when it is put."""

    def read() -> bytearray:
        data = bytearray(place.nbytes)
        with _opened(file) as descriptor:
            view, offset = memoryview(data), place.offset
            while view and (count := os.preadv(descriptor, [view], offset)):
                view, offset = view[count:], offset + count
        if view:
            raise ModelError(f"{file} is shorter than it was; give it when it is whole")
        return data

    return Raw(place.dtype, place.shape, read)


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    descriptor = open_regular(file)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
