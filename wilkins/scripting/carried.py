"""The text of a module for a function that processes cannot import, as of a notebook's cell: with all that it uses.

Carried along are imports, constants, and other functions and classes of cells. What names mean is looked up in the
function's globals, as they are now.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from wilkins.errors import WilkinsError
from wilkins.scripting.globalnames import Needs, needs

MAIN = "__main__"
"""The module of notebooks, and of the script that runs."""
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_FUTURE = "from __future__ import annotations\n"
"""In every module that is written: so annotations may name what is not carried along."""
_OF_SHELLS = {"get_ipython", "display"}
"""What IPython adds to the built-in names."""
_OWN_OF_SHELLS = {"exit", "quit"}
"""Built-in names that it takes for something of its own."""
_TIMED = "<timed exec>"
"""Where IPython says that functions of a cell with ``%%time`` are defined."""
_SHELLS = ("IPython.", "ipykernel.")
_OF_MODULES = {"__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}
"""What each module has of its own."""


class Unfit(WilkinsError):
    """Why something cannot be carried along, and how to mend that."""

    def __init__(self, why: str, cure: str = "") -> None:
        super().__init__(f"{why}; {cure}")
        self.why = why


def module_text(function: Any, name: str, folder: Path) -> str:
    """The module's text.

    Args:
        function: or class, as it was given.
        name: of it, or of the class that it is in, at the top of the module.
        folder: of the workflow file, in which modules are found without further ado.

    Raises:
        Unfit: with everything that it uses and that cannot be carried along.
    """
    return _Module(inspect.unwrap(function), folder).text(name, function)


class _Module:
    """A module as it is put together."""

    def __init__(self, plain: Any, folder: Path) -> None:
        self._folder = folder.resolve()
        self._space: dict[str, Any] = getattr(plain, "__globals__", None) or vars(sys.modules[plain.__module__])
        self._imports: dict[str, None] = {}
        self._roots: dict[str, None] = {}
        self._constants: list[str] = []
        self._definitions: list[str] = []
        self._hints: dict[str, Needs] = {}
        self._taken: dict[str, Any] = {}
        self._left: dict[str, str] = {}
        """Names that cannot be carried along, and what they are."""
        self._texts = [*_texts_around(plain), *_cells(self._space.get("_ih"))]
        """Where definitions and imports are looked for, the nearest first."""

    def text(self, name: str, function: Any) -> str:
        """The text for a function."""
        self._define(name, function)
        if self._left:
            names = ", ".join(f"{name!r} ({what})" for name, what in self._left.items())
            raise Unfit(
                f"it uses {names}, which its process would not have",
                "pass values by 'args', or import or make them inside the function",
            )
        for hint, users in list(self._hints.items()):
            self._take_if_possible(hint, users)
        paths = "".join(f"sys.path.append({root!r})\n" for root in self._roots)
        imports = "".join(f"{one}\n" for one in self._imports)
        head = [_FUTURE, f"import sys\n\n{paths}" if paths else "", imports, "".join(self._constants)]
        return "\n".join([*filter(None, head), "\n" + "\n\n".join(self._definitions)])

    def _define(self, name: str, value: Any) -> None:
        """Carry a function or class along, and what it uses.

        Raises:
            Unfit: it cannot be carried.
        """
        plain = inspect.unwrap(value)
        if getattr(plain, "__closure__", None):
            raise Unfit(
                f"it closes over {', '.join(map(repr, plain.__code__.co_freevars))}, which its process would not have",
                "pass values by 'args', or make them inside the function (if a decorator has made it, let that use "
                "functools.wraps)",
            )
        if len(getattr(value, "registry", ())) > 1:
            raise Unfit("other functions are registered with it", "put them into a file, and import it from there")
        node, text = self._found(name, plain)
        uses = needs(node)
        self._taken[name] = value
        for one in sorted(uses.early - {name}):
            self._take(one, name, uses)
        self._definitions.append(text.rstrip("\n") + "\n")
        for one in sorted(uses.late - {name}):
            self._take(one, name, uses)
        self._hints |= dict.fromkeys(sorted(uses.hints - {name}), uses)
        self._add_submodules(node)

    def _found(self, name: str, plain: Any) -> tuple[ast.stmt, str]:
        """The definition of a function or class, and its text.

        Raises:
            Unfit: there is none.
        """
        code = getattr(plain, "__code__", None)
        texts = _texts_around(plain)
        if not code or code.co_filename == _TIMED:
            texts += self._texts
        if not texts:
            raise Unfit("its text cannot be found", "define it in a cell, or in a file")
        for text in texts:
            for node in ast.walk(_parsed(text)):
                if isinstance(node, ast.stmt) and _defines(node, name, code):
                    return node, _text_of(node, text)
        where = f" in line {code.co_firstlineno} of {code.co_filename}" if code else ""
        raise Unfit(f"its definition is not found{where}", "define it anew, and let its decorators use functools.wraps")

    def _take(self, name: str, user: str, uses: Needs) -> None:
        """Carry along what a name means, or note that this is not possible."""
        built_in = (hasattr(builtins, name) and name not in _OF_SHELLS) or name in _OWN_OF_SHELLS
        known = name in self._space or hasattr(builtins, name)
        inner = "" if user == next(iter(self._taken)) else f", in {user!r}"
        if name in _OF_MODULES or (not known and name in uses.own):
            return
        if not known:
            self._left.setdefault(name, f"not defined{inner}")
            return
        value = self._space[name] if name in self._space else getattr(builtins, name)
        if built_in and (name not in self._space or _is_of_shell(name, value)):
            return
        if name in self._taken:
            if self._taken[name] is not value:
                self._left.setdefault(name, f"another one now{inner}")
            return
        self._taken[name] = value
        try:
            self._carry(name, value)
        except Unfit as error:
            self._left.setdefault(name, f"{kind_of(value)}{inner}" + (f": {error.why}" if error.why else ""))

    def _take_if_possible(self, name: str, uses: Needs) -> None:
        """Carry along what an annotation names; else it stays a text."""
        trial = copy.copy(self)
        for item, kept in vars(self).items():
            if item != "_space" and isinstance(kept, (dict, list)):
                setattr(trial, item, kept.copy())
        trial._take(name, "", uses)
        if not trial._left:
            vars(self).update(vars(trial))

    def _carry(self, name: str, value: Any) -> None:
        """Carry along what a name means.

        Raises:
            Unfit: this is not possible.
        """
        if isinstance(value, ModuleType):
            if sys.modules.get(value.__name__) is not value or value.__name__ == MAIN:
                raise Unfit("other processes cannot import it")
            self._note_root(value.__name__)
            self._imports.setdefault(f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else ""))
        elif statement := self._import_of(name, value):
            self._imports.setdefault(statement)
        elif (constant := _literal(value)) is not None:
            self._constants.append(f"{name} = {constant}\n")
        else:
            plain = inspect.unwrap(value) if callable(value) else value
            if not isinstance(plain, (FunctionType, type)) or plain.__module__ != MAIN:
                raise Unfit("")
            if plain.__name__ in (name, "<lambda>"):
                self._define(name, value)
            else:
                self._define_as(name, plain.__name__, value)

    def _define_as(self, name: str, own: str, value: Any) -> None:
        """Carry along a function or class that goes by another name than its own.

        Raises:
            Unfit: it cannot be carried.
        """
        if own not in self._taken:
            self._define(own, value)
        elif self._taken[own] is not value:
            raise Unfit(f"{own!r} is another one now")
        self._definitions.append(f"{name} = {own}\n")

    def _import_of(self, name: str, value: Any) -> str:
        """The import that gives a value: as its user has written it, or from where it says that it is; empty: none."""
        for text in self._texts:
            for node in ast.walk(_parsed(text)):
                if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                    continue
                for alias in node.names:
                    wanted = name if alias.name == "*" else alias.name
                    if name == (alias.asname or wanted) and self._has(node.module, wanted, value):
                        return _import_from(node.module, wanted, name)
        module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(module, str) and isinstance(own, str) and self._has(module, own, value):
            return _import_from(module, own, name)
        return ""

    def _has(self, module: str, name: str, value: Any) -> bool:
        """Whether a module has the value by this name, and processes can import that."""
        if module == MAIN or getattr(sys.modules.get(module), name, None) is not value:
            return False
        self._note_root(module)
        return True

    def _add_submodules(self, node: ast.AST) -> None:
        """Import modules of packages that are used as attributes, such as ``xml.etree.ElementTree``."""
        found: set[str] = set()
        for one in ast.walk(node):
            words = ast.unparse(one).split(".") if isinstance(one, ast.Attribute) else []
            value = self._taken.get(words[0]) if words else None
            for word in words[1:]:
                value = getattr(value, word, None) if isinstance(value, ModuleType) else None
                if isinstance(value, ModuleType) and "." in value.__name__ and value.__name__ in sys.modules:
                    found.add(value.__name__)
        for name in sorted(found):
            if not any(other.startswith(f"{name}.") for other in found):
                self._imports.setdefault(f"import {name}")

    def _note_root(self, module: str) -> None:
        """Remember the folder of a module that is neither installed nor beside the workflow file."""
        top = sys.modules[module.partition(".")[0]]
        file = getattr(top, "__file__", None)
        if not file:
            return
        root = Path(file).resolve().parents[1 if hasattr(top, "__path__") else 0]
        installed = [Path(sysconfig.get_path(one)).resolve() for one in ("stdlib", "platstdlib", "purelib", "platlib")]
        if root != self._folder and not any(root.is_relative_to(one) for one in installed):
            self._roots.setdefault(str(root))


def _import_from(module: str, wanted: str, name: str) -> str:
    return f"from {module} import {wanted}" + (f" as {name}" if name != wanted else "")


def _texts_around(plain: Any) -> list[str]:
    """The cell or file in which a function, or a method of a class, is defined."""
    found: dict[str, None] = {}
    members = vars(plain).values() if isinstance(plain, type) else ()
    for one in (plain, *(getattr(member, "__func__", getattr(member, "fget", member)) for member in members)):
        with suppress(TypeError, OSError, IndexError):
            found.setdefault("".join(inspect.findsource(one)[0]))
    return list(found)


def _cells(history: Any) -> list[str]:
    """The cells of a notebook, the newest first, each followed by those that a magic of it runs.

    Args:
        history: as IPython keeps it.
    """
    found: list[str] = []
    for cell in reversed(history if isinstance(history, list) else []):
        found.append(str(cell))
        found += [
            ast.literal_eval(one.args[-1])
            for one in ast.walk(_parsed(str(cell)))
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "get_ipython().run_cell_magic"
        ]
    return found


def _parsed(text: str) -> ast.Module:
    """The tree of a text; empty if it is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _defines(node: ast.stmt, name: str, code: Any) -> bool:
    """Whether a statement defines the name; `code`: of the function, to tell it from others of that name."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and code and code.co_name == "<lambda>":
        target = node.targets[0]
        return isinstance(target, ast.Name) and target.id == name and node.value.lineno == code.co_firstlineno
    if not isinstance(node, DEFINITION) or node.name != name or isinstance(node, ast.ClassDef) != (code is None):
        return False
    return code is None or code.co_firstlineno in (node.lineno, *(one.lineno for one in node.decorator_list))


def _text_of(node: ast.stmt, text: str) -> str:
    """The text of a statement, as it stands if it begins a line."""
    if node.col_offset or not isinstance(node, DEFINITION):
        return ast.unparse(node)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return "\n".join(text.split("\n")[first - 1 : node.end_lineno])


def _literal(value: Any) -> str | None:
    """The text of a constant: a number, a text, true, false or none, or a tuple of them; None: it is another value."""
    kind = type(value)
    if kind is tuple:
        parts = [part for one in value if (part := _literal(one)) is not None]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})" if len(parts) == len(value) else None
    if kind is float and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value) if kind in (bool, int, float, complex, str, bytes, type(None)) else None


def _is_of_shell(name: str, value: Any) -> bool:
    """Whether IPython has put something of its own in the place of a built-in one, such as `open` and `exit`."""
    if type(value).__module__.startswith(_SHELLS):
        return True
    return hasattr(value, "__wrapped__") and value.__wrapped__ is getattr(builtins, name, None)


def kind_of(value: Any) -> str:
    """``a list``, ``an ndarray``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
