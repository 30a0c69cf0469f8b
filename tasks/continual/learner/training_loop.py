"""The training loop, one for all strategies: takes a batch, mixes in what the strategy recalls, makes a step.

Data-parallel: every rank has a model, and DDP averages gradients. Ranks may bring different numbers of samples to a
step: each sample of any rank counts the same, and a rank without samples takes part with none.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from os import PathLike
from types import TracebackType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from wilkins.tasks.continual.errors import CheckpointError, LearningError
from wilkins.tasks.continual.learner import saved_learner
from wilkins.tasks.continual.learner.batches import INPUT, TARGET, Checker, joined, orders
from wilkins.tasks.continual.learner.checked_model import CheckedModel
from wilkins.tasks.continual.learner.generators import generator_state, seed_generators, set_generators
from wilkins.tasks.continual.learner.losses import LossFunction, correct, make_loss
from wilkins.tasks.continual.learner.objective import Objective
from wilkins.tasks.continual.learner.positions import Evaluation, Position, Step
from wilkins.tasks.continual.learner.strategy import LOGITS, Regulariser, Strategy
from wilkins.tasks.continual.learner.terms import Batch, StepSamples
from wilkins.tasks.continual.learner.world import Replica, Total, as_on_rank_0, greatest, rank_and_size, totals
from wilkins.tasks.continual.rehearsal.arrays import Array
from wilkins.tasks.elastic.training import Elastic

FORMAT = 2


class Learner:
    """Trains a model on a stream by a strategy.

        with Learner(model, strategy, optimizer, "cross_entropy", seed=3) as learner:
            for batch in stream:            # {"x": ..., "y": ...}: NumPy arrays or tensors
                learner.step(batch)

    With several ranks (see `process_group`), all make the learner together and call its methods together; they bring
    equally many batches, but maybe of different lengths, or empty ones. `optimizer` is one of the model's parameters.

    Args:
        model: takes `x`, samples along the first axis, and gives one tensor of outputs. Rank 0's parameters count.
        strategy: see `strategy`; ended together with the learner.
        optimizer: any of torch's.
        loss: `cross_entropy`, `mse`, `module:function`, or a function of outputs and targets that gives the mean loss.
        regularise: what is added to the strategy's objective; see `regularisers`.
        schedule: changes the optimizer's learning rate; any of torch's that goes by nothing but its own count.
        per: whether the schedule goes on after each optimizer step (`update`) or after each experience (`step`).
        batch: samples per rank and step in `experience`; left out: what the strategy was made for, or 32.
        device: where the model is trained: `cpu`, `cuda:0`. The model is moved there.
        seed: the order of samples follows from it; and the generators of torch, NumPy and Python are set, one course
            per rank.
        find_unused_parameters: for models of which a step uses only a part; as for DDP.
        check_nan: refuse batches with NaN.
        port: where batches come from, for messages.
        elastic: of the model, the optimizer and a schedule of updates, if there is one: ranks go on without those that
            die. All bring the same samples to `experience`, of which each trains on a share; `batch` is that of all
            ranks together.

    Raises:
        LearningError: there is no such loss, or the model has nothing to train.
    """

    def __init__(
        self,
        model: nn.Module,
        strategy: Strategy,
        optimizer: torch.optim.Optimizer,
        loss: str | LossFunction = "cross_entropy",
        *,
        regularise: Sequence[Regulariser] = (),
        schedule: LRScheduler | None = None,
        per: Literal["update", "step"] = "update",
        batch: int | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
        find_unused_parameters: bool = False,
        check_nan: bool = True,
        port: str = "",
        elastic: Elastic | None = None,
    ) -> None:
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise LearningError(f"the model ({type(model).__name__}) has no parameters that can be trained")
        self.rank, self.ranks = rank_and_size()
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.strategy = strategy
        self.optimizer = optimizer
        self.schedule = schedule
        self._per = per
        self.loss = make_loss(loss)
        self.batch = batch or (strategy.buffer.options.batch if strategy.buffer else 32)
        self.seed = seed
        self.steps = 0
        self._elastic = elastic
        self._told = 0
        """Samples of the rehearsal buffer that the parent of the ranks knows of."""
        self.position = Position()
        self._begun = False
        self._checker = Checker(port, nan=check_nan)
        self._called = CheckedModel(self.model, self.loss, self.device, self._checker)
        self._objective = Objective(self.loss, self.device, self.ranks)
        self._replica = Replica(self.model, self.device, find_unused_parameters=find_unused_parameters)
        self._initial = deepcopy(self._weights()) if strategy.restarts else None
        if len({one.name for one in regularise}) < len(regularise):
            raise LearningError(f"there are two regularisers of one name in {[one.name for one in regularise]}")
        self._adding = (strategy, *regularise)
        for one in self._adding:
            one.learner = self
        seed_generators([seed, self.rank])

    def step(self, batch: Mapping[str, Array], *, offer: bool = True) -> Step:
        """Train on a batch and what the strategy recalls; offer the batch to the strategy, unless `offer` is false.

        Raises:
            BadBatch: the batch does not fit the model, the loss or earlier batches, or holds NaN.
            LearningError: the objective is no finite number any more.
            BadSample, RankFailed: as for `RehearsalBuffer.update`.
        """
        samples = self._called.tensors(batch, self.steps)
        new = self._checker.check(samples, self.steps)
        recalled = self.strategy.recall()
        rows = StepSamples(samples, recalled, self.device, self._called.dtype)
        terms = [term for one in self._adding for term in one.terms(new, rows.count - new)]
        penalty = self._penalty()
        total = Total([term.samples for term in terms]) if self.ranks > 1 else None
        offered = self._with_step(samples if offer else {name: tensor[:0] for name, tensor in samples.items()})
        if not self.strategy.keeps_outputs and self._elastic is None:
            self.strategy.remember(self._where_kept(offered))
        self.model.train()
        outputs = self._forward(rows, samples) if rows.count else None
        wait = self._keep(outputs, offered) if self.strategy.keeps_outputs else None
        if outputs is None:
            objective = self._replica(None)
        else:
            counts = total.result() if total is not None else [term.samples for term in terms]
            objective = self._objective.of_step(outputs, rows, terms, counts)
        value = objective.detach() if penalty is None else objective.detach() + penalty.detach()
        self._objective.check_finite(value, self.steps)
        self.optimizer.zero_grad()
        torch.autograd.backward(objective)
        if penalty is not None:
            self._add_gradient(penalty)
        if wait is not None:
            wait()
        if self._elastic is not None:
            if self._elastic.commit(rows.count, float(value)):
                self.strategy.remember(self._where_kept(offered))
        else:
            self.optimizer.step()
            if self.schedule and self._per == "update":
                self.schedule.step()
            self.steps += 1
        made = None if outputs is None or not new else outputs[:new].detach()
        return Step(self.steps, new, rows.count - new, value, made)

    def experience(
        self, data: Mapping[str, Array], epochs: int = 1, *, after_step: Callable[[Step], None] | None = None
    ) -> None:
        """Train on an experience: this rank's samples, all at hand, in random order, for some epochs.

        All ranks make equally many steps of up to `batch` samples; ranks with fewer samples make smaller steps. After a
        restart from a state saved in `after_step`, the first call goes on where that was; it gets the same data. Call
        it for the experiences from `position.experience` on.

        Raises:
            LearningError: no rank has samples; and all that `step` raises.
        """
        number, resumed = self.position.experience, self._begun
        samples = self.strategy.begin(self._called.tensors(data, self.steps), again=resumed)
        self._checker.check({name: tensor[:0] for name, tensor in samples.items()}, self.steps)
        count = len(samples[INPUT])
        steps = -(-greatest(count) // self.batch)
        if not steps:
            raise self._checker.error(f"experience {number} has no samples on any rank", self.steps, INPUT)
        if not resumed and self._initial is not None and number:
            self._set_weights(deepcopy(self._initial))
        self._begun = True
        for epoch in range(self.position.epoch, epochs):
            offer = epoch == 0 or not self.strategy.keeps_once
            for place, chosen in enumerate(orders(count, steps, [self.seed, number, epoch, self.rank])):
                if place < self.position.batch:
                    continue
                made = self._step_on(samples, chosen, offer)
                last = place + 1 == steps
                self.position = Position(number, epoch + last, 0 if last else place + 1)
                if after_step is not None:
                    after_step(made)
        as_on_rank_0(self.model.buffers())  # of batches of its own: what regularisers keep is the same on all ranks
        for one in self._adding:
            one.end(samples)
        self._end_experience()

    def _step_on(self, samples: Batch, chosen: Tensor, offer: bool) -> Step:
        """A step on some samples. With `elastic`, on this rank's share; maybe several times, until all have made it."""
        if self._elastic is None:
            return self.step({name: tensor[chosen] for name, tensor in samples.items()}, offer=offer)
        recalled = 0
        for step in self._elastic.steps(self.steps + 1, more=True):
            mine = chosen[step.share(len(chosen))]
            recalled = self.step({name: tensor[mine] for name, tensor in samples.items()}, offer=offer).recalled
        self.steps = self._elastic.step
        self._tell_loss(self._elastic)
        return Step(self.steps, len(chosen), recalled, torch.tensor(self._elastic.value), None)

    def _tell_loss(self, elastic: Elastic) -> None:
        """Let the parent of the ranks know what dies with this one."""
        held = self.strategy.statistics()
        if held is not None and held.size != self._told:
            self._told = held.size
            elastic.tell_loss(f"{held.size} of the samples in rehearsal buffers")

    def leave_experience(self) -> None:
        """Give up the rest of an experience that was begun, as after a restart that cannot get its data any more."""
        if self._begun:
            self._end_experience()

    def _penalty(self) -> Tensor | None:
        """What is minimised besides the losses of samples, if anything."""
        every = [found for one in self._adding if (found := one.penalty()) is not None]
        return torch.stack([one.reshape(()) for one in every]).sum() if every else None

    def _add_gradient(self, penalty: Tensor) -> None:
        """After DDP has averaged the gradients: that of a penalty is the same on all ranks."""
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        gradients = torch.autograd.grad(penalty, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                parameter.grad += gradient

    def _end_experience(self) -> None:
        if self.schedule and self._per == "step":
            with warnings.catch_warnings():  # after a restart it does not know of the optimizer's steps before
                warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
                self.schedule.step()
        self.position, self._begun = Position(self.position.experience + 1), False

    def evaluate(self, data: Mapping[str, Array], batch: int = 256) -> Evaluation:
        """How good the model is on samples; each rank brings some, and all get the answer for all of them.

        Raises:
            BadBatch: the samples do not fit the model or the loss.
        """
        samples = self._called.tensors({name: data[name] for name in (INPUT, TARGET) if name in data}, self.steps)
        count = self._checker.check(samples, self.steps, partly=True)
        was, loss, right = self.model.training, 0.0, 0
        self.model.eval()
        with torch.no_grad():
            for begin in range(0, count, batch):
                part = {name: tensor[begin : begin + batch] for name, tensor in samples.items()}
                outputs = self._called.outputs(joined([part[INPUT]], self.device), self.steps)
                self._called.check(outputs, part, self.steps)
                targets = joined([part[TARGET]], self.device)
                loss += float(self.loss.function(outputs, targets)) * len(targets)
                right += int(correct(outputs, targets)) if self.loss.classes else 0
        self.model.train(was)
        every, loss, right_of_all = totals([count, loss, right])
        accuracy = right_of_all / every if every and self.loss.classes else math.nan
        return Evaluation(int(every), loss / every if every else math.nan, accuracy)

    def state_dict(self) -> dict[str, Any]:
        """All of this rank but the rehearsal buffer: tensors and plain values, which `torch.save` takes.

        Ranks differ in `own` only.
        """
        return {
            "format": FORMAT,
            "seed": self.seed,
            "steps": self.steps,
            "position": asdict(self.position),
            "begun": self._begun,
            **self._weights(),
            "initial": self._initial,
            "regularisers": {one.name: one.state_dict() for one in self._adding[1:]},
            "own": {"strategy": self.strategy.state_dict(), "generators": generator_state(self.device)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict` of a learner with the same model, strategy, optimizer and number of ranks.

        Raises:
            CheckpointError: it does not fit.
        """
        if state.get("format") != FORMAT:
            raise CheckpointError(f"the state's format is {state.get('format')}; this version reads format {FORMAT}")
        if (state["schedule"] is None) != (self.schedule is None):
            raise CheckpointError(f"the state was saved with{'out' * bool(self.schedule)} a schedule; give the same")
        if (state["initial"] is None) != (self._initial is None):
            raise CheckpointError(f"the state was saved by another strategy than {self.strategy.name!r}")
        kept, asked = sorted(state["regularisers"]), sorted(one.name for one in self._adding[1:])
        if kept != asked:
            raise CheckpointError(f"it was saved with the regularisers {kept}, and this learner has {asked}")
        try:
            self._set_weights(state)
            for one in self._adding[1:]:
                one.load_state_dict(state["regularisers"][one.name])
            self.strategy.load_state_dict(state["own"]["strategy"])
        except (RuntimeError, ValueError, KeyError) as error:
            message = " ".join(str(error).split())
            raise CheckpointError(f"the state does not fit this model, optimizer or strategy: {message}") from None
        self._initial = state["initial"]
        self.seed, self.steps = state["seed"], state["steps"]
        self.position, self._begun = Position(**state["position"]), state["begun"]
        set_generators(state["own"]["generators"], self.device)

    def save(
        self, folder: str | PathLike[str], extra: Mapping[str, Any] | None = None, *, keep: int = saved_learner.KEPT
    ) -> None:
        """Write the learner and its buffer to a folder, all ranks together, between two steps.

        A save is a version of a checkpoint. A kill at any moment leaves a complete one, this one or the one before.
        `extra` is kept with it: each rank's own, of plain values, tensors and arrays. The newest `keep` saves of this
        course stay.

        Raises:
            CheckpointError: a rank cannot write, or its state holds what cannot be kept exactly.
        """
        saved_learner.save(self, folder, dict(extra or {}), keep)

    def load(self, folder: str | PathLike[str], step: int | None = None) -> dict[str, Any] | None:
        """Continue from the newest complete save in a folder, all ranks together, before the first step.

        With `step`, from the save made after that optimiser step, and no other.

        Returns:
            What was given as `extra`; None if there is no save, and nothing has changed.

        Raises:
            CheckpointError: it does not fit this learner, or cannot be read.
        """
        return saved_learner.load(self, folder, step)

    def __enter__(self) -> Learner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.strategy.buffer:
                self.strategy.buffer.__exit__(kind, error, trace)
        finally:
            self._replica.close()

    def _forward(self, rows: StepSamples, samples: Batch) -> Tensor:
        """Outputs for the new samples, then the recalled ones."""
        outputs = self._called.outputs(rows[INPUT], self.steps, self._replica)
        self._called.check(outputs[: len(samples[INPUT])], samples, self.steps)
        return outputs

    def _with_step(self, samples: dict[str, Tensor]) -> dict[str, Tensor]:
        """Samples with the number of the experience, where the buffer goes by it."""
        buffer = self.strategy.buffer
        if buffer is None or buffer.options.balance != "step" or "step" in samples:
            return samples
        x = samples[INPUT]
        return samples | {"step": torch.full((len(x),), self.position.experience, device=x.device)}

    def _where_kept(self, samples: Batch) -> Batch:
        place = self.strategy.buffer.options.device if self.strategy.buffer else "host"
        if place == "host":
            return samples
        return {name: tensor.to(place, non_blocking=True) for name, tensor in samples.items()}

    def _keep(self, outputs: Tensor | None, offered: Batch) -> Callable[[], None] | None:
        """Offer samples with their outputs. On a CUDA device outputs are on their way to the host meanwhile; what is
        returned then is to be called when `backward` is queued: it waits for them and offers."""
        count = len(offered[INPUT])
        made = self._called.no_outputs(offered[INPUT], self.steps) if outputs is None else outputs[:count]
        logits = made.detach()
        if self.device.type != "cuda" or (self.strategy.buffer and self.strategy.buffer.options.device != "host"):
            self.strategy.remember(self._where_kept({**offered, LOGITS: logits}))
            return None
        pinned = torch.empty(logits.shape, dtype=logits.dtype, pin_memory=True)
        pinned.copy_(logits, non_blocking=True)
        copied = torch.cuda.current_stream(self.device).record_event()

        def wait() -> None:
            copied.synchronize()
            self.strategy.remember({**offered, LOGITS: pinned})

        return wait

    def _weights(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict() if self.schedule else None,
        }

    def _set_weights(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule:
            self.schedule.load_state_dict(state["schedule"])
