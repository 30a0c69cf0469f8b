"""Trains on the steps of a task's in-port: reads samples, measures, trains, publishes model versions, saves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wilkins import transport
from wilkins.errors import WilkinsError
from wilkins.tasks import code
from wilkins.tasks.continual.errors import BadBatch, BadSample, RankFailed
from wilkins.tasks.continual.learner import saved_learner
from wilkins.tasks.continual.learner.generators import generator_state, set_generators
from wilkins.tasks.continual.learner.losses import problem_of
from wilkins.tasks.continual.learner.positions import Step
from wilkins.tasks.continual.learner.training_loop import Learner
from wilkins.tasks.continual.learner.world import PATIENCE, process_group
from wilkins.tasks.continual.task import factories, relatives
from wilkins.tasks.continual.task.evaluation import kind_of_error, measure, of_all
from wilkins.tasks.continual.task.model_versions import Versions
from wilkins.tasks.continual.task.step_samples import Samples, Wanted
from wilkins.tasks.continual.task.survivors import Survivors
from wilkins.tasks.continual.task.trained_with import differences, digest_of, trained_with
from wilkins.tasks.continual.task.training_report import Report
from wilkins.tasks.elastic.training import Elastic
from wilkins.tasks.errors import ReportedElsewhere, TaskError
from wilkins.tasks.group import Group
from wilkins.tasks.ranks import agree
from wilkins.tasks.registry import Ports
from wilkins.transport import points

if TYPE_CHECKING:
    from wilkins.transport.received import Step as StreamStep

Options = Mapping[str, Any]

_START = "start "
"""Before the steps of a save that a run began from, in the label of its first restart point."""
KEPT_WITH_MODELS = 4
"""Saves that stay where others read model versions: a resumed run may need one from before what they have read."""


def main(options: Options, ports: Ports, ranks: Group) -> None:
    """Trains on all steps of the task's in-port, or until a rule stops it.

    Args:
        options: the section `train:` as plain data.
        ports: the patterns of the in-port with the samples, and of the out-port for model versions, if there is one.

    Raises:
        TaskError: samples, model, loss or options do not fit each other, or training has diverged.
        OSError: a file cannot be read or written.
    """
    folders = [Path.cwd(), Path(ports.folder)]
    device = factories.device_of(options["device"], ranks)
    model = factories.model_of(options["model"], options["model_args"] or {}, folders, options["seed"])
    family = relatives.begin(options, model, ranks, anew=_begins_anew(options))
    model = model.to(device)
    loss = factories.loss_of(options["loss"], folders)
    optimizer = factories.optimizer_of(options["optimizer"], model, folders)
    schedule = factories.schedule_of(options["schedule"], optimizer, folders)
    elastic = None
    if options["on_failure"] != "stop":
        lossy = options["on_failure"] == "lossy"
        patience = PATIENCE.total_seconds()
        elastic = Elastic(model, optimizer, schedule=schedule, lossy=lossy, seed=options["seed"], patience=patience)
    with process_group(ranks.comm, device):
        strategy = factories.strategy_of(options, ranks, ports.inports[0], folders)
        with Learner(
            model,
            strategy,
            optimizer,
            loss,
            regularise=factories.regularisers_of(options["regularise"], folders),
            schedule=schedule,
            per=options["schedule"]["per"] if schedule else "update",
            batch=options["batch"] * (elastic.size if elastic else 1),
            device=device,
            seed=options["seed"],
            find_unused_parameters=options["unused_parameters"],
            check_nan=False,
            port=ports.inports[0],
            elastic=elastic,
        ) as learner:
            group = Survivors(elastic) if elastic else ranks
            Training(options, ports, group, learner, family, elastic).run()


def _begins_anew(options: Options) -> bool:
    """Whether the training goes on from no save, whichever there are."""
    continued = options["save"] is not None and options["save"]["stream"] != "resumed"
    return points.chosen() is None and (points.resumed() or not continued)


class _Stopped(WilkinsError):
    """A rule ends training in the middle of a step."""


class Training:
    """The course of a training, on all ranks together."""

    def __init__(
        self,
        options: Options,
        ports: Ports,
        ranks: Group,
        learner: Learner,
        family: relatives.Family | None = None,
        elastic: Elastic | None = None,
    ) -> None:
        self._options = options
        self._port = ports.inports[0]
        self._ranks = ranks
        self._learner = learner
        self._family = family
        self._kind = kind_of_error(options["error"], options["loss"])
        dtype = factories.dtype_of(learner.model)
        self._elastic = elastic
        readers = Group() if elastic else ranks  # a rank that may have to do another one's part reads everything
        self._samples = Samples(self._port, readers, nan=options["nan"], dtype=dtype)
        self._held_out_samples = Samples(self._port, readers, dtype=dtype)
        self._report = Report(options, ranks)
        self._outports = ports.outports
        self._versions = Versions(options, ports, ranks)
        self._stop: Options = options["stop"] or dict.fromkeys(("updates", "steps", "seconds", "loss", "error"))
        save = options["save"] or {"every": 0, "stream": ""}
        self._folder = relatives.folder_of(options["save"])
        self._save_every: int = save["every"]
        self._continues = save["stream"] == "continued"
        self._replays = bool(self._folder) and not self._continues
        self._made_with = trained_with(options, [Path.cwd(), Path(ports.folder)]) if self._folder else {}
        chosen = points.chosen()
        self._starts_from = chosen if chosen and chosen.label.startswith(_START) else None
        self._point = None if self._starts_from else chosen
        self._begins_anew = _begins_anew(options)
        self._guards_saves = points.resumed() and save["stream"] != "resumed"
        self._inherited = 0
        """Optimiser steps of an earlier run, which this one began from."""
        self._began = time.monotonic()
        self._classes: int | None = options["classes"]
        self._like = "the number of 'classes'"
        self._probed = False
        self._saved_at = -1
        self._error = math.nan
        self._loss = math.nan
        self._sum = torch.zeros((), dtype=torch.float64)
        self._count = 0
        self._name = ""
        self._sequence = -1
        self._digest: int | None = None
        """Digest of the samples of the step that was trained on last."""
        self._held_out: list[Mapping[str, Tensor] | None] = []

    def run(self) -> None:
        """From the first step, or where a save leaves off, to the end."""
        restored = self._restore()
        position, resumed = self._learner.position, self._point is not None
        known = self._replays or resumed
        skip, trained = (position.experience, position.experience + position.begun) if known else (0, 0)
        read = before = position.experience if resumed else 0
        if restored and self._is_enough():
            if self._ranks.rank == 0:
                print("that is enough, as 'stop' says: nothing is trained", flush=True)
            with transport.open(self._port) as stream:
                next(stream, None)  # a task that never looks at its port is taken for one that has another name for it
        else:
            with transport.open(self._port, prefetch=1) as stream:
                for read, step in enumerate(stream, before + 1):
                    with step:
                        if read == trained:
                            self._check_same(step)
                        samples = None if read <= skip else self._samples_of(step)
                        self._keep_held_out(step)
                    if samples is not None and self._train(step, samples):
                        break
            if read < trained and not resumed:
                raise TaskError(
                    f"port {self._port!r}: the stream has ended after {read} steps, but the save in {self._folder!r} "
                    f"was trained on {trained}; let the same stream come again, set 'stream: continued' under 'save' "
                    "if it goes on behind them, or remove the folder to begin anew"
                )
        if not read and not restored:
            raise TaskError(
                f"port {self._port!r}: the stream has ended without a step, so there is nothing to train on; see to "
                "the task that writes it"
            )
        if self._elastic is not None:
            self._elastic.end()
        self._versions.publish_last(self._learner, self._loss, self._error)
        if self._folder and self._saved_at != self._learner.steps:
            self._write_save()
        if self._ranks.rank == 0:
            steps, seen = self._learner.steps, self._learner.position.experience
            relatives.put(
                self._options, self._learner.model, self._family, self._report.rows, step=steps, steps_seen=seen
            )
        self._report.end(self._learner, self._versions.count)

    def _samples_of(self, step: StreamStep) -> dict[str, Tensor]:
        """This rank's samples of a step, which fit the model and the loss."""
        wanted = self._wanted()
        samples = self._samples.read(step, wanted)
        if self._options["nan"] == "skip" and not any(self._ranks.allgather(len(samples["x"]))):
            raise TaskError(
                f"{self._samples.who(step)}: every sample holds NaN or infinity, so 'nan: skip' leaves none to train "
                "on; mend their source"
            )
        if not self._probed:
            self._probe(step, samples, wanted)
            self._probed = True
            if self._classes is not None:
                samples = self._samples.read(step, self._wanted())
        return samples

    def _wanted(self) -> dict[str, Wanted]:
        options = self._options
        by_class = self._learner.loss.classes
        limits: dict[str, Any] = {"classes": True, "below": self._classes, "like": self._like}
        wanted = {"x": Wanted(options["inputs"])}
        if options["targets"] and options["targets"] != options["label"]:
            wanted["y"] = Wanted(options["targets"], **limits if by_class else {})
            if options["label"]:
                wanted["label"] = Wanted(options["label"], classes=True, below=options["classes"])
        else:
            wanted["y"] = Wanted(options["label"], **limits)
        if options["task"]:
            wanted["task"] = Wanted(options["task"], classes=True, may_be_one=True)
        return wanted

    def _probe(self, step: StreamStep, samples: Mapping[str, Tensor], wanted: Mapping[str, Wanted]) -> None:
        """Gives the model one sample, so that a misfit is reported before anything is trained."""
        trouble, generators = "", generator_state(self._learner.device)
        x, y = (one[:1] if len(one) else one.new_zeros((1, *one.shape[1:])) for one in (samples["x"], samples["y"]))
        try:
            self._check_outputs(step, self._outputs(step, x), y, wanted)
        except TaskError as error:
            trouble = str(error)
        set_generators(generators, self._learner.device)  # a restart probes again, and draws the same nevertheless
        agree(self._ranks, trouble)

    def _outputs(self, step: StreamStep, x: Tensor) -> Tensor:
        model, name, path = self._learner.model, self._options["model"], self._options["inputs"]
        model.eval()
        try:
            with torch.no_grad():
                outputs = model(x.to(self._learner.device))
        except Exception as error:
            raise TaskError(f"{self._samples.who(step, path)}: {factories.refused(name, x, error)}") from error
        if problem := factories.misshapen(name, outputs, 1):
            raise TaskError(f"{self._samples.who(step, path)}: {problem}")
        assert isinstance(outputs, Tensor)
        return outputs

    def _check_outputs(self, step: StreamStep, outputs: Tensor, y: Tensor, wanted: Mapping[str, Wanted]) -> None:
        loss, who = self._learner.loss, self._samples.who(step, wanted["y"].path)
        if loss.classes and outputs.ndim == 2 and y.ndim == 1:
            columns = outputs.shape[1]
            if self._classes is not None and self._classes > columns:
                raise TaskError(
                    f"{who}: 'classes' is {self._classes}, but the model {self._options['model']!r} gives {columns} "
                    "numbers for a sample; it must give one for each class"
                )
            if self._classes is None:
                self._classes, self._like = columns, f"the model gives {columns} numbers for a sample"
            y = torch.zeros_like(y)  # values have been looked at, or will be
        problem = problem_of(loss, outputs, y.to(outputs.device))
        if not problem and self._kind in ("rmse", "relative") and outputs.shape != y.shape:
            problem = (
                f"a sample's target has the shape {tuple(y.shape[1:])}, the model gives {tuple(outputs.shape[1:])}: "
                f"for 'error: {self._kind}' they must be the same"
            )
        if problem:
            raise TaskError(f"{who}: {problem}")
        try:
            value = loss.function(outputs, y.to(outputs.device))
        except Exception as error:
            raise TaskError(
                f"{who}: the loss {self._options['loss']!r} fails: {code.described(error)}; mend it"
            ) from error
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise TaskError(
                f"{who}: the loss {self._options['loss']!r} must give one number, the mean over the samples"
            )

    def _train(self, step: StreamStep, samples: dict[str, Tensor]) -> bool:
        """Trains on a step; whether that is enough."""
        learner = self._learner
        number, began = learner.position.experience, time.monotonic()
        with self._located(step):
            if not learner.position.begun:
                self._error = self._measured(samples)
                self._sum, self._count = torch.zeros((), dtype=torch.float64), 0
            self._name, self._sequence = step.filename, step.sequence
            self._digest = digest_of(samples) if self._folder else None
            try:
                learner.experience(samples, self._options["passes"], after_step=self._after_update)
                stopped = False
            except _Stopped:
                stopped = True
            means = self._ranks.allgather((float(self._sum), len(samples["x"])))
            self._loss = sum(mean for mean, _ in means) / max(1, self._count) / len(means)
            self._report.step(
                number=number,
                file=step.filename,
                samples=sum(count for _, count in means),
                updates=self._count,
                error=self._error,
                loss=self._loss,
                seconds=time.monotonic() - began,
                held_out=[math.nan if held is None else self._measured(held) for held in self._held_out],
            )
        if not stopped:
            self._versions.after_step(number + 1, learner, self._loss, self._error)
        if self._continues and learner.steps - self._saved_at >= self._save_every:
            self._write_save()
        return stopped or self._is_enough()

    def _measured(self, samples: Mapping[str, Tensor]) -> float:
        learner = self._learner
        learner.model.eval()
        mine = measure(learner.model, learner.loss, self._kind, samples, learner.device)
        return of_all(self._ranks, mine).error(self._kind)

    def _after_update(self, made: Step) -> None:
        self._sum += made.objective.to("cpu", torch.float64)
        self._count += 1
        self._versions.after_update(self._learner, self._loss, self._error)
        if self._replays and made.number % self._save_every == 0:
            self._write_save()
        if self._are_enough_updates():
            raise _Stopped

    def _are_enough_updates(self) -> bool:
        limit, seconds = self._stop["updates"], self._stop["seconds"]
        if limit is not None and self._learner.steps >= limit:
            return True
        return seconds is not None and bool(self._ranks.allgather(time.monotonic() - self._began > seconds)[0])

    def _is_enough(self) -> bool:
        rules, made = self._stop, {"loss": self._loss, "error": self._error}
        low = any(rules[name] is not None and value <= float(rules[name]) for name, value in made.items())
        low = low and not self._learner.position.begun  # a step that a restart found half done is trained on to its end
        steps = rules["steps"]
        enough = steps is not None and self._learner.position.experience >= int(steps)
        return enough or low or self._are_enough_updates()

    @contextmanager
    def _located(self, step: StreamStep) -> Iterator[None]:
        """Adds step and port to errors in training. Other ranks report their own errors."""
        names = {name: one.path for name, one in self._wanted().items()}
        try:
            yield
        except (BadBatch, BadSample) as error:
            raise TaskError(
                f"{self._samples.who(step, names.get(error.tensor, error.tensor))}: {error.reason}"
            ) from error
        except RankFailed as error:
            raise ReportedElsewhere(f"{self._samples.who(step)}: {error}") from error
        except TaskError as error:
            raise TaskError(f"{self._samples.who(step)}: {error}") from error
        except OSError:
            raise
        except Exception as error:
            message = f"{self._samples.who(step)}: training fails: {code.described(error)}"
            # The connections of a rank that has stopped fail on the ranks that wait for it.
            other = self._ranks.size > 1 and isinstance(error, RuntimeError) and not code.is_users(error)
            raise (ReportedElsewhere if other else TaskError)(message) from error

    def _keep_held_out(self, step: StreamStep) -> None:
        section = self._options["held_out"]
        if section is None:
            return
        by_class = self._learner.loss.classes
        targets = Wanted(section["targets"], classes=by_class, below=self._classes, like=self._like)
        self._held_out.append(self._held_out_samples.read(step, {"x": Wanted(section["inputs"]), "y": targets}))

    def _write_save(self) -> None:
        learner, versions = self._learner, self._versions
        self._saved_at = learner.steps
        extra = {
            **versions.state(),
            "error": self._error,
            "loss": self._loss,
            "sum": float(self._sum),
            "count": self._count,
            "name": self._name,
            "sequence": self._sequence,
            "digest": self._digest,
            "made_with": self._made_with,
            "inherited": self._inherited,
            "seconds": time.monotonic() - self._began,
            "rows": self._report.rows,
        }
        if self._elastic is not None and self._ranks.rank != 0:
            return  # all hold the same
        learner.save(self._folder, extra, keep=KEPT_WITH_MODELS if self._outports else saved_learner.KEPT)
        if self._ranks.rank == 0:
            points.tell(
                str(learner.steps),
                {self._port: self._sequence + (not learner.position.begun)},
                dict.fromkeys(self._outports, versions.from_here),
                saved_learner.file_of_newest(self._folder),
            )

    def _restore(self) -> bool:
        """Goes on from the save that a resumed run has chosen, else from the newest, if there is one."""
        point, learner = self._point, self._learner
        if not self._folder or self._begins_anew:
            self._meet()
            self._check_saves()
            return False
        chosen = point or self._starts_from
        extra = learner.load(self._folder, int(chosen.label.removeprefix(_START)) if chosen else None)
        self._meet()
        if extra is None:
            return False
        self._inherited = extra.get("inherited", 0) if point else learner.steps
        self._compare(extra.get("made_with", self._made_with), must_be_same=self._replays and not point)
        self._name, self._sequence, self._digest = extra["name"], extra["sequence"], extra.get("digest")
        self._error, self._loss = extra["error"], extra["loss"]
        self._sum, self._count = torch.tensor(extra["sum"], dtype=torch.float64), extra["count"]
        self._began = time.monotonic() - extra["seconds"]
        self._saved_at = learner.steps
        if self._continues and point is None:
            learner.leave_experience()
        seen = learner.position.experience
        if self._continues or point is not None:
            self._held_out = [None] * seen
        self._report.restore([row for row in extra["rows"] if row["step"] < seen])
        if self._ranks.rank == 0:
            print(f"goes on from {learner.steps} optimiser steps, {seen} steps of the stream", flush=True)
        self._versions.restore(extra, resumed=point is not None)
        if point is None:
            if self._ranks.rank == 0 and not self._starts_from:
                place = saved_learner.file_of_newest(self._folder)
                points.tell(f"{_START}{learner.steps}", {self._port: 0}, dict.fromkeys(self._outports, 0), place)
            self._versions.publish_last(learner, self._loss, self._error)
        return True

    def _meet(self) -> None:
        """Meet the ranks that go on without each other, with the state that each begins from."""
        if self._elastic is not None:
            self._elastic.step = self._learner.steps
            self._elastic.begin()

    def _check_saves(self) -> None:
        """A resumed run that begins anew writes over saves: only over those of runs that began without any."""
        extra = saved_learner.newest_extra(self._folder) if self._folder and self._guards_saves else None
        if extra is None:
            return
        self._compare(extra.get("made_with", self._made_with), must_be_same=True)
        if extra.get("inherited", 0):
            raise TaskError(
                f"the run began from a save of {extra['inherited']} optimiser steps, and is to begin anew, which would "
                f"lose them; start it without --resume to go on from the newest save in {self._folder!r}, or remove "
                "the folder"
            )

    def _compare(self, before: Mapping[str, Any], *, must_be_same: bool) -> None:
        """A save that was trained otherwise: an error where it would be all that comes out, or be lost, else a line."""
        others = differences(before, self._made_with)
        if not others:
            return
        if must_be_same:
            raise TaskError(
                f"the save in {self._folder!r} belongs to another training, which differs in {'; '.join(others)}. "
                "To go on give what it was trained with; to begin anew remove the folder, or name another one "
                "('save: {folder: ...}')"
            )
        if self._ranks.rank == 0:
            print(f"the save in {self._folder!r} was trained otherwise; it differs in {'; '.join(others)}", flush=True)

    def _check_same(self, step: StreamStep) -> None:
        """The last step that was trained on before a restart, maybe in part, must be the same when it comes again.

        In a resumed run it is, unless the port's policy has dropped it this time: then its rest is left.
        """
        if self._point is not None and step.sequence != self._sequence:
            self._learner.leave_experience()
        elif step.filename != self._name:
            raise TaskError(
                f"{self._samples.who(step)}: the save in {self._folder!r} was trained up to {self._name!r}, so "
                "this stream is another one; if it goes on behind that step, set 'stream: continued' under 'save'"
            )
        elif self._point is None and self._digest is not None:
            same = digest_of(self._samples.read(step, self._wanted())) == self._digest
            if not all(self._ranks.allgather(same)):
                raise TaskError(
                    f"{self._samples.who(step)}: it holds other samples than the step of this name that the save in "
                    f"{self._folder!r} was trained on, so this stream is another one; remove the folder to begin anew"
                )
