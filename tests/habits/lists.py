"""Habits of listing: a program asks the folder what there is, and reads that."""

from __future__ import annotations

from habits.common import BYTES, DRAFTS, HDF5, C
from habits.rig import Habit, Refusal, bash, c, py, sh

WHOLE = {"listing": "end"}
"""What the user of a program writes that lists once and needs all that there will be."""

TWO_KINDS = (
    py("""
for k in range(N):
    put(f"mesh{k}.dat", k)
    put(f"part{k}.dat", k + 10)
"""),
    py("""
import glob
for mesh in sorted(glob.glob("mesh*.dat")):
    get(mesh)
    get(mesh.replace("mesh", "part"))
"""),
    ("mesh*.dat", "part*.dat"),
)

HABITS = [
    Habit(
        "glob-h5",
        HDF5,
        py("""
import glob
for name in sorted(glob.glob("plt*.h5")):
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "glob-bytes",
        BYTES,
        py("""
import glob
for name in sorted(glob.glob("plt*.dat")):
    get(name)
"""),
    ),
    Habit(
        "listdir",
        BYTES,
        py("""
import os
for name in sorted(os.listdir(".")):
    if name.endswith(".dat"):
        get(name)
"""),
    ),
    Habit(
        "scandir-size",
        BYTES,
        py("""
import os
for entry in sorted(os.scandir("."), key=lambda entry: entry.name):
    if entry.name.startswith("plt") and entry.is_file():
        tell("size", entry.name, entry.stat().st_size)
        get(entry.path)
"""),
    ),
    Habit(
        "path-glob",
        BYTES,
        py("""
from pathlib import Path
for path in sorted(Path().glob("plt*.dat")):
    get(path)
"""),
    ),
    Habit(
        "iterdir-suffix",
        BYTES,
        py("""
from pathlib import Path
for path in sorted(path for path in Path(".").iterdir() if path.suffix == ".dat"):
    get(path)
"""),
    ),
    Habit(
        "rglob",
        BYTES,
        py("""
from pathlib import Path
for path in sorted(Path(".").rglob("*.dat")):
    get(path)
"""),
    ),
    Habit(
        "walk",
        BYTES,
        py("""
import os
for folder, _, files in os.walk("."):
    for file in sorted(files):
        get(os.path.join(folder, file))
"""),
    ),
    Habit(
        "shell-for",
        BYTES,
        sh("""
for f in plt*.dat; do
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "shell-for-tested",
        BYTES,
        sh("""
for f in plt*.dat; do
    [ -f "$f" ] || continue
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "nullglob-array",
        BYTES,
        bash("""
shopt -s nullglob
files=(plt*.dat)
for f in "${files[@]}"; do
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "ls-pipe",
        BYTES,
        sh("""
ls | grep '^plt' | while read -r f; do
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "ls-l",
        BYTES,
        sh("""
ls -l plt*.dat | while read -r _ _ _ _ size _ _ _ f; do
    echo "= size $f $size"
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "find-read",
        BYTES,
        sh("""
find . -name 'plt*.dat' | sort | while read -r f; do
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "find-exec",
        BYTES,
        sh("""
find . -name 'plt*.dat' -type f -exec cksum {} \\; | sort -k 3 | sed 's/^/= sum /'
"""),
        into=WHOLE,
    ),
    Habit(
        "find-size",
        BYTES,
        sh("""
find . -name 'plt*.dat' -size +1k -printf '%f %s\\n' | sort | while read -r f size; do
    echo "= size $f $size"
    cat "$f" | show "$f"
done
"""),
    ),
    Habit(
        "cat-all",
        BYTES,
        sh("cat plt*.dat | show all\n"),
        into=WHOLE,
    ),
    Habit(
        "wc-all",
        BYTES,
        sh("wc -c plt*.dat | sed 's/^/= /'\n"),
        into=WHOLE,
    ),
    Habit(
        "mean-of-all",
        HDF5,
        py("""
import glob, h5py
total = 0
for name in glob.glob("plt*.h5"):
    with h5py.File(name) as file:
        total += int(file["x"][()].sum())
tell("sum", total)
"""),
        "plt*.h5",
        into=WHOLE,
    ),
    Habit(
        "newest",
        BYTES,
        py("""
import glob, os
get(max(glob.glob("plt*.dat"), key=os.path.getmtime))
"""),
        into=WHOLE,
    ),
    Habit(
        "last-of-sorted",
        BYTES,
        py("""
import glob
get(sorted(glob.glob("plt*.dat"))[-1])
"""),
        into=WHOLE,
    ),
    Habit(
        "backwards",
        BYTES,
        py("""
import glob
for name in sorted(glob.glob("plt*.dat"), reverse=True):
    get(name)
"""),
        into=WHOLE,
    ),
    Habit(
        "count-first",
        BYTES,
        py("""
import glob
names = sorted(glob.glob("plt*.dat"))
tell(len(names), "files")
for name in names:
    get(name)
"""),
        into=WHOLE,
    ),
    Habit(
        "unpadded-shell",
        py("""
for k in range(1, 13):
    put(f"s-{k}", k)
"""),
        sh("""
for f in s-*; do
    cat "$f" | show "$f"
done
"""),
        "s-*",
        into=WHOLE,
    ),
    Habit(
        "seen-until-all",
        BYTES,
        py("""
import glob, time
seen = set()
while len(seen) < N:
    for name in sorted(set(glob.glob("plt*.dat")) - seen):
        get(name)
        seen.add(name)
    time.sleep(0.01)
"""),
    ),
    Habit(
        "seen-until-done-file",
        py("""
for name in NAMES:
    put(name + ".part", int(name[3:7]))
    import os
    os.rename(name + ".part", name)
open("done", "w").close()
"""),
        py("""
import os, time
seen = set()
while True:
    done = os.path.exists("done")
    for name in sorted(set(os.listdir(".")) - seen):
        if name.startswith("plt") and name.endswith(".dat"):
            get(name)
            seen.add(name)
    if done:
        break
    time.sleep(0.01)
"""),
        beside=True,
    ),
    Habit(
        "spool",
        DRAFTS,
        sh("""
read=0
while [ $read -lt $N ]; do
    f=$(ls | grep '^plt' | head -n 1) || true
    [ -n "$f" ] || { sleep 0.01; continue; }
    cat "$f" | show "$f"
    rm "$f"
    read=$((read + 1))
done
"""),
        beside=True,
    ),
    Habit(
        "spool-python",
        py("""
import os
for k, name in enumerate(NAMES):
    put("draft", k)
    os.rename("draft", name)
"""),
        py("""
import os, time
read = 0
while read < N:
    for name in sorted(os.listdir(".")):
        if name.startswith("plt"):
            get(name)
            os.remove(name)
            read += 1
    time.sleep(0.01)
"""),
        beside=True,
    ),
    Habit(
        "list-twice",
        BYTES,
        py("""
import glob
tell("first", *sorted(glob.glob("plt*.dat")))
for name in sorted(glob.glob("plt*.dat")):
    get(name)
tell("again", *sorted(glob.glob("plt*.dat")))
"""),
        into=WHOLE,
    ),
    Habit(
        "dataset-of-a-list",
        BYTES,
        py("""
import glob, random
names = sorted(glob.glob("plt*.dat"))
random.Random(1).shuffle(names)
for name in names:
    get(name)
"""),
        into=WHOLE,
    ),
    Habit(
        "c-readdir",
        C,
        c("""
    int count = 0;
    char* names[64];
    DIR* folder = opendir(".");
    for (struct dirent* entry; (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "plt", 3) == 0) names[count++] = strdup(entry->d_name);
    }
    closedir(folder);
    for (int k = 0; k < count; k++) {
        for (int other = k + 1; other < count; other++) {
            char* name = names[k];
            if (strcmp(names[other], name) < 0) names[k] = names[other], names[other] = name;
        }
        int fd = open(names[k], O_RDONLY);
        show(names[k], content, read(fd, content, sizeof content));
        close(fd);
    }
"""),
    ),
    Habit(
        "c-scandir",
        C,
        c("""
static int is_step(const struct dirent* entry) { return strncmp(entry->d_name, "plt", 3) == 0; }
int main(void) {
    struct dirent** found;
    int count = scandir(".", &found, is_step, alphasort);
    for (int k = 0; k < count; k++) {
        int fd = open(found[k]->d_name, O_RDONLY);
        show(found[k]->d_name, content, read(fd, content, sizeof content));
        close(fd);
    }
}
"""),
    ),
    Habit(
        "c-glob",
        C,
        c("""
#include <glob.h>
int main(void) {
    glob_t found;
    if (glob("plt*.dat", 0, NULL, &found)) return 0;
    for (size_t k = 0; k < found.gl_pathc; k++) {
        int fd = open(found.gl_pathv[k], O_RDONLY);
        show(found.gl_pathv[k], content, read(fd, content, sizeof content));
        close(fd);
    }
}
"""),
    ),
    Habit(
        "c-nftw",
        C,
        c("""
#include <ftw.h>
static long total;
static int seen(const char* name, const struct stat* is, int kind, struct FTW* at) {
    if (kind == FTW_F && strncmp(name + at->base, "plt", 3) == 0) total += is->st_size;
    return 0;
}
int main(void) {
    nftw(".", seen, 8, FTW_PHYS);
    printf("= total %ld\\n", total);
}
"""),
        into=WHOLE,
    ),
    Habit(
        "scandir-inode",
        BYTES,
        py("""
import os
for entry in sorted(os.scandir("."), key=lambda entry: entry.name):
    tell(entry.name, entry.is_symlink(), entry.is_dir(), entry.is_file())
    get(entry.name)
"""),
    ),
    Habit(
        "fts-du",
        BYTES,
        sh("du -b --apparent-size plt*.dat | sed 's/^/= /'\n"),
        into=WHOLE,
    ),
    Habit(
        "empty-first",
        BYTES,
        py("""
import glob, time
while not (names := sorted(glob.glob("plt*.dat"))):
    time.sleep(0.01)
for name in names:
    get(name)
"""),
    ),
    Habit(
        "missing-is-an-error",
        BYTES,
        py("""
import glob
names = sorted(glob.glob("plt*.dat"))
if not names:
    sys.exit("no input files found")
for name in names:
    get(name)
"""),
    ),
    Habit(
        "ls-t-newest-first",
        BYTES,
        sh("""
for f in $(ls -t plt*.dat); do cat "$f" | show x; done | sort
"""),
        into=WHOLE,
    ),
    Habit(
        "two-kinds",
        *TWO_KINDS,
        refused=Refusal(
            "did not read",
            "a listing that comes between a mesh and its part shows the mesh alone; who then reads the part by name "
            "has read more than was listed, and is not started again: `listing: end`, or `rerun: always`",
        ),
    ),
    Habit(
        "two-kinds-at-the-end",
        *TWO_KINDS,
        into=WHOLE,
    ),
]
