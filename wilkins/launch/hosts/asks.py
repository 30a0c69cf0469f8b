"""Programs that ask again and again for what does not come, as on one machine, though others are elsewhere."""

from __future__ import annotations

import time
from collections.abc import Collection

from wilkins.launch.watch.polling import Polls
from wilkins.plan.plan import Plan
from wilkins.plan.split import Part
from wilkins.transport.report_table import Report
from wilkins.values import replace


class Asks:
    """Tells of such programs, and finds those that are to be ended, from what the host's board says.

    Attributes:
        alone: tasks of the whole plan of which the head says that all others, on all hosts, wait or have ended.
    """

    def __init__(self, plan: Plan, part: Part, shared: Collection[int]) -> None:
        """`shared`: tasks of this host's whose programs are not its own alone, and are not ended here."""
        self._part = part
        relays = (*part.senders, *part.receivers)
        self._producers = {place: plan.tasks[plan.ports[one.outport].task].name for place, one in relays}
        spared = {*shared, *dict(relays)}
        self.alone: set[int] = set()
        self.polls = Polls(part.plan, others_wait=self._others_wait, spared=spared)

    def told(self, report: Report) -> list[str]:
        """What to say of them. Who writes on another host stands in the place of the relay by which it does."""
        names = (self._producers.get(place, task.name) for place, task in enumerate(report.tasks))
        tasks = [replace(task, name=name) for task, name in zip(report.tasks, names, strict=True)]
        return self.polls.told(replace(report, tasks=tuple(tasks)), time.monotonic())

    def _others_wait(self, _report: Report, place: int) -> bool:
        return self._part.tasks[place] in self.alone
