"""Wilkins couples unmodified HDF5 programs in memory, from one workflow file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

    from wilkins.scripting.run import Run, runs
    from wilkins.scripting.workflow import Workflow

__all__ = ["Run", "Workflow", "__version__", "compile", "runs"]

_SCRIPTING = {"Run": "run", "Workflow": "workflow", "runs": "run"}
"""Names of `wilkins.scripting`, and the modules in it, imported when they are asked for."""


def compile(path: str | Path, overrides: Sequence[str] = ()) -> networkx.MultiDiGraph[str]:
    """The task graph of a workflow file: nodes are task instances, edges channels (see `wilkins.plan.graph.compile`).

    Raises:
        wilkins.errors.WorkflowError: with everything found wrong in the file.
    """
    from wilkins.plan.graph import compile as compile_graph

    return compile_graph(path, overrides)


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext wilkins`` calls: give an IPython the cell magic ``%%wilkins``."""
    from wilkins.scripting.magic import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """``__version__``, and what scripts use, looked up only when asked for."""
    if name in _SCRIPTING:
        from importlib import import_module

        return getattr(import_module(f"wilkins.scripting.{_SCRIPTING[name]}"), name)
    if name != "__version__":
        raise AttributeError(f"module 'wilkins' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wilkins")
    except PackageNotFoundError:
        return "0+checkout"
