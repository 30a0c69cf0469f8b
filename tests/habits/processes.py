"""Habits of processes: files are written, or read, by children, by pools, by threads."""

from __future__ import annotations

from habits.common import BYTES, HDF5, READS, READS5
from habits.rig import Habit, py, sh

from support.running import MPIEXEC


def pool_reads(kind: str, call: str, get: str = "get", names: str = "NAMES") -> str:
    return f"""
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("{kind}").Pool(2) as pool:
        for _ in pool.{call}({get}, {names}):
            pass
"""


def pool_writes(kind: str, put: str = "put", names: str = "NAMES") -> str:
    return f"""
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("{kind}").Pool(2) as pool:
        pool.starmap({put}, [(name, k) for k, name in enumerate({names})], 1)
"""


ONE_OF_RANKS = """
import os
for name in NAMES[int(os.environ.get("PMI_RANK", 0)) :: int(os.environ.get("PMI_SIZE", 1))]:
    get(name)
"""
TWO_RANKS = {"nprocs": 2, "mpiexec": MPIEXEC, "rerun": "never"}

HABITS = [
    Habit("ranks-share", BYTES, py(ONE_OF_RANKS), consumer=TWO_RANKS, unordered=True, needs=("mpiexec",)),
    Habit(
        "ranks-read-all",
        BYTES,
        READS,
        consumer=TWO_RANKS,
        needs=("mpiexec",),
        unordered=True,
        expected=tuple(f"plt{k:04d}.dat=#{k}" for k in range(6) for _ in range(2)),
    ),
    Habit(
        "ranks-read-all-backwards",
        BYTES,
        py("for name in NAMES[::-1]:\n    get(name)\n"),
        consumer=TWO_RANKS,
        needs=("mpiexec",),
        unordered=True,
        expected=tuple(f"plt{k:04d}.dat=#{k}" for k in range(6) for _ in range(2)),
    ),
    Habit(
        "ranks-write",
        py(ONE_OF_RANKS.replace("get(name)", "put(name, int(name[3:7]))")),
        READS,
        producer=TWO_RANKS,
        needs=("mpiexec",),
    ),
    Habit("pool-reads", BYTES, py(pool_reads("fork", "imap")), unordered=True),
    Habit("pool-map-reads", BYTES, py(pool_reads("fork", "map")), unordered=True),
    Habit("pool-spawn-reads", BYTES, py(pool_reads("spawn", "imap_unordered")), unordered=True),
    Habit("pool-reads-h5", HDF5, py(pool_reads("fork", "imap", "get5", "NAMES5")), "plt*.h5", unordered=True),
    Habit("pool-spawn-reads-h5", HDF5, py(pool_reads("spawn", "imap", "get5", "NAMES5")), "plt*.h5", unordered=True),
    Habit(
        "executor-reads",
        BYTES,
        py("""
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(get, NAMES))
"""),
        unordered=True,
    ),
    Habit(
        "threads-read",
        BYTES,
        py("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    list(pool.map(get, NAMES))
"""),
        unordered=True,
    ),
    Habit(
        "threads-read-h5",
        HDF5,
        py("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    list(pool.map(get5, NAMES5))
"""),
        "plt*.h5",
        unordered=True,
    ),
    Habit(
        "prefetching-thread",
        BYTES,
        py("""
import queue, threading
read = queue.Queue(2)
def load():
    for name in NAMES:
        with open(name, "rb") as file:
            read.put((name, file.read()))
    read.put(None)
threading.Thread(target=load).start()
while (found := read.get()) is not None:
    show(*found)
"""),
    ),
    Habit(
        "child-for-each",
        BYTES,
        py("""
import subprocess
for name in NAMES:
    tell(subprocess.run(["cksum", name], capture_output=True, text=True, check=True).stdout.strip())
"""),
    ),
    Habit(
        "check-output-cat",
        BYTES,
        py("""
import subprocess
for name in NAMES:
    show(name, subprocess.check_output(["cat", name]))
"""),
    ),
    Habit(
        "python-for-each",
        BYTES,
        sh("""
for k in $(steps); do
    python3 -c 'import sys; sys.stdout.write(open(sys.argv[1]).read())' plt000$k.dat | show $k
done
"""),
    ),
    Habit(
        "fork-for-each",
        BYTES,
        py("""
import os
for name in NAMES:
    child = os.fork()
    if child == 0:
        get(name)
        os._exit(0)
    os.waitpid(child, 0)
"""),
    ),
    Habit(
        "fork-halves",
        BYTES,
        py("""
import os
child = os.fork()
for name in NAMES[0 if child else 1 :: 2]:
    get(name)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""),
        unordered=True,
    ),
    Habit(
        "open-then-fork",
        BYTES,
        py("""
import os
for name in NAMES:
    with open(name, "rb") as file:
        child = os.fork()
        if child == 0:
            show(name, file.read())
            os._exit(0)
        os.waitpid(child, 0)
"""),
    ),
    Habit(
        "xargs",
        BYTES,
        sh("""
for k in $(steps); do echo plt000$k.dat; done | xargs -n 1 cksum | sed 's/^/= sum /'
"""),
    ),
    Habit(
        "xargs-all",
        BYTES,
        sh("""
for k in $(steps); do echo plt000$k.dat; done | xargs cksum | sed 's/^/= sum /'
"""),
    ),
    Habit(
        "xargs-parallel",
        BYTES,
        sh("""
for k in $(steps); do echo plt000$k.dat; done | xargs -P 3 -n 1 cksum | sed 's/^/= sum /'
"""),
        unordered=True,
    ),
    Habit(
        "background-and-wait",
        BYTES,
        sh("""
for k in $(steps); do
    (cat plt000$k.dat | show $k) &
done
wait
"""),
        unordered=True,
    ),
    Habit(
        "two-background-loops",
        BYTES,
        sh("""
for k in 0 2 4; do cat plt000$k.dat | show $k; done &
for k in 1 3 5; do cat plt000$k.dat | show $k; done &
wait
"""),
        unordered=True,
    ),
    Habit("subshell", BYTES, sh("for k in $(steps); do (cat plt000$k.dat | show $k); done\n")),
    Habit("exec-at-the-end", BYTES, sh("""exec cksum plt0000.dat plt0001.dat plt0002.dat | sed 's/^/= sum /'\n""")),
    Habit(
        "system",
        BYTES,
        py("""
import os
for name in NAMES:
    os.system(f'echo "= $(cksum {name})"')
"""),
    ),
    Habit(
        "popen",
        BYTES,
        py("""
import os
for name in NAMES:
    tell(os.popen(f'cksum < {name}').read().strip())
"""),
    ),
    Habit("pool-writes", py(pool_writes("fork")), READS),
    Habit("pool-spawn-writes", py(pool_writes("spawn")), READS),
    Habit("pool-writes-h5", py(pool_writes("fork", "put5", "NAMES5")), READS5, "plt*.h5"),
    Habit(
        "threads-write",
        py("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    list(pool.map(put, NAMES, range(N)))
"""),
        READS,
    ),
    Habit(
        "fork-writes",
        py("""
import os
for k, name in enumerate(NAMES):
    child = os.fork()
    if child == 0:
        put(name, k)
        os._exit(0)
    os.waitpid(child, 0)
"""),
        READS,
    ),
    Habit(
        "opened-before-fork",
        py("""
import os
for k, name in enumerate(NAMES):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    child = os.fork()
    if child == 0:
        os.write(fd, text(k))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(fd)
"""),
        READS,
    ),
    Habit(
        "child-writes-stdout",
        py("""
import subprocess
for k, name in enumerate(NAMES):
    with open(name, "wb") as file:
        subprocess.run(["seq", str(k), str(k + 999)], stdout=file, check=True)
"""),
        READS,
    ),
    Habit(
        "popen-stdout-closed-first",
        py("""
import subprocess
for k, name in enumerate(NAMES):
    file = open(name, "wb")
    child = subprocess.Popen(["sh", "-c", f"sleep 0.05; seq {k} {k + 999}"], stdout=file)
    file.close()
    child.wait()
"""),
        READS,
    ),
    Habit(
        "header-then-child",
        py("""
import subprocess
for k, name in enumerate(NAMES):
    with open(name, "wb") as file:
        file.write(f"{k}\\n".encode())
        file.flush()
        subprocess.run(["seq", str(k + 1), str(k + 999)], stdout=file, check=True)
"""),
        READS,
    ),
    Habit(
        "python-child-writes",
        sh("""
for k in $(steps); do
    python3 -c "open('plt000$k.dat', 'w').writelines(f'{n}\\n' for n in range($k, $k + 1000))"
done
"""),
        READS,
    ),
    Habit(
        "child-reads-stdin",
        BYTES,
        py("""
import subprocess
for name in NAMES:
    with open(name, "rb") as file:
        tell(subprocess.run(["cksum"], stdin=file, capture_output=True, text=True, check=True).stdout.strip())
"""),
    ),
    Habit(
        "left-open-at-the-end",
        py("""
files = [open(name, "wb") for name in NAMES]
for k, file in enumerate(files):
    file.write(text(k))
"""),
        READS,
    ),
    Habit(
        "left-open-at-the-end-h5",
        py("""
import h5py
files = [h5py.File(name, "w") for name in NAMES5]
for k, file in enumerate(files):
    file["x"] = range(k, k + 1000)
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "left-open-at-the-end-listed",
        py("""
import h5py
files = [h5py.File(name, "w") for name in NAMES5]
for k, file in enumerate(files):
    file["x"] = range(k, k + 1000)
"""),
        sh("""
for f in plt*.h5; do h5dump -d /x "$f" | show "$f"; done
"""),
        "plt*.h5",
        into={"listing": "end"},
        needs=("h5dump",),
    ),
    Habit(
        "two-producers-children",
        sh("""
(for k in 0 2 4; do text $k > d0; mv d0 plt000$k.dat; done) &
(for k in 1 3 5; do text $k > d1; mv d1 plt000$k.dat; done) &
wait
"""),
        READS,
    ),
]
