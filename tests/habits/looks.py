"""Habits of looking: is it there, how large is it, what is it; then it is opened."""

from __future__ import annotations

from habits.common import BYTES, HDF5
from habits.rig import Habit, c, py, sh

HABITS = [
    Habit(
        "exists-h5",
        HDF5,
        py("""
import os
for k in range(N):
    name = f"plt{k:04d}.h5"
    if os.path.exists(name):
        get5(name)
    else:
        tell(name, "missing")
"""),
        "plt*.h5",
    ),
    Habit(
        "isfile-bytes",
        BYTES,
        py("""
import os
for k in range(N):
    name = f"plt{k:04d}.dat"
    if not os.path.isfile(name):
        sys.exit(f"no {name}")
    get(name)
"""),
    ),
    Habit(
        "path-exists",
        BYTES,
        py("""
from pathlib import Path
for k in range(N):
    path = Path(f"plt{k:04d}.dat")
    show(path, path.read_bytes() if path.exists() else b"")
"""),
    ),
    Habit(
        "stat-size",
        BYTES,
        py("""
import os
for k in range(N):
    name = f"plt{k:04d}.dat"
    tell("size", name, os.stat(name).st_size)
    get(name)
"""),
    ),
    Habit(
        "getsize-h5",
        HDF5,
        py("""
import os
for k in range(N):
    name = f"plt{k:04d}.h5"
    assert os.path.getsize(name) > 0
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "access",
        BYTES,
        py("""
import os
for k in range(N):
    name = f"plt{k:04d}.dat"
    if os.access(name, os.R_OK):
        get(name)
    else:
        tell(name, "may not be read")
"""),
    ),
    Habit(
        "mtime",
        BYTES,
        py("""
import os, time
for k in range(N):
    name = f"plt{k:04d}.dat"
    tell(name, abs(os.path.getmtime(name) - time.time()) < 3600)
    get(name)
"""),
    ),
    Habit(
        "while-exists",
        BYTES,
        py("""
import os
k = 0
while os.path.exists(f"plt{k:04d}.dat"):
    get(f"plt{k:04d}.dat")
    k += 1
"""),
    ),
    Habit(
        "find-the-last",
        BYTES,
        py("""
import os
k = 0
while os.path.exists(f"plt{k + 1:04d}.dat"):
    k += 1
get(f"plt{k:04d}.dat")
"""),
    ),
    Habit(
        "all-there-first",
        BYTES,
        py("""
import os
names = [f"plt{k:04d}.dat" for k in range(N)]
if not all(os.path.exists(name) for name in names):
    sys.exit("not all are there")
for name in names:
    get(name)
"""),
    ),
    Habit(
        "optional-file",
        BYTES,
        py("""
import os
for k in range(N):
    get(f"plt{k:04d}.dat")
    if os.path.exists(f"plt{k:04d}-mask.dat"):
        get(f"plt{k:04d}-mask.dat")
"""),
    ),
    Habit(
        "optional-file-first",
        BYTES,
        py("""
import os
tell("mask", os.path.exists("plt-mask.dat"))
for k in range(N):
    get(f"plt{k:04d}.dat")
"""),
    ),
    Habit(
        "try-open-until-missing",
        BYTES,
        py("""
k = 0
while True:
    try:
        get(f"plt{k:04d}.dat")
    except FileNotFoundError:
        break
    k += 1
"""),
    ),
    Habit(
        "is-hdf5",
        HDF5,
        py("""
import h5py
for k in range(N):
    name = f"plt{k:04d}.h5"
    if h5py.is_hdf5(name):
        get5(name)
    else:
        tell(name, "is no HDF5 file")
"""),
        "plt*.h5",
    ),
    Habit(
        "magic-bytes",
        HDF5,
        py("""
for k in range(N):
    name = f"plt{k:04d}.h5"
    with open(name, "rb") as file:
        magic = file.read(8)
    tell(name, magic == b"\\x89HDF\\r\\n\\x1a\\n")
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "stat-access-open",
        BYTES,
        py("""
import os, stat
for k in range(N):
    name = f"plt{k:04d}.dat"
    assert os.path.exists(name) and stat.S_ISREG(os.lstat(name).st_mode) and os.access(name, os.R_OK)
    size = os.stat(name).st_size
    fd = os.open(name, os.O_RDONLY)
    assert os.fstat(fd).st_size == size
    show(name, os.read(fd, size))
    os.close(fd)
"""),
    ),
    Habit(
        "realpath",
        BYTES,
        py("""
import os
for k in range(N):
    get(os.path.relpath(os.path.realpath(f"plt{k:04d}.dat")))
"""),
    ),
    Habit(
        "resolve-strict",
        BYTES,
        py("""
from pathlib import Path
for k in range(N):
    path = Path(f"plt{k:04d}.dat").resolve(strict=True)
    show(path.name, path.read_bytes())
"""),
    ),
    Habit(
        "test-f",
        BYTES,
        sh("""
for k in $(steps); do
    if test -f plt000$k.dat; then cat plt000$k.dat | show $k; else echo "= $k missing"; fi
done
"""),
    ),
    Habit(
        "test-s-r",
        BYTES,
        sh("""
for k in $(steps); do
    [ -e plt000$k.dat ] && [ -r plt000$k.dat ] && [ -s plt000$k.dat ] || { echo "= $k missing"; continue; }
    cksum plt000$k.dat | sed 's/^/= sum /'
done
"""),
    ),
    Habit(
        "stat-command",
        BYTES,
        sh("""
for k in $(steps); do
    echo "= size $(stat -c '%n %s %F' plt000$k.dat)"
    cat plt000$k.dat | show $k
done
"""),
    ),
    Habit(
        "c-access-fopen",
        BYTES,
        c("""
    for (int k = 0; k < N; k++) {
        if (access(name_of(k), R_OK)) { printf("= %s missing\\n", name_of(k)); continue; }
        FILE* file = fopen(name_of(k), "r");
        must(file != NULL, "fopen");
        show(name_of(k), content, fread(content, 1, sizeof content, file));
        fclose(file);
    }
"""),
    ),
    Habit(
        "c-stat-read",
        BYTES,
        c("""
    for (int k = 0; k < N; k++) {
        struct stat is;
        if (stat(name_of(k), &is)) { printf("= %s missing\\n", name_of(k)); continue; }
        int fd = open(name_of(k), O_RDONLY);
        must(read(fd, content, is.st_size) == is.st_size, "read");
        show(name_of(k), content, is.st_size);
        close(fd);
    }
"""),
    ),
    Habit(
        "c-statx-read",
        BYTES,
        c("""
    for (int k = 0; k < N; k++) {
        struct statx is;
        if (statx(AT_FDCWD, name_of(k), 0, STATX_SIZE, &is)) { printf("= %s missing\\n", name_of(k)); continue; }
        int fd = open(name_of(k), O_RDONLY);
        must(read(fd, content, is.stx_size) == (ssize_t)is.stx_size, "read");
        show(name_of(k), content, is.stx_size);
        close(fd);
    }
"""),
    ),
    Habit(
        "stale-files",
        BYTES,
        py("""
import os
for k in range(N):
    if os.path.exists(f"plt{k:04d}.dat"):
        get(f"plt{k:04d}.dat")
"""),
        before={f"plt{k:04d}.dat": "of last year\n" for k in range(8)},
        expected=tuple(f"plt{k:04d}.dat=#{k}" for k in range(6)),
    ),
    Habit(
        "size-of-each-first",
        BYTES,
        py("""
import os
sizes = {k: os.path.getsize(f"plt{k:04d}.dat") for k in range(N)}
tell("sum", sum(sizes.values()))
for k in range(N):
    get(f"plt{k:04d}.dat")
"""),
    ),
    Habit(
        "file-of-settings",
        py("""
put("plt-settings.dat", 7)
for k in range(N):
    put(f"plt{k:04d}.dat", k)
"""),
        py("""
import os
tell(os.path.exists("plt-settings.dat"))
for k in range(N):
    get(f"plt{k:04d}.dat")
get("plt-settings.dat")
"""),
    ),
    Habit(
        "cmp-next",
        BYTES,
        sh("""
for k in $(steps); do
    next=plt000$((k + 1)).dat
    if [ -f $next ]; then cmp -s plt000$k.dat $next && echo "= $k same" || echo "= $k differs"; fi
done
cat plt000$last.dat | show last
"""),
    ),
]
