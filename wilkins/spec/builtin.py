"""The workflows that come with the package: folders in ``wilkins/workflows``, each with a ``workflow.yaml``."""

from __future__ import annotations

import shutil
from pathlib import Path

import wilkins.workflows
from wilkins.errors import UsageError, suggest
from wilkins.spec.editors import MODELINE, put_schema
from wilkins.spec.load import load
from wilkins.spec.parameters import described
from wilkins.spec.workflow import Workflow, needs_of

_FILE = "workflow.yaml"


def names() -> list[str]:
    """The names of all packaged workflows."""
    return sorted(path.parent.name for path in _home().glob(f"*/{_FILE}"))


def file_of(name: str) -> Path:
    """The workflow file of a packaged workflow.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in names():
        hint = suggest(name, names()) or f"; there are {', '.join(names())}"
        raise UsageError(f"there is no packaged workflow {name!r}{hint}")
    return _home() / name / _FILE


def listed() -> str:
    """All packaged workflows: what each does, the extras that it needs, and its parameters."""
    blocks = []
    for name in names():
        workflow = load(file_of(name)).workflow
        lines = [f"{name}: {workflow.doc}"]
        lines += [f"    needs: pip install 'wilkins[{extra}]'" for extra in _extras(workflow)]
        rows = [described(*item) for item in (workflow.parameters or {}).items()]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)] if rows else []
        lines += [f"    {a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _extras(workflow: Workflow) -> list[str]:
    """The extras of the package that its ready-made tasks import."""
    return sorted({extra for task in workflow.tasks for extra in needs_of(task).values()})


def copy(name: str, folder: Path) -> None:
    """Copies a packaged workflow with its programs, to be changed.

    Raises:
        UsageError: there is none of this name, or the folder holds files already.
        OSError: it cannot be written.
    """
    source = file_of(name).parent
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists already; give another folder: wilkins init --from {name} FOLDER")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "wilkins-runs"), dirs_exist_ok=True)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)  # a package may be installed read-only
    if put_schema(folder):
        file = folder / _FILE
        file.write_text(MODELINE + file.read_text(encoding="utf-8"), encoding="utf-8")


def _home() -> Path:
    return Path(str(wilkins.workflows.__file__)).parent
