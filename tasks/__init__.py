"""Ready-made tasks on channels: training, inference, checkpointing, analysis; and a dataset of a stream for PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["StepDataset"]


def __getattr__(name: str) -> Any:
    """The dataset, looked up when it is asked for: nothing else here needs torch at once."""
    if name not in __all__:
        raise AttributeError(f"module 'wilkins.tasks' has no attribute {name!r}")
    return getattr(import_module("wilkins.tasks.dataset"), name)
