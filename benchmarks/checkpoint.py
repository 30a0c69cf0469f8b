"""What a checkpoint in every iteration costs training: this package's engine, torch.save, torch.distributed.checkpoint.

Each way trains in a process of its own: without saving, with, and without again. `--ranks` measures several ranks
that write into few files instead, `--partners` parity in the memory of partner nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks import aggregation, partners

PROGRAM = Path(__file__).parent / "programs" / "checkpointed.py"
ENGINE, PLAIN = "wilkins", "torch.save"
WAYS = (ENGINE, PLAIN, "dcp.save", "dcp.async_save", "dcp.async_save, async stager")
ON_A_GPU = (ENGINE, "wilkins, trusted", *WAYS[1:])
"""There changes cannot be found, so that all is copied, or queued to be, before `save` returns: or it is promised."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of every checkpoint, in seconds; means per process where one checkpoint has no value of its own."""

    blocked: list[float]
    """In the calls that save, and waiting before the update until the state is captured."""
    slower: list[float]
    """What forward and backward took longer than the median without saving."""
    durable: list[float]
    """From the call until it was on storage."""
    cpu: list[float]
    """CPU seconds more than without saving."""
    wall: list[float]
    """Time of an iteration more than without saving."""
    step: list[float]
    """Time of an iteration without saving."""
    state: list[float]
    """Making the dicts of the state, before it is saved: not a part of `blocked`."""

    def both(self) -> float:
        """Blocked and slower: the medians' sum."""
        return median(self.blocked) + median(self.slower)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, and whether it is met."""

    goal: str
    value: float
    most: float
    """What it may be."""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value <= self.most

    def __str__(self) -> str:
        word = "met   " if self.met else "MISSED"
        return f"{word} {self.goal}: {self.value * 1e3:.1f} ms, at most {self.most * 1e3:.1f} ms"


def measure(
    way: str, *, mib: int = 512, tensors: int = 128, batch: int = 256, steps: int = 5, threads: int = 1,
    device: str = "cpu", folder: Path | None = None,
) -> Cost:  # fmt: skip
    """Train in a process of its own and say what saving cost.

    Raises:
        RuntimeError: the run failed.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = Path(scratch) / "result.json"
        words = [way, mib, tensors, batch, steps, threads, device, Path(scratch) / "checkpoints", result]
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        if done.returncode:
            raise RuntimeError(f"the run failed:\n{done.stdout}{done.stderr}")
        results = json.loads(result.read_text())
    plain = median(results["plain"])
    return Cost(
        results["blocked"],
        [one - plain for one in results["computed"]],
        results["durable"],
        [results["cpu"]],
        [results["wall"]],
        [results["step"]],
        results["state"],
    )


def together(costs: Sequence[Cost]) -> Cost:
    """Several rounds of one way."""
    return Cost(*([one for cost in costs for one in getattr(cost, name)] for name in Cost.__slots__))


def verdicts(costs: Mapping[str, Cost]) -> list[Verdict]:
    """The goals that the ways measured allow to judge."""
    if ENGINE not in costs or PLAIN not in costs:
        return []
    ours, saved = costs[ENGINE], median(costs[PLAIN].blocked)
    blocked = median(ours.blocked)
    others = {way: median(cost.blocked) for way, cost in costs.items() if not way.startswith((ENGINE, PLAIN))}
    found = [Verdict("blocked below 1/50 of torch.save", blocked, saved / 50)]
    if others:
        best = min(others, key=others.__getitem__)
        found.append(Verdict(f"blocked below 1/5 of the best of the others ({best})", blocked, others[best] / 5))
    return [
        *found,
        Verdict("blocked and slower at most 1/5 of torch.save", ours.both(), saved / 5),
        Verdict("durable at most 1.3 x torch.save", median(ours.durable), 1.3 * median(costs[PLAIN].durable)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, and what became of the goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="parameters; with Adam the state is three times that")
    parser.add_argument("--tensors", type=int, default=128)
    parser.add_argument("--batch", type=int, default=256, help="rows: what forward and backward take")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="that torch computes on")
    parser.add_argument("--folder", type=Path, help="where checkpoints go (default: the folder of temporary files)")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, or a GPU such as cuda:0")
    parser.add_argument("--ways", nargs="+", default=None, choices=ON_A_GPU)
    parser.add_argument("--ranks", nargs="+", type=int, help="N-to-M for these numbers of ranks instead")
    parser.add_argument(
        "--partners", nargs="+", type=code, metavar="K+M", help="parity in the memory of partner nodes instead, as 3+1"
    )
    parser.add_argument("--out", type=Path, help="file for the medians, as JSON")
    parser.add_argument("--rank-mib", type=int, default=64, help="with --ranks or --partners: the state of a rank")
    options = parser.parse_args(arguments)
    if options.ranks:
        aggregation.report(options.ranks, mib=options.rank_mib, steps=options.steps, folder=options.folder)
        return
    if options.partners:
        partners.report(options.partners, mib=options.rank_mib, steps=options.steps, folder=options.folder)
        return
    ways = options.ways or (WAYS if options.device == "cpu" else ON_A_GPU)
    rounds: dict[str, list[Cost]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way in list(rounds):
            try:
                cost = measure(
                    way,
                    mib=options.mib,
                    tensors=options.tensors,
                    batch=options.batch,
                    steps=options.steps,
                    threads=options.threads,
                    device=options.device,
                    folder=options.folder,
                )
            except RuntimeError as error:
                if way.startswith(ENGINE):
                    raise
                print(f"{way} is left out: {str(error).strip().splitlines()[-1]}", file=sys.stderr, flush=True)
                del rounds[way]
                continue
            rounds[way].append(cost)
            print(f"{way}: blocked {median(cost.blocked):.4f}", file=sys.stderr, flush=True)
    costs = {way: together(every) for way, every in rounds.items()}
    every = list(costs.values())
    state, step = (median(one for cost in every for one in getattr(cost, name)) for name in ("state", "step"))
    print(
        f"{options.mib} MiB in {options.tensors} tensors with Adam: a state of {3 * options.mib} MiB, which takes "
        f"{state * 1e3:.1f} ms to put together\n"
        f"an iteration of {step:.2f} s on {options.threads} of {os.cpu_count()} cores; {options.rounds} x "
        f"{options.steps} checkpoints; load average {os.getloadavg()[0]:.1f}\n"
        "seconds per checkpoint: median (least to most)"
    )
    print(f"{'':<29}{'blocked':>27}{'slower':>27}{'both':>8}{'durable':>22}{'CPU':>7}{'iteration':>10}")
    for way, cost in costs.items():
        print(
            f"{way:<29}{spread(cost.blocked, 4):>27}{spread(cost.slower, 3):>27}{cost.both():>8.3f}"
            f"{spread(cost.durable, 2):>22}{mean(cost.cpu):>7.2f}{mean(cost.wall):>+10.3f}"
        )
    for verdict in verdicts(costs):
        print(verdict)
    if options.out:
        medians = {
            way: {name: median(getattr(cost, name)) for name in Cost.__slots__} | {"both": cost.both()}
            for way, cost in costs.items()
        }
        options.out.write_text(json.dumps(medians))


def code(text: str) -> tuple[int, int]:
    """Data and parity fragments, from words such as 3+1."""
    data, parity = map(int, text.split("+"))
    return data, parity


def spread(values: Sequence[float], digits: int) -> str:
    """Median, least and most."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
