"""The worked examples of CONTRIBUTING.md, each followed in a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from support import pages
from wilkins.transport.board import native_library

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("CMakeLists.txt", "wilkins", "flow", "transport", "tasks", "workflows", "docs")
BUILD = "Build the native library"
"""The line of a section after which it takes minutes."""

pytestmark = pytest.mark.needs("git")


def section(title: str) -> str:
    """A section of the page."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [found] = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def follow(text: str, folder: Path, timeout: float) -> list[str]:
    """Do what a section says in a copy of the sources; returns what went otherwise than it says.

    The programs run by the Python that this environment was made from: the environment itself finds the package in the
    checkout, whatever PYTHONPATH says.
    """
    copy, programs = folder / "copy", folder / "bin"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / "build").mkdir()
    (copy / "build" / "libwilkins.so").symlink_to(native_library())
    programs.mkdir()
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    script(programs / "wilkins", f'exec {python} -m wilkins "$@"')
    script(
        programs / "make",
        f"rm build/libwilkins.so && cmake -S . -B build -G Ninja -DPython_EXECUTABLE={python} && cmake --build build",
    )
    page = folder / "section.md"
    page.write_text(text, encoding="utf-8")
    path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
    packages = {"PYTHONPATH": f"{copy}{os.pathsep}{sysconfig.get_path('purelib')}"}
    return pages.follow(page, copy, timeout, {"PATH": os.pathsep.join(map(str, path)), **packages})


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_the_map_names_what_is_there() -> None:
    named = re.findall(r"`((?:wilkins|flow|transport|tasks|tests|docs|tools)/[\w./*-]*)`", section("The map"))
    assert len(named) > 40
    assert not [name for name in named if not list(ROOT.glob(name))]


@pytest.mark.parametrize("title", ["Add a key of an out-port", "Add a flow policy", "Add a ready-made task"])
def test_a_worked_example_works(title: str, tmp_path: Path) -> None:
    wrong = follow(section(title), tmp_path, timeout=60)
    assert not wrong, "\n\n".join(wrong)


def test_the_key_of_an_in_port_is_declared_by_one_line(tmp_path: Path) -> None:
    """Up to where the native library is built."""
    before, built, _ = section("Add a key of an in-port").partition(BUILD)
    assert built
    wrong = follow(before, tmp_path, timeout=60)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.needs("cmake", "ninja")
@pytest.mark.timeout(900)
def test_the_key_of_an_in_port_is_obeyed(tmp_path: Path) -> None:
    """With the native library built anew."""
    wrong = follow(section("Add a key of an in-port"), tmp_path, timeout=800)
    assert not wrong, "\n\n".join(wrong)
