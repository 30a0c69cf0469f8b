"""Steps that are folders: what is in one is as its producer left it, once it is whole."""

from __future__ import annotations

import json

import pytest

from support.running import MPIEXEC, WILKINS, run_tree
from support.small_workflows import Workflow

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


def stays_clean(flow: Workflow, *names: str) -> None:
    """No folder that is a step is on the disk."""
    assert not [name for name in names if (flow.folder / name).exists()]


@pytest.mark.usual("4")
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


@pytest.mark.usual("renamed")
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


@pytest.mark.usual("True")
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


@pytest.mark.usual("both")
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


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
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
