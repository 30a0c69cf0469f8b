"""Serves predictions: takes each step's inputs and the newest model version there is, publishes what it predicts."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from wilkins import transport
from wilkins.tasks.analysis.results import filled
from wilkins.tasks.continual.options import default_filename
from wilkins.tasks.continual.task import factories
from wilkins.tasks.continual.task.model_file import ModelVersion, apply_state, read_model
from wilkins.tasks.continual.task.step_samples import Samples, Wanted
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group
from wilkins.tasks.ranks import agree
from wilkins.tasks.registry import Ports
from wilkins.transport import points

if TYPE_CHECKING:
    from wilkins.transport.channel import Channel
    from wilkins.transport.received import Step

Options = Mapping[str, Any]

SECONDS = 0.5
"""The least time between two restart points, since reporting one waits for the disk."""


def main(options: Options, ports: Ports, ranks: Group) -> None:
    """Predicts for all steps of the task's in-port, until it ends.

    Args:
        options: the section `inference:` as plain data.
        ports: the patterns of the in-ports, inputs and model versions, and of the out-port.

    Raises:
        TaskError: a step lacks a dataset, or a model version does not fit the options or the inputs.
        OSError: a file cannot be read or written.
    """
    port = next(name for name in ports.inports if name != options["models"])
    filename = str(options["filename"] or default_filename(ports.outports[0], "{step:05}"))
    model = Model(options, ranks, [Path.cwd(), Path(ports.folder)])
    samples = Samples(port, ranks, nan=options["nan"])
    before, known = _before()
    steps, served, reported = before, 0, -math.inf
    with transport.open(options["models"]) as models, transport.open(port, prefetch=1) as inputs:
        for step in inputs:
            with step:
                model.update(models, wait=options["wait"] or known)
                data = samples.read(step, {"x": Wanted(options["inputs"])})
                for path in options["dsets"]:
                    if path not in step:
                        raise TaskError(f"{samples.who(step, path)}: there is no dataset to pass on; mend 'dsets'")
                predicted = model.predict(data["x"], samples.who(step, options["inputs"]))
                if ranks.rank == 0:
                    name = filled(filename, steps, step.filename)
                    served += _write(name, steps, options, step, model, predicted)
            steps += 1
            if ranks.rank == 0 and time.monotonic() - reported >= SECONDS:
                reported = time.monotonic()
                consumed = {port: step.sequence + 1, options["models"]: max(0, model.sequence)}
                points.tell(f"{steps} {model.sequence}", consumed, dict.fromkeys(ports.outports, steps))
    if ranks.rank == 0:
        newest = f"the newest model version was {model.number}" if model.number >= 0 else "no model version came"
        print(f"predicted for {served} of {steps - before} steps well enough; {newest}")


def _before() -> tuple[int, bool]:
    """Where a resumed run goes on: how many steps there were before, and whether a model version was known.

    The version itself comes again: a point counts it as not consumed.
    """
    point = points.chosen()
    if point is None:
        return 0, False
    steps, _, version = point.label.partition(" ")
    return int(steps), int(version) >= 0


class Model:
    """The newest version of a model."""

    def __init__(self, options: Options, ranks: Group, folders: list[Path]) -> None:
        self._options = options
        self._ranks = ranks
        self._folders = folders
        self._device = factories.device_of(options["device"], ranks)
        self._version: ModelVersion | None = None
        self._model: torch.nn.Module | None = None
        self.sequence = -1
        """The step of the model's in-port that the version came with; -1 if there is none yet."""
        if options["model_args"] is not None:  # fails before there is something to predict
            self._make(options["model_args"])

    @property
    def number(self) -> int:
        """The version, from 0; -1 if there is none yet."""
        return -1 if self._version is None else self._version.version

    @property
    def error(self) -> float:
        """The error that the version came with; NaN if unknown."""
        return math.nan if self._version is None else self._version.error

    @property
    def is_good(self) -> bool:
        """Whether its predictions may be used."""
        limit = self._options["threshold"]
        return self._version is not None and (limit is None or self._version.error <= limit)

    def update(self, models: Channel, *, wait: bool) -> None:
        """Take the newest version that has arrived, the same on all ranks.

        Raises:
            TaskError: it is not of the model in the options; or none came, and `wait` asks for one.
        """
        newest: Step | None = None
        if wait and self._version is None and not models.ended:
            newest = next(models, None)
            if newest is None:
                raise TaskError(
                    f"port {self._options['models']!r}: the stream has ended without a model version; see to the task "
                    "that trains, or set 'wait: false'"
                )
        while (step := models.poll()) is not None:
            if newest is not None:
                newest.release()
            newest = step
        if newest is not None:
            trouble = ""
            try:
                with newest:
                    self._adopt(newest)
            except TaskError as error:
                trouble = str(error)
            agree(self._ranks, trouble)

    def _adopt(self, step: Step) -> None:
        who = f"port {self._options['models']!r}, step {step.index} ({step.filename})"
        version = read_model(step.file, who)
        wanted = self._options["model"]
        if version.factory != wanted:
            raise TaskError(
                f"{who}: it is a version of the model {version.factory!r}, and 'model' says {wanted!r}; mend it"
            )
        given = self._options["model_args"]
        if given is not None and given != version.factory_args:
            raise TaskError(
                f"{who}: its model was made with {dict(version.factory_args)}, and 'model_args' says {given}; give the "
                "same, or leave 'model_args' out"
            )
        if self._model is None or (self._version and self._version.factory_args != version.factory_args):
            self._make(version.factory_args)
        assert self._model is not None
        apply_state(self._model, version.state, who, f"'model: {wanted}'")
        self._version, self.sequence = version, step.sequence

    def _make(self, arguments: Mapping[str, Any]) -> None:
        self._model = factories.model_of(self._options["model"], arguments, self._folders).to(self._device).eval()

    def predict(self, x: torch.Tensor, who: str) -> NDArray[Any] | None:
        """Outputs for the inputs of all ranks, on rank 0; None on the others, and without a model.

        Raises:
            TaskError: the model does not take these inputs.
        """
        if self._model is None or self._version is None:
            return None
        trouble, outputs = "", np.empty(0)
        try:
            outputs = self._outputs(self._model, x, who)
        except TaskError as error:
            trouble = str(error)
        agree(self._ranks, trouble)
        return self._joined(outputs)

    def _outputs(self, model: torch.nn.Module, x: torch.Tensor, who: str) -> NDArray[Any]:
        if x.is_floating_point():
            x = x.to(factories.dtype_of(model))
        parts: list[torch.Tensor] = []
        size = self._options["batch"]
        for part in (x[begin : begin + size] for begin in range(0, len(x), size)):
            try:
                with torch.inference_mode():
                    outputs = model(part.to(self._device))
            except Exception as error:
                raise TaskError(f"{who}: {factories.refused(self._options['model'], x, error)}") from error
            if problem := factories.misshapen(self._options["model"], outputs, len(part)):
                raise TaskError(f"{who}: {problem}")
            parts.append(outputs.cpu())
        if not parts:
            return np.empty(0)
        joined = torch.cat(parts)
        half = joined.dtype in (torch.bfloat16, torch.float16)
        array: NDArray[Any] = (joined.float() if half else joined).numpy()
        return array

    def _joined(self, mine: NDArray[Any]) -> NDArray[Any] | None:
        """The rows of all ranks, one after the other, on rank 0."""
        if self._ranks.comm is None:
            return mine
        counts = self._ranks.allgather((len(mine), mine.shape[1:], mine.dtype.str))
        filled_ones = [(shape, dtype) for count, shape, dtype in counts if count]
        shape, dtype = filled_ones[0]
        root = self._ranks.rank == 0
        whole = np.empty((sum(count for count, _, _ in counts), *shape), dtype) if root else None
        from mpi4py import MPI

        row = MPI.BYTE.Create_contiguous(np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))).Commit()
        rows = [count for count, _, _ in counts]
        send = np.ascontiguousarray(mine) if len(mine) else np.empty(0, np.uint8)
        self._ranks.comm.Gatherv([send, len(mine), row], [whole, rows, None, row] if root else None)
        row.Free()
        return whole


def _write(name: str, number: int, options: Options, step: Step, model: Model, predicted: NDArray[Any] | None) -> bool:
    """Publish the predictions for a step; returns whether they are good."""
    good = predicted is not None and model.is_good and bool(np.isfinite(predicted).all())
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(name, "w") as file:
        file.attrs.update(step.attrs)
        file.attrs.update(model_version=model.number, model_error=model.error, good=int(good), step=number)
        if predicted is not None:
            file[options["output"]] = predicted
        for path in options["dsets"]:
            step.file.copy(step.file[path], file, path)
    return good
