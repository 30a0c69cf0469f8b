"""Habits of programs that see a file when they have closed it: by mappings, in forks, in messages and what they send."""

# ruff: noqa: E501 - lines of programs

from __future__ import annotations

from habits.rig import Habit, Program, c, py

MANY = 40
"""Files: more than there is memory for at once, unless somebody sees them yet."""


def writes(steps: int = 12) -> Program:
    return py(f"""
for k in range({steps}):
    put(f"plt{{k:04d}}.dat", k)
""")


def writes5(steps: int = 12) -> Program:
    return py(f"""
for k in range({steps}):
    put5(f"plt{{k:04d}}.h5", k)
""")


def reads(lines: str, head: str = "", tail: str = "", steps: int = 12) -> Program:
    """A consumer that does this with each ``name``, and tells at the end what it still sees."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    names = f'NAMES = [f"plt{{k:04d}}.dat" for k in range({steps})]\n'
    return py(
        f"import mmap, os, socket, threading, time\n{names}{head.lstrip()}for name in NAMES:\n{body}{tail.lstrip()}"
    )


def reads5(lines: str, head: str = "", tail: str = "", steps: int = 12) -> Program:
    program = reads(lines, "import h5py\n" + head, tail, steps)
    return py(program.lines.replace(".dat", ".h5"))


MAP = "fd = os.open(name, os.O_RDONLY)\nsize = os.fstat(fd).st_size\n"
KEEP = "kept = []\n"
TELL = "\nfor name, memory in zip(NAMES, kept):\n    show(name, memory[:])\n"

FORKED = """
def child(work):
    tube = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(tube[1])
        os.read(tube[0], 1)  # until the parent has gone on
        work()
        os._exit(0)
    os.close(tube[0])
    return pid, tube[1]

children = []
"""
WAITED = """
for pid, tube in children:
    os.write(tube, b"x")
for pid, tube in children:
    os.waitpid(pid, 0)
"""

C_MAP = """
#include <sys/mman.h>
static char* kept[40];
static size_t sizes[40];
int main(void) {
    for (int k = 0; k < 12; k++) {
        int fd = open(name_of(k), O_RDONLY);
        must(fd >= 0, name_of(k));
        struct stat is;
        fstat(fd, &is);
        sizes[k] = is.st_size;
%s
    }
    for (int k = 0; k < 12; k++) show(name_of(k), kept[k], sizes[k]);
}
"""


def maps(lines: str) -> Program:
    return c(C_MAP % lines)


SERVED = """
server = socket.create_server(("127.0.0.1", 0))
def view():
    with server.accept()[0] as peer, peer.makefile("rb") as stream:
        for k, name in enumerate(NAMES):
            show(name, stream.read(len(text(k))))
            time.sleep(0.02)
reader = threading.Thread(target=view)
reader.start()
sock = socket.create_connection(server.getsockname())
"""
PIPED = """
out, into = os.pipe()
"""
SENT = """
sock.close()
reader.join()
"""
DRAINED = """
for k, name in enumerate(NAMES):
    show(name, os.read(out, len(text(k))))
"""

READERS = {
    "map-kept": reads(
        "with open(name, 'rb') as file:\n    kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))", KEEP, TELL
    ),
    "map-of-descriptor-closed-first": reads(
        MAP + "memory = mmap.mmap(fd, size, prot=mmap.PROT_READ)\nos.close(fd)\nkept.append(memory)", KEEP, TELL
    ),
    "memmap-kept": reads(
        "kept.append(numpy.memmap(name, 'u1', 'r'))",
        "import numpy\n" + KEEP,
        TELL.replace("memory[:]", "memory.tobytes()"),
    ),
    "map-private": reads(
        MAP + "kept.append(mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ))\nos.close(fd)", KEEP, TELL
    ),
    "map-private-and-changed": reads(
        MAP + "memory = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)\nmemory[0:1] = b'x'\n"
        "os.close(fd)\nkept.append(memory)",
        KEEP,
        "\nfor name, memory in zip(NAMES, kept):\n    show(name, memory[:1] + memory[1:])\n",
    ),
    "map-of-the-last-three": reads(
        "with open(name, 'rb') as file:\n    kept.append((name, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)))\n"
        "if len(kept) > 3:\n    show(kept[0][0], kept[0][1][:])\n    kept.pop(0)[1].close()",
        KEEP,
        "\nfor name, memory in kept:\n    show(name, memory[:])\n",
    ),
    "map-of-every-third": reads(
        "with open(name, 'rb') as file:\n    memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "if len(kept) * 3 == NAMES.index(name):\n    kept.append(memory)\nelse:\n    show(name, memory[:])\n    memory.close()",
        KEEP,
        "\nfor name, memory in zip(NAMES[::3], kept):\n    show(name, memory[:])\n",
    ),
    "map-by-dev-fd": reads(
        "fd = os.open(name, os.O_RDONLY)\nagain = os.open(f'/dev/fd/{fd}', os.O_RDONLY)\nos.close(fd)\n"
        "kept.append(mmap.mmap(again, 0, prot=mmap.PROT_READ))\nos.close(again)",
        KEEP,
        TELL,
    ),
    "map-unlocked": reads(
        "fd = os.open(name, os.O_RDONLY)\nwhole = struct.pack('hhqqi', fcntl.F_RDLCK, 0, 0, 0, 0)\n"
        "fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole)\n"
        "fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack('hhqqi', fcntl.F_UNLCK, 0, 0, 0, 0))\n"
        "fcntl.flock(fd, fcntl.LOCK_SH)\nfcntl.flock(fd, fcntl.LOCK_UN)\nfcntl.lockf(fd, fcntl.LOCK_SH)\nfcntl.lockf(fd, fcntl.LOCK_UN)\n"
        "kept.append(mmap.mmap(fd, 0, prot=mmap.PROT_READ))\nos.close(fd)",
        "import fcntl, struct\n" + KEEP,
        TELL,
    ),
    "map-by-threads": reads(
        "thread = threading.Thread(target=work, args=(name,))\nthread.start()\nthread.join()",
        KEEP
        + "def work(name):\n    with open(name, 'rb') as file:\n        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))\n",
        TELL,
    ),
    "map-in-a-fork": reads(
        "with open(name, 'rb') as file:\n    memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "children.append(child(lambda: show(name, memory[:])))\nmemory.close()",
        FORKED,
        WAITED,
    ),
    "map-in-a-fork-of-a-fork": reads(
        "with open(name, 'rb') as file:\n    memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "def twice():\n    pid = os.fork()\n    if pid:\n        os.waitpid(pid, 0)\n    else:\n        show(name, memory[:])\n        os._exit(0)\n"
        "children.append(child(twice))\nmemory.close()",
        FORKED,
        WAITED,
    ),
    "descriptor-in-a-fork": reads(
        "fd = os.open(name, os.O_RDONLY)\nos.read(fd, 100)\nos.lseek(fd, 0, os.SEEK_SET)\n"
        "children.append(child(lambda: show(name, os.read(fd, 9999))))\nos.close(fd)",
        FORKED,
        WAITED,
    ),
    "fork-before-the-open": reads(
        "fd = os.open(name, os.O_RDONLY)\nsocket.send_fds(ours, [name.encode()], [fd])\nos.close(fd)",
        "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    ours.close()\n"
        "    got = []\n"
        "    while len(got) < len(NAMES):\n"
        "        said, fds, _, _ = socket.recv_fds(theirs, 99, 1)\n"
        "        got.append((said.decode(), fds[0]))\n"
        "    for said, fd in got:\n"
        "        show(said, os.pread(fd, 9999, 0))\n"
        "    os._exit(0)\n",
        "\nos.waitpid(pid, 0)\n",
    ),
    "descriptor-in-a-message": reads(
        "fd = os.open(name, os.O_RDONLY)\nsocket.send_fds(ours, [b'x'], [fd])\nos.close(fd)",
        "ours, theirs = socket.socketpair()\n",
        "\nfor name in NAMES:\n    show(name, os.read(socket.recv_fds(theirs, 1, 1)[1][0], 9999))\n",
    ),
    "child-of-vfork-reads-late": reads(
        "with open(name, 'rb') as file:\n"
        "    children.append((name, subprocess.Popen(['sh', '-c', f'read go <&{gate[0]}; cksum'], stdin=file, stdout=-1, text=True, pass_fds=gate[:1])))",
        "import subprocess\nchildren = []\ngate = os.pipe()\n",
        "\nos.write(gate[1], b'\\n' * len(children))\nfor name, child in children:\n    tell(name, child.communicate()[0].strip())\n",
    ),
    "child-of-posix-spawn-reads-late": reads(
        "fd = os.open(name, os.O_RDONLY)\n"
        "pids.append(os.posix_spawn('/bin/sh', ['sh', '-c', f'read go; cat <&{fd} > {name}.copy'], os.environ, file_actions=["
        "(os.POSIX_SPAWN_DUP2, gate[0], 0), (os.POSIX_SPAWN_DUP2, fd, fd)]))\nos.close(fd)",
        "pids = []\ngate = os.pipe()\n",
        "\nfor pid in pids:\n    os.write(gate[1], b'\\n')\nfor pid, name in zip(pids, NAMES):\n    os.waitpid(pid, 0)\n"
        "for name in NAMES:\n    with open(name + '.copy', 'rb') as file:\n        show(name, file.read())\n    os.remove(name + '.copy')\n",
    ),
    "sendfile-to-a-socket": reads("with open(name, 'rb') as file:\n    sock.sendfile(file)", SERVED, SENT),
    "sendfile-to-a-pipe": reads(
        "fd = os.open(name, os.O_RDONLY)\nos.sendfile(into, fd, 0, os.fstat(fd).st_size)\nos.close(fd)", PIPED, DRAINED
    ),
    "splice-to-a-pipe": reads(
        "fd = os.open(name, os.O_RDONLY)\nos.splice(fd, into, os.fstat(fd).st_size)\nos.close(fd)", PIPED, DRAINED
    ),
    "splice-to-a-socket": reads(
        "fd = os.open(name, os.O_RDONLY)\nsize = os.fstat(fd).st_size\nos.close(os.dup(fd))\n"
        "while size:\n    n = os.splice(fd, into, size)\n    size -= n\n    while n:\n        n -= os.splice(out, sock.fileno(), n)\nos.close(fd)",
        SERVED + PIPED,
        SENT,
    ),
    "sendfile-by-a-child": reads(
        "fd = os.open(name, os.O_RDONLY)\nsize = os.fstat(fd).st_size\npid = os.fork()\n"
        "if pid == 0:\n    os.sendfile(into, fd, 0, size)\n    os._exit(0)\nos.close(fd)\nos.waitpid(pid, 0)",
        PIPED,
        DRAINED,
    ),
    "sendfile-of-a-map-kept-too": reads(
        "fd = os.open(name, os.O_RDONLY)\nos.sendfile(into, fd, 0, os.fstat(fd).st_size)\n"
        "kept.append(mmap.mmap(fd, 0, prot=mmap.PROT_READ))\nos.close(fd)",
        PIPED + KEEP,
        DRAINED + TELL,
    ),
    "zerocopy-send": reads(
        "with open(name, 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:\n"
        "    view = memoryview(memory)\n    sent = 0\n    while sent < len(view):\n        sent += sock.send(view[sent:], 0x4000000)\n    view.release()",
        SERVED.replace(
            "sock = socket.create_connection(server.getsockname())",
            "sock = socket.create_connection(server.getsockname())\nsock.setsockopt(socket.SOL_SOCKET, 60, 1)",
        ),
        SENT,
    ),
    "c-vmsplice": c("""
#include <sys/uio.h>
int main(void) {
    int ends[2];
    size_t sizes[12];
    must(pipe(ends) == 0, "pipe");
    for (int k = 0; k < 12; k++) {
        int fd = open(name_of(k), O_RDONLY);
        must(fd >= 0, name_of(k));
        struct stat is;
        fstat(fd, &is);
        sizes[k] = is.st_size;
        char* memory = mmap(NULL, is.st_size, PROT_READ, MAP_SHARED, fd, 0);
        struct iovec piece = {memory, is.st_size};
        must(vmsplice(ends[1], &piece, 1, 0) == is.st_size, "vmsplice");
        munmap(memory, is.st_size);
        close(fd);
    }
    for (int k = 0; k < 12; k++) {
        must(read(ends[0], content, sizes[k]) == (ssize_t)sizes[k], "read");
        show(name_of(k), content, sizes[k]);
    }
}
"""),
    "c-map-of-a-part-of-a-map": maps("""
        kept[k] = mmap(NULL, sizes[k], PROT_READ, MAP_SHARED, fd, 0);
        char* again = mremap(kept[k], 0, sizes[k], MREMAP_MAYMOVE);
        must(again != MAP_FAILED, "mremap");
        munmap(kept[k], sizes[k]);
        kept[k] = again;
        close(fd);
"""),
    "c-map-of-a-kept-map": maps("""
        static char* first[12];
        first[k] = mmap(NULL, sizes[k], PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        kept[k] = mremap(first[k], 0, sizes[k], MREMAP_MAYMOVE);
        must(kept[k] != MAP_FAILED, "mremap");
        if (k % 2) kept[k] = mremap(kept[k], 0, sizes[k], MREMAP_MAYMOVE);
        if (k > 2) munmap(first[k - 3], sizes[k - 3]);
"""),
    "c-map-moved": maps("""
        kept[k] = mmap(NULL, sizes[k], PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        kept[k] = mremap(kept[k], sizes[k], 1 << 20, MREMAP_MAYMOVE);
        must(kept[k] != MAP_FAILED, "mremap");
"""),
    "c-map-unmapped-in-part": maps("""
        size_t page = 4096;
        kept[k] = mmap(NULL, sizes[k] + 9 * page, PROT_READ, MAP_SHARED, fd, 0);
        munmap(kept[k] + 2 * page, 7 * page);
        close(fd);
"""),
    "c-map-over-a-map": maps("""
        kept[k] = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(mmap(kept[k], sizes[k], PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == kept[k], "mmap");
        close(fd);
"""),
    "c-vfork-reads-late": c("""
int main(void) {
    int gate[2];
    must(pipe(gate) == 0, "pipe");
    fcntl(gate[1], F_SETFD, FD_CLOEXEC);
    for (int k = 0; k < 12; k++) {
        int fd = open(name_of(k), O_RDONLY);
        must(fd >= 0, name_of(k));
        pid_t child = vfork();
        if (child == 0) {
            dup2(fd, 0);
            dup2(gate[0], 9);
            execl("/bin/sh", "sh", "-c", "read go <&9; echo \\\"= $0 $(cksum)\\\"", name_of(k), NULL);
            _exit(127);
        }
        close(fd);
    }
    close(gate[1]);
    while (wait(NULL) > 0) continue;
}
"""),
    "c-stream-left-in-a-fork": c("""
int main(void) {
    int gate[2];
    must(pipe(gate) == 0, "pipe");
    for (int k = 0; k < 12; k++) {
        FILE* file = fopen(name_of(k), "r");
        must(file != NULL, name_of(k));
        if (fork() == 0) {
            char go;
            close(gate[1]);
            read(gate[0], &go, 1);
            size_t size = fread(content, 1, sizeof content, file);
            show(name_of(k), content, size);
            _exit(0);
        }
        fclose(file);
    }
    close(gate[1]);
    while (wait(NULL) > 0) continue;
}
"""),
}

UNORDERED = {
    "c-vfork-reads-late",
    "map-in-a-fork",
    "map-in-a-fork-of-a-fork",
    "descriptor-in-a-fork",
    "c-stream-left-in-a-fork",
}

READERS5 = {
    "handle-mapped": reads5(
        "with h5py.File(name) as file:\n    file['x'][0]\n    at = file['x'].id.get_offset()\n"
        "    kept.append((at, mmap.mmap(file.id.get_vfd_handle(), 0, prot=mmap.PROT_READ)))",
        "import numpy\n" + KEEP,
        "\nfor name, (at, memory) in zip(NAMES, kept):\n    show(name, numpy.frombuffer(memory, 'i8', 1000, at).tolist())\n",
    ),
    "handle-duplicated": reads5(
        "with h5py.File(name) as file:\n    at = file['x'].id.get_offset()\n    kept.append((at, os.dup(file.id.get_vfd_handle())))",
        "import numpy\n" + KEEP,
        "\nfor name, (at, fd) in zip(NAMES, kept):\n    show(name, numpy.frombuffer(os.pread(fd, 8000, at), 'i8').tolist())\n    os.close(fd)\n",
    ),
    "handle-in-a-fork": reads5(
        "file = h5py.File(name)\nchildren.append(child(lambda: show(name, file['x'][()])))\nfile.close()",
        FORKED,
        WAITED,
    ),
    "handle-in-a-fork-while-the-parent-reads": reads5(
        "with h5py.File(name) as file:\n    children.append(child(lambda: show(name, file['x'][()])))\n    assert len(file['x'][()]) == 1000",
        FORKED,
        WAITED,
    ),
    "handle-closed-by-a-fork": reads5(
        "def work():\n    numbers = file['x'][()]\n    file.close()\n    show(name, numbers)\n"
        "file = h5py.File(name)\nchildren.append(child(work))\nfile.close()",
        FORKED,
        WAITED,
    ),
    "pool-of-forks": reads5(
        "opened = h5py.File(name)\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    result = pool.map_async(part, [(0, 500), (500, 1000)])\n    opened.close()\n    show(name, sum(result.get(), []))",
        "import multiprocessing\ndef part(ends):\n    return opened['x'][slice(*ends)].tolist()\n",
        steps=6,
    ),
    "channel-of-open-files-in-one-fork": reads5(
        "files.append(h5py.File(name))\nif len(files) == 4:\n    group = list(zip(NAMES[NAMES.index(name) - 3 :], files))\n"
        "    children.append(child(lambda: [show(name, file['x'][()]) for name, file in group]))\n"
        "    for file in files:\n        file.close()\n    files.clear()",
        FORKED + "files = []\n",
        WAITED,
    ),
}
UNORDERED |= {
    "handle-in-a-fork",
    "handle-in-a-fork-while-the-parent-reads",
    "handle-closed-by-a-fork",
    "channel-of-open-files-in-one-fork",
}

HABITS = [Habit(name, writes(), program, unordered=name in UNORDERED) for name, program in READERS.items()]
HABITS += [
    Habit(name, writes5(), program, "plt*.h5", unordered=name in UNORDERED) for name, program in READERS5.items()
]
HABITS += [
    Habit(
        "map-of-many",
        writes(MANY),
        reads(
            "with open(name, 'rb') as file:\n    kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))",
            KEEP,
            TELL,
            MANY,
        ),
    ),
    Habit(
        "handle-mapped-of-many",
        writes5(MANY),
        reads5(
            "with h5py.File(name) as file:\n    at = file['x'].id.get_offset()\n"
            "    kept.append((at, mmap.mmap(file.id.get_vfd_handle(), 0, prot=mmap.PROT_READ)))",
            "import numpy\n" + KEEP,
            "\nfor name, (at, memory) in zip(NAMES, kept):\n    show(name, numpy.frombuffer(memory, 'i8', 1000, at).tolist())\n",
            MANY,
        ),
        "plt*.h5",
    ),
    Habit(
        "fork-of-many",
        writes5(MANY),
        reads5(
            "file = h5py.File(name)\nchildren.append(child(lambda: show(name, file['x'][()])))\nfile.close()",
            FORKED,
            WAITED,
            MANY,
        ),
        "plt*.h5",
        unordered=True,
    ),
    Habit(
        "map-of-a-name-rewritten",
        py("for k in range(12):\n    put('state.dat', k)\n"),
        py(
            "import mmap\nkept = []\nfor k in range(12):\n    with open('state.dat', 'rb') as file:\n"
            "        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))\nfor memory in kept:\n    show('state.dat', memory[:])\n"
        ),
        "state.dat",
        endless=True,
        expected=tuple(f"state.dat=#{k}" for k in range(12)),
    ),
]
