"""Habits of descriptors: duplicated, mapped, handed on, and read or written by calls that few programs make."""

from __future__ import annotations

from habits.common import BYTES, READS, C
from habits.rig import Habit, Program, c, py

TEXT_BY = """
int main(void) {{
    for (int k = 0; k < N; k++) {{
        make(k);
        int fd = open(name_of(k), O_RDWR | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0, "open");
{lines}
        close(fd);
    }}
}}
"""


def writes(lines: str, head: str = "") -> Program:
    return c(head + TEXT_BY.format(lines=lines))


def reads(lines: str, head: str = "") -> Program:
    return c(
        head
        + """
int main(void) {
    for (int k = 0; k < N; k++) {
        const char* name = name_of(k);
        int fd = open(name, O_RDONLY);
        must(fd >= 0, name);
        struct stat is;
        fstat(fd, &is);
        size_t size = is.st_size;
"""
        + lines
        + """
        close(fd);
    }
}
"""
    )


def each(lines: str, head: str = "") -> Program:
    """A Python producer that writes ``data`` to ``name``."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os\n{head}for k, name in enumerate(NAMES):\n    data = text(k)\n{body}")


def of_each(lines: str, head: str = "") -> Program:
    """A Python consumer that reads ``name``."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os\n{head}for name in NAMES:\n{body}")


CREATE = "fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)\n"
OPEN = "fd = os.open(name, os.O_RDONLY)\n"

WRITERS = {
    "os-write": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, data)
os.close(fd)
"""),
    "dup": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
other = os.dup(fd)
os.write(fd, data[:100])
os.write(other, data[100:])
os.close(fd)
os.close(other)
"""),
    "dup-closed-first": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
other = os.dup(fd)
os.close(fd)
os.write(other, data)
os.close(other)
"""),
    "dup2-to-stdout": each(
        """
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
sys.stdout.flush()
kept = os.dup(1)
os.dup2(fd, 1)
os.close(fd)
sys.stdout.write(data.decode())
sys.stdout.flush()
os.dup2(kept, 1)
os.close(kept)
"""
    ),
    "print-to-file": each("""
with open(name, 'w') as file:
    for number in range(k, k + 1000):
        print(number, file=file)
"""),
    "redirect-stdout": each(
        """
with open(name, 'w') as file, contextlib.redirect_stdout(file):
    print(data.decode(), end='')
""",
        "import contextlib\n",
    ),
    "fdopen": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
with os.fdopen(fd, 'wb') as file:
    file.write(data)
"""),
    "mmap": each(
        """
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.ftruncate(fd, len(data))
with mmap.mmap(fd, len(data)) as memory:
    memory[:] = data
os.close(fd)
""",
        "import mmap\n",
    ),
    "mmap-closed-first": each(
        """
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.ftruncate(fd, len(data))
memory = mmap.mmap(fd, len(data))
os.close(fd)
memory[:] = data
memory.close()
""",
        "import mmap\n",
    ),
    "memmap": each(
        """
memory = numpy.memmap(name, 'u1', 'w+', shape=(len(data),))
memory[:] = numpy.frombuffer(data, 'u1')
memory.flush()
del memory
""",
        "import numpy\n",
    ),
    "pwrite-backwards": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
for place in reversed(range(0, len(data), 500)):
    os.pwrite(fd, data[place : place + 500], place)
os.close(fd)
"""),
    "writev": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.writev(fd, [data[:10], data[10:2000], data[2000:]])
os.close(fd)
"""),
    "pwritev": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.pwritev(fd, [data[2000:]], 2000)
os.pwritev(fd, [data[:1000], data[1000:2000]], 0)
os.close(fd)
"""),
    "seek-over-a-hole": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.lseek(fd, 2000, os.SEEK_SET)
os.write(fd, data[2000:])
os.lseek(fd, 0, os.SEEK_SET)
os.write(fd, data[:2000])
os.close(fd)
"""),
    "too-long-then-cut": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, data + b'x' * 9999)
os.ftruncate(fd, len(data))
os.close(fd)
"""),
    "written-twice-over": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, b'x' * 99)
os.lseek(fd, 0, os.SEEK_SET)
os.write(fd, data)
os.close(fd)
"""),
    "append-mode": each("""
with open(name, 'ab') as file:
    file.write(data[:50])
    file.write(data[50:])
"""),
    "read-back": each("""
with open(name, 'w+b') as file:
    file.write(data)
    file.seek(0)
    again = file.read()
    assert again == data
"""),
    "sendfile": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
put('draft', k)
with open('draft', 'rb') as draft:
    os.sendfile(fd, draft.fileno(), 0, len(data))
os.close(fd)
os.remove('draft')
"""),
    "copy-file-range": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
put('draft', k)
with open('draft', 'rb') as draft:
    os.copy_file_range(draft.fileno(), fd, len(data))
os.close(fd)
os.remove('draft')
"""),
    "splice": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
out, into = os.pipe()
os.write(into, data)
os.close(into)
os.splice(out, fd, len(data))
os.close(fd)
os.close(out)
"""),
    "shutil-copy": each(
        """
put('draft', k)
shutil.copy('draft', name)
os.remove('draft')
""",
        "import shutil\n",
    ),
    "fallocate": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.posix_fallocate(fd, 0, len(data))
os.write(fd, data)
os.close(fd)
"""),
    "fsync": each("""
with open(name, 'wb') as file:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
"""),
    "tofile": each("numpy.frombuffer(data, 'u1').tofile(name)", "import numpy\n"),
    "tofile-handle": each(
        """
with open(name, 'wb') as file:
    numpy.frombuffer(data, 'u1').tofile(file)
""",
        "import numpy\n",
    ),
    "unbuffered": each("""
with open(name, 'wb', buffering=0) as file:
    for place in range(0, len(data), 700):
        file.write(data[place : place + 700])
"""),
    "dev-fd": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
with open(f'/dev/fd/{fd}', 'wb') as file:
    file.write(data)
os.close(fd)
"""),
    "proc-self-fd": each("""
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
with open(f'/proc/self/fd/{fd}', 'ab') as file:
    file.write(data)
os.close(fd)
"""),
    "dir-fd": each(
        """
folder = os.open('.', os.O_RDONLY)
fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
os.write(fd, data)
os.close(fd)
os.close(folder)
"""
    ),
    "c-fwrite": C,
    "c-fprintf": writes("""
        FILE* file = fdopen(dup(fd), "w");
        for (int number = k; number < k + 1000; number++) fprintf(file, "%d\\n", number);
        fclose(file);
"""),
    "c-dprintf": writes("""
        for (int number = k; number < k + 1000; number++) dprintf(fd, "%d\\n", number);
"""),
    "c-syscall": writes(
        """
        must(syscall(SYS_write, fd, content, length) == (long)length, "write");
""",
        "#include <sys/syscall.h>\n",
    ),
    "c-aio": writes(
        """
        struct aiocb request = {.aio_fildes = fd, .aio_buf = content, .aio_nbytes = length};
        const struct aiocb* all[] = {&request};
        must(aio_write(&request) == 0, "aio_write");
        while (aio_error(&request) == EINPROGRESS) aio_suspend(all, 1, NULL);
        must(aio_return(&request) == (ssize_t)length, "aio_return");
""",
        "#include <aio.h>\n",
    ),
    "c-freopen": c("""
int main(void) {
    for (int k = 0; k < N; k++) {
        must(freopen(name_of(k), "w", stdout) != NULL, "freopen");
        for (int number = k; number < k + 1000; number++) printf("%d\\n", number);
    }
}
"""),
    "c-vmsplice": writes(
        """
        int ends[2];
        must(pipe(ends) == 0, "pipe");
        must(write(ends[1], content, length) == (ssize_t)length, "write");
        must(splice(ends[0], NULL, fd, NULL, length, 0) == (ssize_t)length, "splice");
        close(ends[0]);
        close(ends[1]);
"""
    ),
    "c-large-stdio": c("""
int main(void) {
    for (int k = 0; k < N; k++) {
        make(k);
        FILE* file = fopen(name_of(k), "w");
        setvbuf(file, NULL, _IOFBF, 1 << 16);
        for (int turn = 0; turn < 100; turn++) fwrite(content, 1, length, file);
        fclose(file);
    }
}
"""),
    "c-popen": c("""
int main(void) {
    for (int k = 0; k < N; k++) {
        char line[200];
        sprintf(line, "cat > %s", name_of(k));
        make(k);
        FILE* pipe = popen(line, "w");
        fwrite(content, 1, length, pipe);
        pclose(pipe);
    }
}
"""),
    "c-posix-spawn": c("""
#include <spawn.h>
extern char** environ;
int main(void) {
    for (int k = 0; k < N; k++) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, name_of(k), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        char from[16], to[16];
        sprintf(from, "%d", k);
        sprintf(to, "%d", k + 999);
        char* words[] = {"seq", from, to, NULL};
        pid_t child;
        must(posix_spawnp(&child, "seq", &actions, NULL, words, environ) == 0, "posix_spawnp");
        waitpid(child, NULL, 0);
    }
}
"""),
    "c-large-file": c("""
int main(void) {
    for (int k = 0; k < N; k++) {
        make(k);
        int fd = open64(name_of(k), O_WRONLY | O_CREAT | O_LARGEFILE, 0644);
        must(pwrite64(fd, content, length, 0) == (ssize_t)length, "pwrite64");
        close(fd);
    }
}
"""),
}

READERS = {
    "os-read": of_each("""
fd = os.open(name, os.O_RDONLY)
show(name, os.read(fd, 9999))
os.close(fd)
"""),
    "dup": of_each("""
fd = os.open(name, os.O_RDONLY)
other = os.dup(fd)
os.close(fd)
show(name, os.read(other, 9999))
os.close(other)
"""),
    "fdopen": of_each("""
fd = os.open(name, os.O_RDONLY)
with os.fdopen(fd, 'rb') as file:
    show(name, file.read())
"""),
    "mmap": of_each(
        """
with open(name, 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
    show(name, memory[:])
""",
        "import mmap\n",
    ),
    "memmap": of_each("show(name, bytes(numpy.memmap(name, 'u1', 'r')))", "import numpy\n"),
    "pread-backwards": of_each(
        """
fd = os.open(name, os.O_RDONLY)
size = os.fstat(fd).st_size
parts = [os.pread(fd, 500, place) for place in reversed(range(0, size, 500))]
show(name, b''.join(reversed(parts)))
os.close(fd)
"""
    ),
    "readv": of_each("""
fd = os.open(name, os.O_RDONLY)
parts = [bytearray(1000), bytearray(8000)]
size = os.readv(fd, parts)
show(name, b''.join(parts)[:size])
os.close(fd)
"""),
    "preadv": of_each("""
fd = os.open(name, os.O_RDONLY)
parts = [bytearray(1000), bytearray(8000)]
size = os.preadv(fd, parts, 0)
show(name, b''.join(parts)[:size])
os.close(fd)
"""),
    "fromfile": of_each("show(name, numpy.fromfile(name, 'u1').tobytes())", "import numpy\n"),
    "loadtxt": of_each("show(name, numpy.loadtxt(name, dtype=int))", "import numpy\n"),
    "read-bytes": of_each("show(name, Path(name).read_bytes())", "from pathlib import Path\n"),
    "read-lines": of_each("""
with open(name) as file:
    show(name, ''.join(line for line in file).encode())
"""),
    "a-byte-at-a-time": of_each("""
with open(name, 'rb', buffering=0) as file:
    show(name, b''.join(iter(lambda: file.read(1), b'')))
"""),
    "size-by-seek": of_each("""
with open(name, 'rb') as file:
    file.seek(0, 2)
    size = file.tell()
    file.seek(0)
    show(name, file.read(size))
"""),
    "last-line-by-seek": of_each("""
with open(name, 'rb') as file:
    file.seek(-100, 2)
    tell(name, file.read().split()[-1].decode())
"""),
    "sendfile": of_each(
        """
fd = os.open(name, os.O_RDONLY)
with open('mine', 'w+b') as mine:
    os.sendfile(mine.fileno(), fd, 0, 9999)
    mine.seek(0)
    show(name, mine.read())
os.close(fd)
os.remove('mine')
"""
    ),
    "copy-file-range": of_each(
        """
fd = os.open(name, os.O_RDONLY)
with open('mine', 'w+b') as mine:
    os.copy_file_range(fd, mine.fileno(), 9999)
    mine.seek(0)
    show(name, mine.read())
os.close(fd)
os.remove('mine')
"""
    ),
    "splice": of_each("""
fd = os.open(name, os.O_RDONLY)
out, into = os.pipe()
size = os.splice(fd, into, 9999)
show(name, os.read(out, size))
os.close(fd)
os.close(out)
os.close(into)
"""),
    "shutil-copyfile": of_each(
        """
shutil.copyfile(name, 'mine')
with open('mine', 'rb') as mine:
    show(name, mine.read())
os.remove('mine')
""",
        "import shutil\n",
    ),
    "dev-fd": of_each("""
fd = os.open(name, os.O_RDONLY)
with open(f'/dev/fd/{fd}', 'rb') as file:
    show(name, file.read())
os.close(fd)
"""),
    "dup2-to-stdin": of_each("""
fd = os.open(name, os.O_RDONLY)
os.dup2(fd, 0)
os.close(fd)
show(name, os.read(0, 9999))
"""),
    "opened-and-left": of_each(
        """
file = open(name, 'rb')
show(name, file.read())
kept.append(file)
""",
        "kept = []\n",
    ),
    "read-and-write": of_each("""
with open(name, 'r+b') as file:
    show(name, file.read())
"""),
    "child-stdin": of_each(
        """
with open(name, "rb") as file:
    tell(name, subprocess.run(["cksum"], stdin=file, capture_output=True, text=True, check=True).stdout.strip())
""",
        "import subprocess\n",
    ),
    "child-stdin-closed-first": of_each(
        """
with open(name, "rb") as file:
    child = subprocess.Popen(["sh", "-c", "sleep 0.1; cksum"], stdin=file, stdout=subprocess.PIPE, text=True)
tell(name, child.communicate()[0].strip())
""",
        "import subprocess\n",
    ),
    "child-cat": of_each(
        """
show(name, subprocess.run(["cat", name], capture_output=True, check=True).stdout)
""",
        "import subprocess\n",
    ),
    "exists-first": of_each(
        """
while not os.path.exists(name):
    time.sleep(0.01)
get(name)
""",
        "import time\n",
    ),
    "c-fread": reads("""
        FILE* file = fdopen(dup(fd), "r");
        show(name, content, fread(content, 1, sizeof content, file));
        fclose(file);
"""),
    "c-getline": reads(
        """
        FILE* file = fopen(name, "r");
        char* line = NULL;
        size_t room = 0, at = 0;
        for (ssize_t got; (got = getline(&line, &room, file)) > 0; at += got) memcpy(content + at, line, got);
        show(name, content, at);
        fclose(file);
"""
    ),
    "c-fscanf": reads(
        """
        FILE* file = fopen(name, "r");
        size_t at = 0;
        for (int number; fscanf(file, "%d", &number) == 1;) at += sprintf(content + at, "%d\\n", number);
        show(name, content, at);
        fclose(file);
"""
    ),
    "c-mmap": reads("""
        void* memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        show(name, memory, size);
        munmap(memory, size);
"""),
    "c-mmap-closed-first": reads(
        """
        void* memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        show(name, memory, size);
        munmap(memory, size);
"""
    ),
    "c-syscall": reads(
        """
        show(name, content, syscall(SYS_read, fd, content, sizeof content));
""",
        "#include <sys/syscall.h>\n",
    ),
    "c-aio": reads(
        """
        struct aiocb request = {.aio_fildes = fd, .aio_buf = content, .aio_nbytes = sizeof content};
        const struct aiocb* all[] = {&request};
        must(aio_read(&request) == 0, "aio_read");
        while (aio_error(&request) == EINPROGRESS) aio_suspend(all, 1, NULL);
        show(name, content, aio_return(&request));
""",
        "#include <aio.h>\n",
    ),
    "c-splice": reads(
        """
        int ends[2];
        must(pipe(ends) == 0, "pipe");
        ssize_t moved = splice(fd, NULL, ends[1], NULL, size, 0);
        show(name, content, read(ends[0], content, moved));
        close(ends[0]);
        close(ends[1]);
"""
    ),
    "c-popen": c("""
int main(void) {
    for (int k = 0; k < N; k++) {
        char line[200];
        sprintf(line, "cat %s", name_of(k));
        FILE* pipe = popen(line, "r");
        show(name_of(k), content, fread(content, 1, sizeof content, pipe));
        pclose(pipe);
    }
}
"""),
}

HABITS = [Habit(f"write-{name}", program, READS) for name, program in WRITERS.items() if name != "c-large-stdio"]
HABITS += [
    Habit(
        "write-c-large-stdio",
        WRITERS["c-large-stdio"],
        READS,
    )
]
HABITS += [Habit(f"read-{name}", BYTES, program) for name, program in READERS.items()]

ONE_NAME = py("""
for k in range(N):
    put("state.dat", k)
""")
STREAMED = (
    *("fromfile", "read-bytes", "mmap", "fdopen", "readv", "pread-backwards", "splice", "sendfile", "shutil-copyfile"),
    *("child-stdin", "child-stdin-closed-first", "child-cat", "exists-first"),
)
"""Ways to read after which the next open of a name that is rewritten must be the next file."""

HABITS += [
    Habit(
        f"one-name-{name}",
        ONE_NAME,
        py(READERS[name].lines.replace("in NAMES", 'in ["state.dat"] * N')),
        "state.dat",
        endless=True,
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
    )
    for name in STREAMED
]
