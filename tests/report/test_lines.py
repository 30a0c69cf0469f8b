"""What programs print is shown line by line as it comes, though they write to a pipe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.running import WILKINS, must_run, started_tree, wait_for, write_program

C = r"""
#include <stdio.h>
#include <hdf5.h>
#include <unistd.h>
int main(void) {
    H5Fclose(H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    printf("first line\nand no end");
    while (access("go", F_OK) != 0) usleep(10000);
    printf(" of this\n");
    return 0;
}
"""
FORTRAN = """
program lines
  use hdf5
  implicit none
  integer(hid_t) :: file
  integer :: error
  logical :: there
  call h5open_f(error)
  call h5fcreate_f("a.h5", H5F_ACC_TRUNC_F, file, error)
  call h5fclose_f(file, error)
  print '(a)', 'first line'
  do
    inquire (file='go', exist=there)
    if (there) exit
    call sleep(1)
  end do
  print '(a)', 'and no end of this'
end program
"""
READ = "import h5py\nh5py.File('a.h5').close()\n"
WORKFLOW = """\
tasks:
  - {func: ./lines, outports: [{filename: a.h5}]MORE}
  - {func: read.py, inports: [{filename: a.h5}]}
"""


def _check(folder: Path, more: str = "", ranks: int = 1) -> None:
    """Each rank's first line is shown while the programs go on, and the log has all that they print."""
    (folder / "read.py").write_text(READ)
    (folder / "workflow.yaml").write_text(WORKFLOW.replace("MORE", more))
    with started_tree([*WILKINS, "run"], folder) as tree:
        shown = folder / ".stdout"
        wait_for(lambda: shown.read_text().count("first line") == ranks, 60, f"the first line\n{tree.told()}")
        (folder / "go").touch()
        done = tree.wait(60)
    assert done.code == 0, done.out + done.err
    log = (folder / "wilkins-runs/latest/lines.log").read_text()
    if ranks == 1:
        assert log == "first line\nand no end of this\n"
    # (MPICH lets its ranks write every piece at once, so that their lines mix.)
    assert [log.count(words) for words in ("first line", "and no end of this", "\n")] == [ranks, ranks, 2 * ranks]


@pytest.mark.usual("shared")
@pytest.mark.needs("h5cc")
@pytest.mark.parametrize("library", ["-shlib", "-noshlib"], ids=["shared", "inside"])
def test_lines_of_c(tmp_path: Path, library: str) -> None:
    (tmp_path / "lines.c").write_text(C)
    must_run(tmp_path, "h5cc", library, "-o", "lines", "lines.c")
    _check(tmp_path)


@pytest.mark.needs("h5fc")
def test_lines_of_fortran(tmp_path: Path) -> None:
    (tmp_path / "lines.f90").write_text(FORTRAN)
    must_run(tmp_path, "h5fc", "-shlib", "-o", "lines", "lines.f90")
    _check(tmp_path)


@pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
def test_lines_of_ranks(tmp_path: Path) -> None:
    """Through the pipes of their mpiexec."""
    text = C.replace("#include <stdio.h>", "#include <stdio.h>\n#include <mpi.h>").replace(
        '    H5Fclose(H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));',
        "    MPI_Init(NULL, NULL);\n    hid_t together = H5Pcreate(H5P_FILE_ACCESS);\n"
        "    H5Pset_fapl_mpio(together, MPI_COMM_WORLD, MPI_INFO_NULL);\n"
        '    H5Fclose(H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, together));',
    )
    text = text.replace("    return 0;", "    MPI_Finalize();\n    return 0;")
    text = text.replace(r"first line\nand no end", r"first line\n").replace(" of this", "and no end of this")
    (tmp_path / "lines.c").write_text(text)
    must_run(tmp_path, "h5pcc.mpich", "-shlib", "-o", "lines", "lines.c")
    _check(tmp_path, ", nprocs: 2", 2)


@pytest.mark.needs("strace", "h5cc")
def test_pipes_of_a_program_itself_are_left_alone(tmp_path: Path) -> None:
    """Between its own processes lines go together, as without Wilkins."""
    write_program(tmp_path / "lines", "#!/bin/sh\nseq 1000 | cat > numbers\n./write\n")
    (tmp_path / "write.c").write_text(
        "#include <hdf5.h>\nint main(void) {\n"
        '    return H5Fclose(H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));\n}\n'
    )
    must_run(tmp_path, "h5cc", "-shlib", "-o", "write", "write.c")
    (tmp_path / "read.py").write_text(READ)
    more = ", prefix: [strace, -f, -e, 'trace=write', -o, calls]"
    (tmp_path / "workflow.yaml").write_text(WORKFLOW.replace("MORE", more))
    must_run(tmp_path, *WILKINS, "run")
    assert (tmp_path / "numbers").read_text().count("\n") == 1000
    assert (tmp_path / "calls").read_text().count("write(1,") < 20


def test_an_own_setting_stays(tmp_path: Path) -> None:
    write_program(
        tmp_path / "shows.py",
        f"#!{sys.executable}\nimport os\nprint(os.environ.get('GFORTRAN_UNBUFFERED_PRECONNECTED'))\n",
    )
    (tmp_path / "words").touch()
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: ./shows.py, name: plain}\n  - {func: ./shows.py, name: reads, stdin: words}\n"
        "  - {func: ./shows.py, name: own, env: {GFORTRAN_UNBUFFERED_PRECONNECTED: 'n'}}\n"
    )
    out = must_run(tmp_path, *WILKINS, "run")
    assert sorted(line.split(" | ")[1] for line in out.splitlines()) == ["None", "n", "y"]
