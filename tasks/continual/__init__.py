"""Continual learning on streams: the rehearsal buffer, one part per rank, together one population to draw from."""

from wilkins.tasks.continual.arrays import concatenate
from wilkins.tasks.continual.buffer import RehearsalBuffer
from wilkins.tasks.continual.buffer_options import RehearsalOptions
from wilkins.tasks.continual.errors import BadSample, CheckpointError, RankFailed, RehearsalError
from wilkins.tasks.continual.statistics import Statistics

__all__ = [
    "BadSample",
    "CheckpointError",
    "RankFailed",
    "RehearsalBuffer",
    "RehearsalError",
    "RehearsalOptions",
    "Statistics",
    "concatenate",
]
