"""Kills ranks of an elastic training at random moments, and says what became of each run and what the deaths cost.

    python -m benchmarks.elastic --kills 200 -o elastic.json

A run has four ranks, of which one to three are killed (SIGKILL): at a random moment of the training, or within 50 ms
after the death before, so while the others form their next group, or a rank that was started again joins. Ranks are
forked from this process, which has torch in it already: starting one takes no time, so that joins are many.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import json
import os
import random
import resource
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from wilkins.tasks.elastic.hosts import Host, serve
from wilkins.tasks.elastic.parent import Parent
from wilkins.tasks.elastic.processes import Place, Processes, Start

RANKS = 4
STEPS = 120
BATCH = 96
FEATURES, CLASSES = 32, 8
LIMIT = 60
"""Seconds after which a run that has not ended is killed, and counts as one that hangs."""
CLOSE = 0.05
"""Seconds after a death in which another one may come: while the next group is formed."""

How = Literal["again", "lossy", "joining"]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a run."""

    how: How
    seed: int
    kills: int
    close: int
    """Of these, within 50 ms after another."""
    ended: bool
    """Whether all ranks that live have come to the last step."""
    equal: bool
    """Whether all of them have the same parameters and buffers."""
    accuracy: float
    seconds: float
    step_ms: float
    """Median time of a step."""
    lost: tuple[float, ...]
    """Seconds from the last step before a change of the group to the first one after, of the slowest rank."""
    groups: int
    survivors: int
    discarded: int
    """Samples whose gradients were discarded."""
    trouble: str = ""

    @property
    def good(self) -> bool:
        """Whether it ended with equal parameters."""
        return self.ended and self.equal


def data(seed: int, samples: int) -> tuple[Any, Any]:
    """Samples of eight classes, which overlap a little."""
    import torch

    course = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(7))
    y = torch.randint(CLASSES, (samples,), generator=course)
    return centres[y] + 2.0 * torch.randn(samples, FEATURES, generator=course), y


def train(how: How, seed: int, steps: int, results: Path) -> None:
    """What a rank does."""
    import torch

    from wilkins.tasks.elastic import Elastic

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 64),
        torch.nn.BatchNorm1d(64),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(64, CLASSES),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
    elastic = Elastic(model, optimizer, schedule=schedule, lossy=how == "lossy", seed=seed)
    times = []
    for step in elastic.steps(steps):
        began = time.monotonic()
        x, y = data(1000 * seed + step.number, BATCH)
        mine = step.share(BATCH)
        torch.autograd.backward(torch.nn.functional.cross_entropy(model(x[mine]), y[mine]))
        if elastic.commit(len(x[mine])):
            times.append(time.monotonic() - began)
    if not elastic.finished:
        return
    state = hashlib.sha256(b"".join(one.numpy().tobytes() for one in model.state_dict().values())).hexdigest()
    x, y = data(-1, 10000)
    model.eval()
    with torch.no_grad():
        accuracy = float((model(x).argmax(1) == y).float().mean())
    said = {
        "rank": elastic.rank,
        "step": elastic.step,
        "state": state,
        "accuracy": accuracy,
        "times": times,
        "recoveries": [asdict_of(one) for one in elastic.recoveries],
    }
    with results.open("a") as file:
        file.write(json.dumps(said) + "\n")


def asdict_of(recovery: Any) -> dict[str, Any]:
    """A change of the group, as plain data."""
    return {name: getattr(recovery, name) for name in ("generation", "seconds", "discarded")}


class Killer:
    """Kills some ranks of a parent, by a timer of this process. `folder`: has the process of each rank in a file."""

    def __init__(self, kills: int, chance: random.Random, span: float, folder: Path) -> None:
        self._left = kills
        self._chance = chance
        self._span = span
        self._folder = folder
        self._is_close = False
        self.killed = self.close = 0
        """How many have been killed, and of these, soon after another."""
        self.parent: Parent | None = None
        """Whose ranks these are."""

    def started(self, rank: int, pid: int) -> None:
        """A rank runs; also called by the parents of ranks that are no children of this process."""
        (self._folder / f"new-{rank}").write_text(str(pid))
        (self._folder / f"new-{rank}").rename(self._folder / f"pid-{rank}")

    def arm(self, *_: object) -> None:
        """Set the time of the next death."""
        if self._left:
            self._is_close = self.killed > 0 and self._chance.random() < 0.5
            delay = self._chance.uniform(0, CLOSE if self._is_close else self._span)
            signal.signal(signal.SIGALRM, self._strike)
            signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-4))

    def _strike(self, *_: object) -> None:
        living = sorted(self._folder.glob("pid-*"))
        if self.parent is None or self.parent.ended or not living:
            return
        victim = self._chance.choice(living)
        pid = int(victim.read_text())
        victim.unlink()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._left -= 1
            self.killed += 1
            self.close += self._is_close
        self.arm()


class ForkedHost(Host):
    """Ranks that stand for those on another host: children of a child of this process."""

    def __init__(self, number: int, start: Start, size: int) -> None:
        super().__init__(f"host-{number}", (), size, "localhost")
        self._start = start

    def _launch(self, orders: int, events: int) -> None:
        def work() -> None:
            os.dup2(orders, 0)
            os.dup2(events, 1)
            os.closerange(3, 1024)
            serve(self._start, None)

        self._pid = forked(work, {})

    def _end(self) -> None:
        os.waitpid(self._pid, 0)


def trial(
    how: How, kills: int, seed: int, *, ranks: int = RANKS, steps: int = STEPS, span: float = 1.0, hosts: int = 1
) -> Run:
    """One run. `how`: whether survivors compute the step again, keep gradients (`lossy`), or the dead are started
    again (`joining`). `span`: seconds from the first group, or a death, in which the next death comes. `hosts`: over
    how many the ranks are spread, each with a process that serves them."""
    chance = random.Random(f"{how} {seed}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="elastic-") as folder:
        results = Path(folder, "results")
        killer = Killer(kills, chance, span, Path(folder))

        def start(rank: int, variables: Mapping[str, str]) -> int:
            pid = forked(lambda: train(how, seed, steps, results), variables)
            killer.started(rank, pid)
            return pid

        def say(sentence: str) -> None:
            if sentence.startswith("group 1:"):
                killer.arm()

        places: Sequence[Place] = [Processes(start, ranks)]
        if hosts > 1:
            places = [ForkedHost(number, start, len(range(number, ranks, hosts))) for number in range(hosts)]
        parent = Parent(places, restarts=kills if how == "joining" else 0, say=say)
        killer.parent = parent
        trouble = _within(LIMIT, parent)
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.monotonic() - began
        said = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    ended = parent.ended and bool(said) and all(one["step"] == steps for one in said)
    enough = len(said) >= ranks - killer.killed
    changes: dict[int, float] = {}
    for one in said:
        for change in one["recoveries"]:
            changes[change["generation"]] = max(changes.get(change["generation"], 0.0), change["seconds"])
    return Run(
        how=how,
        seed=seed,
        kills=killer.killed,
        close=killer.close,
        ended=ended and enough,
        equal=len({one["state"] for one in said}) == 1,
        accuracy=statistics.mean(one["accuracy"] for one in said) if said else 0.0,
        seconds=seconds,
        step_ms=statistics.median([t for one in said for t in one["times"]] or [0.0]) * 1e3,
        lost=tuple(changes.values()),
        groups=1 + len(changes),
        survivors=len(said),
        discarded=sum(change["discarded"] for one in said for change in one["recoveries"]),
        trouble=trouble,
    )


def forked(work: Callable[[], None], variables: Mapping[str, str]) -> int:
    """A child that does some work, and ends."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the timer is the parent's own: a child has none
        os.environ.update(variables)
        faulthandler.register(signal.SIGUSR1)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _within(seconds: float, parent: Parent) -> str:
    """Run a parent; what is wrong if it takes longer: where it is. Its ranks say theirs on stderr."""
    until = time.monotonic() + seconds
    turn = parent._turn

    def watched() -> None:
        turn()
        if time.monotonic() > until:
            parent._send(parent._living(), signal.SIGUSR1)  # each says where it is
            time.sleep(1)
            raise TimeoutError

    parent._turn = watched  # type: ignore[method-assign]
    try:
        parent.run()
    except TimeoutError:
        return f"it did not end within {seconds:g} s; {vars(parent._membership)}"
    return ""


def prepare() -> None:
    """Load what ranks need before they are forked; gloo says of every lost connection that it is an error."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    import wilkins.tasks.elastic.training  # noqa: F401

    number = torch.nn.Parameter(torch.zeros(1))
    number.grad = torch.zeros(1)
    torch.optim.Adam([number]).step()  # its first step imports much


def _accuracy(runs: Sequence[Run]) -> str:
    every = [run.accuracy for run in runs]
    return f"{statistics.mean(every):.4f}, {min(every):.4f} to {max(every):.4f}"


def table(runs: Sequence[Run], free: Sequence[Run]) -> str:
    """What became of runs, a line for each way; `free`: runs without any death."""
    rows = [
        "| after a death | runs | deaths | soon after another | ended, equal parameters | accuracy: mean, range | "
        "lost a change: median, most | most, without 3 steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for how in dict.fromkeys(run.how for run in runs):
        of = [run for run in runs if run.how == how]
        lost = [seconds for run in of for seconds in run.lost] or [0.0]
        excess = [seconds - 3 * run.step_ms / 1e3 for run in of for seconds in run.lost] or [0.0]
        rows.append(
            f"| {how} | {len(of)} | {sum(run.kills for run in of)} | {sum(run.close for run in of)} | "
            f"{sum(run.good for run in of)} | {_accuracy(of)} | {statistics.median(lost):.2f} s, {max(lost):.2f} s | "
            f"{max(excess):.2f} s |"
        )
    return "\n".join([*rows, f"\naccuracy of {len(free)} undisturbed runs of 1 to {RANKS} ranks: {_accuracy(free)}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until so many ranks have been killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--seeds", type=int, default=8, help="of the data; undisturbed runs have each of them once a size"
    )
    parser.add_argument("--hosts", type=int, default=1, help="over how many hosts the ranks are; all are this machine")
    parser.add_argument("-o", "--output", type=Path, help="where the runs go, as JSON")
    given = parser.parse_args(arguments)
    prepare()
    free = [trial("again", 0, seed, ranks=ranks) for ranks in range(1, RANKS + 1) for seed in range(given.seeds)]
    runs: list[Run] = []
    ways: tuple[How, ...] = ("again", "lossy", "joining")
    while sum(run.kills for run in runs) < given.kills:
        number = len(runs)
        runs.append(trial(ways[number % 3], 1 + (number // 3) % 3, number % given.seeds, hosts=given.hosts))
        if not runs[-1].good:
            print(f"run {number}: {runs[-1]}", flush=True)
    print(table(runs, free))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{sum(run.seconds for run in runs):.0f} s, {children.ru_utime + children.ru_stime:.0f} s of CPU")
    if given.output:
        given.output.write_text(json.dumps([asdict(run) for run in (*free, *runs)], indent=1))
    return 0 if all(run.good for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
