"""Habits of stages: tasks between the two that read files, may change them, and pass them on."""

from __future__ import annotations

from typing import Any

from habits.common import BYTES, DATABASES, HDF5, NETCDF4, READS
from habits.rig import Habit, Program, Stage, c, py, sh

from support.running import MPIEXEC

ALL = """
def seen(name):
    import h5py
    with h5py.File(name) as file:
        show(name, file["x"][()])
        tell(name, *(f"{key}={file[key][...].sum()}" for key in sorted(file)), *sorted(file.attrs.items()))
"""
"""What tells all that an HDF5 file holds."""

READS_ALL = py(f"""{ALL}
for name in NAMES5:
    seen(name)
""")
H5 = "plt*.h5"
TAG = 'with h5py.File(name, "r+") as file:\n    file.attrs["tag"] = float(file["x"][3])'
MORE = 'with h5py.File(name, "a") as file:\n    file["more"] = file["x"][::7]'
CHANGE = 'with h5py.File(name, "r+") as file:\n    file["x"][5] = -1'
LOOK = "seen(name)"
DRAFT = """
with h5py.File(name) as file:
    held = file["x"][()]
with h5py.File("draft.tmp", "w") as file:
    file["x"] = held[::-1]
os.replace("draft.tmp", name)
"""
ANEW = """
with h5py.File(name) as file:
    held = file["x"][()]
with h5py.File(name, "w") as file:
    file["x"] = held + 1
    file.attrs["anew"] = 1
"""
RANKS = {"nprocs": 2, "mpiexec": MPIEXEC, "rerun": "never"}
MPI = ("mpiexec",)
MINE = "NAMES5[int(os.environ.get('PMI_RANK', 0)) :: int(os.environ.get('PMI_SIZE', 1))]"


def within(lines: str) -> str:
    """Lines of a block."""
    return lines.strip().replace("\n", "\n    ")


def each(lines: str, names: str = "NAMES5", head: str = "") -> Program:
    """A stage that does this with each ``name``, one after the other."""
    return py(f"""
import glob, h5py, os, shutil, subprocess, sys, time
{ALL}
{head}
for name in {names}:
    {within(lines)}
""")


def chain(name: str, *stages: Stage, **keys: Any) -> Habit:
    """Stages between HDF5 programs."""
    return Habit(name, HDF5, READS_ALL, H5, stages, **keys)


def one(name: str, lines: str, names: str = "NAMES5", head: str = "") -> Habit:
    """A stage between them, which goes from file to file."""
    return chain(name, Stage(each(lines, names, head)))


def of_bytes(name: str, lines: str, head: str = "") -> Habit:
    """A stage between programs without HDF5."""
    return Habit(name, BYTES, READS, stages=(Stage(each(lines, "NAMES", head)),))


def told(seen: str) -> list[str]:
    """What is told of all files, with the sums of the datasets of each."""
    return [
        line
        for k in range(6)
        for line in (
            f"plt{k:04d}.h5=#{k}",
            f"plt{k:04d}.h5 " + seen.format(x=sum(range(k, k + 1000)), more=sum(range(k, k + 1000, 7)), tag=k + 3.0),
        )
    ]


def in_shell(name: str, lines: str) -> Habit:
    return Habit(
        name, BYTES, READS, stages=(Stage(sh(f"for k in $(steps); do\n    file=plt000$k.dat\n{lines}\ndone\n")),)
    )


FAILS = f"""
k = NAMES5.index(name)
if k == 3 and not os.path.exists("failed"):
    with h5py.File(name, "r+") as file:
        file.attrs["wrong"] = 1
    open("failed", "w").close()
    os._exit(1)
with h5py.File(name, "r+") as file:
    for key in list(file.attrs):
        del file.attrs[key]
{TAG}
"""
"""A stage that fails once, at the fourth file, which it has changed; started again, it goes on there."""

RESTARTED = Stage(
    each(FAILS, 'NAMES5[3 if os.path.exists("failed") else 0 :]'),
    {"on_failure": "restart", "retry_delay": 0, "restart": "each-step"},
)
READER = Stage(READS_ALL, passes_on=False)

HABITS = [
    one("r-plus", TAG),
    one("append", MORE),
    one("overwrites", CHANGE),
    one("only-reads", LOOK),
    one("only-opens", "h5py.File(name).close()"),
    one("reads-then-changes", f"{LOOK}\n{TAG}\n{LOOK}"),
    one("two-changes", f"{TAG}\n{MORE}"),
    one("changes-every-other", f"if name in NAMES5[::2]:\n    {within(TAG)}\nelse:\n    {LOOK}"),
    one("makes-anew", ANEW),
    one("replaces", DRAFT),
    one("replaces-then-appends", DRAFT + MORE),
    one("keeps-copies", f'shutil.copy(name, "kept-" + name)\n{TAG}'),
    one("writes-a-log", f'{TAG}\nwith open("log.txt", "a") as log:\n    print(name, file=log)'),
    one(
        "looks-first",
        f"while not os.path.exists(name):\n    time.sleep(0.01)\nassert os.path.getsize(name) > 0\n{TAG}",
    ),
    one("asks-whether-it-is-hdf5", f"assert h5py.is_hdf5(name)\n{TAG}"),
    chain("lists", Stage(each(TAG, "sorted(glob.glob('plt*.h5'))"), into={"listing": "end"})),
    one(
        "lists-as-they-come",
        f"done.add(name)\n{TAG}",
        "new()",
        """
done = set()
def new():
    while len(done) < N:
        yield from sorted(set(glob.glob("plt*.h5")) - done)
        time.sleep(0.01)
""",
    ),
    one("backwards", TAG, "reversed(NAMES5)"),
    one("looks-back", f"{TAG}\nk = NAMES5.index(name)\nif k:\n    seen(NAMES5[k - 1])"),
    one(
        "by-children",
        "for who in 'one', 'two':\n    subprocess.run([sys.executable, '-c', CODE, name, who], check=True)",
        head="CODE = \"import h5py, sys; h5py.File(sys.argv[1], 'r+').attrs[sys.argv[2]] = 1\"",
    ),
    one(
        "by-a-fork",
        f"child = os.fork()\nif child == 0:\n    {within(TAG)}\n    os._exit(0)\nos.waitpid(child, 0)\n"
        "h5py.File(name).close()",
    ),
    chain(
        "by-a-pool",
        Stage(
            py(f"""
import h5py, multiprocessing
def change(name):
    {within(TAG)}
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(change, NAMES5, chunksize=1)
""")
        ),
    ),
    chain(
        "by-threads",
        Stage(
            py(f"""
import concurrent.futures, h5py
def change(name):
    h5py.File(name).close()
    {within(TAG)}
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    list(pool.map(change, NAMES5))
""")
        ),
    ),
    chain("by-ranks", Stage(each(TAG, MINE), RANKS), needs=MPI),
    chain(
        "by-ranks-that-all-read",
        Stage(each("with h5py.File(name) as file:\n    assert len(file['x'][()]) == 1000"), RANKS),
        needs=MPI,
    ),
    chain("for-each-file", Stage(each(TAG, "sys.argv[1:]"), {"args": ["{filename}"]})),
    chain("of-two", Stage(each(TAG)), Stage(each(MORE))),
    chain("of-three", Stage(each(TAG)), Stage(each(LOOK)), Stage(each(DRAFT))),
    chain("of-two-one-with-ranks", Stage(each(TAG, MINE), RANKS), Stage(each(MORE)), needs=MPI),
    chain(
        "of-two-that-change-by-turns",
        *(
            Stage(each(f"if name in NAMES5[{turn}::2]:\n    {within(change)}\nelse:\n    {LOOK}"))
            for turn, change in enumerate((TAG, CHANGE))
        ),
    ),
    chain("fails-and-goes-on", RESTARTED),
    chain("of-three-one-fails-and-goes-on", Stage(each(MORE)), RESTARTED, Stage(each(LOOK))),
    Habit(
        "leaves-some",
        HDF5,
        py(f"""{ALL}
for name in NAMES5:
    try:
        seen(name)
    except OSError:
        tell(name, "is missing")
"""),
        H5,
        (Stage(each("with h5py.File(name, 'r+') as file:\n    file['x'][:] = 7", "NAMES5[::2]")),),
        expected=tuple(
            line
            for k in range(6)
            for line in (
                [f"plt{k:04d}.h5 is missing"]
                if k % 2
                else [f"plt{k:04d}.h5=other(1949879722/2000)", f"plt{k:04d}.h5 x=7000"]
            )
        ),
    ),
    chain("reader-before", READER, Stage(each(CHANGE))),
    chain("reader-between", Stage(each(TAG)), READER, Stage(each(CHANGE))),
    chain(
        "reader-behind-that-asks-for-the-first",
        Stage(each(MORE)),
        READER,
        into={"from": ["producer"]},
        expected=(*told("more={more} x={x}"), *told("x={x}")),
    ),
    chain(
        "stage-that-asks-for-the-first",
        Stage(each(TAG)),
        READER,
        Stage(each(MORE), into={"from": ["producer"]}),
        expected=(*told("x={x} ('tag', np.float64({tag}))"), *told("more={more} x={x}")),
    ),
    Habit(
        "reader-lists-behind",
        HDF5,
        each(LOOK, "sorted(glob.glob('plt*.h5'))"),
        H5,
        (Stage(each(TAG)),),
        into={"listing": "end"},
    ),
    Habit("reader-changes-behind", HDF5, each(f"{CHANGE}\n{LOOK}"), H5, (Stage(each(TAG)),)),
    Habit(
        "netcdf4",
        NETCDF4,
        py("""
import netCDF4
for k in range(N):
    with netCDF4.Dataset(f"plt{k:04d}.nc") as file:
        tell(file.mean, sorted(file.variables), float(file["y"][:].sum()))
"""),
        "plt*.nc",
        (
            Stage(
                py("""
import netCDF4
for k in range(N):
    with netCDF4.Dataset(f"plt{k:04d}.nc", "a") as file:
        file.mean = float(file["x"][:].mean())
        file.createVariable("y", "f8", ("n",))[:] = 2 * file["x"][:]
""")
            ),
        ),
        needs=("python:netCDF4",),
    ),
    Habit(
        "pandas",
        HDF5,
        py("""
import pandas
for name in NAMES5:
    get5(name)
    tell(name, *pandas.read_hdf(name, "frame"))
"""),
        H5,
        (Stage(each("pandas.Series([1.5, 2.5]).to_hdf(name, key='frame')", head="import pandas")),),
        needs=("python:pandas", "python:tables"),
    ),
    of_bytes("bytes-appended", 'with open(name, "ab") as file:\n    file.write(b"tail")'),
    of_bytes("bytes-changed", 'with open(name, "r+b") as file:\n    file.seek(3)\n    file.write(b"xyz")'),
    of_bytes("bytes-read", "get(name)"),
    Habit(
        "bytes-read-by-ranks-all",
        BYTES,
        READS,
        stages=(
            Stage(
                each(
                    "assert os.path.getsize(name) > 3800\nwith open(name, 'rb') as file:\n"
                    "    assert len(file.read()) > 3800",
                    "NAMES",
                ),
                RANKS,
            ),
        ),
        needs=MPI,
    ),
    Habit(
        "bytes-read-by-processes-all",
        BYTES,
        READS,
        stages=(
            Stage(
                py("""
import os
children = []
for _ in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        for name in NAMES:
            assert os.path.getsize(name) > 3800
            with open(name, "rb") as file:
                assert len(file.read()) > 3800
        os._exit(0)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
""")
            ),
        ),
    ),
    of_bytes("bytes-cut", "os.truncate(name, 1000)"),
    of_bytes(
        "bytes-mapped",
        "array = numpy.memmap(name, mode='r+')\narray[:3] = 65\narray.flush()\ndel array",
        "import numpy",
    ),
    of_bytes(
        "bytes-map-kept",
        "with open(name, 'rb') as file:\n    kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))\n"
        "show(NAMES[len(kept) // 2], kept[len(kept) // 2][:])",
        "import mmap\nkept = []",
    ),
    of_bytes(
        "bytes-replaced",
        'with open(name, "rb") as file, open("draft", "wb") as other:\n    other.write(file.read()[::-1])\n'
        'os.replace("draft", name)',
    ),
    of_bytes(
        "bytes-replaced-unread",
        'if name in NAMES[::2]:\n    get(name)\nelse:\n    put("draft", 9)\n    os.replace("draft", name)',
    ),
    of_bytes(
        "bytes-removed-and-made",
        'with open(name, "rb") as file:\n    held = file.read()\nos.remove(name)\n'
        'with open(name, "wb") as file:\n    file.write(held[:500])',
    ),
    of_bytes("bytes-made-unread", "if name in NAMES[::2]:\n    get(name)\nelse:\n    put(name, 9)"),
    of_bytes(
        "bytes-opened-or-made",
        "fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)\nos.pwrite(fd, b'XYZ', 100)\nos.close(fd)",
    ),
    Habit(
        "c-stream",
        BYTES,
        READS,
        stages=(
            Stage(
                c("""
    for (int k = 0; k < N; k++) {
        FILE* file = fopen(name_of(k), "r+");
        must(file != NULL, "fopen");
        char line[64];
        must(fgets(line, sizeof(line), file) != NULL, "fgets");
        printf("= %s %s", name_of(k), line);
        fseek(file, 0, SEEK_END);
        fputs("more", file);
        fclose(file);
    }
""")
            ),
        ),
    ),
    Habit(
        "database",
        DATABASES,
        each(
            "base = sqlite3.connect(name)\ntell(name, *base.execute('select sum(x), sum(y) from numbers'))",
            "NAMES",
            "import sqlite3",
        ),
        out={"publish": "next"},
        stages=(
            Stage(
                each(
                    """
base = sqlite3.connect(name)
base.execute("alter table numbers add column y")
base.execute("update numbers set y = x + 1")
base.commit()
base.close()
""",
                    "NAMES",
                    "import sqlite3",
                )
            ),
        ),
    ),
    of_bytes("bytes-emptied", "os.truncate(name, 0)"),
    in_shell("shell-appends", "    echo more >> $file"),
    in_shell("shell-edits", "    sed -i 's/^9/nine/' $file"),
    in_shell("shell-writes-back", "    tail -n 5 $file > part && cat part > $file && rm part"),
    in_shell("shell-sorts", "    sort -o $file $file"),
    in_shell("shell-moves-back", "    mv $file mine && tr 1 2 < mine > $file && rm mine"),
]
