"""Looks at folders of checkpoints in every way, `FOLDER...`; prints what it was told of each as JSON.

It has 4 GB of addresses: who reads all that a file pretends to hold finds no memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from wilkins.cli import main
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError

ACTIONS = ("list", "verify", "show", "export", "prune")


def asked(folder: Path, action: str) -> dict[str, Any]:
    """What `wilkins ckpt` says, and its exit code."""
    words = [str(folder), *{"export": [f"{folder}.safetensors"], "prune": ["--keep", "1"]}.get(action, [])]
    out, err, code = io.StringIO(), io.StringIO(), -1
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["ckpt", action, *words])
        except BaseException:
            traceback.print_exc()
    return {"code": code, "told": out.getvalue() + err.getvalue()}


def restored(folder: Path) -> dict[str, Any]:
    """Which step is restored, or why none is."""
    try:
        with Checkpointer(folder) as checkpointer:
            found = checkpointer.restore()
            if found is None:
                return {"step": None, "told": ""}
            return {"step": found.step, "sum": float(found.state["x"].sum()), "told": "\n".join(found.skipped)}
    except CheckpointError as error:
        return {"step": -1, "told": str(error)}
    except BaseException:
        return {"step": -2, "told": traceback.format_exc()}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    out = os.fdopen(os.dup(1), "w")  # a command that the system refuses something closes its own
    for one in sys.argv[1:]:
        where = Path(one)
        answers = {action: asked(where, action) for action in ACTIONS} | {"restore": restored(where)}
        print(json.dumps({"folder": where.name, **answers}), file=out, flush=True)
