"""Runs the workflow for some seeds and compares the strategies: `compare.py [SEEDS]`; writes accuracy.json.

Exits with 1 if rehearsal is not within three points of training from scratch, or not thirty above incremental training.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from wilkins.tasks.continual.metrics import metrics, write_json

STRATEGIES = ("from-scratch", "incremental", "rehearsal", "der", "der++")
seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5

runs = {name: [] for name in STRATEGIES}
for seed in range(seeds):
    command = [sys.executable, "-m", "wilkins", "run", "workflow.yaml", "--set", f"seed={seed}"]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"the run of seed {seed} failed, as said above; needed are: pip install 'wilkins[mpi,torch,examples]'")
    for name in STRATEGIES:
        found = json.loads(Path(f"results/{seed}/{name}/training.json").read_text())
        runs[name].append(1 - np.array(found["held_out"]["errors"], float))
    print(f"seed {seed}:", *(f"{name} {metrics(runs[name][-1]).final_accuracy:.1%}" for name in STRATEGIES), flush=True)
write_json("accuracy.json", runs)

print(f"{'strategy':<14}{'at the end':>12}{'on average':>12}{'forgetting':>12}   mean over {seeds} seeds")
final = {}
for name in STRATEGIES:
    found = [metrics(one) for one in runs[name]]
    final[name] = np.mean([one.final_accuracy for one in found])
    spread = np.std([one.final_accuracy for one in found])
    average, forgetting = (np.mean([getattr(one, key) for one in found]) for key in ("average_accuracy", "forgetting"))
    print(f"{name:<14}{final[name]:>8.1%} +-{spread:>4.1%}{average:>10.1%}{forgetting:>12.1%}")

close = final["from-scratch"] >= final["rehearsal"] >= final["from-scratch"] - 0.03
above = final["rehearsal"] - final["incremental"] >= 0.30
print(f"rehearsal within 3 points of from scratch: {'yes' if close else 'NO'}")
print(f"rehearsal 30 points above incremental: {'yes' if above else 'NO'}")
sys.exit(not (close and above))
