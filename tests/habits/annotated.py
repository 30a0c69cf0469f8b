"""Habits of annotating: a consumer adds to the files that it reads, and finds there what it has added."""

from __future__ import annotations

from habits.common import BYTES, DATABASES, HDF5, NETCDF4, READS5
from habits.rig import Habit, Program, c, py, sh

from support.running import MPIEXEC

AGAIN = """
CODE = "import h5py, sys; print('=', sys.argv[1], *h5py.File(sys.argv[1]))"
def again(name):
    import h5py
    with h5py.File(name, "r") as file:
        show(name, file["x"][()])
        tell(name, sorted(file), sorted(file.attrs), *(file[key][()] for key in ("mean",) if key in file))
"""


def each(change: str, after: str = "again(name)", names: str = "NAMES5") -> Program:
    """Change each file, and look at it again at once, and all of them in the end."""
    lines = "\n        ".join(change.strip().splitlines())
    return py(f"""
import h5py
import os
import subprocess
import sys
{AGAIN}
if __name__ == "__main__":
    for name in {names}:
        {lines}
        {after}
    for name in {names}:
        {after}
""")


MEAN = 'with h5py.File(name, "r+") as file:\n    file["mean"] = file["x"][:].mean()'
BACK = "get(name)"
CHILD = "subprocess.run([sys.executable, '-c', CODE, name], check=True)"
UNLOCKED = CHILD.replace("CODE", 'CODE.replace("[1])", "[1], locking=False)")')
H5 = "plt*.h5"
RANKS = {"nprocs": 2, "mpiexec": MPIEXEC, "rerun": "never"}
RANK = "int(os.environ.get('PMI_RANK', 0))"

HABITS = [
    Habit("r-plus", HDF5, each(MEAN), H5),
    Habit("r-plus-without-a-change", HDF5, each('h5py.File(name, "r+").close()'), H5),
    Habit("r-plus-and-reads", HDF5, each('with h5py.File(name, "r+") as file:\n    show(name, file["x"][()])'), H5),
    Habit(
        "r-plus-writes-the-same",
        HDF5,
        each('with h5py.File(name, "r+") as file:\n    file["x"][:] = file["x"][()]'),
        H5,
    ),
    Habit("append", HDF5, each(MEAN.replace("r+", "a")), H5),
    Habit("attribute", HDF5, each('with h5py.File(name, "a") as file:\n    file.attrs["seen"] = 1'), H5),
    Habit(
        "attribute-of-dataset",
        HDF5,
        each('with h5py.File(name, "a") as file:\n    file["x"].attrs["seen"] = "long " * 99'),
        H5,
    ),
    Habit(
        "group", HDF5, each('with h5py.File(name, "a") as file:\n    file.require_group("of/mine")["y"] = [1, 2]'), H5
    ),
    Habit("values", HDF5, each('with h5py.File(name, "r+") as file:\n    file["x"][3] = 77'), H5),
    Habit(
        "removes",
        HDF5,
        each(
            'with h5py.File(name, "r+") as file:\n    file["y"] = file["x"][()]\n    del file["x"]\n    file["x"] = [5]'
        ),
        H5,
    ),
    Habit(
        "grows",
        py("""
import h5py
for k in range(N):
    with h5py.File(f"plt{k:04d}.h5", "w") as file:
        file.create_dataset("x", data=range(k, k + 1000), maxshape=(None,), chunks=(256,), compression="gzip")
"""),
        each('with h5py.File(name, "r+") as file:\n    file["x"].resize((3000,))\n    file["x"][1000:] = 1'),
        H5,
    ),
    Habit(
        "latest-format",
        py("""
import h5py
for k in range(N):
    with h5py.File(f"plt{k:04d}.h5", "w", libver="latest") as file:
        file["x"] = range(k, k + 1000)
"""),
        each('h5py.File(name, "r+").close()\n' + MEAN),
        H5,
    ),
    Habit(
        "latest-format-without-a-change",
        py("""
import h5py
for k in range(N):
    with h5py.File(f"plt{k:04d}.h5", "w", libver="latest") as file:
        file["x"] = range(k, k + 1000)
"""),
        each('h5py.File(name, "r+", libver="latest").close()'),
        H5,
    ),
    Habit(
        "user-block",
        py("""
import h5py
for k in range(N):
    with h5py.File(f"plt{k:04d}.h5", "w", userblock_size=512) as file:
        file["x"] = range(k, k + 1000)
"""),
        each('h5py.File(name, "r+").close()\n' + MEAN),
        H5,
    ),
    Habit("flushed-and-seen-by-a-child", HDF5, each(MEAN + "\n    file.flush()\n    " + UNLOCKED, "pass"), H5),
    Habit("seen-by-a-child", HDF5, each(MEAN, CHILD), H5),
    Habit("twice", HDF5, each(MEAN + '\nwith h5py.File(name, "r+") as file:\n    file["more"] = 3'), H5),
    Habit(
        "two-handles",
        HDF5,
        each(
            """
file = h5py.File(name, "r+")
file["mean"] = 4.0
with h5py.File(name, "r") as other:
    tell(name, sorted(other), other["mean"][()])
file.close()
"""
        ),
        H5,
    ),
    Habit(
        "removed-afterwards",
        HDF5,
        each(MEAN + "\nagain(name)\nos.remove(name)", "tell(name, os.path.exists(name))"),
        H5,
        changes=True,
    ),
    Habit("listed-afterwards", HDF5, each(MEAN, "tell(sorted(one for one in os.listdir() if one == name))"), H5),
    Habit(
        "renamed-afterwards",
        HDF5,
        each(MEAN + '\nos.rename(name, "mine-" + name)\nagain("mine-" + name)', "pass"),
        H5,
        changes=True,
    ),
    Habit(
        "only-the-last",
        HDF5,
        py(
            AGAIN
            + READS5.lines
            + 'import h5py\nwith h5py.File("plt0005.h5", "a") as file:\n    file["mean"] = 1\nagain("plt0005.h5")\n'
        ),
        H5,
        into={"reorder": 8},
    ),
    Habit("core-driver", HDF5, each('with h5py.File(name, "r+", driver="core") as file:\n    file["mean"] = 1'), H5),
    Habit(
        "core-driver-not-stored",
        HDF5,
        each('with h5py.File(name, "r+", driver="core", backing_store=False) as file:\n    file["mean"] = 1'),
        H5,
    ),
    Habit(
        "of-ranks",
        HDF5,
        py(f"""
import os, time
import h5py
{AGAIN}
for name in NAMES5[{RANK} :: int(os.environ.get("PMI_SIZE", 1))]:
    with h5py.File(name, "r+") as file:
        file["mean"] = file["x"][:].mean()
    again(name)
"""),
        H5,
        consumer=RANKS,
        needs=("mpiexec",),
        unordered=True,
    ),
    Habit(
        "by-one-rank",
        HDF5,
        py(f"""
import os
import h5py
from mpi4py import MPI
{AGAIN}
for name in NAMES5:
    if MPI.COMM_WORLD.rank == 0:
        with h5py.File(name, "r+") as file:
            file["mean"] = file["x"][:].mean()
    MPI.COMM_WORLD.Barrier()
    again(name)
    MPI.COMM_WORLD.Barrier()
"""),
        H5,
        consumer=RANKS,
        needs=("mpiexec",),
        unordered=True,
        expected=tuple(
            line
            for k in range(6)
            for _ in range(2)
            for line in (f"plt{k:04d}.h5=#{k}", f"plt{k:04d}.h5 ['mean', 'x'] [] {k + 499.5}")
        ),
    ),
    Habit(
        "netcdf4",
        NETCDF4,
        py("""
import netCDF4
for turn in range(2):
    for k in range(N):
        name = f"plt{k:04d}.nc"
        if turn == 0:
            with netCDF4.Dataset(name, "a") as file:
                file.mean = file["x"][:].mean()
                file.createVariable("y", "f8", ("n",))[:] = 2 * file["x"][:]
        with netCDF4.Dataset(name) as file:
            tell(name, file.mean, sorted(file.variables), float(file["y"][:].sum()))
"""),
        "plt*.nc",
    ),
    Habit("text-appended", BYTES, each('with open(name, "a") as file:\n    file.write("more")', BACK, "NAMES")),
    Habit(
        "text-appended-and-read",
        BYTES,
        each(
            'with open(name, "a+b") as file:\n    file.write(b"more")\n    file.seek(0)\n    show(name, file.read())',
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "opened-or-made",
        BYTES,
        each(
            """
fd = os.open(name, os.O_RDWR | os.O_CREAT)
show(name, os.pread(fd, 100, 0))
os.pwrite(fd, b"XYZ", 100)
os.close(fd)
""",
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "database",
        DATABASES,
        each(
            """
import sqlite3
base = sqlite3.connect(name)
base.execute("update numbers set x = x + 1")
base.execute("create index if not exists places on numbers(x)")
base.commit()
tell(name, *base.execute("select sum(x) from numbers"), *base.execute("pragma integrity_check"))
base.close()
""",
            "pass",
            "NAMES",
        ),
        out={"publish": "next"},
    ),
    Habit(
        "appends-to-a-file-of-its-own",
        BYTES,
        py("""
for name in NAMES:
    get(name)
    with open("plt-all.dat", "a") as file:
        file.write(name)
    with open("plt-most.dat", "a+b") as file:
        file.write(name.encode())
get("plt-all.dat")
get("plt-most.dat")
"""),
    ),
    Habit(
        "text-appended-by-bytes",
        BYTES,
        each(
            'with open(name, "ab", buffering=0) as file:\n    file.write(b"mo")\n    file.write(b"re")', BACK, "NAMES"
        ),
    ),
    Habit(
        "text-changed",
        BYTES,
        each(
            """
with open(name, "r+b") as file:
    file.seek(100)
    file.write(b"XYZ")
    file.seek(0)
    show(name, file.read())
""",
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "text-opened-to-change",
        BYTES,
        each('with open(name, "r+b") as file:\n    show(name, file.read())', BACK, "NAMES"),
    ),
    Habit("text-truncated", BYTES, each("os.truncate(name, 100)", BACK, "NAMES")),
    Habit(
        "text-truncated-by-descriptor",
        BYTES,
        each('with open(name, "r+b") as file:\n    file.truncate(50)', BACK, "NAMES"),
    ),
    Habit("text-made-longer", BYTES, each('with open(name, "r+b") as file:\n    file.truncate(9000)', BACK, "NAMES")),
    Habit(
        "text-by-a-child",
        BYTES,
        each(
            'with open(name, "a") as file:\n    subprocess.run(["echo", "more"], stdout=file, check=True)',
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "text-opened-while-a-child-runs",
        BYTES,
        each(
            'with open(name, "r+b") as file:\n    subprocess.run(["true"], check=True)\n    show(name, file.read())',
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "text-by-two",
        BYTES,
        each(
            """
one, two = open(name, "r+b", 0), open(name, "r+b", 0)
one.write(b"XY")
show(name, two.read())
two.write(b"end")
one.close()
two.close()
""",
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "text-shell",
        BYTES,
        sh("""
for k in $(steps); do
    echo more >> plt000$k.dat
    seq 3 >> plt000$k.dat
    { echo 1; seq 3; } >> plt000$k.dat
    show plt000$k.dat < plt000$k.dat
done
cat plt*.dat | show all
"""),
    ),
    Habit(
        "text-sed",
        BYTES,
        sh("""
for k in $(steps); do
    sed -i 's/^9/nine/' plt000$k.dat
    show plt000$k.dat < plt000$k.dat
done
cat plt*.dat | show all
"""),
    ),
    Habit(
        "memmap",
        BYTES,
        each(
            'import numpy\narray = numpy.memmap(name, mode="r+")\narray[:3] = 65\narray.flush()\nget(name)\ndel array',
            BACK,
            "NAMES",
        ),
    ),
    Habit(
        "memmap-only-read",
        BYTES,
        each("import numpy\narray = numpy.memmap(name)\nshow(name, bytes(array))\ndel array", BACK, "NAMES"),
    ),
    Habit(
        "c-stream",
        BYTES,
        c("""
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < N; k++) {
            FILE* file = fopen(name_of(k), "r+");
            must(file != NULL, "fopen");
            if (turn == 0) fputs("more", file);
            fseek(file, 0, SEEK_SET);
            char line[64];
            must(fgets(line, sizeof(line), file) != NULL, "fgets");
            printf("= %s %s", name_of(k), line);
            fclose(file);
        }
"""),
    ),
]
