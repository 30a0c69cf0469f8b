"""Strategies and regularisers by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wilkins.tasks.continual.learner.gdumb import GDumb
from wilkins.tasks.continual.learner.regularisers import EWC, LwF
from wilkins.tasks.continual.learner.strategies import DarkReplay, FromScratch, Incremental, Rehearsal
from wilkins.tasks.continual.learner.strategy import Regulariser, Strategy
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions

if TYPE_CHECKING:
    from mpi4py import MPI

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "incremental": Incremental,
    "from-scratch": FromScratch,
    "rehearsal": Rehearsal,
    "der": DarkReplay,
    "der++": partial(DarkReplay, beta=0.5),
    "gdumb": GDumb,
}
REGULARISERS: dict[str, Callable[..., Regulariser]] = {"ewc": EWC, "lwf": LwF}


def make_strategy(
    strategy: str | Callable[..., Strategy],
    options: RehearsalOptions | None = None,
    comm: MPI.Intracomm | None = None,
    *,
    port: str = "",
    **arguments: Any,
) -> Strategy:
    """The strategy of this name, one of `STRATEGIES`, or one of your own: a class that derives from `Strategy`.

    `options` are those of its buffer, if it has one; `arguments` its own: `alpha` and `beta` weigh the terms of `der`
    (alpha only) and `der++`.

    Raises:
        ValueError: there is no such strategy, or `options` are missing.
    """
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            raise ValueError(f"there is no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
        strategy = STRATEGIES[strategy]
    return strategy(options, comm, port=port, **arguments)
