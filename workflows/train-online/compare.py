"""Compares predictions with the known function, step by step: online.csv."""

import os
from pathlib import Path

import h5py
import numpy as np
from known import height

import wilkins.transport
from wilkins.transport import points

HEAD = "step,version,good,told,error"
PORT = "predicted-*.h5"

# A resumed run goes on with a step; the rows of those before it are there.
point = points.chosen()
rows = Path("online.csv").read_text().splitlines()[1 : int(point.label) + 1] if point else []
with Path("online.csv").open("w") as table:
    print(HEAD, *rows, sep="\n", file=table)
    for step in wilkins.transport.open(PORT):
        with step:
            version, told = int(step.attrs["model_version"]), float(step.attrs["model_error"])
            error = np.nan
            if version >= 0:
                right = height(step["place"])
                error = float(np.linalg.norm(step["height"] - right) / np.linalg.norm(right))
            rows.append(f"{step.attrs['step']},{version},{step.attrs['good']},{told},{error}")
        print(rows[-1], file=table, flush=True)
        os.fsync(table.fileno())
        points.tell(str(len(rows)), consumed={PORT: step.sequence + 1})

good = [float(row.split(",")[4]) for row in rows if row.split(",")[2] == "1"]
print(f"{len(good)} good steps of {len(rows)}" + (f", with an error of {np.mean(good):.3g}" if good else ""))
