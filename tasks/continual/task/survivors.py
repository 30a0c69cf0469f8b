"""The ranks of a training that goes on without those that die, to all that does not train."""

from __future__ import annotations

from wilkins.tasks.elastic.training import Elastic
from wilkins.tasks.group import Group


class Survivors(Group):
    """Each rank by itself: all read and measure the same. The first of those that live is rank 0, which prints and
    writes; another one takes its place when it dies."""

    def __init__(self, elastic: Elastic) -> None:
        self._elastic = elastic

    @property
    def rank(self) -> int:  # type: ignore[override]
        """0 on the first of those that live."""
        return 0 if self._elastic.is_first else max(1, self._elastic.rank)
