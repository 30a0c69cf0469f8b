"""Wilkins couples unmodified HDF5 programs in memory, from one workflow file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

__all__ = ["__version__", "compile"]


def compile(path: str | Path, overrides: Sequence[str] = ()) -> networkx.MultiDiGraph[str]:
    """The task graph of a workflow file: nodes are task instances, edges channels (see `wilkins.plan.graph.compile`).

    Raises:
        wilkins.errors.WorkflowError: with everything found wrong in the file.
    """
    from wilkins.plan.graph import compile as compile_graph

    return compile_graph(path, overrides)


def __getattr__(name: str) -> str:
    """``__version__``, looked up only when asked for."""
    if name != "__version__":
        raise AttributeError(f"module 'wilkins' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wilkins")
    except PackageNotFoundError:
        return "0+checkout"
