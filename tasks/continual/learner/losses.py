"""What training minimises: cross entropy for classification, squared error for regression, or a user's function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from wilkins.tasks.continual.errors import LearningError

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""Takes outputs and targets, samples along the first axis, and gives their mean loss: a tensor of one number."""

BUILT_IN = ("cross_entropy", "mse")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss with its name."""

    name: str
    function: LossFunction
    classes: bool = False
    """Whether targets are classes: one whole number per sample, of which outputs have a column each."""


def make_loss(loss: str | LossFunction) -> Loss:
    """The loss of this name: `cross_entropy`, `mse`, or `module:function`; or a function itself.

    Raises:
        LearningError: there is no such loss.
    """
    if callable(loss):
        return Loss(getattr(loss, "__qualname__", type(loss).__name__), loss)
    if loss == "cross_entropy":
        return Loss(loss, lambda outputs, targets: functional.cross_entropy(outputs, targets.long()), classes=True)
    if loss == "mse":
        return Loss(loss, lambda outputs, targets: functional.mse_loss(outputs, targets.to(outputs.dtype)))
    function = imported(loss, "loss", f"{', '.join(BUILT_IN)} or 'module:function'")
    return Loss(loss, function)


def imported(name: str, what: str, allowed: str = "'module:function'") -> Callable[..., Tensor]:
    """The function that `module:function` names.

    Raises:
        LearningError: the name is not of this form, or leads to nothing that can be called.
    """
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise LearningError(f"{what} {name!r}: there is none of this name; give {allowed}")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise LearningError(
            f"{what} {name!r}: module {module!r} cannot be imported: {error}; is it beside the workflow file or on "
            "PYTHONPATH?"
        ) from None
    except AttributeError:
        raise LearningError(f"{what} {name!r}: module {module!r} has no {attribute!r}") from None
    if not callable(found):
        raise LearningError(f"{what} {name!r} is a {type(found).__name__}, not a function")
    function: Callable[..., Tensor] = found
    return function


def problem_of(loss: Loss, outputs: Tensor, targets: Tensor) -> str:
    """What is wrong with outputs and targets of the same samples for a built-in loss; nothing: an empty text."""
    kind = str(targets.dtype).removeprefix("torch.")
    if loss.name == "mse" and outputs.shape != targets.shape:
        return (
            f"a sample's target has the shape {tuple(targets.shape[1:])}, its output {tuple(outputs.shape[1:])}: for "
            "the loss 'mse' they must be the same"
        )
    if not loss.classes:
        return ""
    if targets.ndim != 1 or targets.is_floating_point() or targets.is_complex():
        return (
            f"a sample's target is {kind} {tuple(targets.shape[1:])}, but the loss 'cross_entropy' needs its class, a "
            "whole number; for regression take 'mse'"
        )
    if outputs.ndim != 2:
        return f"the model gives {tuple(outputs.shape[1:])} for a sample; 'cross_entropy' needs a number for each class"
    classes = outputs.shape[1]
    wrong = ((targets < 0) | (targets >= classes)).nonzero()
    if len(wrong):
        first = int(wrong[0])
        return f"sample {first} has label {int(targets[first])}, but the model knows classes 0 to {classes - 1}"
    return ""


def squared_error(outputs: Tensor, kept: Tensor) -> Tensor:
    """The mean squared difference of outputs and those kept in a buffer: what dark experience replay adds."""
    return functional.mse_loss(outputs, kept.to(outputs.dtype))


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """How many samples' greatest output is that of their class: a tensor of one whole number."""
    return (outputs.argmax(1) == targets).sum().to(torch.int64)
