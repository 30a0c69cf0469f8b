"""The flow-control experiment of the Wilkins paper, scaled: real runs against the model, and the cost of `latest`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.flow.recorded import without_start
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import Timeline
from wilkins.plan.graph import wire
from wilkins.report.predict import model_of
from wilkins.report.runs import timeline_of_run
from wilkins.spec.load import load

PROGRAM = Path(__file__).parent / "programs" / "paced.py"
STEP = 0.2
"""Seconds that the producer computes per step."""
STEPS = 10
RATIOS = (2, 5, 10)
"""How many times slower the consumer is."""


@dataclass(frozen=True, slots=True)
class Completion:
    """When the producer and the whole workflow were done, in seconds from the beginning of the first step."""

    producer: float
    workflow: float
    read: tuple[int, ...]
    """Numbers of the steps that the consumer got."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy at one ratio: the prediction, and runs."""

    policy: str
    ratio: int
    model: Completion
    runs: tuple[Completion, ...]
    model_timeline: Timeline
    run_timeline: Timeline
    """The timeline of the run with the median completion."""

    @property
    def median(self) -> tuple[float, float]:
        """The median times of producer and workflow."""
        return (
            statistics.median(run.producer for run in self.runs),
            statistics.median(run.workflow for run in self.runs),
        )

    @property
    def deviation(self) -> tuple[float, float]:
        """The relative deviation of the medians from the model."""
        producer, workflow = self.median
        return producer / self.model.producer - 1, workflow / self.model.workflow - 1


def cases() -> Iterator[tuple[str, int, str]]:
    """Name, ratio and `flow` of each policy."""
    for policy in ("all", "some", "latest"):
        for ratio in RATIOS:
            yield policy, ratio, f"{{every: {ratio}}}" if policy == "some" else policy


def measure(folder: Path, policy: str, ratio: int, flow: str, repeat: int = 5) -> Outcome:
    """Predict one case and run it several times.

    Args:
        folder: where to work; must be empty.

    Raises:
        RuntimeError: a run failed.
    """
    workflow = folder / "workflow.yaml"
    workflow.write_text(
        f"""\
name: {policy}-{ratio}x
tasks:
  - name: producer
    func: {json.dumps(str(PROGRAM))}
    args: [produce, '{STEPS}', '{STEP}', '0.1', consume]
    outports: [{{filename: state.h5}}]
    model: {{step: {STEP}s, steps: {STEPS}}}
  - name: consumer
    func: {json.dumps(str(PROGRAM))}
    args: [consume, '1000', '{STEP * ratio:g}', '0.1', produce]
    inports: [{{filename: state.h5, flow: {flow}}}]
    model: {{step: {STEP * ratio:g}s}}
"""
    )
    document = load(workflow)
    timeline = simulate(model_of(document, wire(document)))
    read = tuple(step.number for step in timeline.steps if step.openings)
    model = Completion(timeline.tasks[0].end or 0.0, timeline.end, read)
    runs = []
    for _ in range(repeat):
        producer, consumer = _run(folder)
        ends = [said["ended"] - producer["began"] for said in (producer, consumer)]
        happened = without_start(timeline_of_run(folder / "wilkins-runs" / "latest"))
        runs.append((Completion(ends[0], max(ends), tuple(consumer["numbers"])), happened))
    middle = sorted(runs, key=lambda run: run[0].workflow)[len(runs) // 2]
    return Outcome(policy, ratio, model, tuple(run for run, _ in runs), timeline, middle[1])


def _run(folder: Path) -> tuple[Any, Any]:
    """Run the workflow; what producer and consumer say at their end."""
    for stale in folder.glob("*.up"):
        stale.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "wilkins", "run", "workflow.yaml", "--timeout", "120", "--quiet"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    records = folder / "wilkins-runs" / "latest"
    return _said(records / "producer.log"), _said(records / "consumer.log")


def _said(log: Path) -> Any:
    return json.loads(log.read_text().strip().splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Spent:
    """What a producer's steps took, in seconds."""

    wall: float
    cpu: float
    queued: float
    """Part of the wall time in which it was ready to run and other work had the processors."""

    @property
    def own(self) -> float:
        """What it computed and what it waited for, the same under any load: a cost of coupling is in here."""
        return self.wall - self.queued


@dataclass(frozen=True, slots=True)
class Cost:
    """A producer that computes, with a consumer that computes ten times as long per step."""

    alone: tuple[Spent, ...]
    """The two programs side by side and uncoupled, each with files of its own."""
    coupled: tuple[Spent, ...]
    """Coupled by `latest`, each right after the one in `alone`."""
    steps: int
    read: tuple[tuple[int, ...], ...]
    """The steps that the consumer got, in each coupled run."""
    waited: tuple[float, ...]
    """Seconds that the producer waited for room in each coupled run, as its trace says."""

    @property
    def wall(self) -> float:
        """How much longer the coupled producer takes: median of the pairs, relative."""
        return statistics.median(two.wall / one.wall for one, two in zip(self.alone, self.coupled, strict=True)) - 1

    @property
    def cpu(self) -> float:
        """How much more processor time it uses, likewise."""
        return statistics.median(two.cpu / one.cpu for one, two in zip(self.alone, self.coupled, strict=True)) - 1

    @property
    def own(self) -> tuple[float, ...]:
        """How much more of its own time it takes, relative, in each pair."""
        return tuple(two.own / one.own - 1 for one, two in zip(self.alone, self.coupled, strict=True))

    @property
    def least(self) -> float:
        """The fastest coupled run against the fastest uncoupled one: what remains where other load passes, relative."""
        return min(one.wall for one in self.coupled) / min(one.wall for one in self.alone) - 1


def cost_of_latest(
    folder: Path, repeat: int = 5, steps: int = 20, seconds: float = 0.1, mib: float = 1, planted: float = 0.0
) -> Cost:
    """Compare a producer under `latest` with the same two programs uncoupled, in turns.

    Args:
        folder: where to work; must be empty.
        seconds: how long the producer computes per step, about.
        mib: size of a step.
        planted: a cost that the coupled producer is given on top, relative to what it computes.

    Raises:
        RuntimeError: a program failed.
    """
    products = _products(seconds)
    produce = [str(PROGRAM), "produce", str(steps), f"{products}x", str(mib), "consume"]
    dearer = [*produce[:3], f"{round((1 + planted) * products)}x", *produce[4:]]
    consume = [str(PROGRAM), "consume", "100000", f"{10 * products}x", str(mib), "produce"]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    tasks = [
        {"name": name, "func": words[0], "args": words[1:], "env": threads, port: [{"filename": "state.h5", **how}]}
        for name, words, port, how in (
            ("producer", dearer, "outports", {}),
            ("consumer", consume, "inports", {"io_freq": "latest"}),
        )
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    _one_file(folder, produce, threads)
    alone, coupled, read, waited = [], [], [], []
    for _ in range(repeat):
        alone.append(_uncoupled(folder, produce, consume, threads))
        producer, consumer = _run(folder)
        coupled.append(_spent(producer))
        read.append(tuple(consumer["numbers"]))
        waited.append(timeline_of_run(folder / "wilkins-runs" / "latest").tasks[0].mean("waiting for room"))
    return Cost(tuple(alone), tuple(coupled), steps, tuple(read), tuple(waited))


def _products(seconds: float) -> int:
    """How many matrix products take so long on this machine."""
    script = (
        "import time, numpy as np\nm = p = np.random.default_rng(0).random((200, 200)) / 100\nbest = 1e9\n"
        "for _ in range(10):\n    begun = time.process_time()\n    for _ in range(100): p = p @ m\n"
        "    best = min(best, time.process_time() - begun)\nprint(best / 100)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return max(1, round(seconds / float(done.stdout)))


def _one_file(folder: Path, produce: list[str], threads: dict[str, str]) -> None:
    """A file for the uncoupled consumer to read: one step, written by the producer alone."""
    (folder / "reading").mkdir()
    (folder / "writing").mkdir()
    words = [sys.executable, *produce[:2], "1", "0", produce[4], "-"]
    subprocess.run(words, cwd=folder / "reading", env={**os.environ, **threads}, check=True, stdout=subprocess.DEVNULL)


def _uncoupled(folder: Path, produce: list[str], consume: list[str], threads: dict[str, str]) -> Spent:
    """The producer beside a consumer that reads a file of its own over and over."""
    environment = {**os.environ, **threads}
    begins = [folder / "writing" / "consume.up", folder / "reading" / "produce.up"]
    for up in begins:
        up.unlink(missing_ok=True)
    log = folder / "alone.log"
    with (
        log.open("w") as out,
        subprocess.Popen([sys.executable, *produce], cwd=folder / "writing", env=environment, stdout=out) as producer,
        subprocess.Popen(
            [sys.executable, *consume], cwd=folder / "reading", env=environment, stdout=subprocess.DEVNULL
        ) as consumer,
    ):
        try:
            _introduce(folder, begins)
            if producer.wait(300):
                raise RuntimeError("the producer failed without a consumer")
        finally:
            consumer.kill()
            producer.kill()
    return _spent(_said(log))


def _spent(said: Any) -> Spent:
    return Spent(said["ended"] - said["began"], said["cpu"], said["queued"])


def _introduce(folder: Path, begins: list[Path]) -> None:
    """Let both programs, which see each other's files no more than a port's, begin at one time."""
    own = [folder / "writing" / "produce.up", folder / "reading" / "consume.up"]
    until = time.monotonic() + 60
    while not all(path.exists() for path in own):
        if time.monotonic() > until:
            raise RuntimeError("the programs did not start within 60 s")
        time.sleep(0.002)
    for path in begins:
        path.touch()
    for path in own:
        path.unlink()
