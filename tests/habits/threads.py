"""Habits of threads and ranks: some wait for files while others of their program do something else, or sleep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from habits.common import BYTES, HDF5
from habits.rig import Habit, Program, c, py

from support.running import MPIEXEC

FEW, MANY = 12, 30
"""Files of a series: as many as a queue may grow to hold, and more."""
ENDS = {".dat": "", ".h5": "5"}


def one_after_other(count: int = FEW, end: str = ".h5") -> Program:
    """Two series, one after the other."""
    return py(f"""
for s in "ab":
    for k in range({count}):
        put{ENDS[end]}(f"{{s}}{{k}}{end}", k)
""")


def in_two_threads(lines: str, count: int, end: str, before: str) -> Program:
    """A thread reads each series; `lines`: how a thread reads the file ``name``."""
    return py(f"""
import random
import threading
import time
{before}
def read(s):
    for k in range({count}):
        name = f"{{s}}{{k}}{end}"
        {lines}

threads = [threading.Thread(target=read, args=s) for s in "ba"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""")


def threads(name: str, lines: str, end: str = ".h5", before: str = "", count: int = MANY) -> Habit:
    reads = in_two_threads(lines.replace("get(", f"get{ENDS[end]}("), count, end, before)
    return Habit(name, one_after_other(count, end), reads, (f"a*{end}", f"b*{end}"), unordered=True)


C_READER = """
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int done;

static void get(int k) {
    static _Thread_local char data[8192];
    int fd = open(name_of(k), O_RDONLY);
    must(fd >= 0, "open");
    ssize_t size = read(fd, data, sizeof data);
    must(size >= 0, "read");
    show(name_of(k), data, (size_t)size);
    close(fd);
}

static void* newest(void* nothing) {
    get(N - 1);
    pthread_mutex_lock(&mutex);
    done = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return nothing;
}

int main(void) {
    get(0);
    pthread_t thread;
    pthread_create(&thread, NULL, newest, NULL);
    pthread_mutex_lock(&mutex);
    while (!done) WAIT;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    for (int k = N - 2; k > 0; k--) get(k);
    return 0;
}
"""
TIMED = """{
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 50000000) % 1000000000;
        if (until.tv_nsec < 50000000) until.tv_sec++;
        pthread_cond_timedwait(&condition, &mutex, &until);
    }"""

RANKS = """
from mpi4py import MPI
w = MPI.COMM_WORLD
"""


def ranks(count: int) -> Mapping[str, Any]:
    return {"nprocs": count, "mpiexec": MPIEXEC, "rerun": "never"}


def rank_habit(name: str, writes: str, reads: Program, count: int = 2, **keys: Any) -> Habit:
    return Habit(name, py(RANKS + writes), reads, producer=ranks(count), needs=("mpiexec", "python:mpi4py"), **keys)


ROOT_WRITES = """
for k in range(N):
    if w.rank == 0:
        put(NAMES[k], k)
    {meet}
"""
NEWEST_FIRST = py("""
for name in NAMES[::-1]:
    get(name)
""")

HABITS = [
    threads("one-sleeps", "get(name); time.sleep(0.02)"),
    threads("one-sleeps-bytes", "get(name); time.sleep(0.02)", ".dat"),
    threads(
        "one-computes", "get(name); until = time.time() + 0.05 * (s == 'a')\n        while time.time() < until: pass"
    ),
    threads("each-at-random", "time.sleep(random.random() / 50); get(name)"),
    threads("under-one-lock", "with lock: get(name)", before="lock = threading.Lock()", count=FEW),
    threads("under-one-lock-bytes", "with lock: get(name)", ".dat", before="lock = threading.RLock()", count=FEW),
    threads(
        "timed-lock",
        "while not lock.acquire(timeout=0.03): pass\n        get(name); lock.release()",
        before="lock = threading.Lock()",
        count=FEW,
    ),
    Habit(
        "one-has-ended",
        one_after_other(),
        py("""
import threading
first = threading.Thread(target=get5, args=("a0.h5",))
first.start()
first.join()
for s in "ba":
    for k in range(s == "a", 12):
        get5(f"{s}{k}.h5")
"""),
        ("a*.h5", "b*.h5"),
    ),
    Habit(
        "main-joins",
        BYTES,
        py("""
import threading
get(NAMES[0])
rest = threading.Thread(target=lambda: [get(name) for name in NAMES[:0:-1]])
rest.start()
rest.join()
"""),
    ),
    Habit(
        "main-polls",
        BYTES,
        py("""
import threading
get(NAMES[0])
rest = threading.Thread(target=lambda: [get(name) for name in NAMES[:0:-1]])
rest.start()
while rest.is_alive():
    rest.join(0.01)
"""),
    ),
    Habit(
        "executor-newest-first",
        HDF5,
        py("""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    list(pool.map(get5, NAMES5[::-1]))
"""),
        "plt*.h5",
        unordered=True,
    ),
    Habit(
        "executor-two-at-a-time",
        BYTES,
        py("""
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor(2) as pool:
    for done in as_completed([pool.submit(get, NAMES[k]) for k in (5, 3, 4, 0, 2, 1)]):
        done.result()
"""),
        unordered=True,
    ),
    Habit(
        "queue-of-names",
        BYTES,
        py("""
import queue
import threading
names = queue.Queue()
def work():
    while (name := names.get()) is not None:
        get(name)
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
for name in [*NAMES[::-1], None, None]:
    names.put(name)
for worker in workers:
    worker.join()
"""),
        unordered=True,
    ),
    Habit(
        "more-threads-than-places",
        BYTES,
        py("""
import threading
threads = [threading.Thread(target=get, args=(name,)) for name in NAMES[::-1] * 4]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""),
        into={"reorder": 16},
        unordered=True,
    ),
    Habit(
        "threads-write",
        py("""
import threading
def write(s):
    for k in range(12):
        put5(f"{s}{k}.h5", k)
for s in "ab":
    threading.Thread(target=write, args=s).start()
"""),
        py("""
for s in "ba":
    for k in range(12):
        get5(f"{s}{k}.h5")
"""),
        ("a*.h5", "b*.h5"),
    ),
    Habit("c-condition", BYTES, c(C_READER.replace("WAIT", "pthread_cond_wait(&condition, &mutex)")), unordered=True),
    Habit("c-condition-timed", BYTES, c(C_READER.replace("WAIT", TIMED)), unordered=True),
    rank_habit("ranks-meet", ROOT_WRITES.replace("{meet}", "w.Barrier()"), NEWEST_FIRST),
    rank_habit("ranks-meet-three", ROOT_WRITES.replace("{meet}", "w.allreduce(k)"), NEWEST_FIRST, 3),
    rank_habit(
        "ranks-told",
        ROOT_WRITES.replace("{meet}", "w.bcast(k)"),
        py("for k in (2, 5, 4, 0, 3, 1):\n    get(NAMES[k])\n"),
    ),
    rank_habit(
        "ranks-hear-last",
        """
for k in range(N):
    if w.rank == 0:
        put(NAMES[k], k)
        for other in range(1, w.size):
            w.send(k, dest=other)
    else:
        w.recv(source=0)
""",
        NEWEST_FIRST,
    ),
    rank_habit(
        "ranks-ask-again",
        """
import time
for k in range(N):
    if w.rank == 0:
        put(NAMES[k], k)
    met = w.Ibarrier()
    while not met.Test():
        time.sleep(0.001)
""",
        py("""
for k in (3, 2, 1, 0, 5, 4):
    get(NAMES[k])
"""),
    ),
    rank_habit(
        "ranks-by-turns",
        """
for k in range(N):
    if k % w.size == w.rank:
        put(NAMES[k], k)
    w.Barrier()
""",
        NEWEST_FIRST,
        3,
    ),
    rank_habit(
        "ranks-on-both-sides",
        ROOT_WRITES.replace("{meet}", "w.Barrier()"),
        py(
            RANKS
            + """
for name in NAMES[::-1]:
    if w.rank == 0:
        get(name)
    w.Barrier()
"""
        ),
        consumer=ranks(2),
        into={"nreaders": 1},
    ),
    Habit(
        "pool-newest-first",
        BYTES,
        py("""
import multiprocessing
if __name__ == "__main__":
    get(NAMES[0])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(get, NAMES[:0:-1], 1)
"""),
        unordered=True,
    ),
    Habit(
        "children-newest-first",
        BYTES,
        py("""
import multiprocessing
if __name__ == "__main__":
    get(NAMES[0])
    children = [multiprocessing.get_context("fork").Process(target=get, args=(name,)) for name in NAMES[:0:-1]]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""),
        unordered=True,
    ),
]
