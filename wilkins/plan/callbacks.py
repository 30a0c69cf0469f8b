"""Looks at the functions of `actions` without running them: where they are, and whether they do what needs no code."""

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
    """Where a function does more than call `setup_passthru_callbacks` of `wilkins.utils`; empty if it does not.

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
    """A text, or a constant that is given a name."""
    return _is_text(statement) or (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and all(isinstance(target, ast.Name) for target in statement.targets)
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _setup_names(module: ast.Module) -> Iterator[str]:
    """The names, perhaps with dots, by which the module knows the function of `wilkins.utils` and nothing else."""
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
    """Is it ``setup_passthru_callbacks(vol, role, ...)``, with nothing in its arguments that does anything?"""
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
    """Does it nothing to have the value?"""
    return isinstance(value, (ast.Name, ast.Constant)) or (isinstance(value, (ast.List, ast.Tuple)) and not value.elts)
