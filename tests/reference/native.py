"""The native layer's queues driven by the words of `reference.words`, as far as they can be asked event by event."""

from __future__ import annotations

import ctypes
import errno
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reference.words import StoreCase

from support import hooks
from wilkins.flow import FlowPolicy
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask, values_of

EVENTS = frozenset({"create", "publish", "open", "close", "retry", "restart", "start", "end"})
"""What it knows. A call that waits leaves no word of that on the board, and steps are opened without being held."""


def can_do(case: StoreCase) -> bool:
    """Whether the case is one for the native layer: events that it knows, and of each out-port one channel."""
    words = {word for event, _ in case.events for word in event.split()[:2] if word.isalpha()}
    outports = [one["outport"] for one in case.setup["channels"]]
    # How many had steps it retains, it reckons in bytes.
    retains = all(port.get("retained") != 1 for port in case.setup["outports"])
    return words <= EVENTS and len(set(outports)) == len(outports) and retains


class NativeStore:
    """The queues, on the board of a run in which nobody else takes part. To be closed."""

    def __init__(self, setup: dict[str, Any], log: Path) -> None:
        self._setup = setup
        outports, inports = setup["outports"], setup["inports"]
        policies = [FlowPolicy(*one.get("policy", ())) for one in setup["channels"]]
        self._board = Board.create(
            [BoardTask(f"task{task}", ranks) for task, ranks in enumerate(setup["tasks"])],
            [BoardPort(port["task"], "out", port["pattern"]) for port in outports]
            + [BoardPort(port["task"], "in", port["pattern"]) for port in inports],
            [
                BoardChannel(
                    one["outport"],
                    len(outports) + one["inport"],
                    readers=inports[one["inport"]].get("readers", 1),
                    **values_of(FlowPolicy, policy),
                )
                for one, policy in zip(setup["channels"], policies, strict=True)
            ],
            log=log,
        )
        self._library = ctypes.CDLL(str(hooks.LIBRARY))
        self._library.wilkins_board_attach.restype = ctypes.c_void_p
        error = ctypes.c_int()
        self._handle = ctypes.c_void_p(
            self._library.wilkins_board_attach(str(self._board.path).encode(), ctypes.byref(error))
        )
        self._slots: dict[tuple[int, str], int] = {}
        self._published: dict[int, int] = {}
        self._waits: dict[str, list[str]] = {}

    def do(self, event: str) -> str:
        """Let something happen. A file that is missing is ``missing``, for whatever reason."""
        first, *words = event.split()
        if first in ("end", "restart"):
            self._board.task_exited(int(words[0]), final=first == "end")
            if first == "restart":
                self._board.task_started(int(words[0]))
            return "-"
        if first == "start":
            return self._board.task_started_for(int(words[0]), len(self._setup["outports"]) + int(words[1])) or "-"
        if words[0] == "close":
            return "-"
        if words == ["retry"]:
            words = self._waits[first]
        self._waits[first] = words
        task, rank = map(int, first.split("."))
        return self._call(task, rank, *words)

    def _call(self, task: int, rank: int, call: str, name: str) -> str:
        ports = self._setup["inports" if call == "open" else "outports"]
        port = next(k for k, port in enumerate(ports) if port["task"] == task and fnmatchcase(name, port["pattern"]))
        if call == "open":
            number = ctypes.c_uint64()
            inport = len(self._setup["outports"]) + port
            code = self._library.wilkins_try_open(self._handle, inport, rank, name.encode(), ctypes.byref(number))
            return {0: f"opened {number.value}", errno.EAGAIN: "wait", errno.ENOENT: "missing"}[code]
        source = sum(self._setup["tasks"][one["task"]] for one in ports[:port]) + rank
        if call == "create":
            self._slots[source, name] = self._library.wilkins_try_create(self._handle, source, name.encode())
            return "go" if self._slots[source, name] >= 0 else "wait"
        channel = next(k for k, one in enumerate(self._setup["channels"]) if one["outport"] == port)
        dropped = ctypes.c_int64()
        slot = self._slots.pop((source, name))
        kept = self._library.wilkins_try_publish(self._handle, slot, channel, ctypes.byref(dropped))
        step = self._published.get(source, 0)
        self._published[source] = step + 1
        lost = f", dropped {dropped.value}" if dropped.value >= 0 else ""
        return f"kept {step}{lost}" if kept else f"skipped {step}"

    def close(self) -> None:
        """Remove the board."""
        self._library.wilkins_board_detach(self._handle)
        self._board.remove()
