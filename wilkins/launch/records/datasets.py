"""Finds datasets that no step has: those that the workflow file names, and those that programs asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wilkins.errors import count_of, suggest
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import Plan, PortPlan
from wilkins.schema.patterns import is_wild
from wilkins.terminal.wording import paragraphs
from wilkins.transport.board import Board
from wilkins.transport.report_table import Report

_STEPS = 3
_MOST_BYTES = 64 << 20
"""How many steps of a port are looked at, and how much of each."""

_MAX_MESSAGES = 8


def missing_datasets(plan: Plan, board: Board) -> list[str]:
    """A message for each port whose `dsets` name a dataset that none of the last steps holds. Those are looked at that
    are still in memory when the run has ended.

    Raises:
        BoardHeldError: the board could not be asked.
    """
    ports = BoardPorts(plan)
    writers = {channel.inport: channel.outport for channel in plan.channels}
    found: dict[tuple[str, str, str], str] = {}
    for port in plan.ports:
        source = plan.ports[port.index if port.direction == "out" else writers.get(port.index, port.index)]
        index = ports.index_of(source)
        if not port.dsets or source.direction != "out" or index is None:
            continue
        steps = [(path, size) for path, size in board.last_steps(index) if size and not path.is_symlink()]
        for path in (path for path in port.dsets if _is_checkable(path)):
            if steps and not any(_may_hold(*step, path) for step in steps[:_STEPS]):
                entry = (port.origin, port.pattern, path)
                found.setdefault(entry, _message(plan, port, source, path, steps[0][0]))
    return list(found.values())[:_MAX_MESSAGES]


def held(plan: Plan, board: Board, report: Report) -> dict[int, list[str]]:
    """By in-port, of those in whose steps programs did not find something: the datasets of the last step that is still
    in memory.

    Raises:
        BoardHeldError: the board could not be asked.
    """
    ports = BoardPorts(plan)
    found: dict[int, list[str]] = {}
    for channel in plan.channels:
        reads, writes = (ports.index_of(plan.ports[port]) for port in (channel.inport, channel.outport))
        if reads is not None and writes is not None and report.ports[reads].not_found and not found.get(reads):
            last = next((path for path, size in board.last_steps(writes) if size), None)
            found[reads] = list(_datasets(last)) if last else []
    return found


def not_found(report: Report, outcomes: Sequence[str], there: Mapping[int, Sequence[str]]) -> list[str]:
    """A message for each in-port in whose steps a program asked for what was not there, if it failed, or let HDF5 print
    an error: many programs ask for what may or may not be there, expect either, and print nothing.

    Args:
        outcomes: how the tasks have ended.
        there: by in-port, the datasets of a step.
    """
    said = []
    for place, port in enumerate(report.ports):
        failed = outcomes[port.task] == "failed"
        if not port.not_found or not (failed or port.not_found_printed):
            continue
        name, path, file = report.tasks[port.task].name, port.not_found_path, port.not_found_in
        others = port.not_found - 1
        known = [f"/{one}" for one in there.get(place, ())]
        said.append(
            paragraphs(
                f"{name}: {'failed after it had asked' if failed else 'asked'} {file!r} for {path!r}, which was not "
                f"there{suggest(path, known) if path not in known else ''}"
                + (f" ({count_of(others, 'more such question')} before)" if others else ""),
                *([f"the last step has {_some(known)}"] if known else []),
            )
        )
    return said[:_MAX_MESSAGES]


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")


def _is_checkable(path: str) -> bool:
    return not is_wild(path) and bool(path.strip("/"))


def _may_hold(step: Path, size: int, path: str) -> bool:
    """Whether a step's file has links with the names of which the path is made; if not, the dataset is not there. HDF5
    stores such a name with its length before it, or with a zero on either side."""
    import mmap

    words = [part.encode() for part in path.split("/") if part]
    try:
        with step.open("rb") as file, mmap.mmap(file.fileno(), min(size, _MOST_BYTES), access=mmap.ACCESS_READ) as data:
            return size > _MOST_BYTES or all(
                data.find(b"\0" + word + b"\0") >= 0 or data.find(bytes([len(word) & 0xFF]) + word) >= 0
                for word in words
            )
    except (OSError, ValueError):
        return True


def _message(plan: Plan, port: PortPlan, source: PortPlan, path: str, step: Path) -> str:
    task, writer = plan.tasks[port.task].name, plan.tasks[source.task].name
    there = list(_datasets(step))
    return paragraphs(
        f"{task}: `dsets` of its {port.direction}-port {port.pattern!r} names {path!r}, and no step that "
        f"{writer} published has such a dataset{suggest(path.strip('/'), there)}",
        *([f"the last step has {_some(there)}"] if there else []),
    )


def _datasets(step: Path) -> Iterator[str]:
    """Paths of all datasets in a file; none where it cannot be read."""
    found: list[str] = []
    with contextlib.suppress(Exception):  # it is only to say more
        import h5py

        with h5py.File(step, "r", locking=False) as file:
            file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    yield from found
