"""The options of checkpoints of a stream: what the section `checkpoint:` of a task may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wilkins.schema.kinds import choice, duration, integer, number, size, text
from wilkins.schema.patterns import intersect
from wilkins.schema.reading import Where, key
from wilkins.schema.sections import SectionList
from wilkins.tasks.registry import ReadyMade
from wilkins.values import dataclass

_INSTANCE = "{instance}"
_MOST_PLACES = 32
_OTHERS = ("manifest.json", "index-0.json", "latest", ".lock")
"""What lies beside the program's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlace:
    """A folder for pieces of checkpoints: a disk, or a folder of another host."""

    path: str = key(text(), doc="The folder, made if it is missing; relative to the task's.")
    space: int = key(
        size("a number of bytes such as 500GB or 2TiB (0: what the file system has)"),
        default=0,
        doc="Bytes that pieces may take there (0: what its file system has free).",
    )
    write: int = key(size("bytes per second such as 200MB"), default=100_000_000, doc="Bytes per second.")
    read: int = key(size("bytes per second such as 200MB"), default=100_000_000, doc="Bytes per second.")
    annual_failure: float = key(
        number(), default=0.02, doc="How many of such disks or hosts are lost in a year, as a share: 0.02 is 2 %."
    )
    domain: str = key(
        text(),
        default="",
        doc="What fails as a whole: the name of a host or a rack. Left out: the file system that the folder is on.",
    )
    where: Where


def _label(context: str, texts: dict[str, str]) -> str:
    return f"{context}, place {texts['path']!r}" if texts.get("path") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Which steps of the in-port become checkpoints, and where they are kept."""

    folder: str = key(
        text(),
        default="checkpoints",
        doc="Folder of the checkpoints, made if it is missing; relative to the task's. `latest` in it leads to the "
        "newest one. One for each instance: with `{instance}` in it.",
    )
    filename: str = key(
        text(),
        default="checkpoint.h5",
        doc="What the program's file is called in a checkpoint, so that it restarts from `FOLDER/latest/FILENAME`. No "
        "port of the program may match it: inside of a run, that would be a step.",
    )
    every: int | None = key(
        integer(1),
        default=None,
        doc="Every n-th step goes to storage, the first one included; left out, with `seconds` too: each. The last one "
        "always does.",
    )
    seconds: float | None = key(
        duration(), default=None, doc="A step goes to storage, too, when this time has passed since the last that did."
    )
    memory: int = key(
        integer(1, 8),
        default=2,
        doc="How many of the newest steps are held in memory, up to 8, while they wait for storage.",
    )
    when_full: str = key(
        choice("drop-oldest", "block"),
        default="drop-oldest",
        doc="When storage is slower than the program: `drop-oldest` leaves steps out, `block` lets the program wait.",
    )
    keep: int = key(integer(1), default=3, doc="How many checkpoints storage keeps, the newest.")
    rate: int = key(size(), default=0, doc="Bytes per second that are written to storage, at most (0: no limit).")
    storage: tuple[StoragePlace, ...] = key(
        SectionList(StoragePlace, "place", _label),
        default=(),
        doc="Places over which checkpoints are spread, too, as pieces; any of them may be lost as long as enough are "
        "left. Left out: none.",
    )
    reliability: float = key(
        number(), default=0.9999, doc="With `storage`: how likely a checkpoint is to be readable after `years`."
    )
    years: float = key(
        number(), default=1.0, doc="With `storage`: for how long, if no lost place is replaced meanwhile."
    )
    where: Where


def _check_places(options: Checkpoint, task: Any) -> Iterator[tuple[str, str]]:
    paths = [one.path for one in options.storage]
    if len(paths) == 1 or len(paths) > _MOST_PLACES or len(set(paths)) < len(paths):
        yield "storage", f"{len(paths)} places; give 2 to {_MOST_PLACES}, each once"
    if wrong := next((one for one in options.storage if min(one.write, one.read) <= 0 or one.annual_failure < 0), None):
        yield "storage", f"{wrong.path!r}: 'write', 'read' and 'annual_failure' are rates; give positive numbers"
    if not 0 < options.reliability < 1:
        yield "reliability", f"{options.reliability:g} is no probability below 1; give for example 0.9999"
    if options.years <= 0:
        yield "years", f"{options.years:g} is no time; give for example 1, or 0.1"
    if paths and task.taskCount > 1 and not all(task.instances.differs(f"{path} {task.cwd}") for path in paths):
        yield "storage", f"{task.taskCount} instances would write to {paths[0]!r}; write '{paths[0]}/{_INSTANCE}'"


def _check(options: Checkpoint, task: Any) -> Iterator[tuple[str, str]]:
    if len(task.inports) != 1 or task.outports:
        yield (
            "folder",
            f"the task needs one in-port and no out-port, and has {len(task.inports)} and {len(task.outports)}; give "
            "each stream a task of its own",
        )
    if task.nprocs != 1:
        yield "folder", f"the task has {task.nprocs} ranks, and works on one; remove 'nprocs'"
    folders = {sections["checkpoint"].folder for sections in task.variants}
    if len(folders) < task.taskCount > 1 and not task.instances.differs(f"{options.folder} {task.cwd}"):
        yield (
            "folder",
            f"{task.taskCount} instances would write to {options.folder!r}; write for example "
            f"'{options.folder}/{_INSTANCE}'",
        )
    yield from _check_places(options, task)
    name = options.filename
    if "/" in name or name.startswith((".", "index-")) or name in _OTHERS:
        yield (
            "filename",
            f"{name!r} cannot be the file's name; give a plain one such as 'checkpoint.h5', without folder",
        )
    for port in task.inports:
        if intersect(port.filename, name):
            cure = "give another, such as 'restart.dat'"
            yield "filename", f"the in-port {port.filename!r} matches {name!r}, which would be a step then; {cure}"
        elif own := next((other for other in _OTHERS if intersect(port.filename, other)), None):
            yield "folder", f"the in-port {port.filename!r} matches {own!r}, which lies in it too; name it more closely"


TASK = ReadyMade(
    name="checkpoint",
    doc="Holds a program's own checkpoint files in memory and writes them to storage while it runs; the newest one "
    "is always whole.",
    options=Checkpoint,
    module="wilkins.tasks.checkpoint.stream.task",
    check=_check,
)
