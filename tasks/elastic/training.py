"""Training that goes on without the ranks that die, for a loop of one's own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wilkins.tasks.elastic.errors import ElasticError, GroupLost
from wilkins.tasks.elastic.gloo import GlooGroup, interface
from wilkins.tasks.elastic.link import Link
from wilkins.tasks.elastic.membership import Formed, Report
from wilkins.tasks.elastic.parent import PATIENCE
from wilkins.tasks.elastic.tensors import Contribution, as_bytes, from_bytes
from wilkins.tasks.started_by import ADDRESS, SIZE
from wilkins.values import dataclass

_FAILURES = 10
"""Attempts, one after the other, to come into a group; each rank that dies meanwhile may take one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that this rank takes part in."""

    number: int
    """From 0. A step whose batch was discarded comes again, with the same number."""
    place: int
    """This rank among those that share the samples, from 0."""
    ranks: int
    """How many share them."""

    def share(self, samples: int) -> slice:
        """This rank's part of some samples: every sample is in the part of one rank."""
        return slice(self.place, samples, self.ranks)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What it took to go on in another group."""

    generation: int
    step: int
    """The first step of the group."""
    ranks: tuple[int, ...]
    seconds: float
    """From the last step that was finished before to the first one after."""
    discarded: int
    """Samples of this rank whose gradients were discarded."""


class Elastic:
    """Makes a training loop one of several ranks, which goes on without those that die.

        elastic = Elastic(model, optimizer)
        for step in elastic.steps(1500):
            x, y = batch(step.number)                       # the same on all ranks
            mine = step.share(len(x))                       # who takes part: this rank's samples
            loss(model(x[mine]), y[mine]).backward()
            elastic.commit(len(x[mine]))                    # averages gradients, steps the optimizer

    Each rank has the model. `commit` adds up gradients, weighted by samples; only when all ranks hold the sum, any of
    them steps its optimizer. When a rank dies, the others discard the step that is under way, begin where the one is
    that has come farthest, share its samples anew, and go on. A rank that is started again takes the state of a living
    one while the others make a step, and takes part from the next on. Started by nobody's parent, it trains alone.

    Args:
        model: its parameters and buffers are made those of one rank at the beginning.
        optimizer: of the model's parameters.
        schedule: a learning rate scheduler that goes on after each step, or anything else with `step`, `state_dict` and
            `load_state_dict`.
        lossy: after a death, go on with the gradients that the others hold, rather than compute the step again. The
            samples of the dead rank are lost for that step; the mean is that of the samples that contributed.
        scale: of a step, how many samples its learning rate is meant for: one with fewer is made with proportionally
            less. Left out: the learning rate is as it is. Shares of one batch need it only with `lossy`.
        seed: torch's generators are set before each step from this, the step's number and the rank; left out: they are
            the program's own. They are never part of the state that goes to other ranks.
        start: steps that the model has made before, as after a restored checkpoint.
        patience: seconds to wait for a rank that lives and does not come to a step; as long again, and it is killed.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        schedule: Any = None,
        lossy: bool = False,
        scale: int | None = None,
        seed: int | None = None,
        start: int = 0,
        patience: float = PATIENCE,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.step = start
        """Steps that have been finished. It may be set before ranks meet, as after a restored checkpoint."""
        self.samples = 0
        """Samples that have contributed to the last one."""
        self.recoveries: list[Recovery] = []
        self._schedule = schedule
        self._lossy = lossy
        self._scale = scale
        self._seed = seed
        self._patience = patience
        _check(model, optimizer, schedule)
        self._contribution = Contribution(model, len(optimizer.param_groups))
        if ADDRESS not in os.environ:
            _check_alone()
        self._link = Link(patience) if ADDRESS in os.environ else None
        self.rank = self._link.rank if self._link else 0
        """This rank's number, which stays the same."""
        self.size = int(os.environ.get(SIZE, "1")) if self._link else 1
        """How many ranks there were at the beginning."""
        self._group: GlooGroup | None = None
        self._left: GlooGroup | None = None
        self._fresh = True
        self._prepared = self._broke = self._again = self._shares = self._under_way = self._stepping = False
        self._parted = False
        self._pending = self._discarded = self._failures = 0
        self._value = 0.0
        self._stepped_at = time.monotonic()
        self._changed = False
        optimizer.register_step_pre_hook(self._refuse_step)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that train together now, or those that have come to the end; all of them before they have met."""
        if self._link is not None and self._link.survivors:
            return self._link.survivors
        group = self._group or self._left
        return group.formed.members if group else tuple(range(self.size))

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that prints and saves: the first of those that live."""
        return self.rank == self.ranks[0]

    @property
    def finished(self) -> bool:
        """Whether this rank has the state of the training; false if it was started too late for that."""
        return not self._fresh

    def steps(self, total: int, *, more: bool = False) -> Iterator[Step]:
        """The steps up to `total` that this rank takes part in; call `commit` once in each.

        At the end, ranks wait until all have finished; with `more`, they do not, and `steps` is called again for more.
        A rank that was started again when the others had finished gets no step: see `finished`.

        Args:
            total: counted from the beginning of the training; the same on all ranks.
            more: whether more steps come after these.

        Raises:
            ElasticError: the parent of the ranks is gone, `commit` was not called, or ranks differ in what they want.
        """
        if self._parted:
            raise ElasticError(
                f"rank {self.rank}: the ranks have parted after step {self.step}, so there are no more steps; count "
                f"`total` from the beginning of the training, and give `more`: `steps({total}, more=True)`, also for "
                "the steps before"
            )
        yield from self._steps(total, more=more)

    def _steps(self, total: int, *, more: bool) -> Iterator[Step]:
        while True:
            if self._group is None:
                formed = self._next_group(total, more)
                if formed is None:
                    self._close()
                    self._parted = True
                    return
                self._join(formed)
            elif self.step >= total and more:
                return
            elif self.step >= total:
                self._leave()
            elif self._again:
                self._round(self._pending)
            elif self._shares:
                self._under_way = True
                yield self._begun()
                if self._under_way:
                    raise ElasticError(
                        f"rank {self.rank}, step {self.step}: call `commit` once a step; it was not called"
                    )
            else:
                self._round(0)

    @property
    def value(self) -> float:
        """The mean of the values that were given to `commit`, over all samples of the last step."""
        return self._contribution.value

    def commit(self, samples: int, value: float | Tensor = 0.0) -> bool:
        """Average the gradients of all ranks, each a mean over its `samples`, and step the optimizer.

        Args:
            samples: how many this rank has computed the gradients of; with 0, they are left out.
            value: a mean over the samples, too, such as the loss: see `value`.

        Returns:
            Whether the step counts now. If not, it comes again, or is finished by what this rank has given.

        Raises:
            ElasticError: it was called before in this step, or gradients or ranks do not fit together.
        """
        if not self._under_way:
            raise ElasticError(
                f"rank {self.rank}, step {self.step}: call `commit` once a step, inside of `for step in elastic.steps"
                "(...)`; no step is under way"
            )
        if samples < 0:
            raise ElasticError(
                f"rank {self.rank}, step {self.step}: {samples} samples were given to `commit`; give the number of "
                "samples that this rank has computed, or 0"
            )
        self._under_way = False
        self._contribution.check(self.optimizer)
        self._pending, self._value = int(samples), value.item() if isinstance(value, Tensor) else float(value)
        return self._round(self._pending)

    def tell_loss(self, what: str) -> None:
        """Say what is lost if this rank dies, such as `"9 samples"`: the parent of the ranks says it then."""
        if self._link is not None:
            self._link.tell_loss(what)

    def begin(self) -> None:
        """Meet the other ranks, as the first step does too: from then on one of them `is_first`.

        Raises:
            ElasticError: the parent of the ranks is gone.
        """
        for _ in self._steps(self.step, more=True):
            raise AssertionError("a rank that has made all steps got one")

    def end(self) -> None:
        """Wait until all ranks have made as many steps as this one; there are no more.

        Raises:
            ElasticError: the parent of the ranks is gone.
        """
        for _ in self._steps(self.step, more=False):
            raise AssertionError("a rank that has made all steps got one")

    def _begun(self) -> Step:
        assert self._group is not None
        formed = self._group.formed
        sharing = formed.contributors if self.step == formed.step else formed.members
        self._contribution.begin()
        if self._seed is not None:
            torch.manual_seed(_mixed(self._seed, self.step, self.rank))
        return Step(self.step, sharing.index(self.rank), len(sharing))

    def _round(self, samples: int) -> bool:
        """One step together: the sum, the commit, the optimizer. False if the group was lost before."""
        assert self._group is not None
        wanted = differ = lost = False
        formed = self._group.formed
        try:
            mine = _rates(self.optimizer)
            self._contribution.fill(samples, self._value, mine if self.rank == formed.source else ())
            self._group.add_up(self._contribution.sum, self.step)
            self._prepared = True
            votes = self._is_wanted(formed.generation), self._shares and mine != self._contribution.rates
            wanted, differ = self._group.any_of(votes, self.step)
        except GroupLost:
            lost = True
        if lost:  # the error is gone here, and what it held of the group
            self._lose()
            return False
        if differ:
            raise ElasticError(
                f"rank {self.rank}, step {self.step}: learning rates differ between ranks: {mine} here, "
                f"{self._contribution.rates} on rank {formed.source}; give the scheduler to Elastic as `schedule=` and "
                "do not step it, or set rates by the number of the step alone"
            )
        self._finish_step()
        if wanted:
            self._leave()
        return True

    def _is_wanted(self, generation: int) -> bool:
        return self._link is not None and self._link.is_wanted(generation)

    def _finish_step(self) -> None:
        """All ranks of the group held the sum: step the optimizer."""
        if not self._shares:  # its program has not seen this step, and could not set the rates for it
            _set_rates(self.optimizer, self._contribution.rates)
        self.samples = self._contribution.give()
        self._contribution.end()
        if self.samples:
            with self._scaled():
                self._stepping = True
                try:
                    self.optimizer.step()
                finally:
                    self._stepping = False
        if self._schedule is not None:
            self._schedule.step()
        self.step += 1
        self._prepared = self._again = False
        self._pending, self._shares = 0, True
        self._note()

    @contextmanager
    def _scaled(self) -> Iterator[None]:
        """While it lasts, the learning rate is that for the samples which have contributed."""
        before = [group["lr"] for group in self.optimizer.param_groups]
        try:
            for group, rate in zip(self.optimizer.param_groups, before, strict=True):
                if self._scale is not None:
                    group["lr"] = rate * self.samples / self._scale
            yield
        finally:
            for group, rate in zip(self.optimizer.param_groups, before, strict=True):
                group["lr"] = rate

    def _refuse_step(self, *_: object) -> None:
        """Before the optimizer steps, whoever lets it."""
        if self._group is not None and not self._stepping:
            raise ElasticError(
                f"rank {self.rank}, step {self.step}: the optimizer was stepped by the program, by the gradients of "
                "this rank alone; call `elastic.commit(samples)` in its place"
            )

    def _leave(self) -> None:
        """Leave the group after a step, with all its members, which may finish the step still."""
        self._left, self._group = self._group, None
        self._broke, self._changed = False, True

    def _close(self) -> None:
        """Close connections while Python is there to do it; nobody waits for them any more."""
        if self._left is not None:
            self._left.close()

    def _lose(self) -> None:
        """Leave a group that cannot go on; others that wait for this rank in it see that."""
        if self._group is not None:
            self._left = self._group
            self._left.close()
        if not self._prepared:
            self._contribution.renew()
        self._group = None
        self._broke = self._changed = True

    def _next_group(self, total: int, more: bool) -> Formed | None:
        """Wait for it; None: all steps have been made."""
        finished = self.step >= total and not more
        if self._link is None:
            return None if finished else Formed(1, (0,), self.step, 0, (0,), (0,))
        pending = self._pending if self._lossy and not self._prepared else 0
        return self._link.next_group(Report(self.step, self._fresh, self._prepared, pending, finished, self._broke))

    def _join(self, formed: Formed) -> None:
        """Connect to the members of a group, and come to where it begins."""
        if self._prepared and self.step < formed.step and not self._fresh:
            self._finish_step()
        lost = ""
        try:
            self._group = GlooGroup(self._link, formed, self.rank, self._patience)
            if self.rank not in formed.holders:
                self._set_state(self._group.receive_state(), formed.step)
            elif self.rank == formed.source:
                self._send_state(self._group)
        except GroupLost as error:
            lost = str(error) or "the group was lost"
        if lost:
            self._lose()
            self._failures += 1
            if self._failures > _FAILURES + self.size:
                raise ElasticError(
                    f"rank {self.rank} cannot connect to the others, in {self._failures} attempts: {lost}; see whether "
                    f"processes may connect to {interface()}, and open as many files as they need (ulimit -n)"
                )
            return
        self._failures = 0
        self._left, self._fresh, self._broke = None, False, False
        self._again, self._shares = formed.again, self.rank in formed.contributors
        if not formed.again:
            self._discarded += self._pending
            self._contribution.discard()
            self._pending, self._prepared = 0, False

    def _send_state(self, group: GlooGroup) -> None:
        formed = group.formed
        lacking = tuple(rank for rank in formed.members if rank not in formed.holders)
        if lacking:
            with self._contribution.as_begun():
                state = as_bytes(self._state())
            group.send_state(state, lacking)

    def _state(self) -> dict[str, Any]:
        schedule = self._schedule.state_dict() if self._schedule is not None else None
        model = self.model.state_dict()
        return {
            "model": model,
            "layout": self._contribution.layout,
            "unsaved": {name: one for name, one in self.model.named_buffers() if name not in model},
            "optimizer": self.optimizer.state_dict(),
            "schedule": schedule,
            "value": self._contribution.value,
        }

    def _set_state(self, given: Tensor, step: int) -> None:
        state = from_bytes(given)
        mine, its = self._contribution.layout, state["layout"]
        if strange := next((name for name in {**mine, **its} if mine.get(name) != its.get(name)), ""):
            raise ElasticError(
                f"rank {self.rank} trains other parameters than the rank that it takes the state of: {strange!r} has "
                f"the shape {mine.get(strange)} here, and {its.get(strange)} there; make the same model on all ranks, "
                "and freeze the same parameters"
            )
        self.model.load_state_dict(state["model"])
        unsaved = dict(self.model.named_buffers())
        for name, value in state["unsaved"].items():
            unsaved[name].copy_(value)
        self.optimizer.load_state_dict(state["optimizer"])
        if self._schedule is not None:
            self._schedule.load_state_dict(state["schedule"])
        self._discarded += self._pending
        self._contribution.end()
        self._contribution.value = state["value"]
        self.step, self._pending, self._prepared = step, 0, False

    def _note(self) -> None:
        """A step has been finished: the first one after a change of the group says what the change has cost."""
        now = time.monotonic()
        if self._changed and self._group is not None:
            formed = self._group.formed
            seconds = now - self._stepped_at
            self.recoveries.append(Recovery(formed.generation, self.step - 1, formed.members, seconds, self._discarded))
            self._changed, self._discarded = False, 0
        if not self._changed:
            self._stepped_at = now


def _check(model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any) -> None:
    """Refuse what would go wrong later, or silently.

    Raises:
        ElasticError: the three are others than they have to be.
    """
    if not isinstance(model, nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
        raise ElasticError(
            f"Elastic was given a {type(model).__name__} and a {type(optimizer).__name__}; give a torch.nn.Module, and "
            "a torch.optim.Optimizer of its parameters"
        )
    known = {id(one) for one in model.parameters()}
    foreign = [one for group in optimizer.param_groups for one in group["params"] if id(one) not in known]
    if foreign:
        raise ElasticError(
            f"the optimizer has {len(foreign)} parameters that {type(model).__name__} has not, the first of shape "
            f"{list(foreign[0].shape)}: they would differ between ranks; put all that is trained, also a loss with "
            "parameters, into one module, and give that to Elastic"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ElasticError("LBFGS computes gradients several times a step, which ranks cannot add up; take another one")
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ElasticError(
            "ReduceLROnPlateau goes by a value that Elastic does not know; give a schedule whose `step` takes nothing"
        )


_SIZES = "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE"
"""Variables in which launchers say how many ranks there are: the first one that is set counts."""


def _check_alone() -> None:
    """Refuse to train alone beside other ranks, each of which would train on everything.

    Raises:
        ElasticError: other ranks were started with this one.
    """
    name, size = next(((name, os.environ[name]) for name in _SIZES if name in os.environ), ("", "1"))
    if size.isdecimal() and int(size) > 1:
        raise ElasticError(
            f"{size} ranks were started ({name}), but not by the parent that elastic training needs, so each would "
            f"train alone; start them by `python -m wilkins.tasks.elastic -n {size} PROGRAM`, in a workflow by "
            "`mpiexec: python -m wilkins.tasks.elastic` beside `nprocs:`"
        )


def _rates(optimizer: torch.optim.Optimizer) -> list[float]:
    """The learning rate of each group of parameters; 0 for an optimizer that finds its own."""
    return [float(group.get("lr") or 0.0) for group in optimizer.param_groups]


def _set_rates(optimizer: torch.optim.Optimizer, rates: Sequence[float]) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if isinstance(group.get("lr"), Tensor):
            group["lr"].fill_(rate)
        elif group.get("lr") is not None:
            group["lr"] = rate


def _mixed(*numbers: int) -> int:
    """A seed that depends on all of some numbers."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1
