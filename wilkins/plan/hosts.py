"""The hosts of a run: from the command line, a host file, or the allocation of a scheduler."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.flow.placement import UNSPECIFIED, Host

_HOST = r"(?P<name>[^\s:=,]+)(?::(?P<count>\d+))?"
_SLOTS = r"(?:slots|max[-_]slots)\s*=\s*(?P<count>\d+)"
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_GROUP = r"((?:[^,\[]|\[[^\]]*\])+)(?:,|$)"
_IDS = r"(?P<first>\d+)(?:-(?P<last>\d+))?"
_FLUX_S = 20.0
"""Seconds for Flux to answer."""
_REPEATED = r"(?P<count>\d+)(?:\(x(?P<times>\d+)\))?"


def from_words(text: str) -> tuple[Host, ...]:
    """Hosts as on the command line: ``node0:8,node1:8``, or ``node0,node1``.

    Raises:
        UsageError: the text is something else.
    """
    found = []
    for word in text.split(","):
        match = re.fullmatch(_HOST, word.strip())
        if not match:
            raise UsageError(f"--hosts must be names with numbers of ranks, such as node0:8,node1:8, not {text!r}")
        found.append(Host(match["name"], int(match["count"] or UNSPECIFIED)))
    return _checked(found, "--hosts")


def from_file(path: Path) -> tuple[Host, ...]:
    """Hosts of a file, one a line, as MPICH (``node0:8``) or Open MPI (``node0 slots=8``) read them.

    A name that stands on several lines, as in the file that PBS makes, has a slot for each.

    Raises:
        UsageError: it cannot be read, or holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"the host file {path} cannot be read: {reason}; give a file with a host on each line"
        ) from error
    found: list[Host] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split(None, 1)
        if not words:
            continue
        match, slots = re.fullmatch(_HOST, words[0]), re.fullmatch(_SLOTS, words[1].strip()) if len(words) > 1 else None
        if not match or (len(words) > 1 and not slots):
            raise UsageError(
                f"{path}:{number}: must be a host such as 'node0:8' or 'node0 slots=8', not {line.strip()!r}"
            )
        found.append(Host(match["name"], int((slots or match)["count"] or UNSPECIFIED)))
    if not found:
        raise UsageError(f"{path}: the host file names no host; write one on each line")
    return _checked(_joined(found), str(path))


def flux_resources() -> str:
    """The resources of the Flux instance of this process, as Flux prints them; empty: it has no command `flux`.

    Raises:
        UsageError: it does not answer.
    """
    words = ["flux", "resource", "R"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_FLUX_S, check=True)
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        reason = f"it does not answer within {_FLUX_S:g} s"
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip()
    else:
        return done.stdout
    raise UsageError(f"{' '.join(words)}, which tells the hosts of this Flux job, fails: {reason}; give --hosts")


def from_flux(text: str) -> tuple[Host, ...]:
    """Hosts of a resource set as ``flux resource R`` prints it (Flux RFC 20), each with as many slots as it has cores.

    Raises:
        UsageError: the text is something else.
    """
    slots: dict[str, int] = {}
    for name, _, cores in _flux_brokers(text):
        slots[name] = max(slots.get(name, 0), cores)  # several brokers may be on one host
    return _checked([Host(*pair) for pair in slots.items()], "flux resource R")


def flux_ranks(text: str) -> dict[str, int]:
    """By host of such a resource set: the rank of its first broker, by which `flux exec` knows it.

    Raises:
        UsageError: the text is something else.
    """
    return {name: rank for name, rank, _ in reversed(_flux_brokers(text))}


def _flux_brokers(text: str) -> list[tuple[str, int, int]]:
    """Host, rank and cores of each broker."""
    try:
        allocation = json.loads(text)["execution"]
        cores = {
            rank: len(list(_ids(entry["children"]["core"])))
            for entry in allocation["R_lite"]
            for rank in _ids(entry["rank"])
        }
        names = [name for group in allocation["nodelist"] for name in expanded(group)]
        return [(name, rank, cores[rank]) for rank, name in zip(sorted(cores), names, strict=True)]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"flux resource R says {text.strip()[:200]!r}, and no hosts with cores; give --hosts"
        ) from error


def _ids(text: str) -> Iterator[int]:
    """The numbers of a set as Flux writes it: ``0-2,7``."""
    for match in re.finditer(_IDS, text):
        yield from range(int(match["first"]), int(match["last"] or match["first"]) + 1)


def from_allocation(environment: Mapping[str, str], resources: Callable[[], str] = flux_resources) -> tuple[Host, ...]:
    """Hosts of the allocation of this process, by Flux, Slurm, PBS or LSF; none outside of an allocation.

    `resources`: asks Flux, which runs inside the allocations of others, too.

    Raises:
        UsageError: what the scheduler says cannot be understood.
    """
    if environment.get("FLUX_URI") and "FLUX_TASK_RANK" not in environment and (said := resources()):
        return from_flux(said)
    if hosts := [host for part in slurm_parts(environment) for host in _of_slurm(environment, part)]:
        return _checked(hosts, "SLURM_JOB_NODELIST")
    if file := environment.get("PBS_NODEFILE"):
        return from_file(Path(file))
    if words := environment.get("LSB_MCPU_HOSTS", "").split():
        return _checked([Host(name, int(count)) for name, count in zip(words[::2], words[1::2], strict=True)], "LSF")
    return ()


def slurm_parts(environment: Mapping[str, str]) -> list[str]:
    """How the names of a Slurm allocation's variables end: those of each part of a heterogeneous job."""
    size = environment.get("SLURM_HET_SIZE", "")
    return [f"_HET_GROUP_{part}" for part in range(int(size))] if size.isdecimal() else [""]


def slurm_nodes(environment: Mapping[str, str], part: str) -> list[str]:
    """The nodes of a part of a Slurm allocation (`slurm_parts`)."""
    return expanded(environment.get(f"SLURM_JOB_NODELIST{part}", ""))


def _of_slurm(environment: Mapping[str, str], part: str) -> Iterator[Host]:
    """The hosts of a part of an allocation, with as many slots as it has tasks, if some were asked for, else cores."""
    names = slurm_nodes(environment, part)
    asked = environment.get(f"SLURM_NTASKS{part}") or environment.get(f"SLURM_NTASKS_PER_NODE{part}")
    tasks, cores = (environment.get(f"SLURM_{what}{part}", "") for what in ("TASKS_PER_NODE", "JOB_CPUS_PER_NODE"))
    counts = (tasks or cores) if asked else (cores or tasks)
    slots = [int(one["count"]) for one in re.finditer(_REPEATED, counts) for _ in range(int(one["times"] or 1))]
    if len(slots) != len(names):
        nodes = ",".join(names)
        raise UsageError(f"Slurm names {len(names)} hosts ({nodes}) and tells {counts!r} of them; give --hosts")
    return map(Host, names, slots)


def expanded(nodes: str) -> list[str]:
    """Names of a list as Slurm writes it: ``node[0-2,7],login1`` gives node0, node1, node2, node7, login1."""
    return [name for group in re.findall(_GROUP, nodes) for name in _expanded(group)]


def _expanded(group: str) -> Iterable[str]:
    head, bracket, rest = group.partition("[")
    if not bracket:
        return [group]
    inner, _, tail = rest.partition("]")
    numbers: list[str] = []
    for part in inner.split(","):
        first, _, last = part.partition("-")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return (
        [head + number + end for number in numbers for end in _expanded(tail)] if tail else [head + n for n in numbers]
    )


def _joined(hosts: Iterable[Host]) -> list[Host]:
    slots: dict[str, int] = {}
    times: dict[str, int] = {}
    for host in hosts:
        times[host.name] = times.get(host.name, 0) + 1
        slots[host.name] = slots.get(host.name, 0) + (host.slots or 1)
    explicit = any(host.slots for host in hosts) or any(count > 1 for count in times.values())
    return [Host(name, count if explicit else UNSPECIFIED) for name, count in slots.items()]


def _checked(hosts: list[Host], source: str) -> tuple[Host, ...]:
    seen: set[str] = set()
    for host in hosts:
        if not re.fullmatch(_NAME, host.name):
            raise UsageError(f"{source}: {host.name!r} is not the name of a host")
        if host.name in seen:
            raise UsageError(f"{source}: the host {host.name!r} stands there twice; give all its ranks at once")
        seen.add(host.name)
    counted = [host for host in hosts if host.slots]
    if counted and len(counted) < len(hosts):
        bare = next(host.name for host in hosts if not host.slots)
        raise UsageError(f"{source}: {bare!r} has no number of ranks, and others have; give all of them one, or none")
    return tuple(hosts)
