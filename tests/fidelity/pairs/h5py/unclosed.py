"""The case whose file is complete when its program ends; so it comes after all others."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from fidelity.cases import case

KEPT: list[Any] = []  # what stays open until the process ends


@case("closing")
def left_open(name: str) -> None:
    KEPT.append(h5py.File(name, "w"))
    KEPT.append(KEPT[-1].create_dataset("x", data=np.arange(100000)))
    KEPT[-1].attrs["a"] = 1
