"""The options of training: what the section `train:` of a task may hold."""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from wilkins.schema.kinds import Values, boolean, choice, integer, text
from wilkins.schema.reading import Where, key
from wilkins.schema.sections import Section
from wilkins.tasks.continual.sections import (
    ANEW,
    WITH_BUFFER,
    WITH_MOMENTUM,
    Buffer,
    HeldOut,
    Optimizer,
    Publish,
    Regularise,
    Results,
    Save,
    Schedule,
    StartFrom,
    Stop,
    code,
    is_code,
    positive,
    saves_in,
)
from wilkins.tasks.registry import ReadyMade
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """How a model is trained on the steps of the in-port."""

    model: str = key(
        code(),
        doc="Function or class that makes the model, a `torch.nn.Module`: `module:name`, or `file.py:name` with a file "
        "relative to the task's folder or the workflow file's.",
    )
    model_args: dict[str, Any] | None = key(Values(), default=None, doc="Its arguments, by name.")
    inputs: str = key(text(), doc="Path of the dataset of inputs, one sample after the other along the first axis.")
    targets: str | None = key(
        text(), default=None, doc="Path of the dataset of targets; left out: that of `label`. Either or both are given."
    )
    label: str | None = key(
        text(),
        default=None,
        doc="Path of the dataset of each sample's class, a whole number from 0 on: the target of `cross_entropy`, and "
        "what `balance: class` of the buffer goes by.",
    )
    task: str | None = key(
        text(),
        default=None,
        doc="Path of the dataset of each sample's task, a whole number from 0 on, or of one number for the whole step: "
        "what `balance: task` of the buffer goes by.",
    )
    classes: int | None = key(
        integer(1), default=None, doc="Number of classes; left out: as many as the model's output has columns."
    )
    loss: str = key(
        code("cross_entropy", "mse"),
        default="cross_entropy",
        doc="What is minimised: a function of outputs and targets that gives one number, the mean over the samples.",
    )
    error: str | None = key(
        choice("wrong", "rmse", "relative", "loss"),
        default=None,
        doc="How errors are measured: `wrong`, the fraction of samples that are misclassified; `rmse`, the root mean "
        "square; `relative`, the norm of the error by that of the targets; `loss`. Left out: `wrong` for "
        "`cross_entropy`, `rmse` for `mse`, `loss` for others.",
    )
    strategy: str = key(
        code("incremental", "from-scratch", *WITH_BUFFER),
        default="incremental",
        doc="`incremental`: on new samples only; `from-scratch`: anew with each step, on all samples so far; "
        "`rehearsal`: with representatives from a buffer; `der`, `der++`: dark experience replay; `gdumb`: anew with "
        "each step, on a balanced choice of the samples so far; or a class of your own that derives from "
        "`wilkins.tasks.continual.Strategy`.",
    )
    strategy_args: dict[str, Any] | None = key(Values(), default=None, doc="Arguments of your own strategy, by name.")
    alpha: float | None = key(
        positive(), default=None, doc="Of `der` and `der++`: weight of the distance from remembered outputs; 0.5."
    )
    beta: float | None = key(positive(), default=None, doc="Of `der++`: weight of the loss on representatives; 0.5.")
    regularise: Regularise | None = key(
        Section(Regularise), default=None, doc="What is added to the objective of any strategy; left out: nothing."
    )
    buffer: Buffer | None = key(
        Section(Buffer), default=None, doc="The rehearsal buffer of such a strategy, or of your own; others do without."
    )
    optimizer: Optimizer | None = key(Section(Optimizer), default=None, doc="The optimiser; left out: `{name: sgd}`.")
    schedule: Schedule | None = key(
        Section(Schedule), default=None, doc="How the learning rate changes; left out: it stays as it is."
    )
    batch: int = key(integer(1), default=32, doc="Samples per rank and optimiser step, at most.")
    passes: int = key(integer(1), default=1, doc="How often each step's samples are gone through.")
    nan: str = key(
        choice("error", "skip", "keep"),
        default="error",
        doc="What to do with samples that hold NaN or infinity: stop, leave them out, or train on them.",
    )
    unused_parameters: bool = key(
        boolean(),
        default=False,
        doc="Whether some parameters of the model have no part in some batches; ranks then look for them.",
    )
    seed: int = key(integer(0), default=0, doc="All that is random follows from this.")
    stop: Stop | None = key(Section(Stop), default=None, doc="When training ends; left out: with the stream.")
    publish: Publish | None = key(
        Section(Publish), default=None, doc="When model versions are published; left out: after each step."
    )
    save: Save | None = key(Section(Save), default=None, doc="Saves from which to go on; left out: none.")
    start_from: StartFrom | None = key(
        Section(StartFrom), default=None, doc="A stored model to begin with; left out: the model's own values."
    )
    preprocessing: dict[str, Any] | None = key(
        Values(),
        default=None,
        doc="What was done to the inputs before they came, in order: operations with their settings, as `{scale: {by: "
        "255}}`. Nothing is computed by it: in a model store, models have layers in common only if it is the same.",
    )
    on_failure: str = key(
        choice("stop", "continue", "lossy"),
        default="stop",
        doc="What the death of a rank does: `stop` ends the task; `continue`: the other ranks share its samples, and "
        "make the optimiser step anew that it died in; `lossy`: they finish that step without its samples "
        "(`wilkins help elastic-training`).",
    )
    held_out: HeldOut | None = key(
        Section(HeldOut),
        default=None,
        doc="Samples to measure the model on: gives the matrix of errors by steps.",
    )
    results: Results | None = key(Section(Results), default=None, doc="Results in files; left out: none.")
    device: str = key(
        choice("auto", "cpu", "cuda"), default="auto", doc="Where to train; `auto`: on a GPU if there is one."
    )
    where: Where


def filename_problem(filename: str, pattern: str, fields: Mapping[str, Any]) -> str:
    """What is wrong with the name of the files that go to an out-port, which may hold some fields."""
    allowed = " and ".join(f"{{{name}}}" for name in fields)
    try:
        name = filename.format(**fields)
    except (ValueError, LookupError, AttributeError, TypeError):
        return f"the 'filename' {filename!r} cannot be filled in; it may hold {allowed}"
    want, have = PurePath(pattern).parts, PurePath(name).parts
    parts = zip(reversed(want), reversed(have), strict=False)
    if not all(fnmatch.fnmatchcase(part, one) for one, part in parts):
        return f"the 'filename' {filename!r} gives {name!r}, which the out-port {pattern!r} does not match"
    return ""


def default_filename(pattern: str, field: str) -> str | None:
    """The name of an out-port's files, with a field for its one `*`; None if the pattern is not so simple."""
    if "{" in pattern or "}" in pattern:
        pattern = pattern.replace("{", "{{").replace("}", "}}")
    if any(letter in pattern for letter in "?[") or pattern.count("*") > 1:
        return None
    return pattern.replace("*", field)


def _check(options: Train, task: Any) -> Iterator[tuple[str, str]]:
    for noun, ports, least in (("in-port", task.inports, 1), ("out-port", task.outports, 0)):
        if not least <= len(ports) <= 1:
            what = "one" if least else "at most one"
            yield (
                "model",
                f"the task needs {what} {noun}, the {'samples' if least else 'model versions'}, and has "
                + str(len(ports)),
            )
    if options.results and options.results.plot and importlib.util.find_spec("matplotlib") is None:
        yield "results", "'plot' needs matplotlib, which this Python does not have; run: pip install matplotlib"
    if options.save and options.save.store is None and (options.save.name or options.save.tags):
        yield "save", "'name' and 'tags' are of a model in a store; add 'store: FOLDER', or remove them"
    yield from _check_preprocessing(options)
    yield from _check_samples(options)
    yield from _check_strategy(options)
    yield from _check_elastic(options)
    optimizer = options.optimizer
    if optimizer and optimizer.momentum is not None and optimizer.name not in WITH_MOMENTUM:
        yield "optimizer", f"'momentum' is of {' and '.join(WITH_MOMENTUM)}, not of {optimizer.name!r}; remove it"
    if options.schedule and options.schedule.per == "step" and options.strategy in ANEW:
        yield "schedule", f"{options.strategy!r} begins the schedule anew with each step; set 'per: update'"
    if task.outports:
        pattern = task.outports[0].filename
        name = options.publish and options.publish.filename
        if name is None and default_filename(pattern, "") is None:
            cure = f"say what the files of the out-port {pattern!r} are called"
            yield "publish", f"{cure}; add 'filename: ...' under 'publish'"
        elif name and (problem := filename_problem(name, pattern, {"version": 1})):
            yield "publish", problem
    elif options.publish:
        yield "publish", "the task has no out-port to publish to; add 'outports:', or remove 'publish'"


def _check_preprocessing(options: Train) -> Iterator[tuple[str, str]]:
    if options.preprocessing and not (options.start_from or (options.save and options.save.store)):
        yield (
            "preprocessing",
            "it tells models of a store apart, and there is none; add 'save: {store: FOLDER}', or remove it",
        )
    for operation, settings in (options.preprocessing or {}).items():
        if not isinstance(settings, dict):
            yield "preprocessing", f"{operation!r} has no names for its settings; give {{{operation}: {{NAME: VALUE}}}}"


def _check_samples(options: Train) -> Iterator[tuple[str, str]]:
    if options.targets is None and options.label is None:
        yield "inputs", "there is nothing to learn; add 'label: PATH' (classes), or 'targets: PATH'"
    if options.error == "wrong" and options.loss != "cross_entropy":
        yield "error", "'wrong' counts classes, and goes with 'loss: cross_entropy'; set rmse, relative or loss"
    if options.error in ("rmse", "relative") and options.loss == "cross_entropy":
        yield "error", f"{options.error!r} compares numbers, and 'loss: cross_entropy' has classes; set wrong or loss"
    if options.loss == "mse" and options.targets is None:
        yield "loss", "'mse' needs numbers to compare with; add 'targets: PATH'"


def _check_strategy(options: Train) -> Iterator[tuple[str, str]]:
    buffer = options.buffer
    if options.strategy in WITH_BUFFER and buffer is None:
        yield "strategy", f"{options.strategy!r} needs a buffer; add 'buffer: {{samples: 1000}}'"
    if options.strategy_args and not is_code(options.strategy):
        yield "strategy_args", f"they are of a strategy of your own, and {options.strategy!r} has none; remove them"
    if buffer and (buffer.samples is None) == (buffer.bytes is None):
        yield "buffer", "the room of the buffer is given by either 'samples' or 'bytes', one of the two"
    if options.strategy == "gdumb" and buffer:
        yield from _check_gdumb(options, buffer)
    if buffer and buffer.balance == "task" and options.task is None:
        yield "buffer", "'balance: task' needs to know the tasks; add 'task: PATH' beside it, or set 'balance: step'"
    if buffer and (buffer.candidates or 1) > options.batch:
        yield "buffer", f"'candidates' ({buffer.candidates}) must not exceed 'batch' ({options.batch})"
    for name, strategies in (("alpha", ("der", "der++")), ("beta", ("der++",))):
        if getattr(options, name) is not None and options.strategy not in strategies:
            yield (
                name,
                f"{name!r} is of the strategy {' and '.join(strategies)}, not of {options.strategy!r}; remove it",
            )


def _check_elastic(options: Train) -> Iterator[tuple[str, str]]:
    """What ranks that go on without each other cannot do: all that needs an answer of every rank."""
    if options.on_failure == "stop":
        return
    stop, schedule = options.stop, options.schedule
    for name, given, cure in (
        ("strategy", options.strategy not in ("incremental", "rehearsal"), "set incremental or rehearsal"),
        ("regularise", options.regularise is not None, "remove it"),
        ("save", options.save is not None and options.save.store is not None, "remove 'store'"),
        ("start_from", options.start_from is not None, "remove it"),
        ("schedule", schedule is not None and schedule.per != "update", "set 'per: update'"),
        ("stop", stop is not None and stop.seconds is not None, "give 'updates' or 'steps' in place of 'seconds'"),
    ):
        if given:
            yield name, f"ranks cannot have this and 'on_failure: {options.on_failure}'; {cure}, or 'on_failure: stop'"


def _check_gdumb(options: Train, buffer: Buffer) -> Iterator[tuple[str, str]]:
    if buffer.balance == "proportional":
        yield "buffer", "'gdumb' gives equal room to what it keeps; set 'balance' to class, step or task"
    elif buffer.balance == "class" and options.label is None and options.loss != "cross_entropy":
        yield "strategy", "'gdumb' balances classes; add 'label: PATH', or 'balance: step' under 'buffer'"
    other = (buffer.candidates, buffer.representatives, buffer.eviction, buffer.device)
    if other != (None, None, "reservoir", "host"):
        yield "buffer", "'gdumb' takes only 'samples' or 'bytes', and 'balance'; remove the other keys"


NAMING = {
    "model": "",
    "loss": "",
    "regularise": "name",
    "schedule": "name",
    "strategy": "",
    "buffer": "eviction",
    "optimizer": "name",
}
"""Options that may name a function or a class of the user's, or have an option of this name that may."""


def _code(options: Train) -> Iterator[tuple[str, str]]:
    for option, within in NAMING.items():
        given = getattr(options, option)
        name = getattr(given, within) if given and within else given
        if name and is_code(name):
            yield option, name


TASK = ReadyMade(
    name="continual",
    section="train",
    doc="Trains a model on the samples of its in-port as they come, on all its ranks; publishes model versions.",
    options=Train,
    module="wilkins.tasks.continual.task.run",
    check=_check,
    code=_code,
    calls=lambda options: [("model_args", options.model, list(options.model_args or ()))],
    saves=lambda options: bool(options.save and saves_in(options.save.folder, options.save.store)),
    elastic=lambda options: options.on_failure != "stop",
    needs=lambda _: {"torch": "torch"},
)
