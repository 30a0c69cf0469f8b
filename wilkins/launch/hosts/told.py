"""What a keeper tells the head of its host's part: while that goes on, and at its end."""

from __future__ import annotations

from collections.abc import Mapping

from wilkins.launch.records.summary import TaskEnd
from wilkins.transport.report_table import Report, TaskFacts
from wilkins.values import dataclass, field


@dataclass(frozen=True, slots=True)
class State:
    """Whether anything moves on a host."""

    still: float = 0.0
    """Seconds for which nothing has."""
    report: Report | None = None
    """What the board says then."""
    over: tuple[int, ...] = ()
    """Relays that have brought all."""
    comes: bool = False
    """A program that has failed is to be started again."""

    @property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """What is known of the tasks."""
        return self.report.tasks if self.report else ()


@dataclass(frozen=True, slots=True)
class Account:
    """What became of a host's part."""

    code: int
    report: Report | None
    datasets: tuple[str, ...] = ()
    """What to say of datasets that no step had."""
    ends: tuple[TaskEnd, ...] = ()
    """Of its tasks."""
    failures: Mapping[int, int] = field(default_factory=dict)
    """By task of the whole plan: how often it has failed."""
    messages: Mapping[int, int] = field(default_factory=dict)
    """By relay: how many it has sent or got."""
