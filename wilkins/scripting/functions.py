"""Functions given as objects, as tasks: named by their file, or by one that is written for them."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from wilkins.errors import UsageError
from wilkins.scripting.carried import DEFINITION, MAIN, Unfit, kind_of, module_text


@dataclass(frozen=True)
class Reference:
    """By what a task finds a function."""

    name: str
    """Of the function, within its module."""
    place: str
    """The module, or its file; empty: it is to be written."""
    text: str = ""
    """Of the module to be written."""


def reference(function: Callable[..., Any], folder: Path) -> Reference:
    """How a task finds a function.

    Args:
        folder: of the workflow file.

    Raises:
        UsageError: its process could not have it.
    """
    named = getattr(function, "__qualname__", None)
    try:
        plain = _plain(function)
        if plain.__module__ != MAIN or _is_importable(plain):
            return Reference(plain.__qualname__, _place(plain))
        name = plain.__qualname__.rpartition("<locals>.")[2]
        top = name.partition(".")[0]
        whole = function if top == name else getattr(sys.modules[MAIN], top, None)
        if whole is None:
            raise Unfit(f"there is no {top!r} any more, which it is in", "define it anew")
        return Reference(name, "", module_text(whole, top, folder))
    except Unfit as error:
        who = f"the function {named}" if named else f"the {type(function).__name__} object"
        raise UsageError(f"{who} cannot be a task, since {error}") from None


def module_file(workflow: str, function: str, taken: Container[str]) -> str:
    """The name of the file for a function of a workflow, other than those that are taken."""
    stem = re.sub(r"\W", "_", f"{workflow}_{function}")
    names = (f"{stem}{'' if number == 1 else f'_{number}'}.py" for number in count(1))
    return next(name for name in names if name not in taken)


def _plain(function: Callable[..., Any]) -> Any:
    """The function or class itself, without decorators that tell what they wrap.

    Raises:
        Unfit: a task cannot call it as it is.
    """
    if isinstance(function, MethodType):
        if isinstance(function.__self__, type):
            return function.__func__
        raise Unfit(
            f"it belongs to {kind_of(function.__self__)}, which other processes do not have",
            "write a function that makes the object and calls it",
        )
    plain: Any = inspect.unwrap(function)
    if not isinstance(plain, (FunctionType, type)):
        raise Unfit("other processes cannot import it", "write a function that calls it")
    if plain.__name__ == "<lambda>":
        raise Unfit("other processes cannot import it: it has no name", "write it as 'def name(...):'")
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise Unfit("it is asynchronous, and nobody awaits it", "write it without 'async'")
    if inspect.isgeneratorfunction(plain):
        raise Unfit(
            "it is a generator, of which a call executes nothing", "let it publish to its out-ports instead of 'yield'"
        )
    return plain


def _is_importable(plain: Any) -> bool:
    """Whether a function of the script that runs is found when others import that, which then starts nothing."""
    try:
        body = ast.parse(Path(inspect.getsourcefile(plain) or "").read_bytes()).body
    except (TypeError, OSError, SyntaxError, ValueError):
        return False
    guarded = any(isinstance(one, ast.If) and "__name__" in ast.unparse(one.test) for one in body)
    top = plain.__qualname__.partition(".")[0]
    return guarded and any(isinstance(one, DEFINITION) and one.name == top for one in body)


def _place(plain: Any) -> str:
    """The file of a function, since that need not be installed; its module, where only that can be imported.

    Raises:
        Unfit: other processes would not find it.
    """
    try:
        file = Path(inspect.getsourcefile(plain) or "").resolve()
        tree = ast.parse(file.read_bytes())
    except (TypeError, OSError, SyntaxError, ValueError):
        tree = None
    if tree is None or not all(part.isidentifier() for part in plain.__qualname__.split(".")):
        raise Unfit(
            "other processes cannot import it", "write it into a file, at the top of it, and import it from there"
        )
    relative = any(isinstance(one, ast.ImportFrom) and one.level for one in ast.walk(tree))
    return str(plain.__module__) if relative and plain.__module__ != MAIN else str(file)
