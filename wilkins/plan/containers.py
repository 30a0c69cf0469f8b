"""Commands that start a program in a container: an image, or a folder with a root file system. Pure code.

A container shares with this machine what the layer relies on: `/dev/shm`, where steps are; process numbers and `/proc`,
by which processes look at each other; the folder of the workflow, that of the run's records, and the layer itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from wilkins.plan.plan import ContainerPlan

REGISTRY = "docker://"
LOCAL = "docker://localhost/"
"""Of images that Podman has made or loaded itself."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are in a folder with a root file system."""

PROGRAMS: Mapping[str, Sequence[str]] = {
    "registry": ("apptainer", "singularity", "podman"),
    "local": ("podman",),
    "folder": ("bwrap", "apptainer", "singularity", "podman"),
    "file": ("apptainer", "singularity"),
}
"""By kind of image: what can start a program in it, the preferred one first."""

MPI_VARIABLES: Mapping[str, str] = {
    "HYDRA_LAUNCHER": "fork",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_plm_rsh_agent": "/bin/sh",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""For an ``mpiexec`` in a container, of which it is not known whose it is: several tasks share the cores."""

_OF_THIS_MACHINE = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
_PREFIXES_OF_THIS_MACHINE = ("CONDA_", "MODULES_", "LMOD_", "__MODULES_", "BASH_FUNC_")
_SHARED = ("/dev/shm", "/tmp")
_MADE = ("dev", "proc", "sys", "tmp")
"""Folders of a root file system that are this machine's."""
_NAMES = ("etc/hosts", "etc/resolv.conf")

Listing = Callable[[str], Iterable["Entry"]]
"""The entries of a folder of a root file system."""


class Entry:
    """An entry of a folder."""

    __slots__ = ("folder", "link", "name")

    def __init__(self, name: str, folder: bool, link: str = "") -> None:
        """`link`: what a symbolic link leads to."""
        self.name, self.folder, self.link = name, folder, link


def runtime_of(program: str) -> str:
    """The kind of a program of `PROGRAMS`."""
    return "apptainer" if program == "singularity" else program


def outside(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables for a container, without those that tell of files of this machine."""
    return {
        name: value
        for name, value in variables.items()
        if name not in _OF_THIS_MACHINE and not name.startswith(_PREFIXES_OF_THIS_MACHINE)
    }


def command(
    container: ContainerPlan,
    cwd: str,
    folders: Sequence[str],
    own: Mapping[str, str],
    inside: Mapping[str, str],
    listing: Listing,
) -> list[str]:
    """The words before a program's that start it in a container.

    Args:
        folders: of this machine, to be seen under the same paths; `container` has others.
        own: the task's variables.
        inside: variables that only the program gets, not what starts the container.
        listing: of `container`'s image, if that is a folder.
    """
    binds = [*dict.fromkeys([*folders, *container.binds])]
    within = {name: own[name] for name in ("PATH", *_OF_THIS_MACHINE) if name in own}
    settings = [f"{name}={value}" for name, value in {**within, **inside}.items()]
    start = {"apptainer": _apptainer, "podman": _podman}.get(container.runtime)
    words = start(container, cwd, binds, own) if start else _bwrap(container, cwd, binds, listing)
    return [*words, "/usr/bin/env", *settings]


def _apptainer(container: ContainerPlan, cwd: str, binds: Sequence[str], _: Mapping[str, str]) -> list[str]:
    options = [word for bind in (*_SHARED, *binds) for word in ("--bind", bind)]
    return [container.program, "exec", *options, "--pwd", cwd, container.image]


def _podman(container: ContainerPlan, cwd: str, binds: Sequence[str], own: Mapping[str, str]) -> list[str]:
    shares = ["--network=host", "--pid=host", "--ipc=host", "--security-opt=label=disable"]
    user = [] if os.geteuid() == 0 else ["--userns=keep-id"]
    volumes = [f"--volume={bind if ':' in bind else f'{bind}:{bind}'}" for bind in ("/tmp", *binds)]
    names = ["--env=WILKINS_*", *(f"--env={name}" for name in own)]
    words = [container.program, "run", "--rm", "--interactive", *shares, *user, *volumes, *names]
    words += ["--workdir", cwd, "--entrypoint="]
    is_folder = container.image.startswith("/")
    return [*words, *(["--rootfs"] if is_folder else []), container.image.removeprefix(REGISTRY)]


def _bwrap(container: ContainerPlan, cwd: str, binds: Sequence[str], listing: Listing) -> list[str]:
    pairs = [(bind.partition(":")[0], bind.partition(":")[2] or bind) for bind in binds]
    needed = [inside for _, inside in pairs]
    names = list(_names(needed, listing))
    words = [container.program, *_root(container.image, "", [*needed, *names], listing)]
    for bind in ("--dev-bind /dev /dev", "--bind /proc /proc", "--ro-bind /sys /sys", "--bind /tmp /tmp"):
        words += bind.split()
    for name in names:
        words += ["--ro-bind-try", name, name]
    for path, inside in pairs:
        words += ["--bind", path, inside]
    return [*words, "--setenv", "PATH", DEFAULT_PATH, "--chdir", cwd, "--"]


def _names(needed: Sequence[str], listing: Listing) -> Iterator[str]:
    """Files by which this machine finds other hosts, that are to be seen in an image."""
    if not any(entry.name == "etc" for entry in listing("")) or _below("etc", needed):
        return
    links = {entry.name for entry in listing("etc") if entry.link}
    yield from (f"/{name}" for name in _NAMES if PurePosixPath(name).name not in links)


def _root(image: str, folder: str, needed: Sequence[str], listing: Listing) -> Iterator[str]:
    """Options that show what is in a folder of an image, where others are to be made in it: it cannot be changed."""
    for entry in listing(folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if path in _MADE:
            continue
        if entry.link:
            yield from ("--symlink", entry.link, f"/{path}")
        elif entry.folder and _below(path, needed):
            yield from ("--dir", f"/{path}")
            yield from _root(image, path, needed, listing)
        else:
            yield from ("--ro-bind", f"{image}/{path}", f"/{path}")


def _below(path: str, needed: Sequence[str]) -> bool:
    return any(one.startswith(f"/{path}/") for one in needed)


def folders_of(cwd: str, *others: str) -> list[str]:
    """Folders that a task needs, without those that lie in another one."""
    found = list(dict.fromkeys(os.path.normpath(one) for one in (cwd, *others)))
    return [one for one in found if not any(one != other and f"{one}/".startswith(f"{other}/") for other in found)]
