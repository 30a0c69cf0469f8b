"""Calls leave errno, HDF5's errors and ids, the signal mask and MPI's error handlers as the real ones do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from programs.build import build

from support.running import WILKINS, must_run, run_tree, write_program
from wilkins.transport.board import native_library

PROGRAMS = Path(__file__).parents[1] / "programs" / "guest"
NATIVE = Path(__file__).parents[2] / "transport" / "native"
MODES = ["memory", "both", "file"]
ANY_VERSION = {"HDF5_DISABLE_VERSION_CHECK": "2"}
"""The programs are compiled with the headers of one HDF5, and run with another one's library, too."""

ALIKE = {"open", "openat", "execv", "execve", "execveat", "execvp", "execvpe", "fexecve", "vfork"}
"""Not called here under a name of their own, or with no return."""
INSIDE = re.compile(r"__|posix_spawn_file_actions_add(chdir|fchdir)_np|lsetxattr|setxattr|vdprintf")


def hdf5_program(folder: Path, version: str) -> Path:
    """Compile `state.c` for Debian's HDF5 1.10, or for the one that h5py brings."""
    program = folder / "state"
    source = str(PROGRAMS / "state.c")
    if version == "1.10":
        subprocess.run(["h5cc", "-shlib", "-w", source, "-o", str(program)], check=True, cwd=folder)
        return program
    import h5py

    [library] = (Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*.so*")
    shown = subprocess.run(["h5cc", "-show"], check=True, capture_output=True, text=True).stdout.split()
    headers = [word for word in shown if word.startswith("-I")]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    subprocess.run(["gcc", "-w", *headers, source, *linked, "-o", str(program)], check=True, cwd=folder)
    return program


def told(folder: Path, side: str, names: str) -> list[str]:
    return (folder / f"{side}-{names}.txt").read_text().splitlines()


def both_ways(tmp_path: Path, program: Path, words: dict[str, str], mode: str) -> list[str]:
    """What calls change in a workflow and not on files alone, with names of a port and with others."""
    patterns = {names: pattern.split()[0].replace("%02d", "*").replace("%d", "*") for names, pattern in words.items()}
    lines = {
        side: "".join(f"{program} {side} {words[names]} > {side}-{names}.txt || exit 1\n" for names in order)
        for side, order in (("write", ("others", "ports")), ("read", ("ports", "others")))
    }
    folders = {}
    for way in ("alone", "guest"):
        folders[way] = folder = tmp_path / way
        folder.mkdir()
        for side, text in lines.items():
            write_program(folder / f"{side}.sh", "#!/bin/sh\n" + text)
    for side in lines:
        subprocess.run(
            [f"./{side}.sh"], cwd=folders["alone"], check=True, env={**os.environ, **ANY_VERSION}, timeout=60
        )
    port = {"filename": patterns["ports"]}
    tasks = [
        {"func": "./write.sh", "outports": [{**port, "mode": mode}], "env": ANY_VERSION},
        {"func": "./read.sh", "inports": [port], "env": ANY_VERSION, "enough": True},
    ]
    (folders["guest"] / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    ran = run_tree([*WILKINS, "run", "--timeout", "60", "workflow.yaml"], 90, folders["guest"])
    assert ran.code == 0, ran.out + ran.err
    changed = []
    for side in lines:
        for names in words:
            alone, guest = (told(folder, side, names) for folder in folders.values())
            assert len(alone) == len(guest)
            for without, line in zip(alone, guest, strict=True):
                if line not in (without, re.sub(r", errno \d+", "", without)):
                    changed.append(f"{side} {names}: {line}   alone: {without}")
    return changed


@pytest.mark.needs("h5cc", "gcc")
@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", ["1.10", "h5py"])
def test_hdf5s_calls(tmp_path: Path, version: str, mode: str) -> None:
    """Errors as the program has them told, by either version of the interface; the stack, lists and ids."""
    program = hdf5_program(tmp_path, version)
    assert both_ways(tmp_path, program, {"ports": "port%d.h5 0", "others": "plain%d.hdf 0"}, mode) == []


def test_all_calls_of_hdf5_are_made() -> None:
    """`state.c` makes every call that the layer wraps, but for the one of SWMR, which a port refuses."""
    wrapped = set()
    for source in (NATIVE / "hdf5").glob("*.cpp"):
        wrapped |= set(re.findall(r"WILKINS_API\(\w+, (H5\w+)\(", source.read_text()))
    assert wrapped - set(re.findall(r"\bH5\w+", (PROGRAMS / "state.c").read_text())) == {"H5Fstart_swmr_write"}


@pytest.mark.needs("gcc")
@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_the_c_librarys_calls(tmp_path: Path, mode: str) -> None:
    program = tmp_path / "calls"
    subprocess.run(["gcc", "-w", str(PROGRAMS / "calls.c"), "-o", str(program)], check=True)
    changed = both_ways(tmp_path, program, {"ports": "plt%02d.dat", "others": "other%02d.dat"}, mode)
    assert [line for line in changed if "errno" in line or "mask" in line] == []


def test_all_calls_of_the_c_library_are_made() -> None:
    table = (NATIVE / "posix" / "libc.hpp").read_text()
    wrapped = set(re.findall(r"^    X\((\w+),", table, re.MULTILINE))
    made = set(re.findall(r"(?:CALL|POINTER|NUMBER)\((\w+)|\bend\(\"(\w+)", (PROGRAMS / "calls.c").read_text()))
    left_out = wrapped - {name for pair in made for name in pair} - ALIKE
    assert {name for name in left_out if not INSIDE.search(name)} == set()


@pytest.mark.needs("python:mpi4py", "mpiexec")
def test_mpi_ios_calls(tmp_path: Path) -> None:
    """The handlers of errors of the world, of oneself and of files, and the signal mask."""
    write_program(tmp_path / "use.py", f"#!{sys.executable}\n" + (PROGRAMS / "mpi_state.py").read_text())
    port = {"filename": "port*.dat"}
    tasks = [
        {"name": "write", "func": "./use.py", "nprocs": 2, "args": ["write"], "outports": [port]},
        {"name": "read", "func": "./use.py", "nprocs": 2, "args": ["read"], "inports": [port], "enough": True},
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    ran = run_tree([*WILKINS, "run", "--timeout", "60", "workflow.yaml"], 90, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.count("done") == 4
    assert "changed" not in ran.out


@pytest.mark.needs("h5cc")
def test_a_program_that_asks_by_the_first_version(tmp_path: Path) -> None:
    """As MPB does: its handler of errors, set by the first version, is there after it has made a file."""
    subprocess.run(["h5cc", "-shlib", "-w", str(PROGRAMS / "first_version.c"), "-o", "write"], check=True, cwd=tmp_path)
    write_program(
        tmp_path / "read.py",
        "#!/usr/bin/env python3\nimport h5py\nfor k in range(3):\n"
        "    with h5py.File(f'x{k}.h5') as file: print(file['a'][()])\n",
    )
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./write, outports: [{filename: 'x*.h5'}]}\n"
        "- {func: ./read.py, inports: [{filename: 'x*.h5'}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.count("well") == 3


@pytest.mark.needs("g++")
def test_what_leaves_a_call_without_a_return(tmp_path: Path) -> None:
    """Threads that end in a call, and exceptions of callbacks, pass the layer and clean up after themselves."""
    program = build("guest/unwound.cpp", "g++", "-std=c++17", "-pthread")
    alone = must_run(tmp_path, program)
    assert "canceled 1" in alone
    assert must_run(tmp_path, "env", f"LD_PRELOAD={native_library()}", program) == alone
