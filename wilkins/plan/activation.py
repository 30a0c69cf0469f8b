"""Activates modules, virtual and conda environments: the variables that result on this host, computed once."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wilkins.errors import WilkinsError
from wilkins.plan.plan import Activation

_LIMIT = 120.0
"""Seconds for the shell that loads modules and runs the scripts of an environment."""
_OF_SHELLS = ("_", "SHLVL", "PWD", "OLDPWD")
_PYTHON_HOME = "PYTHONHOME"
"""A Python that is told of another one's home does not find its own."""


class ActivationError(WilkinsError):
    """An environment cannot be activated on this host; the message says why."""


@cache
def variables_of(activation: Activation) -> dict[str, str]:
    """The variables that differ, on this host, where it is active; one that it removes is empty.

    Raises:
        ActivationError: a module cannot be loaded, or a script ends the shell.
    """
    before = dict(os.environ)
    after = dict(before)
    if activation.modulepath:
        after.setdefault("MODULEPATH", activation.modulepath)
    if activation.conda:
        after = with_conda(after, activation.conda, activation.conda_name, _own_variables(activation.conda))
    if script := shell_script(activation, *_scripts(before, activation.conda)):
        after = _run(script, after, activation)
    if activation.venv:
        after = with_venv(after, activation.venv)
    return difference(before, after)


def with_venv(environment: Mapping[str, str], venv: Path) -> dict[str, str]:
    """Variables as the ``activate`` of a virtual environment leaves them."""
    path = joined(str(venv / "bin"), environment.get("PATH", os.defpath))
    return {**environment, "VIRTUAL_ENV": str(venv), "PATH": path, **_own_home(environment)}


def with_conda(environment: Mapping[str, str], prefix: Path, name: str, own: Mapping[str, str]) -> dict[str, str]:
    """Variables as ``conda activate`` leaves them, but for those of its scripts.

    Args:
        own: the variables that the environment keeps (``conda env config vars``).
    """
    former = environment.get("CONDA_PREFIX", "")
    folders = [folder for folder in environment.get("PATH", os.defpath).split(os.pathsep) if folder]
    kept = [folder for folder in folders if not former or folder != f"{former}/bin"]
    return {
        **environment,
        **own,
        "PATH": os.pathsep.join([f"{prefix}/bin", *kept]),
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": name,
        "CONDA_PROMPT_MODIFIER": f"({name}) ",
        "CONDA_SHLVL": "1",
        **_own_home(environment),
    }


def _own_home(environment: Mapping[str, str]) -> dict[str, str]:
    return {_PYTHON_HOME: ""} if environment.get(_PYTHON_HOME) else {}


def joined(first: str, rest: str) -> str:
    """A list of folders with one more before all others."""
    return f"{first}{os.pathsep}{rest}" if rest else first


def shell_script(activation: Activation, leave: Sequence[Path], enter: Sequence[Path]) -> str:
    """The commands for a shell; empty if none is needed.

    Args:
        leave: scripts of the conda environment that is active now.
        enter: scripts of the one to be activated.
    """
    lines = []
    if activation.modules:
        command = shlex.join(activation.modulecmd)
        words = list(activation.modules)
        lines.append(f'[ "${{MODULEPATH-}}" ] || eval "$({command} bash autoinit)"')
        if words[0] == "purge":
            lines.append(f'eval "$({command} bash purge)"')
            words = words[1:]
        if words:
            lines.append(f'eval "$({command} bash load {shlex.join(words)})" || exit 9')
    lines += [f". {shlex.quote(str(script))}" for script in (*leave, *enter)]
    return "\n".join(["exec 3>&1 >&2", *lines, "exec /usr/bin/env -0 >&3"]) if lines else ""


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """The variables that were set, or changed; those that were removed as empty ones."""
    changed = {
        name: value
        for name, value in after.items()
        if before.get(name) != value and name not in _OF_SHELLS and not name.startswith("BASH_FUNC_")
    }
    gone = {name: "" for name, value in before.items() if value and name not in after and name not in _OF_SHELLS}
    return changed | gone


def _own_variables(prefix: Path) -> dict[str, str]:
    """The variables that a conda environment keeps: those of its packages, then those of ``conda env config vars``."""
    own: dict[str, str] = {}
    for file in sorted(prefix.glob("etc/conda/env_vars.d/*.json")):
        own |= _texts(_read(file))
    return own | _texts(_read(prefix / "conda-meta" / "state").get("env_vars"))


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _texts(found: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _scripts(environment: Mapping[str, str], prefix: Path | None) -> tuple[list[Path], list[Path]]:
    """The scripts that leave the conda environment of this process, and those that enter another one."""
    if prefix is None:
        return [], []
    former = environment.get("CONDA_PREFIX")
    leave = sorted(Path(former).glob("etc/conda/deactivate.d/*.sh"), reverse=True) if former else []
    return leave, sorted(prefix.glob("etc/conda/activate.d/*.sh"))


def _reason(said: str) -> str:
    """Why a shell has failed: its first error, with the line that Lmod puts below."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    place = next((number for number, line in enumerate(lines) if "rror" in line or "nable" in line), len(lines) - 1)
    wanted = lines[max(place, 0) : place + (2 if lines and lines[place].endswith(":") else 1)]
    return " ".join(wanted) or "no word"


def _run(script: str, environment: Mapping[str, str], activation: Activation) -> dict[str, str]:
    """The variables after a script."""
    import subprocess

    what = f"the modules {' '.join(activation.modules)}" if activation.modules else f"the scripts of {activation.conda}"
    words = ["/bin/bash", "--noprofile", "--norc", "-c", script]
    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT,
            check=False,
        )
    except OSError as error:
        raise ActivationError(f"{what} need /bin/bash: {error.strerror}; install it") from error
    except subprocess.TimeoutExpired as error:
        raise ActivationError(f"{what} did not end within {_LIMIT:g} s; look what they wait for") from error
    if done.returncode or not done.stdout:
        reason = _reason(done.stderr.decode(errors="replace"))
        cure = "see `module avail`" if activation.modules else "mend them"
        raise ActivationError(f"{what} cannot be activated: {reason}; {cure}")
    pairs = (entry.split(b"=", 1) for entry in done.stdout.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
