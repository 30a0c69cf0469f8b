"""What a store knows of a model beside its tensors' bytes: a file of JSON, sealed by its own digest."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wilkins.errors import suggest
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.storage.regular_files import SHEETS, read_small
from wilkins.tasks.checkpoint.storage.versions import SHA256, seal_of, unsealed
from wilkins.tasks.models import graph
from wilkins.tasks.models.errors import DamagedModel, ModelError, NoSuchModel
from wilkins.tasks.models.graph import Graph
from wilkins.tasks.models.tensors import SPEC, Stored

FORMAT, FORMAT_VERSION = "wilkins-model", 1
SUFFIX = ".json"
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
REMOVED = ".removed"
"""A file in the store that has another time after models were removed."""
SHELVES = "0123456789abcdef"
"""Folders that models' files are in, by the digests of their names: a change of one is found without a look at all."""
_NAME = checked_json.like(NAMES, "a model's name")
_PARENT = checked_json.record({"name": _NAME, "sha256": SHA256})
_RECORD = checked_json.record(
    {
        "format": checked_json.text,
        "version": checked_json.whole(),
        "name": _NAME,
        "time": checked_json.real,
        "graph": graph.restored,
        "tensors": checked_json.table(checked_json.text, SPEC),
        "parent": checked_json.nothing_or(_PARENT),
        "score": checked_json.nothing_or(checked_json.real),
        "tags": checked_json.items(checked_json.text),
        "about": checked_json.table(checked_json.text, lambda value, _: value),
    }
)


@dataclass(frozen=True, slots=True)
class Parent:
    """The model that another one was derived from. It may have been removed, and its name given to another one."""

    name: str
    sha256: str
    """Its seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored model."""

    name: str
    graph: Graph
    tensors: Mapping[str, Stored]
    """By their names in the model's state."""
    parent: Parent | None = None
    score: float | None = None
    """How good it is: more is better."""
    tags: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else its writer says of it, as values of JSON."""
    time: float = 0.0
    """Seconds since 1970 by the clock of the machine that put it: for people; nothing depends on it."""

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return sum(one.nbytes for one in self.tensors.values())

    @property
    def seal(self) -> str:
        """The digest of all that is said of it."""
        return seal_of(self._body())

    @property
    def identity(self) -> str:
        """The digest of what it is: all that is said of it but for its name and when it was put."""
        body = self._body()
        return seal_of({name: body[name] for name in ("graph", "tensors", "parent", "score", "tags", "about")})

    def text(self) -> str:
        """As it is written."""
        return json.dumps({"sha256": self.seal, **self._body()}, indent=None, separators=(",", ":")) + "\n"

    def _body(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "name": self.name,
            "time": self.time,
            "graph": self.graph.plain(),
            "tensors": {
                name: {"dtype": one.dtype, "shape": list(one.shape), "blob": one.blob}
                for name, one in self.tensors.items()
            },
            "parent": self.parent and {"name": self.parent.name, "sha256": self.parent.sha256},
            "score": self.score,
            "tags": list(self.tags),
            "about": dict(self.about),
        }

    def of_layers(self, patterns: Sequence[str]) -> dict[str, Stored]:
        """The tensors of some layers; a layer's name stands for all below it, too.

        Raises:
            NoSuchModel: a pattern matches no layer.
        """
        if isinstance(patterns, str):
            raise ModelError(f"layers are the text {patterns!r}; give a list of them: [{patterns!r}]")
        found: dict[str, Stored] = {}
        for pattern in patterns:
            layers = [one for one in self.graph.layers if _matches(one.name, pattern)]
            if not layers:
                known = [one.name for one in self.graph.layers]
                near = suggest(pattern, known) or f"; its layers are {', '.join(known[:8])}" + ", ..." * (
                    len(known) > 8
                )
                raise NoSuchModel(f"the model {self.name!r} has no layer {pattern!r}{near}")
            found |= {name: self.tensors[name] for one in layers for name in one.tensors.values()}
        return found


def file_of(models: Path, name: str) -> Path:
    """The file of a model, in the folder of all."""
    return models / hashlib.sha256(name.encode()).hexdigest()[0] / f"{name}{SUFFIX}"


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or name.startswith(f"{pattern}.") or fnmatch.fnmatchcase(name, pattern)


def check_name(name: str) -> None:
    """Look at a name that somebody gives a model.

    Raises:
        ModelError: no model is called so.
    """
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        raise ModelError(
            f"a model cannot be called {name!r}; a name has letters, digits, '.', '-' and '_', 100 at most, and begins "
            "with a letter or a digit"
        )


def plain_score(score: Any) -> float | None:
    """A score that somebody gives a model, also as a number of NumPy or torch, as JSON gives it back.

    Raises:
        ModelError: it is no finite number.
    """
    if score is None:
        return None
    try:
        value = math.nan if isinstance(score, str | bytes | bool) else float(score)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ModelError(
            f"the score of a model is {score!r:.80}, and must be a finite number; leave it out if it has none"
        )
    return score if type(score) in (int, float) else value


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody says about a model, as JSON gives it back.

    Raises:
        ModelError: JSON has no such values.
    """
    try:
        found = checked_json.parse(json.dumps(dict(values), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(
            f"what is said about the model cannot be kept: {error}; give numbers, texts, lists and dictionaries of them"
        ) from error
    assert isinstance(found, dict)
    return found


def read_record(file: Path) -> Record:
    """What is written of a model.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedModel: it cannot be read, or is not what was written.
    """
    try:
        raw = read_small(file, SHEETS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedModel(f"{file} cannot be read: {error.strerror}") from error
    try:
        return _record(raw, file.name)
    except checked_json.Wrong as error:
        raise DamagedModel(f"{file} is not what was written: {error}") from error


def written(record: Record) -> bytes:
    """A model as its file has it; it was read again, since what cannot be read must not be put.

    Raises:
        ModelError: something of it is no value that is kept.
    """
    try:
        raw = record.text().encode()
        if len(raw) > SHEETS:
            raise checked_json.Wrong(f"it takes {len(raw):,} bytes without its tensors, of which {SHEETS:,} are kept")
        _record(raw, f"{record.name}{SUFFIX}")
    except (TypeError, ValueError, RecursionError, checked_json.Wrong) as error:
        raise ModelError(
            f"the model {record.name!r} cannot be kept: {error}; give tags as texts, and configurations of layers as "
            "numbers, texts, lists and dictionaries of them"
        ) from error
    return raw


def _record(raw: bytes, file: str) -> Record:
    """What is written of a model. Raises Wrong if it is something else."""
    values = _RECORD(unsealed(raw, FORMAT, FORMAT_VERSION), "")
    del values["format"], values["version"]
    values["tensors"] = {name: Stored(**one) for name, one in values["tensors"].items()}
    values["parent"] = values["parent"] and Parent(**values["parent"])
    record = Record(**values)
    if f"{record.name}{SUFFIX}" != file:
        raise checked_json.Wrong(f"it was written for the model {record.name!r}, and has been renamed")
    for layer in record.graph.layers:
        if missing := [one for one in layer.tensors.values() if one not in record.tensors]:
            raise checked_json.Wrong(f"the layer {layer.name!r} has a tensor {missing[0]!r}, and the model has not")
    for name, one in record.tensors.items():
        SHA256(one.blob, f"tensors[{name!r}].blob")
    return record
