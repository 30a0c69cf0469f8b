"""Messages for the user about failures and waits."""

from __future__ import annotations

import contextlib
import errno
import glob
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from wilkins.errors import count_of
from wilkins.flow.policy import kept_words, ordinal
from wilkins.launch.programs.environment import takes_filename
from wilkins.launch.watch.failedopens import failed_open
from wilkins.launch.watch.similarnames import as_next, nearest, some_of
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.launch.watch.unmatched import did_you_mean
from wilkins.plan.program import inspect
from wilkins.schema.patterns import is_wild
from wilkins.terminal.wording import paragraphs
from wilkins.transport.board import BoardHeldError
from wilkins.transport.report_table import PortFacts, Report, TaskFacts, Wait, Whom


def failed(run: TaskRun, report: Report | None = None) -> str:
    """A program ended with an error. `report`: what the board knows, if it could be asked."""
    if run.plan.is_relay:
        return _with(f"{_relay(run)} failed: {run.exit}; its output is in {run.log.path}", run.log.last())
    again = f" at its {ordinal(run.starts)} start" if run.starts > 1 else ""
    once = again and not run.failures and run.plan.rerun == "auto" and not takes_filename(run.plan)
    cure = "; if it is to read one step and end, give it `rerun: never`" if once else ""
    said = f"{run.name}: failed{again}: {run.exit}; its output is in {run.log.path}{cure}"
    if report:
        said = paragraphs(said, *_not_there(run, report), *failed_open(run.plan, report), *_listed_a_part(run, report))
    return _with(said, run.log.unseen())


def _with(said: str, last: list[str]) -> str:
    """A message, and what a program has printed that the terminal does not show."""
    return "\n".join([said, "  it printed last:", *(f"    {line}" for line in last)] if last else [said])


def retried(run: TaskRun, report: Report | None = None) -> str:
    """A program ended with an error, and is started again. `report`: as for `failed`."""
    return paragraphs(
        failed(run, report),
        f"{run.name}: is started again in {run.next_delay:g} s (retry {run.failures} of {run.plan.retries})",
    )


def left_out(run: TaskRun) -> str:
    """An instance of an ensemble has failed that is not needed."""
    return f"{run.name}: left out: of its instances, {run.plan.spares} may fail (`min_instances`)"


def _not_there(run: TaskRun, report: Report) -> Iterator[str]:
    """Messages about names that a program asked for, that no task has written, and that are similar to its in-ports."""
    index, where = run.plan.index, f" ({run.plan.origin})" if run.plan.origin else ""
    for one in report.tasks[index].unmatched_names:
        name = one.name
        if not (run.plan.cwd / name).exists() and (meant := did_you_mean(report, index, name)):
            yield f"it asked for {name!r}, which matches no port of it{where} and is not there: {meant}"
    gone = {channel.inport for channel in report.channels if channel.given_up}
    for place, port in enumerate(report.ports):
        ended = port.task == index and port.found_nothing and report.tasks[index].failed_open
        if ended and not port.steps and place not in gone and (meant := did_you_mean(report, index, port.asked)):
            yield f"it asked for {port.asked!r}, and nobody has written a file of that name{where}: {meant}"


def _listed_a_part(run: TaskRun, report: Report) -> Iterator[str]:
    """Messages about in-ports of which a listing showed only some files, before all were there."""
    where = f" ({run.plan.origin})" if run.plan.origin else ""
    for port in report.ports:
        if port.task == run.plan.index and port.shown_a_part:
            yield (
                f"before that it listed files of {port.pattern!r} when not all of them were there: if it needs all "
                f"at once, give that in-port `listing: end`{where}"
            )


def _relay(run: TaskRun) -> str:
    """The relay that failed, in words, and after how many steps."""
    with contextlib.suppress(BoardHeldError):
        return f"the relay that brings {run.plan.carries}, after {count_of(run.steps(), 'step')},"
    return f"the relay that brings {run.plan.carries}"


def not_started(run: TaskRun, error: OSError) -> str:
    """A program could not be started."""
    task = run.plan
    words = [*task.mpiexec, *task.prefix] if task.kind == "mpi" and task.mpiexec else [*task.prefix]
    program = words[0] if words else str(task.executable)
    cure = {
        errno.ENOEXEC: "it is neither a program for this machine nor a script that begins with #!; add the #! line",
        errno.EACCES: f"give it the right to be executed: chmod +x {program}",
        errno.ENOENT: f"check that {program} and the folder {task.cwd} exist",
        errno.E2BIG: "its arguments and environment are too long",
    }.get(error.errno or 0, "")
    where = f"{task.origin}: " if task.origin else ""
    about = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    return f"{where}{run.name}: cannot start {program}: {about}{f'; {cure}' if cure else ''}"


def untouched(run: TaskRun, report: Report | None = None) -> str:
    """A program ended well without using a memory port. `report`: what the board knows, if it could be asked."""
    patterns = ", ".join(repr(pattern) for pattern in run.untouched)
    verb = "port" if len(run.untouched) == 1 else "ports"
    names = [one.name for one in report.tasks[run.plan.index].unmatched_names] if report else []
    ports = [port for port in report.ports if port.task == run.plan.index] if report else []
    said = [_looked_for_missing(port) for port in ports if port.found_nothing and not port.touched]
    spelt = [_misread(run, report, names)] if report else []
    spelt = spelt if any(spelt) else [_misspelt(pattern, names) for pattern in run.untouched]
    said += [words for words in spelt if words]
    said += _written_past(run)
    if not said and not names and report:
        said += _elsewhere(run, report)
    if not said and names:
        said.append(_other_names(run, names, ports))
    elif not said:
        said.append(_no_names(run, reached=any(port.touched for port in ports)))
    return paragraphs(
        f"{run.name}: ended without ever using its memory {verb} {patterns}", *said, f"its output is in {run.log.path}"
    )


def _written_past(run: TaskRun) -> Iterator[str]:
    """Messages about files on disk, of ports that a program never used, that were written while it ran."""
    began = time.time() - (time.monotonic() - run.started_at) - _TICK
    for pattern in run.untouched:
        names = [name for name in glob.glob(pattern, root_dir=run.plan.cwd) if _changed(run.plan.cwd / name) >= began]  # noqa: PTH207 - the pattern may be a whole path
        if names:
            yield (
                f"{some_of(sorted(names))} {'was' if len(names) == 1 else 'were'} written on disk meanwhile, past "
                "Wilkins: a program that it starts clears LD_PRELOAD from its environment, as `env -i` and `sudo` do, "
                "or is static; let that keep LD_PRELOAD and what begins with WILKINS_"
            )


def _changed(path: Path) -> float:
    """When a file was written last, as the clock says; 0: it is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _elsewhere(run: TaskRun, report: Report) -> Iterator[str]:
    """Messages about ports that a program never used, whose steps are in another folder than the one that it lists."""
    ports, tasks = report.ports, report.tasks
    for channel in report.channels:
        inport, outport = ports[channel.inport], ports[channel.outport]
        if inport.task != run.plan.index or inport.touched or not is_wild(inport.pattern):
            continue
        listed, begun = (run.plan.cwd / inport.pattern).parent, outport.begun_in
        if begun and not is_wild(str(listed)) and Path(begun).resolve() != listed.resolve():
            writer = tasks[outport.task].name
            yield (
                f"the files of {inport.pattern!r} that {writer} wrote are in {begun}, and a program that runs where "
                f"{run.name} does and lists a folder (glob) looks in {listed}: give {run.name} the `cwd:` of {writer}, "
                "or let it list that folder (`wilkins help looking-at-files`)"
            )


def _looked_for_missing(port: PortFacts) -> str:
    """The message about a program that looked for a file, and went on without it."""
    waits = "" if port.waits_looks else "; leave out `looks: now`, and its looks wait for their files"
    times = "" if port.found_nothing == 1 else f" {port.found_nothing} times"
    return f"it looked for {port.asked!r}{times} before a step was there, found nothing, and never opened it{waits}"


def _misread(run: TaskRun, report: Report, names: Sequence[str]) -> str:
    """The message about a program that used a name similar to that of a step that is queued for it."""
    for name in names:
        if meant := did_you_mean(report, run.plan.index, name):
            return f"it used {name!r}, which matches no port: {meant}"
    return ""


def _misspelt(pattern: str, names: Sequence[str]) -> str:
    """The message about names that a program used and that are similar to the pattern."""
    meant = nearest(pattern, names)
    if meant is None:
        return ""
    alike = [name for name in names if nearest(pattern, [name])]
    verb = "matches" if len(alike) == 1 else "match"
    return f"it used {some_of(alike)}, which {verb} no port: did you mean `filename: {meant}`?"


def _other_names(run: TaskRun, names: Sequence[str], ports: Sequence[PortFacts]) -> str:
    """The message about other data files that a program used."""
    verb = "matches" if len(names) == 1 else "match"
    words = f"it used {some_of(names)}, which {verb} no port; compare that with the pattern"
    wild = [port.pattern for port in ports if port.direction == "in" and not port.touched]
    if not wild or wild[0] not in run.untouched:
        return words
    return f"{words}; {as_next(names[0], f'the in-port {wild[0]!r}')}"


_TICK = 0.02
"""Seconds by which the time of a file may be behind the clock: the kernel takes that of its last tick."""

_NO_SUCH_NAME = "it used no file of such a name, nor of one like it: compare the pattern with the names it opens"


def _no_names(run: TaskRun, *, reached: bool) -> str:
    """The message if no name was seen that may be meant for the port. `reached`: the program has used another port."""
    if reached:
        return (
            "it used other ports, and was seen to use no file of such a name: compare the pattern with the names it "
            "opens, or leave the port out if it does not need it"
        )
    if run.plan.executable == Path(sys.executable):
        return _NO_SUCH_NAME
    found = None
    with contextlib.suppress(ValueError):  # it may have gone since it was started
        found = inspect(run.plan.executable)
    if found is not None and found.unreachable:
        return found.unreachable
    words = _NO_SUCH_NAME
    if found is None or found.kind == "elf":
        return words
    return (
        f"{words}; a program that it starts, and that is static or runs with other rights, cannot be reached "
        "(`wilkins help static-programs`)"
    )


def waits(report: Report) -> list[str]:
    """Which ranks wait for which, one line each, and the remedies."""
    return [*waiting(report), *cures(report)]


def waiting(report: Report) -> list[str]:
    """Which ranks wait for which, one line each."""
    tasks, ports = report.tasks, report.ports
    lines = []
    for place, task in enumerate(tasks):
        for wait in task.waits:
            pattern = wait.name or ports[wait.port].pattern
            on = [_whom(tasks, some) for some in wait.on]
            lines.append(
                f"{_who(tasks, place, wait.rank)} has waited {_seconds(wait.seconds)} s "
                + (f"for a step of {pattern}" if wait.what == "data" else f"for room to write {pattern}")
                + (f", on {', '.join(on)}" if on else "")
            )
        lines += _flushes(report, place)
    return lines


def awaited(report: Report, pids: Mapping[int, int], where: Callable[[int], str]) -> list[str]:
    """For each task that others wait for and that waits for none: its progress, and what it does, or how to see that.

    Args:
        pids: the processes of programs, by task.
        where: returns the functions that a process is in; empty: unknown.
    """
    tasks = report.tasks
    named = {whom.task for task in tasks for wait in task.waits for whom in wait.on}
    lines = []
    for index in sorted(named):
        if tasks[index].waits or tasks[index].state != "running":
            continue
        steps = max((port.steps for port in report.ports if port.task == index), default=0)
        process = f" (process {pids[index]})" if index in pids else ""
        place = where(pids[index]) if index in pids else ""
        tools = f": `py-spy dump --pid {pids[index]}` or `gdb -p {pids[index]}` shows where" if index in pids else ""
        lines.append(
            f"  {tasks[index].name}{process} has had {count_of(steps, 'step')} and waits for no task; it "
            f"computes, or waits for something else{f', in {place}' if place else tools}"
        )
    return lines


def _flushes(report: Report, index: int) -> list[str]:
    """Ranks of a task in a flush after a write, which waits for the other ranks if they share the file."""
    tasks = report.tasks
    task = tasks[index]
    within = {flush.rank for flush in task.flushes} | {wait.rank for wait in task.waits}
    others = [_who(tasks, index, rank) for rank in range(task.nprocs) if rank not in within]
    if not task.flushes or not others:
        return []
    longest = max(task.flushes, key=lambda flush: flush.seconds)
    pattern = report.ports[longest.port].pattern
    return [
        f"{_who(tasks, index, longest.rank)} has been for {_seconds(longest.seconds)} s in the flush that "
        f"`publish: {{write: ...}}` of its out-port {pattern!r} makes after a write; of a file that ranks share, it "
        f"waits until all have written as often, and {_listed(others)} {'is' if len(others) == 1 else 'are'} in none",
        f"  if not all ranks of {task.name} write to the dataset equally often, give the out-port {pattern!r} "
        "`publish: flush`, `next` or `close`",
    ]


def cures(report: Report) -> list[str]:
    """Keys of the workflow file that would end the waits, each with its value and port."""
    tasks, ports = report.tasks, report.ports
    waiting = [(index, wait) for index, task in enumerate(tasks) for wait in task.waits]
    lines = [*_cures_of_cycles(report, waiting), *_cures_of_skips(report, waiting)]
    for index, wait in waiting:
        if wait.looks:
            who, port = tasks[index].name, ports[wait.port]
            lines.append(
                f"  {who} only looks at {wait.name!r}: if it may go on without that file, give its in-port "
                f"{port.pattern!r} `looks: now`"
            )
        if wait.what != "data":
            lines += _cures_of_room(report, waiting, index, wait)
        elif wait.strange:
            lines.append(_cure_of_name(report, index, wait))
        else:
            lines += _cures_of_first(report, index, wait)
    return list(dict.fromkeys(lines))


def _cure_of_name(report: Report, index: int, wait: Wait) -> str:
    """The remedy for a name that matches an in-port, if no producer has a file of that or a similar name."""
    port, who, name = report.ports[wait.port], report.tasks[index].name, wait.name
    stands, pattern = port.alias, port.pattern
    if port.alias_state == "found":
        return f"  {stands!r} stands for the next step of {pattern!r} for {who}, so {name!r} never comes"
    if port.alias_state == "prevented":
        return f"  {who}: {prevented(stands, pattern)}"
    there = [channel.next for channel in report.channels if channel.inport == wait.port and channel.next]
    but = f", but {there[0]!r} was" if there else ""
    return (
        f"  no file like {name!r} was written for the in-port {pattern!r} of {who}{but}: {as_next(name, 'the in-port')}"
    )


def _cures_of_first(report: Report, index: int, wait: Wait) -> Iterator[str]:
    """Remedies for a task that has begun without a step, by `first`, and whose next file does not come."""
    port, who, name = report.ports[wait.port], report.tasks[index].name, wait.name
    first = port.asked
    if port.waits_first or port.steps or not first:
        return
    said = f"  `first:` of the in-port {port.pattern!r} of {who} answered its first open alone, of {first!r}"
    if name == first:
        # A name that is no pattern is asked for in each turn of the cycle.
        wrote = any(one.steps for one in report.ports if one.task == index and one.direction == "out")
        if wrote and not is_wild(port.pattern):
            return
        yield (
            f"{said}, and it opens that name again: if it opens the file several times for each step, give the in-port "
            "`opens_per_step:` with a number as high"
        )
        return
    there = [channel.next for channel in report.channels if channel.inport == wait.port and channel.next]
    if there:
        yield (
            f"{said}; {name!r}, which it asks for now, is not there, but {there[0]!r} is: names fit a cycle if "
            f"the answer to the first file has the name that {who} asks for next"
        )


def prevented(name: str, pattern: str) -> str:
    """The message about a file on disk that prevents an alias for the next step of an in-port."""
    return (
        f"{name!r}, which it has opened, would stand for the next step of {pattern!r}, but is a file on disk, too, and "
        f"no recorded earlier run has left it: remove the file, or give the in-port `as: {name}`"
    )


_Waits = Sequence[tuple[int, Wait]]
"""Waits, each with the index of the task that waits."""


def _cures_of_room(report: Report, waiting: _Waits, writer: int, wait: Wait) -> list[str]:
    """Remedies for a producer that waits for readers: they never read, keep all open, or wait for its other file."""
    tasks, ports = report.tasks, report.ports
    lines = []
    for channel in report.channels:
        inport = channel.inport
        port = ports[inport]
        reader = tasks[port.task]
        if channel.outport != wait.port or port.task not in _tasks_of(wait):
            continue
        who = f"the in-port {port.pattern!r} of {reader.name}"
        reached = [max(ranks) for ranks in zip(*_reached(report, inport), strict=True)]
        read = [rank for rank, steps in enumerate(reached) if steps]
        if not read:
            asked = _asked_for(waiting, port.task, inport) if channel.queued else ""
            lines.append(
                f"  {reader.name} has opened no step of {port.pattern!r} so far"
                + (
                    f": it asks for {asked!r}, and none of the steps that wait for it ({channel.queued}) has that "
                    f"name; compare it with {channel.next!r}, which {tasks[writer].name} has written"
                    if asked
                    else ""
                )
            )
        elif len(read) < len(reached):
            only = f"only {_ranks(read)} of {reader.name} read"
            if read == list(range(len(read))):
                lines.append(f"  if {only}, as so far, give {who} `nreaders: {len(read)}`")
            else:
                lines.append(
                    f"  so far {only} steps of {port.pattern!r}, and `nreaders:` counts from rank 0: "
                    f"let the first {len(read)} read instead, or all {len(reached)}"
                )
        if channel.held and not channel.queued:
            lines.append(
                f"  {reader.name} has {channel.held} steps of {port.pattern!r} open at once: let it close "
                f"those that it has done with, or give {who} a longer queue, such as `queue: {2 * channel.held}`"
            )
        elsewhere = [
            other for task, other in waiting if task == port.task and other.what == "data" and other.port != inport
        ]
        again = [ports[other.port].pattern for other in elsewhere if _read_once(ports[other.port])]
        if again:
            lines.append(
                f"  {reader.name} opens {again[0]!r} again, of which it has read the only step so far: if it opens "
                f"the same file several times, give its in-port {again[0]!r} `opens_per_step:` with a number as high"
            )
        if any(writer in _tasks_of(other) for other in elsewhere):
            lines.append(
                f"  {reader.name} waits for another file of {tasks[writer].name} first: give {who} a longer "
                f"queue, such as `queue: {2 * channel.queued}`"
            )
    return lines


def _read_once(port: PortFacts) -> bool:
    """Whether the task has read one step of a name that is no pattern: to open the name again means its next step."""
    return port.steps == 1 and not is_wild(port.pattern)


def _asked_for(waiting: _Waits, reader: int, inport: int) -> str:
    """The name that a task waits for at one of its in-ports."""
    names = (wait.name for task, wait in waiting if task == reader and wait.what == "data" and wait.port == inport)
    return next(iter(names), "")


def _reached(report: Report, inport: int) -> list[tuple[int, ...]]:
    return [channel.reached for channel in report.channels if channel.inport == inport]


def _tasks_of(wait: Wait) -> set[int]:
    return {whom.task for whom in wait.on}


def _cures_of_cycles(report: Report, waiting: _Waits) -> list[str]:
    """The remedy for tasks that wait for each other's first step: one of them must begin without one."""
    tasks, ports = report.tasks, report.ports
    first = [
        (index, wait)
        for index, wait in waiting
        if wait.what == "data" and not ports[wait.port].steps and ports[wait.port].waits_first
    ]
    for index, wait in first:
        circle = {index}
        while more := {task for other, one in first if other in circle for task in _tasks_of(one)} - circle:
            circle |= more
        circle = {task for task in circle if _leads_to(first, task, index)}
        if circle:
            names = sorted(circle)
            return [
                f"  {_listed([tasks[task].name for task in names])} wait for each other's first step; let one begin "
                f"without: give the in-port {ports[wait.port].pattern!r} of {tasks[index].name} "
                "`first: missing` (its first open fails as for a missing file) or `first: file` (it reads the real "
                "file of that name)"
            ]
    return []


def _cures_of_skips(report: Report, waiting: _Waits) -> Iterator[str]:
    """Remedies for readers that wait for a later step of a waiting producer: their policy skips the steps between."""
    tasks, ports = report.tasks, report.ports
    asleep = {index for index, _ in waiting}
    for index, wait in waiting:
        reader, pattern = tasks[index].name, repr(ports[wait.port].pattern)
        for channel in report.channels if wait.what == "data" else ():
            outport = ports[channel.outport]
            writer = outport.task
            if channel.inport != wait.port or writer not in asleep & _tasks_of(wait) or channel.every == 1:
                continue
            kept = kept_words(channel.every, channel.offset)
            yield (
                f"  {reader} is given only some steps of {pattern} ({kept}), and {tasks[writer].name}, which has "
                f"published {outport.steps} so far, waits before it has the next of these: give the in-port "
                f"{pattern} of {reader} `io_freq: 1`, so that it gets every step"
            )


def _leads_to(first: _Waits, task: int, goal: int) -> bool:
    """Whether a task waits, over others, for another (or, over others, for itself)."""
    seen: set[int] = set()
    todo = {task}
    while todo:
        todo = {other for index, wait in first if index in todo for other in _tasks_of(wait)} - seen
        seen |= todo
    return goal in seen


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_listed([str(rank) for rank in ranks])}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _who(tasks: Sequence[TaskFacts], index: int, rank: int) -> str:
    task = tasks[index]
    return f"{task.name}[{rank}]" if task.nprocs > 1 else str(task.name)


def _whom(tasks: Sequence[TaskFacts], whom: Whom) -> str:
    if whom.first == whom.last:
        return _who(tasks, whom.task, whom.first)
    return f"{tasks[whom.task].name}[{whom.first}-{whom.last}]"


def _seconds(time: float) -> str:
    return f"{time:.0f}" if time >= 10 else f"{time:.1f}"
