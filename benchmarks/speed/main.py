"""`python -m benchmarks speed`: measures by turns, and shows, saves, compares or publishes what was found."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import machine, others, page, tables
from .goals import goals
from .results import Results, compared, load
from .running import build
from .scenes import left_out, scenes, turn

TURNS, QUICK_TURNS = 3, 2
SMALL_TURNS = 4
"""How often what takes little is measured in each turn."""


def measured(quick: bool, turns: int, only: Sequence[str]) -> Results:
    """Measure everything, or what has one of these words in its name.

    Raises:
        RuntimeError: a program failed, hung, or read what was not written.
    """
    results = Results(machine.describe() | {"load": os.getloadavg()[0], "busy": []})
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Path(folder))
        results.left_out = left_out(programs)
        for number in range(turns):
            results.machine["busy"].append(machine.busy())
            for scene in scenes(programs, quick):
                if not only or any(word in scene.name for word in only):
                    _say(f"turn {number + 1}: {scene.name}")
                    turn(scene, results)
            if only and "others" not in only:
                continue
            _say(f"turn {number + 1}: start, calls, launcher")
            for small in range(1 if quick else SMALL_TURNS):
                others.start_turn(programs, many=small == 0 and (number == 0 or not quick), results=results)
                others.calls_turn(programs, 200_000 if quick else 1_000_000, results)
            others.launcher_turn(programs, 2 if quick else 10, results)
    return results


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> None:
    """Measure, or take what was measured, and show it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks speed", description=__doc__)
    parser.add_argument(
        "only", nargs="*", help="words in the names of scenes (such as '1 KiB'), or others; left out: all"
    )
    parser.add_argument("--quick", action="store_true", help="fewer steps, sizes and turns: two minutes")
    parser.add_argument("--turns", type=int, help=f"left out: {TURNS}, with --quick {QUICK_TURNS}")
    parser.add_argument("--wait", type=float, default=0, metavar="MINUTES", help="wait so long for a quiet machine")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the results as JSON")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="do not measure: take these results")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="show the change against these results")
    parser.add_argument("--page", action="store_true", help=f"write {page.FOLDER / 'speed.md'} and its picture")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # what runs ends, and its folders go, whoever started this
        signal.signal(number, signal.default_int_handler)
    if options.page and (options.only or options.quick):
        parser.error("--page needs all rows and sizes: leave out --quick and names")
    if options.source:
        results = load(options.source)
    else:
        if options.wait and not machine.wait_for_quiet(options.wait):
            _say(f"the machine was not quiet for {options.wait:g} minutes; measuring all the same")
        turns = options.turns or (QUICK_TURNS if options.quick else TURNS)
        results = measured(options.quick, turns, options.only)
    if options.out:
        results.save(options.out)
    print(page.loudness(results))
    reached = [goal for goal in goals(results) if goal.measured]
    for title, shown in {
        "Goals": tables.of_goals(reached),
        "Steps": tables.of_steps(results),
        "Where a step's time goes": tables.of_parts(results),
        "Starting, small things, ranks": tables.of_others(results),
    }.items():
        print(f"\n{title}\n\n{shown}")
    for line in results.left_out:
        print(f"Not measured: {line}")
    if options.compare:
        print(
            "\n".join(["", "Against the old results: medians, the change", *compared(load(options.compare), results)])
        )
    if options.page:
        page.write(results)
