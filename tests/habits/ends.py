"""Habits of ends: programs, and processes of theirs, end with files open, by whatever death."""

from __future__ import annotations

from habits.common import BYTES, READS, READS5
from habits.rig import Habit, Refusal, c, py, sh

LEAVES5 = """
import os, signal, sys
kept = []
def leave5(name, k, **how):
    import h5py
    file = h5py.File(name, "w", **how)
    file["x"] = range(k, k + 1000)
    file.flush()
    kept.append(file)
"""
"""What leaves an HDF5 file open, and flushed."""

LEAVES = """
import os, signal, sys
def leave(name, k):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, text(k))
"""


def each(leaves: str, end: str, names: str = "NAMES5", call: str = "leave5(name, k)") -> str:
    """A child for each file, which leaves it open and comes to an end."""
    return f"""{leaves}
for k, name in enumerate({names}):
    child = os.fork()
    if child == 0:
        {call}
        {end}
    os.waitpid(child, 0)
    assert os.path.exists(name)
"""


def left5(name: str, end: str) -> Habit:
    return Habit(name, py(each(LEAVES5, end)), READS5, "plt*.h5")


def left(name: str, end: str) -> Habit:
    return Habit(name, py(each(LEAVES, end, "NAMES", "leave(name, k)")), READS)


def c_left(name: str, end: str, close: str = "") -> Habit:
    """A child in C for each file, which writes it by a descriptor."""
    return Habit(
        name,
        c(f"""
#include <sys/syscall.h>
int main(void)
{{
    for (int k = 0; k < N; k++) {{
        if (fork() == 0) {{
            make(k);
            int fd = open(name_of(k), O_WRONLY | O_CREAT | O_TRUNC, 0644);
            must(write(fd, content, length) == (long)length, "write");
            {close}
            {end};
        }}
        wait(NULL);
        must(access(name_of(k), F_OK) == 0, "access");
    }}
    return 0;
}}
"""),
        READS,
    )


def c_raw(name: str, opens: str, closes: str) -> Habit:
    """Calls of the kernel by their number."""
    return Habit(
        name,
        c(f"""
#include <sys/syscall.h>
int main(void)
{{
    for (int k = 0; k < N; k++) {{
        make(k);
        int fd = (int){opens};
        must(fd >= 0 && pwrite(fd, content, length, 0) == (long)length, "write");
        must({closes} >= 0, "close");
    }}
    return 0;
}}
"""),
        READS,
    )


OPEN = "open(name_of(k), O_RDWR | O_CREAT | O_TRUNC, 0644)"
NODE = ("node",)
TRUE = 'os.execv("/bin/true", ["true"])'
HABITS = [
    left5("flushed-exit-now", "os._exit(0)"),
    left5("flushed-exit-now-in-failure", "os._exit(3)"),
    left5("flushed-exec", TRUE),
    left5("flushed-kill", "os.kill(os.getpid(), signal.SIGKILL)"),
    left5("flushed-terminate", "os.kill(os.getpid(), signal.SIGTERM)"),
    left5("flushed-abort", "os.abort()"),
    Habit(
        "flushed-in-newest-format",
        py(each(LEAVES5, "os._exit(0)", call='leave5(name, k, libver="latest")')),
        py("""
for name in NAMES5:
    try:
        get5(name)
    except OSError:
        tell(name, "cannot be opened")
"""),
        "plt*.h5",
        expected=tuple(f"plt{k:04d}.h5=#{k}" for k in range(6)),
    ),
    Habit(
        "flushed-in-multiprocessing",
        py(f"""{LEAVES5}
import multiprocessing
context = multiprocessing.get_context("fork")
for k, name in enumerate(NAMES5):
    process = context.Process(target=leave5, args=(name, k))
    process.start()
    process.join()
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "flushed-in-pool-that-is-terminated",
        py(f"""{LEAVES5}
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.starmap(leave5, [(name, k) for k, name in enumerate(NAMES5)], 1)
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "flushed-then-written",
        py(
            each(LEAVES5, "os._exit(0)", call="leave5(name, 0); kept[0]['x'][:] = range(k, k + 1000)").replace(
                "    assert os.path.exists(name)\n", ""
            )
        ),
        READS5,
        "plt*.h5",
        refused=Refusal(
            "was still open when its process ended",
            "HDF5 that was written since its last flush may not be whole: flush or close it before the process ends.",
        ),
    ),
    Habit(
        "flushed-of-many-children-at-once",
        py(f"""{LEAVES5}
children = []
for k, name in enumerate(NAMES5):
    child = os.fork()
    if child == 0:
        leave5(name, k)
        os.kill(os.getpid(), signal.SIGKILL if k % 2 else signal.SIGTERM)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "flushed-and-killed-by-parent",
        py(f"""{LEAVES5}
for k, name in enumerate(NAMES5):
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        leave5(name, k)
        os.write(ends[1], b".")
        signal.pause()
    os.read(ends[0], 1)
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED)
    assert os.path.exists(name)
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "flushed-name-again",
        py(f"""{LEAVES5}
for name in NAMES5[:3]:
    for k in 7, 8:
        child = os.fork()
        if child == 0:
            leave5(name, k)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        os.waitpid(child, 0)
    put5(name, 9)
"""),
        py("for name in NAMES5[:3]:\n    for _ in range(3):\n        get5(name)\n"),
        "plt*.h5",
        unordered=True,
        expected=tuple(f"plt{k:04d}.h5=#{content}" for k in range(3) for content in (7, 8, 9)),
    ),
    left("descriptor-exit-now", "os._exit(0)"),
    left("descriptor-exit-now-in-failure", "os._exit(3)"),
    left("descriptor-exit", "sys.exit()"),
    left("descriptor-exec", TRUE),
    c_left("c-exit", "exit(0)"),
    c_left("c-exit-now", "_exit(0)"),
    c_left("c-exit-now-by-its-other-name", "_Exit(1)"),
    c_left("c-quick-exit", "quick_exit(0)"),
    c_left("c-exit-by-number", "syscall(SYS_exit_group, 0)"),
    c_left("c-duplicate-left", "_exit(0)", "dup(fd); close(fd);"),
    c_left("c-exec", 'execl("/bin/true", "true", NULL)'),
    c_left("c-exec-that-closes-by-its-end", 'execl("/bin/sleep", "sleep", "0.05", NULL)'),
    c_left(
        "c-exec-that-writes-on",
        'execl("/bin/sh", "sh", "-c", "cat part >&9", NULL)',
        'ftruncate(fd, 1000); lseek(fd, 1000, SEEK_SET); int part = open("part", O_WRONLY | O_CREAT | O_TRUNC, 0644);'
        "write(part, content + 1000, length - 1000); close(part); dup2(fd, 9);",
    ),
    c_left(
        "c-vfork-that-writes-on",
        "_exit(0)",
        'ftruncate(fd, 0); lseek(fd, 0, SEEK_SET); int part = open("part", O_WRONLY | O_CREAT | O_TRUNC, 0644);'
        "write(part, content, length); close(part); if (vfork() == 0) { dup2(fd, 1);"
        'execl("/bin/cat", "cat", "part", NULL); }'
        "close(fd); wait(NULL);",
    ),
    Habit(
        "program-execs-with-the-last-left-open",
        c("""
    for (int k = 0; k < N; k++) {
        make(k);
        int fd = open(name_of(k), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        must(write(fd, content, length) == (long)length, "write");
        if (k < N - 1) close(fd);
    }
    execl("/bin/true", "true", NULL);
"""),
        READS,
    ),
    Habit(
        "c-stream-exit-now",
        c("""
    for (int k = 0; k < N; k++) {
        if (fork() == 0) {
            make(k);
            FILE* file = fopen(name_of(k), "w");
            fwrite(content, 1, length, file);
            fflush(file);
            fputs("lost", file);
            _exit(0);
        }
        wait(NULL);
    }
"""),
        READS,
    ),
    Habit(
        "killed-in-the-midst",
        py(
            each(LEAVES, "os.kill(os.getpid(), signal.SIGKILL)", "NAMES", "leave(name, k)").replace(
                "    assert os.path.exists(name)\n", ""
            )
        ),
        READS,
        refused=Refusal(
            "was still open when its process ended",
            "What a process was writing when a signal ended it is in no file: close it before.",
        ),
    ),
    c_raw("close-by-number", OPEN, "syscall(SYS_close, fd)"),
    c_raw("close-range-by-number", OPEN, "syscall(SYS_close_range, fd, fd, 0)"),
    c_raw(
        "open-by-number",
        "syscall(SYS_openat, AT_FDCWD, name_of(k), O_RDWR | O_CREAT | O_TRUNC, 0644)",
        "syscall(SYS_close, fd)",
    ),
    c_raw("dup-by-number", f"syscall(SYS_dup3, {OPEN}, 60 + k, 0)", "(close_range(3, 59, 0), syscall(SYS_close, fd))"),
    c_raw("close-fails-by-number", OPEN, '(must(syscall(SYS_close, 999) == -1 && errno == EBADF, "errno"), close(fd))'),
    Habit(
        "reads-by-number",
        BYTES,
        c("""
#include <sys/syscall.h>
int main(void)
{
    for (int k = 0; k < N; k++) {
        struct statx told;
        must(syscall(SYS_statx, AT_FDCWD, name_of(k), 0, STATX_BASIC_STATS, &told) == 0, "statx");
        must(syscall(SYS_faccessat, AT_FDCWD, name_of(k), F_OK) == 0, "faccessat");
        int fd = (int)syscall(SYS_openat, AT_FDCWD, name_of(k), O_RDONLY);
        must(fd >= 0 && read(fd, content, sizeof content) == (long)told.stx_size, "read");
        show(name_of(k), content, told.stx_size);
        syscall(SYS_close, fd);
    }
    must(syscall(SYS_faccessat, AT_FDCWD, "plt0099.dat", F_OK) == -1 && errno == ENOENT, "missing");
    return 0;
}
"""),
    ),
    Habit(
        "node-writes",
        sh("""
node -e '
const fs = require("fs")
for (let k = 0; k < 6; k++) {
    let text = ""
    for (let number = k; number < k + 1000; number++) text += number + "\\n"
    fs.writeFileSync(`plt000${k}.dat`, text)
}'
"""),
        READS,
        needs=NODE,
    ),
    Habit(
        "node-streams",
        sh("""
node -e '
const fs = require("fs")
const write = k => {
    if (k == 6) return
    const file = fs.createWriteStream(`plt000${k}.dat`)
    for (let number = k; number < k + 1000; number++) file.write(number + "\\n")
    file.end(() => write(k + 1))
}
write(0)'
"""),
        READS,
        needs=NODE,
    ),
    Habit(
        "node-reads",
        BYTES,
        sh("""
for k in $(steps); do
    node -e 'process.stdout.write(require("fs").readFileSync(process.argv[1]))' plt000$k.dat | show plt000$k.dat
done
"""),
        needs=NODE,
    ),
    Habit(
        "node-looks-then-reads",
        BYTES,
        sh("""
node -e '
const fs = require("fs")
for (let k = 0; fs.existsSync(`plt000${k}.dat`); k++)
    console.log(`= ${fs.statSync(`plt000${k}.dat`).size} plt000${k}.dat ${fs.readFileSync(`plt000${k}.dat`).length}`)'
"""),
        needs=NODE,
    ),
    Habit(
        "node-copies",
        BYTES,
        sh("""
node -e '
const fs = require("fs")
for (let k = 0; k < 6; k++) fs.copyFileSync(`plt000${k}.dat`, `copy${k}`)'
for k in $(steps); do show copy$k < copy$k; done
"""),
        needs=NODE,
    ),
]
