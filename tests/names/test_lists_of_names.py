"""Steps that are several files: what is in one is as its producer left it, once all are whole."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pytest

from support.running import MPIEXEC, WILKINS, run_tree, write_program
from support.small_workflows import Workflow

MODES = ["memory", "both", "file"]
PAIR = '''
import os, h5py
def save(k, first="h5"):
    """Writes data and what says what they are, as two files of one number, in either order."""
    def data():
        with h5py.File(f"x{k}.h5", "w") as f:
            f["x"] = [k, 2 * k]
    def about():
        with open(f"x{k}.xdmf", "w") as f:
            f.write(f"x{k}.h5 {k}")
    for write in (data, about) if first == "h5" else (about, data):
        write()
'''
READ_PAIR = """
import json, os, h5py
def told(k):
    with open(f"x{k}.xdmf") as f:
        name, number = f.read().split()
    with h5py.File(name) as f:
        return [int(number), f["x"][()].tolist()]
def tell(k):
    with open("got.txt", "a") as out:
        print(json.dumps(told(k)), file=out)
"""
READ_PAIRS = READ_PAIR + "k = 0\nwhile os.path.exists(f'x{k}.xdmf'):\n    tell(k)\n    k += 1\n"
NAMES = ["x*.xdmf", "x*.h5"]


def pairs(numbers: Iterable[int]) -> list[object]:
    return [[k, [k, 2 * k]] for k in numbers]


@pytest.mark.usual("h5-memory", "xdmf-both")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", ["h5", "xdmf"])
def test_files_of_one_number_are_one_step(flow: Workflow, mode: str, first: str) -> None:
    """Of an earlier run lie some there: in memory they do not matter, and stay."""
    stale = flow.folder / "x9.h5"
    stale.write_text("old")
    flow.task(
        "writer",
        PAIR + f"for k in range(8): save(k, {first!r})",
        outports=[{"filename": NAMES, "mode": mode}],
    )
    flow.task("reader", READ_PAIRS, inports=[{"filename": NAMES}])
    flow.run()
    assert flow.got() == pairs(range(8))
    assert flow.published("writer") == 8
    assert stale.read_text() == "old"
    for name in ("x0.xdmf", "x7.h5"):
        assert (flow.folder / name).exists() == (mode != "memory")


def test_files_are_published_at_once_and_together(flow: Workflow) -> None:
    """The reader's answer is needed before the next step; whoever looks for the first file waits for the second."""
    flow.task(
        "writer",
        PAIR
        + """
import time
for k in range(4):
    with h5py.File(f"x{k}.h5", "w") as f:
        f["x"] = [k, 2 * k]
    time.sleep(0.1)
    with open(f"x{k}.xdmf", "w") as f:
        f.write("not")
    with open(f"x{k}.xdmf.tmp", "w") as f:
        f.write(f"x{k}.h5 {k}")
    assert sorted(n for n in os.listdir() if n.startswith(f"x{k}.")) == [f"x{k}.h5", f"x{k}.xdmf", f"x{k}.xdmf.tmp"]
    with h5py.File(f"answer{k}.h5") as f:
        assert f["x"][()] == 2 * k
""".replace('        f.write("not")', '        f.write(f"x{k}.h5 {k}")'),
        outports=[{"filename": NAMES}],
        inports=[{"filename": "answer*.h5"}],
    )
    flow.task(
        "reader",
        READ_PAIR
        + """
for k in range(4):
    with h5py.File(f"x{k}.h5") as f:
        x = f["x"][1]
    assert open(f"x{k}.xdmf").read() == f"x{k}.h5 {k}"
    with h5py.File(f"answer{k}.h5", "w") as f:
        f["x"] = x
""",
        inports=[{"filename": NAMES}],
        outports=[{"filename": "answer*.h5"}],
    )
    flow.run()


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_a_listing_shows_all_files_of_a_step(flow: Workflow, mode: str) -> None:
    (flow.folder / "x77.h5").write_text("old")
    flow.task("writer", PAIR + "for k in range(5): save(k)", outports=[{"filename": NAMES, "mode": mode}])
    flow.task(
        "reader",
        READ_PAIR
        + """
import glob
assert sorted(glob.glob("x*.h5")) == [f"x{k}.h5" for k in range(5)], glob.glob("x*.h5")
assert sorted(glob.glob("x*.xdmf")) == [f"x{k}.xdmf" for k in range(5)]
for entry in os.scandir("."):
    assert not entry.name.startswith("x") or (entry.is_file() and entry.inode() == os.stat(entry.name).st_ino)
for name in sorted(glob.glob("x*.xdmf")):
    tell(int(name[1]))
""",
        inports=[{"filename": NAMES, "listing": "end"}],
    )
    flow.run()
    assert flow.got() == pairs(range(5))


@pytest.mark.nightly
def test_a_policy_drops_all_files_of_a_step(flow: Workflow) -> None:
    flow.task("writer", PAIR + "for k in range(7): save(k)", outports=[{"filename": NAMES}])
    flow.task(
        "reader",
        READ_PAIR
        + """
for k in range(7):
    there = [os.path.exists(f"x{k}.{end}") for end in ("h5", "xdmf")]
    assert there == [k in (2, 5)] * 2, there
    if there[0]:
        tell(k)
""",
        inports=[{"filename": NAMES, "io_freq": 3}],
    )
    flow.run()
    assert flow.got() == pairs((2, 5))


@pytest.mark.nightly
def test_a_slow_reader_holds_the_writer_up(flow: Workflow) -> None:
    flow.task(
        "writer",
        PAIR
        + """
import time
for k in range(6):
    save(k)
    print(k, time.time(), file=open("wrote.txt", "a"), flush=True)
""",
        outports=[{"filename": NAMES, "queue": 1}],
    )
    flow.task(
        "reader",
        READ_PAIR
        + """
import time
for k in range(6):
    time.sleep(0.2)
    at = time.time()
    tell(k)
    print(k, at, file=open("read.txt", "a"), flush=True)
""",
        inports=[{"filename": NAMES}],
    )
    flow.run()
    wrote, read = (
        [float(line.split()[1]) for line in (flow.folder / name).read_text().splitlines()]
        for name in ("wrote.txt", "read.txt")
    )
    assert wrote[5] > read[2]
    assert flow.got() == pairs(range(6))


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", MODES)
def test_a_failing_program_publishes_no_half_step(flow: Workflow, mode: str) -> None:
    flow.task(
        "writer",
        PAIR + "save(0); h5py.File('x1.h5', 'w').close(); raise SystemExit(3)",
        outports=[{"filename": NAMES, "mode": mode}],
    )
    flow.task("reader", READ_PAIRS, inports=[{"filename": NAMES}])
    flow.run(1)
    assert flow.published("writer") == 1


def test_what_is_never_complete_is_published_at_the_end(flow: Workflow) -> None:
    """As on a disk, the other file is missing; steps that are complete do not wait for it."""
    flow.task(
        "writer",
        PAIR + "h5py.File('x0.h5', 'w').close()\nfor k in range(1, 4): save(k)",
        outports=[{"filename": NAMES}],
    )
    flow.task(
        "reader",
        READ_PAIR + "for k in range(1, 4): tell(k)\nassert os.path.exists('x0.h5') and not os.path.exists('x0.xdmf')",
        inports=[{"filename": NAMES}],
    )
    flow.run()
    assert flow.got() == pairs((1, 2, 3))
    assert flow.published("writer") == 4


def test_to_change_a_step_of_files_ends_the_run(flow: Workflow) -> None:
    flow.task("writer", PAIR + "save(0); h5py.File('x0.h5', 'a')['y'] = 1", outports=[{"filename": NAMES}])
    flow.task("reader", READ_PAIRS, inports=[{"filename": NAMES}])
    ran = flow.run(1)
    assert "changes 'x0.h5', though the step is published already" in ran.err
    assert "'next'" in ran.err
    flow.tasks[0]["outports"] = [{"filename": NAMES, "publish": "next"}]
    flow.run()


@pytest.mark.usual("next")
@pytest.mark.parametrize("publish", [{"file": "*.xdmf"}, "end", "next"])
def test_other_moments_of_a_step_of_files(flow: Workflow, publish: object) -> None:
    flow.task("writer", PAIR + "for k in range(3): save(k)", outports=[{"filename": NAMES, "publish": publish}])
    flow.task("reader", READ_PAIRS, inports=[{"filename": NAMES}])
    flow.run()
    assert flow.got() == pairs(range(3))


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_fixed_names_are_one_step_at_the_end(flow: Workflow, mode: str) -> None:
    """The file beside is written anew with each time, as dolfinx does."""
    flow.task(
        "writer",
        """
        import h5py
        with h5py.File("u.h5", "w") as f:
            for k in range(4):
                f[f"u{k}"] = k
                with open("u.xdmf", "w") as about:
                    about.write(" ".join(f"u{i}" for i in range(k + 1)))
        """,
        outports=[{"filename": ["u.xdmf", "u.h5"], "mode": mode}],
    )
    flow.task(
        "reader",
        """
        import h5py
        names = open("u.xdmf").read().split()
        with h5py.File("u.h5") as f:
            print([int(f[name][()]) for name in names], file=open("got.txt", "w"))
        """,
        inports=[{"filename": ["u.xdmf", "u.h5"]}],
    )
    flow.run()
    assert flow.got() == [[0, 1, 2, 3]]


@pytest.mark.usual("memory-rename", "both-link")
@pytest.mark.parametrize("way", ["rename", "link"])
@pytest.mark.parametrize("mode", MODES)
def test_files_that_take_their_names_when_they_are_whole(flow: Workflow, way: str, mode: str) -> None:
    flow.task(
        "writer",
        f"""
        import os, h5py
        for k in range(4):
            for end in ("h5", "xdmf"):
                with open("tmp", "w") as f:
                    f.write(f"{{k}}.{{end}}")
                os.{way}("tmp", f"x{{k}}.{{end}}")
                if {way!r} == "link":
                    os.remove("tmp")
        """,
        outports=[{"filename": NAMES, "mode": mode}],
    )
    flow.task(
        "reader",
        "for k in range(4):\n    assert [open(f'x{k}.{e}').read() for e in ('xdmf', 'h5')] == [f'{k}.xdmf', f'{k}.h5']",
        inports=[{"filename": NAMES}],
    )
    flow.run()
    assert flow.published("writer") == 4


def test_threads_write_the_files_of_a_step(flow: Workflow) -> None:
    """One closes its file while another opens its own."""
    flow.task(
        "writer",
        """
        import threading
        def part(k, end):
            with open(f"x{k}.{end}", "w") as f:
                f.write(f"{k} {end}")
        for k in range(30):
            threads = [threading.Thread(target=part, args=(k, end)) for end in ("xdmf", "h5", "txt")]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """,
        outports=[{"filename": ["x*.xdmf", "x*.h5", "x*.txt"]}],
    )
    flow.task(
        "reader",
        "for k in range(30):\n    for e in ('xdmf', 'h5', 'txt'): assert open(f'x{k}.{e}').read() == f'{k} {e}'",
        inports=[{"filename": ["x*.xdmf", "x*.h5", "x*.txt"]}],
    )
    flow.run()
    assert flow.published("writer") == 30


@pytest.mark.usual("memory")
@pytest.mark.needs(MPIEXEC, "python:mpi4py")
@pytest.mark.parametrize("mode", MODES)
def test_ranks_write_pieces_of_a_step(flow: Workflow, mode: str) -> None:
    """Each rank its own, and the first one the file that says what they are: nobody waits for nobody."""
    names = ["u*.pvtu", "u_p?_*.vtu"]
    flow.task(
        "writer",
        """
        import time
        from mpi4py import MPI
        rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        for k in range(5):
            with open(f"u_p{rank}_{k:06}.vtu", "w") as f:
                f.write(str(10 * k + rank))
            if rank == 0:
                with open(f"u{k:06}.pvtu", "w") as f:
                    f.write(" ".join(f"u_p{r}_{k:06}.vtu" for r in range(size)))
            time.sleep(0.05 * rank)
            MPI.COMM_WORLD.Barrier()
        """,
        nprocs=3,
        mpiexec=MPIEXEC,
        outports=[{"filename": names, "mode": mode}],
    )
    flow.task(
        "reader",
        """
        import os
        k = 0
        while os.path.exists(f"u{k:06}.pvtu"):
            pieces = open(f"u{k:06}.pvtu").read().split()
            print([int(open(name).read()) for name in pieces], file=open("got.txt", "a"))
            k += 1
        """,
        inports=[{"filename": names}],
    )
    flow.run()
    assert flow.got() == [[10 * k + rank for rank in range(3)] for k in range(5)]
    assert flow.published("writer") == 5


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:mpi4py")
def test_ranks_close_a_file_one_after_the_other(flow: Workflow) -> None:
    """The step is whole when the last one has, whoever that is."""
    flow.task(
        "writer",
        """
        import os, time
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        for k in range(4):
            if world.rank == 0:
                open(f"x{k}.h5", "w").close()
            world.Barrier()
            fd = os.open(f"x{k}.h5", os.O_RDWR)
            world.Barrier()
            time.sleep(0.1 * ((world.rank + k) % 2))
            os.pwrite(fd, b"%d" % world.rank, world.rank)
            os.close(fd)
            if world.rank == 0:
                open(f"x{k}.xdmf", "w").close()
            world.Barrier()
        """,
        nprocs=2,
        mpiexec=MPIEXEC,
        outports=[{"filename": NAMES, "queue": 4}],
    )
    flow.task("reader", "for k in range(4): assert open(f'x{k}.h5').read() == '01'", inports=[{"filename": NAMES}])
    flow.run()
    assert flow.published("writer") == 4


def test_a_program_is_started_for_each_step_of_files(flow: Workflow) -> None:
    """It is told the first name of the list."""
    flow.task("writer", PAIR + "for k in range(3): save(k)", outports=[{"filename": NAMES}])
    flow.task("reader", READ_PAIR + "import sys; tell(int(sys.argv[1][1]))", inports=[{"filename": NAMES}])
    flow.tasks[-1]["args"] = ["{filename}"]
    flow.run()
    assert flow.got() == pairs(range(3))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["x*.xdmf", "x.h5"], "'x.h5': files are one step if the same text stands for the wildcards"),
        (
            ["x*.xdmf", "x*_*.h5"],
            "it has 2, and 'x*.xdmf' has 1; where it stands for several files of a step, write '?'",
        ),
        (["x*.xdmf", "t*.d/"], "'t*.d/': a list is of files, and this is a folder"),
        (["x*.xdmf", "x*.xdmf"], "it is in the list twice"),
        (["x*.xdmf", "out/x*.h5"], "those of 'x*.xdmf' lie in another one"),
        (["x*_?.h5", "x*.xdmf"], "the first name names the step, and stands for one file of it"),
    ],
)
def test_names_that_cannot_be_one_step(flow: Workflow, names: list[str], says: str) -> None:
    flow.task("writer", "", outports=[{"filename": names}])
    flow.save()
    ran = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert ran.code == 2
    assert says in ran.err
    wrong = names[0] if says.startswith("the first") else names[1]
    lines = (flow.folder / "workflow.yaml").read_text().splitlines()
    line = max(number for number, text in enumerate(lines, 1) if text.strip() == f"- {wrong}")
    assert ran.err.startswith(f"workflow.yaml:{line}:{lines[line - 1].index(wrong) + 1}: error: ")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("out", "read", "says"),
    [
        (NAMES, "x*.h5", "writes 'x*.xdmf', 'x*.h5' as one step; list these names, in this order"),
        (NAMES, "x*.xdmf", "as one step; list these names, in this order"),
        (NAMES, NAMES[::-1], "as one step; list these names, in this order"),
        ("x*.xdmf", NAMES, "as a step of its own; name it alone"),
    ],
)
def test_both_sides_list_the_same_names(flow: Workflow, out: object, read: object, says: str) -> None:
    flow.task("writer", "", outports=[{"filename": out}])
    flow.task("reader", "", inports=[{"filename": read}])
    flow.save()
    ran = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert ran.code == 2
    assert says in ran.err


def test_a_file_belongs_to_one_step(flow: Workflow) -> None:
    flow.task("writer", "", outports=[{"filename": NAMES}, {"filename": "*.h5"}])
    flow.save()
    ran = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert "may also be one of the port '*.h5'" in ran.err


@pytest.mark.nightly
@pytest.mark.needs("system-python:dolfinx", "python:meshio")
@pytest.mark.parametrize("mode", ["memory", "file"])
def test_ranks_of_dolfinx(flow: Workflow, mode: str) -> None:
    """They write HDF5 through MPI-IO, and the first one the XDMF, anew with each field; then VTK's pieces."""
    names, pieces = ["x*.xdmf", "x*.h5"], ["v*.pvtu", "v_p?_*.vtu"]
    write_program(
        flow.folder / "writes.py",
        textwrap.dedent(
            """
            import numpy
            from dolfinx.fem import Function, FunctionSpace
            from dolfinx.io import VTKFile, XDMFFile
            from dolfinx.mesh import create_unit_square
            from mpi4py import MPI
            mesh = create_unit_square(MPI.COMM_WORLD, 8, 8)
            u = Function(FunctionSpace(mesh, ("Lagrange", 1)))
            vtk = VTKFile(mesh.comm, "v.pvd", "w")
            for step in range(4):
                u.interpolate(lambda x: numpy.full(x.shape[1], float(step)))
                with XDMFFile(mesh.comm, f"x{step}.xdmf", "w") as file:
                    file.write_mesh(mesh)
                    file.write_function(u)
                vtk.write_function(u, step)
            vtk.close()
            """
        ),
    )
    flow.task(
        "writer",
        ["/usr/bin/python3", "writes.py"],
        nprocs=2,
        outports=[{"filename": names, "mode": mode}, {"filename": pieces, "mode": mode}],
    )
    flow.task(
        "reader",
        """
        import re
        import meshio
        for step in range(4):
            with meshio.xdmf.TimeSeriesReader(f"x{step}.xdmf") as reader:
                reader.read_points_cells()
                _, data, _ = reader.read_data(0)
            with open(f"v{step:06}.pvtu") as file:
                pieces = re.findall(r'Source="(.*?)"', file.read())
            assert len(pieces) == 2, pieces
            for name in pieces:
                with open(name) as file:
                    assert file.read().rstrip().endswith("</VTKFile>")
            print([step, round(data["f"].min()), round(data["f"].max())], file=open("got.txt", "a"))
        """,
        inports=[{"filename": names}, {"filename": pieces}],
    )
    flow.run()
    assert flow.got() == [[k, k, k] for k in range(4)]
    assert flow.published("writer") == 8
