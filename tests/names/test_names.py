"""Names in the C library: programs that never call a shared HDF5 read and write steps, and look at them, as files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import pytest

from support.running import MPIEXEC
from wilkins.launch.watch.ondisk import targets_in
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

PROGRAMS = Path(__file__).parents[1] / "programs" / "names"
TIMEOUT = 60
WRITE_WAYS = [
    *("write", "openat2", "pwrite", "append", "fopen", "fdopen", "writev", "mmap", "dup", "exit", "fork", "rename"),
]
READ_WAYS = ["read", "openat2", "pread", "readv", "mmap", "fdopen", "fopen"]


class Pair:
    """A producer and a consumer on one channel, in a folder of their own."""

    def __init__(self, folder: Path, pattern: str, queue: int, mode: Literal["memory", "file"]) -> None:
        self.folder = folder
        self.pattern = pattern
        self.mode = mode
        self.log = folder / "layer.log"
        self.work = folder / "work"
        self.work.mkdir()
        self.board = Board.create(
            [BoardTask("producer", 1), BoardTask("consumer", 1)],
            [BoardPort(0, "out", pattern, mode=mode), BoardPort(1, "in", pattern, mode=mode)],
            [BoardChannel(0, 1, every=1, queue=queue, when_full="block", readers=1)],
            log=self.log,
        )

    def start(self, task: int, *command: str | Path) -> subprocess.Popen[str]:
        """Start a program of a task."""
        self.board.task_started(task)
        environment = os.environ | self.board.environment(task, 0)
        return subprocess.Popen(
            command, cwd=self.work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def finish(self, process: subprocess.Popen[str], code: int | None = 0) -> str:
        """Wait for a program and return what it printed."""
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            pytest.fail(f"{process.args!r} still runs after {TIMEOUT} s; it printed {output!r}")
        log = self.log.read_text() if self.log.exists() else ""
        assert code is None or process.returncode == code, f"{process.args!r}: {output}{log}"
        return output

    def produce(self, *command: str | Path, code: int | None = 0) -> str:
        """Run a program of the producer."""
        return self.finish(self.start(0, *command), code)

    def consume(self, *command: str | Path, code: int | None = 0) -> str:
        """Run a program of the consumer."""
        return self.finish(self.start(1, *command), code)

    def both(self, producer: Sequence[str | Path], consumer: Sequence[str | Path]) -> str:
        """Run both at the same time and return what the consumer printed."""
        writing, reading = self.start(0, *producer), self.start(1, *consumer)
        self.finish(writing)
        self.end()
        return self.finish(reading)

    def end(self) -> None:
        """The producer will write nothing more."""
        self.board.task_exited(0, final=True)

    def steps_read(self) -> int:
        """Steps the consumer has read."""
        return self.board.report().ports[1].steps

    def files(self) -> list[str]:
        """What is on disk; where the steps are there, without them."""
        names = sorted(path.name for path in self.work.iterdir())
        on_disk = self.mode == "file"
        return [
            name for name in names if not on_disk or not (name.startswith(".wilkins-") or fnmatch(name, self.pattern))
        ]


class Pairs:
    """Makes pairs."""

    def __init__(self, folder: Path, mode: Literal["memory", "file"]) -> None:
        self.folder = folder
        self.mode = mode
        self.made: list[Pair] = []

    def __call__(self, pattern: str, queue: int = 3) -> Pair:
        folder = self.folder / str(len(self.made))
        folder.mkdir()
        self.made.append(Pair(folder, pattern, queue, self.mode))
        return self.made[-1]


@pytest.fixture(params=["memory", "file"])
def pairs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pairs]:
    """Makes producer and consumer pairs, whose steps are in memory, and then on disk."""
    made = Pairs(tmp_path, request.param)
    yield made
    for pair in made.made:
        pair.board.remove()


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C and C++ programs of this test, built."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("write_bytes", "read_bytes", "unmatched"):
        subprocess.run(["gcc", "-O2", "-Wall", "-o", folder / name, PROGRAMS / f"{name}.c"], check=True)
    fortified = ["gcc", "-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"]
    subprocess.run([*fortified, "-o", folder / "read_fortified", PROGRAMS / "read_bytes.c"], check=True)
    subprocess.run(["g++", "-O2", "-Wall", "-o", folder / "stream_bytes", PROGRAMS / "stream_bytes.cpp"], check=True)
    return folder


@pytest.fixture(scope="module")
def hdf5_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C programs with HDF5 linked statically, as h5cc does by default up to HDF5 1.14, and with shared HDF5."""
    folder = tmp_path_factory.mktemp("hdf5")
    for name in ("write_steps", "read_steps"):
        for suffix, options in (("static", ["-noshlib"]), ("shared", ["-shlib"])):
            # h5cc leaves its object file where it is run.
            subprocess.run(
                ["h5cc", *options, "-o", folder / f"{name}_{suffix}", PROGRAMS / f"{name}.c"], check=True, cwd=folder
            )
    linked = subprocess.run(["ldd", folder / "write_steps_static"], check=True, capture_output=True, text=True).stdout
    assert "libhdf5" not in linked
    return folder


@pytest.mark.usual(
    "memory-write",
    "memory-openat2",
    "memory-pwrite",
    "memory-append",
    "memory-fopen",
    "memory-fdopen",
    "memory-writev",
    "memory-mmap",
    "memory-dup",
    "memory-exit",
    "memory-fork",
    "memory-rename",
    "file-write",
    "file-rename",
    also_between_hosts=[
        "file-openat2",
        "file-pwrite",
        "file-append",
        "file-fopen",
        "file-fdopen",
        "file-writev",
        "file-mmap",
        "file-dup",
        "file-exit",
        "file-fork",
    ],
)
@pytest.mark.needs("gcc", "g++")
@pytest.mark.parametrize("way", WRITE_WAYS)
def test_every_way_to_write_a_file_makes_a_step(pairs: Pairs, build: Path, way: str) -> None:
    pair = pairs("*.bin")
    pair.produce(build / "write_bytes", way, "a.bin")
    assert pair.files() == []
    pair.consume(build / "read_bytes", "read", "a.bin")


@pytest.mark.needs("gcc", "g++")
@pytest.mark.parametrize("way", READ_WAYS)
@pytest.mark.parametrize("program", ["read_bytes", "read_fortified"])
def test_every_way_to_read_a_file_reads_the_next_step(pairs: Pairs, build: Path, program: str, way: str) -> None:
    pair = pairs("a.bin")
    for _ in range(2):
        pair.produce(build / "write_bytes", "write", "a.bin")
    for read in (1, 2):
        pair.consume(build / program, way, "a.bin")
        assert pair.steps_read() == read
    pair.end()
    pair.consume("test", "-e", "a.bin", code=1)


@pytest.mark.needs("gcc", "g++")
def test_cxx_streams(pairs: Pairs, build: Path) -> None:
    pair = pairs("*.bin")
    pair.both([build / "stream_bytes", "write", "a.bin"], [build / "stream_bytes", "read", "a.bin"])
    assert pair.files() == []


@pytest.mark.needs("gcc", "g++")
def test_shell_tools_treat_a_step_as_a_file(pairs: Pairs, build: Path) -> None:
    pair = pairs("*.bin")
    (pair.work / "old.bin").write_text("left by an earlier run")
    pair.produce(build / "write_bytes", "write", "a.bin")
    pair.end()
    pair.consume("test", "-e", "old.bin", code=1)
    assert pair.consume("stat", "-c", "%s %F", "a.bin").split() == ["300001", "regular", "file"]
    assert pair.consume("sh", "-c", "echo *.bin").split() == ["a.bin"]
    assert "a.bin" in pair.consume("ls", "-l")
    pair.consume("cp", "a.bin", "copy.dat")
    pair.consume("sh", "-c", "cat a.bin | cmp - copy.dat")
    pair.consume("rm", "a.bin")
    pair.consume("test", "-e", "a.bin", code=1)
    assert [name for name in pair.files() if name != "old.bin"] == ["copy.dat"]
    assert (pair.work / "old.bin").exists()


@pytest.mark.needs("gcc", "g++")
@pytest.mark.parametrize("command", ["cp", "mv", "install"])
def test_shell_tools_make_steps(pairs: Pairs, build: Path, command: str) -> None:
    pair = pairs("*.bin")
    subprocess.run([build / "write_bytes", "write", "draft.dat"], cwd=pair.work, check=True)
    pair.produce(command, "draft.dat", "a.bin")
    assert "a.bin" not in pair.files()
    pair.consume(build / "read_bytes", "read", "a.bin")


POLLING = """\
import glob, os, time
for step in range(3):
    name = f"s{step}.bin"
    while not os.path.exists(name):
        time.sleep(0.01)
    assert name in os.listdir(".") and name in glob.glob("*.bin"), os.listdir(".")
    assert [entry.stat().st_size for entry in os.scandir(".") if entry.name == name] == [5]
    with open(name, "rb") as file:
        print(file.read().decode())
    os.remove(name)
    assert not os.path.exists(name)
"""

DRAFTS = """\
import os, shutil, time
for step in range(3):
    with open("draft", "w") as file:
        file.write(f"step{step}")
    if step == 1:
        shutil.copy2("draft", f"s{step}.bin")
    else:
        os.replace("draft", f"s{step}.bin")
    time.sleep(0.05)
"""


def test_a_polling_python_consumer(pairs: Pairs) -> None:
    pair = pairs("s*.bin")
    # Of a file on disk whose reader removes it, copy2 may not find the times to set.
    drafts = DRAFTS.replace("copy2", "copyfile") if pair.mode == "file" else DRAFTS
    printed = pair.both([sys.executable, "-c", drafts], [sys.executable, "-c", POLLING])
    assert printed.split() == ["step0", "step1", "step2"]
    assert pair.files() == []


@pytest.mark.usual(
    "memory-static-static-s.h5",
    "memory-shared-static-s%d.h5",
    "file-static-shared-s%d.h5",
    also_between_hosts=[
        "memory-static-static-s%d.h5",
        "memory-static-shared-s%d.h5",
        "memory-static-shared-s.h5",
        "memory-shared-static-s.h5",
        "file-static-static-s%d.h5",
        "file-static-static-s.h5",
        "file-static-shared-s.h5",
        "file-shared-static-s%d.h5",
        "file-shared-static-s.h5",
    ],
)
@pytest.mark.needs("h5cc")
@pytest.mark.parametrize("name", ["s%d.h5", "s.h5"])
@pytest.mark.parametrize(("writer", "reader"), [("static", "static"), ("static", "shared"), ("shared", "static")])
def test_hdf5_linked_statically(pairs: Pairs, hdf5_programs: Path, writer: str, reader: str, name: str) -> None:
    pair = pairs("s*.h5" if "%" in name else name, 2)
    printed = pair.both(
        [hdf5_programs / f"write_steps_{writer}", name, "6"], [hdf5_programs / f"read_steps_{reader}", name, "6"]
    )
    assert printed.splitlines() == [f"{step} right" for step in range(6)]
    assert pair.steps_read() == 6
    assert pair.files() == []


@pytest.mark.needs("h5cc")
def test_hdf5_linked_statically_ends_its_stream(pairs: Pairs, hdf5_programs: Path) -> None:
    pair = pairs("s.h5")
    pair.produce(hdf5_programs / "write_steps_static", "s.h5", "1")
    pair.end()
    assert "unable to open file" in pair.consume(hdf5_programs / "read_steps_static", "s.h5", "2", code=1)


NETCDF = """\
import netCDF4, sys
for step in range(4):
    with netCDF4.Dataset(sys.argv[1].replace("%d", str(step))) as data:
        values = data.variables["values"][:]
    print(step, "right" if values[-1] == 1000 * step + 99 and len(values) == 20000 + 100 * step else values)
"""

TABLES = """\
import tables, sys
for step in range(4):
    with tables.open_file(sys.argv[1].replace("%d", str(step))) as data:
        values = data.root.values[:]
    print(step, "right" if values[-1] == 1000 * step + 99 and len(values) == 20000 + 100 * step else values)
"""


POLLED = """\
import os, time
import tables
open_now = tables.open_file
def open_file(name):
    while not os.path.exists(name):
        time.sleep(0.01)
    return open_now(name)
tables.open_file = open_file
"""


@pytest.mark.usual(
    "memory-netcdf-s%d.h5",
    "memory-pytables-s.h5",
    also_between_hosts=["memory-pytables polling-s%d.h5", "file-netcdf-s.h5"],
)
@pytest.mark.needs("h5cc", "python:netCDF4", "python:tables")
@pytest.mark.parametrize("name", ["s%d.h5", "s.h5"])
@pytest.mark.parametrize("reader", [NETCDF, TABLES, POLLED + TABLES], ids=["netcdf", "pytables", "pytables polling"])
def test_libraries_that_look_before_they_open(pairs: Pairs, hdf5_programs: Path, reader: str, name: str) -> None:
    pair = pairs("s*.h5" if "%" in name else name, 2)
    printed = pair.both([hdf5_programs / "write_steps_static", name, "4"], [sys.executable, "-c", reader, name])
    assert printed.splitlines() == [f"{step} right" for step in range(4)]
    assert pair.steps_read() == 4
    assert pair.files() == []


def python(text: str) -> list[str]:
    """A program that links: `linkat` with all its flags, and what a call fails with."""
    return [sys.executable, "-c", LINKING + text]


LINKING = """\
import ctypes, errno, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def linkat(fd, path, to, flags):
    return ctypes.get_errno() if libc.linkat(fd, path.encode(), -100, to.encode(), flags) else 0
def fails(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x1000
"""


def test_a_link_of_a_file_to_a_port_s_name_publishes_it(pairs: Pairs) -> None:
    pair = pairs("*.bin", queue=9)
    pair.produce(
        *python("""
Path("draft").write_text("first")
os.link("draft", "a.bin")
assert fails(os.link, "draft", "a.bin") == "EEXIST"
os.chmod("draft", 0o640)
Path("draft").write_text("second")
folder = os.open(".", os.O_RDONLY)
os.link("draft", "b.bin", src_dir_fd=folder, dst_dir_fd=folder)
unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.write(unnamed, b"third")
assert linkat(unnamed, "", "c.bin", AT_EMPTY_PATH) == 0
os.write(unnamed, b" and more")
assert linkat(AT_FDCWD, f"/proc/self/fd/{unnamed}", "d.bin", AT_SYMLINK_FOLLOW) == 0
os.link("d.bin", "e.bin")
with open("f.bin", "w") as step:
    step.write("sixth")
    step.flush()
    assert linkat(AT_FDCWD, f"/proc/self/fd/{step.fileno()}", "g.bin", AT_SYMLINK_FOLLOW) == errno.EXDEV
    assert linkat(step.fileno(), "", "g.bin", AT_EMPTY_PATH) == errno.EXDEV
assert fails(os.link, "absent", "h.bin") == "ENOENT" and not os.path.exists("h.bin")
""")
    )
    assert pair.files() == ["draft"]
    pair.end()
    printed = pair.consume("sh", "-c", "for k in a b c d e f; do cat $k.bin; echo; done; ls *.bin")
    last = "third and more"
    names = [f"{letter}.bin" for letter in "abcdef"]
    assert printed.splitlines() == ["first", "second", "third", last, last, "sixth", *names]


def test_a_link_of_a_step_is_a_file_with_its_bytes_and_counts_as_read(pairs: Pairs) -> None:
    pair = pairs("a.bin")
    for text in ("first", "second", "third"):
        pair.produce("sh", "-c", f"echo {text} > a.bin")
    pair.end()
    (pair.work / "taken").touch()
    pair.consume("ln", "a.bin", "taken", code=1)
    assert pair.steps_read() == 0
    pair.consume("ln", "a.bin", "hard")
    pair.consume("cp", "-l", "a.bin", "copied")
    assert pair.steps_read() == 2
    pair.consume(*python('os.link("a.bin", "b.bin"); print(Path("b.bin").read_text())'))
    pair.consume("ln", "a.bin", "more", code=1)
    assert pair.steps_read() == 3
    assert [(pair.work / name).read_text() for name in ("hard", "copied", "b.bin")] == [
        "first\n",
        "second\n",
        "third\n",
    ]
    assert not (pair.work / "more").exists()


def test_a_symbolic_link_of_a_port_s_name_publishes_what_it_leads_to(pairs: Pairs) -> None:
    pair = pairs("*.bin", queue=9)
    pair.produce(
        *python("""
os.mkdir("sub")
Path("sub/real").write_text("first")
os.symlink("real", "sub/a.bin")
os.symlink("sub/real", "b.bin")
os.symlink("b.bin", "c.bin")
assert fails(os.symlink, "sub/real", "b.bin") == "EEXIST"
os.symlink("sub", "folder.bin")
os.symlink("later", "d.bin")
Path("later").write_text("too late")
os.symlink("c.bin", "draft")
os.replace("draft", "e.bin")
""")
    )
    pair.end()
    links = sorted(path.name for path in pair.work.rglob("*") if path.is_symlink())
    on_disk = ["a.bin", "b.bin", "c.bin"] if pair.mode == "file" else []
    assert links == sorted([*on_disk, "d.bin", "folder.bin"])
    assert pair.consume("cat", "sub/a.bin", "b.bin", "c.bin", "e.bin") == "first" * 4
    assert "makes 'd.bin' a symbolic link to 'later', which is not there" in pair.log.read_text()
    assert pair.board.report().ports[0].steps == 4


def test_symbolic_links_lead_to_steps(pairs: Pairs) -> None:
    pair = pairs("s*.bin", queue=9)
    (pair.work / "sub").mkdir()
    (pair.work / "sub" / "mine").symlink_to("../s0.bin")
    (pair.work / "mine").symlink_to("sub/mine")
    assert targets_in(pair.work) == {"mine", "s0.bin"}
    pair.board.uses_links(1)
    reading = pair.start(
        1,
        *python("""
assert os.path.exists("mine") and os.access("mine", os.R_OK) and os.stat("mine").st_size == 5
assert os.path.islink("mine") and fails(os.open, "mine", os.O_RDONLY | os.O_NOFOLLOW) == "ELOOP"
assert open("mine").read() == "step0"
libc.realpath.restype = ctypes.c_void_p
assert ctypes.string_at(libc.realpath(b"mine", None)).decode() == os.path.abspath("s0.bin")
for step in range(1, 4):
    os.symlink(os.path.abspath(f"s{step}.bin"), "own")
    with open("own") if step < 3 else os.fdopen(os.open("own", os.O_RDONLY, dir_fd=os.open(".", os.O_RDONLY))) as file:
        print(file.read())
    os.remove("own")
os.symlink("s9.bin", "own")
assert fails(open, "own") == fails(os.stat, "own") == "ENOENT"
"""),
    )
    time.sleep(0.3)
    for step in range(4):
        pair.produce("sh", "-c", f"printf step{step} > s{step}.bin")
    pair.end()
    assert pair.finish(reading).split() == ["step1", "step2", "step3"]
    assert pair.steps_read() == 4


def test_a_folder_is_renamed_with_the_files_in_it(pairs: Pairs) -> None:
    pair = pairs("*/*.bin", queue=9)
    pair.produce(
        *python("""
def put(name, text, second):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    os.utime(name, (second, second))
put("draft/b.tmp", "draft", 1)
os.rename("draft", "zero")
put("one/a.bin", "one/a", 1)
os.rename("one", "two")
assert os.listdir("two") == ["a.bin"] and not os.path.exists("one"), os.listdir("two")
""")
    )
    pair.end()
    assert pair.consume("cat", "two/a.bin") == "one/a"
    pair.consume("cat", "one/a.bin", code=1)
    assert (pair.work / "two/a.bin").exists() == (pair.mode == "file")


def test_a_folder_that_is_renamed_to_a_port_s_publishes_the_files_in_it(pairs: Pairs) -> None:
    """In the order in which they were written."""
    pair = pairs("step*/data*.bin", queue=9)
    pair.produce(
        *python("""
for turn in "xy":
    os.mkdir("tmp")
    for place, name in enumerate(["data2.bin", "data1.bin", "other.bin"]):
        Path("tmp", name).write_text(turn + name)
        os.utime(Path("tmp", name), (place, place))
    os.rename("tmp", "step" + turn)
""")
    )
    pair.end()
    files = sorted(str(path.relative_to(pair.work)) for path in pair.work.rglob("*.bin"))
    assert ("stepx/data1.bin" in files) == (pair.mode == "file") and "stepx/other.bin" in files
    names = ["stepx/data2.bin", "stepx/data1.bin", "stepy/data2.bin", "stepy/data1.bin"]
    assert pair.consume("cat", *names) == "".join(name[4] + name[6:] for name in names)
    assert pair.steps_read() == 4


IN_TWO_FOLDERS = """\
import os, sys
os.makedirs("sub/empty", exist_ok=True)
def write(text):
    with open("b.h5", "w") as file:
        file.write(text)
def read():
    with open("b.h5") as file:
        return file.read()
os.chdir("sub")
write("of sub")
os.chdir("..")
write("of here")
print(read(), end=", ")
os.chdir("sub")
print(read(), end=", ")
os.chdir("empty")
print(os.path.exists("b.h5"))
"""


def test_one_relative_name_in_two_folders_is_of_two_files(pairs: Pairs) -> None:
    pair = pairs("b.h5", queue=10)
    assert pair.produce(sys.executable, "-c", IN_TWO_FOLDERS) == "of here, of sub, False\n"


@pytest.mark.needs("gcc", "g++", "strace")
def test_other_names_cost_nothing(pairs: Pairs, build: Path, tmp_path: Path) -> None:
    """As many system calls and allocations as without the layer."""
    pair = pairs("*.bin")
    few, many = 10, 60

    def calls(rounds: int, coupled: bool) -> Counter[str]:
        trace = tmp_path / "trace"
        variables = pair.board.environment(0, 0) if coupled else {}
        options = [word for key, value in variables.items() for word in ("-E", f"{key}={value}")]
        command = ["strace", "-f", "-o", str(trace), *options, str(build / "unmatched"), str(rounds)]
        printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        needless, own = map(int, printed.split())
        assert needless == 0, "a call on a name that leads nowhere allocated memory"
        made = Counter(line.split(maxsplit=1)[1].split("(")[0] for line in trace.read_text().splitlines())
        return made + Counter({"allocations": own})

    alone = calls(many, False) - calls(few, False)
    coupled = calls(many, True) - calls(few, True)
    assert sum(alone.values()) > 10 * (many - few)
    assert coupled == alone


PIPES = "for i in 1 2 3; do echo $i > f$i; done; cat f* | sort > all; test $(wc -l < all) = 3"
ARCHIVE = "mkdir d && echo x > d/y && tar cf d.tar d && rm -r d && tar xf d.tar && cmp d/y d/y && find . -type f"
JOB = 'mkfifo input && exec "$0" -n 2 true <>input'
"""Of an input that ends, mpiexec tells its helper; if that is gone, SIGPIPE ends mpiexec, without the layer, too."""
POOL = """\
import concurrent.futures, subprocess
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
subprocess.run(["true"], check=True, close_fds=True)
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["bash", "-c", PIPES], id="bash"),
        pytest.param(["sh", "-c", ARCHIVE], id="tar"),
        pytest.param([sys.executable, "-c", POOL], id="python"),
        pytest.param(["git", "init", "-q", "repository"], id="git", marks=pytest.mark.needs("git")),
        pytest.param(["sh", "-c", JOB, MPIEXEC], id="mpiexec", marks=pytest.mark.needs(MPIEXEC)),
    ],
)
def test_other_programs_run_as_before(pairs: Pairs, command: list[str]) -> None:
    pairs("*.bin").produce(*command)


def test_touch_makes_an_empty_step_and_leaves_a_written_one(pairs: Pairs) -> None:
    pair = pairs("*.bin")
    pair.produce("sh", "-c", "touch a.bin && cp /etc/passwd b.bin && touch b.bin")
    published = pair.board.report().ports[0]
    assert (published.steps, published.bytes) == (2, Path("/etc/passwd").stat().st_size)
