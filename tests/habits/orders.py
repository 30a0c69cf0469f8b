"""Habits of order: files are read in another one than that in which they were written, or some not at all."""

from __future__ import annotations

from habits.common import BYTES, HDF5, READS, READS5
from habits.rig import Habit, py, sh

PAIRS = py("""
for k in range(N):
    put(f"plt-mesh{k}.dat", k)
    put(f"plt-part{k}.dat", k + 10)
""")


def by_name(order: str) -> str:
    return f"for k in {order}:\n    get(NAMES[k])\n"


HABITS = [
    Habit("as-written", BYTES, READS),
    Habit("as-written-h5", HDF5, READS5, "plt*.h5"),
    Habit("reversed", BYTES, py(by_name("reversed(range(N))"))),
    Habit(
        "reversed-h5",
        HDF5,
        py("""
for name in NAMES5[::-1]:
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit("shuffled", BYTES, py(by_name("(3, 0, 5, 1, 4, 2)"))),
    Habit("swapped-pairs", BYTES, py(by_name("(1, 0, 3, 2, 5, 4)"))),
    Habit("even-then-odd", BYTES, py(by_name("(0, 2, 4, 1, 3, 5)"))),
    Habit("last-first", BYTES, py(by_name("(5, 0, 1, 2, 3, 4)"))),
    Habit("first-last", BYTES, py(by_name("(0, 5)"))),
    Habit("every-second", BYTES, py(by_name("range(0, N, 2)"))),
    Habit("only-the-last", BYTES, py(by_name("(5,)"))),
    Habit("from-the-third", BYTES, py(by_name("range(2, N)"))),
    Habit("only-the-first-two", BYTES, py(by_name("range(2)"))),
    Habit("back-to-the-first", BYTES, py(by_name("(0, 1, 2, 3, 4, 5, 0)"))),
    Habit(
        "each-with-the-first",
        BYTES,
        py("""
for name in NAMES[1:]:
    get(NAMES[0])
    get(name)
"""),
    ),
    Habit(
        "each-with-the-one-before",
        BYTES,
        py("""
for k in range(1, N):
    get(NAMES[k])
    get(NAMES[k - 1])
"""),
    ),
    Habit(
        "mesh-after-particles",
        PAIRS,
        py("""
for k in range(N):
    get(f"plt-part{k}.dat")
    get(f"plt-mesh{k}.dat")
"""),
    ),
    Habit(
        "all-particles-then-meshes",
        PAIRS,
        py("""
for kind in "part", "mesh":
    for k in range(N):
        get(f"plt-{kind}{k}.dat")
"""),
    ),
    Habit(
        "two-ports-the-other-way",
        PAIRS,
        py("""
for k in range(N):
    get(f"plt-part{k}.dat")
    get(f"plt-mesh{k}.dat")
"""),
        ("plt-mesh*.dat", "plt-part*.dat"),
    ),
    Habit(
        "two-ports-one-after-the-other",
        PAIRS,
        py("""
for kind in "part", "mesh":
    for k in range(N):
        get(f"plt-{kind}{k}.dat")
"""),
        ("plt-mesh*.dat", "plt-part*.dat"),
    ),
    Habit(
        "unpadded",
        py("""
for k in range(12):
    put(f"s-{k}.dat", k)
"""),
        py("""
for name in sorted(f"s-{k}.dat" for k in range(12)):
    get(name)
"""),
        "s-*.dat",
    ),
    Habit(
        "names-never-written",
        BYTES,
        py("""
for k in range(0, 9):
    try:
        get(f"plt{k:04d}.dat")
    except FileNotFoundError:
        tell(k, "is missing")
"""),
    ),
    Habit(
        "a-gap-in-the-numbers",
        py("""
for k in 0, 1, 4, 5, 8:
    put(f"plt{k:04d}.dat", k)
"""),
        py("""
for k in range(9):
    try:
        get(f"plt{k:04d}.dat")
    except FileNotFoundError:
        pass
"""),
    ),
    Habit(
        "numbers-that-fall",
        py("""
for k in reversed(range(N)):
    put(NAMES[k], k)
"""),
        READS,
    ),
    Habit(
        "written-out-of-order",
        py("""
for k in 3, 0, 5, 1, 4, 2:
    put(NAMES[k], k)
"""),
        READS,
    ),
    Habit(
        "every-second-by-policy",
        BYTES,
        py("""
for name in NAMES:
    try:
        get(name)
    except FileNotFoundError:
        pass
"""),
        into={"io_freq": 2},
        expected=("plt0001.dat=#1", "plt0003.dat=#3", "plt0005.dat=#5"),
    ),
    Habit(
        "latest-by-policy",
        BYTES,
        py("""
for name in NAMES:
    try:
        get(name)
    except FileNotFoundError:
        pass
"""),
        into={"io_freq": "latest"},
        part="subset",
    ),
    Habit(
        "each-by-its-name",
        BYTES,
        sh("""cat "$1" | show "$1"\n"""),
        consumer={"args": ["{filename}"]},
        each=True,
    ),
    Habit(
        "each-by-its-name-h5",
        HDF5,
        py("get5(sys.argv[1])\n"),
        "plt*.h5",
        consumer={"args": ["{filename}"]},
        each=True,
    ),
    Habit(
        "one-name-again-and-again",
        py("""
for k in range(N):
    put("state.dat", k)
"""),
        py("""
while True:
    try:
        get("state.dat")
    except FileNotFoundError:
        break
"""),
        "state.dat",
        endless=True,
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
    ),
]
