"""The two machines of a channel's queue, driven by the same words: the reference, and the native layer on a board."""

from __future__ import annotations

import ctypes
import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from support import hooks
from wilkins.flow import FlowPolicy
from wilkins.flow.machine import ChannelQueue, Ended, Go, Kept, Opened
from wilkins.flow.machine import Wait as Waits
from wilkins.transport.board import Board
from wilkins.transport.plan_table import Begin, BoardChannel, BoardPort, BoardTask, FirstStep, values_of

TABLE = Path(__file__).with_name("flow_cases.json")


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the table: events, and what a machine must answer to each."""

    name: str
    policy: FlowPolicy
    readers: int
    events: tuple[str, ...]
    answers: tuple[str, ...]
    begin: int = 0
    first: int = 0


def table() -> list[Case]:
    """The cases of the table."""
    return [
        Case(
            line["name"],
            FlowPolicy(*line["policy"]),
            line["readers"],
            tuple(event for event, _ in line["events"]),
            tuple(answer for _, answer in line["events"]),
            *line.get("resumed", (0, 0)),
        )
        for line in json.loads(TABLE.read_text(encoding="utf-8"))
    ]


class Machine(Protocol):
    """Takes events, gives answers.

    ================  =========================================================
    ``create``        ``go`` or ``wait``
    ``publish``       ``kept N``, ``kept N, dropped M`` or ``skipped N``
    ``open R``        by rank R: ``opened N``, ``wait`` or ``ended``
    ``restart``       of the reading task: ``-``
    ``leave``         of the reading task, for good: ``-``
    ``end``           of the producer: ``-``
    ================  =========================================================
    """

    def do(self, event: str) -> str:
        """Let something happen."""

    def queued(self) -> int:
        """Steps that some rank has yet to open."""


class Reference:
    """wilkins/flow/machine.py."""

    def __init__(self, policy: FlowPolicy, readers: int, begin: int = 0, first: int = 0) -> None:
        self._queue = ChannelQueue(policy, readers, begin, first)

    def do(self, event: str) -> str:
        word, _, rank = event.partition(" ")
        match word:
            case "create":
                return "go" if self._queue.create() == Go() else "wait"
            case "publish":
                published = self._queue.publish()
                if isinstance(published, Kept):
                    return _kept(published.step, published.dropped)
                return f"skipped {published.step}"
            case "open":
                match self._queue.open(int(rank)):
                    case Opened(step):
                        return f"opened {step}"
                    case Ended():
                        return "ended"
                    case Waits():
                        return "wait"
        {"restart": self._queue.restart, "leave": self._queue.leave, "end": self._queue.end}[word]()
        return "-"

    def queued(self) -> int:
        return len(self._queue.queued())


class Native:
    """The native layer's queue, on the board of a run in which nobody else takes part. To be closed."""

    def __init__(self, policy: FlowPolicy, readers: int, log: Path, begin: int = 0, first: int = 0) -> None:
        self._board = Board.create(
            [BoardTask("sim", 1), BoardTask("look", readers)],
            [BoardPort(0, "out", "out.h5"), BoardPort(1, "in", "out.h5")],
            [BoardChannel(0, 1, readers=readers, **values_of(FlowPolicy, policy))],
            begins=[Begin(0, 0, begin)],
            first_steps=[FirstStep(0, 0, first, begin)],
            log=log,
        )
        self._library = ctypes.CDLL(str(hooks.LIBRARY))
        error = ctypes.c_int()
        self._library.wilkins_board_attach.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(
            self._library.wilkins_board_attach(str(self._board.path).encode(), ctypes.byref(error))
        )
        self._slot = -1
        self._published = begin

    def do(self, event: str) -> str:
        word, _, rank = event.partition(" ")
        match word:
            case "create":
                self._slot = self._library.wilkins_try_create(self._handle, 0, b"out.h5")
                return "go" if self._slot >= 0 else "wait"
            case "publish":
                dropped = ctypes.c_int64()
                kept = self._library.wilkins_try_publish(self._handle, self._slot, 0, ctypes.byref(dropped))
                step = self._published
                self._published += 1
                return _kept(step, dropped.value if dropped.value >= 0 else None) if kept else f"skipped {step}"
            case "open":
                step_opened = ctypes.c_uint64()
                code = self._library.wilkins_try_open(self._handle, 1, int(rank), b"out.h5", ctypes.byref(step_opened))
                return {0: f"opened {step_opened.value}", errno.EAGAIN: "wait", errno.ENOENT: "ended"}[code]
            case "restart":
                self._board.task_exited(1, final=False)
                self._board.task_started(1)
            case "leave":
                self._board.task_exited(1, final=True)
            case "end":
                self._board.task_exited(0, final=True)
        return "-"

    def queued(self) -> int:
        waiting: int = self._board.report().channels[0].queued
        return waiting

    def close(self) -> None:
        """Remove the board."""
        self._library.wilkins_board_detach(self._handle)
        self._board.remove()


def _kept(step: int, dropped: int | None) -> str:
    return f"kept {step}" if dropped is None else f"kept {step}, dropped {dropped}"
