"""Functions that a user names in a workflow file, as ``module:name`` or ``file.py:name``: found, imported, called."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wilkins.tasks.errors import TaskError


def load(name: str, key: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """The function or class that a text names.

    Args:
        name: ``module:name``, or ``file.py:name`` with a file looked for in `folders`, the first one first. Modules are
            looked for there as well.
        key: the option that holds the text, for messages.

    Raises:
        TaskError: there is no such file, module or name, it cannot be imported, or it is not callable.
    """
    place, _, path = name.rpartition(":")
    module = _from_file(place, name, key, folders) if place.endswith(".py") else _from_path(place, name, key, folders)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            there = sorted(one for one, value in vars(module).items() if callable(value) and not one.startswith("_"))
            raise TaskError(
                f"'{key}: {name}': {place} has no {path!r}; it has {', '.join(there[:20]) or 'no function'}"
            )
        found = getattr(found, part)
    if not callable(found):
        raise TaskError(f"'{key}: {name}': {path!r} is a {type(found).__name__}; name a function or a class")
    function: Callable[..., Any] = found
    return function


def _from_file(place: str, name: str, key: str, folders: Sequence[Path]) -> Any:
    tried = [(folder / Path(place).expanduser()).resolve() for folder in folders]
    file = next((path for path in tried if path.is_file()), None)
    if file is None:
        where = " nor ".join(dict.fromkeys(str(path) for path in tried))
        raise TaskError(f"'{key}: {name}': there is no file {where}; mend the path")
    module_name = f"wilkins_user_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    _with_neighbours([file.parent])
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"'{key}: {name}': {file} cannot be imported: {told(error)}; mend it") from error
    return module


def _from_path(place: str, name: str, key: str, folders: Sequence[Path]) -> Any:
    _with_neighbours([folder.resolve() for folder in folders])
    try:
        return importlib.import_module(place)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name and f"{place}.".startswith(f"{error.name}.")
        if missing:
            raise TaskError(
                f"'{key}: {name}': there is no module {place!r}; install it, or name a file: 'file.py:name'"
            ) from error
        raise TaskError(f"'{key}: {name}': the module {place!r} cannot be imported: {told(error)}; mend it") from error


def _with_neighbours(folders: Sequence[Path]) -> None:
    """Lets a user's code import what lies beside it, after everything that is installed."""
    sys.path.extend(str(folder) for folder in folders if str(folder) not in sys.path)


def told(error: BaseException) -> str:
    """An error of a user's code in a line: what it says, and the line of the file it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    said = " ".join(str(error).split()) or "no message"
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {said}{where}"


def is_users(error: BaseException) -> bool:
    """Whether an error comes up in a user's code, or in what that calls."""
    return any(not _is_library(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def _is_library(filename: str) -> bool:
    if filename.startswith("<") or "site-packages" in filename or "/lib/python" in filename:
        return True
    return Path(filename).resolve().is_relative_to(Path(__file__).resolve().parent)
