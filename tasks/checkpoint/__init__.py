"""Checkpoints that the program does not feel: tensors and arrays, captured lazily, written behind its back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.tasks.checkpoint.engine.capture import Saved
    from wilkins.tasks.checkpoint.engine.checkpointer import Checkpointer
    from wilkins.tasks.checkpoint.engine.reader import restore
    from wilkins.tasks.checkpoint.engine.restore import Restored
    from wilkins.tasks.checkpoint.engine.schedule import When
    from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, Unsupported
    from wilkins.tasks.checkpoint.export import Exported, to_safetensors
    from wilkins.tasks.checkpoint.placement.places import Place, Storage
    from wilkins.tasks.checkpoint.state.sources import Shard
    from wilkins.tasks.checkpoint.storage.erasure import Partners

__all__ = [
    "CheckpointError",
    "Checkpointer",
    "Damaged",
    "Exported",
    "Partners",
    "Place",
    "Restored",
    "Saved",
    "Shard",
    "Storage",
    "Unsupported",
    "When",
    "restore",
    "to_safetensors",
]

_PLACES = {
    "CheckpointError": "errors",
    "Checkpointer": "engine.checkpointer",
    "Damaged": "errors",
    "Exported": "export",
    "Partners": "storage.erasure",
    "Place": "placement.places",
    "Restored": "engine.restore",
    "Saved": "engine.capture",
    "Shard": "state.sources",
    "Storage": "placement.places",
    "Unsupported": "errors",
    "When": "engine.schedule",
    "restore": "engine.reader",
    "to_safetensors": "export",
}


def __getattr__(name: str) -> Any:
    """Looked up when they are asked for: who reads a workflow file needs none of them, and no NumPy."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
