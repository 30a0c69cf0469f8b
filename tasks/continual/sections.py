"""The sections that the options of training hold, and the kinds of their values."""

from __future__ import annotations

import re
from typing import Any

from wilkins.errors import suggest
from wilkins.schema.kinds import ListOf, Parsed, Values, boolean, choice, duration, integer, number, size, text
from wilkins.schema.reading import Kind, Where, key
from wilkins.values import dataclass

_CODE = re.compile(r"(?P<place>[^:]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")
OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop", "adagrad")
WITH_MOMENTUM = ("sgd", "rmsprop")
SCHEDULES = (
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "OneCycleLR",
)
"""The schedules of torch.optim.lr_scheduler that have only numbers as arguments."""
WITH_BUFFER = ("rehearsal", "der", "der++", "gdumb")
"""Strategies that need the room of a buffer."""
ANEW = ("from-scratch", "gdumb")
"""Strategies that begin with the initial model, optimiser and schedule at each step of the stream."""


def is_code(value: str) -> bool:
    """Whether a text names a function: ``module:name`` or ``file.py:name``."""
    return _CODE.fullmatch(value) is not None


def code(*words: str) -> Kind:
    """A function or class by its place, or one of a few words."""

    def parse(value: str) -> str:
        if value not in words and not is_code(value):
            raise ValueError(suggest(value, words).removeprefix("; "))
        return value

    meaning = "".join(f"'{word}', " for word in words) + ("or " if words else "") + "'module:name' or 'file.py:name'"
    return Parsed(meaning, {"type": "string", "minLength": 1}, parse)


def positive() -> Kind:
    """A number above 0."""

    def parse(value: str) -> float:
        found = float(value)
        if not 0 < found < float("inf"):
            raise ValueError
        return found

    return Parsed("a number above 0", {"type": "number", "exclusiveMinimum": 0}, parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """The rehearsal buffer."""

    samples: int | None = key(
        integer(1), default=None, doc="Room of each rank's part, as a number of samples. Either this or `bytes`."
    )
    bytes: int | None = key(
        size("a number of bytes such as 500MB or 1GiB"), default=None, doc="Room of each rank's part, in bytes."
    )
    candidates: int | None = key(
        integer(1),
        default=None,
        doc="Samples of each batch that are offered to the buffer; left out: a quarter of `batch`.",
    )
    representatives: int | None = key(
        integer(1),
        default=None,
        doc="Samples that a rank gets back with each batch and trains on too; left out: a quarter of `batch`.",
    )
    eviction: str = key(
        code("reservoir", "random", "fifo"),
        default="reservoir",
        doc="Which sample makes room for a new one: by a rule, or chosen by a function.",
    )
    balance: str = key(
        choice("class", "step", "task", "proportional"),
        default="class",
        doc="What gets equal room: each class (of `label`), each `step` of the stream, each `task`; or nothing, so "
        "that each has room by its share of the stream (`proportional`).",
    )
    device: str = key(text(), default="host", doc="Where samples are kept: `host`, or a torch device such as `cuda:0`.")
    background: bool = key(
        boolean(), default=True, doc="Whether samples are exchanged in a thread while a batch is trained."
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """How parameters are changed."""

    name: str = key(
        code(*OPTIMIZERS),
        default="sgd",
        doc="An optimiser of torch, or a function that is called with the parameters and `args`.",
    )
    lr: float = key(positive(), default=0.01, doc="Learning rate.")
    momentum: float | None = key(number(), default=None, doc="Of `sgd` and `rmsprop`.")
    weight_decay: float | None = key(number(), default=None, doc="Weight decay.")
    args: dict[str, Any] | None = key(
        Values(), default=None, doc="More arguments by their names in torch, such as `{betas: [0.9, 0.99]}`."
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Regularise:
    """Terms that keep the model close to its state after earlier steps of the stream."""

    name: str = key(
        code("ewc", "lwf"),
        doc="`ewc`: elastic weight consolidation, of parameters; `lwf`: learning without forgetting, of outputs; or a "
        "class of your own that derives from `wilkins.tasks.continual.Regulariser`.",
    )
    strength: float | None = key(
        positive(), default=None, doc="Weight of what is added to the objective; left out: 1, or your class's own."
    )
    args: dict[str, Any] | None = key(
        Values(),
        default=None,
        doc="More arguments by name: `samples` of `ewc`, per rank and step of the stream, for its estimate; "
        "`temperature` of `lwf`.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the learning rate changes in the course of training."""

    name: str = key(
        code(*SCHEDULES),
        doc="A class of torch.optim.lr_scheduler, or a function that is called with the optimiser and `args` and gives "
        "an object of one.",
    )
    args: dict[str, Any] | None = key(
        Values(), default=None, doc="Its arguments by their names in torch, such as `{T_max: 1000}`."
    )
    per: str = key(
        choice("update", "step"),
        default="update",
        doc="Whether it goes on with each optimiser step (`update`) or with each step of the stream.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When training ends, if not with the stream: as soon as one of these holds."""

    updates: int | None = key(integer(1), default=None, doc="After so many optimiser steps.")
    steps: int | None = key(integer(1), default=None, doc="After so many steps of the stream.")
    seconds: float | None = key(duration(), default=None, doc="After this time, at the end of an optimiser step.")
    loss: float | None = key(
        positive(), default=None, doc="After a step of the stream whose mean training loss is at or below this."
    )
    error: float | None = key(
        positive(),
        default=None,
        doc="After a step of the stream whose error, before it was trained on, is at or below this.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """When model versions go to the out-port. One comes at the end in any case."""

    when: str = key(
        choice("step", "update", "end"),
        default="step",
        doc="After steps of the stream, after optimiser steps, or only at the end.",
    )
    every: int = key(integer(1), default=1, doc="After every n-th of them.")
    filename: str | None = key(
        text(),
        default=None,
        doc="Name of the files, such as `model-{version:05}.h5`; left out: the out-port's, with the version for its "
        "`*`.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """What a trainer that is started again goes on from."""

    folder: str | None = key(
        text(),
        default=None,
        doc="Folder, relative to the task's; made if it is missing. Left out: `saved`, or none if there is a `store`.",
    )
    every: int = key(integer(1), default=100, doc="Save after every n-th optimiser step, and when training ends.")
    stream: str = key(
        choice("replayed", "continued", "resumed"),
        default="replayed",
        doc="What the stream is after a restart. `replayed`: it begins anew, and what was trained on is skipped. "
        "`continued`: it goes on after the last step that was trained on. `resumed`: only `wilkins run --resume` goes "
        "on from a save; any other run trains from the beginning.",
    )
    store: str | None = key(
        text(),
        default=None,
        doc="Model store (a folder, relative to the task's) that gets the trained model at the end. Its parent is the "
        "model that it began with (`start_from`), its score minus its error: the mean on `held_out` samples, else that "
        "on the newest step before it was trained on.",
    )
    name: str | None = key(text(), default=None, doc="What the model is called in the store; left out: by its content.")
    tags: tuple[str, ...] = key(ListOf(text()), default=(), doc="Words to find the model by in the store.")
    where: Where


def saves_in(folder: str | None, store: str | None) -> str:
    """The folder of saves, by what the section `save:` says; empty: there are none."""
    return folder or ("" if store else "saved")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFrom:
    """A stored model whose layers are taken over, as far as the model has the same from its beginning on."""

    store: str = key(
        text(), doc="Model store: a folder, relative to the task's. Where it has no relative, training begins anew."
    )
    match: str = key(
        choice("prefix", "whole"),
        default="prefix",
        doc="Which model: of those with the longest common prefix of layers, or of those that have all layers, the one "
        "with the best score.",
    )
    model: str | None = key(text(), default=None, doc="The name of the model, rather than the best one.")
    freeze: bool = key(
        boolean(),
        default=False,
        doc="Whether parameters that are taken over stay as they are; if that are all, those of the last layer do not.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Samples in each step that are not trained on, on which the model is measured after this and every later step."""

    inputs: str = key(text(), doc="Path of the dataset of inputs.")
    targets: str = key(text(), doc="Path of the dataset of targets (classes, for `cross_entropy`).")
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What is written about the training."""

    folder: str = key(text(), default=".", doc="Folder of `training.csv` (a row per step) and `training.json`.")
    plot: bool = key(boolean(), default=False, doc="Whether to draw `training.png`, which needs matplotlib.")
    where: Where
