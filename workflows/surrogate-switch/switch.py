"""Answers questions: by `solve.py`, or by what a network has learned from that, where it is good.

For each step it reads question-*.h5 and what the network says, guess-*.h5, which is good if its attribute says so. Even
then it solves a few of the step's questions, and if the network is wrong about these, all. A step that was solved goes
to the trainer, pair-*.h5. In the end everything is in answers.h5 and switch.csv. Arguments: questions of each step that
are solved in any case; the greatest error, over the answers' norm, with which the network is not wrong; and to go on, a
file of what is answered, so-far.h5, which is written after every tenth step.
"""

import sys
import time
from pathlib import Path

import h5py
import numpy as np
from solve import solve

verify, threshold = int(sys.argv[1]), float(sys.argv[2])
asked: list[np.ndarray] = []
answered: list[np.ndarray] = []
solved: list[np.ndarray] = []
measured: list[np.ndarray] = []  # of each step the network's error as it was known, its error here, and seconds
if len(sys.argv) > 3:
    with h5py.File(sys.argv[3], "r") as file:
        asked, answered, solved, measured = (list(file[name][:]) for name in ("x", "y", "solved", "measured"))


def solve_all(questions: np.ndarray) -> np.ndarray:
    """The answers to questions (k, ...), one after the other."""
    return np.array([solve(question) for question in questions], "f4")


while True:
    step = len(asked)
    try:
        with h5py.File(f"question-{step:05}.h5", "r") as file:
            x = file["x"][:]
        with h5py.File(f"guess-{step:05}.h5", "r") as file:
            good, model_error = bool(file.attrs["good"]), float(file.attrs["model_error"])
            guess = file["y"][:] if "y" in file else None
    except FileNotFoundError:
        break
    begun = time.perf_counter()
    count = min(verify, len(x)) if good else len(x)
    y = solve_all(x[:count])
    error = np.nan if guess is None else float(np.linalg.norm(guess[:count] - y) / np.linalg.norm(y))
    if guess is not None and good and error <= threshold:
        y = np.concatenate([y, guess[count:]])
    else:
        y = np.concatenate([y, solve_all(x[count:])]) if count < len(x) else y
        count = len(x)
        with h5py.File(f"pair-{step:05}.h5", "w") as file:
            file["x"], file["y"] = x, y
    asked.append(x)
    answered.append(y)
    solved.append(np.arange(len(x)) < count)
    measured.append(np.array([model_error, error, time.perf_counter() - begun]))
    if step % 10 == 9:
        with h5py.File("so-far.h5", "w") as file:
            file["x"], file["y"], file["solved"], file["measured"] = asked, answered, solved, measured

if not asked:
    raise SystemExit("nothing was asked")
with Path("switch.csv").open("w") as table:
    print("step,solved,model_error,error,seconds", file=table)
    for step, (known, (model_error, error, seconds)) in enumerate(zip(solved, measured, strict=True)):
        print(f"{step},{known.sum()},{model_error:.4g},{error:.4g},{seconds:.4g}", file=table)
errors = [error for known, (_, error, _) in zip(solved, measured, strict=True) if not known.all()]
known = np.concatenate(solved)
with h5py.File("answers.h5", "w") as file:
    file["x"], file["y"], file["solved"] = np.concatenate(asked), np.concatenate(answered), known
print(f"{len(known)} questions, {known.sum()} solved: {1 - known.mean():.0%} of the solves saved", end="")
print(f"; where the network answered, it was wrong by {np.mean(errors):.1%}, as far as verified" if errors else "")
