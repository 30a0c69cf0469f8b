"""The messages of an MPI job over several hosts: between its keepers and the ranks' launchers, and with the head."""

from __future__ import annotations

from wilkins.launch.hosts.control import Message
from wilkins.launch.job.programs import RankProgram
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """A keeper comes to the head."""

    name: str
    """Of its host."""


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """The answer."""


@dataclass(frozen=True, slots=True)
class Comes(Message):
    """A rank's launcher has come to its keeper, which lets the head know."""

    rank: int


@dataclass(frozen=True, slots=True)
class Leave(Message):
    """What all ranks of the job exit with: from the head by the keepers to their launchers."""

    code: int


@dataclass(frozen=True, slots=True)
class Start(Message):
    """A launcher is to start the program of its rank."""

    program: RankProgram
    label: str
    widest: str
    """The longest of all labels."""
    quiet: bool
    log: str
    ranks: str
    """The file in which ranks that are done stand."""
    place: int
    """Of the rank in that."""


@dataclass(frozen=True, slots=True)
class StartIdle(Message):
    """A launcher is to have a process in its rank that has no program."""

    library: str | None
    """The MPI library by which it takes part; None: the programs of no other rank do."""
    token: str
    """Of the run."""


@dataclass(frozen=True, slots=True)
class Wake(Message):
    """A launcher is to let its idle rank end with the others."""


@dataclass(frozen=True, slots=True)
class Stop(Message):
    """A launcher is to stop its program."""


@dataclass(frozen=True, slots=True)
class Over(Message):
    """A rank's program has done its last; its process may wait for others in MPI_Finalize."""

    code: int


@dataclass(frozen=True, slots=True)
class Gone(Message):
    """A rank's process has ended."""

    code: int


@dataclass(frozen=True, slots=True)
class Signalled(Message):
    """A launcher got a signal."""

    number: int


@dataclass(frozen=True, slots=True)
class Orphaned(Message):
    """What has started a launcher is gone."""


@dataclass(frozen=True, slots=True)
class Left(Message):
    """A launcher has ended; its keeper finds that by the connection."""


@dataclass(frozen=True, slots=True)
class Done(Message):
    """The programs of all ranks of a task on a host have done their last: from its keeper to the head."""

    task: int
    clean: bool


@dataclass(frozen=True, slots=True)
class Finalize(Message):
    """They have on all hosts, so that idle ranks may end: from the head to the keepers."""
