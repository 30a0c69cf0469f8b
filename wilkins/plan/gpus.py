"""Decides which GPUs tasks see, where a port's arrays are, and by which path a channel's data go. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wilkins.plan.plan import Mode
from wilkins.spec.gpu_names import VISIBLE, number_of, visible
from wilkins.transport.plan_table import DevicePath


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs of the machine that a run is to use."""

    count: int
    """GPUs in the machine."""
    outer: str | None = None
    """`CUDA_VISIBLE_DEVICES` of the process that launches; None if it is not set."""

    @property
    def pool(self) -> tuple[str, ...]:
        """The GPUs that tasks are given, as `CUDA_VISIBLE_DEVICES` names them: indices or UUIDs."""
        return visible(self.outer, self.count)

    def __str__(self) -> str:
        if self.outer is None or not self.count:
            return f"this machine has {self.count or 'none'}"
        left = f"{len(self.pool) or 'none'} of the machine's {self.count}"
        return f"the launching process has {VISIBLE}={self.outer!r}, which leaves {left}"


@dataclass(frozen=True, slots=True)
class End:
    """Where the arrays of one end of a channel are."""

    device: str
    """``host``, ``pinned``, ``cuda`` or ``cuda:k``"""
    gpu: str | None = None
    """The GPU, as `CUDA_VISIBLE_DEVICES` names it."""
    why: str = ""
    """Why the end is on the host though another device was asked for: ``sees no GPU``."""
    lacks: bool = False
    """The GPU that was asked for does not exist: the plan cannot be run."""


def deal(wanted: Sequence[int | None], pool: Sequence[str]) -> list[tuple[str, ...] | None]:
    """Assign GPUs round robin to tasks that ask for so many; None: the task sees what the launcher sees.

    Tasks share GPUs once all are dealt; none gets the same one twice, so it may get fewer than it wants.
    """
    dealt: list[tuple[str, ...] | None] = []
    next_one = 0
    for count in wanted:
        if count is None:
            dealt.append(None)
            continue
        dealt.append(tuple(pool[(next_one + k) % len(pool)] for k in range(min(count, len(pool)))))
        next_one += count
    return dealt


def settle(asked: str | None, seen: Sequence[str], *, given: bool) -> End:
    """Where the arrays of a port are.

    Args:
        asked: the port's `device`; None if the workflow file gives none, which is the host.
        seen: the GPUs that the task sees.
        given: the task was given GPUs, by `gpus` or its `env`; without, `auto` is the host.
    """
    if asked is None or asked == "host":
        return End("host")
    if asked == "auto" and not given:
        return End("host", why="has no 'gpus'")
    number = number_of(asked)
    if number >= len(seen):
        why = f"sees {len(seen)} of the {number + 1} GPUs that {asked!r} needs" if seen else "sees no GPU"
        return End("host", why=why, lacks=asked.startswith("cuda"))
    return End("pinned") if asked == "pinned" else End("cuda" if asked == "auto" else asked, seen[number])


def channel_path(mode: Mode, writer: End, reader: End) -> tuple[DevicePath, str]:
    """How a channel's data get from one end to the other on one machine, and why."""
    if writer.device == reader.device == "host":
        reasons = [f"the {side} {end.why}" for side, end in (("writer", writer), ("reader", reader)) if end.why]
        return "host", "; ".join(reasons) or "both ends are on the host"
    if mode == "file":
        return "host", "the steps are on disk only"
    if writer.gpu is None or reader.gpu is None:
        return "pinned", f"the writer {_whereabouts(writer)}, the reader {_whereabouts(reader)}"
    if writer.gpu != reader.gpu:
        return "pinned", f"no GPU in common: the writer uses GPU {writer.gpu}, the reader GPU {reader.gpu}"
    if mode == "both":
        return "pinned", "the file on disk is written from host memory"
    return "ipc", f"both ends use GPU {writer.gpu}"


def _whereabouts(end: End) -> str:
    if end.gpu is not None:
        return f"uses GPU {end.gpu}"
    return "is pinned" if end.device == "pinned" else end.why or "is on the host"
