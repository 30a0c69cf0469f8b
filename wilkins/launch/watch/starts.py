"""Starts a crew's programs, each when it is due."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from wilkins.launch.programs.output import Terminal
from wilkins.launch.watch.dependencies import Dependencies
from wilkins.launch.watch.notices import HELD_AGAIN, HeldBoard
from wilkins.launch.watch.stopping import Stopping
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.launch.watch.verdicts import Verdicts
from wilkins.plan.plan import CannotGoBackError
from wilkins.transport.board import BoardHeldError

_AT_ONCE = 0.5
"""Seconds of starting programs after which other things get their turn."""


class Starts:
    """The starts of a crew's tasks, which may come after those of others."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        terminal: Terminal,
        stopping: Stopping,
        verdicts: Verdicts,
        held: HeldBoard,
        dependencies: Dependencies,
        *,
        can_resume: bool,
    ) -> None:
        """`can_resume`: another run can go on with this one."""
        self._crew = crew
        self._terminal = terminal
        self._stopping = stopping
        self._verdicts = verdicts
        self._held = held
        self._dependencies = dependencies
        self._can_resume = can_resume

    def start_due(self, now: float) -> Iterator[TaskRun]:
        """Start programs that are due, the rest of very many in a later turn; the tasks whose program has begun."""
        for run in self._crew:
            if time.monotonic() - now > _AT_ONCE:
                return
            if run.state != "waiting" or run.poll_at > now or self._stopping.why is not None:
                continue
            if not self._awaits_others(run) and self._starts(run, now):
                yield run

    def due(self) -> Iterator[float]:
        """When to look again at the tasks that wait for their start, in monotonic time."""
        for run in self._crew:
            if run.state == "waiting" and not self._awaits_others(run):
                yield run.poll_at

    def _starts(self, run: TaskRun, now: float) -> bool:
        try:
            started = run.poll(now)
        except BoardHeldError as error:
            run.poll_at = now + HELD_AGAIN
            self._held.note(now, error)
            return False
        except OSError as error:
            from wilkins.launch.watch import explain

            run.abandon("failed")
            self._verdicts.fail(run, explain.not_started(run, error))
            return False
        except CannotGoBackError as error:
            self._cannot_go_back(run, error)
            return False
        if not started and run.outcome == "untouched":
            self._verdicts.untouched(run)
        return started

    def _cannot_go_back(self, run: TaskRun, error: CannotGoBackError) -> None:
        run.abandon("failed")
        if self._can_resume:
            self._stopping.stop(1, f"{error}; all tasks go back to where none of them misses a step", goes_on=True)
        else:
            self._verdicts.fail(run, str(error))

    def _awaits_others(self, run: TaskRun) -> bool:
        """Whether the task comes after others that go on still. If one of them did not end well, it never starts."""
        if run.starts or not run.plan.after:
            return False
        before = [self._dependencies.status(task) for task in run.plan.after]
        if lost := next((name for status, name in before if status == "lost"), None):
            run.abandon("not started")
            self._terminal.say(f"{run.name}: not started, since {lost}, which it comes after, did not end well")
            run.report_final()
            return True
        return any(status == "goes on" for status, _ in before)
