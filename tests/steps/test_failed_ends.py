"""Programs that end in failure: which of them have met the end of their stream, and what the others are told."""

from __future__ import annotations

import json
import re

import pytest

from support.small_workflows import Workflow

ENDED = "ended at end of stream"
PRELUDE = """
def get(name):
    with open(name) as file:
        print(file.read(), flush=True)
"""


def writes(flow: Workflow, *names: str, port: str, task: str = "sim", **keys: object) -> None:
    """A task that writes these files, one after the other."""
    lines = "".join(f"open({name!r}, 'w').write('{number}')\n" for number, name in enumerate(names))
    flow.task(task, lines, outports=[{"filename": port, **keys}])


def outcome(flow: Workflow, task: str = "ana") -> str:
    """How a task has ended."""
    told = json.loads((flow.folder / "wilkins-runs/latest/summary.json").read_text())
    return str({one["name"]: one["outcome"] for one in told["tasks"]}[task])


def said(flow: Workflow, code: int) -> str:
    """What the run says, in one line."""
    return re.sub(r"\s+", " ", flow.run(code).err.replace("wilkins:", ""))


LOOPS = {
    "python": "k = 0\nwhile True:\n    get(f'plt{k}.dat')\n    k += 1\n",
    "looks first": "import os\nfor k in range(9):\n    assert os.path.exists(f'plt{k}.dat')\n    get(f'plt{k}.dat')\n",
    "copies": "import shutil\nfor k in range(9):\n    shutil.copy(f'plt{k}.dat', f'copy{k}')\n",
    "backs off": "try:\n    for k in range(9):\n        get(f'plt{k}.dat')\nexcept OSError:\n    raise SystemExit(2)\n",
}


@pytest.mark.usual("copies", "python")
@pytest.mark.parametrize("lines", LOOPS.values(), ids=LOOPS)
def test_a_loop_over_numbered_names_ends_with_its_stream(flow: Workflow, lines: str) -> None:
    writes(flow, "plt0.dat", "plt1.dat", "plt2.dat", port="plt*.dat")
    flow.task("ana", PRELUDE + lines, inports=[{"filename": "plt*.dat"}])
    flow.run()
    assert outcome(flow) == ENDED


def test_a_loop_in_a_shell_ends_with_its_stream(flow: Workflow) -> None:
    """The shell opens what it writes first."""
    writes(flow, "plt0.dat", "plt1.dat", "plt2.dat", port="plt*.dat")
    loop = "k=0; while true; do cat plt$k.dat > copy$k || exit 3; k=$((k + 1)); done"
    flow.task("ana", ["sh", "-c", loop], inports=[{"filename": "plt*.dat"}])
    flow.run()
    assert outcome(flow) == ENDED


@pytest.mark.needs("gcc")
def test_a_loop_in_c_ends_with_its_stream(flow: Workflow) -> None:
    from habits.rig import build, c

    lines = """
    for (int k = 0;; k++) {
        FILE* file = fopen(name_of(k), "r");
        must(file != NULL, "fopen");
        fclose(file);
    }
"""
    program = build(c(lines), "loop", flow.folder)
    writes(flow, "plt0000.dat", "plt0001.dat", port="plt*.dat")
    flow.task("ana", [program], inports=[{"filename": "plt*.dat"}])
    flow.run()
    assert outcome(flow) == ENDED


@pytest.mark.usual("2-0")
@pytest.mark.parametrize(("times", "code"), [(1, 1), (2, 0), (4, 0)])
def test_a_loop_over_one_name_needs_two_steps(flow: Workflow, times: int, code: int) -> None:
    """A name that came once may be a file that the program opens several times."""
    writes(flow, *["state.dat"] * times, port="state.dat")
    flow.task("ana", PRELUDE + "while True:\n    get('state.dat')\n", inports=[{"filename": "state.dat"}])
    told = said(flow, code)
    assert outcome(flow) == ("failed" if code else ENDED)
    assert ("give its in-port 'state.dat' `opens_per_step: 2`" in told) == bool(code)


def test_the_number_of_opens_that_is_proposed_grows_with_the_key(flow: Workflow) -> None:
    writes(flow, "state.dat", port="state.dat")
    flow.task("ana", PRELUDE + "get('state.dat')\n" * 3, inports=[{"filename": "state.dat", "opens_per_step": 2}])
    assert "it opened 'state.dat' 3 times" in said(flow, 1)
    flow.tasks[-1]["inports"] = [{"filename": "state.dat", "opens_per_step": 3}]
    flow.run()


AFTERWARDS = {
    "writes a file": "open('summary.txt', 'w').write('x')\n",
    "appends": "open('log.txt', 'a').write('x')\n",
    "has a child write": "import subprocess\nsubprocess.run(['sh', '-c', 'echo x > summary.txt'], check=True)\n",
    "writes a step": "open('mean.dat', 'w').write('x')\n",
}
CAUGHT = PRELUDE + "try:\n    for k in range(9):\n        get(f'plt{k}.dat')\nexcept OSError:\n    pass\n"


@pytest.mark.usual("appends", "has a child write")
@pytest.mark.parametrize("lines", AFTERWARDS.values(), ids=AFTERWARDS)
def test_a_program_that_goes_on_to_write_and_fails_has_failed(flow: Workflow, lines: str) -> None:
    writes(flow, "plt0.dat", "plt1.dat", "plt2.dat", port="plt*.dat")
    ports = {"inports": [{"filename": "plt*.dat"}], "outports": [{"filename": "mean.dat"}]}
    flow.task("ana", CAUGHT + lines + "raise ValueError\n", **ports)
    told = said(flow, 1)
    assert outcome(flow) == "failed"
    assert "it asked for 'plt3.dat', of which no step was to come, and then opened for writing" in told
    assert "let it exit with 0" in told


@pytest.mark.usual(".cache")
@pytest.mark.parametrize("name", ["/dev/null", "__pycache__/x.pyc", ".cache"])
def test_what_libraries_write_for_themselves_does_not_count(flow: Workflow, name: str) -> None:
    (flow.folder / "__pycache__").mkdir()
    writes(flow, "plt0.dat", "plt1.dat", port="plt*.dat")
    flow.task("ana", CAUGHT + f"open({name!r}, 'w')\nraise ValueError\n", inports=[{"filename": "plt*.dat"}])
    flow.run()
    assert outcome(flow) == ENDED


def test_a_program_that_goes_on_to_read_and_fails_has_failed(flow: Workflow) -> None:
    writes(flow, "a0.dat", "a1.dat", port="a*.dat")
    writes(flow, "b0.dat", "b1.dat", "b2.dat", port="b*.dat", task="other")
    lines = CAUGHT.replace("plt", "a") + "get('b0.dat')\nget('b1.dat')\nraise ValueError\n"
    flow.task("ana", lines, inports=[{"filename": "a*.dat"}, {"filename": "b*.dat"}])
    flow.run(1)
    assert outcome(flow) == "failed"


def test_two_streams_of_which_one_is_longer_end_with_the_shorter(flow: Workflow) -> None:
    writes(flow, "a0.dat", "a1.dat", port="a*.dat")
    writes(flow, "b0.dat", "b1.dat", "b2.dat", port="b*.dat", task="other")
    lines = "for k in range(9):\n    get(f'b{k}.dat')\n    get(f'a{k}.dat')\n"
    flow.task("ana", PRELUDE + lines, inports=[{"filename": "a*.dat"}, {"filename": "b*.dat"}])
    flow.run()
    assert outcome(flow) == ENDED


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["latest.dat", "template.dat", "mesh0.dat"])
def test_a_name_unlike_those_that_were_read_is_not_the_next(flow: Workflow, name: str) -> None:
    writes(flow, "plt0.dat", "plt1.dat", "plt2.dat", port="*.dat")
    lines = f"for k in range(3):\n    get(f'plt{{k}}.dat')\nget({name!r})\n"
    flow.task("ana", PRELUDE + lines, inports=[{"filename": "*.dat"}])
    flow.run(1)
    assert outcome(flow) == "failed"


def test_an_optional_file_does_not_make_a_later_failure_an_end(flow: Workflow) -> None:
    writes(flow, "plt0.dat", "plt1.dat", port="*.dat")
    lines = "try:\n    get('latest.dat')\nexcept OSError:\n    get('plt0.dat')\nget('plt1.dat')\nraise ValueError\n"
    flow.task("ana", PRELUDE + lines, inports=[{"filename": "*.dat"}])
    flow.run(1)


BIG = """
for k in range(6):
    with open(f"plt{k}.dat", "wb") as file:
        file.write(bytes([k]) * 3_000_000)
"""
GONE = "opens 'plt0.dat' again, which its task has read: its memory is that of a later step by now"
SECOND_EPOCHS = {
    "by name": "for k in range(6):\n        open(f'plt{k}.dat', 'rb').read()",
    "until it fails": """k = 0
    try:
        while True:
            open(f'plt{k}.dat', 'rb').read()
            k += 1
    except OSError:
        if k < 6:
            raise""",
}


@pytest.mark.nightly
@pytest.mark.parametrize("lines", SECOND_EPOCHS.values(), ids=SECOND_EPOCHS)
def test_a_second_epoch_over_files_that_are_gone(flow: Workflow, lines: str) -> None:
    flow.task("sim", BIG, outports=[{"filename": "plt*.dat"}])
    flow.task("ana", f"for epoch in 1, 2:\n    {lines}\n", inports=[{"filename": "plt*.dat"}])
    told = said(flow, 1)
    assert GONE in told and "'reorder: 6'" in told and "'mode: both'" in told


def test_workers_of_a_pool_that_come_to_files_that_are_gone(flow: Workflow) -> None:
    flow.task("sim", BIG, outports=[{"filename": "plt*.dat"}])
    lines = """
        from multiprocessing import Pool
        def size(k):
            return len(open(f"plt{k}.dat", "rb").read())
        for epoch in 1, 2:
            with Pool(2) as pool:
                print(pool.map(size, range(6), chunksize=1))
    """
    flow.task("ana", lines, inports=[{"filename": "plt*.dat"}])
    assert GONE.partition("' again")[2] in said(flow, 1)  # of whichever comes first


def test_a_pool_that_starts_a_worker_for_each_that_fails(flow: Workflow) -> None:
    """The run ends at the first one: the pool would start others for ever."""
    flow.task("sim", BIG, outports=[{"filename": "plt*.dat"}])
    lines = """
        from multiprocessing import Pool
        def begin():
            global file
            file = open("plt0.dat", "rb")
            file.read()
        if __name__ == "__main__":
            for k in range(6):
                open(f"plt{k}.dat", "rb").read()
            with Pool(2, initializer=begin) as pool:
                pool.map(abs, range(6))
    """
    flow.task("ana", lines, inports=[{"filename": "plt*.dat", "poll_end": 1}])
    assert GONE in said(flow, 1)


@pytest.mark.nightly
@pytest.mark.parametrize(("more", "code"), [("", 0), ("open('out', 'w')\n", 1)], ids=["reads", "writes"])
def test_a_program_that_is_started_again(flow: Workflow, more: str, code: int) -> None:
    """What earlier starts have read counts; what they asked for in vain does not."""
    writes(flow, "plt0.dat", "plt1.dat", "plt2.dat", port="plt*.dat")
    lines = """
        import pathlib
        state = pathlib.Path("state.txt")
        k = int(state.read_text()) if state.exists() else 0
        state.write_text(str(k + 1))
        if k == 2:
            get("plt2.dat")
            try:
                get("plt3.dat")
            except OSError:
                MORE
                raise
        get(f"plt{k}.dat")
    """
    import textwrap

    flow.task(
        "ana",
        PRELUDE + textwrap.dedent(lines).replace("MORE", more.strip() or "pass"),
        inports=[{"filename": "plt*.dat"}],
        rerun="always",
    )
    flow.run(code)
    assert outcome(flow) == ("failed" if code else ENDED)


def test_strict_end_stays(flow: Workflow) -> None:
    writes(flow, "plt0.dat", "plt1.dat", port="plt*.dat")
    flow.task("ana", PRELUDE + LOOPS["python"], inports=[{"filename": "plt*.dat"}], strict_end=True)
    flow.run(1)


@pytest.mark.nightly
@pytest.mark.needs("mpiexec.mpich", "python:mpi4py")
@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
def test_of_ranks_one_fails_over_something_else(flow: Workflow, fails: bool, code: int) -> None:
    writes(flow, "plt0.dat", "plt1.dat", port="*.dat")
    name = "'latest.dat'" if fails else "f'plt{k}.dat'"
    lines = PRELUDE + "from mpi4py import MPI\nfor k in range(9):\n"
    lines += (
        f"    get({name} if k == 2 and MPI.COMM_WORLD.rank == 1 else f'plt{{k}}.dat')\n    MPI.COMM_WORLD.Barrier()\n"
    )
    flow.task("ana", lines, inports=[{"filename": "*.dat"}], nprocs=2)
    flow.run(code)


class TestNewerVersions:
    """Where a name under wildcards is written again, and only an older version of it was read."""

    def reads(self, flow: Workflow, *names: str, port: dict[str, object] | None = None, **keys: object) -> None:
        flow.task(
            "ana",
            PRELUDE + "".join(f"get({name!r})\n" for name in names),
            inports=[{"filename": "plt*.dat", **(port or {})}],
            **keys,
        )

    def test_it_ends_the_run_with_1(self, flow: Workflow) -> None:
        writes(flow, "plt0.dat", "plt0.dat", "plt1.dat", "plt1.dat", port="plt*.dat")
        self.reads(flow, "plt0.dat", "plt1.dat")
        told = said(flow, 1)
        assert outcome(flow) == "done"
        assert "ana: read older versions: it left 2 newer versions of files of 'plt*.dat' unread" in told
        assert "give the out-port 'plt*.dat' `publish: 2`" in told and "`enough: true`" in told
        assert flow.log().count("has not read the newer 'plt0.dat'") == 1
        summary = json.loads((flow.folder / "wilkins-runs/latest/summary.json").read_text())
        assert summary["exit_code"] == 1 and "newer versions" in summary["reason"]

    def test_a_version_that_comes_when_the_task_has_ended(self, flow: Workflow) -> None:
        writes(flow, "plt0.dat", "plt1.dat", "plt1.dat", "plt0.dat", port="plt*.dat")
        self.reads(flow, "plt0.dat", "plt1.dat", port={"queue": 1})
        assert "2 newer versions" in said(flow, 1)

    @pytest.mark.usual("False-port1")
    @pytest.mark.parametrize(("enough", "port"), [(True, {}), (False, {"io_freq": "latest"}), (False, {"io_freq": 2})])
    def test_it_is_silenced(self, flow: Workflow, enough: bool, port: dict[str, object]) -> None:
        writes(flow, "plt0.dat", "plt0.dat", "plt1.dat", "plt1.dat", port="plt*.dat")
        flow.task(
            "ana",
            PRELUDE + "import time\nfor k in 0, 1:\n    try:\n        get(f'plt{k}.dat')\n    except OSError: pass\n",
            inports=[{"filename": "plt*.dat", **port}],
            enough=enough,
        )
        flow.run()

    def test_it_is_told_for_a_name_alone_that_was_read(self, flow: Workflow) -> None:
        writes(flow, "plt0.dat", "plt0.dat", "plt1.dat", "plt1.dat", "plt2.dat", port="plt*.dat")
        self.reads(flow, "plt0.dat", "plt0.dat", "plt2.dat")
        assert "did not read 2 of the 5 steps" in said(flow, 0)

    def test_names_that_take_turns_are_read_in_full(self, flow: Workflow) -> None:
        writes(flow, *["plt0.dat", "plt1.dat"] * 3, port="plt*.dat")
        self.reads(flow, *["plt0.dat", "plt1.dat"] * 3)
        flow.run()
        assert "newer" not in flow.log()

    def test_files_that_are_written_unequally_often(self, flow: Workflow) -> None:
        writes(flow, "plt0.dat", "plt0.dat", "plt0.dat", "plt1.dat", "plt1.dat", port="plt*.dat")
        self.reads(flow, "plt0.dat", "plt1.dat")
        assert "`publish: n`, if it writes each n times" in said(flow, 1)

    @pytest.mark.parametrize("moves_last", [False, True])
    def test_a_file_that_was_read_and_is_moved_is_no_newer_version(self, flow: Workflow, moves_last: bool) -> None:
        """Nor is it a step that waits to be read: there are more of them than a queue may grow to."""
        flow.task(
            "sim",
            """
import os, time
os.mkdir("d")
for k in range(24):
    with open(f"d/plt{k}.dat", "w") as file:
        file.write(str(k))
    while not os.path.exists(f"read-{k}" if k < 23 or not MOVES_LAST else "all"):
        time.sleep(0.005)
    time.sleep(0.3 if k == 23 and MOVES_LAST else 0)  # until it has ended
    os.rename(f"d/plt{k}.dat", f"plt{k}.dat")
""".replace("MOVES_LAST", str(moves_last)),
            outports=[{"filename": "plt*.dat"}],
        )
        flow.task(
            "ana",
            PRELUDE
            + """
for k in range(24):
    get(f"plt{k}.dat")
    open(f"read-{k}", "w").close()
import atexit
atexit.register(lambda: open("all", "w").close())
""",
            inports=[{"filename": "plt*.dat"}],
        )
        ran = flow.run(0, "--strict")
        assert "not read" not in ran.err and "newer" not in flow.log(), ran.err
        assert re.findall(r"ana +\| (\d+)", ran.out) == [str(k) for k in range(24)], ran.out
