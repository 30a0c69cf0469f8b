"""Runs a program with the recorder in it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins.doctor import programs
from wilkins.doctor.facts import ProgramFacts
from wilkins.errors import ResourceError, UsageError
from wilkins.launch.programs.environment import MPIEXEC_DEFAULTS, without_mpi_job
from wilkins.plan.mpi import choose_mpiexec, launcher_family, launcher_options
from wilkins.record.events import Event, read_events
from wilkins.transport.board import built_library


@dataclass(frozen=True, slots=True)
class Command:
    """The command that is recorded."""

    words: tuple[str, ...]
    nprocs: int = 1
    mpiexec: tuple[str, ...] = ()
    """The launcher that the user named, with its options."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The record of a run."""

    events: list[Event]
    exit_code: int
    """Negative: a signal."""


def record(command: Command) -> Recorded:
    """Run a program to its end, or until the user interrupts it.

    Raises:
        UsageError: there is no such program.
        ResourceError: the recorder cannot get into it, or it cannot be started.
    """
    facts = programs.of_words(*command.words)
    if facts.problem:
        raise UsageError(facts.problem)
    if facts.unreachable:
        raise ResourceError(facts.unreachable)
    try:
        library = built_library("libwilkins-record.so")
    except FileNotFoundError as error:
        raise ResourceError(str(error.strerror)) from error
    with tempfile.TemporaryDirectory(prefix="wilkins-record-") as folder:
        file = Path(folder) / "record"
        file.touch(mode=0o600)
        before = os.environ.get("LD_PRELOAD", "")
        variables = {"LD_PRELOAD": f"{library}:{before}" if before else str(library), "WILKINS_RECORD": str(file)}
        code = _run(_started(command, facts, variables))
        return Recorded(read_events(file), code)


def _started(command: Command, facts: ProgramFacts, variables: dict[str, str]) -> list[str]:
    """The words that start the program; only the program itself gets the variables."""
    words = list(command.words)
    if Path(words[0]).suffix == ".py":
        words.insert(0, sys.executable)
    words = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *words]
    if command.nprocs == 1 and not command.mpiexec:
        return words
    return [*(_named(command) or _chosen(facts)), "-n", str(command.nprocs), *words]


def _named(command: Command) -> tuple[str, ...]:
    if not command.mpiexec:
        return ()
    found = shutil.which(command.mpiexec[0])
    if found is None:
        raise UsageError(f"there is no {command.mpiexec[0]!r} on PATH; mend --mpiexec")
    return (found, *command.mpiexec[1:])


def _chosen(facts: ProgramFacts) -> tuple[str, ...]:
    """The launcher of the MPI that the program uses; of one that tells none, the environment's."""
    if facts.no_mpiexec:
        raise ResourceError(facts.no_mpiexec)
    if facts.mpiexec:
        family = launcher_family(facts.mpiexec)
        return (facts.mpiexec, *(launcher_options(family) if family else ()))
    try:
        return choose_mpiexec([], Path(sys.executable).parent)
    except ValueError as error:
        raise ResourceError(str(error)) from error


def _run(words: Sequence[str]) -> int:
    try:
        process = subprocess.Popen(words, env={**MPIEXEC_DEFAULTS, **without_mpi_job(os.environ)})
    except OSError as error:
        raise ResourceError(f"{shlex.join(words)}: cannot be started: {error.strerror}; check the command") from error
    # Ctrl-C reaches the program, too. It ends one that runs for ever; its record is shown all the same.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
