"""Checkpoints that the program does not feel: tensors and arrays, captured lazily, written behind its back."""

from wilkins.tasks.checkpoint.capture import Saved
from wilkins.tasks.checkpoint.engine import Checkpointer
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, Unsupported
from wilkins.tasks.checkpoint.restore import Restored
from wilkins.tasks.checkpoint.schedule import When
from wilkins.tasks.checkpoint.sources import Shard

__all__ = ["CheckpointError", "Checkpointer", "Damaged", "Restored", "Saved", "Shard", "Unsupported", "When"]
