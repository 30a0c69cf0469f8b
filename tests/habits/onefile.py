"""Habits of files that are opened more than once while they are made, by one process or several of the task."""

from __future__ import annotations

from habits.common import READS, READS5
from habits.descriptors import each
from habits.processes import TWO_RANKS
from habits.rig import Habit, Program, py, sh


def each5(lines: str, head: str = "") -> Program:
    """A Python producer that writes an HDF5 file for each step."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os, h5py\n{head}for k, name in enumerate(NAMES5):\n{body}")


FILL5 = "file['x'] = range(k, k + 1000)"
OTHER = "import subprocess\ndef other(code, *words): subprocess.run([sys.executable, '-c', code, *words], check=True)\n"
RANKS = "from mpi4py import MPI\nranks = MPI.COMM_WORLD\n"

BYTES = {
    "open-to-append-too": each("""
first = open(name, 'wb')
open(name, 'ab').close()
first.write(data)
first.close()
"""),
    "second-closed-last": each("""
first = open(name, 'wb')
fd = os.open(name, os.O_RDWR | os.O_CREAT)
first.write(data)
first.close()
os.fsync(fd)
os.close(fd)
"""),
    "two-write-in-turn": each("""
first = open(name, 'wb', buffering=0)
second = os.open(name, os.O_WRONLY | os.O_CREAT)
first.write(data[:100])
os.pwrite(second, data[100:], 100)
first.close()
os.close(second)
"""),
    "second-writes-last": each("""
first = open(name, 'wb', buffering=0)
second = os.open(name, os.O_WRONLY | os.O_CREAT)
os.pwrite(second, data[5000:], 5000)
first.write(data[:5000])
os.close(second)
first.close()
"""),
    "read-while-written": each("""
first = open(name, 'wb')
first.write(data)
first.flush()
with open(name, 'rb') as second:
    assert second.read() == data, 'reads'
assert os.path.getsize(name) == len(data), 'size'
first.close()
"""),
    "name-made-then-written-anew": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
with open(name, 'wb') as file:
    file.write(data)
os.close(fd)
"""),
    "touch-then-update": each("""
open(name, 'ab').close()
os.truncate(name, 0)
assert os.path.getsize(name) == 0
with open(name, 'r+b') as file:
    file.write(data)
"""),
    "made-empty-then-added-to": each("""
open(name, 'wb').close()
open(name, 'ab').close()
with open(name, 'r+b') as file:
    file.write(data)
"""),
    "touch-then-write": each(
        """
pathlib.Path(name).touch()
pathlib.Path(name).write_bytes(data)
""",
        "import pathlib\n",
    ),
    "database-that-is-opened-again": each("""
with open(name, 'a'):
    pass
with open(name, 'r+b') as file:
    assert file.read() == b''
    file.seek(0)
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
    file.truncate()
"""),
    "mapped-by-a-second-handle": each(
        """
with open(name, 'wb') as first:
    first.truncate(len(data))
    with open(name, 'r+b') as second, mmap.mmap(second.fileno(), 0) as memory:
        memory[:] = data
""",
        "import mmap\n",
    ),
    "own-descriptor-by-path": each("""
with open(name, 'wb') as first:
    first.write(data[:50])
    first.flush()
    with open(f'/proc/self/fd/{first.fileno()}', 'r+b') as second:
        second.seek(50)
        second.write(data[50:])
"""),
    "made-once-exclusively": each("""
with open(name, 'xb') as file:
    try:
        os.open(name, os.O_CREAT | os.O_EXCL)
        raise SystemExit('made twice')
    except FileExistsError:
        pass
    file.write(data)
"""),
    "room-of-the-file-system": each("""
with open(name, 'wb') as file:
    file.write(data)
    assert os.statvfs(name).f_bsize and os.fstatvfs(file.fileno()).f_bsize
"""),
    "child-syncs": each(
        """
with open(name, 'wb') as first:
    first.write(data)
    other("import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.fsync(fd); os.close(fd)", name)
""",
        OTHER,
    ),
    "child-reads": each(
        """
with open(name, 'wb') as first:
    first.write(data)
    first.flush()
    other("import sys; assert len(open(sys.argv[1]).read()) == int(sys.argv[2])", name, str(len(data)))
    other("import os, sys; assert os.path.getsize(sys.argv[1]) == int(sys.argv[2])", name, str(len(data)))
""",
        OTHER,
    ),
    "child-appends": each(
        """
with open(name, 'wb') as first:
    first.write(data[:100])
    first.flush()
    other("import sys; open(sys.argv[1], 'ab').write(sys.argv[2].encode())", name, data[100:].decode())
""",
        OTHER,
    ),
    "child-must-not-make": each(
        """
with open(name, 'wb') as first:
    first.write(data)
    other("import sys, os; assert sys.argv[1] in os.listdir()", name)
    other("import sys\\ntry: open(sys.argv[1], 'x'); sys.exit(3)\\nexcept FileExistsError: pass", name)
""",
        OTHER,
    ),
    "touch-in-a-shell": sh("""
for k in $(steps); do
    touch plt000$k.dat
    text $k > plt000$k.dat
done
"""),
    "truncate-in-a-shell": sh("""
for k in $(steps); do
    echo draft > draft$k
    : > plt000$k.dat
    truncate -s 0 plt000$k.dat
    text $k >> plt000$k.dat
done
"""),
    "reserved-in-a-shell": sh("""
for k in $(steps); do
    exec 3> plt000$k.dat
    text $k >&3
    test -f plt000$k.dat && wc -c plt000$k.dat > size
    test -s size
    exec 3>&-
done
"""),
}
HDF5 = {
    "fsync-after": each5(f"""
file = h5py.File(name, 'w')
fd = os.open(name, os.O_RDWR | os.O_CREAT)
{FILL5}
file.close()
os.fsync(fd)
os.close(fd)
"""),
    "fsync-before": each5(f"""
file = h5py.File(name, 'w')
{FILL5}
fd = os.open(name, os.O_RDWR | os.O_CREAT)
os.fsync(fd)
os.close(fd)
file.close()
"""),
    "opened-to-append": each5(f"""
with h5py.File(name, 'w') as file:
    open(name, 'ab').close()
    {FILL5}
    open(name, 'r+b').close()
"""),
    "second-handle-kept": each5(
        f"""
with h5py.File(name, 'w') as file:
    kept.append(os.open(name, os.O_RDWR | os.O_CREAT))
    {FILL5}
""",
        "kept = []\n",
    ),
    "name-reserved": each5(f"""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
with h5py.File(name, 'w') as file:
    {FILL5}
os.close(fd)
"""),
    "name-reserved-then-added-to": each5(f"""
open(name, 'ab').close()
with h5py.File(name, 'w') as file:
    {FILL5}
"""),
    "child-syncs": each5(
        f"""
with h5py.File(name, 'w') as file:
    {FILL5}
    other("import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.fsync(fd); os.close(fd)", name)
""",
        OTHER,
    ),
    "file-object": each5(f"""
with open(name, 'w+b') as raw, h5py.File(raw, 'w') as file:
    {FILL5}
"""),
    "file-object-of-bytes": each5(
        f"""
memory = io.BytesIO()
with h5py.File(memory, 'w') as file:
    {FILL5}
with open(name, 'wb') as raw:
    raw.write(memory.getvalue())
    raw.flush()
    with h5py.File(name) as file:
        assert len(file['x']) == 1000
""",
        "import io\n",
    ),
    "flushed-and-looked-at": each5(f"""
with h5py.File(name, 'w') as file:
    {FILL5}
    file.flush()
    assert name in os.listdir() and os.path.getsize(name) > 4000
    with open(name, 'rb') as raw:
        assert raw.read(4) == b'\\x89HDF'
"""),
}
OF_RANKS = {
    "seen-by-all": f"""
file = h5py.File(name, 'w') if ranks.rank == 0 else None
ranks.Barrier()
assert os.path.exists(name) and name in os.listdir(), 'not seen'
ranks.Barrier()
if file:
    {FILL5}
    file.close()
ranks.Barrier()
with h5py.File(name) as file:
    assert len(file['x']) == 1000
ranks.Barrier()
""",
    "seen-while-updated": f"""
if ranks.rank == 0:
    with h5py.File(name, 'w') as file:
        {FILL5}
ranks.Barrier()
file = h5py.File(name, 'r+') if ranks.rank == 0 else None
ranks.Barrier()
assert os.path.getsize(name) > 4000, 'not seen'
ranks.Barrier()
if file:
    file.close()
ranks.Barrier()
""",
    "one-locks-out-the-other": f"""
file = h5py.File(name, 'w') if ranks.rank == 0 else None
ranks.Barrier()
if file is None:
    try:
        h5py.File(name, 'r')
        raise SystemExit('not locked')
    except OSError:
        pass
ranks.Barrier()
if file:
    {FILL5}
    file.close()
ranks.Barrier()
""",
}
OF_RANKS_BYTES = {
    "write-one-file": """
if ranks.rank == 0:
    os.close(os.open(name, os.O_RDWR | os.O_CREAT))
ranks.Barrier()
fd = os.open(name, os.O_RDWR | os.O_CREAT)
half = len(data) // 2
os.pwrite(fd, data[half:] if ranks.rank else data[:half], half if ranks.rank else 0)
ranks.Barrier()
os.close(fd)
ranks.Barrier()
""",
    "write-what-one-has-begun": """
if ranks.rank == 0:
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(fd, data[:100])
ranks.Barrier()
if ranks.rank == 1:
    assert os.path.getsize(name) == 100, 'size'
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    assert os.pread(fd, 200, 0) == data[:100], 'reads'
    os.pwrite(fd, data[100:], 100)
    os.close(fd)
ranks.Barrier()
if ranks.rank == 0:
    os.close(fd)
ranks.Barrier()
""",
}


def read5(lines: str, head: str = "") -> Program:
    """A Python consumer of HDF5 files."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os, h5py\n{head}for name in NAMES5:\n{body}")


WRITES5 = each5(f"with h5py.File(name, 'w') as file:\n    {FILL5}\n")
READERS5 = {
    "by-descriptor": read5("""
with open(name, 'rb') as raw:
    show(name, h5py.File(f'/dev/fd/{raw.fileno()}')['x'][()])
"""),
    "by-descriptor-in-proc": read5("""
fd = os.open(name, os.O_RDONLY)
show(name, h5py.File(f'/proc/self/fd/{fd}')['x'][()])
os.close(fd)
"""),
    "by-file-object": read5("""
with open(f'./{name}', 'rb') as raw, h5py.File(raw) as file:
    show(name, file['x'][()])
"""),
    "is-it-free": read5("""
open(name, 'ab').close()
get5(name)
"""),
    "room-of-the-file-system": read5("""
assert os.statvfs(name).f_bsize
with open(name, 'rb') as raw:
    assert os.fstatvfs(raw.fileno()).f_bsize
get5(name)
"""),
}

WATCH = """
import ctypes, os, select, struct
library = ctypes.CDLL(None)
fd = library.inotify_init1({flags})
assert library.inotify_add_watch(fd, b".", {mask}) > 0
def names():
    {wait}
    events, at = os.read(fd, 65536), 0
    while at < len(events):
        size = struct.unpack_from("iIII", events, at)[3]
        name = events[at + 16 : at + 16 + size].rstrip(b"\\0").decode()
        at += 16 + size
        if name.startswith("plt"):
            yield name
seen = set()
while {goes_on}:
    for name in names():
        if name not in seen:
            seen.add(name)
            get5(name)
"""


def watches(mask: int, wait: str = "pass", goes_on: str = "len(seen) < N", flags: int = 0) -> Program:
    """A Python consumer that waits for files with inotify."""
    return py(WATCH.format(mask=mask, wait=wait, goes_on=goes_on, flags=flags))


CREATED, CLOSED, MOVED = 0x100, 0x8, 0x80
POLLED = "select.select([fd], [], [])"
WATCHERS = {
    "closed-or-moved": watches(CLOSED | MOVED),
    "created": watches(CREATED, POLLED),
    "moved": watches(MOVED),
    "all-without-blocking": watches(0xFFF, POLLED, flags=0x800),
    "by-epoll": watches(CLOSED, "poll = select.epoll(); poll.register(fd); poll.poll()"),
}
FOUND = tuple(f"plt{k:04d}.h5=#{k}" for k in range(6))

HABITS = [
    *(
        Habit(f"watch-{name}", WRITES5, reads, ports="plt*.h5", endless=True, expected=FOUND)
        for name, reads in WATCHERS.items()
    ),
    Habit(
        "watch-for-ever",
        WRITES5,
        watches(CLOSED | MOVED, goes_on="True"),
        ports="plt*.h5",
        into={"poll_end": 1},
        endless=True,
        expected=FOUND,
    ),
    *(Habit(f"bytes-{name}", writes, READS) for name, writes in BYTES.items()),
    *(Habit(f"hdf5-{name}", writes, READS5, ports="plt*.h5") for name, writes in HDF5.items()),
    *(Habit(f"read-{name}", WRITES5, reads, ports="plt*.h5") for name, reads in READERS5.items()),
    Habit(
        "read-is-the-rewritten-one-free",
        each("with open('plt.dat', 'wb') as file:\n    file.write(data)\n"),
        py("for k in range(N):\n    open('plt.dat', 'ab').close()\n    get('plt.dat')\n"),
        ports="plt.dat",
        expected=tuple(f"plt.dat=#{k}" for k in range(6)),
    ),
    *(
        Habit(
            f"ranks-{name}",
            each5(lines, RANKS),
            READS5,
            ports="plt*.h5",
            out={"publish": "next"} if "updated" in name else {},
            producer=TWO_RANKS,
            needs=("mpiexec",),
        )
        for name, lines in OF_RANKS.items()
    ),
    *(
        Habit(f"ranks-{name}", each(lines, RANKS), READS, producer=TWO_RANKS, needs=("mpiexec",))
        for name, lines in OF_RANKS_BYTES.items()
    ),
]
