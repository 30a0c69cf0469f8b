"""Debuggers and tracers in front of a program, by `prefix:`: it is coupled as always, and they tell what they tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, serial_c

from support.running import WILKINS, run_tree, write_program

WRITE = r"""
#include <hdf5.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    for (int step = 0; step < 3; ++step) {
        char name[32];
        snprintf(name, sizeof(name), "out%d.h5", step);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        if (file < 0 || H5Fclose(file) < 0) return 1;
        if (argc > 1 && step == atoi(argv[1])) abort();
    }
    return 0;
}
"""
READ = """\
import h5py
for step in range(3):
    try:
        h5py.File(f"out{step}.h5").close()
    except OSError:
        break
    print("read", step, flush=True)
"""


def run(folder: Path, prefix: str, args: str = "[]") -> tuple[int, str]:
    source = folder / "write.c"
    source.write_text(WRITE, encoding="utf-8")
    program = build(str(source), *serial_c(static=False))
    write_program(folder / "read.py", READ)
    (folder / "workflow.yaml").write_text(
        f"tasks:\n  - {{func: {program}, prefix: {prefix}, args: {args}, outports: [{{filename: 'out*.h5'}}]}}\n"
        "  - {func: ./read.py, inports: [{filename: 'out*.h5'}]}\n",
        encoding="utf-8",
    )
    finished = run_tree([*WILKINS, "run", "workflow.yaml"], 120, folder)
    assert "Traceback" not in finished.err
    return finished.code, finished.out


@pytest.mark.needs("strace", "h5cc")
def test_strace(tmp_path: Path) -> None:
    code, out = run(tmp_path, "strace -f -o calls.txt")
    assert (code, out.count("| read ")) == (0, 3)
    assert "execve(" in (tmp_path / "calls.txt").read_text()


@pytest.mark.nightly
@pytest.mark.needs("gdb", "h5cc")
def test_gdb_shows_where_a_program_failed(tmp_path: Path) -> None:
    """Its exit code is gdb's own."""
    code, out = run(tmp_path, "gdb -batch -ex run -ex bt --args", "['1']")
    assert "SIGABRT" in out
    assert " in main (" in out
    assert out.count("| read ") == 2
    assert code == 0
