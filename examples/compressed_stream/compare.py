"""Runs the workflow with several bounds and seeds, prints what crossed and what was learned: `compare.py [SEEDS]`.

Both hosts are this machine (`here` stands for ssh), so bytes are those of a real network, and times are not. Writes
bounds.json, and lets plot.py draw it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

BOUNDS = {"not compressed": "[]", "0": "[{dset: 'train/*'}]"} | {
    bound: f"[{{dset: 'train/*', relative: {bound}}}]" for bound in ("1e-4", "1e-3", "1e-2", "1e-1")
}
"""What `compress` holds, by the bound: a part of the range of the dataset."""
STREAMS = {"digits": "pictures told wrong", "waves": "error of changes"}
HERE = Path(__file__).resolve().parent


def result(seed: int, rules: str) -> dict[str, tuple[float, float]]:
    """For each stream: times smaller, and the error of its network."""
    settings = [f"seed={seed}", *(f"{name}.outports.0.compress={rules}" for name in STREAMS)]
    command = [sys.executable, "-m", "wilkins", "run", "--quiet", "--hosts", "simulations:2,networks:2"]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = os.environ | {"WILKINS_RSH": str(HERE / "here")}
    done = subprocess.run(
        [*command, "workflow.yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    if done.returncode:
        sys.stderr.buffer.write(done.stdout)
        sys.exit(f"the run of seed {seed} failed, as said above; needed are: pip install 'wilkins[torch,examples]'")
    run = Path("wilkins-runs/latest")
    crossed = {one["producer"]: one for one in json.loads((run / "summary.json").read_text())["crossings"]}
    found = {}
    for name in STREAMS:
        one = crossed[name]
        smaller = one["compressed"] / one["compressed_to"] if one["compressed"] else 1.0
        found[name] = smaller, float((run / f"learn-{name}.log").read_text().split()[-1])
    return found


def row(runs: list[tuple[float, float]], plain: list[tuple[float, float]]) -> str:
    """Times smaller, the error with its least and greatest one, and by how much it is that without compression."""
    (smaller, errors), before = np.array(runs).T, np.array(plain).T[1]
    spread = f"{errors.mean():.1%} ({errors.min():.1%} to {errors.max():.1%})"
    return f"{smaller.mean():>8.1f}{spread:>24}{(errors / before).mean():>8.2f}"


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    results: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in STREAMS}
    print(f"{'':<16}" + "".join(f"{name + ': ' + what:^40}" for name, what in STREAMS.items()))
    print(f"{'bound':<16}" + f"{'smaller':>8}{'error':>24}{'ratio':>8}" * len(STREAMS))
    for bound, rules in BOUNDS.items():
        for seed in range(seeds):
            for name, one in result(seed, rules).items():
                results[name].setdefault(bound, []).append(one)
        rows = (row(results[name][bound], results[name]["not compressed"]) for name in STREAMS)
        print(f"{bound:<16}" + "".join(rows), flush=True)
    Path("bounds.json").write_text(json.dumps(results))
    sys.exit(subprocess.run([sys.executable, HERE / "plot.py"]).returncode)
