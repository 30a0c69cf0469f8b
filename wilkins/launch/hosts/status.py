"""The messages of a keeper to the head about its host: the status while the host works, and the result at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wilkins.launch.hosts.control import Message
from wilkins.launch.hosts.partreport import PartReport
from wilkins.launch.records.summary import TaskEnd
from wilkins.transport.relay_messages import Compressed
from wilkins.transport.report_table import Report, TaskFacts
from wilkins.values import dataclass, field


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The status of a host."""

    still: float = 0.0
    """Seconds without progress."""
    report: Report | None = None
    """The report of the board then."""
    over: tuple[int, ...] = ()
    """Relays that have delivered all steps."""
    comes: bool = False
    """A program that has failed is to be started again."""

    @property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """The tasks in the report."""
        return self.report.tasks if self.report else ()


@dataclass(frozen=True, slots=True)
class HostResult:
    """The result of a host."""

    code: int
    report: PartReport | None
    datasets: tuple[str, ...] = ()
    """Messages about datasets that no step has."""
    ends: tuple[TaskEnd, ...] = ()
    """Of its tasks."""
    failures: Mapping[int, int] = field(default_factory=dict)
    """By task of the whole plan: how often it has failed."""
    messages: Mapping[int, int] = field(default_factory=dict)
    """By relay: how many messages it has exchanged."""
    compressed: Mapping[int, Compressed] = field(default_factory=dict)
    """By relay: what compression has done for its steps."""
    unfit: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By relay of the senders: rules of compression that have fitted nothing."""
    fabrics: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """By relay: by what bytes have crossed, and why."""


@dataclass(frozen=True, slots=True)
class Echo:
    """An answer to a heartbeat of the head's, in nanoseconds: the head's clock when that was sent, and this host's when
    it was received and answered."""

    said: int
    heard: int
    answered: int


@dataclass(frozen=True, slots=True)
class Status(Message):
    """A heartbeat of a keeper's."""

    state: HostStatus = HostStatus()
    steps: Sequence[int] = ()
    """By task of the part: the number of its steps."""
    report: PartReport | None = None
    """Of its board, if the head has asked for it."""
    echo: Echo | None = None


@dataclass(frozen=True, slots=True)
class PartEnded(Message):
    """The last message of a keeper whose part has begun."""

    result: HostResult
    echo: Echo | None = None
