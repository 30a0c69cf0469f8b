"""`python -m benchmarks.learning`: trains by all strategies on several streams, and shows, saves or publishes it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.machine import describe

from . import page, tables
from .courses import Setting, grid, train
from .results import Results, load
from .streams import DIGITS, FADING, MOVING, PTYCHOGRAPHY, Stream

SEEDS = 5
_OF_DIGITS = ((100, 64), (250, 64), (1500, 64), (500, 16), (500, 32), (500, 128))
STREAMS: list[tuple[Stream, list[Setting]]] = [
    (DIGITS, grid((1, 3, 10), range(1, 11), (1, 2, 3, 5, 10), page.BUFFERS[DIGITS.name], _OF_DIGITS, 10)),
    (MOVING, grid((1, 3, 10), (1, 2, 3, 5, 10), (1, 3, 10), page.BUFFERS[MOVING.name], ((200, 32), (8000, 32)), 3)),
    (FADING, grid((1, 3, 6, 10), (1, 3), (1, 3, 10), page.BUFFERS[FADING.name], strategies=("rehearsal", "der++"))),
    (PTYCHOGRAPHY, grid((1, 3, 10), (1, 3, 10), (1, 3, 10), page.BUFFERS[PTYCHOGRAPHY.name], ((900, 64),), 3)),
]
QUICK = (1, 3)
"""Passes of a quick look."""


def measured(quick: bool, seeds: int, only: Sequence[str] = ()) -> Results:
    """Train by everything, or on these streams."""
    results = Results(_machine(), [], [])
    for seed in range(seeds):
        for stream, settings in STREAMS:
            if only and stream.name not in only:
                continue
            print(f"{time.strftime('%H:%M:%S')} seed {seed}: {stream.name}", file=sys.stderr, flush=True)
            chosen = [one for one in settings if not quick or one.passes in QUICK]
            made, courses = train(stream, chosen, seed, quick)
            results.made.append(made)
            results.courses += courses
    return results


def _machine() -> dict[str, Any]:
    found = describe()
    return found | {"torch": torch.__version__, "load": os.getloadavg()[0]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or take what was measured, and show it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    names = [stream.name for stream, _ in STREAMS]
    parser.add_argument("only", nargs="*", help=f"streams, of {', '.join(names)}; left out: all")
    parser.add_argument("--quick", action="store_true", help="one seed, short streams, few passes: some seconds")
    parser.add_argument("--seeds", type=int, help=f"left out: {SEEDS}, with --quick 1")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the results as JSON")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="do not measure: take these results")
    parser.add_argument("--page", type=Path, nargs="?", const=page.FOLDER, metavar="FOLDER",
                        help=f"write learning.md and its picture; left out: to {page.FOLDER}")  # fmt: skip
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(names):
        parser.error(f"there is no stream {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.page and options.only:
        parser.error("--page needs all streams: leave out names")
    if options.source:
        results = load(options.source)
    else:
        results = measured(options.quick, options.seeds or (1 if options.quick else SEEDS), options.only)
    if options.out:
        results.save(options.out)
    for name in names:
        if not options.only or name in options.only:
            print(f"\n{name}\n\n{tables.table(results, name)}")
    if options.page:
        page.write(results, options.page)


if __name__ == "__main__":
    main()
