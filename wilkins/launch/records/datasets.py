"""Finds datasets that the workflow file names and that no step had."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import Plan, PortPlan
from wilkins.schema.patterns import is_wild
from wilkins.terminal.wording import paragraphs
from wilkins.transport.board import Board

_STEPS = 3
_MOST_BYTES = 64 << 20
"""How many steps of a port are looked at, and how much of each."""

_MOST_TOLD = 8


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
        for path in (path for path in port.dsets if _can_be_told(path)):
            if steps and not any(_may_hold(*step, path) for step in steps[:_STEPS]):
                entry = (port.origin, port.pattern, path)
                found.setdefault(entry, _message(plan, port, source, path, steps[0][0]))
    return list(found.values())[:_MOST_TOLD]


def _can_be_told(path: str) -> bool:
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
    shown = ", ".join(repr(name) for name in there[:6]) + (f" and {len(there) - 6} more" if there[6:] else "")
    from wilkins.errors import suggest

    return paragraphs(
        f"{task}: `dsets` of its {port.direction}-port {port.pattern!r} names {path!r}, and no step that "
        f"{writer} published has such a dataset{suggest(path.strip('/'), there)}",
        *([f"the last step has {shown}"] if there else []),
    )


def _datasets(step: Path) -> Iterator[str]:
    """Paths of all datasets in a file; none where it cannot be read."""
    found: list[str] = []
    with contextlib.suppress(Exception):  # it is only to say more
        import h5py

        with h5py.File(step, "r", locking=False) as file:
            file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    yield from found
