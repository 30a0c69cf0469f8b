"""Runs the test suites of libraries under the layer: ``python -m tests.suites [SUITE ...]`` in the checkout's root.

Each suite runs three ways: plain; under the layer, with ports that match none of its files, where every outcome must
be the same; and with every file that it creates held in memory, where its share of what passes on files must pass too.
Exits with 1 if a share does not hold, or if the list of exceptions (exceptions.yaml) is not exactly what was found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import outcomes
from .known import HERE, SUITES, Suite
from .ways import WAYS, Ran, Way, run

EXCEPTIONS = HERE / "exceptions.yaml"


def judge(suite: Suite, ran: dict[Way, Ran], known: tuple[outcomes.Known, ...]) -> list[str]:
    """Print how the ways of a suite compare, and return what is wrong."""
    found = {way: outcomes.read(result.outcomes) for way, result in ran.items()}
    for way, result in ran.items():
        counts = Counter(found[way].values())
        told = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped", "begun") if counts[kind])
        held = f"; {result.steps} files held in memory" if way == "memory" else ""
        print(
            f"{suite.name} {suite.version} {way:>7}: {told or 'no tests'} in {result.seconds:.0f} s{held}", flush=True
        )
    layer = outcomes.compare(found["plain"], found["layer"])
    memory = outcomes.compare(found["plain"], found["memory"])
    refused = [test for test in memory.lost if any(group.refused and group.covers(test) for group in known)]
    counted = outcomes.compare({k: v for k, v in found["plain"].items() if k not in refused}, found["memory"])
    print(f"{suite.name}: in memory {memory.kept} of {memory.passing} that pass on files, {100 * memory.share:.2f} %")
    if refused:
        print(f"{suite.name}: without {len(refused)} of what is refused on purpose, {100 * counted.share:.2f} %")
    wrong = [
        f"{test}: {found['plain'].get(test, 'not run')} plain, {found['layer'].get(test, 'not run')} under the layer"
        for test in layer.changed
    ]
    wrong += [
        f"{test}: passes on files, {found['memory'].get(test, 'not run')} in memory, and is no known exception"
        for test in outcomes.unexplained(memory.lost, known)
    ]
    wrong += [
        f"{test}: passes in memory; take it out of {EXCEPTIONS.name}"
        for test in outcomes.outdated(found["memory"], known)
    ]
    wrong += [f"{path}: was made on disk, not in memory" for path in ran["memory"].on_disk]
    if counted.share < suite.share:
        wrong.append(
            f"in memory {100 * counted.share:.2f} % pass of what passes on files, less than {100 * suite.share:g} %"
        )
    if ran["memory"].steps == 0:
        wrong.append(f"no file was held in memory; see {ran['memory'].log}")
    return [f"{suite.name}: {line}" for line in wrong]


def main(arguments: list[str]) -> int:
    """Run the suites that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description="Library test suites under the layer.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; left out: all")
    parser.add_argument("--short", action="store_true", help="only a part of each, of well under a minute a way")
    parser.add_argument("--folder", type=Path, help="where outcomes and logs go, and stay; left out: a new one in /tmp")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.suites if name not in SUITES]:
        parser.error(f"there is no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="wilkins-suites-"))).resolve()
    known = outcomes.exceptions(EXCEPTIONS)
    wrong: list[str] = []
    for name in options.suites or list(SUITES):
        suite = SUITES[name]
        fetched = folder / "fetched" / name
        if not fetched.is_dir():
            fetched.mkdir(parents=True)
            suite.fetch(fetched)
        began = time.monotonic()
        ran = {way: run(suite, way, folder / name / way, fetched, options.short) for way in WAYS}
        wrong += judge(suite, ran, known.get(name, ()))
        print(f"{name}: {time.monotonic() - began:.0f} s; outcomes and logs are in {folder / name}", flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
