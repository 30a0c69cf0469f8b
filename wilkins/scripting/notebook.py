"""What the package does in a notebook: plans, graphs and timelines are shown as pictures, and runs while they go on.

IPython is asked only where it is loaded already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wilkins.terminal.progress import History, Snapshot, table

if TYPE_CHECKING:
    import networkx

    from wilkins.flow.timeline import Timeline
    from wilkins.plan.plan import Plan


def shell() -> Any:
    """The IPython that this process is; None: it is none."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask() if ask else None


def register() -> None:
    """Let IPython show what the package's functions return, if this process is one."""
    here = shell()
    if here is None:
        return
    formatters = here.display_formatter.formatters
    formatters["text/html"].for_type_by_name("wilkins.plan.plan", "Plan", _plan)
    formatters["image/svg+xml"].for_type_by_name("wilkins.flow.timeline", "Timeline", _timeline)
    formatters["image/svg+xml"].for_type_by_name("networkx.classes.multidigraph", "MultiDiGraph", _graph)


def _plan(plan: Plan) -> str:
    from wilkins.report.notebook import of_plan

    return of_plan(plan)


def _timeline(timeline: Timeline) -> str:
    from wilkins.report.notebook import of_timeline

    return of_timeline(timeline)


def _graph(graph: networkx.MultiDiGraph[str]) -> str | None:
    from wilkins.report.notebook import of_graph

    return of_graph(graph)


class View:
    """How far a run is, in the output of a notebook's cell; elsewhere nothing is shown."""

    def __init__(self, ask: Callable[[], Snapshot | None]) -> None:
        """`ask`: for the newest answer of the run's launcher."""
        here = shell()
        self.is_shown = hasattr(here, "kernel")
        self._ask = ask
        self._history = History()
        self._handle: Any = None

    def look(self) -> None:
        """Show what is new."""
        found = self._ask() if self.is_shown else None
        if found is None or (not self._history.is_empty and found.at == self._history.newest.at):
            return
        from wilkins.report.notebook import of_progress

        self._history.add(found)
        self._show({"text/plain": table(self._history), "text/html": of_progress(self._history)})

    def end(self, words: str) -> None:
        """Say how the run has ended, if anything was shown."""
        if self._handle is not None:
            self._show({"text/plain": words})

    def _show(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
