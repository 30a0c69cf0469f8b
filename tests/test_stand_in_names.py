"""One name that stands for the next step of an in-port, whatever the producers call their files: `as:`."""

from __future__ import annotations

from pathlib import Path

import pytest
from front.front_case import Case
from programs.build import build, parallel_c, serial_c
from streams import Streams, by_writer, steps

from support import MPIEXEC, must_run

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

    @MODES
    def test_each_open_is_the_next_step(self, streams: Streams, mode: str) -> None:
        streams.run(sim(port=f", mode: {mode}") + con())
        assert streams.got("con") == steps("sim", STEPS)
        on_disk = [f"out_{step}.h5" for step in range(STEPS)] if mode != "memory" else []
        assert sorted(path.name for path in streams.folder.glob("*.h5")) == on_disk

    def test_the_producer_writes_one_name_too(self, streams: Streams) -> None:
        streams.run(sim("a.h5") + con())
        assert streams.got("con") == steps("sim", STEPS)

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
        assert streams.got("con") == steps("sim", [0, 0, 2, 2])

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
import glob, os, time
import h5py
while not os.path.exists("outfile.h5"):
    time.sleep(0.01)
assert glob.glob("*.h5") == ["outfile.h5"] and h5py.is_hdf5("outfile.h5"), glob.glob("*.h5")
with h5py.File("outfile.h5") as file:
    print("got", file["by"].asstr()[()], file["step"][()])
os.remove("outfile.h5")
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

    @pytest.mark.usual("mpich-shared", "openmpi-static")
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

    def test_wrong_names(self, case: Case) -> None:
        case.write("tasks:\n" + sim() + con(port=", as: 'out*.h5'"))
        assert "'as: out*.h5' is a pattern, but it is to be the one name" in case.error()
        case.write("tasks:\n" + sim() + con(port=", as: out/"))
        assert "this names a folder" in case.error()
        case.write("tasks:\n" + sim(port=", as: a.h5") + con())
        assert "unknown key 'as'" in case.error()

    @pytest.mark.parametrize(
        "other", ["filename: outfile.h5", "filename: 'o*.h5', as: outfile.h5", "filename: 'out*.h5'"]
    )
    def test_a_name_of_two_inports(self, case: Case, other: str) -> None:
        case.write("tasks:\n" + sim() + con(port=f", as: outfile.h5}}, {{{other}"))
        assert "'as: outfile.h5' is also a name of its inport" in case.error()
