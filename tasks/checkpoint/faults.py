"""Fault injection: named points at which tests let a process die.

`WILKINS_CHECKPOINT_FAULTS=kill=commit.renamed:2,rank=1` kills rank 1 with SIGKILL the second time it gets to that
point (without a number: the first time; without a rank: every rank). Unset, a point costs a look at a constant.
"""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "WILKINS_CHECKPOINT_FAULTS"
POINTS = (
    "save.planned",
    "save.captured",
    "flush.begun",
    "flush.block",
    "flush.written",
    "flush.synced",
    "commit.voted",
    "partners.sent",
    "partners.coded",
    "partners.prepared",
    "partners.renamed",
    "commit.manifest",
    "commit.renamed",
    "commit.latest",
    "copy.begun",
    "copy.synced",
    "prune.hidden",
    "prune.removed",
    "memory.hidden",
    "decode.begun",
    "decode.piece",
    "decode.written",
    "restore.verified",
    "restore.read",
)
"""Every point there is, in the order in which a version meets them."""


def _settings(text: str) -> tuple[str, int, int | None]:
    words = dict(word.split("=", 1) for word in text.split(",") if word)
    point, _, count = words.get("kill", "").partition(":")
    if point not in POINTS:
        raise ValueError(f"{VARIABLE}={text}: there is no point {point!r}; there are {', '.join(POINTS)}")
    return point, int(count or 1), int(words["rank"]) if "rank" in words else None


_ENABLED = _settings(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
_LOCK = threading.Lock()
_hits = 0


def hit(point: str, rank: int) -> None:
    """Die here, if that is asked for."""
    global _hits
    if _ENABLED is None:
        return
    name, count, whom = _ENABLED
    if point != name or whom not in (None, rank):
        return
    with _LOCK:
        _hits += 1
        if _hits == count:
            os.kill(os.getpid(), signal.SIGKILL)
