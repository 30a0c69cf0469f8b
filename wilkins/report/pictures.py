"""Puts out graphs and timelines as text or as pictures: on the terminal, into a pipe, or into a file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.errors import UsageError
from wilkins.flow.timeline import Timeline
from wilkins.names import text_of
from wilkins.plan.graph import Wiring
from wilkins.spec.load import Document
from wilkins.terminal import streams

if TYPE_CHECKING:
    from wilkins.report.draw.lineage import Descendant

_SUFFIXES = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".txt": "text",
    ".json": "perfetto",
}
"""The format of a file, by the end of its name."""
_WIDTH = 100
"""Letters in a line where there is no terminal."""


def chosen_format(said: str | None, target: Path | None, formats: Sequence[str]) -> str:
    """The format that was asked for, else the one that the end of the file's name stands for; without one, text.

    Args:
        formats: those there are.

    Raises:
        UsageError: the end of the file's name stands for none of them.
    """
    if said or target is None or not target.suffix:
        return said or "text"
    found = _SUFFIXES.get(target.suffix.lower())
    if found is None or found not in formats:
        known = ", ".join(suffix for suffix, name in _SUFFIXES.items() if name in formats)
        raise UsageError(
            f"-o {target}: cannot write {target.suffix[1:]} files; let the name end in one of {known}, or say what the "
            f"file is to hold with --format {'|'.join(formats)}"
        )
    return found


def output_graph(document: Document, wiring: Wiring, file_format: str, target: Path | None) -> None:
    """Put out a task graph.

    Raises:
        UsageError: it cannot be drawn or written.
    """
    from wilkins.report.show import GRAPH_FORMATS

    if file_format in GRAPH_FORMATS:
        from wilkins.plan.graph import build

        output_text(GRAPH_FORMATS[file_format](build(document, wiring)), target)
    else:
        from wilkins.report.draw.graph import of_workflow
        from wilkins.report.draw.svg import save

        save(of_workflow(document, wiring), file_format, target)


def output_timelines(panels: Sequence[tuple[str, Timeline]], file_format: str, target: Path | None) -> None:
    """Put out timelines, each with its title.

    Raises:
        UsageError: they cannot be drawn or written.
    """
    if file_format == "text":
        from wilkins.report.timetable import report

        plain = target is None and not (sys.stdout.encoding or "ascii").lower().startswith("utf")
        output_text(report(panels, shutil.get_terminal_size((_WIDTH, 24)).columns, plain), target)
    elif file_format == "perfetto":
        from wilkins.report.perfetto import perfetto

        output_text(perfetto(panels), target)
    else:
        from wilkins.report.draw.gantt import draw_timelines
        from wilkins.report.draw.svg import save

        save(draw_timelines(panels), file_format, target)


def output_lineage(models: Sequence[Descendant], file_format: str, target: Path | None) -> None:
    """Put out who was derived from whom; each model comes after its parent.

    Raises:
        UsageError: it cannot be drawn or written.
    """
    from wilkins.report.draw import lineage

    if file_format == "text":
        output_text(lineage.as_text(models), target)
    else:
        from wilkins.report.draw.svg import save

        save(lineage.of_models(models), file_format, target)


def output_text(text: str, target: Path | None) -> None:
    """Print a text, or write it to a file.

    Raises:
        UsageError: it cannot be written there.
    """
    if target is None:
        streams.show(text)
        return
    try:
        target.write_text(text_of(text) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{target}: cannot write it: {error.strerror}; name another file with -o") from error
