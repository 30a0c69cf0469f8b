"""The part of the page that shows what the last step of each out-port holds, where it can still be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from html import escape
from itertools import islice
from pathlib import Path

from wilkins.contents.apart import look_apart
from wilkins.contents.summary import Contents
from wilkins.contents.words import shape_words
from wilkins.errors import count_of
from wilkins.launch.records.rundir import KEPT
from wilkins.names import printable
from wilkins.plan.plan import Plan
from wilkins.report.draw.thumbnail import thumbnail
from wilkins.report.leftfiles import matching, patterns_of
from wilkins.terminal.tables import size

_MOST_PORTS = 12
"""Out-ports that have an entry; of instances of one task, the first ones."""
_MOST_FILES = 200_000
"""Files of a port among which the newest is sought."""


@dataclass(frozen=True, slots=True)
class LastStep:
    """The last step of an out-port, on the disk."""

    task: str
    port: str
    path: Path


def last_steps(plan: Plan, folder: Path, began: float, ended: float) -> list[LastStep]:
    """The newest file, or folder, of each out-port whose steps are on the disk; one for each name, if it has several.

    Args:
        folder: of the run's records, where checkpoints are kept whose names their program has removed.
        began, ended: of the run, in seconds since 1970: what was changed at other times is of another one.
    """
    found: dict[Path, LastStep] = {}
    for port in plan.ports:
        task = plan.tasks[port.task]
        if port.direction != "out" or port.mode == "memory" or task.is_relay:
            continue
        for pattern in patterns_of(port):
            of_name = [*islice(matching(task.cwd, pattern), _MOST_FILES)]
            if not of_name and port.keep:
                of_name = [one for one in folder.glob(f"{KEPT}/*/*") if fnmatch(one.name, Path(pattern).name)]
            dated = [(changed, path) for path in of_name if (changed := _changed(path)) is not None]
            newest = max((one for one in dated if began <= one[0] <= ended), default=None)
            if newest is not None:
                found.setdefault(newest[1], LastStep(task.name, pattern + "/" * port.is_folder, newest[1]))
    return list(found.values())


def section(steps: Sequence[LastStep]) -> str:
    """The section; empty if there are no steps."""
    if not steps:
        return ""
    shown = steps[:_MOST_PORTS]
    entries = "".join(
        _entry(step, seen) for step, seen in zip(shown, look_apart([one.path for one in shown]), strict=True)
    )
    more = len(steps) - len(shown)
    rest = f'<p class="hint">and those of {count_of(more, "more out-port")}</p>' if more else ""
    return f'<section id="steps">\n<h2>What the steps hold</h2>\n{entries}{rest}\n</section>\n'


def _changed(path: Path) -> float | None:
    """When a file was changed last, or something in a folder; None: it was removed just now."""
    try:
        inner = path.iterdir() if path.is_dir() else iter(())
        return max(one.stat().st_mtime for one in (path, *islice(inner, 1000)))
    except OSError:
        return None


def _entry(step: LastStep, seen: Contents) -> str:
    title = f"<h3>{_word(step.task)}: {_word(step.port)}</h3>"
    facts = [seen.format, *([size(seen.size)] if seen.size else [])]
    facts += [count_of(seen.attributes, "attribute")] if seen.attributes else []
    name = f"<code>{_word(step.path.name)}</code>"
    said = f'<p class="hint">The last step that is on the disk: {name}, {escape(", ".join(filter(None, facts)))}'
    said += "; its contents are not shown</p>" if not seen.is_read and not seen.problem else "</p>"
    problem = f'<p class="hint">{_word(step.path.name)}: {_word(seen.problem)}</p>' if seen.problem else ""
    picture = thumbnail(seen.preview) if seen.preview else ""
    return f'{title}{said}{problem}<div class="held">{_datasets(seen)}{picture}</div>'


def _datasets(seen: Contents) -> str:
    if not seen.datasets:
        return '<p class="none">It has no datasets.</p>' if seen.is_read and not seen.problem else ""
    columns = {
        "dataset": [one.name for one in seen.datasets],
        "shape": [shape_words(one.shape) for one in seen.datasets],
        "type": [one.dtype for one in seen.datasets],
        "units": [one.units for one in seen.datasets],
        "size": [size(one.nbytes) if one.shape is not None else "" for one in seen.datasets],
        "stored": [one.stored for one in seen.datasets],
        "attributes": [str(one.attributes or "") for one in seen.datasets],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    head = "".join(f"<th{_class(name)}>{name}</th>" for name in columns)
    rows = ""
    for row in zip(*columns.values(), strict=True):
        cells = (f"<td{_class(name)}>{_word(cell, 80)}</td>" for name, cell in zip(columns, row, strict=True))
        rows += f"<tr>{''.join(cells)}</tr>"
    more = f'<p class="hint">{seen.others}</p>' if seen.others else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}</div>'


def _class(column: str) -> str:
    return " class=number" if column in ("size", "attributes") else ""


def _word(text: str, most: int = 200) -> str:
    return escape(printable(text, most))
