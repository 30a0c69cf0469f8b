"""Training that goes on without the ranks that die, for a loop of one's own."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wilkins.tasks.elastic.errors import ElasticError, GroupLost
from wilkins.tasks.elastic.gloo import GlooGroup
from wilkins.tasks.elastic.link import Link
from wilkins.tasks.elastic.membership import Formed, Report
from wilkins.tasks.elastic.parent import PATIENCE
from wilkins.tasks.elastic.tensors import Contribution, as_bytes, from_bytes
from wilkins.tasks.started_by import ADDRESS, SIZE
from wilkins.values import dataclass


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
        self._link = Link(patience) if ADDRESS in os.environ else None
        self.rank = self._link.rank if self._link else 0
        """This rank's number, which stays the same."""
        self.size = int(os.environ.get(SIZE, "1")) if self._link else 1
        """How many ranks there were at the beginning."""
        self._group: GlooGroup | None = None
        self._left: GlooGroup | None = None
        self._contribution = Contribution(model)
        self._fresh = True
        self._prepared = self._broke = self._again = self._shares = self._committed = False
        self._pending = self._discarded = 0
        self._value = 0.0
        self._stepped_at = time.monotonic()
        self._changed = False

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

        Raises:
            ElasticError: the parent of the ranks is gone, or `commit` was not called.
        """
        while True:
            if self._group is None:
                formed = self._next_group(total, more)
                if formed is None:
                    self._close()
                    return
                self._join(formed)
            elif self.step >= total and more:
                return
            elif self.step >= total:
                self._leave()
            elif self._again:
                self._round(self._pending)
            elif self._shares:
                self._committed = False
                yield self._begun()
                if not self._committed:
                    raise ElasticError(
                        f"rank {self.rank}, step {self.step}: call `commit` once a step; it was not called"
                    )
            else:
                self._round(0)

    @property
    def value(self) -> float:
        """The mean of the values that were given to `commit`, over all samples of the last step."""
        return self._contribution.value

    def commit(self, samples: int, value: float = 0.0) -> bool:
        """Average the gradients of all ranks, each a mean over its `samples`, and step the optimizer.

        Args:
            value: a mean over the samples, too, such as the loss: see `value`.

        Returns:
            Whether the step counts now. If not, it comes again, or is finished by what this rank has given.
        """
        self._committed = True
        self._pending, self._value = samples, value
        return self._round(samples)

    def begin(self) -> None:
        """Meet the other ranks, as the first step does too: from then on one of them `is_first`.

        Raises:
            ElasticError: the parent of the ranks is gone.
        """
        for _ in self.steps(self.step, more=True):
            raise AssertionError("a rank that has made all steps got one")

    def end(self) -> None:
        """Wait until all ranks have made as many steps as this one; there are no more.

        Raises:
            ElasticError: the parent of the ranks is gone.
        """
        for _ in self.steps(self.step):
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
        wanted = lost = False
        try:
            self._contribution.fill(samples, self._value)
            self._group.add_up(self._contribution.sum)
            self._prepared = True
            wanted = self._group.any_of(self._is_wanted(self._group.formed.generation))
        except GroupLost:
            lost = True
        if lost:  # the error is gone here, and what it held of the group
            self._lose()
            return False
        self._finish_step()
        if wanted:
            self._leave()
        return True

    def _is_wanted(self, generation: int) -> bool:
        return self._link is not None and self._link.is_wanted(generation)

    def _finish_step(self) -> None:
        """All ranks of the group held the sum: step the optimizer."""
        self.samples = self._contribution.give()
        self._contribution.end()
        if self.samples:
            with self._scaled():
                self.optimizer.step()
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
        lost = False
        try:
            self._group = GlooGroup(self._link, formed, self.rank, self._patience)
            if self.rank not in formed.holders:
                self._set_state(self._group.receive_state(), formed.step)
            elif self.rank == formed.source:
                self._send_state(self._group)
        except GroupLost:
            lost = True
        if lost:
            self._lose()
            return
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
            group.send_state(as_bytes(self._state()), lacking)

    def _state(self) -> dict[str, Any]:
        schedule = self._schedule.state_dict() if self._schedule is not None else None
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": schedule,
            "value": self._contribution.value,
        }

    def _set_state(self, given: Tensor, step: int) -> None:
        state = from_bytes(given)
        self.model.load_state_dict(state["model"])
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


def _mixed(*numbers: int) -> int:
    """A seed that depends on all of some numbers."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1
