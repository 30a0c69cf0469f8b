"""Prints the JSON Schema of workflow files and their reference page from the spec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from wilkins.schema.kinds import scalar_text
from wilkins.schema.reading import key_of, keys_of, kind_of, more_sections
from wilkins.schema.sections import Section, SectionList
from wilkins.spec.workflow import Dset, InPort, OutPort, Parameter, Resources, Task, TaskModel, Workflow
from wilkins.tasks.registry import PREFIX, all_tasks

_SECTIONS: tuple[tuple[type, str], ...] = (
    (Workflow, "The file"),
    (Task, "A task: `tasks`"),
    (OutPort, "What a task writes: `outports`"),
    (InPort, "What a task reads: `inports`"),
    (Dset, "Datasets of a port: `dsets`"),
    (Resources, "What a task is expected to take: `resources`"),
    (TaskModel, "Durations of a task: `model`"),
    (Parameter, "What is left to the user: `parameters`"),
)

SCHEMA_ID = "urn:wilkins:workflow-file"
"""Names the schema, wherever its file is."""

_INTRODUCTION = """\
# The workflow file

<!-- Printed by `wilkins schema --format markdown`; edit wilkins/spec/workflow.py instead. -->

A YAML file that says which programs run on how many ranks, and which files connect them. Paths are relative to the
file. Texts may hold `${VAR}` and `${VAR:-default}` from the environment; `$${VAR}` stands for the text itself. YAML
anchors, aliases and `<<` may be used. `wilkins check FILE` reports all errors with their places; `wilkins schema`
prints a JSON Schema for editors ([install](../install.md#editors)); `--set task.key=value` changes a value for one run.
`${name}` of one of the file's `parameters` stands for its value. An unknown key is an error.

```yaml
tasks:
  - func: ./simulate
    nprocs: 4
    outports:
      - filename: "plt*.h5"
  - func: ./detect.py
    inports:
      - filename: "plt*.h5"
        io_freq: latest
```
"""

_CLOSING = """\
## How ports find each other

An in-port takes the steps of every out-port of another task whose pattern can match a name that its own pattern
matches. Patterns are compared on their last components, as many as the shorter one has: `plt*.h5` meets
`out/plt0001.h5`; an absolute pattern is a whole name. `*`, `?` and `[...]` do not match a `/`; a folder `**` stands for
any number of folders, also for none. Datasets do not matter for this unless both ports list some and none is common.

An out-port's pattern holds in any folder. An in-port's holds in the folders in which its producers start or put their
files, and in the folder in which its task starts, with the pattern's own folders below: `plt*.h5` does not match a copy
`archive/plt0001.h5`, `*/plt*.h5` and `**/plt*.h5` do. If a producer makes a folder while it runs, an open of a
name in it waits for the first file there. A file that a task has made itself is its own, whatever its name.

- An in-port that no task writes is an error; with `mode: file` it is a file that is on disk already.
- An out-port that no task reads is written to disk, as without Wilkins.
- Two tasks may not write one fixed name.
- The out-port decides its mode; if it says nothing, its readers do (`both`, if they differ); else it is memory. In
  every mode readers wait for steps and policies are the same. `wilkins run --files` puts all that is coupled on disk.

All shapes, and ensembles (`taskCount`), are on the page about [graphs](graphs.md).

## Which mpiexec starts a task

A task with `nprocs: 1` is an ordinary process. From 2 ranks on, `wilkins run` starts it with the `mpiexec` of the MPI
that the program is linked to (for Python, that its packages are linked to), found beside that library, beside the
Python in use, or on `PATH`. With none or several to choose from, it is the `mpiexec` beside the Python in use, or the
first on `PATH`. Open MPI gets options to share the cores (`--oversubscribe --bind-to none`). `mpiexec:` overrides all
this and is used as it is written, with `-n` added.
"""


def reference() -> str:
    """The reference page (docs/reference/workflow-file.md)."""
    parts = [_INTRODUCTION]
    parts += [f"## {title}\n\n{_table(section)}" for section, title in _SECTIONS]
    for name, task in all_tasks().items():
        parts.append(f"## The ready-made task `{PREFIX}{name}`: `{task.key}`\n\n{task.doc}\n\n{_table(task.options)}")
        parts += _tables_in(task.options, f"### `{task.key}`")
    parts.append(_CLOSING)
    return "\n".join(parts)


def _tables_in(section: type, title: str) -> Iterator[str]:
    """The tables of the sections in a section."""
    for item in keys_of(section):
        if isinstance(kind := kind_of(item), SectionList | Section):
            own = f"{title}: `{item.name}`"
            yield f"{own}\n\n{_table(kind.cls)}"
            yield from _tables_in(kind.cls, own)


def _table(section: type) -> str:
    rows = ["| key | is | default | meaning |", "|---|---|---|---|"]
    rows += ["| " + " | ".join(cell.replace("|", "\\|") for cell in _row(item)) + " |" for item in _ordered(section)]
    return "\n".join(rows) + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a workflow file."""
    definitions = {section.__name__: _object_schema(section) for section, _ in _SECTIONS}
    for task in all_tasks().values():
        definitions |= {section.__name__: _object_schema(section) for section in _with_parts(task.options)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Wilkins workflow file",
        **definitions.pop("Workflow"),
        "$defs": definitions,
    }


def json_text() -> str:
    """The JSON Schema as text."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _object_schema(section: type) -> dict[str, Any]:
    properties = {key_of(item): {**kind_of(item).schema(), **_about(item)} for item in keys_of(section)}
    docs = {task.key: task.doc for task in all_tasks().values()}
    for name, options in more_sections(section).items():
        properties[name] = {"$ref": f"#/$defs/{options.__name__}", "description": docs[name]}
    required = [key_of(item) for item in keys_of(section) if item.metadata["required"]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _with_parts(section: type) -> list[type]:
    """A section and the sections in it."""
    kinds = [kind_of(item) for item in keys_of(section)]
    return [
        section,
        *(part for kind in kinds if isinstance(kind, SectionList | Section) for part in _with_parts(kind.cls)),
    ]


def _ordered(section: type) -> list[Any]:
    """Required keys first, those without effect last."""

    def rank(item: Any) -> tuple[bool, bool]:
        about = item.metadata
        return not about["required"], bool(about["unused"])

    return sorted(keys_of(section), key=rank)


def _row(item: Any) -> tuple[str, str, str, str]:
    kind = kind_of(item)
    meaning = kind.meaning if not isinstance(kind, SectionList) else f"a list of {kind.noun}s"
    if item.metadata["required"]:
        default = "required"
    elif item.default in (None, (), ""):
        default = ""
    else:
        default = f"`{scalar_text(item.default)}`"
    return f"`{key_of(item)}`", meaning, default, _meaning(item)


def _about(item: Any) -> dict[str, Any]:
    """What a key means, and what it is if it is left out."""
    has_default = isinstance(item.default, (bool, int, float, str)) and item.default != ""
    return {"description": _meaning(item)} | ({"default": item.default} if has_default else {})


def _meaning(item: Any) -> str:
    text: str = item.metadata["doc"]
    if item.metadata["unused"]:
        return f"{text} Accepted and not used: {item.metadata['unused']}."
    return text
