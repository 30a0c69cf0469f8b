"""Data-parallel training that goes on without the ranks that die: `Elastic`, for a training loop of one's own.

`python -m wilkins.tasks.elastic -n 4 train.py` starts the ranks of such a program.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.tasks.elastic.errors import ElasticError
    from wilkins.tasks.elastic.training import Elastic, Step

__all__ = ["Elastic", "ElasticError", "Step"]

_PLACES = {"Elastic": "training", "ElasticError": "errors", "Step": "training"}


def __getattr__(name: str) -> Any:
    """Looked up when they are asked for: the parent of the ranks needs no torch."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
