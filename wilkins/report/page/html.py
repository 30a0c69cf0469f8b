"""Tables and sentences as HTML: of a run's page, and of what a notebook shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from wilkins.launch.records.crossings import percent_of_bound
from wilkins.names import text_of
from wilkins.terminal.tables import duration, size
from wilkins.terminal.wording import listed

MOST_ROWS = 500
_LONG = 5
"""Columns of a table from which a phone shows each row as a block, with the names of its columns in it."""


def marked(text: str) -> str:
    """A sentence, with its keys and commands in backquotes set as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text_of(text)))


def paragraph(text: str) -> str:
    """A sentence as a paragraph."""
    return f"<p>{marked(text)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A table, whose first rows are shown; `numbers`: the columns of numbers."""
    long = len(head) >= _LONG and any(head)

    def cells(tag: str, row: Sequence[Any]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}{of[place] if tag == 'td' else ''}>"
            f"{escape(text_of(str(cell)))}</{tag}>"
            for place, cell in enumerate(row)
        )

    of = [f' data-of="{escape(name)}"' if long and place else "" for place, name in enumerate(head)]

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows[:MOST_ROWS])
    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if any(head) else ""
    more = f"<p>and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return f'<div class="wide"><table{" class=long" if long else ""}>{top}<tbody>{body}</tbody></table></div>{more}'


def tasks_of(summary: Mapping[str, Any]) -> str:
    """The table of what each task of a run has done; `summary`: of the run, empty if it has none."""
    if not summary:
        return paragraph("The run has no summary yet.")
    head = (
        *("task", "ranks", "starts", "end", "published", "read", "dropped", "moved", "computing", "waiting", "copying"),
        *("CPU", "memory"),
    )
    rows = [
        (
            task["name"],
            task["nprocs"],
            task["starts"],
            task["outcome"] if task["outcome"] != "failed" else f"failed: {task['exit']}",
            task["produced"],
            task["consumed"],
            task["dropped"],
            size(task["bytes"]),
            duration(task["computing_s"]),
            duration(task["waiting_s"]),
            duration(task["copying_s"]),
            duration(task["cpu_s"]) if task.get("cpu_s") else "-",
            size(task["rss_bytes"]) if task.get("rss_bytes") else "-",
        )
        for task in summary["tasks"]
    ]
    hint = "CPU: of all processes together; memory: the most of one of them."
    found = table(head, rows, frozenset(range(1, len(head))) - {3}) + f'<p class="hint">{hint}</p>'
    return found + _expected_of(summary["tasks"])


def _expected_of(tasks: Sequence[Mapping[str, Any]]) -> str:
    """The table of what tasks took beside what their `resources` say; empty if no task has any."""
    rows = [
        (
            task["name"],
            _beside(task.get("rss_bytes"), task.get("expected_bytes"), size),
            _beside(task.get("wall_s"), task.get("expected_s"), duration),
        )
        for task in tasks
        if task.get("expected_bytes") or task.get("expected_s")
    ]
    head = ("task", "memory, of what was expected", "run time, of what was expected")
    return table(head, rows) if rows else ""


def _beside(took: float | None, expected: float | None, words: Callable[[Any], str]) -> str:
    if not expected or not took:
        return f"{words(expected)} expected" if expected else "-"
    return f"{words(took)}, more than {words(expected)}" if took > expected else f"{words(took)} of {words(expected)}"


def crossings_of(summary: Mapping[str, Any]) -> str:
    """The table of what crossed from host to host, with what compression did; empty: nothing has crossed."""
    found = [one for one in summary.get("crossings", ()) if one["steps"]]
    if not found:
        return ""
    packed = any(one.get("compressed") for one in found)
    head = ["from", "to", "files", "hosts", "steps", "bytes", "moved"]
    head += ["times smaller", "largest error", "of its bound", "CPU"] if packed else []
    rows = [
        [
            one["producer"],
            listed(one["consumers"]),
            one["files"],
            f"{one['writes']}\u00a0->\u00a0{one['reads']}",
            one["steps"],
            size(one["bytes"]),
            size(one["moved"]),
            *(_compressed(one) if packed else ()),
        ]
        for one in found
    ]
    hint = (
        '<p class="hint">Times smaller: of what was compressed. Of its bound: the largest part of what the error of an '
        "element may be. CPU: of packing and unpacking, on both hosts.</p>"
    )
    numbers = frozenset(range(4, len(head)))
    return f"<h2>Over the network</h2>{table(head, rows, numbers)}{hint if packed else ''}"


def _compressed(one: Mapping[str, Any]) -> list[str]:
    if not one.get("compressed"):
        return ["-"] * 4
    part = one.get("part_of_bound")
    return [
        f"{one['compressed'] / one['compressed_to']:.3g}",
        f"{one['largest_error']:.3g}",
        percent_of_bound(part) if part else "-",
        duration(one["compression_s"]),
    ]


def channels_of(summary: Mapping[str, Any]) -> str:
    """The table of the steps of each channel; `summary`: of the run, empty if it has none."""
    if not summary:
        return paragraph("The run has no summary yet.")
    head = ("from", "to", "files", "published", "read", "skipped", "dropped", "let go", "not read")
    keys = ("producer", "consumer", "files", "published", "read", "skipped", "dropped", "let_go", "unread")
    rows = [tuple(one[key] for key in keys) for one in summary.get("channels", ())]
    return table(head, rows, frozenset(range(3, len(head)))) if rows else paragraph("No steps were exchanged.")
