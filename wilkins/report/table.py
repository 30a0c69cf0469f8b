"""A run as one table: a row for each instance of each task, with its parameters, what it did, and its own results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wilkins.errors import UsageError
from wilkins.launch.records.rundir import named
from wilkins.plan import planfile
from wilkins.plan.plan import TaskPlan
from wilkins.report.pictures import output_text
from wilkins.schema.kinds import scalar_text
from wilkins.spec.ensemble import Instances
from wilkins.terminal import streams

Row = dict[str, Any]

_MEASURED = ("outcome", "exit", "starts", "wall_s", "computing_s", "waiting_s", "copying_s")
_STEPS = ("produced", "consumed", "dropped", "bytes")
_COLUMNS = ("name", "task", "instance", *_MEASURED, *_STEPS)


def output_table(run: Path, results: str, target: Path | None) -> None:
    """Put out the table as CSV.

    Raises:
        UsageError: as `rows`, or it cannot be written.
    """
    table = rows(run, results)
    text = io.StringIO()
    lines = csv.DictWriter(text, table[0], lineterminator="\n")
    lines.writeheader()
    lines.writerows(
        {name: scalar_text(value) if value is not None else "" for name, value in row.items()} for row in table
    )
    output_text(text.getvalue().rstrip("\n"), target)


def rows(run: Path, results: str = "") -> list[Row]:
    """The table: by column its cell, None where there is nothing; parameters as the workflow file has them.

    Args:
        run: its directory, or its name among the runs here.
        results: the name of a file that each instance has left in its folder, in which ``{instance}`` and parameters
            stand for its own: an object of JSON, or CSV, of which the last line counts.

    Raises:
        UsageError: there is no such run, or a file of results cannot be read.
    """
    folder = named(run)
    tasks = _tasks(folder)
    ends = _ends(folder)
    if not ends:
        streams.log(f"note: {folder}: the run goes on or was killed; what its tasks did is not known")
    found = [_results(task, results) if results else {} for task in tasks]
    if results and not any(found):
        streams.log(f"note: no task has left {results!r} in its folder")
    of_parameters = _columns((task.parameters for task in tasks), "parameter", _COLUMNS)
    of_results = _columns(found, "result", (*_COLUMNS, *of_parameters.values()))
    return [
        {"name": task.name, "task": task.entry_name, "instance": task.instance}
        | {column: task.parameters.get(name) for name, column in of_parameters.items()}
        | _did(ends.get(task.name, {}))
        | {column: own.get(name) for name, column in of_results.items()}
        for task, own in zip(tasks, found, strict=True)
    ]


def _did(end: Mapping[str, Any]) -> Row:
    """What an instance did, by the run's summary."""
    exit_words = str(end.get("exit") or "").removeprefix("exit code ").removeprefix("killed by ")
    times = {name: round(end[name], 6) for name in _MEASURED if name.endswith("_s") and name in end}
    return {name: end.get(name) for name in (*_MEASURED, *_STEPS)} | {"exit": exit_words or None} | times


def _columns(named: Iterable[Mapping[str, Any]], kind: str, taken: Iterable[str]) -> dict[str, str]:
    """By name: its column, which is called otherwise if there is one of that name."""
    names = dict.fromkeys(name for one in named for name in one)
    return {name: f"{kind}.{name}" if name in taken else name for name in names}


def _tasks(folder: Path) -> list[TaskPlan]:
    try:
        plan = planfile.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{folder}: there is no run; wilkins runs lists those of a folder") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot read its plan: {error}; run the workflow again") from error
    return [task for task in plan.tasks if not task.is_relay]


def _ends(folder: Path) -> dict[str, Mapping[str, Any]]:
    """What the summary says of tasks; nothing of a run that has left none."""
    try:
        found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["tasks"]
        return {task["name"]: task for task in found}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _results(task: TaskPlan, pattern: str) -> Mapping[str, Any]:
    """What the file of an instance's results says; nothing if it has left none."""
    values = tuple(task.parameters.values())
    name = Instances(tuple(task.parameters), (values,)).fill(pattern, 0, task.instance)
    path = task.cwd / name
    try:
        text = path.read_text(encoding="utf-8")
        return _of_csv(text) if path.suffix.lower() == ".csv" else _of_json(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: cannot read the results of {task.name}: {error}; they must be an object of JSON, or CSV with a "
            "line of names, in a file that ends in .csv"
        ) from error


def _of_json(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}")
    return dict(_flat(found, ""))


def _flat(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Objects in objects as ``outer.inner``; lists as JSON."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", json.dumps(value) if isinstance(value, list) else value


def _of_csv(text: str) -> Mapping[str, Any]:
    lines = list(csv.DictReader(io.StringIO(text), skipinitialspace=True, restkey="more"))
    return {name: value for name, value in lines[-1].items() if name} if lines else {}
