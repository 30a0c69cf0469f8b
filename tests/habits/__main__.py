"""Runs habits, and says of each run whether it was the same as on files: ``cd tests && python -m habits NAME...``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from habits import rig
from habits.every import HABITS


def outcomes(name: str, folder: Path, modes: list[str], paces: list[str], seed: int, talks: bool) -> list[str]:
    """Run a habit in all these ways: a line for each."""
    habit = HABITS[name]
    found = []
    try:
        bench = rig.Bench.of(habit, folder / name)
        alone = bench.after()
    except AssertionError as error:
        return [f"BROKEN {name}: {error}"]
    if talks:
        found.append(f"{name} alone: " + ", ".join(alone.lines))
    if "beside" in modes and habit.beside:
        found.append(f"{name}, beside: {rig.judge(habit, alone, bench.beside(), 'beside')}")
    for mode in modes:
        for pace in paces if mode != "beside" else []:
            ran = bench.workflow(mode, pace, seed)
            found.append(f"{name}, {mode}, {pace}: {rig.judge(habit, alone, ran, mode)}")
            if talks:
                found.append(ran.told)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m habits")
    parser.add_argument("names", nargs="*", default=["*"], help="habits, as listed by --list")
    parser.add_argument("-m", "--modes", default="memory", help="of beside,memory,both,file")
    parser.add_argument("-p", "--paces", default="free", help=f"of {','.join(rig.PACES)}")
    parser.add_argument("-s", "--seed", type=int, default=1, help="of random delays")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("-k", "--keep", type=Path, help="a folder for all that the runs leave")
    parser.add_argument("-v", "--talks", action="store_true", help="show what the programs said")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing of what is the same")
    parser.add_argument("-l", "--list", action="store_true")
    asked = parser.parse_args()
    names = [name for name in HABITS if any(fnmatch(name, f"*{word}*") for word in asked.names)]
    if asked.list:
        print("\n".join(names))
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="wilkins-habits-") as made, ThreadPoolExecutor(asked.jobs) as pool:
        folder = asked.keep or Path(made)

        def all_of(name: str) -> list[str]:
            return outcomes(name, folder, asked.modes.split(","), asked.paces.split(","), asked.seed, asked.talks)

        results: Iterator[list[str]] = pool.map(all_of, names)
        for lines in results:
            for line in lines:
                same = line.endswith(": same")
                wrong += not same
                if not (same and asked.quiet):
                    print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
