"""What failures cost a training of several ranks, by what is done about them: a simulation, as pure code.

Three policies. `restart`: the death of any rank ends all, and they begin again at the last checkpoint. `rollback`: the
others make the step anew that was under way, and go on. `lossy`: they finish it with the gradients that they hold. For
the last two a checkpoint is needed only where all ranks die together.

The check for `restart` is J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
Future Generation Computer Systems 22 (2006); the first order is J. W. Young's (Communications of the ACM 17, 1974).
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Policy = Literal["restart", "rollback", "lossy"]
POLICIES: tuple[Policy, ...] = ("rollback", "lossy", "restart")
"""Of policies that take the same time, an earlier one is better: `lossy` leaves samples out."""
SAME = 0.005
"""A share of the work that makes no difference."""

LONGEST = 10.0
"""A run that takes so many times the time that it takes without failures is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training and its failures; times in seconds. Wrong values raise `ValueError`."""

    mtbf: float
    """Mean time between failures of one rank."""
    ranks: int = 8
    work: float = 24 * 3600.0
    """Without failures and checkpoints, with all ranks."""
    step: float = 1.0
    """Of an optimiser step, with all ranks."""
    fixed: float = 0.0
    """Of such a step, what takes no longer with fewer ranks: communication."""
    checkpoint: float = 30.0
    """For which a checkpoint stops the training."""
    restart: float = 120.0
    """From a failure that has ended all ranks until they train again."""
    recover: float = 3.0
    """From the death of a rank until the others train again."""
    replace: float = 120.0
    """From the death of a rank until one that was started for it takes part; infinite: it is not replaced."""
    together: float = 0.05
    """Share of failures that end all ranks at once: of a switch, of the power, of the job."""

    def __post_init__(self) -> None:
        for name in ("mtbf", "ranks", "work", "step"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name!r} must be more than 0, not {getattr(self, name)}")
        for name in ("checkpoint", "restart", "recover", "replace", "fixed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name!r} must not be less than 0, but is {getattr(self, name)}")
        if self.fixed > self.step:
            raise ValueError(f"'fixed' is a part of 'step', {self.step}, and must not be more, as {self.fixed} is")
        if not 0 <= self.together <= 1:
            raise ValueError(f"'together' must be a share from 0 to 1, not {self.together}")

    @property
    def between(self) -> float:
        """Mean time between failures of any rank, while all live."""
        return self.mtbf / self.ranks

    def speed(self, alive: int) -> float:
        """How fast so many ranks are, by how fast all are."""
        return self.step / (self.fixed + (self.step - self.fixed) * self.ranks / alive)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to, or the mean of several."""

    time: float
    """From its beginning to its end."""
    lost: float
    """Time of work that had to be done again."""
    down: float
    """Time in which nobody trained, after failures."""
    saving: float
    """Time for checkpoints."""
    failures: float
    unsampled: float
    """Share of the samples that were left out (`lossy`)."""
    ended: float = 1.0
    """Share of the runs that came to their end."""


def young(checkpoint: float, between: float) -> float:
    """Young's interval of checkpoints, in seconds of work."""
    return math.sqrt(2 * checkpoint * between)


def daly(checkpoint: float, between: float) -> float:
    """Daly's interval of checkpoints (his equation 37), in seconds of work."""
    if checkpoint >= 2 * between:
        return between
    part = math.sqrt(checkpoint / (2 * between))
    return young(checkpoint, between) * (1 + part / 3 + part**2 / 9) - checkpoint


def expected_restart(training: Training, interval: float) -> float:
    """The expected time of a run with `restart` (Daly's equation 20); infinite where a number cannot hold it."""
    between, segments = training.between, training.work / interval
    try:
        grown = math.expm1((interval + training.checkpoint) / between)
        return between * math.exp(training.restart / between) * grown * segments
    except OverflowError:
        return math.inf


class _Run:
    """One run, from event to event."""

    def __init__(
        self,
        training: Training,
        policy: Policy,
        interval: float,
        chance: random.Random,
        failures: Sequence[float] | None = None,
    ) -> None:
        self._training = training
        self._policy = policy
        self._interval = interval
        self._chance = chance
        self._given = failures
        self._now = self._done = self._saved = 0.0
        self._lost = self._down = self._saving = self._unsampled = 0.0
        self._alive = training.ranks
        self._failures = 0
        self._replacements: list[float] = []
        self._failure = self._next_failure()
        self._limit = LONGEST * training.work

    def outcome(self) -> Outcome:
        """Run it."""
        training = self._training
        ended = True
        while self._done < training.work:
            if self._now > self._limit:
                ended = False
                break
            target = min(self._saved + self._interval, training.work)
            if self._work_until(target) and self._done < training.work:
                self._save()
        return Outcome(
            self._now, self._lost, self._down, self._saving, self._failures, self._unsampled / training.work, ended
        )

    def _next_failure(self) -> float:
        if self._given is not None:
            return next((time for time in self._given if time > self._now), math.inf)
        return self._now + self._chance.expovariate(self._alive / self._training.mtbf)

    def _work_until(self, target: float) -> bool:
        """Work up to a point; false if a failure has come before."""
        while self._done < target:
            speed = self._training.speed(self._alive)
            end = self._now + (target - self._done) / speed
            joined = max(self._now, self._replacements[0]) if self._replacements else math.inf
            event = min(end, joined, self._failure)
            self._done += (event - self._now) * speed
            self._now = event
            if event == end:
                self._done = target
            elif event == joined:
                heapq.heappop(self._replacements)
                self._alive += 1
                self._failure = self._next_failure()  # of a process without memory
            else:
                self._fail()
                return False
        return True

    def _save(self) -> None:
        """Write a checkpoint; a failure that needs one finds the one before, if it comes first."""
        seconds = self._training.checkpoint
        if self._failure < self._now + seconds:
            self._spend(self._failure - self._now, "saving")
            self._fail()
            return
        self._spend(seconds, "saving")
        self._saved = self._done

    def _spend(self, seconds: float, what: Literal["saving", "down"]) -> None:
        self._now += seconds
        if what == "saving":
            self._saving += seconds
        else:
            self._down += seconds

    def _fail(self) -> None:
        """Come to where training goes on; failures may come on the way to it, too."""
        pause = self._consequence()
        while self._failure < self._now + pause and self._now < self._limit:
            self._spend(self._failure - self._now, "down")
            pause = self._consequence()
        self._spend(pause, "down")

    def _consequence(self) -> float:
        """What a failure does now; how long nobody trains after it."""
        training = self._training
        self._failures += 1
        if self._policy == "restart" or self._alive == 1 or self._chance.random() < training.together:
            self._lost += self._done - self._saved
            self._done = self._saved
            self._alive, self._replacements = training.ranks, []
            self._failure = self._next_failure()
            return training.restart
        share = 1 / self._alive
        self._alive -= 1
        if training.replace < math.inf:
            heapq.heappush(self._replacements, self._now + training.replace)
        if self._policy == "rollback":
            # The others notice when they have computed their shares: a whole step is lost, whenever it was in it.
            again = min(training.step, self._done - self._saved)
            self._done -= again
            self._lost += again
        else:
            self._unsampled += training.step * share
        self._failure = self._next_failure()
        return training.recover


def simulate(training: Training, policy: Policy, interval: float, runs: int = 50, seed: int = 0) -> Outcome:
    """The mean of some runs. `interval`: seconds of work between checkpoints; infinite: none are written."""
    made = [_Run(training, policy, interval, random.Random(f"{seed} {run}")).outcome() for run in range(runs)]
    return Outcome(*(statistics.fmean(getattr(one, name) for one in made) for name in Outcome.__slots__))


def replayed(training: Training, policy: Policy, interval: float, failures: Sequence[float]) -> Outcome:
    """A run whose failures come at these times, each of a rank that lives then."""
    return _Run(training, policy, interval, random.Random(0), sorted(failures)).outcome()


def best_interval(training: Training, policy: Policy, runs: int = 50, seed: int = 0) -> float:
    """The interval of checkpoints with which the simulated runs are shortest, of some around Daly's."""
    between = training.between if policy == "restart" else training.between / max(training.together, 1e-9)
    middle = min(daly(training.checkpoint, between), training.work) if training.checkpoint else training.step
    tried = [middle * 2 ** (power / 2) for power in range(-3, 4)]
    tried = [one for one in tried if one < training.work] or [training.work]
    return min(tried, key=lambda interval: simulate(training, policy, interval, runs, seed).time)


@dataclass(frozen=True, slots=True)
class Advice:
    """A policy, with the interval that is best for it, and what that comes to."""

    policy: Policy
    interval: float
    outcome: Outcome


def advice(training: Training, interval: float | None = None, runs: int = 50, seed: int = 0) -> list[Advice]:
    """What each policy comes to, the shortest first. `interval`: of checkpoints; None: the best for each policy."""
    found = []
    for policy in POLICIES:
        chosen = best_interval(training, policy, runs, seed) if interval is None else interval
        found.append(Advice(policy, chosen, simulate(training, policy, chosen, runs, seed)))
    return sorted(found, key=lambda one: round(one.outcome.time / training.work / SAME))


def sweep(
    training: Training, name: Literal["mtbf", "ranks"], factors: Sequence[float]
) -> list[tuple[Training, list[Advice]]]:
    """The same for other rates of failures, or other numbers of ranks."""
    found = []
    for factor in factors:
        if name == "ranks":
            other = replace(training, ranks=max(1, round(training.ranks * factor)))
        else:
            other = replace(training, mtbf=training.mtbf * factor)
        found.append((other, advice(other, runs=5)))
    return found
