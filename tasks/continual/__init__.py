"""Continual learning on streams: the rehearsal buffer, one part per rank, together one population to draw from; and
training on top of it, which needs torch. Modules are imported when the first of their names is used: the front, which
only reads the options of the task, loads neither torch nor NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.tasks.continual.errors import (
        BadBatch,
        BadSample,
        CheckpointError,
        LearningError,
        RankFailed,
        RehearsalError,
    )
    from wilkins.tasks.continual.learner.by_name import make_strategy
    from wilkins.tasks.continual.learner.gdumb import GDumb
    from wilkins.tasks.continual.learner.positions import Evaluation, Position, Step
    from wilkins.tasks.continual.learner.regularisers import EWC, LwF
    from wilkins.tasks.continual.learner.strategies import DarkReplay, FromScratch, Incremental, Rehearsal
    from wilkins.tasks.continual.learner.strategy import Regulariser, Strategy
    from wilkins.tasks.continual.learner.terms import Term
    from wilkins.tasks.continual.learner.training_loop import Learner
    from wilkins.tasks.continual.learner.world import process_group
    from wilkins.tasks.continual.rehearsal.arrays import concatenate
    from wilkins.tasks.continual.rehearsal.buffer import RehearsalBuffer
    from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
    from wilkins.tasks.continual.rehearsal.statistics import Statistics

_PLACES = {
    **dict.fromkeys(
        ("BadBatch", "BadSample", "CheckpointError", "LearningError", "RankFailed", "RehearsalError"), "errors"
    ),
    "RehearsalBuffer": "rehearsal.buffer",
    "RehearsalOptions": "rehearsal.buffer_options",
    "Statistics": "rehearsal.statistics",
    "concatenate": "rehearsal.arrays",
}
_WITH_TORCH = {
    **dict.fromkeys(("Evaluation", "Position", "Step"), "learner.positions"),
    **dict.fromkeys(("DarkReplay", "FromScratch", "Incremental", "Rehearsal"), "learner.strategies"),
    "GDumb": "learner.gdumb",
    "Learner": "learner.training_loop",
    **dict.fromkeys(("EWC", "LwF"), "learner.regularisers"),
    **dict.fromkeys(("Regulariser", "Strategy"), "learner.strategy"),
    "Term": "learner.terms",
    "make_strategy": "learner.by_name",
    "process_group": "learner.world",
}

__all__ = [
    "EWC",
    "BadBatch",
    "BadSample",
    "CheckpointError",
    "DarkReplay",
    "Evaluation",
    "FromScratch",
    "GDumb",
    "Incremental",
    "Learner",
    "LearningError",
    "LwF",
    "Position",
    "RankFailed",
    "Regulariser",
    "Rehearsal",
    "RehearsalBuffer",
    "RehearsalError",
    "RehearsalOptions",
    "Statistics",
    "Step",
    "Strategy",
    "Term",
    "concatenate",
    "make_strategy",
    "process_group",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(f"{name} needs PyTorch: pip install 'wilkins[torch]' ({error})") from error
    return getattr(importlib.import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
