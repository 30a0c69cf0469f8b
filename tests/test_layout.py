"""The layout: imports point downwards only, and every module says in its first line what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "wilkins": {"wilkins", "flow", "transport", "tasks", "workflows"},
    "flow": {"flow"},
    "transport": {"transport"},
    "tasks": {"tasks", "transport"},
    "workflows": {"workflows", "transport", "tasks"},
}
MODULES = [
    (layer, path)
    for layer in MAY_IMPORT
    for path in sorted((ROOT / layer).rglob("*.py"))
    if not path.is_relative_to(ROOT / layer / "native")
    and not any((ROOT / "wilkins" / link) in path.parents for link in ("flow", "transport", "tasks", "workflows"))
]


def layers_imported(path: Path, layer: str) -> Iterator[tuple[int, str]]:
    """The layers a module imports from, with the line."""
    package = ["wilkins", *([] if layer == "wilkins" else [layer]), *path.relative_to(ROOT / layer).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "wilkins":
                yield node.lineno, parts[1] if parts[1:2] and parts[1] in MAY_IMPORT else "wilkins"


def test_imports_point_downwards() -> None:
    wrong = []
    for layer, path in MODULES:
        # Keys of a task's section are declared as the front declares its own.
        may = MAY_IMPORT[layer] | ({"wilkins"} if layer == "tasks" and path.name == "options.py" else set())
        wrong += [f"{path}:{line} imports {other}" for line, other in layers_imported(path, layer) if other not in may]
    assert len(MODULES) > 100 and not wrong


def test_modules_say_what_they_do() -> None:
    without = [path for _, path in MODULES if not ast.get_docstring(ast.parse(path.read_bytes()))]
    assert not without


def test_folders_are_one_package() -> None:
    for name in ("flow", "transport", "tasks", "workflows"):
        assert (ROOT / "wilkins" / name).resolve() == ROOT / name
