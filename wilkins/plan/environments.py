"""Finds the environment of a task: virtual and conda environments, modules, containers, and what is missing of them."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from wilkins.errors import Problem, suggest
from wilkins.plan import containers, glibc
from wilkins.plan.activation import ActivationError, variables_of
from wilkins.plan.plan import Activation, ContainerPlan, Environment
from wilkins.plan.program import Program, inspect, names_interpreter
from wilkins.spec.workflow import ENVIRONMENT_KEYS, Task
from wilkins.values import dataclass

_MODULECMDS = ("libexec/modulecmd.tcl", "libexec/lmod", "libexec/modulecmd")
_PYTHON_PACKAGE = r"python-(\d+\.\d+[^-]*)-.*\.json"
_CONDAS = ("conda", "mamba", "micromamba")


@dataclass(frozen=True, slots=True)
class Found:
    """The environment of a task, and where its programs are."""

    environment: Environment
    commands: str
    """Its ``PATH``."""
    libraries: str
    """Its ``LD_LIBRARY_PATH``."""
    python: Path | None = None
    """What ``.py`` runs under, if not the Python that runs this."""


def of_task(task: Task, home: Path, problems: list[Problem]) -> Found | None:
    """The environment of a task; None if it says nothing about one, or that is missing, which is reported."""
    if not any(getattr(task, name) for name in ENVIRONMENT_KEYS):
        return None
    key = next(name for name in ENVIRONMENT_KEYS if getattr(task, name))
    try:
        if task.container:
            return _in_container(task, home)
        return _activated(task, home)
    except ActivationError as error:
        key = "modules" if task.modules else key
        problems.append(Problem(task.where.of(key), f"{task.label}: {error}"))
    except ValueError as error:
        problems.append(Problem(task.where.of(key), f"{task.label}: {error}"))
    return None


def _activated(task: Task, home: Path) -> Found:
    venv = find_venv(home / Path(task.venv).expanduser()) if task.venv else None
    conda = find_conda(task.conda, home, os.environ, Path.home()) if task.conda else None
    modulecmd = find_modulecmd(os.environ) if task.modules else ()
    name = str(conda if "/" in (task.conda or "") else task.conda or "")
    path = os.environ.get("MODULEPATH", "")
    activation = Activation(task.modules, modulecmd, path if task.modules else "", venv, conda, name)
    variables = variables_of(activation)
    commands = variables.get("PATH", os.environ.get("PATH", os.defpath))
    libraries = (task.env or {}).get(
        "LD_LIBRARY_PATH", variables.get("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
    )
    python = _python_of(activation, commands)
    if task.func.endswith(".py") and conda and not os.access(conda / "bin" / "python", os.X_OK):
        raise ValueError(
            f"the environment {str(conda)!r} has no Python for {task.func!r}; run: conda install -p {conda} python"
        )
    environment = Environment(" and ".join(_words(activation, python)), activation, variables, socket.gethostname())
    return Found(environment, commands, libraries, python)


def _python_of(activation: Activation, commands: str) -> Path | None:
    """The Python of an environment; of modules, one that they bring."""
    if folder := activation.venv or activation.conda:
        return folder / "bin" / "python"
    found = shutil.which("python3", path=commands)
    return Path(found) if found and found != shutil.which("python3") else None


def _words(activation: Activation, python: Path | None) -> Iterator[str]:
    """What a plan shows of an environment."""
    if activation.modules:
        yield f"modules {' '.join(activation.modules)}" + (f", {python}" if python and not activation.venv else "")
    if activation.venv:
        yield f"venv {activation.venv}, Python {_version_of_venv(activation.venv)}"
    if activation.conda:
        name = "" if activation.conda_name == str(activation.conda) else f"{activation.conda_name} "
        version = _version_of_conda(activation.conda)
        yield f"conda {name}{activation.conda}, " + (f"Python {version}" if version else "without Python")


def absolute(path: Path) -> Path:
    """A path without ``..``, whose links stay: an environment is known by the name that it was given."""
    return Path(os.path.normpath(path.absolute()))


def find_venv(path: Path) -> Path:
    """A virtual environment, as an absolute path.

    Raises:
        ValueError: there is none; the message says how to make it.
    """
    path = absolute(path)
    if not path.exists():
        raise ValueError(f"there is no virtual environment {str(path)!r}; make it: python3 -m venv {path}")
    if (path / "conda-meta").is_dir():
        raise ValueError(f"{str(path)!r} is a conda environment; write 'conda' instead of 'venv'")
    if not (path / "pyvenv.cfg").is_file():
        raise ValueError(
            f"{str(path)!r} is no virtual environment, since it has no pyvenv.cfg; make one: python3 -m venv {path}"
        )
    python = path / "bin" / "python"
    if not os.access(python, os.X_OK):
        gone = f" ({python.resolve()} is gone)" if python.is_symlink() else ""
        raise ValueError(
            f"the virtual environment {str(path)!r} has no Python that can be executed{gone}; make it anew: "
            f"python3 -m venv --clear {path}"
        )
    return path


def _version_of_venv(venv: Path) -> str:
    text = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"(?m)^version(?:_info)?\s*=\s*(\S+)", text)
    return found[1] if found else "of unknown version"


def find_conda(name: str, home: Path, environment: Mapping[str, str], user: Path) -> Path:
    """The prefix of a conda environment, by its path or its name.

    Args:
        home: of paths that are relative.
        user: the user's home.

    Raises:
        ValueError: there is none.
    """
    if "/" in name or name in (".", ".."):
        prefix = absolute(home / Path(name).expanduser())
        if (prefix / "conda-meta").is_dir():
            return prefix
        if (prefix / "pyvenv.cfg").is_file():
            raise ValueError(f"{str(prefix)!r} is a virtual environment; write 'venv' instead of 'conda'")
        what = "is no conda environment, since it has no conda-meta" if prefix.exists() else "does not exist"
        raise ValueError(f"the conda environment {str(prefix)!r} {what}; make it: conda create -p {prefix}")
    known: dict[str, Path] = {}
    for found, prefix in _conda_environments(environment, user):
        known.setdefault(found, prefix)
    if name in known:
        return known[name]
    hint = suggest(name, list(known)) or (f"; there are {', '.join(sorted(known))}" if known else "")
    raise ValueError(f"there is no conda environment {name!r}{hint}; make it: conda create -n {name}, or give its path")


def _conda_environments(environment: Mapping[str, str], user: Path) -> Iterator[tuple[str, Path]]:
    """All conda environments that this user has, by name, those first that conda finds first."""
    roots = [Path(environment[name]) for name in ("MAMBA_ROOT_PREFIX",) if environment.get(name)]
    commands = [environment.get("CONDA_EXE"), *(shutil.which(name, path=environment.get("PATH")) for name in _CONDAS)]
    commands.append(environment.get("MAMBA_EXE"))
    roots += [Path(os.path.realpath(one)).parents[1] for one in commands if one]
    folders = [Path(one) for one in re.split(r"[:,]", environment.get("CONDA_ENVS_PATH", "")) if one]
    folders += [*(root / "envs" for root in roots), user / ".conda" / "envs"]
    for root in roots:
        if (root / "conda-meta").is_dir():
            yield "base", root
    for folder in folders:
        if folder.is_dir():
            yield from ((one.name, one) for one in sorted(folder.iterdir()) if (one / "conda-meta").is_dir())
    try:
        lines = (user / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        if (prefix := Path(line.strip())) and (prefix / "conda-meta").is_dir():
            yield prefix.name, prefix


def _version_of_conda(prefix: Path) -> str:
    names = sorted(path.name for path in (prefix / "conda-meta").glob("python-*.json"))
    found = next((match for name in names if (match := re.fullmatch(_PYTHON_PACKAGE, name))), None)
    if found:
        return found[1]
    return "of unknown version" if os.access(prefix / "bin" / "python", os.X_OK) else ""


def find_modulecmd(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The program of Lmod or Environment Modules.

    Raises:
        ValueError: there is none.
    """
    home = environment.get("MODULESHOME")
    named = [environment.get("LMOD_CMD"), environment.get("MODULES_CMD")]
    named += [str(Path(home, name)) for name in _MODULECMDS] if home else []
    named.append(shutil.which("modulecmd", path=environment.get("PATH")))
    found = next((one for one in named if one and os.access(one, os.X_OK)), None)
    if found:
        return (found,)
    raise ValueError(
        "there is no modules system: neither LMOD_CMD nor MODULESHOME leads to one, and 'modulecmd' is not on PATH; "
        "start a login shell that has the command `module`, or remove 'modules'"
    )


def _in_container(task: Task, home: Path) -> Found:
    assert task.container is not None
    container = find_container(task.container.name, task.container.binds, home, os.environ.get("PATH"))
    folder = f", glibc {glibc.shown(version)}" if (version := _glibc(container)) else ""
    shown = f"container {container.image}, by {Path(container.program).name}{folder}"
    return Found(Environment(shown, container=container), containers.DEFAULT_PATH, "", Path("python3"))


def _glibc(container: ContainerPlan) -> glibc.Version | None:
    return glibc.of_root(Path(container.image)) if container.image.startswith("/") else None


def find_container(name: str, binds: Iterable[str], home: Path, commands: str | None) -> ContainerPlan:
    """An image, and what starts programs in it.

    Raises:
        ValueError: it is not there, or nothing can start it.
    """
    if name.startswith(containers.REGISTRY):
        kind, image = "local" if name.startswith(containers.LOCAL) else "registry", name
    else:
        path = absolute(home / Path(name).expanduser())
        image = str(path)
        if not path.exists():
            hint = "; an image of a registry is written docker://NAME"
            if name.startswith(containers.LOCAL.removeprefix(containers.REGISTRY)):
                hint = f"; an image of Podman's is written {containers.REGISTRY}{name}"
            hint = "" if name.endswith(".sif") else hint
            raise ValueError(f"there is no image {image!r}; build or copy it there, or mend the path{hint}")
        kind = "folder" if path.is_dir() else "file"
        if kind == "folder" and not (path / "usr").is_dir() and not (path / "bin").is_dir():
            raise ValueError(f"{image!r} holds no root file system: it has neither usr nor bin; mend the path")
    mounted = []
    for bind in binds:
        source, _, inside = bind.partition(":")
        outside = absolute(home / Path(source).expanduser())
        if not outside.exists():
            raise ValueError(f"the folder {str(outside)!r} of 'binds' does not exist; make it, or mend the path")
        mounted.append(f"{outside}:{inside}" if inside else str(outside))
    usable = containers.PROGRAMS[kind]
    program = next((found for one in usable if (found := shutil.which(one, path=commands))), None)
    if program is None:
        names = ", ".join(usable[:-1]) + (" and " if usable[1:] else "") + usable[-1]
        raise ValueError(
            f"none of {names} is on PATH, and {image!r} needs one of them; install one, or load its module"
            if usable[1:]
            else f"{names} is not on PATH, and {image!r} needs it; install it, or load its module"
        )
    return ContainerPlan(
        cast(Any, containers.runtime_of(Path(program).name)), program, image, (str(home),), tuple(mounted)
    )


def program_inside(func: str, home: Path, container: ContainerPlan) -> tuple[Program, Path | None]:
    """The program of a task in a container, and the script for its Python.

    A path that is relative is one of the workflow's folder, which is seen in the container; others are the container's.

    Raises:
        ValueError: there is none.
    """
    local = home / Path(func)
    if func.endswith(".hx"):
        raise ValueError(f"{func!r}: give the executable itself, as it is in the container")
    if func.endswith(".py"):
        if not local.is_file():
            raise ValueError(f"there is no program {func!r} in {str(home)!r}; mend the path")
        if names_interpreter(local):
            return Program(local, "script"), None
        return Program(Path("python3"), "elf"), local.resolve()
    if not func.startswith("/") and local.is_file() and os.access(local, os.X_OK):
        with local.open("rb") as file:
            is_script = file.read(2) == b"#!"
        return (Program(local, "script") if is_script else inspect(local)), None
    if "/" in func and not func.startswith("/"):
        raise ValueError(
            f"there is no program {func!r} in {str(home)!r} that can be executed; build it, or mend the path"
        )
    _look_in_folder(func, container)
    return Program(Path(func), "elf"), None


def _look_in_folder(func: str, container: ContainerPlan) -> None:
    """Whether a folder has a program; what is in an image is not known before it starts."""
    if not container.image.startswith("/") or not Path(container.image).is_dir():
        return
    if any(func.startswith(f"{bind.partition(':')[2] or bind}/") for bind in container.binds):
        return
    paths = [func] if func.startswith("/") else [f"{folder}/{func}" for folder in containers.DEFAULT_PATH.split(":")]
    if not any(os.path.lexists(container.image + path) for path in paths):
        where = "" if func.startswith("/") else f" in {containers.DEFAULT_PATH}"
        raise ValueError(f"the container {container.image!r} has no program {func!r}{where}; install it there")


def too_old(container: ContainerPlan) -> str:
    """Why the layer cannot be preloaded in a folder's programs, and what to do; empty if it can, or is not known."""
    if not container.image.startswith("/") or not Path(container.image).is_dir():
        return ""
    found, wanted = glibc.of_root(Path(container.image)), glibc.needed()
    if found is None:
        return (
            f"{container.image!r} has no glibc (musl?), so the layer cannot reach its programs; take an image with "
            "glibc, such as Debian, Ubuntu or Rocky"
        )
    if found >= wanted:
        return ""
    return (
        f"{container.image!r} has glibc {glibc.shown(found)}, and the layer needs {glibc.shown(wanted)}; take a newer "
        "image, or build Wilkins on a system as old as that one"
    )
