"""Every byte counts, whatever way it takes: what is written to a step, or read of it, past the layer's own calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.running import WILKINS, run_tree, write_program

SOURCES = Path(__file__).parents[1] / "programs" / "bytes"

C_WAYS = [
    *("write", "writev", "dprintf", "vdprintf", "stdout", "F_SETFL"),
    *("syscall write", "syscall pwrite", "syscall pwritev", "syscall ftruncate", "syscall splice", "io_uring"),
    *("splice", "sendfile", "copy_file_range", "copy_file_range within", "aio_write", "lio_listio", "mmap"),
    *("/dev/fd", "/proc/self/fd"),
    *("fork", "vfork", "posix_spawn", "pidfd_spawn", "system", "popen", "passed", "exec"),
    *("closed before its child", "mapped to the end", "unmapped after its close"),
    *("duplicate closed last", "duplicate closed first"),
]
"""Of write_ways.c."""

PLACED = ["syscall pwrite", "syscall pwritev", "io_uring"]

SYS_READ, SYS_PWRITE, SYS_CLOSE = (63, 68, 57) if os.uname().machine == "aarch64" else (0, 18, 3)

SHELL_WAYS = {
    "redirected": "cat source.txt > $name",
    "redirected and static": "./static_child < source.txt > $name",
    "redirected by bash": "bash -c 'cat source.txt > $0.draft; mv $0.draft $0' $name",
    "bash in a loop": "bash -c 'for n in 1 2; do test $n = 2 || continue; cat source.txt > $0; done' $name",
    "static under bash": "bash -c './static_child < source.txt > $0; true' $name",
    "appended": "{ echo begun; cat source.txt; } >> $name",
    "appended by one descriptor": "exec 3>> $name; echo begun >&3; cat source.txt >&3; ./static_child < source.txt >&3",
    "a descriptor of the shell's": "exec 3> $name; echo begun >&3; cat source.txt >&3; exec 3>&-",
    "a group": "{ echo begun; cat source.txt; ./static_child < source.txt; echo ended; } > $name",
    "tee": "cat source.txt | tee $name > /dev/null",
    "a pipe": "cat source.txt | ./static_child > $name",
    "in the background": "cat source.txt > $name & wait",
    "left in the background": "mkfifo go; { read word < go; cat source.txt; } > $name & echo go > go; wait",
    "/dev/stdout": "{ echo begun; cat source.txt > /dev/stdout; } >> $name",
    "exec": "exec ./static_child < source.txt > $name",
    "both outputs": "sh -c 'echo out; echo err >&2; cat source.txt' > $name 2>&1",
}

PYTHON_WAYS = {
    "subprocess.run": """
with open(name, "wb") as f:
    f.write(b"begun\\n"); f.flush()
    subprocess.run(["cat", "source.txt"], stdout=f, check=True)
    f.write(b"ended\\n")
""",
    "subprocess.run static": """
with open(name, "wb") as f, open("source.txt") as given:
    subprocess.run(["./static_child"], stdin=given, stdout=f, check=True)
""",
    "Popen, then close": """
f = open(name, "wb")
child = subprocess.Popen(["./static_child"], stdin=subprocess.PIPE, stdout=f)
f.close()
child.communicate(open("source.txt", "rb").read())
""",
    "Popen, then exit": """
f = open(name, "wb")
child = subprocess.Popen(["sh", "-c", "read word; cat source.txt"], stdin=subprocess.PIPE, stdout=f)
f.close()
child.stdin.write(b"go\\n")
""",
    "os.fork": """
f = os.open(name, os.O_WRONLY | os.O_CREAT)
os.write(f, b"begun\\n")
if os.fork() == 0:
    os.write(f, open("source.txt", "rb").read())
    os._exit(0)
os.wait()
os.write(f, b"ended\\n")
""",
    "multiprocessing": """
import multiprocessing
f = open(name, "wb", buffering=0)
child = multiprocessing.get_context("fork").Process(target=f.write, args=[open("source.txt", "rb").read()])
child.start(); child.join()
f.close()
""",
    "os.posix_spawn": """
f = os.open(name, os.O_WRONLY | os.O_CREAT)
actions = [(os.POSIX_SPAWN_DUP2, f, 1)]
os.waitpid(os.posix_spawnp("cat", ["cat", "source.txt"], os.environ, file_actions=actions), 0)
""",
    "os.posix_spawn opens": """
actions = [(os.POSIX_SPAWN_OPEN, 1, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), (os.POSIX_SPAWN_DUP2, 1, 2)]
os.waitpid(os.posix_spawnp("cat", ["cat", "source.txt", "absent"], os.environ, file_actions=actions), 0)
""",
    "os.posix_spawn opens, static": """
actions = [(os.POSIX_SPAWN_OPEN, fd, *opened) for fd, *opened in (
    (0, "source.txt", os.O_RDONLY, 0), (1, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))]
os.waitpid(os.posix_spawn("./static_child", ["static_child"], os.environ, file_actions=actions), 0)
""",
    "freopen": """
import ctypes
libc = ctypes.CDLL(None)
libc.freopen.restype = ctypes.c_void_p
stdout = ctypes.c_void_p.in_dll(libc, "stdout")
assert libc.freopen(name.encode(), b"wx", stdout)
libc.printf(b"begun\\n")
libc.fflush(None)
os.system("cat source.txt")
libc.printf(b"ended\\n")
""",
    "print to a duplicate": """
f = open(name, "w")
os.dup2(f.fileno(), 1)
f.close()
print("begun", flush=True)
os.system("cat source.txt")
""",
    "shutil.copyfile": """
import shutil
shutil.copyfile("source.txt", name)
""",
    "mmap": """
import mmap
with open(name, "wb+") as f:
    f.truncate(9000)
    with mmap.mmap(f.fileno(), 9000) as m:
        m[:5] = b"begun"
""",
}

PRODUCER = f"""#!{sys.executable}
import json, subprocess
for command in json.load(open("ways.json")):
    ended = subprocess.run(command, timeout=60)
    if ended.returncode:
        print("failed:", *command[-3:], flush=True)
"""

CONSUMER = f"""#!{sys.executable}
import json
for name in json.load(open("names.json")):
    with open("got/" + name + ".got", "wb") as copy:
        try:
            copy.write(open("work/" + name, "rb").read())
        except FileNotFoundError:
            copy.write(b"(no step)")
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C programs of this test, built."""
    folder = tmp_path_factory.mktemp("bytes")
    subprocess.run(["gcc", "-O1", "-Wall", "-o", folder / "write_ways", SOURCES / "write_ways.c"], check=True)
    subprocess.run(["gcc", "-static", "-o", folder / "static_child", SOURCES / "static_child.c"], check=True)
    return folder


def commands(programs: Path) -> dict[str, list[str]]:
    """By the name of the file, what writes it in a way of its own."""
    made = {}
    for way in C_WAYS:
        # What is written first: little, and so much that the layer makes copies; of that to the end of a page where
        # what comes then is put at a place of its own.
        for header in (42, 8192 if way in PLACED else 8234):
            name = file_name(f"c-{header}", way)
            made[name] = [str(programs / "write_ways"), way, name, "source.txt", str(header)]
    for way, text in SHELL_WAYS.items():
        name = file_name("sh", way)
        made[name] = ["sh", "-c", f"name={name}; {text}"]
    for way, text in PYTHON_WAYS.items():
        name = file_name("py", way)
        made[name] = [sys.executable, "-c", f"import os, subprocess\nname = {name!r}\n{text}"]
    return made


def file_name(language: str, way: str) -> str:
    return f"{language}-{''.join(c if c.isalnum() else '-' for c in way)}.bin"


def prepare(folder: Path, programs: Path) -> None:
    """The working folder of the program that writes all."""
    folder.mkdir()
    (folder / "source.txt").write_text("".join(f"line {n}\n" for n in range(9000)))
    (folder / "static_child").symlink_to(programs / "static_child")


@pytest.mark.usual("memory")
@pytest.mark.needs("gcc", "bash")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
def test_what_is_written_past_the_layer_is_in_the_step(tmp_path: Path, programs: Path, mode: str) -> None:
    """One program writes a file in each way, alone and coupled: its steps, and the files that a port keeps, agree."""
    ways = commands(programs)
    alone, work, got = tmp_path / "alone", tmp_path / "work", tmp_path / "got"
    for folder in (alone, work):
        prepare(folder, programs)
        (folder / "ways.json").write_text(json.dumps(list(ways.values())))
    (tmp_path / "names.json").write_text(json.dumps(list(ways)))
    write_program(tmp_path / "produce.py", PRODUCER)
    write_program(tmp_path / "consume.py", CONSUMER)
    got.mkdir()
    subprocess.run([sys.executable, str(tmp_path / "produce.py")], cwd=alone, check=True, timeout=100)
    port = {"filename": "*.bin", "mode": mode, "flow": {"every": 1, "queue": len(ways) + 8, "when_full": "block"}}
    tasks = [
        {"func": "./produce.py", "cwd": str(work), "outports": [{"filename": "*.bin", "mode": mode}]},
        {"func": "./consume.py", "inports": [port]},
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 120, tmp_path)
    logs = "".join(path.read_text() for path in (tmp_path / "wilkins-runs/latest").glob("*.log"))
    assert ran.code == 0, ran.out + ran.err + logs
    assert "failed:" not in logs, logs
    wrong = {}
    for name in ways:
        expected = (alone / name).read_bytes()
        places = [got / f"{name}.got", *([work / name] if mode != "memory" else [])]
        found = [place.read_bytes() if place.exists() else b"(no file)" for place in places]
        if any(content != expected for content in found):
            wrong[name] = [f"{len(content)} {content[:20]!r}" for content in (expected, *found)]
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items()) + logs


READ_WAYS = {
    "read_bytes": "data = Path(name).read_bytes()",
    "read": "data = open(name, 'rb').read()",
    "os.read to the end": """
f = os.open(name, os.O_RDONLY)
data = b"".join(iter(lambda: os.read(f, 1000), b""))
os.close(f)
""",
    "np.fromfile": "data = np.fromfile(name, np.uint8).tobytes()",
    "np.memmap": "data = np.memmap(name, np.uint8, 'r').tobytes()",
    "a child's input": """
with open(name, "rb") as f:
    data = subprocess.run(["cat"], stdin=f, stdout=subprocess.PIPE, check=True).stdout
""",
    "a static child's input": """
with open(name, "rb") as f:
    data = subprocess.run(["work/static_child"], stdin=f, stdout=subprocess.PIPE, check=True).stdout
""",
    "a descriptor of a child's": """
f = os.open(name, os.O_RDONLY)
data = subprocess.run(["sh", "-c", f"cat <&{f}"], pass_fds=[f], stdout=subprocess.PIPE, check=True).stdout
os.close(f)
""",
    "a fork": """
f = os.open(name, os.O_RDONLY)
ends = os.pipe()
if os.fork() == 0:
    os.write(ends[1], os.read(f, 1 << 16))
    os._exit(0)
os.wait()
data = os.read(ends[0], 1 << 16)
os.close(f)
""",
    "a child's input, closed before that reads": """
with open(name, "rb") as f:
    child = subprocess.Popen(["sh", "-c", "sleep 0.3; cat"], stdin=f, stdout=subprocess.PIPE)
data = child.communicate()[0]
""",
    "a fork that reads what is closed": """
import time
f = os.open(name, os.O_RDONLY)
ends = os.pipe()
if os.fork() == 0:
    time.sleep(0.3)
    os.write(ends[1], os.read(f, 1 << 16))
    os._exit(0)
os.close(f)
os.wait()
data = os.read(ends[0], 1 << 16)
""",
    "another descriptor than the one that a process was started beside": """
f = os.open(name, os.O_RDONLY)
subprocess.run(["true"], check=True)
os.close(f)
data = open(name, "rb").read()
""",
    "/dev/fd": """
f = os.open(name, os.O_RDONLY)
data = open(f"/dev/fd/{f}", "rb").read()
os.close(f)
""",
    "sendfile": """
f, copy = os.open(name, os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.sendfile(copy, f, 0, 1 << 16)
data = open("copy", "rb").read()
os.close(f)
""",
    "copy_file_range": """
f, copy = os.open(name, os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.copy_file_range(f, copy, 1 << 16)
data = open("copy", "rb").read()
os.close(f)
""",
    "splice": """
f, ends = os.open(name, os.O_RDONLY), os.pipe()
os.splice(f, ends[1], 1 << 15) if hasattr(os, "splice") else os.write(ends[1], os.pread(f, 1 << 15, 0))
data = os.read(ends[0], 1 << 16)
os.close(f)
""",
    "aio_read": "data = by_aio(name)",
    "a system call": f"""
f, room = os.open(name, os.O_RDONLY), ctypes.create_string_buffer(1 << 16)
libc.syscall.restype = ctypes.c_long
n = libc.syscall(ctypes.c_long({SYS_READ}), ctypes.c_long(f), room, ctypes.c_size_t(1 << 16))
assert n > 0, (n, f, os.fstat(f), os.lseek(f, 0, 1))
data = room.raw[:n]
os.close(f)
""",
    "an input of posix_spawn": """
copy = os.open("copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
actions = [(os.POSIX_SPAWN_OPEN, 0, name, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, copy, 1)]
os.waitpid(os.posix_spawn("work/static_child", ["static_child"], os.environ, file_actions=actions), 0)
os.close(copy)
data = open("copy", "rb").read()
""",
    "freopen": """
libc.freopen.restype = ctypes.c_void_p
stdin = ctypes.c_void_p.in_dll(libc, "stdin")
assert libc.freopen(name.encode(), b"r", stdin)
data = os.read(0, 1 << 16)
assert libc.freopen(b"/dev/null", b"r", stdin)
""",
    "os.link": """
os.link(name, "linked")
data = open("linked", "rb").read()
os.remove("linked")
""",
    "os.symlink": """
os.symlink(name, "linked")
data = open("linked", "rb").read()
os.remove("linked")
""",
    "shutil.copyfile": "shutil.copyfile(name, 'copy')\ndata = open('copy', 'rb').read()",
    "cp": "subprocess.run(['cp', name, 'copy'], check=True)\ndata = open('copy', 'rb').read()",
    "a shell's redirection": "data = subprocess.check_output(f'cat < {name}', shell=True)",
}

READER = f"""#!{sys.executable}
import ctypes, io, json, os, shutil, subprocess
from pathlib import Path
import h5py, numpy as np
libc = ctypes.CDLL(None)

class Request(ctypes.Structure):
    # struct aiocb of the C library on 64-bit Linux
    _fields_ = [("fildes", ctypes.c_int), ("opcode", ctypes.c_int), ("prio", ctypes.c_int), ("buf", ctypes.c_void_p),
                ("nbytes", ctypes.c_size_t), ("event", ctypes.c_char * 64), ("own", ctypes.c_char * 32),
                ("offset", ctypes.c_int64), ("rest", ctypes.c_char * 64)]

def by_aio(name):
    f, room = os.open(name, os.O_RDONLY), ctypes.create_string_buffer(1 << 16)
    request = Request(fildes=f, buf=ctypes.addressof(room), nbytes=1 << 16)
    pointer = ctypes.pointer(request)
    assert libc.aio_read(pointer) == 0
    libc.aio_suspend(ctypes.byref(ctypes.c_void_p(ctypes.addressof(request))), 1, None)
    libc.aio_return.restype = ctypes.c_ssize_t
    data = room.raw[:libc.aio_return(pointer)]
    os.close(f)
    return data

name = "work/state.h5"
for number, (way, code) in enumerate(json.load(open("reads.json"))):
    space = dict(globals())
    exec(code, space)
    with h5py.File(io.BytesIO(space["data"])) as step:
        found = int(step["x"][0])
    print(way, "read" if found == number else f"got step {{found}} as step {{number}}", flush=True)
"""

STATES = f"""#!{sys.executable}
import json, h5py
for number in range(len(json.load(open("../reads.json")))):
    with h5py.File("state.h5", "w") as step:
        step["x"] = [number] * 5
"""


@pytest.mark.needs("gcc")
def test_a_step_read_past_the_layer_counts_as_read(tmp_path: Path, programs: Path) -> None:
    """A program with HDF5 of its own reads the steps of one name in one way after the other: each gets the next one."""
    prepare(tmp_path / "work", programs)
    (tmp_path / "reads.json").write_text(json.dumps(list(READ_WAYS.items())))
    write_program(tmp_path / "states.py", STATES)
    write_program(tmp_path / "read.py", READER)
    tasks = [
        {"func": "./states.py", "cwd": str(tmp_path / "work"), "outports": [{"filename": "state.h5"}]},
        {"func": "./read.py", "inports": [{"filename": "state.h5"}]},
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, tmp_path)
    printed = (tmp_path / "wilkins-runs/latest/read.log").read_text()
    assert ran.code == 0, ran.out + ran.err + printed
    assert printed.splitlines() == [f"{way} read" for way in READ_WAYS]


def run_pair(folder: Path, producer: str, consumer: str, pattern: str) -> tuple[int, str, str]:
    """Run two Python programs on steps of a pattern: exit code, what the consumer printed, and all that was told."""
    (folder / "work").mkdir()
    write_program(folder / "producer.py", f"#!{sys.executable}\nimport ctypes, os, subprocess\n{producer}")
    write_program(folder / "consumer.py", f"#!{sys.executable}\nimport os, time\n{consumer}")
    port = {"filename": pattern, "flow": {"every": 1, "queue": 9, "when_full": "block"}}
    tasks = [
        {"func": "./producer.py", "cwd": str(folder / "work"), "outports": [{"filename": pattern}]},
        {"func": "./consumer.py", "cwd": str(folder / "work"), "inports": [port]},
    ]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, folder)
    records = folder / "wilkins-runs/latest"
    told = ran.out + ran.err + "".join(path.read_text() for path in sorted(records.glob("*.log")))
    return ran.code, (records / "consumer.log").read_text(), told


def test_a_child_that_outlives_its_task_is_told(tmp_path: Path) -> None:
    """The step is what is in the file when the task ends, and the log names who still had it open."""
    producer = """
os.mkfifo("never"); os.mkfifo("begun")
f = open("a.bin", "wb")
subprocess.Popen(["sh", "-c", "echo whole; echo > begun; exec cat never"], stdout=f)
f.close()
open("begun").read()
"""
    code, printed, told = run_pair(tmp_path, producer, "print(open('a.bin').read())", "a.bin")
    assert code == 0, told
    assert printed.split() == ["whole"]
    assert "'a.bin' was published when its task ended, though process" in told
    assert "still had it open for writing" in told


def test_a_step_whose_program_fails_while_its_child_writes_is_never_there(tmp_path: Path) -> None:
    producer = """
os.mkfifo("never"); os.mkfifo("begun")
f = open("a.bin", "wb")
subprocess.Popen(["sh", "-c", "echo half; echo > begun; exec cat never"], stdout=f)
f.close()
open("begun").read()
raise SystemExit(3)
"""
    code, printed, told = run_pair(tmp_path, producer, "print(os.path.exists('a.bin') and 'there')", "a.bin")
    assert code == 1
    assert "there" not in printed, told


def test_what_a_shell_appends_to_a_step_makes_the_next_one(tmp_path: Path) -> None:
    """Each redirection is a file that was opened, changed and closed; to open one alone changes nothing."""
    producer = """
script = "echo 1 > a.bin; echo 2 >> a.bin; { echo 3; sh -c 'echo 4'; } >> a.bin; : >> a.bin; touch a.bin"
script += "; exec sh -c 'echo 5' >> a.bin"
subprocess.run(["sh", "-c", script], check=True)
open("over", "w").close()
"""
    consumer = """
while not os.path.exists("over"):
    time.sleep(0.01)
try:
    while True:
        print(open("a.bin").read().replace(chr(10), ""))
except FileNotFoundError:
    pass
"""
    code, printed, told = run_pair(tmp_path, producer, consumer, "a.bin")
    assert code == 0, told
    assert printed.split() == ["1", "12", "1234", "12345"], told


def test_bytes_of_which_nobody_knows_whether_they_are_new_end_the_run(tmp_path: Path) -> None:
    """A raw system call writes zeros, too, between bytes that were written by the C library."""
    producer = f"""
f = os.open("a.bin", os.O_WRONLY | os.O_CREAT)
os.write(f, b"x" * 8192)
libc = ctypes.CDLL(None)
number, fd, count, at = map(ctypes.c_long, ({SYS_PWRITE}, f, 3, 100))
assert libc.syscall(number, fd, bytes([7, 0, 7]), count, at) == 3
os.close(f)
"""
    code, _, told = run_pair(tmp_path, producer, "open('a.bin').read()", "a.bin")
    assert code == 1
    assert "the program python" in told
    assert "a call that does not come from the C library" in told


UNSEEN = f"""
SYS_close, SYS_pwrite = {SYS_CLOSE}, {SYS_PWRITE}
call = ctypes.CDLL(None).syscall
call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_long]
f = os.open("a.bin", os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"x" * 8192, 0)
def write_unseen(data, at):
    assert call(SYS_pwrite, f, data, len(data), at) == len(data)
"""
"""A program that has written to its file by copies, and can write past the C library."""


def test_unseen_writes_between_seen_ones_are_kept(tmp_path: Path) -> None:
    producer = f"""{UNSEEN}
write_unseen(b"y" * 100, 8192)
os.pwrite(f, b"z" * 10, 9000)
assert os.pread(f, 2, 8191) == b"xy"
write_unseen(b"w", 9010)
os.close(f)
"""
    consumer = "print(open('a.bin', 'rb').read() == b'x' * 8192 + b'y' * 100 + bytes(708) + b'z' * 10 + b'w')"
    code, printed, told = run_pair(tmp_path, producer, consumer, "a.bin")
    assert code == 0, told
    assert printed.split() == ["True"], told


def test_a_seen_write_over_an_unseen_one_ends_the_run(tmp_path: Path) -> None:
    """Nobody knows which of the two was the last."""
    producer = f"{UNSEEN}write_unseen(b'y' * 10, 16384)\nos.pwrite(f, b'z' * 5, 16384)\nos.close(f)"
    code, _, told = run_pair(tmp_path, producer, "open('a.bin').read()", "a.bin")
    assert code == 1
    assert "among 5 bytes that it has written by write or pwrite, too" in told


def test_another_file_of_the_same_number_gets_its_bytes(tmp_path: Path) -> None:
    """The program closes a step's descriptor by a system call, and the next file that it opens has its number."""
    producer = f"""{UNSEEN}
call(SYS_close, f, None, 0, 0)
g = os.open("other", os.O_WRONLY | os.O_CREAT)
assert g == f and os.pwrite(g, b"other", 0) == 5
os.close(g)
"""
    _, _, told = run_pair(tmp_path, producer, "os.path.exists('a.bin')", "a.bin")
    assert (tmp_path / "work/other").read_text() == "other", told
