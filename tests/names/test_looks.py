"""Programs that look at a name (stat, access, H5Fis_accessible) before they open it: who waits, and what is shown."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from support.running import WAITS, write_program
from support.small_workflows import Workflow
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

STEPS = 3

LATE = f"""
{WAITS}
import h5py
for i in range({STEPS}):
    waits.until_waits(1)  # the reader has looked, and waits
    with h5py.File(f"s{{i}}.h5", "w") as f:
        f["x"] = [i] * 1000
"""
"""A producer that is always later than the reader's look."""

LOOK_AND_COPY = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 3; ++i) {
        char name[32], copy[32];
        static char bytes[65536];
        struct stat st;
        sprintf(name, "s%d.h5", i);
        sprintf(copy, "copy%d.dat", i);
        if (i == 1 && faccessat(AT_FDCWD, name, R_OK, 0) != 0) return 2;
        if (i == 2 && access(name, R_OK) != 0) return 3;
        if (stat(name, &st) != 0 || st.st_size > (off_t)sizeof(bytes)) return 4;
        FILE* in = fopen(name, "rb");
        if (!in || fread(bytes, 1, (size_t)st.st_size, in) != (size_t)st.st_size) return 5;
        fclose(in);
        FILE* out = fopen(copy, "wb");
        if (!out || fwrite(bytes, 1, (size_t)st.st_size, out) != (size_t)st.st_size || fclose(out) != 0) return 6;
    }
    return 0;
}
"""

BEFORE_GLIBC_2_33 = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __x86_64__
#define SINCE "GLIBC_2.2.5"
#define SINCE_AT "GLIBC_2.4"
#define VERSION 1
#else
#define SINCE "GLIBC_2.17"
#define SINCE_AT SINCE
#define VERSION 0
#endif
int __xstat(int, const char*, struct stat*), __lxstat(int, const char*, struct stat*), __fxstat(int, int, struct stat*);
int __fxstatat(int, int, const char*, struct stat*, int);
__asm__(".symver __xstat, __xstat@" SINCE);
__asm__(".symver __lxstat, __lxstat@" SINCE);
__asm__(".symver __fxstat, __fxstat@" SINCE);
__asm__(".symver __fxstatat, __fxstatat@" SINCE_AT);

static int look(const char* name, struct stat* st) {
    struct stat link, at, opened;
    if (__fxstatat(VERSION, AT_FDCWD, name, &at, 0) != 0 || __lxstat(VERSION, name, &link) != 0) return -1;
    int fd = open(name, O_RDONLY);
    if (__fxstat(VERSION, fd, &opened) != 0 || close(fd) != 0 || __xstat(VERSION, name, st) != 0) return -1;
    return at.st_size == st->st_size && link.st_size == st->st_size && opened.st_size == st->st_size ? 0 : -1;
}
#define stat(name, st) look(name, st)
"""
"""Names by which programs that were built with an older glibc call ``stat`` and its kin."""

COPY = """
import os, sys
import h5py
for i in range(3):
    name = f"s{i}.h5"
    LOOK
    with READ as f, h5py.File(f"copy{i}.dat", "w") as copy:
        copy["x"] = f["x"][:]
"""


def python(look: str, read: str = "h5py.File(name)") -> str:
    """A reader that refuses a name that is not there, and copies what is."""
    return COPY.replace("LOOK", look).replace("READ", read)


WAYS = {
    "test -f": "for i in 0 1 2; do test -f s$i.h5 || exit 3; cp s$i.h5 copy$i.dat || exit 4; done",
    "while [ ! -e ]": "for i in 0 1 2; do while [ ! -e s$i.h5 ]; do sleep 0.01; done; cat s$i.h5 > copy$i.dat; done",
    "cp": "for i in 0 1 2; do cp s$i.h5 copy$i.dat || exit 4; done",
    "tar": "for i in 0 1 2; do tar cf one.tar s$i.h5 || exit 4; tar xOf one.tar > copy$i.dat; done",
    "os.path.exists": python("if not os.path.exists(name): sys.exit(f'{name} is missing')"),
    "os.path.getsize": python("if os.path.getsize(name) < 4000: sys.exit(f'{name} is short')"),
    "os.access": python("if not os.access(os.path.abspath(name), os.R_OK): sys.exit(f'{name} is missing')"),
    "h5py.is_hdf5": python("if not h5py.is_hdf5(name): sys.exit(f'{name} is not HDF5')"),
    "netCDF4": "import netCDF4\n"
    + python("if not os.path.isfile(name): sys.exit(f'{name} is missing')", "netCDF4.Dataset(name)"),
}


def reader(flow: Workflow, program: str, **port: object) -> None:
    """Add the reader of the steps of `LATE`: a Python script, or one of the shell."""
    if "import" in program:
        flow.task("reader", program, inports=[{"filename": "s*.h5", **port}])
    else:
        script = write_program(flow.folder / "reader.sh", f"#!/bin/sh\n{program}\n")
        flow.task("reader", [script], inports=[{"filename": "s*.h5", **port}])


def copies(flow: Workflow) -> list[list[int]]:
    """What the reader has copied."""
    found = []
    for i in range(STEPS):
        with h5py.File(flow.folder / f"copy{i}.dat") as f:
            found.append(f["x"][:].tolist())
    return found


ALL = [[i] * 1000 for i in range(STEPS)]


@pytest.mark.usual(
    "cp-file",
    "os.path.exists-memory",
    "netCDF4-both",
    also_between_hosts=["test -f-memory", "while [ ! -e ]-both", "h5py.is_hdf5-memory"],
)
@pytest.mark.needs("python:netCDF4")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_looks_first_gets_steps_that_are_still_to_come(flow: Workflow, way: str, mode: str) -> None:
    """Its look waits where its open would, so it is never told that a step is missing which comes later."""
    flow.task("writer", LATE, outports=[{"filename": "s*.h5"}])
    reader(flow, WAYS[way], mode=mode)
    flow.run()
    assert copies(flow) == ALL


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("names", ["", BEFORE_GLIBC_2_33], ids=["of-today", "before-glibc-2.33"])
def test_a_c_program_that_looks_by_stat_and_access(flow: Workflow, names: str) -> None:
    (flow.folder / "look.c").write_text(names + LOOK_AND_COPY)
    subprocess.run(["gcc", "-O2", "-Wall", "-o", flow.folder / "look", flow.folder / "look.c"], check=True)
    flow.task("writer", LATE, outports=[{"filename": "s*.h5"}])
    flow.task("reader", ["./look"], inports=[{"filename": "s*.h5"}])
    flow.run()
    assert copies(flow) == ALL


def writer(
    flow: Workflow, steps: int, name: str = "s{i}.h5", task: str = "writer", before: str = "", **port: object
) -> None:
    """Add a producer whose step i holds i + 1 thousand numbers."""
    flow.task(
        task,
        f"{WAITS}\nimport h5py, os, pathlib, time\nfor i in range({steps}):\n"
        f"{textwrap.indent(textwrap.dedent(before), '    ')}\n"
        f"    with h5py.File(f'{name}', 'w') as f:\n        f['x'] = [i] * 1000 * (i + 1)\n",
        outports=[{"filename": name.replace("{i}", "*"), **port}],
    )


READ_NEXT = """
def read(name):
    with h5py.File(name) as f, open("got.txt", "a") as out:
        print(int(f["x"][0]), file=out)
"""
HEAD = f"{WAITS}\nimport h5py, os, pathlib, sys, time\n{READ_NEXT}"
UNTIL_LOOKED = """
while i == {at} and not os.path.exists("looked"):
    time.sleep(0.01)
"""


def test_at_the_end_of_the_stream_the_name_is_missing(flow: Workflow) -> None:
    """A program that gives up when its next file is missing has met the end of its input, which is no failure."""
    writer(flow, STEPS)
    flow.task(
        "reader",
        HEAD
        + """
i = 0
while True:
    if not os.path.exists(f"s{i}.h5"):
        sys.exit(f"there is no s{i}.h5")
    read(f"s{i}.h5")
    i += 1
""",
        inports=[{"filename": "s*.h5"}],
    )
    ran = flow.run()
    assert flow.got() == list(range(STEPS))
    assert "end of stream" in ran.err + ran.out


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_failure_long_after_a_look_at_the_end_is_one(flow: Workflow) -> None:
    """A program that goes on without a file that does not come, and fails later, has failed."""
    writer(flow, 1)
    flow.task(
        "reader",
        HEAD
        + """
read("s0.h5")
assert not os.path.exists("s1.h5")
with h5py.File("result.h5", "w") as f:
    f["x"] = [1]
sys.exit(3)
""",
        inports=[{"filename": "s*.h5"}],
        outports=[{"filename": "result.h5"}],
    )
    flow.task("last", HEAD + 'read("result.h5")\n', inports=[{"filename": "result.h5"}])
    flow.run(1)


def test_looks_now(flow: Workflow) -> None:
    """`looks: now`: the producer waits until the program has looked, and gone on."""
    writer(flow, 1, before=UNTIL_LOOKED.format(at=0))
    flow.task(
        "reader",
        HEAD
        + """
assert not os.path.exists("s0.h5") and not h5py.is_hdf5("s0.h5")
pathlib.Path("looked").touch()
read("s0.h5")
""",
        inports=[{"filename": "s*.h5", "looks": "now"}],
    )
    flow.run()
    assert flow.got() == [0]


@pytest.mark.usual("latest", also_between_hosts=["policy1"])
@pytest.mark.parametrize("policy", ["latest", {"every": 1, "queue": 1, "when_full": "drop-newest"}])
def test_looks_where_steps_are_dropped_wait_for_the_first_alone(flow: Workflow, policy: object) -> None:
    """A reader that may leave out steps goes at its own pace."""
    writer(flow, 2, before="if i == 0:\n    waits.until_waits(1)\n" + UNTIL_LOOKED.format(at=1))
    flow.task(
        "reader",
        HEAD
        + """
assert os.path.exists("s0.h5")
read("s0.h5")
assert not os.path.exists("s1.h5")
pathlib.Path("looked").touch()
read("s1.h5")
""",
        inports=[{"filename": "s*.h5", **({"io_freq": policy} if policy == "latest" else {"flow": policy})}],
    )
    flow.run()
    assert flow.got() == [0, 1]


TWO_INPUTS = """
if not os.path.exists("late.h5"):
    sys.exit("late.h5 is missing")
read("late.h5")
for i in range(8):
    read(f"s{i}.h5")
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_look_waits_though_the_queue_of_another_port_is_full(flow: Workflow) -> None:
    """One producer is ahead of the reader and waits for it; what the reader asks for first is another one's."""
    writer(flow, 8)
    writer(flow, 1, "late.h5", "late", before="waits.until_waits(0)\nwaits.until_waits(2)\n")
    flow.task("reader", HEAD + TWO_INPUTS, inports=[{"filename": "s[0-9].h5"}, {"filename": "late.h5"}])
    flow.run()
    assert flow.got() == [0, *range(8)]


def test_with_looks_wait_a_look_waits_where_steps_are_dropped_too(flow: Workflow) -> None:
    writer(flow, 2, before="waits.until_waits(1)\nwhile i and not os.path.exists('got.txt'):\n    time.sleep(0.01)\n")
    flow.task(
        "reader",
        HEAD
        + """
for i in range(2):
    if not os.path.exists(f"s{i}.h5"):
        sys.exit(f"s{i}.h5 is missing")
    read(f"s{i}.h5")
""",
        inports=[{"filename": "s*.h5", "io_freq": "latest", "looks": "wait"}],
    )
    flow.run()
    assert flow.got() == [0, 1]


OPTIONAL = """
for i in range(6):
    for kind in ("mask", "grid"):
        assert not os.path.exists(f"s_{kind}.h5")
    read(f"s{i}.h5")
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_an_optional_file_under_a_wide_pattern_costs_no_step(flow: Workflow) -> None:
    """All wait for the reader, which looks for a file that nobody writes: it is told so, and the log says it once."""
    writer(flow, 6)
    flow.task("reader", HEAD + OPTIONAL, inports=[{"filename": "s*.h5", "reorder": 0}])
    flow.run()
    assert flow.got() == list(range(6))
    assert [line for line in flow.log().splitlines() if "looks for" in line] == [
        line for line in flow.log().splitlines() if "'s_mask.h5'" in line and "looks: now" in line
    ]
    assert flow.log().count("looks for") == 1


def test_a_look_shows_the_step_that_is_open_and_then_the_one_it_was(flow: Workflow) -> None:
    """Of a file that is rewritten: the step that is open; and the one that was read, until the next is there."""
    writer(flow, 2, "state.h5", before=UNTIL_LOOKED.format(at=1))
    flow.task(
        "reader",
        HEAD
        + """
sizes = []
with h5py.File("state.h5") as f:
    sizes.append(os.path.getsize("state.h5"))
sizes.append(os.path.getsize("state.h5"))
pathlib.Path("looked").touch()
waits.until_published(0, 2)
sizes.append(os.path.getsize("state.h5"))
with h5py.File("state.h5") as f:
    assert f["x"].size == 2000
    sizes.append(os.path.getsize("state.h5"))
print("sizes", len(set(sizes[:2])), len(set(sizes[2:])), sizes[2] - sizes[0] >= 8000)
""",
        inports=[{"filename": "state.h5"}],
    )
    flow.run()
    assert "sizes 1 1 True" in (flow.folder / "wilkins-runs" / "latest" / "reader.log").read_text()


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_look_from_within_an_open_shows_what_is_opened(flow: Workflow) -> None:
    """A second step is there already while the first is open."""
    writer(flow, 2, "state.h5")
    flow.task(
        "reader",
        HEAD
        + """
waits.until_published(0, 2)
with h5py.File("state.h5") as f:
    first = os.stat("state.h5")
    assert f["x"].size == 1000 and first.st_size < 15000
os.remove("state.h5")
assert os.stat("state.h5").st_size > first.st_size
read("state.h5")
""",
        inports=[{"filename": "state.h5"}],
    )
    flow.run()
    assert flow.got() == [1]


def test_one_shot_checks_of_a_stream_that_ends_early(flow: Workflow) -> None:
    """Settings that come three times, and a reader that asks for them at each of its steps."""
    writer(flow, 3, "steer.h5", "steering")
    flow.task(
        "reader",
        HEAD
        + """
for i in range(6):
    if os.path.exists("steer.h5"):
        read("steer.h5")
        os.remove("steer.h5")
print("all six")
""",
        inports=[{"filename": "steer.h5"}],
    )
    flow.run()
    assert flow.got() == [0, 1, 2]


TWO_PROCESSES = """
if os.fork() == 0:
    assert os.path.exists("s0.h5")
    pathlib.Path("there").touch()
    waits.until_waits(0)
    waits.until_waits(1)
    sum(range(10**7))
    for i in range(3):
        read(f"s{i}.h5")
    os._exit(0)
while not os.path.exists("there"):
    time.sleep(0.01)
if not os.path.exists("s3.h5"):
    sys.exit("s3.h5 is missing")
os.wait()
read("s3.h5")
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_look_waits_for_another_process_of_its_rank(flow: Workflow) -> None:
    """As the workers of a pool do: what one looks for comes when the other has read what is there."""
    writer(flow, 8)
    flow.task("reader", HEAD + TWO_PROCESSES, inports=[{"filename": "s*.h5", "reorder": 1}])
    flow.run()
    assert flow.got() == [0, 1, 2, 3]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A producer, and a reader of two ranks whose looks do not wait."""
    made = Board.create(
        [BoardTask("producer", 1), BoardTask("reader", 2)],
        [BoardPort(0, "out", "s*.bin"), BoardPort(1, "in", "s*.bin", looks="now")],
        [BoardChannel(0, 1, every=1, queue=3, when_full="block", readers=2)],
        log=tmp_path / "layer.log",
    )
    yield made
    made.remove()


def test_ranks_that_look_alike_are_answered_alike(tmp_path: Path, board: Board) -> None:
    """The n-th look of each rank says the same, though the step was published between them."""

    def run(task: int, rank: int, *command: str) -> str:
        environment = os.environ | board.environment(task, rank)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    look = "for n in 1 2 3; do if [ -e s0.bin ]; then echo there; else echo missing; fi; done"
    board.task_started(0)
    board.task_started(1)
    assert run(1, 0, "sh", "-c", look).split() == ["missing"] * 3
    run(0, 0, "sh", "-c", "echo one > draft; mv draft s0.bin")
    assert run(1, 1, "sh", "-c", look).split() == ["missing"] * 3
    for rank in (1, 0):
        assert run(1, rank, "sh", "-c", look).split() == ["there"] * 3
    assert run(1, 1, "cat", "s0.bin") == "one\n"


POLL = """
i = 0
while i < COUNT:
    while not os.path.exists(f"s{i}.h5"):
        time.sleep(0.05)
    read(f"s{i}.h5")
    i += 1
"""


def test_a_program_that_polls_for_what_will_not_come_is_ended(flow: Workflow) -> None:
    """It has no other work, so the run ends without it, and says so."""
    writer(flow, 2)
    flow.task("reader", HEAD + POLL.replace("COUNT", "3"), inports=[{"filename": "s*.h5", "poll_end": "1s"}])
    ran = flow.run()
    assert flow.got() == [0, 1]
    assert "ended while polling" in ran.out + ran.err
    assert "task reader asks again and again for 's2.h5'" in ran.err


def test_a_script_that_polls_for_what_will_not_come_is_ended(flow: Workflow) -> None:
    """So is one of the shell, whose looks are those of other programs."""
    writer(flow, 1)
    reader(flow, "cat s0.h5 > copy0.dat; while ! test -f s1.h5; do sleep 0.2; done", poll_end="1s")
    ran = flow.run()
    assert "ended while polling" in ran.out + ran.err


@pytest.mark.usual("print(step, flush=True)")
@pytest.mark.parametrize("work", ["print(step, flush=True)", "sum(range(3 * 10**6))"])
def test_a_program_that_does_more_than_poll_is_only_told_of(flow: Workflow, work: str) -> None:
    """One that writes or computes between its looks ends by itself."""
    writer(flow, 1)
    flow.task(
        "reader",
        HEAD
        + f"""
read("s0.h5")
until = time.monotonic() + 5
step = 0
while time.monotonic() < until or step < 20:
    assert not os.path.exists("s1.h5")
    step += 1
    {work}
    time.sleep(0.01)
open("got.txt", "a").write("-1")
""",
        inports=[{"filename": "s*.h5", "poll_end": "1s"}],
        rerun="never",
    )
    ran = flow.run()
    assert flow.got() == [0, -1]
    assert "ended while polling" not in ran.out + ran.err
    assert "asks again and again for 's1.h5'" in ran.err


COUNTED = (
    HEAD
    + """
import glob
while len(glob.glob("s*.h5")) < COUNT:
    time.sleep(0.05)
for name in sorted(glob.glob("s*.h5")):
    read(name)
"""
)


COUNTED_FOR_A_WHILE = """
import glob
until = time.monotonic() + 4
while len(glob.glob("s*.h5")) < 4 and time.monotonic() < until:
    time.sleep(0.05)
for i in range(4):
    read(f"s{i}.h5")
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_program_that_lists_until_there_are_enough_makes_the_queue_grow(flow: Workflow) -> None:
    """It reads none before: as far as `reorder` goes, the writer need not wait for that."""
    writer(flow, 6)
    flow.task("reader", COUNTED.replace("COUNT", "6"), inports=[{"filename": "s*.h5"}])
    ran = flow.run()
    assert flow.got() == [0, 1, 2, 3, 4, 5]
    assert "not read" not in ran.out + ran.err


def test_a_program_that_lists_for_more_than_will_come_is_ended(flow: Workflow) -> None:
    """As one that looks for it; the report says what it does."""
    writer(flow, 2)
    flow.task("reader", COUNTED.replace("COUNT", "3"), inports=[{"filename": "s*.h5", "poll_end": "1s"}])
    ran = flow.run()
    assert "ended while polling" in ran.err
    assert "task reader lists the folder of 's*.h5' again and again, and reads nothing meanwhile: all who" in ran.err


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_program_that_lists_for_more_than_a_queue_may_hold_is_told_of(flow: Workflow) -> None:
    """Nothing is let go for it: it would not count that. It goes on when it reads."""
    writer(flow, 4)
    flow.task("reader", HEAD + COUNTED_FOR_A_WHILE, inports=[{"filename": "s*.h5", "poll_end": "1s", "reorder": 2}])
    ran = flow.run()
    assert flow.got() == [0, 1, 2, 3]
    told = " ".join(ran.err.split())
    assert "; if it wants more than the 2 files that are there, give it `reorder:` with as many, or, if all, " in told


@pytest.mark.usual(also_between_hosts=["strict0", "strict1"])
@pytest.mark.parametrize("strict", [[], ["--strict"]])
def test_a_poll_for_what_cannot_come_while_all_wait_for_it(flow: Workflow, strict: list[str]) -> None:
    """A name that is written differently: the queue grows, the writer ends, and so does who asks for nothing else."""
    writer(flow, 6)
    flow.task(
        "reader",
        HEAD + 'while not os.path.exists("s_0.h5"):\n    time.sleep(0.05)\n',
        inports=[{"filename": "s*.h5", "poll_end": "1s"}],
    )
    ran = flow.run(int(bool(strict)), *strict)
    told = ran.said
    assert "asks again and again for 's_0.h5'" in told
    assert "ended while polling" in told
    assert "reader: read none of the 6 steps of 's*.h5' that writer published for it" in told
    assert "it only looked for 's_0.h5' (" in told and "which is none of the names that were published" in told
    assert told.endswith("steps were not read, and --strict makes that a failure") == bool(strict)


UNTIL_THERE = "import os, time\nwhile not os.path.exists(NAME):\n    time.sleep(0.05)\n"


@pytest.mark.usual("6")
@pytest.mark.parametrize("steps", [1, 6])
def test_a_poll_for_a_step_by_a_misspelt_name_is_ended(flow: Workflow, steps: int) -> None:
    """The name matches no port, and is that of a step that waits for nobody else, but for a letter."""
    writer(flow, steps)
    flow.task("reader", UNTIL_THERE.replace("NAME", "'s_0.h5'"), inports=[{"filename": "s[0-9]*.h5", "poll_end": "1s"}])
    told = " ".join(flow.run(1).err.split())
    assert "task reader asks again and again for 's_0.h5' (" in told
    assert "which matches no port and is not there, and reads nothing meanwhile: did you mean 's0.h5'" in told
    assert "reader: ended without ever using its memory port 's[0-9]*.h5'" in told


LATER = """
import os, time
until = time.monotonic() + 4
while not os.path.exists("s_0.h5") and time.monotonic() < until:
    WORK
    time.sleep(0.05)
for i in range(4):
    read(f"s{i}.h5")
"""


@pytest.mark.usual(also_between_hosts=["s_0.h5-print(1, flush=True)"])
@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("s_0.h5", "print(1, flush=True)"),
        pytest.param("start.h5", "pass", marks=pytest.mark.nightly),
        pytest.param("s_1.h5", "pass", marks=pytest.mark.nightly),
        pytest.param("s_0.h5", "os.path.exists('b.h5')", marks=pytest.mark.nightly),
    ],
)
def test_a_poll_for_a_file_of_another_origin_is_not_ended(flow: Workflow, name: str, work: str) -> None:
    """The name is none of a step that waits; or the program does something else; or it asks for others, too."""
    writer(flow, 4)
    script = LATER.replace("s_0.h5", name).replace("WORK", work)
    flow.task("reader", HEAD + script, inports=[{"filename": "s[0-9]*.h5", "poll_end": "1s"}])
    flow.run()
    assert flow.got() == [0, 1, 2, 3]


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_poll_for_a_file_that_another_task_may_yet_make_is_not_ended(flow: Workflow) -> None:
    """The name may be misspelt; but a task runs, and does."""
    writer(flow, 1)
    flow.task(
        "other",
        "import os, time, h5py\nh5py.File('t0.h5', 'w').close()\ntime.sleep(4)\nopen('s_0.h5', 'w').close()\n",
        outports=[{"filename": "t*.h5"}],
    )
    script = LATER.replace("until = time.monotonic() + 4", "until = time.monotonic() + 60").replace("WORK", "pass")
    flow.task(
        "reader",
        HEAD + script.replace("range(4)", "range(1)"),
        inports=[{"filename": "s[0-9]*.h5", "poll_end": "1s"}, {"filename": "t*.h5"}],
    )
    flow.run(1)  # since it never uses its other port
    assert flow.got() == [0]


GROWS = """
import time
for size in (1000, 2000, 3000):
    with open("state.dat", "wb") as f:
        f.write(b"x" * size)
    time.sleep(0.3)  # the reader has read it, and looks
"""

BY_SIZE = """
import os
read = []
while os.path.exists("state.dat"):
    size = os.path.getsize("state.dat")
    with open("state.dat", "rb") as f:
        read.append((size, os.fstat(f.fileno()).st_size))
        f.read()
with open("read.txt", "w") as f:
    f.write(repr(read))
"""


def test_looks_that_wait_show_the_step_that_the_open_gets(flow: Workflow) -> None:
    """A program that goes by what it sees of a name that is rewritten: no size is that of the step before."""
    flow.task("writer", GROWS, outports=[{"filename": "state.dat"}])
    flow.task("reader", BY_SIZE, inports=[{"filename": "state.dat", "looks": "wait"}])
    ran = flow.run()
    assert (flow.folder / "read.txt").read_text() == repr([(size, size) for size in (1000, 2000, 3000)])
    assert "hint" not in ran.err


def test_a_look_back_before_an_open_is_told(flow: Workflow) -> None:
    """By itself, a look at what was read shows that; whoever opens the name after it is told, and of `looks: wait`."""
    flow.task("writer", GROWS, outports=[{"filename": "state.dat"}])
    flow.task("reader", BY_SIZE, inports=[{"filename": "state.dat"}])
    ran = flow.run()
    assert "hint: task 'reader'" in ran.err
    assert "give the in-port 'looks: wait'" in flow.log()
