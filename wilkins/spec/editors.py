"""What lets editors help with workflow files: a line at their top that names a schema, and the schema beside them."""

from __future__ import annotations

import json
from pathlib import Path

from wilkins import atomic
from wilkins.spec.reference import SCHEMA_ID, json_text

SCHEMA = "wilkins.schema.json"
"""The schema's file, in the folder of the workflow file."""
MODELINE = f"# yaml-language-server: $schema={SCHEMA}\n"
"""The first line of a workflow file; editors take the name as one beside it."""


def put_schema(folder: Path) -> bool:
    """Put the schema into a folder, or renew it there. A file of this name that is something else stays, and so does
    a folder that may not be written to: no program needs the schema. Returns whether it is there now."""
    path = folder / SCHEMA
    try:
        if not path.exists():
            atomic.put(path, json_text())
        elif (found := path.read_text(encoding="utf-8")) != json_text():
            if json.loads(found).get("$id") != SCHEMA_ID:
                return False
            atomic.put(path, json_text())
    except (OSError, ValueError, AttributeError):
        return False
    return True
