"""Found by a Python task with `actions` when it starts: sets its hooks, and is gone before the program's first line."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _others(entries: list[str]) -> list[str]:
    return [entry for entry in entries if entry and Path(entry).resolve() != _HERE]


def _leave() -> str:
    """Let programs of this one start as their user has it, with the `sitecustomize` that this file hides, if any."""
    sys.path[:] = _others(sys.path)
    kept = os.pathsep.join(_others(os.environ.pop("PYTHONPATH", "").split(os.pathsep)))
    if kept:
        os.environ["PYTHONPATH"] = kept
    wanted = os.environ.pop("WILKINS_ACTIONS", "")
    this = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError:
        sys.modules["sitecustomize"] = this
    return wanted


if _wanted := _leave():
    _spec = importlib.util.spec_from_file_location("wilkins_actions", _HERE.parent / "actions.py")
    assert _spec is not None and _spec.loader is not None
    _actions = importlib.util.module_from_spec(_spec)
    sys.modules["wilkins_actions"] = _actions
    _spec.loader.exec_module(_actions)
    _actions.start(_wanted)
