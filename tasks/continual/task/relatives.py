"""What a training takes over from a stored model, and how the trained model gets into a store.

Rank 0 chooses the model, and all ranks take its tensors. The choice is kept beside the saves: a trainer that goes on
from a save freezes what it froze before, whatever the store has by then.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from wilkins import atomic
from wilkins.errors import WilkinsError, count_of, refused
from wilkins.tasks.continual.sections import saves_in
from wilkins.tasks.group import Group
from wilkins.tasks.models import ModelStore, graph_of
from wilkins.tasks.models.errors import DamagedModel, ModelError, NameTaken, NoSuchModel
from wilkins.tasks.models.graph import Graph, common, common_tensors, without_compiled
from wilkins.tasks.models.records import Parent, Record
from wilkins.tasks.models.tensors import Stored
from wilkins.tasks.ranks import agree

Options = Mapping[str, Any]
CHOICE = "start_from.json"
"""Where the choice is kept, in the folder of saves."""
_CANDIDATES = 20
"""Of models that have the last layer of an architecture, so many are looked at for all of its layers."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a training begins with."""

    parent: Parent
    layers: int
    """How many it takes over."""
    tensors: Mapping[str, Stored]
    """The tensors that it takes over, by their names in its own model."""


@dataclass(frozen=True, slots=True)
class Family:
    """A model before it is trained, which may change what its modules say of themselves."""

    graph: Graph
    begun_with: Start | None


def folder_of(save: Options | None) -> str:
    """The folder of saves that the section `save:` names; empty: there are none."""
    return saves_in(save["folder"], save["store"]) if save else ""


def begin(options: Options, model: torch.nn.Module, ranks: Group, *, anew: bool) -> Family | None:
    """Take over what the section `start_from:` says, and freeze it if it says so. Collective.

    Returns what `put` needs; None, if the options name no store.

    Args:
        options: those of the training.
        model: its model, which is changed.
        ranks: its ranks.
        anew: whether the training begins anew, whatever saves there are.

    Raises:
        TaskError: the model that is named does not fit, or the store is damaged.
    """
    if not options["start_from"] and not (options["save"] and options["save"]["store"]):
        return None
    graph = graph_of(model, preprocessing=[*(options["preprocessing"] or {}).items()])
    return Family(graph, _start(options, model, graph, ranks, anew) if options["start_from"] else None)


def _start(options: Options, model: torch.nn.Module, graph: Graph, ranks: Group, anew: bool) -> Start | None:
    section = options["start_from"]
    store, saves = ModelStore(section["store"]), folder_of(options["save"])
    with ExitStack() as held:
        found, is_kept = None, False
        with _agreed(ranks):
            if ranks.rank == 0:
                is_kept = not anew and _has_save(saves) and (Path(saves) / CHOICE).exists()
                if is_kept:
                    found = _kept(Path(saves) / CHOICE)
                else:
                    found = _choice(store, held, section, graph)
                    _keep(saves, found)
        found, is_kept = ranks.allgather((found, is_kept))[0]
        if found is None:
            return None
        with _agreed(ranks):
            try:
                _fill(model, store.tensors(found.tensors))
            except DamagedModel:
                if not is_kept:  # else it has been removed since, and the save has the values
                    raise
    if section["freeze"]:
        _freeze(model, set(found.tensors))
    return found


@contextmanager
def _agreed(ranks: Group) -> Iterator[None]:
    """Do something on each rank, and go on if none of them failed. Collective."""
    trouble = ""
    try:
        yield
    except (WilkinsError, OSError) as error:
        trouble = f"'start_from': {error}"
    agree(ranks, trouble)


def _keep(saves: str, found: Start | None) -> None:
    if saves:
        Path(saves).mkdir(parents=True, exist_ok=True)
        atomic.put(Path(saves) / CHOICE, json.dumps(found and asdict(found)), durable=True)


def _has_save(saves: str) -> bool:
    return bool(saves) and any(Path(saves).glob("*-step-*"))


def _kept(file: Path) -> Start | None:
    """The choice of a training that is to go on; None: there was no relative."""
    try:
        values = json.loads(file.read_bytes())
        if values is None:
            return None
        tensors = {
            name: Stored(one["dtype"], tuple(one["shape"]), one["blob"]) for name, one in values["tensors"].items()
        }
        return Start(Parent(**values["parent"]), values["layers"], tensors)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{file} does not say what the training began with; remove the folder to begin anew") from None


def _choice(store: ModelStore, held: ExitStack, section: Options, graph: Graph) -> Start | None:
    """The model to begin with, whose tensors nobody removes while `held` lasts; None: there is no relative."""
    name = section["model"]
    try:
        held.enter_context(store.reading())
        record = store.record(name) if name else _relative(store, section["match"], graph)
    except NoSuchModel:
        if name:
            raise
        record = None
    if record is None:
        print(f"{section['store']} has no relative of the model, which begins with its own values", flush=True)
        return None
    pairs = common_tensors(graph, record.graph)
    if not pairs:
        raise ModelError(
            f"the model {record.name!r} has no layer with parameters in common with this one; name another one, or "
            "leave out 'model'"
        )
    layers = len(common(graph, record.graph))
    print(f"begins with {count_of(layers, 'layer')} of the model {record.name!r}", flush=True)
    tensors = {here: record.tensors[there] for here, there in pairs.items()}
    return Start(Parent(record.name, record.seal), layers, tensors)


def _relative(store: ModelStore, match: str, graph: Graph) -> Record | None:
    for one in store.query(graph, _CANDIDATES if match == "whole" else 1):
        record = store.record(one.name)
        is_whole = len(common(graph, record.graph)) == len(graph.layers)
        if common_tensors(graph, record.graph) and (match == "prefix" or is_whole):
            return record
    return None


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {without_compiled(name): one for name, one in model.state_dict(keep_vars=True).items()}


def _fill(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    state = _state(model)
    if strange := [name for name, one in tensors.items() if name not in state or state[name].shape != one.shape]:
        raise ModelError(
            f"the save was trained with another model, which had a tensor {strange[0]!r}; give the same model, or "
            "remove the folder to begin anew"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)


def _freeze(model: torch.nn.Module, names: set[str]) -> None:
    """Let parameters be as they are; if none is left to train, those of the last layer are."""
    parameters = {name: one for name, one in _state(model).items() if isinstance(one, torch.nn.Parameter)}
    trained = [name for name, one in parameters.items() if one.requires_grad]
    if {*trained} <= names:
        last = trained[-1].rpartition(".")[0]
        names = {name for name in names if name.rpartition(".")[0] != last}
    for name in names & parameters.keys():
        parameters[name].requires_grad_(False)


def put(
    options: Options,
    model: torch.nn.Module,
    family: Family | None,
    rows: Sequence[Mapping[str, Any]],
    **facts: float,
) -> None:
    """Put the trained model into the store that the section `save:` names, if it does. On one rank.

    Args:
        options: those of the training.
        model: as it was trained.
        family: what `begin` gave.
        rows: of the report, one per step of the stream.
        facts: numbers about the training; those that are not finite are left out.

    Raises:
        TaskError: it cannot be put there.
    """
    section = options["save"]
    if family is None or not section or not section["store"]:
        return
    errors = [error for error in (rows[-1]["held_out"] if rows else []) if math.isfinite(error)]
    error = sum(errors) / len(errors) if errors else rows[-1]["error"] if rows else math.nan
    about = {"factory": options["model"], "factory_args": options["model_args"] or {}}
    about |= {key: value for key, value in facts.items() if math.isfinite(value)}
    store, graph, state = ModelStore(section["store"]), family.graph, model.state_dict()
    parent, score = family.begun_with.parent if family.begun_with else "", 0.0 - error if math.isfinite(error) else None
    given = section["name"] or ""
    try:
        name = store.put(graph, state, name=given, parent=parent, score=score, tags=section["tags"], about=about)
    except NameTaken:  # training is not lost for a name
        name = store.put(graph, state, parent=parent, score=score, tags=section["tags"], about=about)
        print(f"{section['store']} has another model {given!r} already, so this one is called otherwise", flush=True)
    except OSError as error:
        raise refused(Path(section["store"]), "be written", error) from error
    print(f"put the model {name!r} into {section['store']}", flush=True)
