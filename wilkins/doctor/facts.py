"""Facts about a machine and its programs, without conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wilkins.plan.mpi import Family
from wilkins.transport.fabric import Wish

THREAD_MULTIPLE = 3
"""MPI's highest thread level; both families number them alike."""


@dataclass(frozen=True, slots=True)
class Hdf5:
    """An HDF5 library that a program loads, or has inside."""

    file: Path
    version: str
    inside: bool = False
    """Whether it is linked into the program or module `file`, and no library of its own."""
    parallel: bool = False
    wheel: str = ""
    """The Python package that brings it."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program, looked at without running it."""

    name: str
    """As the user gave it."""
    problem: str = ""
    """Why there is no such program, or it cannot be executed."""
    unreachable: str = ""
    script: bool = False
    """A script for another interpreter than Python: what it starts is not known."""
    hdf5: tuple[Hdf5, ...] = ()
    families: tuple[Family, ...] = ()
    mpiexec: str = ""
    """What starts its ranks; empty if it uses no MPI, or there is none."""
    no_mpiexec: str = ""
    """Why its MPI has no launcher here."""


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What tasks run in: an image, or a folder with a root file system."""

    name: str
    """As the user gave it."""
    runtime: str = ""
    """The program that starts it."""
    libc: tuple[int, ...] = ()
    """The version of its glibc; empty: it has none, or it could not be asked."""
    needed: tuple[int, ...] = ()
    """The version that the layer needs."""
    problem: str = ""
    """Why it cannot be used, or could not be asked."""


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI of which a launcher was found."""

    family: Family
    launcher: str
    library: Path | None = None
    version: str = ""
    threads: int | None = None
    """The thread level that it gives; None: it could not be initialised."""


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The file system that holds steps."""

    folder: Path
    size: int
    free: int
    writable: bool


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """What bytes of steps would cross to other hosts by."""

    wish: Wish
    ucx: str = ""
    """UCX's version; empty: it cannot be used."""
    problem: str = ""
    """Why it cannot."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """This machine, or the container that this process is in."""

    cores: int
    cpu_limit: float | None
    """Cores' worth of time that its control group may use; None: no limit."""
    shared: SharedMemory | None
    memory_limit: int | None
    """Bytes of its control group; None: no limit."""
    namespaces: tuple[str, ...]
    """The namespaces in which it is not the machine itself."""
    gpus: int
    mpis: tuple[Mpi, ...]
    fabric: FabricFacts | None = None
    """None: not looked at."""
