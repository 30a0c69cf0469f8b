"""Looks at this machine: how many GPUs it has, without CUDA."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.plan.gpus import Machine
from wilkins.spec.gpu_names import VISIBLE

COUNT = "WILKINS_GPUS"
"""The number of GPUs, for machines where the driver shows it otherwise, and to plan for another machine."""


def gpus_here(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Machine:
    """This machine's GPUs: the NVIDIA driver's device files; if it has made none yet, what it says in /proc.

    Args:
        root: the folder that holds `dev` and `proc`.

    Raises:
        UsageError: the variable `WILKINS_GPUS` is not a number.
    """
    said = environment.get(COUNT, "").strip()
    if said and not re.fullmatch(r"[0-9]{1,4}", said):
        raise UsageError(f"{COUNT} must be the number of this machine's GPUs, not {said!r}; mend or unset it")
    count = int(said) if said else _devices(root / "dev") or _entries(root / "proc/driver/nvidia/gpus")
    return Machine(count, environment.get(VISIBLE))


def _devices(folder: Path) -> int:
    return sum(re.fullmatch(r"nvidia[0-9]+", path.name) is not None for path in folder.glob("nvidia*"))


def _entries(folder: Path) -> int:
    return sum(1 for _ in folder.glob("*"))
