"""Habits of passes: a program goes over the same files more than once."""

from __future__ import annotations

from habits.common import BYTES, HDF5
from habits.rig import Habit, py, sh

HABITS = [
    Habit(
        "two",
        BYTES,
        py("""
for turn in 1, 2:
    for name in NAMES:
        get(name)
"""),
    ),
    Habit(
        "three-h5",
        HDF5,
        py("""
for turn in 1, 2, 3:
    for name in NAMES5:
        get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "forth-and-back",
        BYTES,
        py("""
for name in NAMES + NAMES[::-1]:
    get(name)
"""),
    ),
    Habit(
        "shapes-then-data",
        HDF5,
        py("""
import h5py
for name in NAMES5:
    with h5py.File(name) as file:
        tell(name, file["x"].shape)
for name in NAMES5:
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "sizes-then-data",
        BYTES,
        py("""
import os
for name in NAMES:
    tell("size", name, os.path.getsize(name))
for name in NAMES:
    get(name)
"""),
    ),
    Habit(
        "headers-then-data",
        BYTES,
        py("""
for name in NAMES:
    with open(name) as file:
        tell("header", name, file.readline().strip())
for name in NAMES:
    get(name)
"""),
    ),
    Habit(
        "first-for-its-grid",
        HDF5,
        py("""
import h5py
with h5py.File(NAMES5[0]) as file:
    tell(file["x"].shape)
for name in NAMES5:
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "each-twice",
        BYTES,
        py("""
for name in NAMES:
    get(name)
    get(name)
"""),
    ),
    Habit(
        "each-twice-h5",
        HDF5,
        py("""
for name in NAMES5:
    get5(name)
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "header-then-body",
        BYTES,
        py("""
for name in NAMES:
    with open(name) as file:
        first = file.readline()
    tell("header", name, first.strip())
    get(name)
"""),
    ),
    Habit(
        "all-open-at-once",
        BYTES,
        py("""
files = [open(name, "rb") for name in NAMES]
for file in files:
    show(file.name, file.read())
"""),
    ),
    Habit(
        "all-open-at-once-h5",
        HDF5,
        py("""
import h5py
files = [h5py.File(name) for name in NAMES5]
for file in files[::-1]:
    show(file.filename, file["x"][()])
"""),
        "plt*.h5",
    ),
    Habit(
        "next-before-close",
        HDF5,
        py("""
import h5py
file = None
for name in NAMES5:
    file = h5py.File(name)
    show(name, file["x"][()])
"""),
        "plt*.h5",
    ),
    Habit(
        "shell-two-loops",
        BYTES,
        sh("""
for k in $(steps); do head -n 1 plt000$k.dat | sed "s/^/= first of $k: /"; done
for k in $(steps); do cat plt000$k.dat | show $k; done
"""),
    ),
    Habit(
        "sum-by-a-child-then-read",
        BYTES,
        py("""
import subprocess
for name in NAMES:
    total = subprocess.run(["cksum", name], capture_output=True, text=True, check=True).stdout
    tell("sum", total.strip())
    get(name)
"""),
    ),
    Habit(
        "read-then-child",
        BYTES,
        py("""
import subprocess
for name in NAMES:
    get(name)
    subprocess.run(["sh", "-c", f'echo "= child $(cksum {name})"'], check=True)
"""),
    ),
    Habit(
        "read-then-list",
        BYTES,
        py("""
import glob
for name in NAMES:
    get(name)
tell("all", *sorted(glob.glob("plt*.dat")))
"""),
    ),
    Habit(
        "read-then-look",
        BYTES,
        py("""
import os
for name in NAMES:
    get(name)
tell("all", *(name for name in NAMES if os.path.exists(name)))
"""),
    ),
    Habit(
        "list-then-list",
        BYTES,
        py("""
import glob, os
for name in sorted(glob.glob("plt*.dat")):
    tell("size", name, os.path.getsize(name))
for name in sorted(glob.glob("plt*.dat")):
    get(name)
"""),
        into={"listing": "end"},
    ),
    Habit(
        "virtual-dataset-of-all",
        HDF5,
        py("""
import h5py
layout = h5py.VirtualLayout((N, 1000), "i8")
for k, name in enumerate(NAMES5):
    layout[k] = h5py.VirtualSource(name, "x", (1000,))
with h5py.File("all.h5", "w") as file:
    file.create_virtual_dataset("x", layout)
with h5py.File("all.h5") as file:
    for k, name in enumerate(NAMES5):
        show(name, file["x"][k])
import os
os.remove("all.h5")
"""),
        "plt*.h5",
    ),
    Habit(
        "external-links-to-all",
        HDF5,
        py("""
import h5py, os
with h5py.File("all.h5", "w") as file:
    for name in NAMES5:
        file[name] = h5py.ExternalLink(name, "/")
with h5py.File("all.h5") as file:
    for name in NAMES5:
        show(name, file[name]["x"][()])
    for name in NAMES5:
        show(name, file[name]["x"][()])
os.remove("all.h5")
"""),
        "plt*.h5",
    ),
    Habit(
        "two-libraries",
        BYTES,
        py("""
import numpy
for name in NAMES:
    show(name, numpy.loadtxt(name, dtype=int))
    get(name)
"""),
    ),
    Habit(
        "compares-neighbours",
        BYTES,
        py("""
import filecmp
for one, other in zip(NAMES, NAMES[1:]):
    tell(one, other, filecmp.cmp(one, other, shallow=False))
get(NAMES[-1])
"""),
    ),
]
