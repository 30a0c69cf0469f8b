"""Directs a job over several hosts: the head of a run whose keepers come by themselves, on rank 0's host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from wilkins.errors import UsageError
from wilkins.launch.hostjob.meeting import Joined, Meeting
from wilkins.launch.hostjob.messages import Done, Finalize, Leave
from wilkins.launch.hostjob.setup import JobSetup
from wilkins.launch.hosts import head
from wilkins.launch.hosts.control import Message
from wilkins.launch.hosts.head import Head
from wilkins.launch.hosts.host import Host
from wilkins.launch.hosts.messages import JobEnded
from wilkins.launch.job.planned import Planner, planned_for, worlds_of
from wilkins.launch.job.programs import Worlds, labels
from wilkins.launch.job.rank import Rank
from wilkins.launch.options import RunOptions
from wilkins.launch.programs import environment as env
from wilkins.plan.placing import as_launched
from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart
from wilkins.terminal.reporting import report
from wilkins.values import fields, replace


class JobHead(Head):
    """The head of a job's run."""

    def __init__(self, hosts: Sequence[Joined], widest: str, worlds: Worlds, plan: Plan, *rest: Any) -> None:
        """`hosts`: in the order of the plan's; `widest`, `worlds`: as of `JobSetup`, for all tasks."""
        self._joined = hosts
        self._widest = widest
        self._worlds = worlds
        self._begun = {task.index for task in plan.tasks if env.joins_world(task)}
        self._done: dict[int, list[bool]] = {}
        super().__init__(plan, *rest)

    def setup(self, part: HostPart) -> JobSetup:
        common = super().setup(part)
        given = {one.name: getattr(common, one.name) for one in fields(common)}
        return JobSetup(**given, widest=self._widest, worlds=self._worlds.of(part.tasks))

    def start(self, part: HostPart) -> Host:
        joined = self._joined[part.host]
        name = self.plan.hosts[part.host].name
        (self.records.path / "hosts" / f"{name}.log").touch()
        return Host(part, name, joined.address, None, joined.link.control, time.monotonic())

    def handle(self, host: Host, message: Message) -> None:
        if isinstance(message, Done):
            self._note_done(message.task, clean=message.clean)
        else:
            super().handle(host, message)

    def _note_done(self, task: int, *, clean: bool) -> None:
        """The first programs of all ranks of a task on a host have ended: when all hosts say so, the task's has."""
        done = self._done.setdefault(task, [])
        done.append(clean)
        if len(done) < len(self.plan.tasks[task].share):
            return
        for host in self.hosts:
            if task in host.part.tasks and not host.over:
                self.send(host, JobEnded(task, all(done)))
        self._begun.discard(task)
        if not self._begun:  # now idle ranks may wait in MPI_Finalize, too
            for host in self.hosts:
                if not host.over:
                    self.send(host, Finalize())


def lead(path: Path, options: RunOptions, make: Planner, here: Rank, where: Path) -> int:
    """Set the run up with the hosts that come, direct it, and let all know the verdict.

    Args:
        path: the workflow file, or the run that is gone on with.
        make: decides what is run.
        where: the file by which the hosts meet.
    """
    code = 1
    hosts: list[Joined] = []
    try:
        meeting = Meeting(where)
        hosts = meeting.hosts
        try:
            meeting.gather(here.size)
        finally:
            meeting.close()
        hosts.sort(key=lambda joined: min(joined.ranks))
        code = _run(path, options, make, here, hosts)
    except Exception as error:
        code = report(error)
    finally:
        for joined in hosts:
            _send_verdict(joined, code)
    return code


def _run(path: Path, options: RunOptions, make: Planner, here: Rank, hosts: Sequence[Joined]) -> int:
    planned = planned_for(path, make, here)
    if planned.plan.encrypts:
        raise UsageError(
            "--encrypt: the hosts of one MPI job exchange the run's key and its messages in clear; start the run "
            "without an mpiexec, with --hosts"
        )
    worlds = worlds_of(planned.plan)
    names = _distinct([joined.name for joined in hosts])
    plan = as_launched(planned.plan, [(name, joined.ranks) for name, joined in zip(names, hosts, strict=True)])
    widest = max((label for task in plan.tasks for label in labels(task)), key=len)
    options = replace(options, resumption=planned.record)
    return head.run(plan, options, partial(JobHead, hosts, widest, worlds), [widest]).code


def _distinct(names: Sequence[str]) -> list[str]:
    """The names of hosts; of those that have one name, as where an mpiexec takes one machine for several, numbered."""
    return [
        name if names.index(name) == place else f"{name}.{names[:place].count(name) + 1}"
        for place, name in enumerate(names)
    ]


def _send_verdict(joined: Joined, code: int) -> None:
    try:
        joined.link.control.send(Leave(code))
    except (OSError, ValueError):  # it is gone
        return
