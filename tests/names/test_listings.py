"""Listings of folders: in every way and under every name of the folder they show what an open would find."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from support.running import MPIEXEC, WAITS, Finished, must_run, wait_for, write_program
from support.small_workflows import Workflow
from support.streams import Streams, steps
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

PROGRAMS = Path(__file__).parents[1] / "programs" / "names"
LIMIT = 60
Mode = Literal["memory", "both", "file"]

WRITE_BYTES = "import sys\nfor number in range(int(sys.argv[1])):\n    name = sys.argv[2].format(number)\n"
WRITE_BYTES += "    with open(name, 'wb') as file:\n        file.write(b'x' * (number + 1))\n"
"""``NUMBER NAME``: so many files, each one byte longer than the one before."""


class Folders:
    """A producer in one folder and a reader in another, joined by files `plt*.h5`."""

    def __init__(self, folder: Path, mode: Mode, reader_in: str) -> None:
        self.work = folder / "made"
        self.reader = folder / reader_in
        for path in (self.work, self.reader):
            path.mkdir(exist_ok=True)
        self.mode = mode
        self.board = Board.create(
            [BoardTask.starting_in("producer", 1, self.work), BoardTask.starting_in("reader", 1, self.reader)],
            [BoardPort(0, "out", "plt*.h5", mode=mode), BoardPort(1, "in", "plt*.h5", mode=mode)],
            [BoardChannel(0, 1, every=1, queue=5, when_full="block", readers=1)],
            log=folder / "layer.log",
        )
        self.board.task_started(0)
        self.board.task_started(1)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, task: int, *command: str | Path) -> subprocess.Popen[str]:
        """A program of a task, where the task is at home."""
        process = subprocess.Popen(
            command,
            cwd=(self.work, self.reader)[task],
            env=os.environ | self.board.environment(task, 0) | {"LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> str:
        """What a program that must succeed has printed."""
        output = process.communicate(timeout=LIMIT)[0]
        assert process.returncode == 0, f"{process.args!r}: {output}"
        return output

    def run(self, task: int, *command: str | Path) -> str:
        """Start a program and wait for it."""
        return self.finish(self.start(task, *command))

    def write(self, number: int, name: str = "plt{:04}.h5") -> None:
        """The producer writes files."""
        self.run(0, sys.executable, "-c", WRITE_BYTES, str(number), name)

    def end(self) -> None:
        """The producer will write nothing more."""
        self.board.task_exited(0, final=True)

    def waits(self, task: int) -> bool:
        """Whether a program of the task waits for data."""
        return any(wait.what == "data" for wait in self.board.report().tasks[task].waits)

    def remove(self) -> None:
        """End what still runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self.board.remove()


@pytest.fixture(params=["memory", "both", "file"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Where the steps are."""
    value: Mode = request.param
    return value


@pytest.fixture
def folders(tmp_path: Path, mode: Mode) -> Iterator[Folders]:
    """A reader in a folder of its own."""
    made = Folders(tmp_path, mode, "read")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def list_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that lists a folder in all of the C library's ways."""
    program = tmp_path_factory.mktemp("programs") / "list_folder"
    subprocess.run(["gcc", "-O2", "-Wall", "-o", program, PROGRAMS / "list_folder.c"], check=True)
    return program


WAYS = ["opendir", "fdopendir", "openat", "chdir", "readdir_r", "telldir", "rewinddir", "scandir", "scandirat"]
WAYS += ["glob", "nftw", "ftw"]


@pytest.mark.usual("both", also_between_hosts=["memory", "file"])
@pytest.mark.needs("gcc")
def test_every_way_to_list_under_every_name_of_the_folder(folders: Folders, list_folder: Path, tmp_path: Path) -> None:
    """The reader's own folder and the producer's, by relative, absolute and linked names, show the same steps."""
    folders.write(3)
    (folders.work / "plt9999.h5").write_text("of an earlier run")
    (folders.work / "other.h5").write_text("no port's")
    (tmp_path / "link").symlink_to(folders.work)
    names = [
        "../made",
        "../made/.",
        "../read/../made",
        str(folders.work),
        str(tmp_path / "link"),
        ".",
        str(folders.reader),
    ]
    shown = {}
    for way in WAYS:
        for name in names:
            lines = folders.run(1, list_folder, way, name, "*.h5").splitlines()
            shown[way, name] = [line.split()[:2] for line in lines]
    there = [[f"plt{number:04}.h5", str(number + 1)] for number in range(3)]
    wrong = {key: found for key, found in shown.items() if [one for one in found if one[0] != "other.h5"] != there}
    assert not wrong
    seen = {key[1] for key, found in shown.items() if ["other.h5", "9"] in found}
    assert seen == set(names[:5])


def test_tools_languages_and_shells(folders: Folders) -> None:
    """ls, find, sh, bash, Python in its ways: the names, sizes and numbers that stat gives."""
    folders.write(2)
    names = ["plt0000.h5", "plt0001.h5"]
    assert folders.run(1, "ls").split() == names
    long = [line.split() for line in folders.run(1, "ls", "-li", "--time-style=+%s", "../made").splitlines()[1:]]
    told = [folders.run(1, "stat", "-c", "%i %s %Y", f"../made/{name}").split() for name in names]
    assert [[words[0], words[5], words[6]] for words in long if words[-1] in names] == told
    assert sorted(folders.run(1, "find", "..", "-name", "plt*.h5", "-size", "-3c").split()) == [
        f"../{folder}/{name}" for folder in ("made", "read") for name in names
    ]
    for shell in ("sh", "bash"):
        assert folders.run(1, shell, "-c", "cd ../made; echo plt*.h5; echo ../read/p*; echo none*.h5").splitlines() == [
            "plt0000.h5 plt0001.h5",
            "../read/plt0000.h5 ../read/plt0001.h5",
            "none*.h5",
        ]
    script = (
        "import glob, os, pathlib\n"
        "here = os.open('.', os.O_RDONLY)\n"
        "for found in (os.listdir(), os.listdir('../made'), os.listdir(here), glob.glob('*.h5'),\n"
        "              [p.name for p in pathlib.Path('../made').glob('*.h5')], [e.name for e in os.scandir()],\n"
        "              [n for _, _, some in os.walk(os.getcwd()) for n in some]):\n"
        "    assert sorted(n for n in found if n.startswith('plt')) == ['plt0000.h5', 'plt0001.h5'], found\n"
        "assert sorted(e.stat().st_size for e in os.scandir('.')) == [1, 2]\n"
        "assert all(e.inode() == e.stat().st_ino and e.is_file() for e in os.scandir('.'))\n"
    )
    folders.run(1, sys.executable, "-c", script)


CPP = """
#include <filesystem>
#include <iostream>
#include <set>
int main(int, char** argv) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1]))
        if (entry.is_regular_file())
            found.insert(entry.path().filename().string() + " " + std::to_string(entry.file_size()));
    for (const auto& line : found) std::cout << line << "\\n";
}
"""


@pytest.mark.needs("g++", "gfortran")
@pytest.mark.nightly
def test_cpp_and_fortran(folders: Folders, tmp_path: Path) -> None:
    """std::filesystem, and what a Fortran program lists by a command."""
    (tmp_path / "list.cpp").write_text(CPP)
    subprocess.run(["g++", "-std=c++17", "list.cpp", "-o", "list"], cwd=tmp_path, check=True)
    (tmp_path / "list.f90").write_text('call execute_command_line("ls plt*")\nend\n')
    subprocess.run(["gfortran", "list.f90", "-o", "list_f"], cwd=tmp_path, check=True)
    folders.write(2)
    for name in (".", "../made"):
        assert folders.run(1, tmp_path / "list", name).splitlines() == ["plt0000.h5 1", "plt0001.h5 2"]
    assert folders.run(1, tmp_path / "list_f").split() == ["plt0000.h5", "plt0001.h5"]


def test_other_folders_and_files_are_as_on_disk(folders: Folders) -> None:
    """Folders without steps, subfolders, hidden files and files of no port are listed as they are."""
    folders.write(1)
    (folders.reader / "sub").mkdir()
    (folders.reader / "sub" / "plt0007.h5").write_text("another file of such a name")
    (folders.reader / ".hidden").write_text("")
    (folders.reader / "notes.txt").write_text("")
    (folders.reader / "plt_folder.h5").mkdir()
    assert folders.run(1, "ls", "-A").split() == [".hidden", "notes.txt", "plt0000.h5", "plt_folder.h5", "sub"]
    assert folders.run(1, "ls", "sub").split() == ["plt0007.h5"]
    assert folders.run(1, "ls", "/usr/lib") == must_run(folders.reader, "env", "LC_ALL=C", "ls", "/usr/lib")


def test_a_step_that_was_read_is_shown_as_long_as_it_can_be_opened(folders: Folders) -> None:
    """What a listing shows can be opened: every name of it, at once."""
    folders.write(3)
    folders.end()
    script = "import os\nfor _ in 1, 2:\n    for name in sorted(os.listdir()): print(len(open(name).read()))\n"
    assert folders.run(1, sys.executable, "-c", script).split()[:3] == ["1", "2", "3"]


@pytest.mark.parametrize("reader_in", ["made", "read"])
@pytest.mark.parametrize(
    "way", [["sh", "-c", "echo plt*.h5"], [sys.executable, "-c", "import os; print(*os.listdir())"]]
)
def test_the_first_listing_waits_for_a_step(tmp_path: Path, way: list[str], reader_in: str) -> None:
    """A shell's pattern, or a script's listing, that comes before the first file waits for it; later ones do not."""
    folders = Folders(tmp_path, "memory", reader_in)
    try:
        listing = folders.start(1, *way)
        wait_for(lambda: folders.waits(1), LIMIT, "the listing waits")
        folders.write(1)
        assert "plt0000.h5" in folders.finish(listing)
        folders.board.task_started(1)
        assert "plt0000.h5" in folders.run(1, *way)
        folders.run(1, "cat", "plt0000.h5")
        folders.board.task_exited(1, final=False)
        folders.board.task_started(1)
        listing = folders.start(1, *way)
        wait_for(lambda: folders.waits(1), LIMIT, "the listing of the next start waits")
        folders.end()
        assert "plt0000.h5" not in folders.finish(listing)
    finally:
        folders.remove()


def test_a_folder_that_the_producer_has_yet_to_make(tmp_path: Path) -> None:
    """A listing of it waits until the producer has written there."""
    folders = Folders(tmp_path, "memory", "read")
    out = tmp_path / "out"
    try:
        listing = folders.start(1, "sh", "-c", f"echo {out}/plt*.h5")
        wait_for(lambda: folders.waits(1), LIMIT, "the listing waits")
        out.mkdir()
        folders.write(1, f"{out}/plt{{}}.h5")
        assert folders.finish(listing).split() == [f"{out}/plt0.h5"]
    finally:
        folders.remove()


@pytest.mark.parametrize("modules", ["made", "elsewhere"])
def test_python_finds_its_modules_without_waiting(tmp_path: Path, modules: str) -> None:
    """Imports list the folder of the script, in which steps will lie, and those of PYTHONPATH, in which they may, even
    before there is an interpreter: only the program's own listing waits."""
    folders = Folders(tmp_path, "memory", "made")
    try:
        (tmp_path / modules).mkdir(exist_ok=True)
        (tmp_path / modules / "helper.py").write_text("VALUE = 5\n")
        write_program(folders.work / "read.py", "import helper, os\nos.mkdir(f'found-{helper.VALUE}')\nos.listdir()\n")
        path = os.pathsep.join([str(tmp_path / modules), *filter(None, [os.environ.get("PYTHONPATH")])])
        reading = folders.start(1, "env", f"PYTHONPATH={path}", sys.executable, "read.py")
        wait_for((folders.work / "found-5").exists, LIMIT, "the module is found")
        wait_for(lambda: folders.waits(1), LIMIT, "the program's own listing waits")
        folders.end()
        folders.finish(reading)
    finally:
        folders.remove()


@pytest.mark.needs("python:importlib_metadata")
def test_libraries_find_modules_and_versions_without_waiting(tmp_path: Path) -> None:
    """As Dask does: the folder of the script is the first of those in which they look."""
    folders = Folders(tmp_path, "memory", "made")
    try:
        write_program(
            folders.work / "read.py",
            "import importlib_metadata, os, pkgutil\nlist(pkgutil.iter_modules())\n"
            "importlib_metadata.version('h5py')\nlist(importlib_metadata.distributions())\n"
            "os.mkdir('found')\nos.listdir()\n",
        )
        reading = folders.start(1, sys.executable, "read.py")
        wait_for((folders.work / "found").exists, LIMIT, "the modules are found")
        wait_for(lambda: folders.waits(1), LIMIT, "the program's own listing waits")
        folders.end()
        folders.finish(reading)
    finally:
        folders.remove()


AT_THE_END = """\
import os
class Listing:
    def __del__(self, listdir=os.listdir, write=os.write):
        write(1, ",".join(listdir(".")).encode())
kept = Listing()
kept.itself = kept
"""


def test_what_lists_while_python_ends_waits_too(tmp_path: Path) -> None:
    """Finalisers are the program's."""
    folders = Folders(tmp_path, "memory", "elsewhere")
    try:
        reading = folders.start(1, sys.executable, "-c", AT_THE_END)
        wait_for(lambda: folders.waits(1), LIMIT, "the listing waits")
        folders.write(1)
        assert folders.finish(reading) == "plt0000.h5"
    finally:
        folders.remove()


LIST_AND_READ = """\
import glob
import h5py
for name in sorted(glob.glob("plt*.h5")):
    with h5py.File(name) as file:
        print("got", file["by"].asstr()[()], file["step"][()], flush=True)
"""


def writer(number: int, mode: str = "memory") -> str:
    """The task that writes so many files `plt0000.h5`, `plt0001.h5`, ..."""
    port = f"{{filename: 'plt*.h5', mode: {mode}}}"
    return f"{{func: ./write.py, nprocs: 1, args: ['plt{{:04}}.h5', '{number}', w], outports: [{port}]}}"


class TestStartedAgain:
    """A program that lists, reads what is there and ends is started for the rest."""

    @pytest.mark.usual("memory")
    @pytest.mark.parametrize("mode", ["memory", "both", "file"])
    def test_every_step_arrives_once(self, tmp_path: Path, mode: str) -> None:
        streams = Streams(tmp_path)
        streams.program("all.py", LIST_AND_READ)
        ran = streams.run(f"- {writer(7, mode)}\n- {{func: ./all.py, nprocs: 1, inports: [{{filename: 'plt*.h5'}}]}}\n")
        assert streams.got("all") == steps("w", 7)
        assert streams.summary()["all"]["starts"] > 1
        assert ran.err.count("started again") == 1
        assert "listing: end" in ran.err

    def test_a_shell_script(self, tmp_path: Path) -> None:
        """Each name is had once, by the programs that the script starts."""
        streams = Streams(tmp_path)
        streams.program(
            "all.sh",
            "#!/bin/sh\nfor f in plt*.h5; do test -f $f && echo got $(h5dump -d step $f | grep -o '(0): .*'); done\n",
        )
        streams.run(f"- {writer(5)}\n- {{func: ./all.sh, nprocs: 1, inports: [{{filename: 'plt*.h5'}}]}}\n")
        assert streams.got("all") == [f"(0): {number}" for number in range(5)]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_not_after_names_of_its_own(self, tmp_path: Path) -> None:
        """A program that ends after two steps that it named by itself is done, as ever."""
        streams = Streams(tmp_path)
        streams.program(
            "two.py", "import h5py\nfor n in (0, 1):\n    print('got', h5py.File(f'plt{n:04}.h5')['step'][()])\n"
        )
        streams.run(f"- {writer(6)}\n- {{func: ./two.py, nprocs: 1, inports: [{{filename: 'plt*.h5'}}]}}\n")
        assert streams.got("two") == ["0", "1"]

    def test_never(self, tmp_path: Path) -> None:
        streams = Streams(tmp_path)
        streams.program("all.py", LIST_AND_READ)
        streams.run(
            f"- {writer(9)}\n- {{func: ./all.py, nprocs: 1, rerun: never, inports: [{{filename: 'plt*.h5'}}]}}\n"
        )
        assert 0 < len(streams.got("all")) < 9
        assert streams.summary()["all"]["starts"] == 1

    @pytest.mark.needs(MPIEXEC, "python:mpi4py")
    @pytest.mark.one_host("`rerun:` has no effect on a task with ranks on several hosts")
    def test_two_ranks(self, tmp_path: Path) -> None:
        """Rank 0 lists, and both read all that it was shown."""
        streams = Streams(tmp_path)
        streams.program(
            "all.py",
            "import glob, h5py\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
            "names = world.bcast(sorted(glob.glob('plt*.h5')) if world.rank == 0 else None)\n"
            "for name in names:\n    with h5py.File(name) as file:\n"
            "        print(f'got {world.rank}', file['step'][()], flush=True)\n    world.Barrier()\n",
        )
        streams.run(f"- {writer(5)}\n- {{func: ./all.py, nprocs: 2, inports: [{{filename: 'plt*.h5'}}]}}\n")
        assert sorted(streams.got("all")) == sorted(f"{rank} {number}" for rank in (0, 1) for number in range(5))


AVERAGE = """\
import glob, sys
import h5py
values = []
for name in sorted(glob.glob("plt*.h5")):
    with h5py.File(name) as file:
        values.append(int(file["step"][()]))
print("got", sum(values) / len(values), len(values))
"""


SLOW = f"""\
{WAITS}
import h5py
for n in range(3):
    with h5py.File(f"plt{{n:04}}.h5", "w") as file:
        file["step"] = n
    waits.until_published(1, n + 1)  # of an in-port: read
"""
"""Writes a file when the last one was read."""


class TestWholeSeries:
    """With `listing: end` a listing waits for all steps, more than the queue holds."""

    @pytest.mark.usual("both")
    @pytest.mark.parametrize("mode", ["memory", "both", "file"])
    def test_an_average(self, tmp_path: Path, mode: str) -> None:
        streams = Streams(tmp_path)
        streams.program("average.py", AVERAGE)
        streams.run(
            f"- {writer(41, mode)}\n"
            "- {func: ./average.py, nprocs: 1, inports: [{filename: 'plt*.h5', listing: end}]}\n"
        )
        assert streams.got("average") == ["20.0 41"]
        assert streams.summary()["average"]["starts"] == 1
        assert len(list(tmp_path.glob("plt*.h5"))) == (0 if mode == "memory" else 41)
        assert not list(tmp_path.glob(".wilkins-*"))

    @pytest.mark.nightly
    def test_without_it_a_strict_run_fails(self, tmp_path: Path) -> None:
        """The reader was started again, and no start has seen all files: exit code 0 and a hint, unless strict."""
        streams = Streams(tmp_path)
        streams.program("average.py", AVERAGE)
        streams.program("slow.py", SLOW)
        slow = "- {func: ./slow.py, nprocs: 1, outports: [{filename: 'plt*.h5'}]}\n"
        reader = "- {func: ./average.py, nprocs: 1, inports: [{filename: 'plt*.h5'KEYS}]REST}\n"
        plain = slow + reader.replace("KEYS", "").replace("REST", "")
        ran = streams.run(plain, "--strict", code=1)
        assert "average listed a folder before all its files were there" in " ".join(ran.err.split())
        assert streams.record()["exit_code"] == 1
        streams.run(plain)
        streams.run(slow + reader.replace("KEYS", "").replace("REST", ", rerun: always"), "--strict")
        whole = reader.replace("KEYS", ", listing: end").replace("REST", "")
        streams.run(f"- {writer(3)}\n{whole}", "--strict")

    def test_a_pattern_of_the_shell(self, tmp_path: Path) -> None:
        """The shell that expands it is the task's program."""
        streams = Streams(tmp_path)
        streams.run(
            f"- {writer(12)}\n"
            "- {name: count, func: sh, args: ['-c', 'set -- plt*.h5; cat $* > /dev/null; echo got $# $1'], nprocs: 1, "
            "inports: [{filename: 'plt*.h5', listing: end}]}\n"
        )
        assert streams.got("count") == ["12 plt0000.h5"]

    def outgrown(self, tmp_path: Path, more: str, code: int = 0) -> tuple[Streams, Finished]:
        """A run with steps that take more than the port's memory together."""
        streams = Streams(tmp_path)
        streams.program("average.py", AVERAGE)
        streams.program(
            "large.py",
            "import h5py, numpy\nfor n in range(12):\n    with h5py.File(f'plt{n:04}.h5', 'w') as file:\n"
            "        file['step'] = n\n        file['x'] = numpy.zeros(100_000)\n",
        )
        tasks = (
            f"- {{func: ./large.py, nprocs: 1, outports: [{{filename: 'plt*.h5', memory: 4MiB{more}}}]}}\n"
            "- {func: ./average.py, nprocs: 1, inports: [{filename: 'plt*.h5', listing: end}]}\n"
        )
        return streams, streams.run(tasks, code=code)

    @pytest.mark.one_host("it ends when the programs of all hosts have waited for each other a while")
    def test_memory_that_the_series_outgrows(self, tmp_path: Path) -> None:
        """The run stops with an error that names the remedy."""
        _, ran = self.outgrown(tmp_path, "", code=1)
        assert "mode: both" in ran.err
        assert "listing: end" in ran.err

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_series_that_waits_on_disk(self, tmp_path: Path) -> None:
        """It is that remedy. On a reader's host without the disk it takes memory, and is not held up for that."""
        streams, _ = self.outgrown(tmp_path, ", mode: both")
        assert streams.got("average") == ["5.5 12"]


LOOKS_FIRST = """\
import glob, sys
import h5py
mine, other = sys.argv[1:]
found = glob.glob(f"{other}*.h5")
for number in range(3):
    if number or found:
        with h5py.File(f"{other}{number - (not found)}.h5") as file:
            print("got", file["number"][()])
    with h5py.File(f"{mine}{number}.h5", "w") as file:
        file["number"] = number
"""


class TestAtOnce:
    """A listing that has nothing to wait for, or must not wait, is answered."""

    def test_a_cycle(self, tmp_path: Path) -> None:
        """Each lists before it writes: the one that nobody can help goes on, and is told of."""
        streams = Streams(tmp_path)
        streams.program("a.py", LOOKS_FIRST)
        streams.program("b.py", LOOKS_FIRST)
        streams.run(
            "- {func: ./a.py, args: [a, b], outports: [{filename: 'a*.h5'}],\n"
            "   inports: [{filename: 'b*.h5', looks: wait}]}\n"
            "- {func: ./b.py, args: [b, a], outports: [{filename: 'b*.h5'}], inports: [{filename: 'a*.h5'}]}\n"
        )
        assert sorted(map(len, (streams.got("a"), streams.got("b")))) == [2, 3]
        log = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
        assert "lists a folder" in log

    def test_looks_now(self, tmp_path: Path) -> None:
        """`looks: now` on the in-port: nothing is waited for."""
        streams = Streams(tmp_path)
        streams.program(
            "peek.py",
            "import glob\nprint('got', len(glob.glob('plt*')), flush=True)\nopen('plt0000.h5')\n",
        )
        streams.program("late.py", f"{WAITS}\nwaits.until_waits(1)\nopen('plt0000.h5', 'w').close()\n")
        streams.run(
            "- {func: ./late.py, nprocs: 1, outports: [{filename: 'plt*.h5'}]}\n"
            "- {func: ./peek.py, nprocs: 1, inports: [{filename: 'plt*.h5', looks: now}]}\n"
        )
        assert streams.got("peek") == ["0"]

    @pytest.mark.usual("16-1", also_between_hosts=["2-0"])
    @pytest.mark.one_host("two queues and a relay hold steps for which one host has no room", "2-0")
    @pytest.mark.parametrize(("reorder", "shown"), [(16, "1"), (2, "0")])
    def test_another_in_port_is_full(self, tmp_path: Path, reorder: int, shown: str) -> None:
        """A producer that is held up by one in-port brings the first step of another one if the queue can grow."""
        streams = Streams(tmp_path)
        streams.program(
            "read.py",
            "import glob, h5py, os\nprint('got', len(glob.glob('out/b*.h5')))\n"
            "for n in range(4):\n    h5py.File(f'a{n}.h5')\nh5py.File('out/b0.h5')\n",
        )
        (tmp_path / "out").mkdir()
        streams.program(
            "both.py",
            "import h5py\nfor n in range(4):\n    h5py.File(f'a{n}.h5', 'w').close()\n"
            "h5py.File('out/b0.h5', 'w').close()\n",
        )
        streams.run(
            "- {func: ./both.py, nprocs: 1, outports: [{filename: 'a*.h5'}, {filename: 'out/b*.h5'}]}\n"
            "- {func: ./read.py, nprocs: 1, "
            f"inports: [{{filename: 'a*.h5', reorder: {reorder}}}, {{filename: 'out/b*.h5'}}]}}\n"
        )
        assert streams.got("read") == [shown]


@pytest.mark.nightly
@pytest.mark.also_between_hosts
@pytest.mark.needs(MPIEXEC, "python:mpi4py")
@pytest.mark.one_host("`rerun:` has no effect on a task with ranks on several hosts")
def test_ranks_that_list_each_for_itself_are_shown_the_same(tmp_path: Path) -> None:
    """However far apart they are, the n-th listing of each rank has the same names."""
    streams = Streams(tmp_path)
    streams.program(
        "share.py",
        "import glob, h5py\nfrom mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"
        "names = sorted(glob.glob('plt*.h5'))\nprint('got', *names, flush=True)\n"
        "for name in names:\n    h5py.File(name).close()\n",
    )
    streams.run(f"- {writer(6)}\n- {{func: ./share.py, nprocs: 2, inports: [{{filename: 'plt*.h5'}}]}}\n")
    shown = streams.got("share")
    assert sorted(shown) == sorted(2 * list(dict.fromkeys(shown)))
    assert sorted(name for line in dict.fromkeys(shown) for name in line.split()) == [f"plt{n:04}.h5" for n in range(6)]


def test_folders_above_those_of_a_whole_pattern(tmp_path: Path) -> None:
    """A glob lists them first: until a producer has begun a file, they may come to hold what it looks for."""
    flow = Workflow(tmp_path)
    (tmp_path / "out").mkdir()
    pattern = f"{tmp_path}/out/step*/x.dat"
    write = "import os, time\ntime.sleep(1)\n"
    write += f"os.mkdir('{tmp_path}/out/step0')\nopen('{tmp_path}/out/step0/x.dat', 'w').write('0')\n"
    flow.task("writer", write, outports=[{"filename": pattern}])
    read = f"import glob\nprint(len(glob.glob('{pattern}')))\n"
    flow.task("reader", read, inports=[{"filename": pattern}], rerun="never", enough=True)
    assert "reader | 1" in flow.run().out
