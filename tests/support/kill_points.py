"""Named points at which tests kill programs that checkpoint: before and after calls of functions of the library.

The library knows nothing of them. `kill_at` and `counted_in` give the environment of a program; with it, Python starts
by `killed/sitecustomize.py`, which wraps the functions.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "wilkins.tasks.checkpoint"
KILL, COUNT = "WILKINS_TEST_KILL_AT", "WILKINS_TEST_COUNT_POINTS_IN"


@dataclass(frozen=True, slots=True)
class Call:
    """Before or after a call of a function, as it is found in a module of the package, or beside it (`.group`)."""

    module: str
    function: str
    after: bool = False
    caller: str = ""
    """Name of the function that calls it; empty: any."""


def _before(module: str, function: str, caller: str = "") -> Call:
    return Call(module, function, False, caller)


def _after(module: str, function: str, caller: str = "") -> Call:
    return Call(module, function, True, caller)


POINTS: dict[str, tuple[Call, ...]] = {
    "save.planned": (_after("engine.checkpointer", "Checkpointer._let_optimizers_wait"),),
    "save.captured": (_after("engine.capture", "Capture._capture"),),
    "flush.begun": (_before("engine.flush", "Flush._write"), _before("stream.task", "_write")),
    "flush.block": (_after("engine.flush", "Flush._write_block"), _after("storage.files", "File.write", "_write")),
    "flush.written": (_after("engine.flush", "Flush._write_blocks"), _before("storage.files", "File.cut")),
    "flush.synced": (_after("engine.flush", "sync", "_write"), _before("stream.task", "Manifest")),
    "commit.voted": (_before("engine.flush", "Flush._commit"),),
    "partners.sent": (_before("partners.parity", "_Coding._swapped"),),
    "partners.coded": (_after("partners.parity", "_Coding._keep"),),
    "partners.prepared": (_after("partners.parity", "NodeMemories._prepared"),),
    "partners.renamed": (_after("partners.parity", "NodeMemories._rename", "commit"),),
    "commit.manifest": (_after("storage.versions", "write_manifest", "commit"),),
    "commit.renamed": (_after("storage.versions", "atomic.commit", "commit"),),
    "commit.latest": (_after("storage.versions", "commit"),),
    "copy.begun": (_before("storage.levels", "relaid", "copy"),),
    "copy.synced": (_after("storage.levels", "copy_stream", "copy"),),
    "prune.hidden": (_after("storage.versions", "hide", "prune"),),
    "prune.removed": (_after("storage.versions", "remove", "prune"),),
    "memory.hidden": (_before("storage.levels", "shutil.rmtree", "forget"),),
    "decode.begun": (_before("partners.rescue", "Remembered.fetch"),),
    "decode.piece": tuple(_after(".group", f"{kind}Group.exchange", "_decode") for kind in ("MPI", "Torch")),
    "decode.written": (_before("partners.rescue", "Contents", "_verified"),),
    "restore.verified": (_before("engine.restore", "_load"),),
    "restore.read": (_after("engine.restore", "_Loader.load"),),
}
"""Every point there is, in the order in which a version meets them."""

_rank = 0


def kill_at(point: str, count: int = 1, rank: int | None = None) -> dict[str, str]:
    """The environment of a program of which a rank (None: any) dies the `count`-th time it gets to a point."""
    assert point in POINTS, point
    return _environment(KILL, f"{point} {count} {'' if rank is None else rank}")


def counted_in(folder: Path) -> dict[str, str]:
    """The environment of a program that writes to files `RANK` of a folder, which is there, each point it gets to."""
    return _environment(COUNT, str(folder))


def _environment(name: str, value: str) -> dict[str, str]:
    startup = str(Path(__file__).parents[1] / "killed")
    return {name: value, "PYTHONPATH": os.pathsep.join([startup, *filter(None, [os.environ.get("PYTHONPATH")])])}


def install() -> None:
    """Wrap the functions, in a program that was given such an environment."""
    _wrap(_after("engine.checkpointer", "make_ranks"), _note_rank)
    if folder := os.environ.get(COUNT):
        for point in POINTS:
            for call in POINTS[point]:
                _wrap(call, functools.partial(_write_down, Path(folder), point))
    if wanted := os.environ.get(KILL):
        point, count, rank = wanted.split(" ")
        kill = _Kill(int(count), int(rank) if rank else None)
        for call in POINTS[point]:
            _wrap(call, kill)


def _note_rank(ranks: Any) -> None:
    global _rank
    _rank = ranks.rank


def _write_down(folder: Path, point: str, _: Any) -> None:
    with (folder / str(_rank)).open("a") as file:
        file.write(f"{point}\n")


class _Kill:
    def __init__(self, count: int, rank: int | None) -> None:
        self._left, self._whom, self._lock = count, rank, threading.Lock()

    def __call__(self, _: Any) -> None:
        if self._whom not in (None, _rank):
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _wrap(call: Call, act: Callable[[Any], None]) -> None:
    owner: Any = importlib.import_module(f".{call.module}", PACKAGE)
    *path, name = call.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    wrapped = getattr(owner, name)

    @functools.wraps(wrapped, updated=())
    def wrapper(*arguments: Any, **named: Any) -> Any:
        met = call.caller in ("", sys._getframe(1).f_code.co_name)
        if met and not call.after:
            act(None)
        result = wrapped(*arguments, **named)
        if met and call.after:
            act(result)
        return result

    setattr(owner, name, wrapper)
