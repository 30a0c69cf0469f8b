"""The options of ``wilkins submit``, and what they say. Light, as the command line reads this for every command."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.errors import UsageError, refused
from wilkins.terminal.arguments import count

if TYPE_CHECKING:
    from wilkins.submit.request import Options

SCHEDULERS = ("slurm", "pbs", "flux", "lsf")


def add_to(parser: argparse.ArgumentParser) -> None:
    """Let a command have the options of the job."""

    def add(name: str, metavar: str, text: str, **more: object) -> None:
        parser.add_argument(name, metavar=metavar, help=text, **more)  # type: ignore[arg-type]

    parser.add_argument("--scheduler", choices=SCHEDULERS, help="left out: the one whose command is on PATH")
    parser.add_argument("--dry-run", action="store_true", help="print the job's script, and submit nothing")
    add("--time", "TIME", "how long the job may take (90min, 12h); left out: `walltime` of the tasks, or 1h")
    add("--queue", "QUEUE", "the queue or partition")
    add("--account", "ACCOUNT", "the account, project or bank that pays")
    add("--name", "NAME", "the job's name; left out: the workflow's")
    add("--nodes", "N", "nodes; left out: 1", type=count)
    add("--cores", "N", "cores on all nodes together; left out: ranks times threads of all tasks", type=count)
    add("--gpus", "N", "GPUs on each node; left out: `gpus` of all tasks together", type=count)
    memory = "memory on each node, such as 16GB; left out: `memory` of all tasks together, or what the scheduler gives"
    add("--memory", "SIZE", memory)
    add(
        "--environment",
        "LINE",
        "a line of bash before the run, such as 'module load hdf5'; may be repeated",
        action="append",
        default=[],
    )
    add("--setup", "FILE", "lines of bash before the run, as they stand in this file now", type=Path)
    add(
        "--option",
        "LINE",
        "an option of the scheduler as it stands: --option=--constraint=a100; may be repeated",
        action="append",
        default=[],
    )


def options(parsed: argparse.Namespace) -> Options:
    """What the command line says of the job.

    Raises:
        ResourceError: the file of `--setup` cannot be read.
        UsageError: a value is no time or size.
    """
    from wilkins.submit.request import Options

    return Options(
        minutes=_minutes(parsed.time),
        nodes=parsed.nodes,
        cores=parsed.cores,
        memory=_bytes(parsed.memory),
        queue=parsed.queue,
        account=parsed.account,
        name=parsed.name,
        setup=(*parsed.environment, *_lines(parsed.setup)),
        lines=tuple(parsed.option),
    )


def run_words(parsed: argparse.Namespace, run: Path | None) -> tuple[str, ...]:
    """The command that the job runs: this Python's ``wilkins run``, with what was given of its options.

    Args:
        parsed: what was typed; the job's ``wilkins run`` takes the rest from the profile itself.
        run: the run to go on with.
    """
    words = [sys.executable, "-m", "wilkins", "run"]
    if run is not None:
        words += ["--resume", str(run)]
    elif parsed.builtin is not None:
        words += ["--builtin", parsed.builtin]
    elif parsed.file is not None:
        words.append(str(parsed.file))
    words += [f"--set={setting}" for setting in parsed.set]
    switches = (("--files", parsed.files), ("--strict", parsed.strict), ("--encrypt", parsed.encrypt))
    words += [name for name, wanted in switches if wanted]
    for name, value in (("--timeout", parsed.timeout), ("--patience", parsed.patience), ("--run-dir", parsed.run_dir)):
        if value is not None:
            words += [name, str(value)]
    words += [f"--metrics={where}" for where in parsed.metrics]
    if parsed.profile is not None:
        words.append(f"--profile={parsed.profile}")
    return tuple(words)


def _minutes(text: str | None) -> int | None:
    """A time in whole minutes, which is what all schedulers count in."""
    from wilkins.schema.kinds import parse_duration

    if text is None:
        return None
    try:
        return math.ceil(parse_duration(text) / 60)
    except ValueError:
        raise UsageError(f"--time must be a time such as 30min or 12h, not {text!r}") from None


def _bytes(text: str | None) -> int | None:
    from wilkins.schema.kinds import parse_size
    from wilkins.submit.request import LEAST_MEMORY

    if text is None:
        return None
    try:
        found = parse_size(text)
    except ValueError:
        raise UsageError(f"--memory must be a size such as 16GB, not {text!r}") from None
    if found < LEAST_MEMORY:
        raise UsageError(f"--memory {text} is less than any run takes; give a size with its unit, such as 16GB")
    return found


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise refused(file, "read the lines of --setup", error) from error
