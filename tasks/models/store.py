"""A folder of models: put with a parent, a score and tags; got whole or by layers; listed, removed, verified.

    STORE/models/3/NAME.json   a model: its graph, and which blobs its tensors are; sealed by its own digest
    STORE/blobs/3f/3f8a...     the bytes of a tensor, whichever models have it
    STORE/.gate, .lease        locks (`leases.py`)
    STORE/.removed             another text after each removal of models, for indices
    STORE/.index-HOST.sqlite   an index for queries, made of the models' files (`index.py`)

A model is there from the moment its file has its name, which it gets when all its blobs are on the disk. No references
are counted: a blob is needed while a model's file names it. So a kill leaves at most blobs that no model has. `prune`
removes them, alone in the store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.atomic import part_of, put, sync
from wilkins.errors import suggest
from wilkins.tasks.models import leases
from wilkins.tasks.models.blobs import Blobs
from wilkins.tasks.models.errors import DamagedModel, ModelError, NameTaken, NoSuchModel
from wilkins.tasks.models.graph import Graph, Layer, common, common_tensors, without_compiled
from wilkins.tasks.models.records import (
    NAMES,
    REMOVED,
    SHELVES,
    SUFFIX,
    Parent,
    Record,
    check_name,
    file_of,
    plain_score,
    plain_values,
    read_record,
    written,
)
from wilkins.tasks.models.tensors import Library, Stored, bytes_of, made

if TYPE_CHECKING:
    from wilkins.tasks.models.index import Found

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What a file system says that has no hard links."""
_UNNAMED = 16
"""Digits of a model's digest that are its name, if nobody has given it one."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a model takes over from its best relative: see `ModelStore.inherit`."""

    parent: Parent
    """The relative, as `put` takes it: also if it is removed meanwhile."""
    score: float | None
    layers: int
    """How many layers both have."""
    tensors: dict[str, Any]
    """Those of the common layers, by their names in the new model."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `ModelStore.prune` has removed."""

    blobs: int
    bytes: int
    parts: int
    """Files that killed writers had left unfinished."""


class ModelStore:
    """The models in a folder, which is made when the first one is put. Any number of processes and hosts use it."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self._models = self.folder / "models"
        self._blobs = Blobs(self.folder / "blobs")

    def put(
        self,
        graph: Graph,
        state: Mapping[str, Any],
        *,
        name: str = "",
        parent: str | Parent = "",
        score: float | None = None,
        tags: Sequence[str] = (),
        about: Mapping[str, Any] | None = None,
    ) -> str:
        """Store a model; returns its name. It is on the disk then; a tensor that some model has is not written again.

        Putting a model that is there already, under the same name, changes nothing.

        Args:
            graph: its layers, as `graph_of` finds them.
            state: its tensors by name, as `state_dict()` gives them; `torch.compile`'s prefixes are left out.
            name: what it is called; left out: by its content.
            parent: the model that it was derived from: its name, or what was known of it, if it may be gone by now.
            score: how good it is; more is better.
            tags: words to find it by.
            about: what else is to be known of it, as values of JSON.

        Raises:
            NameTaken: another model has the name.
            ModelError: the state holds what is no tensor, lacks a tensor of a layer, or has it in another
                shape; or there is no such parent.
            OSError: the file system refuses.
        """
        if name:
            check_name(name)
        if isinstance(tags, str):
            raise ModelError(f"the tags of a model are the text {tags!r}; give a list of them: [{tags!r}]")
        _check_kinds(graph, state)
        score = plain_score(score)
        said = plain_values(about or {})
        self._make()
        with leases.shared(self.folder):
            origin = self._parent(parent) if isinstance(parent, str) else parent
            tensors = {}
            for given, value in state.items():
                key = without_compiled(given)
                if key in tensors:
                    raise ModelError(f"the state has {key!r} twice, once as {given!r}; give the state of one model")
                dtype, shape, data = bytes_of(value, key)
                tensors[key] = Stored(dtype, shape, self._blobs.put(data)[0])
            _check_tensors(graph, tensors)
            self._blobs.settle({one.blob for one in tensors.values()})
            record = Record(
                name=name, graph=graph, tensors=tensors, parent=origin, score=score, tags=tuple(tags),
                about=said, time=time.time(),
            )  # fmt: skip
            return self._publish(record if name else replace(record, name=record.identity[:_UNNAMED]))

    def get(self, name: str, layers: Sequence[str] | None = None, *, library: Library = "torch") -> dict[str, Any]:
        """The tensors of a model by their names, or those of some layers, of which alone the bytes are read.

        Args:
            name: the model.
            layers: names of layers or patterns such as `features.*`; a name stands for all below it.
            library: what they are tensors of.

        Raises:
            NoSuchModel: there is no such model, or it has no such layer.
            DamagedModel: something is missing, or not what was put.
        """
        with leases.shared(self._existing()):
            record = self.record(name)
            return self.tensors(record.tensors if layers is None else record.of_layers(layers), library)

    def tensors(self, wanted: Mapping[str, Stored], library: Library = "torch") -> dict[str, Any]:
        """Tensors of a model whose record is at hand. Inside of `reading`, of any process, nobody removes them.

        Raises:
            DamagedModel: one is missing, or not what was put.
        """
        return {key: made(one, self.bytes_of(one), key, library) for key, one in wanted.items()}

    def bytes_of(self, stored: Stored) -> bytearray:
        """The bytes of a tensor, compared with their digest. Inside of `reading` nobody removes them.

        Raises:
            DamagedModel: they are missing, or not what was put.
        """
        return self._blobs.read(stored.blob, stored.nbytes)

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A lease: no blob is removed while the block lasts."""
        return leases.shared(self._existing())

    def names(self) -> list[str]:
        """The names of all models; other files that somebody has put beside theirs are none."""
        self._existing()
        return sorted(name for path in self._files() if NAMES.fullmatch(name := path.name.removesuffix(SUFFIX)))

    def record(self, name: str) -> Record:
        """What is known of a model.

        Raises:
            NoSuchModel: there is none of this name.
            DamagedModel: its file is not what was written.
        """
        check_name(name)
        try:
            return read_record(self._file(name))
        except FileNotFoundError:
            known = self.names()
            near = suggest(name, known) or ("; see `wilkins models list`" if known else "; it is empty")
            raise NoSuchModel(f"the model store {self.folder} has no model {name!r}{near}") from None

    def records(self) -> Iterator[Record]:
        """All models, by name. Of those that are removed meanwhile some are left out.

        Raises:
            DamagedModel: a file is not what was written.
        """
        for name in self.names():
            with contextlib.suppress(FileNotFoundError):
                yield read_record(self._file(name))

    def query(self, graph: Graph, limit: int = 1) -> list[Found]:
        """The models that have most in common with an architecture from its beginning on, best score first.

        They are ordered by the length of the common prefix: the layers up to and with the last one, by how many these
        are, that the model has with all before it.
        """
        from wilkins.tasks.models.index import Index  # needs SQLite, as nothing else here does

        _check_kinds(graph, {})
        with Index(self._existing(), self._models) as index:
            return index.query(graph, limit)

    def inherit(self, graph: Graph, *, library: Library = "torch") -> Inherited | None:
        """What the best relative of an architecture has learned: the first model that `query` finds, and its tensors of
        the layers that both have. None: the store is empty, or no model has a layer with tensors in common.

        Reads no other layers. The tensors have their names in the new architecture, whatever the relative calls them,
        so they fit `load_state_dict(tensors, strict=False)`. The way of EvoStore (R. Underwood, M. Madhyastha,
        R. Burns, B. Nicolae: EvoStore: Towards Scalable Storage of Evolving Learning Models, HPDC 2024).

        Args:
            graph: the architecture, as `graph_of` finds it.
            library: what the tensors are of.

        Raises:
            DamagedModel: a tensor is missing, or not what was put.
        """
        _check_kinds(graph, {})
        if not self._models.is_dir():
            return None
        with self.reading():
            while found := self.query(graph):
                try:
                    record = self.record(found[0].name)
                except NoSuchModel:
                    continue  # removed since: there may be another one
                names = common_tensors(graph, record.graph)
                if not names:
                    return None
                wanted = {here: record.tensors[there] for here, there in names.items()}
                layers = len(common(graph, record.graph))
                return Inherited(Parent(record.name, record.seal), record.score, layers, self.tensors(wanted, library))
        return None

    def remove(self, names: Sequence[str]) -> None:
        """Remove models. Their blobs go with the next `prune`, unless other models have them.

        Raises:
            NoSuchModel: there is none of a name; no model is removed then.
        """
        known = set(self.names())
        for name in names:
            if name not in known:
                self.record(name)
        for name in names:
            self._file(name).unlink(missing_ok=True)
        for shelf in {self._file(name).parent for name in names}:
            sync(shelf)
        if names:  # their names may be given to other models, which no time of a folder tells
            with contextlib.suppress(OSError):  # a full disk is no reason not to remove
                put(self.folder / REMOVED, secrets.token_hex(8), writer=secrets.token_hex(4))

    def prune(self, patience: float = leases.PATIENCE) -> Pruned:
        """Remove the blobs that no model has, and what killed writers have left. Waits for others to end what they do.

        Raises:
            ModelError: others are at work for longer than `patience` seconds, the store cannot be locked, or a model's
                file is damaged, so that nobody knows which blobs it needs; nothing is removed then.
        """
        with leases.alone(self._existing(), patience):
            try:
                needed = {one.blob for record in self.records() for one in record.tensors.values()}
            except DamagedModel as error:
                raise ModelError(
                    f"nothing is pruned, since nobody knows which tensors this model needs: {error}; bring the file "
                    "back from a copy, or remove it"
                ) from error
            for shelf in self._shelves():
                sync(shelf)  # or else a model that was removed could come back, without its blobs
            count = size = parts = 0
            for digest, path in list(self._blobs.files()):
                if digest in needed:
                    continue
                count, size, parts = (
                    count + bool(digest),
                    size + path.stat().st_size * bool(digest),
                    parts + (not digest),
                )
                path.unlink()
            left = [path for path in self._files() if path.name.startswith(".")]
            for path in [*left, *self.folder.glob(part_of(self.folder / REMOVED, "*").name)]:
                path.unlink()
                parts += 1
        return Pruned(count, size, parts)

    def damage(self, name: str) -> str:
        """What is wrong with a model, after reading every byte of it; nothing if it is whole."""
        with leases.shared(self._existing()):
            try:
                record = self.record(name)
            except DamagedModel as error:
                return str(error)
            sizes = {one.blob: one.nbytes for one in record.tensors.values()}
            return next(filter(None, (self._blobs.damage(*one) for one in sizes.items())), "")

    def stored_bytes(self) -> int:
        """Bytes of all blobs; of those that are removed meanwhile some are left out."""
        found = 0
        for digest, path in self._blobs.files():
            with contextlib.suppress(FileNotFoundError):
                found += path.stat().st_size if digest else 0
        return found

    def _existing(self) -> Path:
        if not self._models.is_dir():
            what = "holds no models" if self.folder.is_dir() else "is no folder"
            raise NoSuchModel(f"{self.folder} {what}; give the folder of a model store")
        return self.folder

    def _make(self) -> None:
        if self._models.is_dir() and self._blobs.folder.is_dir():
            return
        self._models.mkdir(parents=True, exist_ok=True)
        self._blobs.folder.mkdir(exist_ok=True)
        sync(self.folder)
        with contextlib.suppress(OSError):  # the folder above may be one that cannot be read
            sync(self.folder.parent)

    def _file(self, name: str) -> Path:
        return file_of(self._models, name)

    def _shelves(self) -> list[Path]:
        return [shelf for name in SHELVES if (shelf := self._models / name).is_dir()]

    def _files(self) -> Iterator[Path]:
        """The files of models, and, by hidden names, what killed writers have left."""
        for shelf in self._shelves():
            yield from (path for path in shelf.iterdir() if path.suffix == SUFFIX or path.name.startswith("."))

    def _parent(self, name: str) -> Parent | None:
        return Parent(name, self.record(name).seal) if name else None

    def _publish(self, record: Record) -> str:
        """Let a model's file have its name, unless another one has."""
        path = self._file(record.name)
        raw = written(record)
        part = part_of(path, secrets.token_hex(4))
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            sync(self._models)
        try:
            with part.open("xb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            while not self._is_named(part, path, record):
                pass
        finally:
            part.unlink(missing_ok=True)
        sync(path.parent)
        return record.name

    def _is_named(self, part: Path, path: Path, record: Record) -> bool:
        """Give a model's file its name; false if another one had it, and has been removed since."""
        try:
            _name(part, path)
        except FileExistsError:
            try:
                self._check_same(record, path)
            except FileNotFoundError:
                return False
        return True

    def _check_same(self, record: Record, path: Path) -> None:
        if read_record(path).identity != record.identity:
            raise NameTaken(
                f"the model store {self.folder} has another model {record.name!r} already; give a new name, or remove "
                f"that one: wilkins models prune {self.folder} --remove {record.name}"
            )


def _name(part: Path, path: Path) -> None:
    """Give a finished file its name.

    Raises:
        FileExistsError: another one has it.
    """
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():  # two writers of one name may both come to this line: the later one is kept, whole
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        part.replace(path)


def _check_kinds(graph: Any, state: Any) -> None:
    """Refuse what is often given in place of a graph or a state."""
    if not isinstance(graph, Graph):
        raise ModelError(
            f"the architecture was given as a {type(graph).__name__}; give its graph, graph_of(model), of "
            "wilkins.tasks.models"
        )
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise ModelError(f"the state was given as a {type(state).__name__}; give tensors by name: model.state_dict()")


def _check_tensors(graph: Graph, tensors: Mapping[str, Stored]) -> None:
    for layer in graph.layers:
        if missing := [one for one in layer.tensors.values() if one not in tensors]:
            raise ModelError(
                f"the state has no tensor {missing[0]!r}, which the layer {layer.name!r} needs; give the graph and the "
                "state of one model"
            )
        for role, name in layer.tensors.items():
            shape = _shape_in(layer, role)
            if shape is not None and shape != tensors[name].shape:
                raise ModelError(
                    f"the tensor {name!r} of the state has the shape {tensors[name].shape}, and that of the layer "
                    f"{layer.name!r} has {shape}; give the graph and the state of one model"
                )


def _shape_in(layer: Layer, role: str) -> tuple[Any, ...] | None:
    """The shape of a layer's tensor as its configuration has it, where it was traced; None: nobody knows."""
    forms = layer.configuration.get("tensors")
    form = forms.get(role) if isinstance(forms, Mapping) else None
    if not (isinstance(form, list | tuple) and len(form) == 2 and isinstance(form[1], list | tuple)):
        return None
    return tuple(form[1])
