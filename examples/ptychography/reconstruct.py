"""Reconstructs the object of every scan: solves for it (ePIE), or takes what a network predicts where that is good.

For frame k it reads scan-0000.h5, and prediction-0000.h5 if there is such a file: views of the object, one for each
pattern, and the attribute `good`, whether the network that made them is good enough. It writes object-0000.h5; and for
each frame that it has solved, pairs-0000.h5: the patterns and the views that belong to them, for a network to learn.

A frame is solved if there is no good prediction; if what is predicted does not explain the frame's own patterns; and
one in so many to verify.
"""

import argparse
import time

import h5py
import numpy as np

import comparing
import epie
import joining

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=60, help="of ePIE, for each frame that is solved")
parser.add_argument("--verify", type=int, default=8, help="solve one in so many frames though the prediction is good")
parser.add_argument("--trust", type=float, default=0.065, help="greatest residual of a prediction that is used")
given = parser.parse_args()


def predicted_views(frame: int) -> tuple[np.ndarray | None, dict[str, float]]:
    """What the network says of a frame, if there is one, and how good that is."""
    try:
        with h5py.File(f"prediction-{frame:04}.h5", "r") as file:
            attributes = {name: float(file.attrs[name]) for name in ("good", "model_version", "model_error")}
            return (file["prediction"][:] if "prediction" in file else None), attributes
    except FileNotFoundError:
        return None, {"good": 0.0, "model_version": -1.0, "model_error": np.nan}


frame, solved, unverified = 0, 0, 0
while True:
    try:
        with h5py.File(f"scan-{frame:04}.h5", "r") as file:
            patterns, positions, light = file["patterns"][:], file["positions"][:], file["probe"][:]
    except FileNotFoundError:
        break
    views, attributes = predicted_views(frame)
    result = {}
    if views is not None:
        begun = time.perf_counter()
        result["predicted"] = joining.join(views, patterns, positions, light)
        attributes["residual_predicted"] = comparing.residual(patterns, result["predicted"], light, positions)
        attributes["seconds_joining"] = time.perf_counter() - begun
    usable = attributes["good"] and attributes["residual_predicted"] <= given.trust
    if usable and unverified + 1 < given.verify:
        unverified += 1
    else:
        begun = time.perf_counter()
        result["solved"] = epie.solve(patterns, positions, light, given.iterations, seed=frame).field
        attributes["seconds_solving"] = time.perf_counter() - begun
        attributes["residual_solved"] = comparing.residual(patterns, result["solved"], light, positions)
        with h5py.File(f"pairs-{frame:04}.h5", "w") as file:
            file["patterns"] = patterns
            file["views"] = joining.views(result["solved"], positions, light)
        solved, unverified = solved + 1, 0
    with h5py.File(f"object-{frame:04}.h5", "w") as file:
        for name, field in result.items():
            file[name] = field.astype("c8")
        file["field"] = file["solved" if "solved" in result else "predicted"]  # what counts: a second name for it
        file["illumination"] = comparing.illumination(light, positions)
        file.attrs.update(attributes)
    frame += 1

print(f"{frame} frames, of which {solved} were solved and {frame - solved} predicted")
