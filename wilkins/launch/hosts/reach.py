"""Stands for ssh to an mpiexec that starts ranks on several hosts: gets to a host as the head of the run does."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

RSH = "WILKINS_RSH"
"""Names a command that runs another one on a host, as ``ssh HOST COMMAND`` does, instead of ssh or srun."""

PART = "WILKINS_PART"
"""Marks what was started here for a task of several hosts, so that this host's keeper can end it."""

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5")
"""Of ssh: ask nobody for a password, and do not try for ever, nor wait for a host that is cut off."""


def remote(host: str, words: Sequence[str]) -> list[str]:
    """The command that starts a program on a host."""
    agent = shlex.split(os.environ.get(RSH, ""))
    if not agent and host in (socket.gethostname(), socket.gethostname().partition(".")[0], "localhost"):
        return list(words)
    if not agent and "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        return ["srun", "--overlap", "-K1", "-N1", "-n1", "-w", host, *words]
    quoted = shlex.join(["cd", str(Path.cwd())]) + " && exec " + shlex.join(words)
    return [*(agent or ("ssh", *_OPTIONS)), host, quoted]


def address(host: str) -> str:
    """By which other hosts reach one."""
    return socket.gethostname() if host == "localhost" or RSH in os.environ else host


def part_of(run: Path, host: str) -> str:
    """The value of `PART` on a host."""
    return str(run / "hosts" / host)


def main(run: Path, words: list[str]) -> None:
    """``[OPTION ...] HOST WORD ...``: the words, with spaces between them, are what a shell on the host is to do."""
    while words[0].startswith("-"):
        words = words[1:]
    mark = f"{PART}={part_of(run, words[0])}"
    command = remote(words[0], ["/usr/bin/env", mark, "/bin/sh", "-c", " ".join(words[1:])])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
