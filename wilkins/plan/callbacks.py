"""Inspects the functions of `actions` without running them: their files, and whether they need to be run at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

STOCK = ("passthru-actions", ("prod_callback", "con_callback"))
"""The module of the original Wilkins, and its functions, that users copied beside their workflow before a run."""

_SETUP = "setup_passthru_callbacks"
_ROLES = ("producer", "consumer")


def find(module: str, folders: Sequence[Path]) -> Path | None:
    """The file of a module, in the first of the folders that has it."""
    place = Path(*module.split("."))
    for folder in folders:
        for path in (folder / place / "__init__.py", folder / f"{place}.py"):
            if path.is_file():
                return path
    return None


def beyond_passthru(path: Path, function: str) -> str:
    """The place in a function that does more than call `setup_passthru_callbacks` of `wilkins.utils`; empty: none.

    The file is parsed and not run, and what is not understood counts as more.
    """
    try:
        module = ast.parse(path.read_bytes(), str(path))
    except (OSError, ValueError, SyntaxError) as error:
        return f"{path} cannot be read as Python: {error}"
    found: list[ast.FunctionDef] = []
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == function:
            found.append(statement)
        elif not isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef)) and not _is_plain(statement):
            return f"{path}:{statement.lineno} is done when the module is imported"
    if len(found) != 1:
        return f"{path} has no function {function!r}" if not found else f"{path} has several functions {function!r}"
    (definition,) = found
    defaults = [*definition.args.defaults, *filter(None, definition.args.kw_defaults)]
    if definition.decorator_list or not definition.args.args or not all(map(_is_still, defaults)):
        return f"{path}:{definition.lineno} is not a plain function of 'vol'"
    names = set(_setup_names(module))
    vol = definition.args.args[0].arg
    for statement in definition.body:
        if isinstance(statement, ast.Pass) or _is_text(statement):
            continue
        if not (isinstance(statement, ast.Expr) and _is_setup(statement.value, names, vol)):
            return f"{path}:{statement.lineno} does something else"
    return ""


def _is_plain(statement: ast.stmt) -> bool:
    """Whether it is a text, or a constant assigned to a name."""
    return _is_text(statement) or (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and all(isinstance(target, ast.Name) for target in statement.targets)
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _setup_names(module: ast.Module) -> Iterator[str]:
    """The names, perhaps with dots, that mean the function of `wilkins.utils` and nothing else in the module."""
    own = {one.name for one in module.body if isinstance(one, ast.FunctionDef)}
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 0:
            for alias in statement.names:
                name = alias.asname or alias.name
                if (statement.module, alias.name) == ("wilkins.utils", _SETUP) and name not in own:
                    yield name
                elif (statement.module, alias.name) == ("wilkins", "utils") and name not in own:
                    yield f"{name}.{_SETUP}"
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "wilkins.utils":
                    yield f"{alias.asname or alias.name}.{_SETUP}"


def _is_setup(call: ast.expr, names: set[str], vol: str) -> bool:
    """Whether it is ``setup_passthru_callbacks(vol, role, ...)``, and its arguments have no side effects."""
    if not isinstance(call, ast.Call) or ast.unparse(call.func) not in names or len(call.args) < 2:
        return False
    given, role, *more = call.args
    others = [*more, *(keyword.value for keyword in call.keywords)]
    return (
        isinstance(given, ast.Name)
        and given.id == vol
        and isinstance(role, ast.Constant)
        and role.value in _ROLES
        and all(map(_is_still, others))
    )


def _is_still(value: ast.expr) -> bool:
    """Whether the expression has no side effects."""
    return isinstance(value, (ast.Name, ast.Constant)) or (isinstance(value, (ast.List, ast.Tuple)) and not value.elts)
