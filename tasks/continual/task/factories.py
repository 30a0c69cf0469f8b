"""What training and inference are made of, as the options say: device, model, loss, optimiser, strategy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from wilkins.tasks import code
from wilkins.tasks.continual.learner.by_name import REGULARISERS, make_strategy
from wilkins.tasks.continual.learner.losses import BUILT_IN, LossFunction
from wilkins.tasks.continual.learner.strategy import Regulariser, Strategy
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.sections import is_code
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group

Options = Mapping[str, Any]

_OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}


def device_of(choice: str, ranks: Group) -> torch.device:
    """Where a rank computes: with `auto`, on a GPU if there is one. Ranks of a node share its GPUs in turn.

    Raises:
        TaskError: `cuda` is asked for, and there is none.
    """
    there = torch.cuda.is_available()
    if choice == "cuda" and not there:
        raise TaskError("'device: cuda': torch finds no GPU here; set 'device: auto', or see to its driver")
    if choice == "cpu" or not there:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", ranks.rank)) % torch.cuda.device_count())


def model_of(name: str, arguments: Mapping[str, Any], folders: Sequence[Path], seed: int = 0) -> torch.nn.Module:
    """The model that a function makes, its random values from `seed`.

    Raises:
        TaskError: there is no such function, it fails, or what it gives is no model.
    """
    factory = code.load(name, "model", folders)
    torch.manual_seed(seed)
    try:
        model = factory(**arguments)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise TaskError(f"'model: {name}': called with ({given}) it fails: {code.described(error)}; mend it") from error
    if not isinstance(model, torch.nn.Module):
        raise TaskError(f"'model: {name}' gives a {type(model).__name__}, and a torch.nn.Module is needed")
    return model


def dtype_of(model: torch.nn.Module) -> torch.dtype:
    """The precision of a model: that of its first floating-point parameter."""
    return next((one.dtype for one in model.parameters() if one.dtype.is_floating_point), torch.float32)


def loss_of(name: str, folders: Sequence[Path]) -> str | LossFunction:
    """The loss of a name, as `Learner` takes it.

    Raises:
        TaskError: there is no such function.
    """
    return name if name in BUILT_IN else code.load(name, "loss", folders)


def optimizer_of(options: Options | None, model: torch.nn.Module, folders: Sequence[Path]) -> torch.optim.Optimizer:
    """The optimiser of a model's parameters, by the section `optimizer:`.

    Raises:
        TaskError: there is no such function, it fails, or what it gives is no optimiser.
    """
    options = options or {"name": "sgd", "lr": 0.01, "momentum": None, "weight_decay": None, "args": None}
    name = str(options["name"])
    given = {key: options[key] for key in ("lr", "momentum", "weight_decay") if options[key] is not None}
    make = code.load(name, "optimizer", folders) if is_code(name) else _OPTIMIZERS[name]
    parameters = [one for one in model.parameters() if one.requires_grad]
    if not parameters:
        raise TaskError(f"'model': the {type(model).__name__} has no parameters that can be trained; give another")
    try:
        optimizer = make(parameters, **given | (options["args"] or {}))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TaskError(f"'optimizer: {name}' cannot be made: {error}; mend its options") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TaskError(f"'optimizer: {name}' gives a {type(optimizer).__name__}, not a torch.optim.Optimizer")
    return optimizer


def strategy_of(options: Options, ranks: Group, port: str, folders: Sequence[Path]) -> Strategy:
    """The strategy by the section `train:`, with its buffer, if there is one. All ranks make it together.

    Raises:
        TaskError: there is no such class, it fails, or what it gives is no strategy.
    """
    name = str(options["strategy"])
    own = is_code(name)
    arguments = {key: options[key] for key in ("alpha", "beta") if options[key] is not None}
    arguments |= options["strategy_args"] or {}
    make = code.load(name, "strategy", folders) if own else name
    buffer = buffer_of(options, folders)
    try:
        strategy = make_strategy(make, buffer, ranks.comm, port=port, **arguments)
    except Exception as error:
        if not own:
            raise TaskError(f"'buffer': {error}") from error  # no MPI_THREAD_MULTIPLE
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise TaskError(
            f"'strategy: {name}': called with (options, comm, port=...{', ' * bool(given)}{given}) it fails: "
            f"{code.described(error)}; mend it, or 'strategy_args'"
        ) from error
    if not isinstance(strategy, Strategy):
        raise TaskError(
            f"'strategy: {name}' gives a {type(strategy).__name__}, and a strategy is needed; derive the class from "
            "wilkins.tasks.continual.Strategy"
        )
    return strategy


def regularisers_of(options: Options | None, folders: Sequence[Path]) -> list[Regulariser]:
    """What is added to the objective, by the section `regularise:`.

    Raises:
        TaskError: there is no such class, it fails, or what it gives is no regulariser.
    """
    if options is None:
        return []
    name = str(options["name"])
    make = code.load(name, "regularise", folders) if is_code(name) else REGULARISERS[name]
    arguments = {} if options["strength"] is None else {"strength": options["strength"]}
    try:
        regulariser = make(**arguments | (options["args"] or {}))
    except Exception as error:
        raise TaskError(f"'regularise: {name}' cannot be made: {code.described(error)}; mend its options") from error
    if not isinstance(regulariser, Regulariser):
        raise TaskError(
            f"'regularise: {name}' gives a {type(regulariser).__name__}, and a regulariser is needed; derive the class "
            "from wilkins.tasks.continual.Regulariser"
        )
    return [regulariser]


def schedule_of(
    options: Options | None, optimizer: torch.optim.Optimizer, folders: Sequence[Path]
) -> torch.optim.lr_scheduler.LRScheduler | None:
    """The schedule of an optimiser's learning rate, by the section `schedule:`, if there is one.

    Raises:
        TaskError: there is no such function, it fails, or what it gives is no schedule.
    """
    if options is None:
        return None
    name, known = str(options["name"]), torch.optim.lr_scheduler
    make = code.load(name, "schedule", folders) if is_code(name) else getattr(known, name)
    try:
        schedule = make(optimizer, **options["args"] or {})
    except Exception as error:
        raise TaskError(f"'schedule: {name}' cannot be made: {code.described(error)}; mend its 'args'") from error
    if not isinstance(schedule, known.LRScheduler) or isinstance(schedule, known.ReduceLROnPlateau):
        raise TaskError(
            f"'schedule: {name}' gives a {type(schedule).__name__}; give a schedule of torch.optim.lr_scheduler that "
            "goes on without a measured value"
        )
    return schedule


def buffer_of(options: Options, folders: Sequence[Path]) -> RehearsalOptions | None:
    """The options of the rehearsal buffer, by the section `train:`; None if it names none.

    Raises:
        TaskError: a function that it names is not there.
    """
    section, batch = options["buffer"], int(options["batch"])
    if section is None:
        return None
    eviction: Any = section["eviction"]
    quarter = max(1, batch // 4)
    return RehearsalOptions(
        batch=batch,
        candidates=section["candidates"] or quarter,
        representatives=section["representatives"] or quarter,
        samples=section["samples"],
        bytes=section["bytes"],
        label=label_of(options),
        eviction=code.load(eviction, "eviction", folders) if is_code(eviction) else eviction,
        balance=section["balance"],
        nan="keep",  # samples are looked at before they are trained on
        device=section["device"],
        background=section["background"],
        seed=options["seed"],
    )


def label_of(options: Options) -> str | None:
    """The tensor of a batch that holds the classes: the targets, or another one, or none."""
    if options["targets"] and options["label"] and options["targets"] != options["label"]:
        return "label"
    return "y" if options["label"] or options["loss"] == "cross_entropy" else None


def refused(name: str, x: torch.Tensor, error: Exception) -> str:
    """The message if a model does not take samples."""
    kind = str(x.dtype).removeprefix("torch.")
    whole = (
        "" if x.is_floating_point() or x.is_complex() else " (x.float() in its 'forward' makes floating-point numbers)"
    )
    return (
        f"the model {name!r} does not take samples of {kind} {tuple(x.shape[1:])}: {code.described(error)}; mend the "
        f"model{whole}, or 'inputs'"
    )


def misshapen(name: str, outputs: object, samples: int) -> str:
    """What is wrong with a model's outputs for some samples; nothing, if they are a tensor with a row for each."""
    if isinstance(outputs, torch.Tensor) and outputs.ndim and len(outputs) == samples:
        return ""
    tensor = isinstance(outputs, torch.Tensor)
    what = f"a tensor of shape {tuple(getattr(outputs, 'shape', ()))}" if tensor else f"a {type(outputs).__name__}"
    plural = "s" if samples > 1 else ""
    return f"the model {name!r} gives {what} for {samples} sample{plural}; it must give one tensor with a row for each"
