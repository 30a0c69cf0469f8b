"""Writes the page about the flow-control experiment: tables and pictures, as measured."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wilkins.report.draw.gantt import draw_timelines
from wilkins.report.draw.svg import save

from .flow_control import RATIOS, STEP, STEPS, Cost, Outcome, cases, cost_of_latest, measure

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"

_TEXT = """\
# Flow control: runs against the model

<!-- Written by `python -m benchmarks flow-control`; run that instead of editing. -->

The experiment of the Wilkins paper, scaled to {step} s: a producer takes {step} s per step and makes {steps} steps;
a consumer is 2, 5 or 10 times slower; the channel keeps `all` steps, `some` (every 2nd, 5th, 10th, to match), or
the `latest`. Both programs are small h5py scripts (`benchmarks/programs/paced.py`) that sleep as long as they would
compute, started by `wilkins run`. The clock begins with the producer's first step, when both programs are up, and
ends with the last step of each; start and end of the Python interpreters do not count. The model is `wilkins
simulate` on the same workflow file, with no other input than the durations.

Measured {date} on {cpus} cores ({machine}), {versions}; median of {repeat} runs (fastest to slowest).

{table}

{verdict} `all` queues 2 steps here, so the producer is ahead of its consumer by 2 steps at its end.
For comparison, the original: with `all`, 9.2 s for the producer and 10.4 s in total; with `latest`, 2.0 s for the
producer, and the last step never arrived. Here `latest` always delivers it.

{pictures}
## What `latest` costs a producer that computes

The same two programs, which now really compute (matrix products in numpy, one thread each): the producer about 0.1
s per step and {cost_steps} steps of 1 MiB, the consumer ten times as long per step. First side by side and
uncoupled, each with plain files of its own; then coupled by `latest`; {repeat} such pairs in turns.

| the producer's {cost_steps} steps | uncoupled, s | coupled, s | cost (median of the pairs) |
|---|---|---|---|
{cost_rows}

The fastest coupled run took {least} than the fastest uncoupled one. In all coupled runs together, the producer
waited for room for {waited} ms. The consumer got {read} of the {cost_steps} steps, the last one in every run. {load}
"""


def main(arguments: Sequence[str]) -> None:
    """Run the experiment and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks flow-control", description="the flow-control experiment: runs against the model"
    )
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case (default: 5)")
    parser.add_argument("--output", type=Path, default=PAGE, help="folder for the page and its pictures")
    options = parser.parse_args(arguments)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for policy, ratio, flow in cases():
            place = Path(folder) / f"{policy}-{ratio}"
            place.mkdir()
            outcomes.append(measure(place, policy, ratio, flow, options.repeat))
            print(_row(outcomes[-1]), flush=True)
        place = Path(folder) / "cost"
        place.mkdir()
        cost = cost_of_latest(place, options.repeat)
        print("\n".join(_cost_rows(cost)), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    for policy in ("all", "some", "latest"):
        panels = []
        for outcome in outcomes:
            if outcome.policy == policy:
                panels.append((f"{policy}, consumer {outcome.ratio}x slower: model", outcome.model_timeline))
                panels.append((f"{policy}, consumer {outcome.ratio}x slower: run", outcome.run_timeline))
        save(draw_timelines(panels), "svg", options.output / f"flow-control-{policy}.svg")
    page = options.output / "flow-control.md"
    page.write_text(_page(outcomes, cost, options.repeat), encoding="utf-8")
    print(f"wrote {page} and three pictures")


def _row(outcome: Outcome) -> str:
    cells = [outcome.policy, f"{outcome.ratio}x"]
    for name, model, median, deviation in zip(
        ("producer", "workflow"),
        (outcome.model.producer, outcome.model.workflow),
        outcome.median,
        outcome.deviation,
        strict=True,
    ):
        runs = [getattr(run, name) for run in outcome.runs]
        cells += [f"{model:.2f}", f"{median:.2f} ({min(runs):.2f} to {max(runs):.2f})", f"{100 * deviation:+.1f} %"]
    last = outcome.model.read[-1]
    counts = sorted({len(run.read) for run in outcome.runs})
    got = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    arrived = "yes" if all(run.read[-1] == last for run in outcome.runs) else "no"
    return "| " + " | ".join([*cells, f"{len(outcome.model.read)} / {got}", arrived]) + " |"


def _cost_rows(cost: Cost) -> list[str]:
    rows = []
    for title, name, relative in (("time", "wall", cost.wall), ("processor time", "cpu", cost.cpu)):
        spreads = [[getattr(one, name) for one in runs] for runs in (cost.alone, cost.coupled)]
        shown = [f"{sorted(times)[len(times) // 2]:.2f} ({min(times):.2f} to {max(times):.2f})" for times in spreads]
        rows.append(f"| {title} | {shown[0]} | {shown[1]} | {100 * relative:+.1f} % |")
    return rows


def _load() -> str:
    """What else kept the machine busy, which makes single times longer."""
    average, cores = os.getloadavg()[1], len(os.sched_getaffinity(0))
    if average < cores + 1:
        return "The machine did nothing else."
    return (
        f"The machine had other work to do meanwhile (load average {average:.0f} on {cores} cores), so that times of "
        "single runs vary much more than they differ by the coupling."
    )


def _page(outcomes: Sequence[Outcome], cost: Cost, repeat: int) -> str:
    import h5py
    import numpy

    head = [
        "policy",
        "consumer slower",
        "producer, model, s",
        "run, s",
        "deviation",
        "workflow, model, s",
        "run, s",
        "deviation",
        "steps read, model / run",
        "last kept step arrived",
    ]
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *map(_row, outcomes)]
    worst = max(abs(deviation) for outcome in outcomes for deviation in outcome.deviation)
    verdict = f"All medians are within {100 * worst:.1f} % of the model."
    pictures = "".join(
        f"![{policy}: model and run](flow-control-{policy}.svg)\n\n" for policy in ("all", "some", "latest")
    )
    counts = sorted({len(read) for read in cost.read})
    if any(read[-1] != cost.steps - 1 for read in cost.read):
        raise RuntimeError(f"the last step did not arrive in every run: {cost.read}")
    assert len(RATIOS) * 3 == len(outcomes)
    return _TEXT.format(
        step=STEP,
        steps=STEPS,
        date=time.strftime("%Y-%m-%d"),
        cpus=len(os.sched_getaffinity(0)),
        machine=platform.machine(),
        versions=f"Python {sys.version.split()[0]}, h5py {h5py.__version__} (HDF5 {h5py.version.hdf5_version}), "
        f"numpy {numpy.__version__}",
        repeat=repeat,
        table="\n".join(table),
        verdict=verdict,
        pictures=pictures,
        cost_steps=cost.steps,
        cost_rows="\n".join(_cost_rows(cost)),
        least=f"{100 * abs(cost.least):.1f} % {'more' if cost.least > 0 else 'less'}",
        waited=f"{1e3 * sum(cost.waited):.3g}",
        load=_load(),
        read=str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
    )
