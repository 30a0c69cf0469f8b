"""Runs habits, and says of each run whether it was the same as on files: ``cd tests && python -m habits NAME...``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from conftest import missing
from habits import known, rig
from habits.every import HABITS


@dataclass
class Outcomes:
    """How a habit came out."""

    name: str
    lines: list[str] = field(default_factory=list)
    by_mode: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, way: str, outcome: str) -> None:
        """Note the outcome of a run."""
        self.lines.append(f"{self.name}, {way}: {outcome}")


def outcomes(name: str, folder: Path, asked: argparse.Namespace) -> Outcomes:
    """Run a habit in all the ways that are asked for."""
    habit, found = HABITS[name], Outcomes(name)
    if absent := [thing for thing in habit.needs if missing(thing)]:
        found.lines.append(f"{name} is left out: it needs {', '.join(absent)}: same")
        return found
    try:
        bench = rig.Bench.of(habit, folder / name)
        alone = bench.after()
    except AssertionError as error:
        found.add("alone", str(error))
        return found
    if asked.talks:
        found.lines.append(f"{name} reads, alone: {', '.join(alone.lines)}: same")
    for mode in asked.modes.split(","):
        if mode == "beside":
            if habit.beside:
                found.add(mode, rig.judge(habit, alone, bench.beside(), mode))
            continue
        for pace in asked.paces.split(","):
            for turn in range(asked.times):
                ran = bench.workflow(mode, pace, asked.seed + turn)
                outcome = rig.judge(habit, alone, ran, mode)
                found.by_mode.setdefault((name, mode), []).append(outcome)
                found.add(f"{mode}, {pace}", outcome)
                if asked.talks:
                    found.lines.append(f"{ran.told}\n{name} ended so: same")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m habits")
    parser.add_argument("names", nargs="*", default=["*"], help="parts of the names of habits, which may hold *")
    parser.add_argument("-m", "--modes", default="memory", help="of beside,memory,both,file")
    parser.add_argument("-p", "--paces", default="free", help=f"of {','.join(rig.PACES)}")
    parser.add_argument("-s", "--seed", type=int, default=1, help="of random delays")
    parser.add_argument("-n", "--times", type=int, default=1, help="how often each")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="how many side by side")
    parser.add_argument("-k", "--keep", type=Path, help="a folder for all that the runs leave")
    parser.add_argument("-v", "--talks", action="store_true", help="show what the programs said")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing of what is the same")
    parser.add_argument("-u", "--update", action="store_true", help=f"write the outcomes to {known.FILE.name}")
    parser.add_argument("-l", "--list", action="store_true", help="only name the habits")
    asked = parser.parse_args()
    names = [name for name in HABITS if any(fnmatch(name, f"*{word}*") for word in asked.names)]
    if asked.list:
        print("\n".join(names))
        return 0
    wrong = 0
    by_mode: dict[tuple[str, str], list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="wilkins-habits-") as made, ThreadPoolExecutor(asked.jobs) as pool:
        folder = asked.keep or Path(made)
        for found in pool.map(lambda name: outcomes(name, folder, asked), names):
            by_mode |= found.by_mode
            for line in found.lines:
                right = line.endswith((": same", ": refused"))
                wrong += not right
                if not (right and asked.quiet):
                    print(line, flush=True)
    if asked.update:
        known.update(by_mode)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
