"""Serves the files that a task writes together, and that lie on this host, to its ranks on other hosts.

A process that a keeper starts for each task whose ranks are on several hosts. It is part of the run as a rank of the
task on this host is. `WILKINS_FILES_LISTENS` is the descriptor of the socket where ranks connect. Those who know the
run's key are served (`handshake.py`), by threads of the layer (`far/serving.hpp`).
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
from pathlib import Path
from typing import Any

from wilkins.transport import handshake
from wilkins.transport.board import native_library

ADDRESS, LISTENS = "WILKINS_FILES", "WILKINS_FILES_LISTENS"
ELSEWHERE = "WILKINS_FILES_ELSEWHERE"
"""The addresses of the task's servers on its other hosts, with commas between them."""

SERVICE = "files"


_RANGES = ctypes.POINTER(ctypes.c_uint64)
_OWNERS = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_uint64,
    _RANGES,
    ctypes.c_uint64,
    _RANGES,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_uint64,
)


def _pairs(ranges: ctypes._Pointer[ctypes.c_uint64], count: int) -> list[tuple[int, int]]:
    return [(ranges[2 * number], ranges[2 * number + 1]) for number in range(count)]


def _owners(at: int, size: int, here: Any, here_count: int, ranges: Any, count: int, words: int, room: int) -> None:
    """Say whose bytes those are that were damaged on their way."""
    from wilkins.contents.owners import owners  # it brings h5py

    data = memoryview((ctypes.c_char * size).from_address(at)).cast("B") if size else memoryview(b"")
    said = owners(data.toreadonly(), _pairs(here, here_count), _pairs(ranges, count)).encode()[: room - 1]
    ctypes.memmove(words, said, len(said))


def run_key() -> handshake.RunKey:
    """The key of the run that this process is part of."""
    return handshake.read_key(Path(os.environ["WILKINS_RUN"]))


def _allow_open_files() -> None:
    """Allow this process as many descriptors as the system does: each open file of each rank on another host takes one
    or two. It starts no programs, which would get this limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(listener: socket.socket) -> None:
    """Serve whoever connects there and knows the key, until this process ends."""
    _allow_open_files()
    native = ctypes.CDLL(str(native_library())).wilkins_serve_far_file
    owners = _OWNERS(_owners)
    native.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, _OWNERS]
    run = run_key()
    door = handshake.AuthenticatedListener(listener, SERVICE, run.key)
    for wire in door:
        keys = handshake.frame_keys(run.key, SERVICE, "server", door.seen(wire)) if run.encrypts else b""
        native(wire.detach(), keys, len(keys), owners)  # which closes it if that cannot be


if __name__ == "__main__":
    serve(socket.socket(fileno=int(os.environ[LISTENS])))
