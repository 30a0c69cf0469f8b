"""Compares the simulation of failures with real runs of a training, whose ranks die at random.

    python -m benchmarks.elastic_failures --runs 51

Four ranks sleep for their share of a step, so that the cores of the machine do not matter; each dies after a time that
is distributed exponentially. `restart`: all are killed with it, and begin again at the last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.elastic import BATCH, CLASSES, FEATURES, RANKS, data, forked, prepare
from wilkins.flow.failures import POLICIES, Policy, Training, replayed, simulate
from wilkins.tasks.elastic.parent import Parent
from wilkins.tasks.elastic.processes import Processes

STEPS = 60
STEP = 0.1
"""Seconds that a step's computing takes with all ranks."""
MTBF = 24.0
CHECKPOINT = 0.2
INTERVAL = 1.5
RECOVER = 0.06
"""Seconds: the median of `benchmarks.elastic`."""


def train(policy: Policy, folder: Path) -> None:
    """What a rank does."""
    import torch

    from wilkins.tasks.elastic import Elastic

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.Adam(model.parameters())
    start, saved = 0, folder / "saved.pt"
    if saved.exists():
        state = torch.load(saved)
        start = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    elastic = Elastic(model, optimizer, lossy=policy == "lossy", start=start)
    every = round(INTERVAL / STEP)
    for step in elastic.steps(STEPS):
        if step.number and step.number % every == 0 and step.number != start:
            time.sleep(CHECKPOINT)
            if elastic.is_first:
                made = {"step": step.number, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(made, folder / "new.pt")
                (folder / "new.pt").replace(saved)
        x, y = data(step.number, BATCH)
        mine = step.share(BATCH)
        time.sleep(STEP * RANKS * len(x[mine]) / BATCH)
        torch.autograd.backward(torch.nn.functional.cross_entropy(model(x[mine]), y[mine]))
        elastic.commit(len(x[mine]))


class _Deaths:
    """Kills a rank of a parent whenever the next death is due."""

    def __init__(self, chance: random.Random, mtbf: float) -> None:
        self._chance = chance
        self._mtbf = mtbf
        self.pids: dict[int, int] = {}
        self.times: list[float] = []
        self.parent: Parent | None = None

    def arm(self) -> None:
        """Set the time of the next one."""
        if len(self.pids) > 1:
            signal.signal(signal.SIGALRM, self._strike)
            signal.setitimer(signal.ITIMER_REAL, self._chance.expovariate(len(self.pids) / self._mtbf))

    def _strike(self, *_: object) -> None:
        if self.parent is None or self.parent.ended:
            return
        self.times.append(time.monotonic())
        os.kill(self.pids.pop(self._chance.choice(sorted(self.pids))), signal.SIGKILL)
        self.arm()


@dataclass(frozen=True, slots=True)
class Real:
    """A real run; times in seconds from its first group."""

    time: float
    deaths: list[float]
    starts: list[float]
    """From deaths after which all were started again, until they trained."""


def real(policy: Policy, seed: int, mtbf: float = MTBF) -> Real:
    """Train once."""
    chance = random.Random(f"{policy} {seed}")
    first: list[float] = []
    died: list[float] = []
    with tempfile.TemporaryDirectory(prefix="elastic-") as name:
        folder = Path(name)
        while True:
            deaths = _Deaths(chance, mtbf)

            def start(rank: int, variables: Mapping[str, str], deaths: _Deaths = deaths) -> int:
                deaths.pids[rank] = forked(lambda: train(policy, folder), variables)
                return deaths.pids[rank]

            def say(sentence: str, deaths: _Deaths = deaths) -> None:
                if sentence.startswith("group 1:"):
                    first.append(time.monotonic())
                    deaths.arm()
                if policy == "restart" and "was killed" in sentence:
                    for pid in deaths.pids.values():
                        os.kill(pid, signal.SIGKILL)
                    deaths.pids = {}

            parent = deaths.parent = Parent([Processes(start, RANKS)], say=say)
            code = parent.run()
            signal.setitimer(signal.ITIMER_REAL, 0)
            died += deaths.times
            if code == 0:
                starts = [again - dead for again, dead in zip(first[1:], died, strict=False)]
                return Real(time.monotonic() - first[0], [one - first[0] for one in died], starts)
            if policy != "restart":
                raise RuntimeError(f"{policy}, seed {seed}: no rank was left")


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate, run, simulate, compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic_failures", description=__doc__)
    parser.add_argument("--runs", type=int, default=51)
    given = parser.parse_args(arguments)
    prepare()
    calm = statistics.mean(real("rollback", seed, 1e9).time for seed in range(3))
    saving = CHECKPOINT * ((STEPS - 1) // round(INTERVAL / STEP))
    work = calm - saving
    known: dict[str, Any] = {"mtbf": MTBF, "ranks": RANKS, "work": work, "step": work / STEPS, "checkpoint": CHECKPOINT}
    known["fixed"] = work / STEPS - STEP
    interval = INTERVAL * work / (STEPS * STEP)
    print(f"without failures {calm:.2f} s, a step {work / STEPS * 1e3:.0f} ms")
    print(
        "| policy | runs | deaths | seconds a run: real | simulated with the same deaths | simulated with any deaths |"
    )
    print("|---|---|---|---|---|---|")
    for policy in POLICIES:
        made = [real(policy, seed) for seed in range(given.runs // len(POLICIES))]
        starts = [start for one in made for start in one.starts] or [0.0]
        training = Training(
            **known, restart=statistics.mean(starts), recover=RECOVER, replace=float("inf"), together=0.0
        )
        again = [replayed(training, policy, interval, one.deaths).time for one in made]
        times = [one.time for one in made]
        error = statistics.stdev(times) / len(times) ** 0.5
        mean, same = statistics.mean(times), statistics.mean(again)
        print(
            f"| {policy} | {len(made)} | {sum(len(one.deaths) for one in made)} | {mean:.2f} ± {error:.2f} | "
            f"{same:.2f} ({same / mean - 1:+.1%}) | {simulate(training, policy, interval, runs=2000).time:.2f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
