"""Starts programs so that none outlives the launcher, and ends whole families of processes."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from wilkins.values import dataclass

STARTER = "WILKINS_STARTER"
"""Tells a program's layer which process has started it."""

OUTPUT = "WILKINS_OUTPUT"
"""Tells it which pipe this process reads what it prints from, by its inode."""

GRACE = 3.0
"""Seconds between the polite request to end and the end."""

_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""How many files this process may have open, as it was started: many systems allow 1,024 unless asked for more."""

_USUAL_FILES = 200

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class Program:
    """A started program and the pipe that carries its output."""

    pid: int
    output: int
    """Non-blocking read end; stdout and stderr in the order they were written."""


def adopt_orphans(adopt: bool = True) -> None:
    """Processes whose parents die become this process's children, so that they can be found and reaped."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def allow_open_files(count: int) -> None:
    """Allow this process so many open files beside the usual ones, as far as the system does. Programs that it starts
    get the limit that it was given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if count > soft - _USUAL_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def give_limit_back() -> None:
    """In a child, before it is a program: allow as many open files as this process was given."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES)


def end_with_parent() -> None:
    """Let this process be killed when its parent dies."""
    parent = os.getppid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above took effect
        os._exit(127)


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    stdin: Path | None = None,
    pass_fds: Sequence[int] = (),
    capture: bool = True,
) -> Program:
    """Start a program in a session of its own.

    When this process dies, the kernel kills the program if the layer is in it; a `Guard` ends all others.

    Raises:
        OSError: it cannot be started, or its folder or input cannot be opened.
    """
    source = os.open(stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    read_end, write_end = os.pipe() if capture else (-1, -1)
    try:
        child = subprocess.Popen(
            list(words),
            env={**environment, STARTER: str(os.getpid()), OUTPUT: str(os.fstat(write_end).st_ino) if capture else ""},
            cwd=cwd,
            stdin=source,
            stdout=write_end if capture else None,
            stderr=write_end if capture else None,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            preexec_fn=None if resource.getrlimit(resource.RLIMIT_NOFILE) == _FILES else give_limit_back,
        )
    except BaseException:
        if capture:
            os.close(read_end)
        raise
    finally:
        os.close(source)
        if capture:
            os.close(write_end)
    child.returncode = 0  # reaped by `reap`, not by the object
    if capture:
        os.set_blocking(read_end, False)
    return Program(child.pid, read_end)


def children() -> set[int]:
    """The direct children of this process, ended or not."""
    found: set[int] = set()
    for thread in os.scandir("/proc/self/task"):
        with contextlib.suppress(OSError):
            found.update(map(int, Path(thread.path, "children").read_bytes().split()))
    return found


@dataclass(frozen=True, slots=True)
class Used:
    """What a program has used, with all processes that it has waited for."""

    cpu_s: float = 0.0
    """Seconds of processors."""
    memory_bytes: int = 0
    """The most memory of one of these processes."""

    def __add__(self, other: Used) -> Used:
        """What both have used."""
        return Used(self.cpu_s + other.cpu_s, max(self.memory_bytes, other.memory_bytes))


def reap(pids: Iterable[int], used: dict[int, Used] | None = None) -> dict[int, int]:
    """The children that have ended, with their exit codes (negative for a signal); `used` takes what they have used."""
    ended = {}
    for pid in pids:
        try:
            done, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if done:
            ended[pid] = os.waitstatus_to_exitcode(status)
            if used is not None:
                used[pid] = Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
    return ended


def descendants(ancestor: int) -> list[int]:
    """All living processes below ``ancestor``, found by the parents they name."""
    return list(parents(ancestor))


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    return [pid, *descendants(pid)]


def parents(ancestor: int) -> dict[int, int]:
    """The same, each with its parent."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue
            fields = stat[stat.rindex(b")") + 2 :].split()
            if fields[0] != b"Z":
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: dict[int, int] = {}
    todo = [ancestor]
    while todo:
        parent = todo.pop()
        below = children.get(parent, [])
        found.update(dict.fromkeys(below, parent))
        todo += below
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it cannot be read."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)


def members(variable: str, value: str) -> list[int]:
    """Processes of this user that were started with ``variable=value``, wherever they hang now."""
    wanted = f"{variable}={value}".encode()
    found = []
    # A machine may have thousands of processes: no path is made of each.
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and int(name) != os.getpid():
            try:
                descriptor = os.open(f"/proc/{name}/environ", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            with io.FileIO(descriptor) as file, contextlib.suppress(OSError):
                if wanted in (text := file.readall()) and wanted in text.split(b"\0"):
                    found.append(int(name))
    return found


def send(pids: Iterable[int], number: int, *, group: bool = False) -> None:
    """Signal processes (or the groups they lead); those already gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if group else os.kill)(pid, number)


class Children:
    """This process's children, but for those that it had before `adopt`."""

    def __init__(self) -> None:
        self._foreign: set[int] = set()

    def adopt(self) -> None:
        """Take in what programs leave behind, until `release`."""
        adopt_orphans()
        self._foreign = children()

    def release(self) -> None:
        """Leave such processes to others again."""
        adopt_orphans(False)

    def reap(self, programs: Iterable[int], used: dict[int, Used]) -> dict[int, int]:
        """The children, those of `programs` included, that have ended, with their exit codes. `used`: as of `reap`."""
        return reap((children() - self._foreign).union(programs), used)

    def remaining(self) -> list[int]:
        """All of these children, with their descendants."""
        own = children() - self._foreign
        return sorted(own.union(*(descendants(pid) for pid in own))) if own else []

    def end(self) -> None:
        """Kill and reap all of these children."""
        until = time.monotonic() + GRACE
        while (remaining := self.remaining()) and time.monotonic() < until:
            send(remaining, signal.SIGKILL)
            reap(remaining)
            time.sleep(0.01)
