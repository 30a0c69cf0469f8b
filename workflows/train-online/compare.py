"""Compares predictions with the known function, step by step: online.csv."""

import os
from pathlib import Path

import numpy as np
from known import height

import wilkins.transport
from wilkins.transport import points

PORT = "predicted-*.h5"
table = Path("online.csv")
lines = ["step,version,good,told,error"]

# A resumed run goes on behind the rows that its restart point names. They get a file of their own before the old one
# goes: whenever this is killed, they are there.
if point := points.chosen():
    lines = table.read_text().splitlines()[: 1 + int(point.label)]
fresh = Path("online.csv.new")
fresh.write_text("\n".join([*lines, ""]))
fresh.replace(table)

with table.open("a") as file:
    for step in wilkins.transport.open(PORT):
        with step:
            version, claimed = int(step.attrs["model_version"]), float(step.attrs["model_error"])
            error = np.nan
            if version >= 0:
                right = height(step["place"])
                error = float(np.linalg.norm(step["height"] - right) / np.linalg.norm(right))
            lines.append(f"{step.attrs['step']},{version},{step.attrs['good']},{claimed},{error}")
        print(lines[-1], file=file, flush=True)
        os.fsync(file.fileno())
        points.tell(str(len(lines) - 1), consumed={PORT: step.sequence + 1})

rows = [line.split(",") for line in lines[1:]]
errors = [float(error) for _, _, good, _, error in rows if good == "1"]
print(f"{len(errors)} good steps of {len(rows)}" + (f", with an error of {np.mean(errors):.3g}" if errors else ""))
