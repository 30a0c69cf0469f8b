"""Compares every object that was reconstructed with the true one; writes a table of errors and times, frames.csv.

For frame k it reads object-0000.h5 and truth-0000.h5. Errors are shares of the true object's contrast. Argument: the
table's name, if it is to be another.
"""

import csv
import sys
import time

import h5py
import numpy as np

import comparing

ATTRIBUTES = (
    "good",
    "model_version",
    "model_error",
    "residual_predicted",
    "residual_solved",
    "seconds_joining",
    "seconds_solving",
)

frame, begun = 0, time.monotonic()
with open(sys.argv[1] if len(sys.argv) > 1 else "frames.csv", "w", newline="") as table:
    writer = csv.writer(table)
    writer.writerow(["frame", "family", "seconds", "error", "error_solved", "error_predicted", *ATTRIBUTES])
    while True:
        try:
            with h5py.File(f"object-{frame:04}.h5", "r") as file:
                found = {name: file[name][:] for name in ("field", "solved", "predicted") if name in file}
                lit, attributes = file["illumination"][:] >= 0.1, dict(file.attrs)
        except FileNotFoundError:
            break
        with h5py.File(f"truth-{frame:04}.h5", "r") as file:
            true, family = file["field"][:], file.attrs["family"]
        errors = {name: comparing.error(field, true, lit) for name, field in found.items()}
        numbers = [
            time.monotonic() - begun,
            *(errors.get(name, np.nan) for name in ("field", "solved", "predicted")),
            *(attributes.get(name, np.nan) for name in ATTRIBUTES),
        ]
        writer.writerow([frame, family, *(f"{number:.6g}" for number in numbers)])
        frame += 1

if not frame:
    sys.exit("there is no object-0000.h5; compare.py is a task of the workflow: wilkins run workflow.yaml")
print(f"compared {frame} frames")
