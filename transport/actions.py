"""The hooks of a Python task's `actions`: the object they are given, and how they are found and started.

Runs inside the program, before its first line, and imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

Callback = Callable[..., object]

_NAME_MAX = 1024
_EVENTS = (
    "before_file_open",
    "after_file_open",
    "before_file_close",
    "after_file_close",
    "before_dataset_write",
    "after_dataset_write",
)
_Hook = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_hooks: dict[str, Any] = {}
"""What the layer may call, by event: as long as the process lives."""


def takes(function: Callback, most: int) -> int:
    """How many positional arguments to give a function that may be given up to `most`.

    Raises:
        TypeError: it needs more.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built-in functions do not tell
        return most
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p for p in parameters if p.kind in kinds]
    needed = sum(p.default is p.empty for p in positional)
    needed_by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if needed > most or needed_by_name:
        raise TypeError(f"{getattr(function, '__name__', function)!s} needs more than {most} arguments")
    anything = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return most if anything else min(most, len(positional))


class Vol:
    """What an action's function is given to set callbacks and to say when files are served."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._warned: set[str] = set()
        self._serve_on_close = True
        self._keep = False

    def set_before_file_open(self, callback: Callback) -> None:
        """Call `callback(name)` or `callback()` before a file of a port is opened."""
        self._set("before_file_open", callback)

    def set_after_file_open(self, callback: Callback) -> None:
        """Call it after a file of a port was opened."""
        self._set("after_file_open", callback)

    def set_before_file_close(self, callback: Callback) -> None:
        """Call it when the last handle of a file is closed and all has been written, before it is published."""
        self._set("before_file_close", callback)

    def set_after_file_close(self, callback: Callback) -> None:
        """Call it after a file was closed."""
        self._set("after_file_close", callback)

    def set_before_dataset_write(self, callback: Callback) -> None:
        """Call `callback(path)` or `callback()` before a write to a dataset of an out-port's file."""
        self._set("before_dataset_write", callback)

    def set_after_dataset_write(self, callback: Callback) -> None:
        """Call it after a write to a dataset of an out-port's file."""
        self._set("after_dataset_write", callback)

    @property
    def serve_on_close(self) -> bool:
        """Whether closing a file publishes it."""
        return self._serve_on_close

    @serve_on_close.setter
    def serve_on_close(self, serves: bool) -> None:
        self._serve_on_close = bool(serves)
        self._library.wilkins_actions_serve_on_close(int(self._serve_on_close))

    def set_keep(self, keep: bool = True) -> None:
        """Whether files that are served stay, to be served again or reopened."""
        self._keep = bool(keep)
        self._library.wilkins_actions_keep(int(self._keep))

    @property
    def keep(self) -> bool:
        """The same as an attribute."""
        return self._keep

    @keep.setter
    def keep(self, keep: bool) -> None:
        self.set_keep(keep)

    def serve_all(self, *_ignored: object) -> None:
        """Publish what this rank has written: files that are open, as copies, and closed ones that were kept back.

        Raises:
            OSError: a file could not be published.
        """
        error = self._library.wilkins_actions_serve_all()
        if error:
            raise OSError(error, f"serve_all: {os.strerror(error)}; the run's layer.log may say more")

    def clear_files(self) -> None:
        """Forget this rank's closed files that were not served."""
        self._library.wilkins_actions_clear()

    def get_filenames(self, index: int = 0) -> list[str]:
        """The name of the step that the `index`-th in-port offers next, in a list; an empty list at the end. Waits."""
        name = ctypes.create_string_buffer(_NAME_MAX)
        length = self._library.wilkins_actions_next(index, name, _NAME_MAX)
        if length < 0:
            raise IndexError(f"get_filenames: the task has no in-port {index} in memory, or the run was stopped")
        return [os.fsdecode(name.value)] if length else []

    def is_passthru(self, filename: str, _dataset: str = "") -> bool:
        """Whether a file is a plain one, on disk."""
        return not self._library.wilkins_actions_matches(os.fsencode(filename))

    def broadcast_files(self, *_ignored: object) -> None:
        """Nothing to do: what one rank writes, all ranks see."""
        self._note("broadcast_files", "all ranks of a task see its files")

    def send_done(self, *_ignored: object) -> None:
        """Nothing to do: a step is let go when its readers turn to the next, or end."""
        self._note("send_done", "a step is let go when its readers turn to the next, or end")

    def set_send_filename(self, _callback: Callback) -> None:
        """Nothing to do: names are the program's own."""
        self._note("set_send_filename", "consumers match names by their port's pattern")

    def set_consumer_filename(self, _callback: Callback) -> None:
        """Nothing to do: names are the program's own; `get_filenames` tells the next one."""
        self._note("set_consumer_filename", "get_filenames tells the name of the next step")

    def set_passthru(self, *_ignored: object) -> None:
        """Nothing to do: the workflow file says what is on disk."""
        self._note("set_passthru", "the key 'mode' of a port says where its files are")

    def set_memory(self, *_ignored: object) -> None:
        """Nothing to do: the workflow file says what is in memory."""
        self._note("set_memory", "the key 'mode' of a port says where its files are")

    def _note(self, method: str, why: str) -> None:
        if method not in self._warned:
            self._warned.add(method)
            self._library.wilkins_actions_log(method.encode(), why.encode())

    def _set(self, event: str, callback: Callback) -> None:
        try:
            count = takes(callback, 1)
        except TypeError as error:
            raise TypeError(f"set_{event}: {error}") from None

        def hook(name: bytes) -> None:
            try:
                callback(*[os.fsdecode(name)][:count])
            except BaseException as error:  # none may pass through HDF5
                give_up(error)

        called = _Hook(hook)
        self._library.wilkins_actions_hook(_EVENTS.index(event), called)
        _hooks[event] = called  # only now may the one before go


def give_up(error: BaseException) -> NoReturn:
    """End the program because of an error in its actions, as an uncaught one would, with its traceback."""
    code = 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1 if error.code else 0
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    else:
        shown = traceback.TracebackException.from_exception(error)
        shown.stack = traceback.StackSummary.from_list([frame for frame in shown.stack if frame.filename != __file__])
        print("".join(shown.format()), end="", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def start(wanted: str) -> None:
    """Import the module of ``module:function:folder`` and call the function, before the program runs.

    `folder` is the workflow file's. What a resumed run of an earlier version says has none.
    """
    module_name, function_name, *home = wanted.split(":", 2)
    library = ctypes.CDLL(None)
    try:
        rank = int(library.wilkins_actions_rank())
    except AttributeError:
        return
    if rank < 0:
        return
    script = sys.argv[0] if sys.argv else ""
    folders = [*([str(Path(script).resolve().parent)] if script else []), str(Path.cwd()), *home]
    folders = list(dict.fromkeys(folders))
    before = list(sys.path)
    sys.path[:0] = folders
    try:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name.partition(".")[0]:
                raise
            fail(f"actions: there is no module {module_name!r} in {', '.join(folders)} or on PYTHONPATH; mend its name")
        function = getattr(module, function_name, None)
        if not callable(function):
            fail(f"actions: module {module_name!r} ({module.__file__}) has no function {function_name!r}")
        try:
            count = takes(function, 3)
        except TypeError as error:
            fail(f"actions: {error}; it is called as {function_name}(vol, rank) or {function_name}(vol, rank, pl_con)")
        function(*[Vol(library), rank, _in_patterns(library)][:count])
    except BaseException as error:
        give_up(error)
    finally:
        sys.path[:] = before


def fail(message: str) -> NoReturn:
    """End the program with a message."""
    print(message, file=sys.stderr, flush=True)
    os._exit(1)


def _in_patterns(library: ctypes.CDLL) -> dict[str, int]:
    """The task's in-ports by pattern."""
    patterns: dict[str, int] = {}
    text = ctypes.create_string_buffer(_NAME_MAX)
    while library.wilkins_actions_inport(len(patterns), text, _NAME_MAX) >= 0:
        patterns[os.fsdecode(text.value)] = len(patterns)
    return patterns
