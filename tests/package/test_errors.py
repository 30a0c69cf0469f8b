"""Errors: all have one root, and the command line shows each of them as it is."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

import pytest
from package.test_layout import MODULES

from wilkins.errors import UsageError, WilkinsError
from wilkins.tasks.checkpoint.errors import CheckpointError, NotThere
from wilkins.terminal.reporting import report, show_tracebacks


def below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    """All classes that derive from one and still live."""
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def rootless() -> set[str]:
    """The package's exception classes that do not derive from its root."""
    own = {one for one in below(BaseException) if one.__module__.partition(".")[0] == "wilkins"}
    return {one.__qualname__ for one in own if not issubclass(one, WilkinsError)}


@pytest.mark.needs("python:torch")
def test_every_exception_class_derives_from_the_root() -> None:
    for name, path in MODULES.items():
        if any(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(path.read_bytes()))):
            importlib.import_module(name)
    assert "NoCuda" in {one.__name__ for one in below(WilkinsError)} and not rootless()
    stray = type("Stray", (KeyError,), {"__module__": "wilkins.tasks.stray"})
    assert rootless() == {stray.__qualname__}


@pytest.mark.parametrize(
    ("error", "code"), [(NotThere("no such version"), UsageError.exit_code), (CheckpointError("it is torn"), 1)]
)
def test_errors_of_lower_rooms_are_shown_as_they_are(
    error: WilkinsError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    show_tracebacks(False)
    assert report(error) == code
    assert capsys.readouterr().err == f"wilkins: error: {error}\n"
