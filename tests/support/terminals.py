"""Programs at a terminal, and what its screen shows: of the control sequences, those that the launcher uses."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_SEQUENCE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


class Screen:
    """Lines that were written, and rewritten."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def feed(self, text: str) -> None:
        """Write to it."""
        for part in re.split(r"(\x1b\[\??[\d;]*[A-Za-z]|\r\n|\n)", text):
            if found := _SEQUENCE.fullmatch(part):
                self._obey(*found.groups())
            elif part in ("\r\n", "\n"):
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            else:
                self.lines[self._row] += part

    def _obey(self, number: str, what: str) -> None:
        if what == "F":
            self._row -= int(number)
            assert self._row >= 0
        elif what == "J":
            del self.lines[self._row + 1 :]
            self.lines[self._row] = ""
        else:
            assert number == "?7" or what == "m", (number, what)


def at_terminal(
    argv: Sequence[str | Path],
    folder: Path,
    seen: Callable[[str], None] = lambda _: None,
    rows: int = 40,
    columns: int = 120,
    limit_s: float = 60,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program at a terminal of its own; its exit code, and all that was written.

    Args:
        seen: is told all that was written so far, whenever there is more.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    size = {"COLUMNS": str(columns), "LINES": str(rows)}
    variables = {**os.environ, "TERM": "xterm", **size, **(env or {})}
    process = subprocess.Popen(argv, cwd=folder, stdin=its, stdout=its, stderr=its, env=variables)
    os.close(its)
    written, until = b"", time.monotonic() + limit_s
    try:
        while time.monotonic() < until:
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # all have closed it
                break
            if not data:
                break
            written += data
            seen(written.decode(errors="replace"))
        return process.wait(max(until - time.monotonic(), 1)), written.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
