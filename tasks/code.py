"""Functions that a user names in a workflow file, as ``module:name`` or ``file.py:name``: found, imported, called."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from wilkins.tasks.errors import TaskError

_DYNAMIC = {"globals", "locals", "vars", "setattr", "exec", "__getattr__"}
"""What a module makes names with that its text does not show."""


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


def problem(name: str, folders: Sequence[Path], path: Sequence[str] = (), *, elsewhere: bool = False) -> str:
    """Why a function cannot be loaded, as far as the text of its file shows; nothing is executed.

    Args:
        name: as `load` takes it.
        folders: as `load` takes them.
        path: folders in which the task's Python looks for modules before those in which this one does.
        elsewhere: the task may see other modules than this process, as in a container; so one that is missing here is
            no problem.
    """
    try:
        file = source(name, folders, path, elsewhere)
        tree = ast.parse(file.read_bytes()) if file else None
    except TaskError as error:
        return str(error)
    except OSError as error:
        return f"{name.rpartition(':')[0]} cannot be read: {error.strerror}; mend its rights"
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"{file} is not valid Python{line}: {error.args[0]}; mend it"
    if file is None or tree is None:
        return ""
    names = set(_names(tree.body))
    first = name.rpartition(":")[2].partition(".")[0]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if first in names or "*" in names or (used | names) & _DYNAMIC or _replaces_itself(file):
        return ""
    if file.name == "__init__.py" and _spec(first, [str(file.parent)]):
        return ""
    there = sorted(one for one in names if not one.startswith("_"))
    return f"{file} has no {first!r}" + (
        _near(first, there) or f"; it has {', '.join(there[:20]) or 'no function'}; name one of its own"
    )


def misfit(
    name: str,
    folders: Sequence[Path],
    ports: int,
    words: int,
    path: Sequence[str] = (),
    *,
    elsewhere: bool = False,
) -> str:
    """Why a function cannot be called with this number of ports and further words, as far as its file's text shows;
    the other arguments are those of `problem`."""
    if message := problem(name, folders, path, elsewhere=elsewhere):
        return message
    file = source(name, folders, path, elsewhere)
    if file is None:
        return ""
    called = name.rpartition(":")[2]
    body = ast.parse(file.read_bytes()).body
    found = [one for one in body if isinstance(one, ast.FunctionDef) and one.name == called]
    if len(found) != 1 or found[0].decorator_list:
        return ""
    taken = found[0].args
    parameters = [one.arg for one in (*taken.posonlyargs, *taken.args)]
    least, given = len(parameters) - len(taken.defaults), ports + words
    if least <= given and (taken.vararg or given <= len(parameters)):
        return ""
    shown = f"{called}({', '.join(parameters)}{', ...' if taken.vararg else ''})"
    place = name.rpartition(":")[0]
    return (
        f"{place if place.endswith('.py') else file}, line {found[0].lineno}: {shown} is called with the task's "
        f"in-ports, its out-ports and its 'args', in this order, and these are {ports} and {words}; mend the one or "
        "the other"
    )


def source(name: str, folders: Sequence[Path], path: Sequence[str] = (), elsewhere: bool = False) -> Path | None:
    """The file with the text of a function's module; None: it has none, or only an import could find it.

    Raises:
        TaskError: there is no such file or module.
    """
    place = name.rpartition(":")[0]
    if place.endswith(".py"):
        return _found(place, folders)
    searched = [*path, *sys.path, *(str(folder.resolve()) for folder in folders)]
    above: Path | None = None
    is_open = False  # a package whose modules cannot be known before it is imported
    for number, part in enumerate(place.split(".")):
        spec = _spec(part, searched, first=not number)
        if spec is None:
            if elsewhere or is_open:
                return None
            within = [Path(one) for one in searched] if number else list(folders)
            there = {one.stem for folder in within for one in folder.glob("*.py") if one.stem != "__init__"}
            raise TaskError(
                f"there is no module {place!r}"
                + (_near(part, sorted(there)) or "; install it, or name a file: 'file.py:name'")
            )
        searched = list(spec.submodule_search_locations or ())
        origin = spec.origin if spec.has_location else None
        above = Path(origin) if origin and origin.endswith(".py") else None
        is_open = _replaces_itself(above) if above else spec.origin is not None
    return above


def _spec(part: str, searched: Sequence[str], *, first: bool = False) -> ModuleSpec | None:
    """Where the import system finds a module in the folders, and a first one also elsewhere (built in, frozen, by
    finders of editable installations). Called with the last part of a module's name, it imports none above it."""
    finders = [one for one in sys.meta_path if first and one is not PathFinder]
    for finder in finders:
        if hasattr(finder, "find_spec") and (spec := finder.find_spec(part, None)):
            return spec
    return PathFinder.find_spec(part, list(searched))


def _replaces_itself(file: Path) -> bool:
    """Whether a module changes how it, or what is in it, is found as it is imported."""
    text = file.read_bytes()
    return b"sys.modules" in text or b"__path__" in text


def _names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names that a module's statements give, also those in ``if`` and ``try``; ``*`` for all of another module."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            yield from (one for inner in ast.walk(node) if isinstance(inner, ast.Global) for one in inner.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            yield from _names(list(ast.iter_child_nodes(node)))


def _found(place: str, folders: Sequence[Path]) -> Path:
    """The file that a text names.

    Raises:
        TaskError: there is none.
    """
    tried = list(dict.fromkeys((folder / Path(place).expanduser()).resolve() for folder in folders))
    file = next((path for path in tried if path.is_file()), None)
    if file is not None:
        return file
    above = Path(place).parent
    there = sorted({str(above / one.name) for path in tried for one in path.parent.glob("*.py")})
    raise TaskError(f"there is no file {' nor '.join(map(str, tried))}" + (_near(place, there) or "; mend the path"))


def _from_file(place: str, name: str, key: str, folders: Sequence[Path]) -> Any:
    try:
        file = _found(place, folders)
    except TaskError as error:
        raise TaskError(f"'{key}: {name}': {error}") from None
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
        raise TaskError(f"'{key}: {name}': {file} cannot be imported: {described(error)}; mend it") from error
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
        raise TaskError(
            f"'{key}: {name}': the module {place!r} cannot be imported: {described(error)}; mend it"
        ) from error


def _with_neighbours(folders: Sequence[Path]) -> None:
    """Lets a user's code import what lies beside it, after everything that is installed."""
    sys.path.extend(str(folder) for folder in folders if str(folder) not in sys.path)


def described(error: BaseException) -> str:
    """An error of a user's code in a line: its message, and the file and line that it comes from."""
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


def _near(word: str, known: Sequence[str]) -> str:
    """``"; did you mean 'network'?"``, or nothing if no known name is close."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
