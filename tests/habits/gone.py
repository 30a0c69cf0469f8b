"""Habits of files that memory has let go of: read again, or by way of virtual datasets, links and external data."""

from __future__ import annotations

from habits.rig import Habit, Program, Refusal, py

LARGE = 600_000
"""Numbers of 8 bytes in a file: of two of these, one is let go of for the other."""

GONE = Refusal(
    "no longer in memory|memory is that of (a )?later step|had to be let go",
    "the files take more memory than is kept of what was read: `mode: both`, or `reorder` with their number",
)
LATER = Refusal(
    "later ones have been read",
    "the file is opened after later versions of what it leads to: open it first, or number the names",
)


def parts(count: int, each: str, then: str) -> Program:
    """Write so many large files, and one that leads to all of them."""
    return py(f"""
import h5py, numpy as np
for k in range({count}):
    with h5py.File(f"run{{k}}.h5", "w") as file: file["d"] = np.full({LARGE}, k + 1.0)
    {each}
{then}
""")


def virtual(count: int) -> Program:
    return parts(
        count,
        "pass",
        f"""
made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
made.set_obj_track_times(False)
made.set_fill_value(np.array([-1.0]))
space = h5py.h5s.create_simple(({count}, {LARGE}))
for k in range({count}):
    space.select_hyperslab((k, 0), (1, {LARGE}))
    made.set_virtual(space, f"run{{k}}.h5".encode(), b"d", h5py.h5s.create_simple(({LARGE},)))
space.select_all()
with h5py.File("all.h5", "w") as file: h5py.h5d.create(file.id, b"d", h5py.h5t.NATIVE_DOUBLE, space, made)
""",
    )


def read_first(count: int, then: str) -> Program:
    """Read each of the files, then go on."""
    return py(f"""
import h5py, os
def first(k):
    with h5py.File(f"run{{k}}.h5") as file: return file["d"][0]
tell("first", *(first(k) for k in range({count})))
{then}
""")


VIRTUAL = """
with h5py.File("all.h5") as file:
    tell("all", *file["d"][:, 0], *file["d"][:, -1])
"""
TWICE = '    tell("again", *file["d"][::2, 7])\n'
LINKS = """
with h5py.File("all.h5", "w") as file:
    for k in range(4): file[f"r{k}"] = h5py.ExternalLink(f"run{k}.h5", "/d")
"""
LINKED = """
with h5py.File("all.h5") as file:
    tell("all", *(file[f"r{k}"][-1] for k in range(4)))
    tell("again", *(file[f"r{k}"][0] for k in (2, 0, 3, 1)))
"""
OWN_VIRTUAL = f"""
layout = h5py.VirtualLayout((4, {LARGE}), "f8")
for k in range(4): layout[k] = h5py.VirtualSource(f"run{{k}}.h5", "d", ({LARGE},))
with h5py.File("mine.hdf", "w") as file: file.create_virtual_dataset("d", layout, fillvalue=-1)
with h5py.File("mine.hdf") as file: tell("mine", *file["d"][:, 5])
os.remove("mine.hdf")
"""
RUNS = ("run*.h5", "all.h5")

RAW = py(f"""
import h5py, numpy as np
for k in range(4): np.full({LARGE}, k + 1.0).tofile(f"raw{{k}}.bin")
with h5py.File("all.h5", "w") as file:
    for k in range(4):
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_obj_track_times(False)
        made.set_external(f"raw{{k}}.bin".encode(), 0, 8 * {LARGE})
        h5py.h5d.create(file.id, f"d{{k}}".encode(), h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple(({LARGE},)), made)
""")
RAW_READ = py("""
import h5py, numpy as np
tell("first", *(np.fromfile(f"raw{k}.bin", count=100000)[0] for k in range(4)))
with h5py.File("all.h5") as file: tell("all", *(file[f"d{k}"][-1] for k in range(4)))
""")
STATES = py("""
import h5py, numpy as np
for step in range(5):
    (np.arange(4000.0) + 1000 * step).tofile("state.raw")
    with h5py.File("state.h5", "w") as file:
        file["step"] = step
        for k in range(2):
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_obj_track_times(False)
            made.set_external(b"state.raw", 16000 * k, 16000)
            h5py.h5d.create(file.id, b"d%d" % k, h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((2000,)), made)
""")
STATES_READ = py("""
import h5py
for step in range(5):
    with h5py.File("state.h5") as file:
        tell(file["step"][()], *(file[name][index] for name in ("d0", "d1", "d0") for index in (0, 1999)))
""")

MANY = py("""
import numpy as np
for k in range(30): np.full(125000, k).tofile(f"many{k}.dat")
""")


def passes(then: str) -> Program:
    return py(f"""
import glob, os, random
NAMES = [f"many{{k}}.dat" for k in range(30)]
def value(name):
    with open(name, "rb") as file: return int.from_bytes(file.read()[-8:], "little")
tell("first", *map(value, NAMES))
{then}
""")


SHUFFLED = """
order = random.Random(5)
for epoch in range(2):
    names = NAMES.copy()
    order.shuffle(names)
    tell("epoch", epoch, *map(value, names))
"""

HABITS = [
    Habit("virtual-sources-read-before", virtual(4), read_first(4, VIRTUAL), RUNS, refused=GONE),
    Habit("virtual-of-twelve", virtual(12), read_first(12, VIRTUAL), RUNS, refused=GONE),
    Habit("virtual-in-one-port", virtual(6), read_first(6, VIRTUAL), "*.h5", refused=GONE),
    Habit("virtual-kept-by-reorder", virtual(4), read_first(4, VIRTUAL), RUNS, into={"reorder": 4}),
    Habit("virtual-read-twice", virtual(4), read_first(4, VIRTUAL + TWICE), RUNS, refused=GONE),
    Habit("virtual-of-the-readers-own", virtual(4), read_first(4, OWN_VIRTUAL + VIRTUAL), RUNS, refused=GONE),
    Habit("links-to-what-was-read", parts(4, "pass", LINKS), read_first(4, LINKED), RUNS, refused=GONE),
    Habit("external-data-read-before", RAW, RAW_READ, ("raw*.bin", "all.h5"), refused=GONE),
    Habit(
        "external-data-of-each-step",
        STATES,
        STATES_READ,
        ("state.h5", "state.raw"),
        expected=tuple(
            " ".join(str(n) for n in (k, *(1000.0 * k + i for i in (0, 1999, 2000, 3999, 0, 1999)))) for k in range(5)
        ),
    ),
    Habit(
        "removed-and-looked-into",
        virtual(4),
        read_first(4, 'for k in 1, 2: os.remove(f"run{k}.h5")\n' + VIRTUAL.replace("[:, 0], *file", "[1:3, 0], *file")),
        RUNS,
        refused=GONE,
    ),
    Habit("second-pass-of-many", MANY, passes('tell("again", *map(value, NAMES))'), "many*.dat", refused=GONE),
    Habit("passes-backwards", MANY, passes('tell("again", *map(value, NAMES[::-1]))'), "many*.dat", refused=GONE),
    Habit(
        "many-backwards",
        MANY,
        py("""
import glob, os
for k in reversed(range(30)):
    with open(f"many{k}.dat", "rb") as file: tell(int.from_bytes(file.read()[-8:], "little"))
"""),
        "many*.dat",
        refused=GONE,
    ),
    Habit("epochs-shuffled", MANY, passes(SHUFFLED), "many*.dat", refused=GONE),
    Habit(
        "removed-stays-missing",
        MANY,
        passes("""
for name in NAMES[:20]: os.remove(name)
tell("there", *(name for name in NAMES[:20] if os.path.exists(name)))
try: value("many3.dat")
except FileNotFoundError: tell("missing")
"""),
        "many*.dat",
    ),
    Habit(
        "while-there-are-some",
        MANY,
        py("""
import glob, os
while names := sorted(glob.glob("many*.dat"), key=lambda name: int(name[4:-4])):
    for name in names:
        tell(int.from_bytes(open(name, "rb").read()[-8:], "little"))
        os.remove(name)
"""),
        "many*.dat",
    ),
    Habit(
        "a-link-behind-later-versions",
        py("""
import h5py
for k in range(8):
    with h5py.File("part.h5", "w") as file: file["x"] = k
    if k == 0:
        with h5py.File("all.h5", "w") as file: file["p"] = h5py.ExternalLink("part.h5", "/x")
"""),
        py("""
import h5py
for k in range(8):
    with h5py.File("part.h5") as file: tell(file["x"][()])
with h5py.File("all.h5") as file: tell("all", file["p"][()])
"""),
        ("part.h5", "all.h5"),
        expected=(*map(str, range(8)), "all 0"),
        refused=LATER,
    ),
    Habit(
        "sizes-and-listings",
        MANY,
        passes("""
tell("sizes", *(os.path.getsize(name) for name in NAMES))
tell("listed", *sorted(glob.glob("many*.dat")))
tell("again", *(value(name) for name in sorted(glob.glob("many*.dat"))))
with os.scandir(".") as found:
    tell("same", all(entry.inode() == os.stat(entry.name).st_ino for entry in found if entry.name.startswith("many")))
"""),
        "many*.dat",
        refused=GONE,
    ),
]
