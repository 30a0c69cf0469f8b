"""One name that stands for the next step of an in-port, whatever its producers call that: `as:` and `{filename}`."""

from __future__ import annotations

from pathlib import Path

import pytest
from front.front_case import Case
from programs.build import build, parallel_c, serial_c

from support.running import MPIEXEC, WAITS, must_run
from support.streams import Streams, by_writer, steps
from wilkins.flow.trace import read_trace
from wilkins.plan.graph import blocks

MODES = pytest.mark.parametrize("mode", ["memory", "both", "file"])
STEPS = 4
READ_ON_RANKS = """\
import os, sys
import h5py
with open(f"got-{os.environ['RANK']}", "w") as told:
    while True:
        try:
            with h5py.File(sys.argv[1], "r") as file:
                print(file["by"].asstr()[()], file["step"][()], file=told)
        except FileNotFoundError:
            break
"""
"""``ranks.py NAME``: each rank notes what it gets."""


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    """A user's folder with programs that write and read."""
    return Streams(tmp_path)


def sim(name: str = "out_{}.h5", count: int = STEPS, tag: str = "sim", more: str = "", port: str = "") -> str:
    """A task that writes files of other names than its reader opens."""
    return (
        f"  - {{name: {tag}, func: ./write.py, args: ['{name}', {count}, {tag}],\n"
        f"     outports: [{{filename: '*.h5'{port}}}]{more}}}\n"
    )


def con(args: str = "outfile.h5", port: str = ", as: outfile.h5", more: str = "", func: str = "read.py") -> str:
    """A task that reads all of them, by default by one name of its own."""
    return f"  - {{name: con, func: ./{func}, args: [{args}],\n     inports: [{{filename: '*.h5'{port}}}]{more}}}\n"


class TestGivenInTheFile:
    """`as: outfile.h5` on an in-port."""

    @pytest.mark.usual("memory", also_between_hosts=["file"])
    @MODES
    def test_each_open_is_the_next_step(self, streams: Streams, mode: str) -> None:
        streams.run(sim(port=f", mode: {mode}") + con())
        assert streams.got("con") == steps("sim", STEPS)
        on_disk = [f"out_{step}.h5" for step in range(STEPS)] if mode != "memory" else []
        assert sorted(path.name for path in streams.folder.glob("*.h5")) == on_disk

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_the_producer_writes_one_name_too(self, streams: Streams) -> None:
        streams.run((sim("a.h5") + con()).replace("filename: '*.h5'", "filename: a.h5"))
        assert streams.got("con") == steps("sim", STEPS)

    def test_a_program_that_never_opens_it_is_told_the_name(self, streams: Streams) -> None:
        streams.program("idle.py", "")
        finished = streams.run(sim() + con("", func="idle.py"), code=1)
        assert "con: ended without ever using its memory port 'outfile.h5'" in finished.err

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    @pytest.mark.one_host("the order of files of one name from several hosts may differ from host to host")
    def test_two_producers_in_the_order_of_publication_alike_on_all_ranks(self, streams: Streams) -> None:
        streams.program("ranks.py", READ_ON_RANKS)
        streams.run(
            sim("a{}.h5", tag="a")
            + sim("b.h5", tag="b")
            + con(func="ranks.py", more=f", nprocs: 2, mpiexec: {MPIEXEC}"),
            timeout=60,
        )
        got = [(streams.folder / f"got-{rank}").read_text().splitlines() for rank in range(2)]
        assert by_writer(got[0]) == {"a": list(range(STEPS)), "b": list(range(STEPS))}
        assert got[0] == got[1]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_the_keys_that_go_with_a_stream(self, streams: Streams) -> None:
        """Two opens of each second step, after two that find nothing."""
        streams.program(
            "twice.py",
            """\
import h5py
for missing in range(2):
    try:
        h5py.File("outfile.h5")
        raise SystemExit("read a step")
    except FileNotFoundError:
        pass
for _ in range(4):
    with h5py.File("outfile.h5") as file:
        print("got", file["by"].asstr()[()], file["step"][()])
""",
        )
        streams.run(sim() + con("", ", as: outfile.h5, opens_per_step: 2, first: missing, io_freq: 2", func="twice.py"))
        assert streams.got("con") == steps("sim", [1, 1, 3, 3])

    def test_only_this_name_is_the_ports(self, streams: Streams) -> None:
        """Other names that the pattern matches are files on disk, as without Wilkins."""
        must_run(streams.folder, "python", "-c", "import h5py; h5py.File('mask.h5', 'w')['mask'] = 7")
        streams.program(
            "masked.py",
            """\
import os
import h5py
print("got", "mask", h5py.File("mask.h5")["mask"][()])
with h5py.File("sub/../outfile.h5") as file:
    print("got", file["by"].asstr()[()], file["step"][()])
assert not os.path.exists("out_1.h5")
try:
    h5py.File("out_1.h5")
except FileNotFoundError:
    print("got", "missing", 1)
with h5py.File(os.path.abspath("outfile.h5")) as file:
    print("got", file["by"].asstr()[()], file["step"][()])
""",
        )
        streams.run(sim(count=2) + con("", func="masked.py"))
        assert streams.got("con") == ["mask 7", "sim 0", "missing 1", "sim 1"]

    def test_looks_show_the_name_and_removing_it_lets_the_step_go(self, streams: Streams) -> None:
        streams.program(
            "looks.py",
            """\
import glob, os
import h5py
assert os.path.exists("outfile.h5")
assert glob.glob("*.h5") == ["outfile.h5"] and h5py.is_hdf5("outfile.h5"), glob.glob("*.h5")
with h5py.File("outfile.h5") as file:
    print("got", file["by"].asstr()[()], file["step"][()])
os.remove("outfile.h5")
assert os.path.exists("outfile.h5")
os.remove("outfile.h5")
with h5py.File("outfile.h5") as file:
    print("got", file["by"].asstr()[()], file["step"][()])
try:
    h5py.File("outfile.h5")
except FileNotFoundError:
    assert not os.path.exists("outfile.h5") and glob.glob("*.h5") == []
    print("got", "end", 0)
""",
        )
        streams.run(sim(count=3, more=", cwd: '.'", port=", queue: 4") + con("", func="looks.py"))
        assert streams.got("con") == ["sim 0", "sim 2", "end 0"]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_start_for_each_step_and_loops_in_it(self, streams: Streams) -> None:
        """With `{filename}`, which is the producer's name, each open of one start is a step."""
        streams.program(
            "two.py",
            """\
import sys
import h5py
print("start", sys.argv[1])
for _ in range(2):
    with h5py.File("outfile.h5") as file:
        print("got", file["by"].asstr()[()], file["step"][()])
""",
        )
        streams.run(sim() + con("'{filename}'", func="two.py"))
        assert streams.got("con") == steps("sim", STEPS)
        started = [line for line in streams.log("con").splitlines() if line.startswith("start")]
        assert started == ["start out_0.h5", "start out_2.h5"]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_channels_and_names_in_order(self, streams: Streams) -> None:
        """Programs that use `wilkins.transport` find the steps by the port's pattern, under the name."""
        streams.program(
            "channel.py",
            """\
import h5py
from wilkins.transport import steps, open as channel
for number, step in enumerate(channel("*.h5")):
    print("got", step.filename, step["step"][()] if number else step.file["step"][()])
    if number == 1:
        break
for name in steps.names("*.h5"):
    with h5py.File(name) as file:
        print("got", name, file["step"][()])
""",
        )
        streams.run(sim() + con("", func="channel.py"))
        assert streams.got("con") == steps("outfile.h5", STEPS)

    @pytest.mark.usual("mpich-shared", also_between_hosts=["openmpi-static"])
    @pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
    @pytest.mark.parametrize(
        ("mpi", "launcher"),
        [
            pytest.param("mpich", "mpiexec.mpich", marks=pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich"), id="mpich"),
            pytest.param(
                "openmpi",
                "mpirun.openmpi --oversubscribe",
                marks=pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi"),
                id="openmpi",
            ),
        ],
    )
    def test_ranks_that_open_it_together(self, streams: Streams, mpi: str, launcher: str, *, static: bool) -> None:
        """Collective MPI-IO on both sides: three ranks read what two have written."""
        compiler = parallel_c(mpi, static=static)
        words = f"mpiexec: {launcher}, nprocs"
        streams.run(
            f"  - {{name: sim, func: {build('par_write.c', *compiler)}, args: ['plt%04d.h5', 3], {words}: 2,\n"
            "     outports: [{filename: 'plt*.h5'}]}\n"
            f"  - {{name: con, func: {build('par_read.c', *compiler)}, args: ['outfile.h5', 3], {words}: 3,\n"
            "     inports: [{filename: 'plt*.h5', as: outfile.h5}]}\n",
            timeout=60,
        )
        assert streams.summary()["con"]["consumed"] == 3

    @pytest.mark.usual("static")
    @pytest.mark.needs("h5cc")
    @pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
    def test_c_programs(self, streams: Streams, *, static: bool) -> None:
        """Also those with HDF5 inside, which meet the name as a file."""
        compiler = serial_c(static=static)
        streams.run(
            f"  - {{name: sim, func: {build('ser_write.c', *compiler)}, args: ['plt%04d.h5', 3],\n"
            "     outports: [{filename: 'plt*.h5'}]}\n"
            f"  - {{name: con, func: {build('ser_read.c', *compiler)}, args: ['outfile.h5', 3],\n"
            "     inports: [{filename: 'plt*.h5', as: outfile.h5}]}\n"
        )
        assert streams.summary()["con"]["consumed"] == 3


LOOP = """\
import os, sys
import h5py
print("start", *sys.argv[1:], flush=True)
for _ in range(int(sys.argv[1])):
    with h5py.File("outfile.h5") as file:
        print("got", file["by"].asstr()[()], file["step"][()], flush=True)
"""
"""``loop.py OPENS NAME``: opens a name of its own so often, whatever name it is given."""


def loop(opens: int, more: str = "", port: str = "") -> str:
    """A task that is told the names of its steps and opens one of its own."""
    return con(f"{opens}, '{{filename}}'", port, more, "loop.py")


def starts(streams: Streams) -> list[str]:
    """The names that the reader was started with."""
    return [line.split()[-1] for line in streams.log("con").splitlines() if line.startswith("start")]


NOTE = "note: task con: 'outfile.h5' stood for the next step of \"*.h5\""


class TestFoundByTheFirstOpen:
    """Without `as:`, a program with `{filename}` among its `args` that opens a name unlike any of the producers'."""

    @pytest.fixture(autouse=True)
    def programs(self, streams: Streams) -> None:
        """Those that are told the names."""
        streams.program("loop.py", LOOP)

    @pytest.mark.usual("memory")
    @MODES
    def test_a_start_for_each_step(self, streams: Streams, mode: str) -> None:
        ran = streams.run(sim(port=f", mode: {mode}") + loop(1), timeout=60)
        assert streams.got("con") == steps("sim", STEPS)
        assert starts(streams) == [f"out_{step}.h5" for step in range(STEPS)]
        assert f"{NOTE} ({STEPS} steps)" in ran.err

    @pytest.mark.usual("beyond")
    @pytest.mark.parametrize(("opens", "count"), [(4, 4), (2, 4), (3, 4)], ids=["all", "twice", "beyond"])
    def test_several_opens_in_a_start_are_several_steps(self, streams: Streams, opens: int, count: int) -> None:
        """The program is started again while steps are left; an open beyond the last one is the end of its input."""
        streams.run(sim(count=count) + loop(opens))
        assert streams.got("con") == steps("sim", count)
        assert len(starts(streams)) == -(-count // opens)

    def test_an_error_beyond_the_last_step_counts_where_the_file_says_so(self, streams: Streams) -> None:
        streams.run(sim(count=3) + loop(2, ", strict_end: true"), code=1)
        assert streams.got("con") == steps("sim", 3)

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_start_that_opens_nothing_is_not_repeated(self, streams: Streams) -> None:
        """Its step is left out, and the next start is for the step behind it."""
        streams.program("loop.py", LOOP.replace("import h5py", "import h5py\nif 'out_1' in sys.argv[2]: sys.exit(0)"))
        streams.run(sim() + loop(1))
        assert streams.got("con") == steps("sim", [0, 2, 3])

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_the_first_start_opens_nothing(self, streams: Streams) -> None:
        streams.program("loop.py", LOOP.replace("import h5py", "import h5py\nif 'out_0' in sys.argv[2]: sys.exit(0)"))
        finished = streams.run(sim() + loop(1), code=1)
        assert "ended without ever using its memory port '*.h5'" in finished.err

    @pytest.mark.one_host("`rerun:` has no effect on a task with ranks on several hosts")
    def test_ranks_agree_and_the_name_stays_for_the_run(self, streams: Streams) -> None:
        """Three ranks, two producers, two starts."""
        streams.program("loop.py", LOOP.replace('"got"', '"got", os.environ["RANK"]'))
        tasks = sim("a{}.h5", tag="a") + sim("b{}.h5", tag="b")
        streams.run(tasks + loop(4, f", nprocs: 3, mpiexec: {MPIEXEC}"), timeout=60)
        got = [[line[2:] for line in streams.got("con") if line[0] == str(rank)] for rank in range(3)]
        assert by_writer(got[0]) == {"a": list(range(STEPS)), "b": list(range(STEPS))}
        assert got[0] == got[1] == got[2]

    def c_pair(self, streams: Streams, writer: Path, reader: Path, more: str = "") -> None:
        """A pair of C programs that check all values, of which one is told a name that it never uses."""
        streams.program("told.sh", f"#!/bin/sh\nexec {reader} outfile.h5 3\n")
        streams.run(
            f"  - {{name: sim, func: {writer}, args: ['plt%04d.h5', 3], outports: [{{filename: '*.h5'}}]{more}}}\n"
            f"  - {{name: con, func: ./told.sh, args: ['{{filename}}'], inports: [{{filename: '*.h5'}}]{more}}}\n",
            timeout=60,
        )
        assert streams.summary()["con"]["consumed"] == 3 and streams.summary()["con"]["starts"] == 1

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    @pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")
    def test_ranks_that_open_it_together(self, streams: Streams) -> None:
        """Collective MPI-IO."""
        compiler = parallel_c("mpich", static=False)
        more = ", nprocs: 2, mpiexec: mpiexec.mpich"
        self.c_pair(streams, build("par_write.c", *compiler), build("par_read.c", *compiler), more)

    @pytest.mark.usual("static")
    @pytest.mark.needs("h5cc")
    @pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
    def test_c_programs(self, streams: Streams, *, static: bool) -> None:
        """Also those with HDF5 inside, which open the name as a file."""
        compiler = serial_c(static=static)
        self.c_pair(streams, build("ser_write.c", *compiler), build("ser_read.c", *compiler))


GUESS = """\
import os, sys
import h5py
def read(name):
    with h5py.File(name) as file:
        print("got", file["by"].asstr()[()], file["step"][()], flush=True)
"""


class TestNeverByAGuess:
    """What a name does not come to stand for."""

    def told(self, streams: Streams, program: str, more: str = "") -> str:
        """A task that is told the names of its steps, and runs this."""
        streams.program("guess.py", GUESS + program)
        return con("'{filename}'", "", more, "guess.py")

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_looks_decide_nothing(self, streams: Streams) -> None:
        program = """\
assert not os.path.exists("mask.h5") and not os.access("mask.h5", os.R_OK) and not h5py.is_hdf5("mask.h5")
read("outfile.h5")
assert not os.path.exists("mask.h5")
"""
        streams.run(sim() + self.told(streams, program))
        assert streams.got("con") == steps("sim", STEPS)

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_producers_name_with_another_number_is_waited_for(self, streams: Streams) -> None:
        """Asked for before it is there; after it, no name stands in any more."""
        program = 'read("out_1.h5")\nread("out_3.h5")\n'
        streams.run(sim(port=", queue: 4") + self.told(streams, program, ", rerun: never"))
        assert streams.got("con") == steps("sim", [1, 3])
        program = "read(sys.argv[1])\nread('outfile.h5')\n"
        finished = streams.run(sim(count=30) + self.told(streams, program), code=4)
        assert "task 'con' rank 0 waits for 'outfile.h5'" in finished.err

    def test_a_misspelt_name_of_a_program_that_is_told_none(self, streams: Streams) -> None:
        """The report of the stuck run says what the file lacks if the name was meant."""
        finished = streams.run(sim(count=30) + con(port=""), code=4)
        assert "give the in-port `as: outfile.h5`" in finished.err
        assert streams.got("con") == []
        finished = streams.run(sim(count=30) + con("out_77.h5", port=""))
        assert "`as:" not in finished.err

    def test_a_file_on_disk(self, streams: Streams) -> None:
        """It is not the step, and not read either; the run says what would help."""
        make = "import h5py\nwith h5py.File('mask.h5', 'w') as file:\n    file['step'], file['by'] = 0, 'disk'\n"
        must_run(streams.folder, "python", "-c", make)
        finished = streams.run(sim(count=30) + self.told(streams, 'read("mask.h5")\n'), code=4)
        assert "is a file on disk, too" in finished.err and "`as: mask.h5`" in finished.err
        assert streams.got("con") == []

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_file_that_the_program_has_written_itself(self, streams: Streams) -> None:
        """Also over one that an earlier run has left."""
        self.leave(streams)
        program = """\
import subprocess
make = "import h5py\\nwith h5py.File('outfile.h5', 'w') as file:\\n    file['step'], file['by'] = 0, 'own'\\n"
environment = {k: v for k, v in os.environ.items() if not k.startswith("WILKINS") and k != "LD_PRELOAD"}
subprocess.run([sys.executable, "-c", make], env=environment, check=True)
read("outfile.h5")
"""
        finished = streams.run(sim(count=30) + self.told(streams, program), code=4)
        assert "is a file on disk, too" in finished.err
        assert streams.got("con") == []

    def leave(self, streams: Streams) -> None:
        """A run that leaves `outfile.h5` on disk."""
        streams.run(sim("outfile.h5", port=", mode: file") + con())
        assert (streams.folder / "outfile.h5").exists()

    def test_a_file_that_an_earlier_run_has_left(self, streams: Streams) -> None:
        """It is no file of the program's: the records of the run tell."""
        self.leave(streams)
        finished = streams.run(sim() + self.told(streams, 'read("outfile.h5")\n'))
        assert streams.got("con") == steps("sim", STEPS)
        assert NOTE in finished.err

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_second_name(self, streams: Streams) -> None:
        finished = streams.run(sim(count=30) + self.told(streams, "read('outfile.h5')\nread('other.h5')\n"), code=4)
        assert "'outfile.h5' stands for the next step of '*.h5' for con, so 'other.h5' never comes" in finished.err
        assert streams.got("con") == ["sim 0"]

    @pytest.mark.usual(also_between_hosts=["in7.h5"])
    @pytest.mark.parametrize("name", ["outfile.h5", "in7.h5"])
    def test_a_producer_publishes_the_name_later(self, streams: Streams, name: str) -> None:
        """Or one that differs only in its number."""
        program = f"read('{name.replace('7', '1')}')\nopen('read', 'w').close()\n"
        streams.program(
            "late.py",
            "import os, time\nimport h5py\n"
            "for name in ('a.h5', 'b.h5'):\n"
            "    with h5py.File(name, 'w') as file:\n        file['step'], file['by'] = 0, name\n"
            "until = time.monotonic() + 60\n"
            "while not os.path.exists('read') and time.monotonic() < until:\n    time.sleep(0.01)\n"
            f"with h5py.File('{name}', 'w') as file:\n    file['step'], file['by'] = 1, 'late'\n",
        )
        late = "  - {name: sim, func: ./late.py, outports: [{filename: '*.h5'}]}\n"
        finished = streams.run(late + self.told(streams, program, ", rerun: never"), code=1)
        assert "task 'con' has opened" in finished.err and "now task 'sim' publishes" in finished.err


INSTANCE = """\
import os, sys
import h5py
rank = int(os.environ.get("RANK", "0"))
for step in range(int(sys.argv[2])):
    with h5py.File(f"s{step}-{rank}.h5", "w") as file:
        file["step"], file["by"] = step, f"{sys.argv[1]}.{rank}"
"""
"""``instance.py NUMBER STEPS``: each rank writes files of names that it has in every instance, in one folder."""


class TestEnsembles:
    """Instances that write the same names in one folder: each reader gets the files of its own producers."""

    @pytest.mark.one_host("the trace of each host has its own order of publication")
    @pytest.mark.usual(also_between_hosts=["memory-once-1-4-2"])
    @pytest.mark.parametrize(("writers", "readers"), [(4, 2), (2, 4), (3, 3)])
    @pytest.mark.parametrize("ranks", [1, 2])
    @pytest.mark.parametrize("opens", ["loop", "once"])
    @MODES
    def test_own_producers_in_order_of_publication(
        self, streams: Streams, mode: str, opens: str, ranks: int, writers: int, readers: int
    ) -> None:
        count = 2
        streams.program("instance.py", INSTANCE)
        streams.program("loop.py", LOOP)
        per_reader = count * ranks * max(writers // readers, 1)
        mpi = f", nprocs: 2, mpiexec: {MPIEXEC}" if ranks > 1 else ""
        streams.run(
            f"  - {{name: sim, func: ./instance.py, args: ['{{instance}}', {count}], taskCount: {writers}{mpi},\n"
            f"     outports: [{{filename: '*.h5', mode: {mode}}}]}}\n"
            + loop(per_reader if opens == "loop" else 1, f", taskCount: {readers}"),
            timeout=80,
        )
        events = read_trace(streams.folder / "wilkins-runs" / "latest")
        for reader in range(readers):
            own = [i for i, j in blocks(writers, readers) if j == reader]
            published = [
                f"{event.task[4:-1]}.{event.rank} {event.sequence}"
                for event in events
                if event.event == "publish" and int(event.task[4:-1]) in own
            ]
            assert len(published) == per_reader
            assert streams.got(f"con[{reader}]") == published

    @pytest.mark.nightly
    @pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")
    @MODES
    def test_ranks_of_instances_that_write_and_read_together(self, streams: Streams, mode: str) -> None:
        """Collective MPI-IO in all of them: two ranks in each of two writers, three in each of two readers."""
        compiler = parallel_c("openmpi", static=False)
        mpi = "mpiexec: mpirun.openmpi --oversubscribe, taskCount: 2, nprocs"
        streams.program("told.sh", f"#!/bin/sh\nexec {build('par_read.c', *compiler)} outfile.h5 3\n")
        streams.run(
            f"  - {{name: sim, func: {build('par_write.c', *compiler)}, args: ['plt%04d.h5', 3], {mpi}: 2,\n"
            f"     outports: [{{filename: '*.h5', mode: {mode}}}]}}\n"
            f"  - {{name: con, func: ./told.sh, args: ['{{filename}}'], inports: [{{filename: '*.h5'}}], {mpi}: 3}}\n",
            timeout=80,
        )
        assert [streams.summary()[f"con[{k}]"]["consumed"] for k in range(2)] == [3, 3]

    @pytest.mark.usual(also_between_hosts=["file"])
    @pytest.mark.parametrize("mode", ["both", "file"])
    def test_a_file_on_disk_that_another_instance_replaces(self, streams: Streams, mode: str) -> None:
        """Before its reader opens it, and while it has it open: the reader gets its own, the disk keeps the last."""
        streams.program(
            "instance.py",
            INSTANCE.replace(
                "import h5py",
                f"import h5py, time\n{WAITS}\nuntil = time.monotonic() + 60\n"
                "while sys.argv[1] == '1' and not os.path.exists('open') and time.monotonic() < until:\n"
                "    time.sleep(0.01)",
            ),
        )
        streams.program(
            "reads.py",
            f"""\
import sys
import h5py
{WAITS}
for step in range(2):
    with h5py.File("outfile.h5") as file:
        if sys.argv[1] == "0" and step == 0:
            open("open", "w").close()
            waits.until_published(1, 2)
        print("got", file["by"].asstr()[()], file["step"][()])
""",
        )
        streams.run(
            "  - {name: sim, func: ./instance.py, args: ['{instance}', 2], taskCount: 2,\n"
            f"     outports: [{{filename: '*.h5', mode: {mode}}}]}}\n"
            "  - {name: con, func: ./reads.py, args: ['{instance}', '{filename}'], taskCount: 2,\n"
            "     inports: [{filename: '*.h5'}]}\n"
        )
        assert [streams.got(f"con[{k}]") for k in range(2)] == [steps("0.0", 2), steps("1.0", 2)]
        last = "import h5py; print(h5py.File('s1-0.h5')['by'].asstr()[()])"
        assert must_run(streams.folder, "python", "-c", last) == "1.0\n"


class TestWhatTheCommandsSay:
    """`check`, `plan` and `graph`."""

    @pytest.fixture
    def case(self, tmp_path: Path) -> Case:
        case = Case(tmp_path)
        for name in ("write.py", "read.py"):
            case.program(name)
        return case

    def test_the_name_is_shown(self, case: Case) -> None:
        case.write("tasks:\n" + sim() + con())
        assert "*.h5 as outfile.h5" in must_run(case.folder, "wilkins", "plan", "workflow.yaml")
        for file_format in ("text", "mermaid", "dot"):
            shown = must_run(case.folder, "wilkins", "graph", "--format", file_format, "workflow.yaml")
            assert "*.h5 as outfile.h5" in shown

    def test_instances_may_have_a_name_each(self, case: Case) -> None:
        case.write("tasks:\n" + sim() + con(port=", as: 'in{instance}.h5'", more=", taskCount: 2"))
        assert [port.called for port in case.plan().ports if port.direction == "in"] == ["in0.h5", "in1.h5"]

    def test_a_port_of_real_files_needs_none(self, case: Case) -> None:
        case.write("tasks:\n" + con(port=", as: outfile.h5, mode: file"))
        assert any("a real file that no task writes; 'as' has no effect" in note for note in case.plan().notes)

    def test_wrong_names(self, case: Case) -> None:
        case.write("tasks:\n" + sim() + con(port=", as: 'out*.h5'"))
        assert "'as: out*.h5' is a pattern, but it is to be the one name" in case.error()
        case.write("tasks:\n" + sim() + con(port=", as: out/"))
        assert "this names a folder" in case.error()
        case.write("tasks:\n" + sim(port=", as: a.h5") + con())
        assert "unknown key 'as'" in case.error()

    def test_entries_of_one_file(self, case: Case) -> None:
        case.write("tasks:\n" + sim() + con(port=", as: a.h5}, {filename: '*.h5', as: b.h5"))
        assert "'as' differs from that at workflow.yaml:5:" in case.error()
        case.write("tasks:\n" + sim() + con(port="}, {filename: '*.h5', as: b.h5"))
        assert [port.called for port in case.plan().ports if port.direction == "in"] == ["b.h5"]

    @pytest.mark.parametrize(
        "other", ["filename: outfile.h5", "filename: 'o*.h5', as: outfile.h5", "filename: 'out*.h5'"]
    )
    def test_a_name_of_two_inports(self, case: Case, other: str) -> None:
        case.write("tasks:\n" + sim() + con(port=f", as: outfile.h5}}, {{{other}"))
        assert "'as: outfile.h5' is also a name of its inport" in case.error()
