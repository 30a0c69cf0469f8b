"""Model versions as HDF5 files: what training publishes and inference serves. No pickle.

Group `/state` holds the model's state, one dataset per tensor, named as in `state_dict()`; attributes of the root say
which version it is, how it came about and how good it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import h5py
import torch

from wilkins.tasks.continual.task.tensor_file import get, put
from wilkins.tasks.errors import TaskError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """A version of a model."""

    version: int
    """0, 1, 2, ... as they are published."""
    step: int = 0
    """Optimiser steps behind it."""
    steps_seen: int = 0
    """Steps of the stream behind it."""
    factory: str
    """The function that makes the model, `module:name` or `file.py:name`, as the trainer's options name it."""
    factory_args: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the factory."""
    loss: float = math.nan
    """Mean training loss over the newest step of the stream."""
    error: float = math.nan
    """Error on the newest step's samples before they were trained on; NaN if unknown."""
    state: Mapping[str, torch.Tensor]
    """The model's `state_dict()`."""


def write_model(name: str | PathLike[str], model: ModelVersion) -> None:
    """Write a model version to a file; in a run it goes on in memory if the name is an out-port's.

    Raises:
        TaskError: the state holds something else than tensors.
        OSError: the file cannot be written.
    """
    for key, value in model.state.items():
        if not isinstance(value, torch.Tensor):
            raise TaskError(
                f"the model's state holds {key!r}, a {type(value).__name__}; model versions hold tensors only: "
                "register it as a buffer of the model"
            )
    with h5py.File(name, "w") as file:
        file.attrs.update(
            version=model.version,
            step=model.step,
            steps_seen=model.steps_seen,
            factory=model.factory,
            factory_args=json.dumps(dict(model.factory_args)),
            loss=float(model.loss),
            error=float(model.error),
        )
        group = file.create_group("state")
        for key, value in model.state.items():
            put(group, key, value)


def read_model(file: h5py.File, who: str) -> ModelVersion:
    """The model version in an open file, its tensors in host memory.

    Args:
        who: the file in messages, such as ``port 'model-*.h5', step 3``.

    Raises:
        TaskError: it is no model version.
    """
    state: dict[str, torch.Tensor] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            state[name] = get(item)

    try:
        numbers = {name: int(file.attrs[name]) for name in ("version", "step", "steps_seen")}
        loss, error_ = float(file.attrs["loss"]), float(file.attrs["error"])
        factory, arguments = str(file.attrs["factory"]), json.loads(str(file.attrs["factory_args"]))
        if not isinstance(arguments, dict):
            raise ValueError(f"'factory_args' is {arguments}; arguments by name are needed, such as {{}}")
        file["state"].visititems(visit)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        said = error.args[0] if error.args else error
        raise TaskError(f"{who}: the file is no model version of wilkins.tasks.continual: {said}") from None
    return ModelVersion(**numbers, factory=factory, factory_args=arguments, loss=loss, error=error_, state=state)


def apply_state(model: torch.nn.Module, state: Mapping[str, torch.Tensor], who: str, where: str) -> None:
    """Give a model the state of a version or a save.

    Args:
        who: where the state comes from, in messages.
        where: which option makes the model, in messages.

    Raises:
        TaskError: names or shapes of tensors differ; the message names the first one, and the model is as before.
    """
    own = model.state_dict()
    for name in own.keys() | state.keys():
        if name not in state:
            raise TaskError(
                f"{who}, tensor {name!r}: it is missing, and the model of {where} has it; give the same model"
            )
        if name not in own:
            raise TaskError(f"{who}, tensor {name!r}: the model of {where} has no such tensor; give the same model")
        have, want = tuple(state[name].shape), tuple(own[name].shape)
        if have != want:
            raise TaskError(
                f"{who}, tensor {name!r}: it has the shape {have}, in the model of {where} {want}; give the same model "
                "and arguments"
            )
    model.load_state_dict(dict(state))
