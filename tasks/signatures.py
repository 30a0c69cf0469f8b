"""Whether a function takes arguments of certain names, as far as the text of its file shows; nothing is executed."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from wilkins.tasks.code import source
from wilkins.tasks.errors import TaskError

_DEEPEST = 6
"""Modules through which a name is followed to where it is defined."""


def unfit(name: str, given: Collection[str], folders: Sequence[Path], path: Sequence[str] = ()) -> str:
    """Why a function or class cannot be called with arguments of these names; empty if it can, or nobody knows.

    Args:
        name: as `wilkins.tasks.code.load` takes it, and
        folders: as well.
        path: folders in which the task's Python looks for modules first.
    """
    try:
        file = source(name, folders, path)
        found = _defined(name.rpartition(":")[2], file, [*path, *map(str, folders)], _DEEPEST) if file else None
    except (TaskError, OSError, SyntaxError, ValueError):
        return ""
    if found is None:
        return ""
    file, called, takes = found
    names = [one.arg for one in (*takes.args, *takes.kwonlyargs)]
    optional = [one.arg for one, value in zip(takes.kwonlyargs, takes.kw_defaults, strict=True) if value]
    optional += names[len(takes.args) - len(takes.defaults) : len(takes.args)] if takes.defaults else []
    shown = f"{file.name}, line {called.lineno}: {called.name}({', '.join(names)}{', ...' if takes.kwarg else ''})"
    for one in given:
        if one not in names and not takes.kwarg:
            close = difflib.get_close_matches(one, names, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"{shown} takes no {one!r}{hint or '; remove it'}"
    for one in names:
        if one not in given and one not in optional:
            return f"{shown} needs {one!r}; add it"
    return ""


_Found = tuple[Path, "ast.FunctionDef | ast.ClassDef", ast.arguments]


def _defined(name: str, file: Path, searched: Sequence[str], deep: int) -> _Found | None:
    """Where a function or class is defined that a module has, and its parameters by name; None: not clear."""
    body = ast.parse(file.read_bytes()).body
    found = [one for one in ast.walk(ast.Module(body, [])) if _gives(one, name)]
    if len(found) > 1 or (found and found[0] not in body):
        return None
    if found and isinstance(found[0], ast.FunctionDef | ast.ClassDef):
        takes = _parameters(found[0])
        return (file, found[0], takes) if takes else None
    imports = [one for one in body if isinstance(one, ast.ImportFrom)]
    for one in imports if deep else ():
        for alias in one.names:
            if alias.name != "*" and (alias.asname or alias.name) != name:
                continue
            wanted = name if alias.name == "*" else alias.name
            for module in _modules(one, file, searched):
                if there := _defined(wanted, module, searched, deep - 1):
                    return there
    return None


def _gives(node: ast.AST, name: str) -> bool:
    """Whether a statement makes the name."""
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name


def _modules(node: ast.ImportFrom, file: Path, searched: Sequence[str]) -> Iterator[Path]:
    """The file of the module that a name is imported from."""
    if not node.level:
        found = source(f"{node.module}:_", [file.parent], searched)
        if found:
            yield found
        return
    folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    yield from (path for path in (folder / "__init__.py", folder.with_suffix(".py")) if path.is_file())


def _parameters(called: ast.FunctionDef | ast.ClassDef) -> ast.arguments | None:
    """Those of a function, or of a class's constructor without itself; None: not clear."""
    if called.decorator_list:
        return None
    if isinstance(called, ast.FunctionDef):
        return called.args if not called.args.posonlyargs else None
    own = [one for one in called.body if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "__new__")]
    if len(own) != 1 or own[0].name != "__init__" or own[0].decorator_list or called.keywords:
        return None
    if own[0].args.posonlyargs or not own[0].args.args:
        return None
    taken = own[0].args
    return ast.arguments(
        args=taken.args[1:],
        vararg=taken.vararg,
        kwonlyargs=taken.kwonlyargs,
        kw_defaults=taken.kw_defaults,
        kwarg=taken.kwarg,
        defaults=taken.defaults,
        posonlyargs=[],
    )
