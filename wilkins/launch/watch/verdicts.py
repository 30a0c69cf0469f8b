"""The consequences of the ends of programs: the run goes on, goes on without their task, or stops."""

from __future__ import annotations

from collections.abc import Sequence

from wilkins.launch.programs.output import Terminal
from wilkins.launch.watch.decide import Verdict
from wilkins.launch.watch.dependencies import Dependencies
from wilkins.launch.watch.notices import HeldBoard, failure_on, report_of
from wilkins.launch.watch.stopping import Stopping
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.transport.board import Board, BoardHeldError


class Verdicts:
    """Judges the tasks of a crew when their programs have ended."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        board: Board,
        terminal: Terminal,
        stopping: Stopping,
        held: HeldBoard,
        dependencies: Dependencies,
    ) -> None:
        self._crew = crew
        self._board = board
        self._terminal = terminal
        self._stopping = stopping
        self._held = held
        self._dependencies = dependencies
        self._undecided: list[tuple[TaskRun, str]] = []
        """Instances that have failed, with their messages, until it is known whether they may fail."""
        self.any_failed = False
        """A task has failed that may not."""

    @property
    def are_decided(self) -> bool:
        """Whether it is known what all failures mean."""
        return not self._undecided

    def judge_ended(self, now: float) -> None:
        """Judge the tasks whose programs have ended since the last call."""
        for run in self._crew:
            if run.unjudged is None:
                continue
            if self._stopping.why is not None:
                run.stopped()
                continue
            try:
                verdict = run.judge()
            except BoardHeldError as error:
                self._held.note(now, error)
            else:
                self._follow(run, verdict)

    def program_over(self, run: TaskRun, code: int, now: float) -> None:
        """Judge a task whose program is about to exit with `code`, but whose process waits for others until then."""
        try:
            verdict = run.over(code)
        except BoardHeldError as error:
            self._held.note(now, error)
        else:
            self._follow(run, verdict)

    def _follow(self, run: TaskRun, verdict: Verdict | None) -> None:
        if verdict not in ("failed", "retry", "untouched"):
            return
        from wilkins.launch.watch import explain

        if verdict == "failed":
            self.fail(run, explain.failed(run, report_of(self._board)))
        elif verdict == "retry":
            self._terminal.say(explain.retried(run, report_of(self._board)))
        elif verdict == "untouched":
            self.untouched(run)

    def untouched(self, run: TaskRun) -> None:
        """A task has done well, but for a port that it has never used: it has failed."""
        from wilkins.launch.watch import explain

        self.fail(run, explain.untouched(run, report_of(self._board)))

    def fail(self, run: TaskRun, message: str) -> None:
        """A task has failed."""
        if failure := failure_on(self._board):  # what the program met, in more words than its exit code has
            self._lose(run, f"{failure}\n{message}")
        else:
            self._undecided.append((run, message))
            self.decide()

    def decide(self) -> None:
        """What follows from the failures of tasks, as far as it is known whether they may fail."""
        undecided, self._undecided = self._undecided, []
        for run, message in undecided:
            may_fail = self._dependencies.may_fail(run)
            if may_fail is None:
                self._undecided.append((run, message))
            elif may_fail:
                from wilkins.launch.watch import explain

                run.spared = True
                self._terminal.say(f"{message}\n{explain.left_out(run)}")
                run.report_final()
            else:
                self._lose(run, message)

    def _lose(self, run: TaskRun, message: str) -> None:
        self.any_failed = True
        if run.plan.on_failure != "continue":
            self._stopping.stop(1, message)
        else:
            self._terminal.say(message)
            run.report_final()
