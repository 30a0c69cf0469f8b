"""The launch as ranks of one MPI job: every rank runs its own program, the first one plans, watches and sums up."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wilkins.errors import ResourceError, UsageError
from wilkins.launch.begin import begin_run, brief, end_export
from wilkins.launch.job.jobrank import JobRank, JobSetting, meets_at_start
from wilkins.launch.job.leaving import leave_together, refuse
from wilkins.launch.job.planned import Planner, planned_for, worlds_of
from wilkins.launch.job.rank import Rank, job_key, this_rank
from wilkins.launch.job.rendezvous import Rendezvous
from wilkins.launch.options import RunOptions
from wilkins.launch.programs.guard import Guard, end_members
from wilkins.launch.records import stepsizes
from wilkins.launch.records.conclude import conclude
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.records.summary import TaskEnd
from wilkins.launch.watch.boardmap import create_board
from wilkins.launch.watch.notices import report_of
from wilkins.plan import planfile
from wilkins.plan.cores import oversubscribed
from wilkins.terminal.reporting import report
from wilkins.transport.board import Board
from wilkins.transport.removal import sweep
from wilkins.values import asdict, replace


def in_job() -> bool:
    """True if this process was started as one of several ranks of an MPI job."""
    here = this_rank()
    return here is not None and here.size > 1


def main(path: Path, options: RunOptions, make: Planner) -> int:
    """Be one rank of ``mpiexec -n N wilkins run FILE``; the exit code is the same on all ranks.

    What keeps the run from being set up is said by the first rank alone.

    Args:
        path: the workflow file, or the run that this one goes on with.
        make: decides what is run; on the first rank, since the others do without a YAML reader and a graph library.

    Raises:
        UsageError: this process is not a rank of a job.
    """
    here = this_rank()
    if here is None:
        raise UsageError(f"this process is not a rank of an MPI job; start it as: mpiexec -n N wilkins run {path}")
    try:
        meeting = Rendezvous(job_key(), here.rank, here.size)
    except ResourceError as error:
        return refuse(here, error)
    with Guard() as guard:
        try:
            code = _follow(meeting, guard) if here.rank else _lead(path, options, make, here, meeting, guard)
        except Exception as error:
            code = report(error)
        finally:
            end_members(guard.token)
    if code:
        leave_together(code, meeting.leave_at)
    return code


def _follow(meeting: Rendezvous, guard: Guard) -> int:
    """Any rank but the first."""
    job = meeting.enter()
    if "failed" in job:
        meeting.leave(failed=True)
        return int(job["failed"])
    setting = JobSetting(**job)
    try:
        plan = planfile.loads((Path(setting.records) / "plan.json").read_text(encoding="utf-8"))
        board = Board.attach(meeting.path)
    except FileNotFoundError as error:
        raise ResourceError(
            f"rank {meeting.rank}: {error.filename} is gone; the first rank has ended the run"
        ) from error
    code = JobRank(plan, setting, meeting, board, guard).run()
    meeting.leave(failed=code != 0)
    return code


def _lead(path: Path, options: RunOptions, make: Planner, here: Rank, meeting: Rendezvous, guard: Guard) -> int:
    """The first rank."""
    started = time.monotonic()
    try:
        sweep()
        planned = planned_for(path, make, here)
        plan = planned.plan
        worlds = worlds_of(plan)
        sizes = stepsizes.of_run_before(plan)
        records = begin_run(plan, replace(options, resumption=planned.record))
        board = meeting.make(
            lambda path: create_board(plan, records.layer_log, records.trace, path, can_resume=plan.can_resume)
        )
        stepsizes.make_ready(plan, board, sizes)
        brief(board, plan, records.path)
        setting = JobSetting(
            **asdict(worlds),
            records=str(records.path),
            quiet=options.quiet,
            timeout=options.timeout,
            go_back=options.go_back,
        )
        for task in plan.tasks:
            if meets_at_start(task):
                board.task_started(task.index)
        meeting.open(asdict(setting))
    except BaseException as error:
        code = report(error) if isinstance(error, Exception) else 1
        meeting.refuse(code)
        meeting.close(failed=True)
        if isinstance(error, Exception):
            return code
        raise
    code = 1
    try:
        rank = JobRank(plan, setting, meeting, board, guard, options)
        for note in (*plan.notes, *oversubscribed(plan, os.cpu_count() or 1)):  # this rank may be bound to one
            rank.terminal.say(note)
        code = rank.run()
        stepsizes.record(plan, board, records)
        code = _sum_up(rank, meeting, board, records, time.monotonic() - started, strict=options.strict)
        end_export(rank.exporter, report_of(board), code, rank.terminal)
    finally:
        board.end_ready()
        try:
            meeting.decide(code)
        finally:
            meeting.close(failed=code != 0)
            board.close()
    return code


def _sum_up(
    rank: JobRank, meeting: Rendezvous, board: Board, records: RunDirectory, wall_s: float, *, strict: bool
) -> int:
    """Join what became of all ranks into the summary, and decide what every rank exits with."""
    tasks = rank.plan.tasks
    results = [[meeting.result(task.first_rank + place) for place in range(task.nprocs)] for task in tasks]
    stop = rank.stopped
    failed = any(result is None or result["failed"] for ranks in results for result in ranks)
    code = stop.code if stop else int(failed)
    ends = [_joined(ranks) for ranks in results]
    return conclude(rank.plan, board, ends, records, rank.terminal, stop, code, strict=strict, wall_s=wall_s)


def _joined(ranks: Sequence[dict[str, Any] | None]) -> TaskEnd:
    """The end of a task from the ends of its ranks: the worst, and the mean of the times."""
    known = [result or {**_LOST, "failed": True} for result in ranks]
    worst = next((result for result in known if result["failed"]), None) or next(
        (result for result in known if result["outcome"] != "done"), known[0]
    )
    return TaskEnd(
        max(int(result["starts"]) for result in known),
        str(worst["outcome"]),
        str(worst["exit"]),
        sum(float(result["running_s"]) for result in known) / len(known),
        retries=max(int(result["retries"]) for result in known),
        relisted=any(result["relisted"] for result in known),
        cpu_s=sum(float(result["cpu_s"]) for result in known),
        memory_bytes=max(int(result["memory_bytes"]) for result in known),
    )


_LOST = asdict(TaskEnd(1, "stopped", "", 0.0))
