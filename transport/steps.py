"""The steps of a task's own in-port, name by name, for programs that know of Wilkins and work without it too."""

from __future__ import annotations

import ctypes
import difflib
import errno
import glob
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from wilkins.transport.board import native_library
from wilkins.transport.errors import NoSuchPort, NotAReader

_NAME_MAX = 1024


def names(pattern: str = "") -> Iterator[str]:
    """The names of the steps of an in-port of this task, as they come; outside of a run, of the files on disk.

    In a run, waits for each step (asleep; Ctrl-C works) and ends at the end of the stream; the port's policy says which
    steps are kept. Until the next name is asked for, a name means its step, however often it is opened, and the step
    is done with after that, opened or not. All reading ranks of a task get the same names in the same order. Outside of
    a run, and for files that no task of the run writes, these are the matching files on disk, ``x2`` before ``x10``::

        for name in wilkins.transport.steps.names("plt*.h5"):
            with h5py.File(name) as file:
                ...

    Args:
        pattern: the in-port's ``filename``; may be left out in a task with one in-port.

    Raises:
        FileNotFoundError: this is no in-port of the task, and no file matches.
        PermissionError: the port's ``nreaders`` leaves this rank out.
        InterruptedError: the run is being stopped.
    """
    index = port(pattern)
    return iter(on_disk(pattern)) if index is None else _from_port(index)


def port(pattern: str) -> int | None:
    """This task's in-port in memory, by number; None if there is none, as outside of a run.

    Raises:
        PermissionError: the port's ``nreaders`` leaves this rank out.
        OSError: the port cannot be asked for.
    """
    if "WILKINS_RUN" not in os.environ:
        return None
    index = int(_library().wilkins_steps_port(os.fsencode(pattern)))
    if index == -errno.EACCES:
        raise NotAReader(
            errno.EACCES,
            "this rank is none of the port's readers; raise 'nreaders', or ask on the first ranks only",
            pattern,
        )
    if index >= 0:
        return index
    if index not in (-errno.ENODEV, -errno.ENOENT):
        raise OSError(-index, f"the port cannot be asked for: {os.strerror(-index)}", pattern)
    return None


def leave(port: int) -> None:
    """The program is done with the last step of the in-port, and asks for no other."""
    _library().wilkins_steps_leave(port)


def by_turns(pattern: str) -> None:
    """Processes of this rank take the steps of an in-port by turns, one at a time, and mean to: the end of the run says
    nothing of it. Outside of a run, nothing happens."""
    index = port(pattern)
    if index is not None:
        _library().wilkins_steps_by_turns(index)


def _from_port(port: int) -> Iterator[str]:
    library = _library()
    name = ctypes.create_string_buffer(_NAME_MAX)
    try:
        while not (code := library.wilkins_steps_next(port, name)):
            yield os.fsdecode(name.value)
        if code != errno.ENOENT:
            if code == errno.EINTR:
                raise InterruptedError(code, "the run is being stopped")
            raise OSError(code, f"the next step cannot be asked for: {os.strerror(code)}")
    finally:
        leave(port)


def on_disk(pattern: str) -> list[str]:
    """The files that match, ``x2`` before ``x10``.

    Raises:
        FileNotFoundError: there is none.
    """
    if not pattern:
        raise NoSuchPort(
            errno.ENOENT, f"give the pattern of the files: there is not one in-port to choose{_in_memory()}"
        )
    found = sorted(glob.glob(pattern), key=_naturally)  # noqa: PTH207 - names come out as the pattern is written
    if not found:
        message = f"no file in {Path.cwd()} matches, and it is no in-port in memory{_in_memory()}"
        if close := difflib.get_close_matches(pattern, _in_ports(), n=1, cutoff=0.6):
            message += f"; did you mean {close[0]!r}?"
        raise NoSuchPort(errno.ENOENT, message, pattern)
    return found


def _in_memory() -> str:
    if "WILKINS_RUN" not in os.environ:
        return " (not in a run)"
    return f" (in-ports of this task: {', '.join(_in_ports()) or 'none'})"


def _in_ports() -> list[str]:
    """The patterns of this task's in-ports in memory; none outside of a run."""
    if "WILKINS_RUN" not in os.environ:
        return []
    text = ctypes.create_string_buffer(1 << 16)
    _library().wilkins_steps_ports(text, len(text))
    return os.fsdecode(text.value).split()


def _naturally(name: str) -> tuple[object, ...]:
    """Orders numbers in names by value: ``x2`` before ``x10``."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), len(part)) if place % 2 else part for place, part in enumerate(parts))


@cache
def _library() -> ctypes.PyDLL:
    """The layer in this process. It is called with Python's lock, and releases it while it waits, to see to signals."""
    library = ctypes.PyDLL(str(native_library()))
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "wilkins_steps_port": (ctypes.c_int, [ctypes.c_char_p]),
        "wilkins_steps_next": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p]),
        "wilkins_steps_by_turns": (None, [ctypes.c_int]),
        "wilkins_steps_leave": (None, [ctypes.c_int]),
        "wilkins_steps_ports": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
