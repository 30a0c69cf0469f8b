"""What only tests use is in a library of their own: the one that programs are given has none of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from support import hooks
from support.running import WILKINS, run_tree, write_program
from wilkins.transport.board import native_library

NAMES = ("wilkins_fault_points", "wilkins_try_create", "wilkins_try_open", "wilkins_try_publish")


@pytest.mark.needs("hooks")
def test_the_library_of_programs_has_no_hooks() -> None:
    theirs, own = (ctypes.CDLL(str(path)) for path in (native_library(), hooks.LIBRARY))
    assert [name for name in NAMES if hasattr(theirs, name)] == []
    assert [name for name in NAMES if not hasattr(own, name)] == []
    assert b"WILKINS_FAULTS" not in native_library().read_bytes()
    assert hooks.fault_points()


@pytest.mark.needs("hooks")
@pytest.mark.parametrize("library", ["programs", "tests"])
def test_faults_are_obeyed_by_the_library_of_tests_alone(tmp_path: Path, library: str) -> None:
    write_program(tmp_path / "write.py", "import h5py\nh5py.File('x.h5', 'w')['u'] = 1\n")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./write.py, outports: [{filename: x.h5}]}\n"
        "- {func: /bin/sh, args: [-c, 'h5ls x.h5 || cat x.h5'], inports: [{filename: x.h5}]}\n"
    )
    environment = hooks.faults("task=write,kill=create.writing")
    if library == "programs":
        environment["WILKINS_LIBRARY"] = str(native_library())
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path, environment)
    assert ran.code == (0 if library == "programs" else 1), ran.err
