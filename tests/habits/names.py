"""Habits of names: links, renames, folders and temporary files."""

from __future__ import annotations

from habits.common import BYTES, HDF5, READS, READS5
from habits.rig import Habit, Program, Refusal, c, py, sh


def each(lines: str, head: str = "") -> Program:
    """A Python producer that makes ``name``, whose content is that of step k."""
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os\n{head}for k, name in enumerate(NAMES):\n{body}")


def of_each(lines: str, head: str = "") -> Program:
    body = "".join(f"    {line}\n" for line in lines.strip("\n").splitlines())
    return py(f"import os\n{head}for k, name in enumerate(NAMES):\n{body}")


LINKS = [
    Habit(
        "write-ln",
        sh("""
for k in $(steps); do text $k > draft; ln draft plt000$k.dat; rm draft; done
"""),
        READS,
    ),
    Habit(
        "write-os-link",
        each("""
put('draft', k)
os.link('draft', name)
os.remove('draft')
"""),
        READS,
    ),
    Habit(
        "write-ln-s",
        sh("""
for k in $(steps); do text $k > real$k; ln -s real$k plt000$k.dat; done
"""),
        READS,
    ),
    Habit(
        "write-os-symlink",
        each("""
put(f'real{k}', k)
os.symlink(f'real{k}', name)
"""),
        READS,
    ),
    Habit(
        "latest-is-a-link",
        each("""
put(name, k)
os.symlink(name, 'latest.new')
os.replace('latest.new', 'latest')
"""),
        READS,
    ),
    Habit(
        "read-ln",
        BYTES,
        sh("""
for k in $(steps); do ln plt000$k.dat mine; cat mine | show $k; rm mine; done
"""),
    ),
    Habit(
        "read-os-link",
        BYTES,
        of_each("""
os.link(name, 'mine')
get('mine')
os.remove('mine')
"""),
    ),
    Habit(
        "read-ln-s",
        BYTES,
        sh("""
for k in $(steps); do ln -s plt000$k.dat mine; cat mine | show $k; rm mine; done
"""),
    ),
    Habit(
        "read-os-symlink",
        BYTES,
        of_each("""
os.symlink(os.path.abspath(name), 'mine')
get('mine')
os.remove('mine')
"""),
    ),
    Habit(
        "read-symlink-h5",
        HDF5,
        py("""
import os
for name in NAMES5:
    os.symlink(name, 'mine')
    get5('mine')
    os.remove('mine')
"""),
        "plt*.h5",
    ),
    Habit(
        "read-readlink-f",
        BYTES,
        sh("""
for k in $(steps); do cat "$(readlink -f plt000$k.dat)" | show $k; done
"""),
    ),
    Habit(
        "read-cp-l",
        BYTES,
        sh("""
for k in $(steps); do cp -l plt000$k.dat mine; cat mine | show $k; rm mine; done
"""),
    ),
    Habit(
        "read-cp-s",
        BYTES,
        sh("""
for k in $(steps); do cp -s plt000$k.dat mine; cat mine | show $k; rm mine; done
"""),
    ),
    Habit(
        "link-to-keep",
        BYTES,
        of_each("""
os.makedirs('keep', exist_ok=True)
os.link(name, f'keep/{k}')
get(name)
"""),
    ),
    Habit(
        "folder-is-a-link",
        py("""
import os
os.makedirs('run1', exist_ok=True)
for k, name in enumerate(NAMES):
    put('run1/' + name, k)
"""),
        py("""
import os
os.symlink('run1', 'current')
for name in NAMES:
    get('current/' + name)
"""),
        before={"run1/": ""},
    ),
]

RENAMES = [
    Habit(
        "write-rename",
        each("""
put(f'draft{k}', k)
os.rename(f'draft{k}', name)
"""),
        READS,
    ),
    Habit(
        "write-rename-past-the-c-library",
        c("""
#include <sys/syscall.h>
static long rename_by_kernel(const char* from, const char* to)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_rename), "D"(from), "S"(to) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
#endif
}

int main(void)
{
    for (int k = 0; k < N; k++) {
        make(k);
        int fd = open("draft", O_RDWR | O_CREAT | O_EXCL, 0644);
        must(fd >= 0 && write(fd, content, length) == (long)length, "write");
        must(rename_by_kernel("draft", name_of(k)) == 0, "rename");
        must(close(fd) == 0, "close");
    }
    return 0;
}
"""),
        READS,
    ),
    Habit(
        "write-replace",
        each("""
put('draft', k)
os.replace('draft', name)
"""),
        READS,
    ),
    Habit(
        "write-rename-h5",
        py("""
import os
for k, name in enumerate(NAMES5):
    put5('draft', k)
    os.rename('draft', name)
"""),
        READS5,
        "plt*.h5",
    ),
    Habit(
        "write-rename-of-the-port",
        each("""
put(name + '.tmp', k)
os.rename(name + '.tmp', name)
"""),
        READS,
        "plt*",
    ),
    Habit(
        "write-rename-of-the-port-h5",
        py("""
import os
for k, name in enumerate(NAMES5):
    put5('plt.tmp', k)
    os.rename('plt.tmp', name)
"""),
        READS5,
        "plt*",
    ),
    Habit(
        "write-part",
        each("""
put(name + '.part', k)
os.rename(name + '.part', name)
"""),
        READS,
    ),
    Habit(
        "write-hidden",
        each("""
put('.' + name, k)
os.rename('.' + name, name)
"""),
        READS,
    ),
    Habit(
        "write-move-folder",
        each(
            """
os.makedirs('tmp', exist_ok=True)
put('tmp/' + name, k)
shutil.move('tmp/' + name, '.')
""",
            "import shutil\n",
        ),
        READS,
    ),
    Habit(
        "write-from-tmp",
        each(
            """
put(f'/tmp/habit-{os.getpid()}', k)
shutil.move(f'/tmp/habit-{os.getpid()}', name)
""",
            "import shutil\n",
        ),
        READS,
    ),
    Habit("write-mv-n", sh("for k in $(steps); do text $k > draft; mv -n draft plt000$k.dat; done\n"), READS),
    Habit(
        "write-mv-t",
        sh("""
mkdir -p d; for k in $(steps); do text $k > d/plt000$k.dat; mv -t . d/plt000$k.dat; done
"""),
        READS,
    ),
    Habit(
        "folder-renamed",
        each("""
os.mkdir('tmp')
put('tmp/data.bin', k)
os.rename('tmp', f'step{k}')
"""),
        py("""
import os
for k in range(N):
    get(f'step{k}/data.bin')
"""),
        "step*/data.bin",
    ),
    Habit(
        "backup-of-one-name",
        py("""
import os
for k in range(N):
    if os.path.exists('state.dat'):
        os.replace('state.dat', 'state.bak')
    put('state.dat', k)
"""),
        py("""
for _ in range(N):
    get('state.dat')
"""),
        "state.dat",
        endless=True,
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
    ),
    Habit(
        "one-name-renamed",
        py("""
import os
for k in range(N):
    put('draft', k)
    os.replace('draft', 'state.dat')
"""),
        py("""
for _ in range(N):
    get('state.dat')
"""),
        "state.dat",
        endless=True,
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
    ),
    Habit(
        "read-then-rename",
        BYTES,
        of_each("""
get(name)
os.makedirs('done', exist_ok=True)
os.rename(name, 'done/' + name)
"""),
    ),
    Habit(
        "claim-by-rename",
        BYTES,
        of_each("""
os.rename(name, 'claimed')
get('claimed')
os.remove('claimed')
"""),
    ),
    Habit(
        "claim-by-rename-in-the-port",
        BYTES,
        of_each("""
os.rename(name, name + '.work')
get(name + '.work')
os.remove(name + '.work')
"""),
        "plt*",
    ),
    Habit(
        "read-replace-own",
        BYTES,
        of_each("""
os.replace(name, 'current')
get('current')
"""),
    ),
    Habit(
        "read-shutil-move",
        BYTES,
        of_each(
            """
os.makedirs('done', exist_ok=True)
shutil.move(name, 'done/')
get('done/' + name)
""",
            "import shutil\n",
        ),
    ),
    Habit(
        "read-then-remove",
        BYTES,
        of_each("""
get(name)
os.remove(name)
"""),
    ),
    Habit(
        "read-then-rm-h5",
        HDF5,
        py("""
import os
for name in NAMES5:
    get5(name)
    os.unlink(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "unlink-while-open",
        BYTES,
        of_each("""
file = open(name, 'rb')
os.remove(name)
show(name, file.read())
file.close()
"""),
    ),
    Habit(
        "read-mv-saved",
        BYTES,
        sh("""
for k in $(steps); do cat plt000$k.dat | show $k; mv plt000$k.dat old-$k; done
"""),
    ),
]

MAKES_OUT = "import os\nos.makedirs('out', exist_ok=True)\n"
IN_OUT = py("""
import os
os.makedirs('out', exist_ok=True)
for k, name in enumerate(NAMES):
    put('out/' + name, k)
""")

LISTS_DOT_DOT = py("""
import os
os.mkdir('sub')
os.chdir('sub')
for name in sorted(os.listdir('..')):
    if name.endswith('.dat'):
        get('../' + name)
""")

FOLDERS = [
    Habit(
        "subfolder",
        IN_OUT,
        py("""
for name in NAMES:
    get('out/' + name)
"""),
    ),
    Habit(
        "subfolder-pattern",
        IN_OUT,
        py("""
for name in NAMES:
    get('out/' + name)
"""),
        "out/plt*.dat",
    ),
    Habit(
        "subfolder-listed",
        IN_OUT,
        py("""
import glob
for name in sorted(glob.glob('out/plt*.dat')):
    get(name)
"""),
    ),
    Habit(
        "subfolder-listed-there",
        IN_OUT,
        py("""
import glob, os
os.chdir('out')
for name in sorted(glob.glob('plt*.dat')):
    get(name)
"""),
        before={"out/": ""},
    ),
    Habit(
        "subfolder-chdir",
        py("""
import os
os.makedirs('out', exist_ok=True)
os.chdir('out')
for k, name in enumerate(NAMES):
    put(name, k)
"""),
        py("""
for name in NAMES:
    get('out/' + name)
"""),
    ),
    Habit(
        "reader-chdir",
        IN_OUT,
        py("""
import os
os.chdir('out')
for name in NAMES:
    get(name)
"""),
        before={"out/": ""},
    ),
    Habit(
        "folder-of-its-own-later",
        IN_OUT,
        py("""
import os, time
while not os.path.isdir('out'):
    time.sleep(0.01)
os.chdir('out')
for name in NAMES:
    get(name)
"""),
    ),
    Habit(
        "absolute-writer",
        py("""
import os
for k, name in enumerate(NAMES):
    put(os.path.abspath(name), k)
"""),
        READS,
    ),
    Habit(
        "absolute-reader",
        BYTES,
        py("""
import os
for name in NAMES:
    get(os.path.abspath(name))
"""),
    ),
    Habit(
        "absolute-listed",
        BYTES,
        py("""
import glob, os
for name in sorted(glob.glob(os.getcwd() + '/plt*.dat')):
    get(name)
"""),
    ),
    Habit(
        "dotted",
        BYTES,
        py("""
for name in NAMES:
    get('./' + name)
"""),
    ),
    Habit(
        "dot-dot",
        IN_OUT,
        py("""
for name in NAMES:
    get('out/../out/./' + name)
"""),
        before={"out/": ""},
    ),
    Habit(
        "double-slash",
        IN_OUT,
        py("""
for name in NAMES:
    get('out//' + name)
"""),
    ),
    Habit(
        "dot-dot-listed",
        BYTES,
        LISTS_DOT_DOT,
        refused=Refusal(
            "consumer: failed at its 2nd start",
            "A program that lists, reads what is there and ends is started again for the steps that came meanwhile; "
            "this one does not start where it has been before: it makes a folder that is there. The run says so. "
            "`listing: end` on the in-port shows it all steps in its one start.",
        ),
    ),
    Habit("dot-dot-listed-at-the-end", BYTES, LISTS_DOT_DOT, into={"listing": "end"}),
    Habit(
        "reader-elsewhere",
        BYTES,
        py("""
for name in NAMES:
    get('../work/' + name)
"""),
        consumer={"cwd": "analysis"},
    ),
    Habit(
        "reader-elsewhere-lists",
        BYTES,
        py("""
import glob
for name in sorted(glob.glob('../work/plt*.dat')):
    get(name)
"""),
        consumer={"cwd": "analysis"},
    ),
    Habit(
        "reader-elsewhere-looks",
        BYTES,
        py("""
import os
for name in NAMES:
    if os.path.exists('../work/' + name):
        get('../work/' + name)
"""),
        consumer={"cwd": "analysis"},
    ),
    Habit(
        "writer-elsewhere",
        py("""
for k, name in enumerate(NAMES):
    put('../work/' + name, k)
"""),
        READS,
        producer={"cwd": "sim"},
    ),
    Habit(
        "dir-fd",
        BYTES,
        py("""
import os
folder = os.open('.', os.O_RDONLY)
for name in NAMES:
    fd = os.open(name, os.O_RDONLY, dir_fd=folder)
    show(name, os.read(fd, 9999))
    os.close(fd)
"""),
    ),
    Habit(
        "dir-fd-looks",
        BYTES,
        py("""
import os
folder = os.open('.', os.O_RDONLY)
for name in NAMES:
    tell(os.stat(name, dir_fd=folder).st_size)
    get(name)
"""),
    ),
    Habit(
        "list-by-fd",
        BYTES,
        py("""
import os
folder = os.open('.', os.O_RDONLY)
for name in sorted(os.listdir(folder)):
    if name.endswith('.dat'):
        get(name)
"""),
    ),
    Habit(
        "pushd", IN_OUT, sh("for k in $(steps); do (cd out && cat plt000$k.dat | show $k); done\n"), before={"out/": ""}
    ),
    Habit(
        "folder-for-each",
        py("""
import os
for k in range(N):
    os.makedirs(f'step{k}')
    put(f'step{k}/data.bin', k)
"""),
        py("""
for k in range(N):
    get(f'step{k}/data.bin')
"""),
        "step*/data.bin",
    ),
    Habit(
        "folder-for-each-listed",
        py("""
import os
for k in range(N):
    os.makedirs(f'step{k}')
    put(f'step{k}/data.bin', k)
"""),
        py("""
import glob
for name in sorted(glob.glob('step*/data.bin')):
    get(name)
"""),
        "step*/data.bin",
        into={"listing": "end"},
    ),
    Habit(
        "processed-of-the-same-name",
        BYTES,
        of_each("""
os.makedirs('processed', exist_ok=True)
with open(name, 'rb') as file:
    data = file.read()
show(name, data)
with open('processed/' + name, 'wb') as file:
    file.write(data[::-1])
"""),
    ),
    Habit(
        "processed-then-read-back",
        BYTES,
        of_each("""
os.makedirs('processed', exist_ok=True)
with open(name, 'rb') as file, open('processed/' + name, 'wb') as mine:
    mine.write(file.read())
get('processed/' + name)
"""),
    ),
    Habit(
        "result-matches-the-pattern",
        BYTES,
        of_each("""
get(name)
put(f'plt-mean{k}.dat', k)
get(f'plt-mean{k}.dat')
"""),
    ),
    Habit(
        "archive-listed",
        BYTES,
        sh("""
mkdir -p archive
for k in $(steps); do cp plt000$k.dat archive/; done
for f in archive/*.dat; do cat "$f" | show "$f"; done
"""),
    ),
    Habit(
        "find-from-above",
        IN_OUT,
        sh("""
find .. -path '*work*' -name 'plt*.dat' | sort | while read -r f; do cat "$f" | show "$f"; done
"""),
        into={"listing": "end"},
    ),
    Habit(
        "made-anew",
        py("""
import os, shutil
shutil.rmtree('out', ignore_errors=True)
os.makedirs('out')
for k, name in enumerate(NAMES):
    put('out/' + name, k)
"""),
        py("""
for name in NAMES:
    get('out/' + name)
"""),
        before={"out/": ""},
    ),
    Habit(
        "own-cleanup-first",
        py("""
import glob, os
for name in glob.glob('plt*.dat'):
    os.remove(name)
for k, name in enumerate(NAMES):
    put(name, k)
"""),
        READS,
    ),
    Habit(
        "numbers-by-what-is-there",
        py("""
import glob
for k in range(N):
    put(f'plt{len(glob.glob("plt*.dat")):04d}.dat', k)
"""),
        READS,
    ),
    Habit(
        "next-free-name",
        py("""
import os
for k in range(N):
    free = 0
    while os.path.exists(f'plt{free:04d}.dat'):
        free += 1
    put(f'plt{free:04d}.dat', k)
"""),
        READS,
    ),
]

TEMPORARY = [
    Habit(
        "named-temporary",
        each(
            """
with tempfile.NamedTemporaryFile(dir='.', delete=False) as file:
    file.write(text(k))
os.rename(file.name, name)
""",
            "import tempfile\n",
        ),
        READS,
    ),
    Habit(
        "named-temporary-of-the-port",
        each(
            """
with tempfile.NamedTemporaryFile(dir='.', prefix='plt', suffix='.tmp', delete=False) as file:
    file.write(text(k))
os.rename(file.name, name)
""",
            "import tempfile\n",
        ),
        READS,
        "plt*",
    ),
    Habit(
        "linked-before-delete",
        each(
            """
with tempfile.NamedTemporaryFile(dir='.') as file:
    file.write(text(k))
    file.flush()
    os.link(file.name, name)
""",
            "import tempfile\n",
        ),
        READS,
    ),
    Habit(
        "mkstemp",
        each(
            """
fd, draft = tempfile.mkstemp(dir='.')
os.write(fd, text(k))
os.close(fd)
os.replace(draft, name)
""",
            "import tempfile\n",
        ),
        READS,
    ),
    Habit(
        "mktemp-shell",
        sh("""
for k in $(steps); do draft=$(mktemp ./XXXXXX); text $k > $draft; mv $draft plt000$k.dat; done
"""),
        READS,
    ),
    Habit(
        "o-tmpfile",
        each("""
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644)
os.write(fd, text(k))
os.link(f'/proc/self/fd/{fd}', name, src_dir_fd=os.open('.', 0), follow_symlinks=True)
os.close(fd)
"""),
        READS,
    ),
    Habit(
        "scratch-removed",
        each("""
put('scratch', k)
assert os.path.getsize('scratch')
os.remove('scratch')
put(name, k)
"""),
        READS,
    ),
    Habit(
        "scratch-of-the-port-removed",
        each("""
put('plt-scratch.dat', 99)
os.remove('plt-scratch.dat')
put(name, k)
"""),
        READS,
    ),
    Habit(
        "sed-in-place",
        sh("""
for k in $(steps); do text $k | sed 's/^/x/' > draft$k; sed -i 's/^x//' draft$k; mv draft$k plt000$k.dat; done
"""),
        READS,
    ),
    Habit(
        "sort-in-place",
        sh("""
for k in $(steps); do text $k | sort -r > draft; sort -n -o draft draft; mv draft plt000$k.dat; done
"""),
        READS,
    ),
    Habit(
        "reader-temporary-of-the-port",
        BYTES,
        of_each(
            """
with tempfile.NamedTemporaryFile(dir='.', prefix='plt', suffix='.dat') as mine:
    with open(name, 'rb') as file:
        mine.write(file.read())
    mine.flush()
    mine.seek(0)
    show(name, mine.read())
""",
            "import tempfile\n",
        ),
    ),
    Habit(
        "reader-temporary-folder",
        BYTES,
        of_each(
            """
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(name, folder)
    with open(f'{folder}/{name}', 'rb') as file:
        show(name, file.read())
""",
            "import shutil, tempfile\n",
        ),
    ),
    Habit(
        "rsync-like-name",
        each("""
put(f'.{name}.Xa2b3c', k)
os.rename(f'.{name}.Xa2b3c', name)
"""),
        READS,
        "*plt*",
    ),
    Habit(
        "exclusive-creation",
        each("""
with open(name, 'xb') as file:
    file.write(text(k))
"""),
        READS,
    ),
]

LOCKED_WRITES = each(
    """
with open("lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    put(name, k)
""",
    "import fcntl\n",
)

LOCKED_LOOKS = py("""
import fcntl, os, time
k = 0
while k < N:
    with open("lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(NAMES[k]):
            get(NAMES[k])
            k += 1
    time.sleep(0.01)
""")

LOCKS = [
    Habit(
        "write-flock",
        each(
            """
with open(name, 'wb') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(text(k))
""",
            "import fcntl\n",
        ),
        READS,
    ),
    Habit(
        "write-lockf",
        each(
            """
with open(name, 'wb') as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(text(k))
""",
            "import fcntl\n",
        ),
        READS,
    ),
    Habit(
        "read-flock",
        BYTES,
        of_each(
            """
with open(name, 'rb') as file:
    fcntl.flock(file, fcntl.LOCK_SH)
    show(name, file.read())
""",
            "import fcntl\n",
        ),
    ),
    Habit(
        "read-lockf",
        BYTES,
        of_each(
            """
with open(name, 'rb') as file:
    fcntl.lockf(file, fcntl.LOCK_SH)
    show(name, file.read())
""",
            "import fcntl\n",
        ),
    ),
    Habit(
        "lock-then-read-again",
        BYTES,
        of_each(
            """
with open(name, 'rb') as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
get(name)
""",
            "import fcntl\n",
        ),
    ),
    Habit(
        "flock-command-reads",
        BYTES,
        sh("""
for k in $(steps); do flock -s plt000$k.dat cat plt000$k.dat | show $k; done
"""),
        needs=("flock",),
    ),
    Habit(
        "flock-command-writes",
        sh("""
for k in $(steps); do text $k > draft; flock lock cp draft plt000$k.dat; done; rm draft lock
"""),
        READS,
        needs=("flock",),
    ),
    Habit(
        "lock-file",
        each("""
fd = os.open('lock', os.O_CREAT | os.O_EXCL)
put(name, k)
os.close(fd)
os.remove('lock')
"""),
        READS,
    ),
    Habit(
        "lock-file-of-the-port",
        each("""
fd = os.open(name + '.lock', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
put(name, k)
os.close(fd)
os.remove(name + '.lock')
"""),
        READS,
        "plt*",
    ),
    Habit(
        "both-sides-lock-while-looking",
        LOCKED_WRITES,
        LOCKED_LOOKS,
        beside=True,
        refused=Refusal(
            "producer has waited|consumer has waited",
            "Each side holds a lock of its own while it waits, the producer for room and the consumer's look "
            "for a step, and the other waits for the lock. The report of the stuck run says who waits; `looks: now` "
            "and a `queue:` with room for what is written meanwhile mend it.",
        ),
    ),
    Habit(
        "both-sides-lock-while-looking-now",
        LOCKED_WRITES,
        LOCKED_LOOKS,
        into={"looks": "now", "queue": 8},
        beside=True,
    ),
    Habit(
        "write-locked-h5",
        py("""
import h5py, os
for k, name in enumerate(NAMES5):
    with h5py.File(name, 'w', locking=True) as file:
        file['x'] = range(k, k + 1000)
"""),
        py("""
import h5py
for name in NAMES5:
    with h5py.File(name, 'r', locking=True) as file:
        show(name, file['x'][()])
"""),
        "plt*.h5",
    ),
    Habit(
        "waits-for-the-writers-lock",
        each(
            """
with open(name, 'wb') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(text(k)[:10])
    file.flush()
    file.write(text(k)[10:])
""",
            "import fcntl\n",
        ),
        py("""
import fcntl, os, time
for name in NAMES:
    while not os.path.exists(name):
        time.sleep(0.01)
    data = b""
    while not data.endswith(b"\\n") or len(data) < 3000:
        with open(name, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            data = file.read()
    show(name, data)
"""),
        beside=True,
    ),
]
