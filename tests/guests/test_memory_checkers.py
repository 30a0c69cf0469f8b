"""Programs under valgrind, which looks at all memory that a process has mapped, and at all that it leaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, serial_c

from support.running import write_program
from support.streams import Streams

WRITE = r"""
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

/* Steps of different sizes: the second is the largest. */
int main(void) {
    static const hsize_t sizes[] = {1000, 300000, 10, 100000};
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof(name), "s%d.h5", step);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, &sizes[step], NULL);
        hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        int* x = malloc(sizes[step] * sizeof(int));
        for (hsize_t i = 0; i < sizes[step]; ++i) x[i] = (int)i % 7 + step;
        if (H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) return 1;
        free(x);
        H5Dclose(set);
        H5Sclose(space);
        if (H5Fclose(file) < 0) return 1;
    }
    return 0;
}
"""
READ = r"""
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    const unsigned how = argc > 1 ? H5F_ACC_RDWR : H5F_ACC_RDONLY;
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof(name), "s%d.h5", step);
        hid_t file = H5Fopen(name, how, H5P_DEFAULT);
        hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
        hid_t space = H5Dget_space(set);
        hsize_t n;
        if (file < 0 || set < 0 || H5Sget_simple_extent_dims(space, &n, NULL) != 1) return 1;
        int* x = malloc(n * sizeof(int));
        if (H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) return 1;
        long sum = 0;
        for (hsize_t i = 0; i < n; ++i) sum += x[i];
        if (argc > 1 && H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) return 1;
        printf("read %s %ld\n", name, sum);
        free(x);
        H5Sclose(space);
        H5Dclose(set);
        H5Fclose(file);
    }
    return 0;
}
"""
SIZES = (1000, 300_000, 10, 100_000)
EXPECTED = [f"read s{step}.h5 {sum(i % 7 + step for i in range(size))}" for step, size in enumerate(SIZES)]


@pytest.mark.nightly
@pytest.mark.needs("valgrind", "h5cc")
@pytest.mark.parametrize(
    ("static", "mode"),
    [(True, "memory"), (False, "memory"), (True, "file")],
    ids=["static HDF5", "shared HDF5", "static HDF5, files"],
)
def test_programs_under_valgrind(tmp_path: Path, static: bool, mode: str) -> None:
    """All three end, soon, with right results and without an error of ours; one reads its steps to change them."""
    programs = {}
    for name, text in {"write": WRITE, "read": READ}.items():
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        programs[name] = build(str(source), *serial_c(static=static))
    streams = Streams(tmp_path)
    prefix = "prefix: valgrind --leak-check=full --error-exitcode=3"
    port = f"s*.h5', mode: {mode}"
    streams.run(
        f"  - {{name: sim, func: {programs['write']}, {prefix}, outports: [{{filename: '{port}}}]}}\n"
        f"  - {{name: ana, func: {programs['read']}, {prefix}, inports: [{{filename: '{port}}}]}}\n"
        f"  - {{name: change, func: {programs['read']}, args: [change], {prefix}, inports: [{{filename: '{port}}}]}}\n",
        timeout=120,
    )
    for task in ("ana", "change"):
        assert [line for line in streams.log(task).splitlines() if line.startswith("read ")] == EXPECTED


MANY = 90
"""Files of names of their own: each may be read again, so that each has memory of its own, up to some sixty."""


@pytest.mark.nightly
@pytest.mark.needs("valgrind", "h5cc")
def test_many_steps_under_valgrind(tmp_path: Path) -> None:
    """It leaves programs few addresses, of which each step may take a part only."""
    source = tmp_path / "many.c"
    source.write_text(
        "#include <hdf5.h>\n#include <stdio.h>\nint main(void) {\n"
        f"  for (int i = 0; i < {MANY}; ++i) {{\n    char name[32];\n"
        '    snprintf(name, sizeof(name), "s%03d.h5", i);\n'
        "    if (H5Fclose(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) < 0) return 1;\n"
        "  }\n  return 0;\n}\n"
    )
    program = build(str(source), *serial_c(static=False))
    reader = write_program(tmp_path / "many.py", f"import h5py\nfor i in range({MANY}): h5py.File(f's{{i:03}}.h5')\n")
    Streams(tmp_path).run(
        f"  - {{name: sim, func: {program}, prefix: valgrind, outports: [{{filename: 's*.h5'}}]}}\n"
        f"  - {{name: ana, func: {reader}, inports: [{{filename: 's*.h5'}}]}}\n",
        timeout=120,
    )
