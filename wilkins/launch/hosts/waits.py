"""Whether a run over several hosts can still go on: decided from the waits that their keepers report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wilkins.launch.hosts.merge import merged
from wilkins.launch.hosts.messages import EndWait, Grow
from wilkins.launch.hosts.partreport import used_only
from wilkins.launch.hosts.status import HostStatus
from wilkins.launch.watch import explain, helppages
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.plan.split import HostPart
from wilkins.transport.report_table import Report, TaskFacts

_HELPED_AFTER = 1.0
_STUCK_AFTER = 5.0
"""Seconds for which nothing has moved on any host, and every program has waited, before queues grow and looks are
answered, and before that counts as for ever."""

_UNSURE_FOR = 10.0
"""The same where a thread of a rank that waits is not known to wait: it may do something else. Such a run is never
taken to be stuck."""

_ENDS_WITHIN = 20.0
"""Seconds within which the processes of a task have ended that has done its work; MPI may keep them."""

_MOST_AT_ONCE = 64
"""Steps by which a queue grows."""

Verdict = Literal["goes on", "may grow", "may end a wait", "stuck", "does not end"]


class StuckDetector:
    """Decides from the status of all hosts whether the run is stuck.

    Reports of keepers are up to a second old, and not of one moment, so a state must last for some time to count. Data
    in flight between two hosts keep both halves of a relay from waiting.

    Attributes:
        step: how far a queue grows the next time. Each time takes a second or two, so it is twice as far as the last.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._certain_since: float | None = None
        self._failed_requests: set[type[Grow] | type[EndWait]] = set()
        """Kinds of requests that all hosts have got, and none could fulfil."""
        self.step = 1

    def verdict(self, states: Sequence[tuple[HostPart, HostStatus]], now: float) -> Verdict:
        """Whether the run can go on by itself, or if a queue grows or a wait ends, or not at all."""
        comes = any(state.comes for _, state in states)  # a program that has failed is started again
        if not states or comes or not _may_be_idle(states) or not _relays_wait(states):
            self._since = self._certain_since = None
            self._failed_requests.clear()
            return "goes on"
        self._since = now if self._since is None else self._since
        if not all(_is_idle(part, state) for part, state in states):
            self._certain_since = None
        elif self._certain_since is None:
            self._certain_since = now
        certain_s = 0.0 if self._certain_since is None else now - self._certain_since
        if _all_ended(states) or _left(states):
            return "does not end" if certain_s >= _ENDS_WITHIN else "goes on"
        unsure = any(_is_unsure(part, state) for part, state in states)
        if Grow not in self._failed_requests:
            return "may grow" if now - self._since >= _HELPED_AFTER else "goes on"
        if EndWait not in self._failed_requests:
            return "may end a wait" if certain_s >= (_UNSURE_FOR if unsure else _HELPED_AFTER) else "goes on"
        stuck = certain_s >= _STUCK_AFTER and not unsure and not any(_polls(part, state) for part, state in states)
        return "stuck" if stuck else "goes on"

    def tried(self, asked: Grow | EndWait, *, did: bool) -> None:
        """All hosts were asked; `did`: one has."""
        if not did:
            self._failed_requests.add(type(asked))
            return
        self._failed_requests.clear()
        self._since = self._certain_since = None
        if isinstance(asked, Grow):
            self.step = min(2 * self.step, _MOST_AT_ONCE)


def not_ended_message(plan: Plan, states: Sequence[tuple[HostPart, HostStatus]]) -> str:
    """The message about a run in which processes do not end."""
    who = ", ".join(plan.tasks[place].name for place in sorted(_left(states))) or "tasks"
    return (
        f"processes of {who} have done their work, and do not end: MPI_Finalize does not return. MPICH before 4.2 does "
        "so at times where its processes on several hosts meet over UCX, also without Wilkins: use another MPI, or a "
        "newer one (`wilkins help hosts`)"
    )


def stuck_message(plan: Plan, states: Sequence[tuple[HostPart, HostStatus]]) -> str:
    """The message about a run that is stuck: which ranks wait for what, and the remedies."""
    report = merged(plan, _known(states))
    said = "the run is stuck and was stopped: all programs on all hosts wait, and no queue can grow"
    return "\n".join([said, *lines(plan, states), *explain.cures(report), helppages.STUCK])


def sole_active(states: Sequence[tuple[HostPart, HostStatus]]) -> set[int]:
    """The only task of the whole plan that neither waits nor has ended, if there is exactly one."""
    if not all(state.report for _, state in states) or not _relays_wait(states):
        return set()
    own = [(place, task) for part, state in states for place, task in zip(part.tasks, _own(part, state), strict=True)]
    moving = {place for place, task in own if task.state != "ended" and len(_waiting(task)) < task.nprocs}
    return moving if len(moving) == 1 else set()


def _may_be_idle(states: Sequence[tuple[HostPart, HostStatus]]) -> bool:
    """Whether of every task that runs, a rank waits or polls; others may wait for that one in their MPI.

    A longer queue costs no step, so that is enough to let one grow.
    """
    idle: dict[int, bool] = {}
    for part, state in states:
        if state.report is None:
            return False
        for place, task in zip(part.tasks, _own(part, state), strict=True):
            idle[place] = idle.get(place, False) or bool(
                task.state != "running" or task.waits or task.polls or task.leaving
            )
    return all(idle.values())


def _is_idle(part: HostPart, state: HostStatus) -> bool:
    """Whether every rank of a host's own tasks waits (for others of its task, or for files), has ended, polls, or will
    be started for a step."""
    return state.report is not None and all(_is_task_idle(task) for task in _own(part, state))


def _left(states: Sequence[tuple[HostPart, HostStatus]]) -> set[int]:
    """The tasks of the whole plan that run, with all of their ranks on all hosts in MPI_Finalize."""
    stays: dict[int, bool] = {}
    for part, state in states:
        for place, task in zip(part.tasks, _own(part, state), strict=True):
            if task.state == "running":
                stays[place] = stays.get(place, False) or len(task.leaving) < task.nprocs
    return {place for place, one in stays.items() if not one}


def _all_ended(states: Sequence[tuple[HostPart, HostStatus]]) -> bool:
    return all(task.state == "ended" for part, state in states for task in _own(part, state))


def _is_task_idle(task: TaskFacts) -> bool:
    ranks = _waiting(task) | {poll.rank for poll in task.polls}
    return task.state != "running" or len(ranks) == task.nprocs


def _polls(part: HostPart, state: HostStatus) -> bool:
    """Whether a rank polls: it may do something else at any time."""
    return any(len(_waiting(task)) < task.nprocs for task in _own(part, state) if task.state == "running")


def _waiting(task: TaskFacts) -> set[int]:
    return {wait.rank for wait in task.waits} | set(task.among) | set(task.leaving)


def _is_unsure(part: HostPart, state: HostStatus) -> bool:
    return any(wait.unsure for task in _own(part, state) for wait in task.waits)


def _own(part: HostPart, state: HostStatus) -> Sequence[TaskFacts]:
    return state.tasks[: len(part.tasks)]


def _relays_wait(states: Sequence[tuple[HostPart, HostStatus]]) -> bool:
    """Whether of each relay, one half waits for a step or for room, or all steps have arrived: nothing is in flight."""
    over = {index for _, state in states for index in state.over}
    waits: dict[int, bool] = {}
    for part, state in states:
        senders = dict(part.senders)
        for place, relay in (*part.senders, *part.receivers):
            task = state.tasks[place]
            idle = relay.index in over or task.state == "ended" or bool(task.waits)
            # A sender starts with the first step; its receiver, which it has to meet then, tells nothing before.
            idle = idle or (task.state == "pending" and place in senders)
            waits[relay.index] = waits.get(relay.index, False) or idle
    return all(waits.values())


def lines(plan: Plan, states: Sequence[tuple[HostPart, HostStatus]]) -> list[str]:
    """Which ranks wait for which, as far as known."""
    report = merged(plan, _known(states))
    pending = [task for task, facts in zip(plan.tasks, report.tasks, strict=True) if facts.state == "pending"]
    return [*explain.waiting(report), *(_follows(plan, task) for task in pending if task.after)]


def _known(states: Sequence[tuple[HostPart, HostStatus]]) -> list[tuple[HostPart, Report]]:
    cut = [(part, used_only(part, state.report)) for part, state in states if state.report is not None]
    return [(part.only(told.relays), told.report) for part, told in cut]


def _follows(plan: Plan, task: TaskPlan) -> str:
    names = ", ".join(plan.tasks[one].name for one in task.after)
    return f"{task.name} waits, to be started, for the end of {names} ('after')"
