"""A store of models that know their family: layers by what they compute, tensors by content, parents, scores, tags."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.tasks.models.errors import DamagedModel, ModelError, NoSuchModel
    from wilkins.tasks.models.graph import Graph, Layer
    from wilkins.tasks.models.store import ModelStore
    from wilkins.tasks.models.tracing import graph_of

__all__ = ["DamagedModel", "Graph", "Layer", "ModelError", "ModelStore", "NoSuchModel", "graph_of"]

_PLACES = {
    "DamagedModel": "errors",
    "Graph": "graph",
    "Layer": "graph",
    "ModelError": "errors",
    "ModelStore": "store",
    "NoSuchModel": "errors",
    "graph_of": "tracing",
}


def __getattr__(name: str) -> Any:
    """Looked up when they are asked for: only what traces models needs torch."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
