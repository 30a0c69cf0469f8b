"""The script of a batch job, but for what PSI/J writes. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from wilkins.submit.request import JobRequest
from wilkins.transport.plan_table import RANK_VARIABLES


def launch_words(job: JobRequest) -> list[str]:
    """The command that runs the workflow, as words of a shell.

    The script's shell becomes the run's launcher: signals reach that at once, and what it exits with is the job's.
    """
    return ["exec", "/bin/bash", "-c", shlex.quote(_commands(job))]


def _commands(job: JobRequest) -> str:
    lines = [
        # The job is a rank of nothing: neither Slurm's, which calls a batch script one, nor that of a shell which is a
        # rank and submits the job with its variables.
        f"unset {' '.join((*RANK_VARIABLES, 'SLURM_STEP_NUM_TASKS'))}",
        "set -e",
        *job.setup,
        f"cd {shlex.quote(str(job.folder))}",
        f"exec {shlex.join(job.words)}",
    ]
    return "\n".join(lines)


def within_quotes(text: str) -> str:
    """A text as it stands between double quotes in a shell."""
    return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)


def with_options(script: str, marker: str, options: Sequence[str]) -> str:
    """A script with more lines of a scheduler's options after those that it has, and no empty lines among them."""
    lines = script.splitlines()
    last = max(number for number, line in enumerate(lines) if number == 0 or line.startswith(marker))
    head = [line for line in lines[: last + 1] if line.strip()]
    return "\n".join([*head, *(f"{marker} {option}" for option in options), *lines[last + 1 :], ""])
