"""The options of inference: what the section `inference:` of a task may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wilkins.schema.kinds import ListOf, Values, boolean, choice, integer, text
from wilkins.schema.reading import Where, key
from wilkins.tasks.continual.options import default_filename, filename_problem
from wilkins.tasks.continual.sections import code, positive
from wilkins.tasks.registry import ReadyMade
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """How predictions are made for the steps of the in-port."""

    models: str = key(text(), doc="The `filename` of the in-port that model versions come from.")
    model: str = key(
        code(),
        doc="Function or class that makes the model, `module:name` or `file.py:name`, as the trainer's `model` says "
        "it: code that only a model file names is not run.",
    )
    model_args: dict[str, Any] | None = key(
        Values(), default=None, doc="Its arguments, by name; left out: those that the model version came with."
    )
    inputs: str = key(text(), doc="Path of the dataset of inputs, one sample after the other along the first axis.")
    output: str = key(text(), default="/prediction", doc="Path of the dataset of predictions.")
    dsets: tuple[str, ...] = key(
        ListOf(text()), default=(), doc="Datasets of the step that are passed on with the predictions, unchanged."
    )
    batch: int = key(integer(1), default=256, doc="Samples per rank that the model is given at once, at most.")
    threshold: float | None = key(
        positive(),
        default=None,
        doc="Predictions are `good` if the model's error is at or below this; left out: with any model.",
    )
    wait: bool = key(
        boolean(),
        default=False,
        doc="Whether to wait for the first model version; else steps before it go on without predictions.",
    )
    nan: str = key(
        choice("error", "keep"),
        default="error",
        doc="What to do with inputs that hold NaN or infinity: stop, or give them to the model.",
    )
    filename: str | None = key(
        text(),
        default=None,
        doc="Name of the files, which may hold {step} (from 0) and {name}, that of the step's file without suffix; "
        "left out: the out-port's, with `{step:05}` for its `*`.",
    )
    device: str = key(
        choice("auto", "cpu", "cuda"), default="auto", doc="Where the model runs; `auto`: on a GPU if there is one."
    )
    where: Where


def _check(options: Inference, task: Any) -> Iterator[tuple[str, str]]:
    names = [port.filename for port in task.inports]
    if options.models not in names:
        yield "models", f"{options.models!r} is no in-port of the task; its in-ports are {', '.join(names) or 'none'}"
    elif len(names) != 2:
        yield (
            "models",
            f"the task needs two in-ports, the inputs and {options.models!r}, and has {len(names)}; mend 'inports'",
        )
    if len(task.outports) != 1:
        yield "output", f"the task needs one out-port, for predictions, and has {len(task.outports)}; mend 'outports'"
    else:
        pattern = task.outports[0].filename
        if options.filename is None and default_filename(pattern, "") is None:
            yield "filename", f"say what the files of the out-port {pattern!r} are called; add 'filename: ...'"
        elif options.filename and (problem := filename_problem(options.filename, pattern, {"step": 1, "name": "name"})):
            yield "filename", problem
    paths = [path.strip("/") for path in (options.output, *options.dsets)]
    if len(set(paths)) < len(paths):
        yield "dsets", "two datasets would have the same path; list each once, and none that 'output' names"


TASK = ReadyMade(
    name="inference",
    doc="Predicts with the newest version of a model for each step of its in-port, on all its ranks.",
    options=Inference,
    module="wilkins.tasks.inference.run",
    check=_check,
    code=lambda options: [("model", options.model)],
    calls=lambda options: (
        [("model_args", options.model, list(options.model_args))] if options.model_args is not None else []
    ),
    needs=lambda _: {"torch": "torch"},
)
