"""The cell magic ``%%wilkins``, of IPython and notebooks: a cell that is a workflow file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from IPython.core.magic_arguments import MagicArgumentParser

from wilkins.errors import UsageError
from wilkins.scripting.notebook import register
from wilkins.scripting.workflow import Workflow, put

_HELD = "_run"
"""The name of a run that is given none, and"""
_FILE = "cell"
"""of its workflow file."""


def load(shell: Any) -> None:
    """Give an IPython the magic, and let it show what the package returns."""

    def run_cell(line: str, cell: str) -> object:
        return _run(shell, line, cell)

    register()
    run_cell.__doc__ = _parser().format_help()
    shell.register_magic_function(run_cell, "cell", "wilkins")


def _run(shell: Any, line: str, cell: str) -> object:
    """Run the workflow in a cell; returns the run, or the plan.

    Raises:
        TaskFailed: it did not end well; the run has its name nonetheless.
        WilkinsError: it could not be started.
    """
    given = _parser().parse_argstring(line)  # type: ignore[no-untyped-call]
    if given.name is not None and not given.name.isidentifier():
        raise UsageError(f"%%wilkins {given.name}: this cannot be the name of a variable; give letters, digits and '_'")
    settings = {}
    for word in given.set:
        name, sign, settings[name] = word.partition("=")
        if not sign:
            raise UsageError(f"--set {word}: there is no '='; write it as NAME=VALUE")
    file = put(Path(f"{given.name or _FILE}.yaml"), cell)
    workflow = Workflow.load(file).set(**settings)
    if given.plan:
        return workflow.plan()
    running = workflow.start(timeout=given.timeout)
    run = running.finish(check=False)
    shell.user_ns[given.name or _HELD] = run
    running.wait()
    return run


def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser(  # type: ignore[no-untyped-call]
        "%%wilkins", description="Run the workflow that the cell holds, as a workflow file does (YAML)."
    )
    parser.add_argument(
        "name", nargs="?", help=f"of the variable for the run, {_HELD} if left out; the cell is kept as NAME.yaml"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="give a parameter or a key; may be repeated"
    )
    parser.add_argument("--plan", action="store_true", help="show what would be started, and start nothing")
    parser.add_argument("--timeout", metavar="TIME", help="end the run after this time, such as 10min")
    return parser
