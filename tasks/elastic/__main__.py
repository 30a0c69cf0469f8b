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
from wilkins.tasks.elastic.hosts import Host, serve
from wilkins.tasks.elastic.parent import Parent
from wilkins.tasks.elastic.processes import Place, Processes, Start

_RANK = "OMPI_COMM_WORLD_RANK"
"""One of the variables in which programs, and the layer, look for their rank."""
_QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL"}
"""Gloo calls each connection that ends an error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program on some ranks; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m wilkins.tasks.elastic", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-n", type=int, metavar="RANKS", help="how many ranks to start")
    where.add_argument("--on", action="append", nargs=4, help=argparse.SUPPRESS)  # HOST ADDRESS RANKS COMMAND
    where.add_argument("--serve", nargs="?", const="", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--agent", help=argparse.SUPPRESS)  # AGENT HOST COMMAND runs a command on a host
    parser.add_argument(
        "--restarts", type=int, default=0, help="how often, in all, a rank that has died is started again (default 0)"
    )
    parser.add_argument("program", nargs="?", help="a Python script, or any command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(arguments)
    if given.restarts < 0 or (given.n is not None and given.n < 1):
        parser.error("give 1 rank or more, and 0 restarts or more")
    if given.on is not None:
        return run([_host(given.agent, given.on, number) for number in range(len(given.on))], given.restarts)
    start = starter(_words(parser, given.program, given.arguments))
    if given.serve is not None:
        return serve(start, Path(given.serve) if given.serve else None)
    return run([Processes(start, given.n)], given.restarts)


def _words(parser: argparse.ArgumentParser, program: str | None, arguments: Sequence[str]) -> list[str]:
    """The command of a rank."""
    if program is None:
        parser.error("name the program that the ranks run")
    if program.endswith(".py"):
        if not Path(program).is_file():
            parser.error(f"there is no program {program} in {Path.cwd()}; give the path of a Python script")
        return [sys.executable, program, *arguments]
    if shutil.which(program) is None:
        parser.error(f"there is no command {program!r}; give a Python script, or a command of the PATH")
    return [program, *arguments]


def _host(agent: str, hosts: Sequence[Sequence[str]], number: int) -> Host:
    """The ranks on the host of that number, each with its name, address, number of ranks, and command."""
    name, _, ranks, command = hosts[number]
    towards = hosts[1 if number == 0 else 0][1] if len(hosts) > 1 else name
    return Host(name, [agent, name, command], int(ranks), towards)


def starter(words: Sequence[str]) -> Start:
    """Starts ranks with a command."""

    def start(rank: int, variables: Mapping[str, str]) -> int:
        child = subprocess.Popen(words, env={**_QUIET, **os.environ, **variables, _RANK: str(rank)})
        child.returncode = 0  # reaped by who watches over the ranks, not by the object
        return child.pid

    return start


def run(places: Sequence[Place], restarts: int) -> int:
    """Run a training whose ranks are in some places; returns its exit code."""

    def say(sentence: str) -> None:
        print(f"wilkins.tasks.elastic: {sentence}", file=sys.stderr, flush=True)

    parent = Parent(places, restarts=restarts, say=say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: parent.stop())
    try:
        return parent.run()
    except OSError as error:
        say(f"a process cannot be started, so all are ended: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
