"""Starts the ranks of a program that trains with `wilkins.tasks.elastic`, and stays with them."""

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__" and sys.path[0] == str(Path(__file__).parent):
    del sys.path[0]  # modules beside this file must not hide others
if importlib.util.find_spec("wilkins") is None:  # a checkout that only this file's path leads to
    sys.path.append(str(Path(__file__).resolve().parents[2]))
from wilkins.tasks.elastic.parent import Parent

_RANK = "OMPI_COMM_WORLD_RANK"
"""One of the variables in which programs, and the layer, look for their rank."""
_QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL"}
"""Gloo calls each connection that ends an error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program on some ranks; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m wilkins.tasks.elastic", description=__doc__)
    parser.add_argument("-n", type=int, required=True, metavar="RANKS", help="how many ranks to start")
    parser.add_argument(
        "--restarts", type=int, default=0, help="how often, in all, a rank that has died is started again (default 0)"
    )
    parser.add_argument("program", help="a Python script, or any command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(arguments)
    words = [given.program, *given.arguments]
    if given.n < 1 or given.restarts < 0:
        parser.error("give 1 rank or more, and 0 restarts or more")
    if given.program.endswith(".py"):
        words.insert(0, sys.executable)
        if not Path(given.program).is_file():
            parser.error(f"there is no program {given.program} in {Path.cwd()}; give the path of a Python script")
    elif shutil.which(given.program) is None:
        parser.error(f"there is no command {given.program!r}; give a Python script, or a command of the PATH")

    def start(rank: int, variables: Mapping[str, str]) -> int:
        child = subprocess.Popen(words, env={**_QUIET, **os.environ, **variables, _RANK: str(rank)})
        child.returncode = 0  # reaped by the parent, not by the object
        return child.pid

    def say(sentence: str) -> None:
        print(f"wilkins.tasks.elastic: {sentence}", file=sys.stderr, flush=True)

    parent = Parent(start, given.n, restarts=given.restarts, say=say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: parent.stop())
    return parent.run()


if __name__ == "__main__":
    sys.exit(main())
