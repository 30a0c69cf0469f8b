"""Programs of one host that poll for files that do not come, in a run over several hosts."""

from __future__ import annotations

import time
from collections.abc import Collection

from wilkins.launch.watch.polling import Polls
from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart
from wilkins.transport.report_table import Report
from wilkins.values import replace


class HostPolls:
    """Reports such programs, and finds those that are to be ended, from the report of the host's board.

    Attributes:
        only_active: tasks of the whole plan for which the head has reported that all others wait or have ended.
    """

    def __init__(self, plan: Plan, part: HostPart, shared: Collection[int]) -> None:
        """`shared`: tasks of this host with ranks on other hosts, too, which are not ended here."""
        self._part = part
        relays = (*part.senders, *part.receivers)
        self._producers = {place: plan.tasks[plan.ports[one.outport].task].name for place, one in relays}
        spared = {*shared, *dict(relays)}
        self.only_active: set[int] = set()
        self.polls = Polls(part.plan, others_wait=self._others_wait, spared=spared)

    def messages(self, report: Report) -> list[str]:
        """Messages about them. A relay has the name of the producer on the other host."""
        names = (self._producers.get(place, task.name) for place, task in enumerate(report.tasks))
        tasks = [replace(task, name=name) for task, name in zip(report.tasks, names, strict=True)]
        return self.polls.messages(replace(report, tasks=tuple(tasks)), time.monotonic())

    def _others_wait(self, _report: Report, place: int) -> bool:
        return self._part.tasks[place] in self.only_active
