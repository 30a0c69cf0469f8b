"""Looks at programs without running them: what kind of file it is, what it is linked to, who interprets it."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import stat
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from wilkins.errors import suggest
from wilkins.values import dataclass

Barrier = Literal["static", "rights", "capabilities", "musl", "processor"]
"""Why the layer cannot be preloaded into a program."""

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH, _DT_VERNEED = 1, 5, 15, 29, 0x6FFFFFFE
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243, "i686": 3, "armv7l": 40, "s390x": 22}
_CAPABILITIES = "security.capability"
_MUSL = "ld-musl"
_HELP = "(`wilkins help static-programs`)"
_BARRIERS: dict[Barrier, str] = {
    "static": "is a static executable, which the layer cannot reach; link it dynamically (without -static), or give "
    f"its files to it by a script {_HELP}",
    "rights": "runs with another user's rights (setuid or setgid), so the layer cannot reach it; "
    f"run: chmod ug-s {{path}} {_HELP}",
    "capabilities": "runs with file capabilities, so the layer cannot reach it; "
    f"run as root: setcap -r {{path}}, or use a copy of it {_HELP}",
    "musl": "is linked to musl, and the layer to glibc, so the layer cannot reach it; build it on a system with "
    f"glibc (Debian, Fedora), or give its files to it by a script {_HELP}",
    "processor": "was built for another kind of processor, so the layer cannot reach it; build it for {processor} "
    f"{_HELP}",
}
_LD_CACHE = Path("/etc/ld.so.cache")
_LD_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".F90")
_BUILD_HINT = (
    "modules for Henson cannot be started by themselves: build a plain executable of the same source, "
    "without Henson and without "
    "'-Wl,--export-dynamic', for example 'mpicc -o {stem} {stem}.c -lhdf5'"
)


@dataclass(frozen=True, slots=True)
class Elf:
    """The headers of an ELF file that a dynamic linker reads."""

    machine: int
    interpreter: str
    """The dynamic linker that it asks for; none of libraries and of static executables."""
    needed: tuple[str, ...]
    search: tuple[str, ...]
    """RPATH and RUNPATH, ``$ORIGIN`` replaced."""
    versions: tuple[str, ...] = ()
    """Of symbols, that it needs of its libraries: ``GLIBC_2.34``."""


@dataclass(frozen=True, slots=True)
class Program:
    """An executable file."""

    path: Path
    kind: Literal["elf", "script"]
    barrier: Barrier | None = None
    interpreter: Path | None = None
    """Of a script."""

    @property
    def unreachable(self) -> str:
        """Why the layer cannot reach it, and how to mend that; empty if it can."""
        if self.barrier is None:
            return ""
        return f"{str(self.path)!r} {_BARRIERS[self.barrier].format(path=self.path, processor=os.uname().machine)}"


def read_elf(path: Path) -> Elf | None:
    """The ELF headers of a file; None if it is not ELF, or broken."""
    try:
        state = path.stat()
    except OSError:
        return None
    return _read_elf(path, state.st_mtime_ns, state.st_size) if stat.S_ISREG(state.st_mode) else None


@cache
def _read_elf(path: Path, _changed: int, _size: int) -> Elf | None:
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse_elf(path, data)
    except (OSError, struct.error, IndexError, ValueError):
        return None


def _parse_elf(path: Path, data: mmap.mmap) -> Elf:
    wide = data[4] == 2
    order = "<" if data[5] == 1 else ">"
    machine = struct.unpack_from(order + "H", data, 18)[0]
    table = struct.unpack_from(order + ("Q" if wide else "I"), data, 32 if wide else 28)[0]
    entry_size, entries = struct.unpack_from(order + "HH", data, 54 if wide else 42)
    loads: list[tuple[int, int, int]] = []
    dynamic = (0, 0)
    interpreter = ""
    for number in range(entries):
        at = table + number * entry_size
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", data, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(order + "IIIII", data, at)
        if kind == _PT_LOAD:
            loads.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
        elif kind == _PT_INTERP:
            interpreter = data[offset : offset + length].rstrip(b"\0").decode()
    pair = struct.Struct(order + ("qQ" if wide else "iI"))
    tags: list[tuple[int, int]] = []
    for at in range(dynamic[0], dynamic[0] + dynamic[1] - pair.size + 1, pair.size):
        tag, value = pair.unpack_from(data, at)
        if tag == 0:
            break
        tags.append((tag, value))

    def place(wanted: int) -> int:
        """Where in the file a table is; 0: there is none."""
        at = next((value for tag, value in tags if tag == wanted), 0)
        return next((offset + at - address for address, offset, size in loads if address <= at < address + size), 0)

    start = place(_DT_STRTAB)

    def text(at: int) -> str:
        return data[start + at : data.find(b"\0", start + at)].decode()

    def texts(*wanted: int) -> list[str]:
        return [text(value) for tag, value in tags if tag in wanted]

    origin = str(path.resolve().parent)
    search = [part for text in texts(_DT_RPATH, _DT_RUNPATH) for part in text.split(":") if part]
    search = [part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in search]
    versions = (text(at) for at in _version_names(data, place(_DT_VERNEED), order))
    return Elf(machine, interpreter, tuple(texts(_DT_NEEDED)), tuple(search), tuple(versions))


def _version_names(data: mmap.mmap, table: int, order: str) -> Iterator[int]:
    """Where, among the strings, the versions are that a file needs (System V ABI, ``Elf64_Verneed``)."""
    while table:
        _, count, _, first, following = struct.unpack_from(order + "HHIII", data, table)
        at = table + first
        for _ in range(count):
            name, next_name = struct.unpack_from(order + "8xII", data, at)
            yield name
            at += next_name
        table = table + following if following else 0


def find_libraries(start: Path, library_path: str = "", limit: int = 400) -> dict[str, Path | None]:
    """Every library that the dynamic linker would load for a file, with the path it would be found at."""
    found: dict[str, Path | None] = {}
    folders = tuple(part for part in library_path.split(":") if part)
    queue: list[tuple[Path, tuple[str, ...]]] = [(start, ())]
    while queue and len(found) < limit:
        path, inherited = queue.pop(0)
        elf = read_elf(path)
        if elf is None:
            continue
        search = (*elf.search, *inherited)
        for name in elf.needed:
            if name in found:
                continue
            found[name] = _locate(name, elf.machine, (*search, *folders))
            where = found[name]
            if where:
                queue.append((where, search))
    return found


def has_hdf5_inside(path: Path) -> bool:
    """Whether a program was linked with HDF5 statically: it holds its code, and loads no shared one."""
    if read_elf(path) is None or any(name.startswith("libhdf5") for name in find_libraries(path)):
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"H5Fflush") >= 0


def _locate(name: str, machine: int, folders: tuple[str, ...]) -> Path | None:
    if "/" in name:
        return Path(name)
    cached = system_libraries().get(name, ())
    candidates = [*(f"{folder}/{name}" for folder in folders), *cached, *(f"{folder}/{name}" for folder in _LD_DEFAULT)]
    for candidate in candidates:
        elf = read_elf(Path(candidate))
        if elf and elf.machine == machine:
            return Path(candidate)
    return None


@cache
def system_libraries() -> dict[str, tuple[str, ...]]:
    """The system's library cache: name -> paths (the format of glibc 2.2 and later, see ``elf/cache.c`` there)."""
    magic = b"glibc-ld.so.cache1.1"
    try:
        data = _LD_CACHE.read_bytes()
        base = data.find(magic)
        if base < 0:
            return {}
        count = struct.unpack_from("<I", data, base + len(magic))[0]
        libraries: dict[str, tuple[str, ...]] = {}
        for number in range(count):
            key, value = struct.unpack_from("<II", data, base + 48 + 24 * number + 4)
            name, path = (data[base + at : data.index(b"\0", base + at)].decode() for at in (key, value))
            libraries[name] = (*libraries.get(name, ()), path)
        return libraries
    except (OSError, struct.error, ValueError):
        return {}


def inspect(path: Path, commands: str | None = None) -> Program:
    """What kind of program a file is.

    Args:
        commands: the ``PATH`` on which ``env`` looks for an interpreter; None: this process's.

    Raises:
        ValueError: it cannot be executed; the message says why and how to mend it.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise ValueError(f"cannot look at {str(path)!r}: {error.strerror}; check the path") from error
    if stat.S_ISDIR(state.st_mode):
        raise ValueError(f"{str(path)!r} is a directory; give the program in it")
    if not stat.S_ISREG(state.st_mode):
        raise ValueError(f"{str(path)!r} is not a regular file; give a program")
    if not state.st_mode & 0o111 or not os.access(path, os.X_OK):
        raise ValueError(f"{str(path)!r} has no execute permission; run: chmod +x {path}")
    barrier = _rights(path, state)
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return Program(path, "elf", barrier)
    if head.startswith(b"#!"):
        return Program(path, "script", barrier, _interpreter(path, head, commands))
    if not head:
        raise ValueError(f"{str(path)!r} is empty; build the program, or give another")
    elf = read_elf(path)
    if elf is None:
        raise ValueError(
            f"{str(path)!r} is neither a program of this system nor a script; a script begins with '#!/bin/sh'"
        )
    wanted = _MACHINES.get(os.uname().machine)
    if wanted and elf.machine not in (wanted, _MACHINES["i686"] if wanted == 62 else wanted):
        raise ValueError(f"{str(path)!r} was built for another kind of processor; build it on {os.uname().machine}")
    return Program(path, "elf", barrier or _linked(elf, wanted))


def _rights(path: Path, state: os.stat_result) -> Barrier | None:
    """Whether the kernel starts a file with rights that its user lacks, and so keeps preloaded libraries away."""
    if state.st_mode & stat.S_ISUID and state.st_uid != os.geteuid():
        return "rights"
    if state.st_mode & stat.S_ISGID and state.st_gid != os.getegid():
        return "rights"
    try:
        return "capabilities" if os.getuid() != 0 and os.getxattr(path, _CAPABILITIES) else None
    except OSError:  # it has none, or is where there are none
        return None


def _linked(elf: Elf, machine: int | None) -> Barrier | None:
    """Whether a dynamic linker that starts a file takes this layer."""
    if not elf.interpreter:
        return "static"
    if _MUSL in elf.interpreter:
        return "musl"
    return "processor" if machine is not None and elf.machine != machine else None


def _interpreter(path: Path, head: bytes, commands: str | None) -> Path:
    line = head[2:].split(b"\n", 1)[0].decode(errors="replace").strip(" \t")
    words = re.split(r"[ \t]+", line) if line else []
    if not words:
        raise ValueError(f"the first line of {str(path)!r} names no interpreter; write for example '#!/bin/sh'")
    if Path(words[0]).name == "env" and len(words) > 1:
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), words[-1])
        found = shutil.which(name, path=commands)
    else:
        name = words[0]
        found = name if os.access(name, os.X_OK) else None
    if found is None:
        ending = "; it has Windows line ends: run dos2unix on it" if head.split(b"\n", 1)[0].endswith(b"\r") else ""
        raise ValueError(
            f"the interpreter {name!r} of {str(path)!r} is missing{ending or '; install it or mend the first line'}"
        )
    return Path(found)


def find_program(
    name: str, home: Path, commands: str | None = None, python: Path | None = None
) -> tuple[Program, Path | None]:
    """The program to execute and, for a Python task, the script it runs.

    A Python script runs under the Python that runs this, or under `python`, unless it is executable and its first line
    has the path of another interpreter.

    Args:
        commands: the ``PATH`` of the task; None: this process's.

    Raises:
        ValueError: there is none that can be executed.
    """
    func = Path(name).expanduser()
    local = home / func
    python = python or Path(sys.executable)
    if func.suffix == ".py":
        return _python(local, name, python, commands)
    if func.suffix == ".hx":
        plain = local.with_suffix("")
        if plain.is_file():
            return inspect(plain, commands), None
        if local.with_suffix(".py").is_file():
            return _python(local.with_suffix(".py"), name, python, commands)
        raise ValueError(f"there is neither {plain.name!r} nor {plain.name + '.py'!r} for {name!r}; " + _hint(plain))
    if "/" in name:
        if local.exists():
            return inspect(local, commands), None
    elif local.is_file() and not _is_blocked(local):
        return inspect(local, commands), None
    else:
        found = shutil.which(name, path=commands)
        if found:
            return inspect(Path(found), commands), None
        if local.exists():
            return inspect(local, commands), None
    module = local.with_name(f"{local.name}.py")
    if module.is_file():
        return _python(module, name, python, commands)
    raise ValueError(_missing(name, local))


def _is_blocked(path: Path) -> bool:
    """Whether a file beside the workflow cannot be executed, so that a command on PATH of that name is meant."""
    return not os.access(path, os.X_OK)


def _hint(plain: Path) -> str:
    return _BUILD_HINT.format(stem=plain.name)


def _python(script: Path, func: str, python: Path, commands: str | None) -> tuple[Program, Path | None]:
    if script.is_dir():
        raise ValueError(f"{str(script)!r} is a directory; give the Python file in it")
    if not script.is_file():
        raise ValueError(_missing(func, script))
    if names_interpreter(script):
        return inspect(script, commands), None
    return Program(python, "elf"), script.resolve()


def names_interpreter(script: Path) -> bool:
    """Whether a Python script can be executed and says by a path which interpreter runs it, another than this one or
    with options. A script that leaves it to ``env`` takes any Python.
    """
    try:
        with script.open("rb") as file:
            head = file.readline(512)
    except OSError:
        return False
    words = head.removeprefix(b"#!").split() if head.startswith(b"#!") and os.access(script, os.X_OK) else []
    named = Path(os.fsdecode(words[0])) if words else Path("env")
    return named.name != "env" and (len(words) > 1 or str(named) not in _this_python())


@cache
def _this_python() -> frozenset[str]:
    """The paths by which a script may name the Python that runs this."""
    own = Path(sys.executable)
    return frozenset(str(path) for path in own.parent.glob("python*") if path.resolve() == own.resolve())


def _missing(func: str, local: Path) -> str:
    try:
        names = [path.name for path in local.parent.iterdir() if path.is_file()]
    except OSError:
        return f"there is no program {func!r}: the folder {str(local.parent)!r} cannot be read; mend the path"
    if f"{local.name}.hx" in names:
        return f"there is no program {func!r} in {str(local.parent)!r}, only {local.name + '.hx'!r}; {_hint(local)}"
    source = next((name for name in sorted(names) if Path(name).stem == local.name and name.endswith(_SOURCES)), None)
    if source:
        return f"there is no program {func!r} in {str(local.parent)!r}; build it from {source!r} there"
    where = "" if "/" in func or func.endswith(".py") else " nor on PATH"
    close = suggest(local.name, names)
    if close:
        return f"there is no program {func!r} in {str(local.parent)!r}{where}{close}"
    if " " in func:
        return f"there is no program {func!r}; put what follows the program's name into 'args'"
    return f"there is no program {func!r} in {str(local.parent)!r}{where}; build or install it, or mend the path"
