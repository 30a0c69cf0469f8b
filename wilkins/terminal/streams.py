"""The standard streams as a command finds them: closed, full, read by nobody, or unable to show every letter.

Output that cannot be written is left out and changes no run; `finish` reports it at the end.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

from wilkins.errors import cure

_ESCAPED = "wilkins-escaped"
_OUTPUT, _ERRORS = 1, 2

_refused: dict[int, OSError] = {}


def settle() -> None:
    """Make the streams usable: /dev/null in the place of closed ones, and escapes for letters that one cannot show."""
    # The next files that are opened would take the places of closed streams, and what is shown would land in them.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _ERRORS:
        os.set_inheritable(opened, True)
    os.close(opened)
    sys.stdin = sys.stdin or _opened(0, "r")
    sys.stdout = sys.stdout or _opened(_OUTPUT, "w")
    sys.stderr = sys.stderr or _opened(_ERRORS, "w")
    codecs.register_error(_ESCAPED, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _opened(number: int, mode: str) -> Any:
    return os.fdopen(number, mode, encoding="utf-8", closefd=False)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """The bytes of letters that a stream has no code for, as they stand in the names of files."""
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    try:
        name = letters.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which stands for no byte
        name = letters.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in name), error.end


def show(text: str, end: str = "\n") -> None:
    """Print a text on standard output."""
    with _writing(_OUTPUT):
        print(text, end=end, flush=True)


def show_bytes(data: bytes) -> None:
    """Write bytes that are no text."""
    with _writing(_OUTPUT):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def log(text: str, end: str = "\n") -> None:
    """Print a message about the command on the error stream."""
    with _writing(_ERRORS):
        print(text, end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _writing(number: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _refused.setdefault(number, error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def finish() -> int:
    """Flush the streams before Python does, which words failures in its own way.

    Returns:
        The exit code of a command that went well otherwise: a reader that has gone away is no error, nor is an error
        stream that cannot be written; an output that is cut short is one.
    """
    with _writing(_OUTPUT):
        sys.stdout.flush()
    error = _refused.get(_OUTPUT)
    _refused.clear()
    failed = error is not None and not isinstance(error, BrokenPipeError)
    if error is not None and failed:
        log(f"wilkins: error: standard output: cannot write to it: {error.strerror}; {cure(error)}")
    with _writing(_ERRORS):
        sys.stderr.flush()
    return int(failed)
