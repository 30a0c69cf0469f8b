"""What facts mean for workflows, and how to mend what stands in the way. Pure code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from wilkins.doctor.facts import (
    THREAD_MULTIPLE,
    ContainerFacts,
    FabricFacts,
    Hdf5,
    MachineFacts,
    Mpi,
    ProgramFacts,
    SharedMemory,
)
from wilkins.terminal.tables import binary_size

Level = Literal["ok", "note", "wrong"]

_TITLES = {"mpich": "MPICH", "openmpi": "Open MPI"}
_STEPS_AT_ONCE = 4
"""Two that are queued, one that is read, one that is written: the default queue."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    level: Level
    about: str
    text: str
    cure: str = ""
    """What to do; empty if nothing has to be done."""


def of_machine(facts: MachineFacts) -> list[Finding]:
    """What the machine is good for."""
    return [
        _cores(facts),
        _shared(facts.shared),
        *_memory(facts),
        *_namespaces(facts),
        Finding("ok", "GPUs", str(facts.gpus) if facts.gpus else "none"),
        *_mpis(facts.mpis),
        *([_fabric(facts.fabric)] if facts.fabric else []),
    ]


def _cores(facts: MachineFacts) -> Finding:
    text = f"{facts.cores}: tasks with more ranks share them, and ranks of MPI spin while they wait"
    if facts.cpu_limit is None or facts.cpu_limit >= facts.cores:
        return Finding("ok", "cores", text)
    limit = f"{facts.cores}, of which the container may use the time of {facts.cpu_limit:g}"
    return Finding("note", "cores", limit, "give the container more (docker run --cpus), or tasks fewer ranks")


def _shared(shared: SharedMemory | None) -> Finding:
    about = "shared memory"
    cure = "mount a tmpfs there, or start the container with it; until then `mode: file` on every port needs none"
    if shared is None:
        return Finding("wrong", about, "there is no /dev/shm, where steps are kept", cure)
    if not shared.writable:
        cure = f"as root: chmod 1777 {shared.folder}"
        return Finding("wrong", about, f"you may not write in {shared.folder}, where steps are kept", cure)
    text = (
        f"{shared.folder} has {binary_size(shared.size)}, {binary_size(shared.free)} free: with the default queue, "
        f"room for one port with steps of {binary_size(shared.free // _STEPS_AT_ONCE)}"
    )
    return Finding("ok", about, text)


def _memory(facts: MachineFacts) -> Iterator[Finding]:
    limit, shared = facts.memory_limit, facts.shared
    if limit is None:
        return
    text = f"this control group may use {binary_size(limit)}, programs and steps together"
    if shared is None or limit >= shared.free:
        yield Finding("ok", "memory limit", text)
    else:
        cure = "count steps in when you ask for memory (docker run --memory, sbatch --mem)"
        more = f"{text}: less than {shared.folder} has free; beyond it the kernel kills programs"
        yield Finding("note", "memory limit", more, cure)


def _namespaces(facts: MachineFacts) -> Iterator[Finding]:
    if facts.namespaces:
        text = f"a container, with namespaces of its own: {', '.join(facts.namespaces)}"
        cure = "tasks in other containers are joined if they see the same /dev/shm (`wilkins help containers`)"
        yield Finding("ok", "namespaces", f"{text}; {cure}")


def _mpis(mpis: tuple[Mpi, ...]) -> Iterator[Finding]:
    if not mpis:
        cure = "pip install mpich, or your system's package 'mpich' or 'openmpi-bin'"
        yield Finding("note", "MPI", "no mpiexec was found: tasks of one rank run, others do not", cure)
    for mpi in mpis:
        where = f"{_TITLES[mpi.family]} {mpi.version}".rstrip() + f", launcher {mpi.launcher}"
        if mpi.threads is None:
            yield Finding("ok", "MPI", f"{where}; its library could not be asked for its thread level")
        elif mpi.threads >= THREAD_MULTIPLE:
            yield Finding("ok", "MPI", f"{where}, MPI_THREAD_MULTIPLE")
        else:
            cure = "use `wilkins run` alone, which needs no threads, or an MPI that was built with them"
            text = f"{where}, without MPI_THREAD_MULTIPLE: `mpiexec -n N wilkins run` asks for it"
            yield Finding("note", "MPI", text, cure)


def _fabric(facts: FabricFacts) -> Finding:
    about, wished = "between hosts", facts.wish
    cure = "name the site's libucp.so (WILKINS_UCX=PATH), or `--fabric tcp`"
    if wished.ucx and facts.problem:
        level: Level = "wrong" if wished.forced else "note"
        return Finding(level, about, f"UCX is wanted ({wished.why}), and cannot be used: {facts.problem}", cure)
    if wished.ucx:
        return Finding("ok", about, f"{facts.ucx}, since {wished.why}; TCP to hosts that cannot do so")
    other = f"{facts.ucx} is here, too (`--fabric ucx`)" if facts.ucx else f"UCX cannot be used: {facts.problem}"
    return Finding("ok", about, f"TCP, since {wished.why}; {other}")


def of_container(facts: ContainerFacts) -> Finding:
    """Whether the layer can be preloaded into programs of a container."""
    about = f"container {facts.name}"
    if facts.problem:
        what, _, cure = facts.problem.partition("; ")
        return Finding("wrong", about, what, cure)
    wanted = ".".join(map(str, facts.needed))
    if not facts.libc:
        cure = "take an image with glibc, such as Debian, Ubuntu or Rocky"
        return Finding("wrong", about, f"it has no glibc (musl?), and the layer needs {wanted}", cure)
    text = f"glibc {'.'.join(map(str, facts.libc))}, started by {facts.runtime}; the layer needs glibc {wanted}"
    if facts.libc >= facts.needed:
        return Finding("ok", about, text)
    return Finding("wrong", about, text, "take a newer image, or build Wilkins on a system as old as that one")


def of_program(facts: ProgramFacts) -> list[Finding]:
    """Whether the layer reaches a program, and what is known of its files."""
    about = facts.name
    if facts.problem:
        what, _, cure = facts.problem.partition("; ")
        return [Finding("wrong", about, what, cure)]
    if facts.unreachable:
        what, _, cure = facts.unreachable.partition("; ")
        return [Finding("wrong", about, what, cure)]
    if facts.script:
        text = "a script, which can be reached; what it starts is not known here"
        return [Finding("ok", about, text, "give wilkins doctor the programs that it starts, too")]
    return [Finding("ok", about, "can be reached"), *_libraries(facts), *_launcher(facts)]


def _libraries(facts: ProgramFacts) -> Iterator[Finding]:
    if not facts.hdf5:
        text = "no HDF5 was found in what it loads at its start: its files are steps all the same, byte by byte"
        yield Finding("ok", facts.name, text)
    for library in facts.hdf5:
        yield _library(facts.name, library)


def _library(name: str, library: Hdf5) -> Finding:
    version = f"HDF5 {library.version}" + (", parallel" if library.parallel else "")
    if not library.inside:
        origin = f"from the wheel of {library.wheel}" if library.wheel else f"shared ({library.file})"
        return Finding("ok", name, f"{version}, {origin}: every value of `publish:` works")
    text = f"{version}, inside {library.file.name}: `publish: flush` and `{{write: n}}` see nothing of serial files"
    cure = "give `publish: next` or a number of closes, or build it with the shared HDF5 (h5cc -shlib)"
    return Finding("note", name, text, cure)


def _launcher(facts: ProgramFacts) -> Iterator[Finding]:
    if facts.no_mpiexec:
        what, _, cure = facts.no_mpiexec.partition("; ")
        yield Finding("wrong", facts.name, what, cure)
    elif facts.families:
        families = " and ".join(_TITLES[family] for family in facts.families)
        yield Finding("ok", facts.name, f"{families}, started by {facts.mpiexec}")
