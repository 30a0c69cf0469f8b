"""Every shape of graph with real programs: which steps arrive where, none lost and none twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, parallel_c, serial_c

from support.running import WAITS
from support.streams import Streams, by_writer, steps

SERIAL = pytest.mark.needs("h5cc")
MPICH = pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")
MPI4PY = pytest.mark.needs("python:mpi4py")

TWICE = """\
import h5py
while True:
    try:
        one, other = h5py.File("left.h5", "r"), h5py.File("right.h5", "r")
    except FileNotFoundError:
        break
    with one, other:
        print("got", one["by"].asstr()[()] + "&" + other["by"].asstr()[()], one["step"][()], flush=True)
        assert one["step"][()] == other["step"][()]
"""
"""Reads a step of each of two files at a time."""


LEAD = """\
from mpi4py import MPI
import runpy
if MPI.COMM_WORLD.rank == 0:
    runpy.run_path("{}.py")
MPI.COMM_WORLD.Barrier()
"""
"""A program of many ranks, of which only the first touches files."""


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    """A fresh folder."""
    return Streams(tmp_path)


def write(name: str, count: int, tag: str = "{instance}", task: str = "sim", more: str = "") -> str:
    """A task that writes a stream."""
    port = f"outports: [{{filename: '{name.replace('{}', '*')}'}}]"
    return f"  - {{name: {task}, func: ./write.py, args: ['{name}', {count}, '{tag}'], {port}{more}}}\n"


def read(name: str, task: str = "ana", more: str = "", port: str = "") -> str:
    """A task that reads a stream."""
    pattern = name.replace("{}", "*")
    return (
        f"  - {{name: {task}, func: ./read.py, args: ['{name}'], inports: [{{filename: '{pattern}'{port}}}]{more}}}\n"
    )


def pass_on(source: str, target: str, task: str, tag: str = "", more: str = "") -> str:
    """A task between two others."""
    ports = f"inports: [{{filename: {source}}}], outports: [{{filename: {target}}}]"
    return f"  - {{name: {task}, func: ./pass_on.py, args: [{source}, {target}, '{tag or task}'], {ports}{more}}}\n"


def test_a_pipeline(streams: Streams) -> None:
    streams.run(
        write("a.h5", 6, "sim") + pass_on("a.h5", "b.h5", "mid") + pass_on("b.h5", "c.h5", "end") + read("c.h5")
    )
    assert streams.got("ana") == steps("sim+mid+end", 6)


def test_a_fan_out(streams: Streams) -> None:
    streams.run(write("a{}.h5", 5, "sim") + "".join(read("a{}.h5", f"ana{k}") for k in range(3)))
    assert [streams.got(f"ana{k}") for k in range(3)] == [steps("sim", 5)] * 3


def test_a_fan_in(streams: Streams) -> None:
    """One stream made of three; each writer's steps in its order."""
    writers = "".join(
        write(f"part-{tag}.h5", count, tag, f"sim-{tag}") for tag, count in (("a", 4), ("b", 5), ("c", 6))
    )
    streams.program(
        "gather.py",
        "import h5py\nfor tag, count in (('a', 4), ('b', 5), ('c', 6)):\n    for k in range(count):\n"
        "        with h5py.File(f'part-{tag}.h5', 'r') as file:\n"
        "            print('got', file['by'].asstr()[()], file['step'][()], flush=True)\n",
    )
    streams.run(writers + "  - {name: ana, func: ./gather.py, inports: [{filename: 'part-?.h5'}]}\n")
    assert streams.got("ana") == steps("a", 4) + steps("b", 5) + steps("c", 6)


def test_a_diamond(streams: Streams) -> None:
    """Both branches of the same step meet again."""
    streams.program("both.py", TWICE)
    streams.run(
        write("a.h5", 6, "sim")
        + pass_on("a.h5", "left.h5", "l")
        + pass_on("a.h5", "right.h5", "r")
        + "  - {name: ana, func: ./both.py, inports: [{filename: left.h5}, {filename: right.h5}]}\n"
    )
    assert streams.got("ana") == steps("sim+l&sim+r", 6)


READ_BY = {
    (2, 5): [[0], [0], [0], [1], [1]],
    (5, 2): [[0, 1, 2], [3, 4]],
    (3, 3): [[0], [1], [2]],
}
"""The instances that each reader reads, by the numbers of writers and readers."""

SHAPES = pytest.mark.parametrize(("writers", "readers"), list(READ_BY))


class TestEnsembles:
    """n writing and m reading instances of one entry each."""

    def check(self, streams: Streams, writers: int, readers: int, count: int = 4) -> None:
        for reader, sources in enumerate(READ_BY[writers, readers]):
            got = streams.got(f"ana[{reader}]")
            assert by_writer(got) == {f"w{source}": list(range(count)) for source in sources}, (reader, got)
            assert len(got) == count * len(sources)

    @pytest.mark.usual(also_between_hosts=["5-2"])
    @SHAPES
    def test_of_python_programs(self, streams: Streams, writers: int, readers: int) -> None:
        streams.run(
            write("out.h5", 4, "w{instance}", more=f", taskCount: {writers}")
            + read("out.h5", more=f", taskCount: {readers}")
        )
        self.check(streams, writers, readers)

    @SERIAL
    @SHAPES
    def test_of_c_programs(self, streams: Streams, writers: int, readers: int) -> None:
        program = build("stream.c", *serial_c(static=False))
        streams.run(
            f"  - {{name: sim, func: {program}, taskCount: {writers}, args: [write, out.h5, 4, 'w{{instance}}'], "
            "outports: [{filename: out.h5}]}\n"
            f"  - {{name: ana, func: {program}, taskCount: {readers}, args: [read, out.h5], "
            "inports: [{filename: out.h5}]}\n"
        )
        self.check(streams, writers, readers)

    @pytest.mark.one_host(
        "files of one name that several hosts write have no one order for ranks on several hosts", "5-2"
    )
    @MPICH
    @pytest.mark.usual("2-5")
    @SHAPES
    def test_of_mpi_tasks_of_two_ranks(self, streams: Streams, writers: int, readers: int) -> None:
        """All ranks of each instance share its file; both ranks of a reader see the same steps."""
        program = build("stream.c", *parallel_c("mpich", static=False), defines=("USE_MPI",))
        task = f"func: {program}, nprocs: 2, mpiexec: mpiexec.mpich"
        streams.run(
            f"  - {{name: sim, {task}, taskCount: {writers}, args: [write, out.h5, 3, 'w{{instance}}', all], "
            "outports: [{filename: out.h5}]}\n"
            f"  - {{name: ana, {task}, taskCount: {readers}, args: [read, out.h5, all], "
            "inports: [{filename: out.h5}]}\n"
        )
        for reader, sources in enumerate(READ_BY[writers, readers]):
            got = streams.got(f"ana[{reader}]")
            for rank in (0, 1):
                mine = by_writer([line for line in got if line.endswith(f"on {rank}")])
                assert mine == {f"w{source}": [0, 1, 2] for source in sources}, (reader, rank, got)

    def test_each_instance_has_its_parameters_its_folder_and_its_real_files(self, streams: Streams) -> None:
        streams.program(
            "member.py",
            "import os, sys, h5py\nopen('note.txt', 'w').write(' '.join(sys.argv[1:]))\n"
            "with h5py.File('out.h5', 'w') as file:\n    file['step'] = 0\n    file['by'] = sys.argv[2]\n",
        )
        told = streams.run(
            "  - {name: sim, func: ./member.py, taskCount: 3, cwd: 'runs/{instance}', "
            "args: [--temp, [1.5, 2.5, 3.5], 'n{instance}'], outports: [{filename: out.h5}]}\n"
            + read("out.h5", more=", taskCount: 3")
        )
        assert "a run makes the folder 'runs/{instance}' for the instances [0..2]" in told.err
        notes = [(streams.folder / "runs" / str(n) / "note.txt").read_text() for n in range(3)]
        assert notes == ["--temp 1.5 n0", "--temp 2.5 n1", "--temp 3.5 n2"]
        assert [streams.got(f"ana[{n}]") for n in range(3)] == [["1.5 0"], ["2.5 0"], ["3.5 0"]]

    def test_python_tasks_inside_and_after_an_ensemble(self, streams: Streams) -> None:
        """Three members, a Python task for each, and one Python task after them all."""
        streams.run(
            write("raw.h5", 4, "w{instance}", more=", taskCount: 3")
            + pass_on("raw.h5", "mid.h5", "mid", "m{instance}", more=", taskCount: 3")
            + read("mid.h5")
        )
        got = streams.got("ana")
        assert by_writer(got) == {f"w{n}+m{n}": [0, 1, 2, 3] for n in range(3)}
        assert len(got) == 12

    @SERIAL
    def test_instance_1_and_instance_10_are_not_confused(self, streams: Streams) -> None:
        """Names decide, also where one is the beginning of another."""
        program = build("stream.c", *serial_c(static=False))
        streams.run(
            f"  - {{name: sim, func: {program}, taskCount: 12, "
            "args: [write, 'run{instance}.h5', 3, 'w{instance}'], outports: [{filename: 'run{instance}.h5'}]}\n"
            f"  - {{name: ana, func: {program}, taskCount: 12, args: [read, 'run{{instance}}.h5'], "
            "inports: [{filename: 'run{instance}.h5'}]}\n"
            f"  - {{name: one, func: {program}, args: [read, run1.h5], inports: [{{filename: run1.h5}}]}}\n"
        )
        assert [streams.got(f"ana[{n}]") for n in range(12)] == [steps(f"w{n}", 3) for n in range(12)]
        assert streams.got("one") == steps("w1", 3)

    @SERIAL
    def test_range_and_taskcount_beyond_100(self, streams: Streams) -> None:
        """103 instances that write run100.h5 to run202.h5; one reader of the last three digits 1 to 9."""
        program = build("stream.c", *serial_c(static=False))
        numbers = [*range(100, 203)]
        streams.run(
            f"  - {{name: sim, func: {program}, taskCount: 103, args: [write, {[f'run{n}.h5' for n in numbers]}, 1, "
            f"{[f'w{n}' for n in numbers]}], outports: [{{filename: 'run{{instance}}.h5', range: {numbers}}}]}}\n"
            f"  - {{name: some, func: {program}, args: [read, 'run20%d.h5'], inports: [{{filename: 'run20?.h5'}}]}}\n"
            f"  - {{name: last, func: {program}, args: [read, run202.h5], inports: [{{filename: 'run202.h5'}}]}}\n"
        )
        assert streams.got("some") == ["w200 0", "w201 0", "w202 0"]
        assert streams.got("last") == ["w202 0"]


def test_task_sim_beside_sim_analysis(streams: Streams) -> None:
    """Names that begin alike, of tasks, files and settings."""
    streams.run(
        write("out.h5", 3, "sim")
        + write("out.h5.bak", 4, "analysis", "sim-analysis")
        + read("out.h5")
        + read("out.h5.bak", "ana-2"),
        "--set",
        "sim.args=[out.h5, 5, set]",
    )
    assert streams.got("ana") == steps("set", 5)
    assert streams.got("ana-2") == steps("analysis", 4)


@pytest.mark.usual("producer first-out/plt{}.h5-patterns2")
@pytest.mark.parametrize(
    ("written", "patterns"),
    [
        ("plt{}.h5", ("plt*.h5", "*.h5")),
        ("plt{}.h5", ("*.h5", "p*t*5")),
        ("out/plt{}.h5", ("plt?.h5", "*/plt[0-9].h5")),
        ("plt{}.h5", ("plt[!x].h5", "*t*.h5")),
    ],
)
@pytest.mark.parametrize("order", ["consumer first", "producer first"])
def test_globs_on_either_side_in_any_order(
    streams: Streams, written: str, patterns: tuple[str, str], order: str
) -> None:
    (streams.folder / "out").mkdir()
    for out, inp in (patterns, patterns[::-1]):
        tasks = [
            f"  - {{name: sim, func: ./write.py, args: ['{written}', 4, w], outports: [{{filename: '{out}'}}]}}\n",
            f"  - {{name: ana, func: ./read.py, args: ['{written}'], inports: [{{filename: '{inp}'}}]}}\n",
        ]
        streams.run("".join(tasks if order == "producer first" else tasks[::-1]))
        assert streams.got("ana") == steps("w", 4)
        assert not list(streams.folder.rglob("plt*.h5"))


class TestWhoReadsAndWrites:
    """All ranks, some, or only rank 0, on either side; a key only where the program's calls do not tell."""

    @pytest.mark.usual("all-some", also_between_hosts=["zero-all", "each-zero"])
    @MPICH
    @pytest.mark.parametrize("writers", ["all", "some", "zero"])
    @pytest.mark.parametrize("readers", ["all", "some", "zero", "each"])
    def test_ranks_of_a_c_program(self, streams: Streams, writers: str, readers: str) -> None:
        program = build("stream.c", *parallel_c("mpich", static=False), defines=("USE_MPI",))
        key = ", nreaders: 1" if readers == "zero" else ""
        task = f"func: {program}, nprocs: 3, mpiexec: mpiexec.mpich"
        streams.run(
            f"  - {{name: sim, {task}, args: [write, out.h5, 6, w, {writers}], outports: [{{filename: out.h5}}]}}\n"
            f"  - {{name: ana, {task}, args: [read, out.h5, {readers}], inports: [{{filename: out.h5{key}}}]}}\n"
        )
        got = streams.got("ana")
        reading = {"all": 3, "some": 2, "zero": 1, "each": 3}[readers]
        for rank in range(3):
            mine = [line.partition(" on ")[0] for line in got if line.endswith(f"on {rank}")]
            assert mine == (steps("w", 6) if rank < reading else []), (rank, got)

    @pytest.mark.usual("nreaders", also_between_hosts=["no key"])
    @pytest.mark.one_host("each host keeps all steps for its own ranks", "no key")
    @MPICH
    @pytest.mark.parametrize("key", ["", ", nreaders: 4"], ids=["no key", "nreaders"])
    def test_two_halves_that_each_read_all(self, streams: Streams, key: str) -> None:
        """A part of the ranks that reads together tells that the others do not; `nreaders` says that they do."""
        program = build("stream.c", *parallel_c("mpich", static=False), defines=("USE_MPI",))
        told = streams.run(
            f"  - {{name: sim, func: {program}, nprocs: 2, mpiexec: mpiexec.mpich, args: [write, out.h5, 8, w, all], "
            "outports: [{filename: out.h5}]}\n"
            f"  - {{name: ana, func: {program}, nprocs: 4, mpiexec: mpiexec.mpich, args: [read, out.h5, halves], "
            f"inports: [{{filename: out.h5{key}}}]}}\n",
            code=0 if key else 1,
        )
        if key:
            got = streams.got("ana")
            for rank in range(4):
                mine = [line.partition(" on ")[0] for line in got if line.endswith(f"on {rank}")]
                assert mine == steps("w", 8), (rank, got)
        else:
            assert "task 'ana': rank 2 begins to read 'out.h5', after other ranks have read steps of it" in told.err
            assert "give the in-port 'nreaders: 4'" in told.err

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    @MPI4PY
    def test_only_rank_0_of_python_programs(self, streams: Streams) -> None:
        for name in ("write", "read"):
            streams.program(f"lead_{name}.py", LEAD.format(name))
        tasks = write("out.h5", 5, "w", more=", nprocs: 2") + read("out.h5", more=", nprocs: 2", port=", nreaders: 1")
        streams.run(tasks.replace("./", "./lead_"))
        assert streams.got("ana") == steps("w", 5)

    @pytest.mark.nightly
    @MPI4PY
    def test_the_wait_report_proposes_nreaders_1_if_only_rank_0_has_read(self, streams: Streams) -> None:
        """Rank 1 waits in MPI for rank 0, which waits for more: the run is stopped, and says what to write."""
        streams.program("lead.py", LEAD.format("read"))
        told = streams.run(
            write("out.h5", 30, "w") + read("out.h5", more=", nprocs: 2").replace("read.py", "lead.py"),
            code=4,
        )
        assert "the run is stuck and was stopped: task 'sim' rank 0 waits for room to create 'out.h5'" in told.err
        assert "if only rank 0 of ana read, as so far, give the in-port 'out.h5' of ana `nreaders: 1`" in told.err


class TestCycles:
    """Steering: the simulation reads what the analysis wrote."""

    def test_a_simulation_that_looks_before_it_opens(self, streams: Streams) -> None:
        """Where a cycle closes, `os.path.exists` does not wait: the first iterations go on without; every command
        arrives once, in order."""
        streams.program(
            "sim.py",
            "import os, time, h5py\nlast = -1\nfor step in range(400):\n"
            "    with h5py.File('state.h5', 'w') as file:\n        file['step'] = step\n        file['by'] = 'sim'\n"
            "    if os.path.exists('steer.h5'):\n"
            "        with h5py.File('steer.h5', 'r') as file:\n            last = int(file['step'][()])\n"
            "        print('got ana', last, flush=True)\n"
            "        if last == 9:\n            break\n"
            "    elif step == 0:\n        print('first without', flush=True)\n"
            "    time.sleep(0.02)\n",
        )
        streams.program(
            "ana.py",
            "import h5py\nwhile True:\n    try:\n        file = h5py.File('state.h5', 'r')\n"
            "    except FileNotFoundError:\n        break\n"
            "    with file:\n        step = int(file['step'][()])\n    print('got sim', step, flush=True)\n"
            "    if step <= 9:\n        with h5py.File('steer.h5', 'w') as file:\n            file['step'] = step\n",
        )
        streams.run(
            "  - {func: ./sim.py, outports: [{filename: state.h5}], inports: [{filename: steer.h5}]}\n"
            "  - {func: ./ana.py, outports: [{filename: steer.h5}], inports: [{filename: state.h5}]}\n"
        )
        assert streams.got("sim") == steps("ana", 10)
        seen = by_writer(streams.got("ana"))["sim"]
        assert seen == list(range(len(seen)))
        assert len(seen) >= 10

    STEERED = """\
import os, h5py
settings = "none"
for step in range(6):
    try:
        with h5py.File("steer.h5", "r") as file:
            settings = f"{file['by'].asstr()[()]} {file['step'][()]}"
    except FileNotFoundError:
        settings = "none -1"
    print("got", settings, flush=True)
    with h5py.File("state.h5", "w") as file:
        file["step"] = step
        file["by"] = "sim"
"""
    """Reads its settings at the beginning of every step."""

    def loop(self, first: str) -> str:
        ports = f"inports: [{{filename: steer.h5{first}}}], outports: [{{filename: state.h5}}]"
        return f"  - {{name: sim, func: ./sim.py, {ports}}}\n" + pass_on("state.h5", "steer.h5", "ana")

    def test_a_first_iteration_that_finds_no_file(self, streams: Streams) -> None:
        streams.program("sim.py", self.STEERED)
        streams.run(self.loop(", first: missing"))
        assert streams.got("sim") == ["none -1", *steps("sim+ana", 5)]

    def test_a_first_iteration_that_reads_the_real_file(self, streams: Streams) -> None:
        streams.program("sim.py", self.STEERED)
        streams.program(
            "seed.py", "import h5py\nwith h5py.File('steer.h5', 'w') as f:\n    f['step'] = 7\n    f['by'] = 'disk'\n"
        )
        streams.run("  - {func: ./seed.py}\n")
        before = (streams.folder / "steer.h5").read_bytes()
        streams.run(self.loop(", first: file"))
        assert streams.got("sim") == ["disk 7", *steps("sim+ana", 5)]
        assert (streams.folder / "steer.h5").read_bytes() == before

    def test_tasks_that_wait_for_each_other_are_told_to_give_first(self, streams: Streams) -> None:
        streams.program("sim.py", self.STEERED)
        told = streams.run(self.loop(""), code=4)
        assert "the run is stuck and was stopped" in told.err
        assert "sim and ana wait for each other's first step" in told.err
        assert "give the in-port 'steer.h5' of sim `first: missing`" in told.err
        assert streams.got("sim") == []

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_tasks_of_which_one_is_not_given_the_steps_between(self, streams: Streams) -> None:
        """The analysis is to get every third step, but the simulation waits for its answer after the first."""
        streams.program("sim.py", self.STEERED)
        loop = self.loop(", first: missing")
        loop = loop.replace("inports: [{filename: state.h5}", "inports: [{filename: state.h5, io_freq: 3}")
        told = streams.run(loop, code=4)
        assert "the run is stuck and was stopped" in told.err
        assert "ana is given only some steps of 'state.h5' (every 3rd from the 3rd)" in told.err
        assert "sim, which has published 1 so far" in told.err
        assert "give the in-port 'state.h5' of ana `io_freq: 1`" in told.err
        assert "first:" not in told.err


class TestWaitsForTheNextStart:
    """A task whose program does not run waits for the step it is to be started for, and is part of a circle, too."""

    WRITES = (
        "import sys, h5py\nfor step, name in enumerate(sys.argv[1:]):\n"
        "    with h5py.File(name, 'w') as file:\n        file['step'] = step\n"
    )
    READS = "import sys, h5py\nfor name in sys.argv[1:]:\n    h5py.File(name, 'r').close()\n"

    def stuck(self, streams: Streams, writes: str, reads: str, *ports: str) -> str:
        """What the run says: one task writes these names, the other reads these at each start."""
        streams.program("writes.py", self.WRITES)
        streams.program("reads.py", self.READS)
        names = ", ".join(f"{{filename: '{port}'}}" for port in ports)
        short = names.replace("'}", "', reorder: 0}")
        told = streams.run(
            f"  - {{name: sim, func: ./writes.py, args: {writes}, outports: [{names}]}}\n"
            f"  - {{name: con, func: ./reads.py, args: '{reads}', inports: [{short}]}}\n",
            code=4,
            timeout=25,
        )
        assert "the run is stuck and was stopped" in told.err
        assert "task 'con' rank 0 waits, to be started, for" in told.err
        assert "con waits for another file of sim first: give the in-port" in told.err
        return told.err

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    @pytest.mark.one_host("two queues and a relay hold steps for which one host has no room")
    def test_two_files_of_which_one_comes_more_often(self, streams: Streams) -> None:
        found = self.stuck(streams, "a.h5 b.h5 a.h5 a.h5 a.h5 b.h5", "a.h5 b.h5", "a.h5", "b.h5")
        assert "give the in-port 'a.h5' of con a longer queue, such as `queue: 4`" in found

    @pytest.mark.one_host("two queues and a relay hold steps for which one host has no room")
    def test_the_first_start(self, streams: Streams) -> None:
        self.stuck(streams, "b0.h5 b1.h5 b2.h5 a0.h5", "{filename} b0.h5", "a*.h5", "b*.h5")

    def test_a_cycle(self, streams: Streams) -> None:
        streams.program("both.py", self.READS.replace("[1:]", "[1:2]") + "h5py.File(sys.argv[2], 'w').close()\n")
        told = streams.run(
            "  - {name: sim, func: ./both.py, args: steer.h5 a0.h5, inports: [{filename: steer.h5}],\n"
            "     outports: [{filename: 'a*.h5'}]}\n"
            "  - {name: ana, func: ./both.py, args: '{filename} steer.h5', inports: [{filename: 'a*.h5'}],\n"
            "     outports: [{filename: steer.h5}]}\n",
            code=4,
            timeout=25,
        )
        assert "sim and ana wait for each other's first step" in told.err
        assert "give the in-port 'steer.h5' of sim `first: missing`" in told.err


class TestEndsAndErrors:
    """What goes wrong elsewhere, at the ends of streams and in programs."""

    def test_a_typeerror_inside_user_code_is_reported_as_such_and_not_run_twice(self, streams: Streams) -> None:
        streams.program(
            "ana.py",
            "import h5py\nopen('starts', 'a').write('x')\ndef analyse(a, b): return a + b\n"
            "with h5py.File('out.h5', 'r') as file:\n    analyse(file['step'][()])\n",
        )
        told = streams.run(write("out.h5", 50, "w") + read("out.h5").replace("read.py", "ana.py"), code=1)
        assert "ana: failed: exit code 1" in told.err
        assert "TypeError: analyse() missing 1 required positional argument: 'b'" in streams.log("ana")
        assert (streams.folder / "starts").read_text() == "x"
        assert streams.summary()["ana"]["starts"] == 1

    def test_an_exception_in_the_producer(self, streams: Streams) -> None:
        """The step it was writing never existed; those before it arrive; the run fails."""
        streams.program(
            "sim.py",
            f"{WAITS}\nimport h5py\nfor step in range(9):\n    file = h5py.File('out.h5', 'w')\n"
            "    file['step'] = step\n    file['by'] = 'w'\n    if step == 3:\n        waits.until_waits(1)\n"
            "        raise RuntimeError('diverged')\n    file.close()\n",
        )
        told = streams.run(
            "  - {func: ./sim.py, on_failure: continue, outports: [{filename: out.h5}]}\n" + read("out.h5"), code=1
        )
        assert "sim: failed: exit code 1" in told.err
        assert "RuntimeError: diverged" in streams.log("sim")
        assert streams.got("ana")[:3] == steps("w", 3)
        assert streams.summary()["ana"]["outcome"] != "failed"

    def test_an_exception_in_one_consumer_leaves_the_other_its_steps(self, streams: Streams) -> None:
        streams.program(
            "bad.py", "import h5py\nwith h5py.File('out.h5', 'r') as file:\n    raise ValueError('no such halo')\n"
        )
        bad = read("out.h5", "bad", ", on_failure: continue").replace("read.py", "bad.py")
        told = streams.run(write("out.h5", 12, "w") + bad + read("out.h5"), code=1)
        assert "bad: failed: exit code 1" in told.err
        assert streams.got("ana") == steps("w", 12)

    def test_a_consumer_that_finishes_early_while_producers_go_on(self, streams: Streams) -> None:
        """It read two steps and ends: done, and neither the producer nor the other consumer waits for it."""
        streams.program(
            "early.py",
            "import h5py\nfor k in range(2):\n    with h5py.File('out.h5', 'r') as file:\n"
            "        print('got w', file['step'][()], flush=True)\n",
        )
        streams.run(write("out.h5", 20, "w") + read("out.h5", "early").replace("read.py", "early.py") + read("out.h5"))
        assert streams.got("early") == steps("w", 2)
        assert streams.got("ana") == steps("w", 20)
        assert streams.summary()["early"]["starts"] == 1
        assert streams.summary()["sim"]["produced"] == 20

    def test_a_consumer_that_never_opens_its_file(self, streams: Streams) -> None:
        """The producer is let go when that consumer ends; the run fails with the name of the port."""
        streams.program("busy.py", f"{WAITS}\nwaits.until_waits(0)\n")
        busy = read("out.h5", "busy", ", on_failure: continue").replace("read.py", "busy.py")
        told = streams.run(write("out.h5", 8, "w") + busy + read("out.h5"), code=1)
        assert "busy: ended without ever using its memory port 'out.h5'" in told.err
        assert streams.got("ana") == steps("w", 8)

    def test_a_producer_that_publishes_nothing(self, streams: Streams) -> None:
        """Its consumer sees the end of the stream; the run fails with the name of the port."""
        streams.program("idle.py", f"{WAITS}\nwaits.until_waits(1)\n")
        idle = write("out.h5", 0, "w", "idle", ", on_failure: continue").replace("write.py", "idle.py")
        told = streams.run(idle + read("out.h5"), code=1)
        assert "idle: ended without ever using its memory port 'out.h5'" in told.err
        assert streams.got("ana") == []

    def test_one_of_two_producers_publishes_nothing(self, streams: Streams) -> None:
        """Instances that have nothing to say do not hold up those that have."""
        streams.program(
            "sim.py",
            "import sys, time, h5py\ncount, tag = int(sys.argv[1]), sys.argv[2]\nfor step in range(count):\n"
            "    with h5py.File('out.h5', 'w') as file:\n        file['step'] = step\n        file['by'] = tag\n",
        )
        told = streams.run(
            "  - {name: sim, func: ./sim.py, taskCount: 2, args: [[0, 5], 'w{instance}'], on_failure: continue, "
            "outports: [{filename: out.h5}]}\n" + read("out.h5"),
            code=1,
        )
        assert "sim[0]: ended without ever using its memory port" in told.err
        assert streams.got("ana") == steps("w1", 5)

    def test_the_same_file_opened_twice_in_one_step(self, streams: Streams) -> None:
        """A name of one step: any number of times, at once and again, while the step is held."""
        streams.program(
            "twice.py",
            "import h5py\nfor step in range(5):\n    name = f'plt{step}.h5'\n"
            "    with h5py.File(name, 'r') as one, h5py.File(name, 'r') as two:\n"
            "        assert one['step'][()] == two['step'][()]\n"
            "    with h5py.File(name, 'r') as file:\n        print('got w', file['step'][()], flush=True)\n",
        )
        streams.run(write("plt{}.h5", 5, "w") + read("plt{}.h5").replace("read.py", "twice.py"))
        assert streams.got("ana") == steps("w", 5)

    def test_a_rewritten_file_opened_twice_in_one_step(self, streams: Streams) -> None:
        """`opens_per_step: 2`: the first open of a step and the second see the same one."""
        streams.program(
            "twice.py",
            "import h5py\nfor step in range(5):\n"
            "    with h5py.File('out.h5', 'r') as file:\n        one = file['step'][()]\n"
            "    with h5py.File('out.h5', 'r') as file:\n        two = file['step'][()]\n"
            "    assert one == two, (one, two)\n    print('got w', one, flush=True)\n",
        )
        tasks = write("out.h5", 5, "w") + read("out.h5", port=", opens_per_step: 2").replace("read.py", "twice.py")
        streams.run(tasks)
        assert streams.got("ana") == steps("w", 5)


LARGE = """\
import sys
import h5py, numpy as np
name, mib = sys.argv[2], int(sys.argv[3])
row = np.arange(1 << 20).astype("u1")
if sys.argv[1] == "write":
    data = np.empty(mib << 20, dtype="u1")
    for k in range(mib):
        np.add(row, np.uint8(7 * k % 256), out=data[k << 20 : (k + 1) << 20])
    with h5py.File(name, "w") as file:
        file["bytes"] = data
else:
    with h5py.File(name, "r") as file:
        data = file["bytes"][:]
    assert len(data) == mib << 20
    for k in range(mib):
        assert (data[k << 20 : (k + 1) << 20] == row + np.uint8(7 * k % 256)).all(), k
    print(f"got all {mib << 20} bytes")
"""
"""As ``programs/large.c``."""


@pytest.mark.nightly
@SERIAL
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("writer", "reader"), [("h5py", "c"), ("c", "h5py")])
def test_a_dataset_over_2_gib(streams: Streams, writer: str, reader: str) -> None:
    """Written and read by a single call each, and right in every byte."""
    streams.program("large.py", LARGE)
    programs = {"h5py": "./large.py", "c": str(build("large.c", *serial_c(static=False)))}
    streams.run(
        f"  - {{name: sim, func: {programs[writer]}, args: [write, a.h5, 2100], outports: [{{filename: a.h5}}]}}\n"
        f"  - {{name: ana, func: {programs[reader]}, args: [read, a.h5, 2100], inports: [{{filename: a.h5}}]}}\n",
        timeout=240,
    )
    assert streams.log("ana") == f"got all {2100 << 20} bytes\n"
