"""Versions of the C library: what the layer needs, and what a root file system has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wilkins.plan.program import read_elf
from wilkins.transport.board import native_library

Version = tuple[int, ...]

_VERSION = r"GLIBC_(\d+(?:\.\d+)+)"
_FOLDERS = ("lib", "lib64", "usr/lib", "usr/lib64")


def needed() -> Version:
    """The version of glibc that the layer needs at least."""
    elf = read_elf(native_library())
    return newest(elf.versions if elf else ())


def of_root(root: Path) -> Version | None:
    """The version of the glibc in a root file system; None: it has none."""
    for folder in _FOLDERS:
        for file in sorted((root / folder).glob("libc.so.6")) + sorted((root / folder).glob("*-linux-gnu*/libc.so.6")):
            if found := newest(re.findall(r"GLIBC_[\d.]+", file.read_bytes().decode("latin-1"))):
                return found
    return None


def newest(names: Iterable[str]) -> Version:
    """The newest of versions of symbols such as ``GLIBC_2.34``; empty: none of them is glibc's."""
    found = (re.fullmatch(_VERSION, name) for name in names)
    return max((tuple(map(int, one[1].split("."))) for one in found if one), default=())


def shown(version: Version) -> str:
    """``2.34``."""
    return ".".join(map(str, version))
