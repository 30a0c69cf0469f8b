"""Serves the files that a task writes together, and that lie on this host, to its ranks on other hosts.

A process that a keeper starts for each task whose ranks are on several hosts. It is part of the run as a rank of the
task on this host is. `WILKINS_FILES_LISTENS` is the descriptor of the socket where ranks connect, with the key of the
run first (`WILKINS_FILES_KEY`).
"""

from __future__ import annotations

import ctypes
import os
import sys

from wilkins.transport.board import native_library

ADDRESS, KEY, LISTENS = "WILKINS_FILES", "WILKINS_FILES_KEY", "WILKINS_FILES_LISTENS"
ELSEWHERE = "WILKINS_FILES_ELSEWHERE"
"""The addresses of the task's servers on its other hosts, with commas between them."""


def serve(listens: int, key: str) -> int:
    """Serve at a socket until this process is ended; returns an errno if that cannot be. `key`: hexadecimal digits."""
    native = ctypes.CDLL(str(native_library())).wilkins_serve_files
    native.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    secret = bytes.fromhex(key)
    return -int(native(listens, secret, len(secret)))


if __name__ == "__main__":
    sys.exit(os.strerror(serve(int(os.environ[LISTENS]), os.environ[KEY])))
