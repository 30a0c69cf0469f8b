"""What `wilkins models` does: list, show, compare, export, import, prune and verify models. Needs no torch."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wilkins.errors import count_of, refused
from wilkins.names import printable
from wilkins.tasks.models.errors import DamagedModel, ModelError, NoSuchModel
from wilkins.tasks.models.exchange import exported, found
from wilkins.tasks.models.kin import Member, difference, family
from wilkins.tasks.models.records import Record
from wilkins.tasks.models.store import ModelStore

_MEASURED = 12
"""Digits of a layer's hash that are shown."""


def listed(folder: Path, tags: Sequence[str] = ()) -> str:
    """A line per model that has these tags, the best one first."""
    store = ModelStore(folder)
    lines = [f"{'model':<24} {'layers':>6} {'bytes':>15} {'score':>10}  {'parent':<24} {'put':<19}  tags"]
    read = [_read(store, name) for name in store.names()]
    records = [one for one in read if isinstance(one, Record)]
    for one in sorted(records, key=_best_first):
        if {*tags} <= {*one.tags}:
            parent = one.parent.name if one.parent else "-"
            lines.append(
                f"{one.name:<24} {len(one.graph.layers):>6} {one.nbytes:>15,} {_score(one):>10}  {parent:<24} "
                f"{_date(one.time)}  {', '.join(one.tags)}".rstrip()
            )
    blobs = store.stored_bytes()
    lines.append(
        f"{count_of(len(records), 'model')}, {sum(one.nbytes for one in records):,} bytes, stored in {blobs:,}"
    )
    return _text([*lines, *(one for one in read if isinstance(one, str))])


def _text(lines: Iterable[str]) -> str:
    """Lines for a terminal: names of layers and tags come from programs and files, with whatever letters these have."""
    return "\n".join(printable(one, len(one)) for one in lines)


def _read(store: ModelStore, name: str) -> Record | str | None:
    """A model, or a line that says that it is damaged; None: it has been removed meanwhile."""
    try:
        return store.record(name)
    except DamagedModel as error:
        return f"{name:<24} damaged: {error}"
    except NoSuchModel:
        return None


def _best_first(record: Record) -> tuple[float, float, str]:
    return (math.inf if record.score is None else -record.score, -record.time, record.name)


def _score(record: Record) -> str:
    return "-" if record.score is None else f"{record.score:g}"


def _date(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return "at no date that there is"


_TRACED = {
    "fx": "traced by torch.fx",
    "export": "traced by torch.export",
    "chain": "not traced: the chain of its modules",
    "names": "not traced: from the names of its tensors",
}


def shown(folder: Path, name: str) -> str:
    """What a model is, and its layers."""
    record = ModelStore(folder).record(name)
    parent = f", derived from {record.parent.name}" if record.parent else ""
    tags = f"; tags: {', '.join(record.tags)}" if record.tags else ""
    lines = [
        f"{record.name}: {count_of(len(record.graph.layers), 'layer')}, {_TRACED[record.graph.traced]}; "
        f"{count_of(len(record.tensors), 'tensor')}, {record.nbytes:,} bytes",
        f"put {_date(record.time)}{parent}; score: {_score(record)}{tags}",
        *(f"{key}: {value}" for key, value in record.about.items()),
        f"{'hash':<{_MEASURED}}  {'layer':<28} {'operation':<40} {'bytes':>12}  takes from",
    ]
    for layer, digest in zip(record.graph.layers, record.graph.hashes().values(), strict=True):
        size = sum(record.tensors[one].nbytes for one in layer.tensors.values())
        operation = layer.operation.removeprefix("torch.nn.modules.")
        lines.append(
            f"{digest[:_MEASURED]}  {layer.name:<28} {operation:<40} {size:>12,}  {', '.join(layer.inputs)}".rstrip()
        )
    return _text(lines)


def compared(folder: Path, one: str, other: str) -> str:
    """What two models have in common, and what only one of them has."""
    store = ModelStore(folder)
    records = store.record(one), store.record(other)
    apart = difference(*records)
    lines = [
        f"{count_of(len(apart.same), 'layer')} of both, with the same values; {apart.shared_bytes:,} bytes of tensors "
        "that both have"
    ]
    for title, names in (
        ("of both, with other values", [_pair(*pair) for pair in apart.changed]),
        (f"only in {one}", list(apart.only_one)),
        (f"only in {other}", list(apart.only_other)),
    ):
        lines.append(f"{count_of(len(names), 'layer')} {title}{':' if names else ''}")
        lines += [f"  {name}" for name in names]
    return _text(lines)


def _pair(mine: str, its: str) -> str:
    return mine if mine == its else f"{mine} ({its})"


def members(folder: Path, names: Sequence[str]) -> list[Member]:
    """The models of a store, or the relatives of some, each after its parent.

    Raises:
        NoSuchModel: there is none of a name.
    """
    store = ModelStore(folder)
    for name in names:
        store.record(name)
    return family(store.records(), names)


def said_of(one: Member) -> str:
    """What is said of a model in its family."""
    if one.layers is None:
        return "removed"
    scored = [] if one.score is None else [f"score {one.score:g}"]
    return ", ".join([*scored, *map(printable, one.tags)]) or count_of(one.layers, "layer")


def taken_by(one: Member) -> str:
    """What a model has from its parent."""
    return "" if one.layers is None or one.common is None else f"{one.common} of {count_of(one.layers, 'layer')}"


def exported_to(folder: Path, name: str, target: Path, layers: Sequence[str]) -> str:
    """Write a model, or some of its layers, to a safetensors file or a folder as Hugging Face has them."""
    store = ModelStore(folder)
    with store.reading():
        record = store.record(name)
        tensors = record.of_layers(layers) if layers else record.tensors
        files = exported(record, tensors, store.bytes_of, target)
    size = sum(one.nbytes for one in tensors.values())
    return f"wrote {count_of(len(tensors), 'tensor')} of {name}, {size:,} bytes: {', '.join(map(str, files))}"


def imported(folder: Path, source: Path, *, name: str, parent: str, score: float | None, tags: Sequence[str]) -> str:
    """Put the model in a safetensors file, or in a folder of Hugging Face's."""
    model = found(source)
    with _writing(folder):
        put = ModelStore(folder).put(
            model.graph,
            model.tensors,
            name=name,
            parent=parent,
            score=model.score if score is None else score,
            tags=[*model.tags, *tags],
            about=model.about,
        )
    return f"put {put}: {count_of(len(model.tensors), 'tensor')} in {count_of(len(model.graph.layers), 'layer')}"


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say what the file system refuses, as on a full disk or where one may only read."""
    try:
        yield
    except OSError as error:
        raise refused(folder, "be written", error) from error


def pruned(folder: Path, remove: Sequence[str], keep: int | None) -> str:
    """Remove models by name, or all but the best ones; then what no model has."""
    store = ModelStore(folder)
    gone = list(remove)
    if keep is not None:
        left = [one for one in store.records() if one.name not in gone]
        if unscored := [one.name for one in left if one.score is None]:
            raise ModelError(
                f"nothing is removed, since nobody knows which models are the best {keep}: {', '.join(unscored[:5])} "
                "have no score; name those that are to go, with --remove"
            )
        gone += [one.name for one in sorted(left, key=_best_first)[keep:]]
    with _writing(folder):
        store.remove(gone)
        done = store.prune()
    lines = [f"removed {name}" for name in gone]
    lines.append(f"removed {count_of(done.blobs, 'tensor')} that no model has, {done.bytes:,} bytes")
    if done.parts:
        lines.append(f"removed {count_of(done.parts, 'file')} that killed writers had left")
    return "\n".join(lines)


def verified(folder: Path, name: str | None) -> tuple[str, bool]:
    """A line per model, or for one, after reading every byte; and whether all are whole. Mends the index."""
    from wilkins.tasks.models.index import Index, hashes_of

    store = ModelStore(folder)
    lines, good = [], True
    for one in store.names() if name is None else [store.record(name).name]:
        try:
            trouble = store.damage(one)
            size = 0 if trouble else store.record(one).nbytes
        except NoSuchModel:
            continue  # removed meanwhile
        good = good and not trouble
        lines.append(f"{one}: damaged: {trouble}" if trouble else f"{one}: all right: {size:,} bytes")
    if not good:
        lines.append("Bring the files of a damaged model back from a copy, put it again, or remove it.")
    elif name is None:
        with Index(folder, folder / "models") as index:
            if {key: value for key, (_, value) in index.content().items()} != {
                one.name: hashes_of(one) for one in store.records()
            }:
                index.rebuild()
                lines.append("the index was made anew")
    return "\n".join(lines), good
