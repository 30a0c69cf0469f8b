"""Steps that are folders, or several files: what is in one is as its producer left it, once it is whole."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
from small_workflows import Workflow

from support import MPIEXEC, WILKINS, run_tree, write_program

MODES = ["memory", "both", "file"]
SAVE = '''
import json, os, shutil, sys, threading
def save(name, k):
    """Writes a small store as libraries do: temporary names, links, a folder in a folder."""
    os.makedirs(f"{name}/c/0")
    with open(f"{name}/meta.json.partial", "w") as f:
        json.dump({"k": k}, f)
    os.replace(f"{name}/meta.json.partial", f"{name}/meta.json")
    for i in range(3):
        with open(f"{name}/c/0/{i}", "wb") as f:
            f.write(bytes([10 * k + i]) * 100)
    os.link(f"{name}/c/0/0", f"{name}/c/same")
    os.symlink("meta.json", f"{name}/about")
    assert sorted(os.listdir(name)) == ["about", "c", "meta.json"]
    assert os.stat(f"{name}/c/same").st_nlink == 2 and os.path.isdir(name)
'''
TELL = '''
import json, os
def tell(name):
    """What is in such a store."""
    with open(f"{name}/meta.json") as f:
        k = json.load(f)["k"]
    files = sorted(os.path.join(at, one)[len(name) + 1:] for at, _, names in os.walk(name) for one in names)
    assert files == ["about", "c/0/0", "c/0/1", "c/0/2", "c/same", "meta.json"], files
    assert os.readlink(f"{name}/about") == "meta.json" and os.path.isdir(name)
    assert os.path.realpath(f"{name}/about") == os.path.abspath(f"{name}/meta.json")
    told = [k] + [open(f"{name}/c/0/{i}", "rb").read()[0] for i in range(3)]
    with open("got.txt", "a") as out:
        print(json.dumps(told), file=out)
'''
LOOP = (
    TELL
    + """
k = 0
while os.path.exists(f"t{k}.d"):
    tell(f"t{k}.d")
    k += 1
"""
)


def whole(steps: int) -> list[list[int]]:
    return [[k, 10 * k, 10 * k + 1, 10 * k + 2] for k in range(steps)]


@pytest.fixture
def flow(tmp_path: Path) -> Workflow:
    """An empty workflow."""
    return Workflow(tmp_path)


def stays_clean(flow: Workflow, *names: str) -> None:
    """No folder that is a step is on the disk."""
    assert not [name for name in names if (flow.folder / name).exists()]


@pytest.mark.parametrize("queue", [1, 4])
def test_each_folder_is_a_step(flow: Workflow, queue: int) -> None:
    flow.task(
        "writer", SAVE + "for k in range(20): save(f't{k}.d', k)", outports=[{"filename": "t*.d/", "queue": queue}]
    )
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    flow.run()
    assert flow.got() == whole(20)
    assert flow.published("writer") == 20
    stays_clean(flow, "t0.d", "t19.d")


def test_a_reader_that_is_early_waits_for_the_whole_folder(flow: Workflow) -> None:
    """An open of a file in it waits until its producer is done with the folder, however long that has the file."""
    flow.task(
        "writer",
        SAVE
        + """
        import time
        for k in range(3):
            os.mkdir(f"t{k}.d")
            with open(f"t{k}.d/first", "w") as f:
                f.write("now")
                f.flush()
                time.sleep(0.2)
                f.write(" whole")
            with open(f"t{k}.d/last", "w") as f:
                print(k, file=f)
        """.replace("\n        ", "\n"),
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import json
        for k in range(3):
            told = [open(f"t{k}.d/first").read(), int(open(f"t{k}.d/last").read())]
            with open("got.txt", "a") as out:
                print(json.dumps(told), file=out)
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert flow.got() == [["now whole", k] for k in range(3)]


def test_a_listing_shows_folders(flow: Workflow) -> None:
    flow.task("writer", SAVE + "for k in range(6): save(f't{k}.d', k)", outports=[{"filename": "t*.d/"}])
    flow.task(
        "reader",
        TELL
        + """
import glob
assert {e.name: e.is_dir() for e in os.scandir(".") if e.name[0] == "t"} == {f"t{k}.d": True for k in range(6)}
for name in sorted(glob.glob("t*.d")):
    tell(name)
assert sorted(glob.glob("t*.d/meta.json")) == [f"t{k}.d/meta.json" for k in range(6)]
""",
        inports=[{"filename": "t*.d/", "listing": "end"}],
    )
    flow.run()
    assert flow.got() == whole(6)


def test_a_fixed_name_is_one_step_at_the_end(flow: Workflow) -> None:
    """It grows until its producer ends; other folders that this writes do not publish it."""
    flow.task(
        "writer",
        """
        import os
        os.mkdir("all.d")
        for k in range(5):
            with open(f"all.d/{k}", "w") as f:
                print(k, file=f)
            os.makedirs(f"other{k}.d")
        """,
        outports=[{"filename": "all.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        told = sorted(int(open(f"all.d/{name}").read()) for name in os.listdir("all.d"))
        open("got.txt", "w").write(str(told))
        """,
        inports=[{"filename": "all.d/"}],
    )
    flow.run()
    assert flow.got() == [[0, 1, 2, 3, 4]]
    assert flow.published("writer") == 1


def test_folders_of_times(flow: Workflow) -> None:
    """As solvers write them: a folder for each time, and in it the fields; the first one lies on the disk as input."""
    (flow.folder / "0.0").mkdir()
    (flow.folder / "0.0" / "U").write_text("0")
    flow.task(
        "writer",
        """
        import os
        u = int(open("0.0/U").read())
        for k in range(1, 6):
            u += k
            os.makedirs(f"0.{k}/uniform", exist_ok=True)
            open(f"0.{k}/U", "w").write(str(u))
            open(f"0.{k}/uniform/time", "w").write(f"0.{k}")
        """,
        outports=[{"filename": "[0-9]*.[0-9]/"}],
    )
    flow.task(
        "reader",
        """
        for k in range(1, 6):
            u, time = open(f"0.{k}/U").read(), open(f"0.{k}/uniform/time").read()
            print([int(u), float(time)], file=open("got.txt", "a"))
        """,
        inports=[{"filename": "[0-9]*.[0-9]/"}],
    )
    flow.run()
    assert flow.got() == [[1, 0.1], [3, 0.2], [6, 0.3], [10, 0.4], [15, 0.5]]


def test_a_folder_that_an_earlier_run_has_left_does_not_matter(flow: Workflow) -> None:
    """Neither to a program that makes its folder only if it is missing, nor to the reader."""
    stale = flow.folder / "t0.d"
    stale.mkdir()
    (stale / "old").write_text("9")
    flow.task(
        "writer",
        """
        import os
        for k in range(3):
            if not os.path.isdir(f"t{k}.d"):
                os.mkdir(f"t{k}.d")
            open(f"t{k}.d/new", "w").write(str(k))
        """,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        for k in range(3):
            told = [os.listdir(f"t{k}.d"), open(f"t{k}.d/new").read()]
            assert told == [["new"], str(k)], told
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert (stale / "old").read_text() == "9"
    assert flow.published("writer") == 3


def test_a_folder_that_takes_its_name_when_it_is_whole(flow: Workflow) -> None:
    """Written under another name on the disk, and renamed."""
    flow.task(
        "writer",
        SAVE.replace("os.makedirs", "os.makedirs")
        + """
for k in range(4):
    save(".tmp", k)
    os.rename(".tmp", f"t{k}.d")
""",
        outports=[{"filename": "t*.d/"}],
    )
    flow.task("reader", LOOP.replace("st_nlink == 2", "st_nlink"), inports=[{"filename": "t*.d/"}])
    flow.run()
    assert flow.got() == whole(4)
    stays_clean(flow, ".tmp", "t0.d")


@pytest.mark.parametrize("way", ["closed", "renamed"])
def test_a_file_says_that_the_folder_is_complete(flow: Workflow, way: str) -> None:
    """The reader's answer is needed before the next folder is begun; what was published stays as it was."""
    finish = {
        "closed": "open(f't{k}.d/.done', 'w').close()",
        "renamed": "open(f't{k}.d/x', 'w').close(); os.rename(f't{k}.d/x', f't{k}.d/.done')",
    }[way]
    flow.task(
        "writer",
        SAVE
        + f"""
import h5py
for k in range(4):
    save(f"t{{k}}.d", k)
    os.mkdir(f"t{{k}}.d/later")
    {finish}
    with h5py.File(f"answer{{k}}.h5") as f:
        assert f["x"][()] == k
""",
        outports=[{"filename": "t*.d/", "publish": {"file": ".done"}}],
        inports=[{"filename": "answer*.h5"}],
    )
    flow.task(
        "reader",
        """
        import h5py, json, os
        for k in range(4):
            assert sorted(os.listdir(f"t{k}.d")) == [".done", "about", "c", "later", "meta.json"]
            with h5py.File(f"answer{k}.h5", "w") as f:
                f["x"] = json.load(open(f"t{k}.d/meta.json"))["k"]
        """,
        inports=[{"filename": "t*.d/"}],
        outports=[{"filename": "answer*.h5"}],
    )
    flow.run()


def test_to_change_a_published_folder_ends_the_run(flow: Workflow) -> None:
    flow.task(
        "writer",
        SAVE + "save('t0.d', 0); save('t1.d', 1); open('t0.d/more', 'w')",
        outports=[{"filename": "t*.d/"}],
    )
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    ran = flow.run(1)
    assert "changes 't0.d/more', though the folder is published already" in ran.err
    assert "'publish'" in ran.err


def test_by_an_open_folder_no_published_one_is_changed_either(flow: Workflow) -> None:
    flow.task(
        "writer",
        SAVE
        + """
save('t0.d', 0)
save('t1.d', 1)
at = os.open("t0.d", os.O_RDONLY)
os.open("more", os.O_CREAT | os.O_WRONLY, dir_fd=at)
""",
        outports=[{"filename": "t*.d/"}],
    )
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    assert "changes 't0.d/more'" in flow.run(1).err


def test_a_reader_that_changes_a_folder_ends_the_run(flow: Workflow) -> None:
    flow.task("writer", SAVE + "save('t0.d', 0); save('t1.d', 1)", outports=[{"filename": "t*.d/"}])
    flow.task("reader", TELL + "tell('t0.d'); os.remove('t0.d/meta.json')", inports=[{"filename": "t*.d/"}])
    assert "changes 't0.d/meta.json', which another task has written" in flow.run(1).err


def test_what_is_left_open_is_published_when_it_is_closed(flow: Workflow) -> None:
    """A thread still writes the last file of a folder while the next one has been begun."""
    flow.task(
        "writer",
        """
        import os, threading, time
        def late(f, k):
            time.sleep(0.2)
            f.write(f"{k} whole")
            f.close()
        threads = []
        for k in range(4):
            os.mkdir(f"t{k}.d")
            threads.append(threading.Thread(target=late, args=(open(f"t{k}.d/x", "w"), k)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        """,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        for k in range(4):
            assert open(f"t{k}.d/x").read() == f"{k} whole"
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert flow.published("writer") == 4


def test_processes_of_a_task_write_one_folder(flow: Workflow) -> None:
    """Each child makes its part of each folder, and lives on to the next."""
    flow.task(
        "writer",
        """
        import multiprocessing, os
        def part(job):
            k, i = job
            open(f"t{k}.d/{i}", "w").write(str(10 * k + i))
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(3) as pool:
                for k in range(5):
                    os.mkdir(f"t{k}.d")
                    pool.map(part, [(k, i) for i in range(6)], chunksize=1)
        """,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        for k in range(5):
            told = sorted(int(open(f"t{k}.d/{i}").read()) for i in os.listdir(f"t{k}.d"))
            print(told, file=open("got.txt", "a"))
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert flow.got() == [[10 * k + i for i in range(6)] for k in range(5)]


def test_programs_of_a_script(flow: Workflow) -> None:
    """mkdir, cp, mv, tar and rm work on what is in a folder."""
    script = flow.folder / "writer.sh"
    script.write_text(
        "set -e\nfor k in 0 1 2; do\nmkdir t$k.d\necho $k > t$k.d/a\ncp t$k.d/a t$k.d/b\nmv t$k.d/b t$k.d/c\n"
        "mkdir -p t$k.d/x/y\n"
        "(cd t$k.d && tar cf x/y/all.tar a c)\nrm t$k.d/a\ndone\n"
    )
    flow.task("writer", ["sh", script], outports=[{"filename": "t*.d/"}])
    flow.task(
        "reader",
        [
            "sh",
            "-c",
            "for k in 0 1 2; do ls t$k.d | tr '\\n' ' '; tar xOf t$k.d/x/y/all.tar a; cp -r t$k.d copy$k; done "
            "> told.txt",
        ],
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert (flow.folder / "told.txt").read_text().splitlines() == ["c x 0", "c x 1", "c x 2"]
    assert (flow.folder / "copy1" / "c").read_text() == "1\n"


def test_a_folder_that_is_let_go_is_not_read_with_holes(flow: Workflow) -> None:
    """A library takes a missing piece for what was never written."""
    flow.task(
        "writer",
        """
        import os
        for k in range(30):
            os.mkdir(f"t{k}.d")
            for name in ("meta", "piece"):
                open(f"t{k}.d/{name}", "wb").write(bytes(1 << 20))
        """,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        for k in range(30):
            open(f"t{k}.d/meta").close()
        print(os.path.exists("t0.d/piece"))
        """,
        inports=[{"filename": "t*.d/"}],
    )
    ran = flow.run(1)
    assert "looks into 't0.d' again, which its task has read" in ran.err
    assert "no such file" not in ran.err
    assert "'reorder: " in ran.err


def test_a_failing_program_publishes_no_folder_that_it_was_writing(flow: Workflow) -> None:
    flow.task(
        "writer",
        SAVE + "save('t0.d', 0); os.mkdir('t1.d'); open('t1.d/half', 'w').close(); sys.exit(3)",
        outports=[{"filename": "t*.d/"}],
    )
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    flow.run(1)
    assert flow.published("writer") == 1


@pytest.mark.needs(MPIEXEC, "python:mpi4py")
@pytest.mark.parametrize("barrier", [True, False])
def test_ranks_write_one_folder(flow: Workflow, barrier: bool) -> None:
    """Rank 0 makes it; the others may be late with their parts, as long as they come to each."""
    flow.task(
        "writer",
        f"""
        import os, time
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        for k in range(5):
            if world.rank == 0:
                os.makedirs(f"t{{k}}.d/c")
            world.Barrier()
            time.sleep(0.05 * world.rank)
            open(f"t{{k}}.d/c/{{world.rank}}", "w").write(str(10 * k + world.rank))
            if {barrier}:
                world.Barrier()
        """,
        nprocs=3,
        mpiexec=MPIEXEC,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        k = 0
        while os.path.isdir(f"t{k}.d"):
            print(sorted(int(open(f"t{k}.d/c/{i}").read()) for i in os.listdir(f"t{k}.d/c")), file=open("got.txt", "a"))
            k += 1
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert flow.got() == [[10 * k + i for i in range(3)] for k in range(5)]


@pytest.mark.needs(MPIEXEC, "python:mpi4py")
def test_ranks_read_each_folder(flow: Workflow) -> None:
    flow.task("writer", SAVE + "for k in range(6): save(f't{k}.d', k)", outports=[{"filename": "t*.d/"}])
    flow.task(
        "reader",
        TELL.replace('"got.txt"', 'f"got{rank}.txt"')
        + """
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for k in range(6):
    tell(f"t{k}.d")
""",
        nprocs=2,
        mpiexec=MPIEXEC,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    for rank in range(2):
        assert [json.loads(line) for line in (flow.folder / f"got{rank}.txt").read_text().splitlines()] == whole(6)


@pytest.mark.nightly
@pytest.mark.needs("python:zarr")
@pytest.mark.parametrize("version", [2, 3])
def test_zarr_stores(flow: Workflow, version: int) -> None:
    flow.task(
        "writer",
        f"""
        import numpy, zarr
        for k in range(4):
            group = zarr.open_group(f"t{{k}}.zarr", mode="w", zarr_format={version})
            x = group.create_array("x", shape=(32, 32), chunks=(16, 16), dtype="f8")
            x[:] = k + numpy.arange(1024.).reshape(32, 32)
            x.attrs["step"] = k
        """,
        outports=[{"filename": "t*.zarr/"}],
    )
    flow.task(
        "reader",
        """
        import numpy, zarr
        k = 0
        while True:
            try:
                group = zarr.open_group(f"t{k}.zarr", mode="r")
            except FileNotFoundError:
                break
            assert group["x"].attrs["step"] == k
            assert (group["x"][:] == k + numpy.arange(1024.).reshape(32, 32)).all()
            k += 1
        print([k], file=open("got.txt", "w"))
        """,
        inports=[{"filename": "t*.zarr/"}],
    )
    flow.run()
    assert flow.got() == [[4]]


@pytest.mark.nightly
@pytest.mark.needs("python:adios2")
@pytest.mark.parametrize("engine", ["BP4", "BP5"])
def test_bp_folders(flow: Workflow, engine: str) -> None:
    """Published by `next`; with their index as the file that completes them, the last one is there before the end."""
    flow.task(
        "writer",
        f"""
        import adios2, numpy
        for k in range(3):
            adios = adios2.Adios()
            io = adios.declare_io("out")
            io.set_engine("{engine}")
            with adios2.Stream(io, f"out{{k}}.bp", "w") as stream:
                for n, _ in enumerate(stream.steps(2)):
                    stream.write("x", numpy.arange(100.) + k + n, [100], [0], [100])
        """,
        outports=[{"filename": "out*.bp/"}],
    )
    flow.task(
        "reader",
        """
        import adios2, numpy, os
        for k in range(3):
            with adios2.FileReader(f"out{k}.bp") as reader:
                x = reader.read("x", start=[0], count=[100], step_selection=[0, 2]).reshape(2, 100)
            assert (x == numpy.arange(100.) + k + numpy.array([[0], [1]])).all()
        assert not os.path.exists("out3.bp")
        """,
        inports=[{"filename": "out*.bp/"}],
    )
    flow.run()
    assert flow.published("writer") == 3


@pytest.mark.parametrize(
    ("out", "read", "says"),
    [
        ({"publish": "close"}, {}, "a folder is complete at 'next', '{file: PATTERN}' or 'end', not at 'close'"),
        ({"memory": "1GiB"}, {}, "bounded by 'queue' alone; remove 'memory'"),
        ({}, {"as": "x.d"}, "by their own names; remove 'as'"),
        ({"dsets": [{"name": "x"}]}, {}, "datasets are those of one HDF5 file; remove 'dsets'"),
    ],
)
def test_what_a_folder_cannot_have(flow: Workflow, out: dict[str, object], read: dict[str, object], says: str) -> None:
    flow.task("writer", "", outports=[{"filename": "t*.d/", **out}])
    flow.task("reader", "", inports=[{"filename": "t*.d/", **read}])
    flow.save()
    ran = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert ran.code == 2
    assert says in ran.err


def test_a_file_is_no_folder(flow: Workflow) -> None:
    flow.task("writer", "", outports=[{"filename": "t*.d/"}])
    flow.task("reader", "", inports=[{"filename": "t*.d"}])
    flow.save()
    assert "one is a file's and one a folder's" in run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder).err
    flow.tasks.clear()
    flow.task("writer", "", outports=[{"filename": "t*.h5", "publish": "end"}])
    flow.task("reader", "", inports=[{"filename": "t*.h5"}])
    flow.save()
    assert (
        "'publish: end' is for folders and lists" in run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder).err
    )


def test_a_working_folder_may_be_a_step(flow: Workflow) -> None:
    """Relative names, `..` and the name of the working folder mean what they mean on a disk."""
    flow.task(
        "writer",
        """
        import os
        home = os.getcwd()
        for k in range(4):
            os.mkdir(f"t{k}.d")
            os.chdir(f"t{k}.d")
            assert os.getcwd() == f"{home}/t{k}.d"
            open("in", "w").write(str(k))
            os.mkdir("deep")
            os.chdir("deep")
            open("../beside", "w").write("b")
            open("../../plain.txt", "w").write(str(k))
            os.chdir("../..")
            assert os.getcwd() == home, os.getcwd()
        assert open("plain.txt").read() == "3"
        """,
        outports=[{"filename": "t*.d/"}],
    )
    flow.task(
        "reader",
        """
        import os
        home = os.getcwd()
        for k in range(4):
            os.chdir(f"t{k}.d")
            assert sorted(os.listdir()) == ["beside", "deep", "in"] and open("in").read() == str(k)
            assert os.path.exists("../workflow.yaml")
            os.chdir("..")
            assert os.getcwd() == home
        """,
        inports=[{"filename": "t*.d/"}],
    )
    flow.run()
    assert (flow.folder / "plain.txt").read_text() == "3"


def test_many_programs_read_one_folder(flow: Workflow) -> None:
    """Each of them opens it anew, also one of a fixed name."""
    flow.task(
        "writer",
        "import os\nfor n in ('a.d', 't0.d', 't1.d'):\n    os.mkdir(n)\n    open(f'{n}/x', 'w').write(n)",
        outports=[{"filename": "t*.d/"}, {"filename": "a.d/"}],
    )
    flow.task(
        "reader",
        [
            "sh",
            "-c",
            "for n in t0.d t1.d a.d; do ls $n; cat $n/x; (cd $n && cat x); cat < $n/x; test -d $n && echo; done "
            "> told.txt",
        ],
        inports=[{"filename": "t*.d/"}, {"filename": "a.d/"}],
    )
    flow.run()
    assert (flow.folder / "told.txt").read_text() == "".join(f"x\n{n}{n}{n}\n" for n in ("t0.d", "t1.d", "a.d"))


def test_a_program_is_started_for_each_folder(flow: Workflow) -> None:
    flow.task("writer", SAVE + "for k in range(3): save(f't{k}.d', k)", outports=[{"filename": "t*.d/"}])
    flow.task("reader", TELL + "import sys; tell(sys.argv[1])", inports=[{"filename": "t*.d/"}])
    flow.tasks[-1]["args"] = ["{filename}"]
    flow.run()
    assert flow.got() == whole(3)


def test_what_a_policy_drops_is_missing_as_a_whole(flow: Workflow) -> None:
    flow.task("writer", SAVE + "for k in range(7): save(f't{k}.d', k)", outports=[{"filename": "t*.d/"}])
    flow.task(
        "reader",
        TELL + "for k in range(7):\n    if os.path.exists(f't{k}.d/meta.json'): tell(f't{k}.d')",
        inports=[{"filename": "t*.d/", "io_freq": 3}],
    )
    flow.run()
    assert flow.got() == [one for one in whole(7) if one[0] in (2, 5)]


def test_hdf5_files_lie_in_folders(flow: Workflow) -> None:
    """They are ordinary files there, also where another port has files of such names."""
    pytest.importorskip("h5py")
    flow.task(
        "writer",
        """
        import os, h5py
        for k in range(3):
            os.mkdir(f"t{k}.d")
            for n in range(2):
                with h5py.File(f"t{k}.d/p{n}.h5", "w") as f:
                    f["x"] = [k, n]
            with h5py.File(f"p{k}.h5", "w") as f:
                f["x"] = [k]
        """,
        outports=[{"filename": "t*.d/"}, {"filename": "p*.h5"}],
    )
    flow.task(
        "reader",
        """
        import h5py
        for k in range(3):
            for n in range(2):
                with h5py.File(f"t{k}.d/p{n}.h5") as f:
                    assert f["x"][()].tolist() == [k, n]
            with h5py.File(f"p{k}.h5") as f:
                assert f["x"][()].tolist() == [k]
        """,
        inports=[{"filename": "t*.d/"}, {"filename": "p*.h5"}],
    )
    flow.run()
    assert flow.published("writer") == 6


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


@pytest.mark.parametrize("publish", [{"file": "*.xdmf"}, "end", "next"])
def test_other_moments_of_a_step_of_files(flow: Workflow, publish: object) -> None:
    flow.task("writer", PAIR + "for k in range(3): save(k)", outports=[{"filename": NAMES, "publish": publish}])
    flow.task("reader", READ_PAIRS, inports=[{"filename": NAMES}])
    flow.run()
    assert flow.got() == pairs(range(3))


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


@pytest.mark.parametrize("mode", ["both", "file"])
def test_folders_on_the_disk(flow: Workflow, mode: str) -> None:
    """They are what the program alone would have left, and what memory has let go of is read from there."""
    flow.task("writer", SAVE + "for k in range(20): save(f't{k}.d', k)", outports=[{"filename": "t*.d/", "mode": mode}])
    flow.task("reader", LOOP + "tell('t0.d')", inports=[{"filename": "t*.d/"}])
    flow.run()
    assert flow.got() == [*whole(20), *whole(1)]
    assert flow.published("writer") == 20
    assert sorted(one.name for one in (flow.folder / "t19.d").iterdir()) == ["about", "c", "meta.json"]
    assert not list(flow.folder.glob(".wilkins*"))


def test_files_run_folders_through_the_disk(flow: Workflow) -> None:
    flow.task("writer", SAVE + "for k in range(3): save(f't{k}.d', k)", outports=[{"filename": "t*.d/"}])
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    flow.run(0, "--files")
    assert flow.got() == whole(3)
    assert (flow.folder / "t2.d" / "meta.json").exists()


def test_a_reader_in_another_folder_reads_the_disk(flow: Workflow) -> None:
    (flow.folder / "a").mkdir()
    (flow.folder / "b").mkdir()
    flow.task(
        "writer", SAVE + "for k in range(9): save(f't{k}.d', k)", outports=[{"filename": "t*.d/", "mode": "file"}]
    )
    flow.task("reader", LOOP + "tell('t1.d')", inports=[{"filename": "t*.d/"}])
    for task, folder in zip(flow.tasks, "ab", strict=True):
        task["cwd"] = folder
    flow.run()
    assert len((flow.folder / "b" / "got.txt").read_text().splitlines()) == 10
    assert (flow.folder / "a" / "t8.d").is_dir()


@pytest.mark.parametrize("mode", MODES)
def test_a_program_clears_away_what_an_earlier_run_has_left(flow: Workflow, mode: str) -> None:
    """And makes its folder anew, as Zarr and many scripts do."""
    stale = flow.folder / "t0.d" / "c"
    stale.mkdir(parents=True)
    (stale / "old").write_text("9")
    flow.task(
        "writer",
        SAVE
        + """
for k in range(3):
    if os.path.exists(f"t{k}.d"):
        shutil.rmtree(f"t{k}.d")
    save(f"t{k}.d", k)
""",
        outports=[{"filename": "t*.d/", "mode": mode}],
    )
    flow.task("reader", LOOP, inports=[{"filename": "t*.d/"}])
    flow.run()
    assert flow.got() == whole(3)


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
