"""When a step is published: at the n-th close, the next name, a flush, after writes; real programs, exact sequences."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
import yaml
from programs.build import build, parallel_c

from support import WILKINS, Finished, run_tree, write_program

TIMEOUT = 90
READ_ALL = """
import sys, h5py
while True:
    try:
        with h5py.File(NAME, "r") as f:
            told = f["x"][()].tolist()
    except FileNotFoundError:
        break
    print(told, file=sys.stderr)
    with open("got.txt", "a") as out:
        print(told, file=out)
"""


class Workflow:
    """A folder with a workflow of small programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: list[dict[str, object]] = []

    def task(self, name: str, program: str | list[str | Path], **keys: object) -> None:
        """Add a task: a Python script, or a command."""
        if isinstance(program, str):
            write_program(self.folder / f"{name}.py", textwrap.dedent(program))
            program = [f"./{name}.py"]
        func, *args = map(str, program)
        self.tasks.append({"name": name, "func": func, "args": args, **keys})

    def reader(self, pattern: str, name: str | None = None, **port: object) -> None:
        """Add a task that opens a fixed name until its stream ends, and tells what it read."""
        script = READ_ALL.replace("NAME", repr(name or pattern))
        self.task("reader", script, inports=[{"filename": pattern, **port}])

    def save(self) -> None:
        """Write the workflow file."""
        (self.folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": self.tasks}))

    def run(self, code: int = 0) -> Finished:
        """Run it alone."""
        self.save()
        ran = run_tree([*WILKINS, "run", "workflow.yaml"], TIMEOUT, self.folder)
        assert ran.code == code, f"{ran.out}\n{ran.err}\n{self.log()}"
        return ran

    def got(self) -> list[object]:
        """What the reader read."""
        path = self.folder / "got.txt"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def log(self) -> str:
        """What the layer had to say."""
        path = self.folder / "wilkins-runs" / "latest" / "layer.log"
        return path.read_text() if path.exists() else ""

    def published(self, task: str) -> int:
        """Steps that a task has published."""
        summary = json.loads((self.folder / "wilkins-runs" / "latest" / "summary.json").read_text())
        return next(int(t["produced"]) for t in summary["tasks"] if t["name"] == task)


@pytest.fixture
def flow(tmp_path: Path) -> Workflow:
    """An empty workflow."""
    return Workflow(tmp_path)


def out(pattern: str, publish: object, **more: object) -> list[dict[str, object]]:
    """The out-ports of a task with one port."""
    return [{"filename": pattern, "publish": publish, **more}]


OPENPMD = """
import time, h5py
for step in range(4):
    with h5py.File(NAME.format(step=step), "w") as f:
        f["x"] = [step]
    for species in range(2):
        time.sleep(0.05)
        with h5py.File(NAME.format(step=step), "r+") as f:
            x = f["x"][()].tolist() + [10 * step + species]
            del f["x"]
            f["x"] = x
"""
WHOLE = [[step, 10 * step, 10 * step + 1] for step in range(4)]


@pytest.mark.parametrize("publish", [3, "next"])
def test_a_file_that_is_reopened_is_one_step(flow: Workflow, publish: object) -> None:
    """Created, closed, and reopened twice to add to it, as openPMD writers do: one step, and only when it is whole."""
    flow.task("writer", OPENPMD.replace("NAME", "'plt{step}.h5'"), outports=out("plt*.h5", publish))
    flow.task(
        "reader",
        """
        import h5py
        for step in range(4):
            with h5py.File(f"plt{step}.h5") as f, open("got.txt", "a") as out:
                print(f["x"][()].tolist(), file=out)
        """,
        inports=[{"filename": "plt*.h5"}],
    )
    flow.run()
    assert flow.got() == WHOLE
    assert flow.published("writer") == 4


def test_a_rewritten_name_is_published_at_every_third_close(flow: Workflow) -> None:
    """The same with one name for all steps: creating it anew after the third close begins the next step."""
    flow.task("writer", OPENPMD.replace("NAME", "'out.h5'"), outports=out("out.h5", 3))
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == WHOLE


def test_next_publishes_when_the_name_is_created_anew(flow: Workflow) -> None:
    """One name for all steps, reopened as often as it likes."""
    flow.task("writer", OPENPMD.replace("NAME", "'out.h5'"), outports=out("out.h5", "next"))
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == WHOLE


def test_creating_a_resting_name_empties_it(flow: Workflow) -> None:
    """With `publish: 2`, a file that is created twice holds what was written after the second time."""
    flow.task(
        "writer",
        """
        import h5py
        for step in range(3):
            for what in "yx":
                with h5py.File("out.h5", "w") as f:
                    f[what] = [step]
                    assert list(f) == [what]
        """,
        outports=out("out.h5", 2),
    )
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == [[0], [1], [2]]


def test_the_default_makes_two_steps_and_says_which_key_would_not(flow: Workflow) -> None:
    """A published file that is reopened makes a second step that starts as a copy; the run says what would not."""
    flow.task("writer", OPENPMD.replace("NAME", "'plt{step}.h5'"), outports=[{"filename": "plt*.h5"}])
    flow.task("reader", "import h5py\nh5py.File('plt3.h5')\n", inports=[{"filename": "plt*.h5", "queue": 20}])
    ran = flow.run()
    assert flow.published("writer") == 12
    assert flow.log().count("publish: next") == 1
    assert "writer: reopened 8 files of 'plt*.h5' that had been published" in ran.out + ran.err


def test_what_a_program_can_do_with_a_resting_file(flow: Workflow) -> None:
    """Its own program sees it as a file, and may read, rename and remove it; nobody else ever sees what it removed."""
    flow.task(
        "writer",
        """
        import os, h5py
        with h5py.File("gone.h5", "w") as f:
            f["x"] = [1]
        assert os.path.exists("gone.h5") and os.path.getsize("gone.h5") > 800
        try:
            h5py.File("gone.h5", "x")
            raise SystemExit("mode x overwrote a file")
        except FileExistsError:
            pass
        with h5py.File("gone.h5") as f:
            assert f["x"][0] == 1
        os.remove("gone.h5")
        assert not os.path.exists("gone.h5")
        with h5py.File("draft.h5", "a") as f:
            f["x"] = [2]
        os.rename("draft.h5", "final.h5")
        assert not os.path.exists("draft.h5") and os.path.exists("final.h5")
        with h5py.File("final.h5", "a") as f:
            f["y"] = [3]
        """,
        outports=out("*.h5", 2),
    )
    flow.task(
        "reader",
        """
        import os, h5py
        with h5py.File("final.h5") as f, open("got.txt", "a") as out:
            print([*f["x"][()].tolist(), *f["y"][()].tolist()], file=out)
        for name in "gone.h5", "draft.h5":
            try:
                h5py.File(name)
                raise SystemExit(name)
            except FileNotFoundError:
                pass
        """,
        inports=[{"filename": "*.h5"}],
    )
    flow.run()
    assert flow.got() == [[2, 3]]
    assert flow.published("writer") == 1


def test_programs_of_a_script_continue_each_others_files(flow: Workflow) -> None:
    """A resting file outlives the process that closed it: another program of the task adds to it."""
    (flow.folder / "part.py").write_text(
        "import sys, h5py\nwith h5py.File('out.h5', sys.argv[1]) as f:\n    f[sys.argv[2]] = [int(sys.argv[3])]\n"
    )
    script = "#!/bin/sh\nset -e\nfor i in 1 2 3; do\n  python part.py w y $i\n  python part.py a x $i\ndone\n"
    write_program(flow.folder / "writer.sh", script)
    flow.task("writer", ["./writer.sh"], outports=out("out.h5", 2))
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == [[1], [2], [3]]


@pytest.mark.parametrize(("ending", "steps"), [("", 3), ("raise SystemExit(3)", 2), ("os.kill(os.getpid(), 9)", 2)])
def test_what_rests_at_the_end_of_a_program(flow: Workflow, ending: str, steps: int) -> None:
    """The last file is published at the end of a program that succeeds, and discarded after one that fails."""
    flow.task(
        "writer",
        f"""
        import os, h5py
        for step in range(3):
            with h5py.File("out.h5", "w") as f:
                f["x"] = [step]
        {ending}
        """,
        outports=out("out.h5", "next"),
        on_failure="continue",
    )
    flow.reader("out.h5")
    flow.run(1 if ending else 0)
    assert flow.got() == [[step] for step in range(steps)]
    assert ("'out.h5' was closed but not yet published when its program failed" in flow.log()) == bool(ending)


def test_a_relay_that_ends_with_its_stream_publishes_its_last_file(flow: Workflow) -> None:
    """A filter that fails because its input has ended has not failed: its last file is published too."""
    flow.task(
        "source",
        "import h5py\nfor i in range(3):\n    with h5py.File('in.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "in.h5"}],
    )
    flow.task(
        "relay",
        """
        import h5py
        while True:
            with h5py.File("in.h5") as f:
                x = f["x"][()]
            with h5py.File("out.h5", "w") as f:
                f["x"] = x + 100
        """,
        inports=[{"filename": "in.h5"}],
        outports=out("out.h5", "next"),
    )
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == [[100], [101], [102]]


def test_too_many_resting_files_are_an_error_that_names_the_key(flow: Workflow) -> None:
    """A program that never returns to its files cannot leave more to rest than the store has room for."""
    flow.task(
        "writer",
        "import h5py\nfor i in range(200):\n    h5py.File(f'plt{i}.h5', 'w').close()\n",
        outports=out("plt*.h5", 2),
    )
    flow.task("reader", "import h5py\nh5py.File('plt0.h5')\n", inports=[{"filename": "plt*.h5"}])
    ran = flow.run(1)
    assert "publish" in ran.err and "plt*.h5" in ran.err


def test_no_poll_ever_sees_a_step_before_it_is_whole(flow: Workflow) -> None:
    """A consumer that only asks, as fast as it can, while a slow producer adds to its files."""
    flow.task("writer", OPENPMD.replace("NAME", "'plt{step}.h5'"), outports=out("plt*.h5", "next"))
    flow.task(
        "reader",
        """
        import os, time, h5py
        for step in range(4):
            while not os.path.exists(f"plt{step}.h5"):
                time.sleep(0.001)
            with h5py.File(f"plt{step}.h5") as f, open("got.txt", "a") as out:
                print(f["x"][()].tolist(), file=out)
        """,
        inports=[{"filename": "plt*.h5"}],
    )
    flow.run()
    assert flow.got() == WHOLE


TRAJECTORY = """
import h5py
with h5py.File("traj.h5", "w", **OPTIONS) as f:
    x = f.create_dataset("x", (0,), maxshape=(None,), dtype="i4", chunks=(4,))
    for i in range(5):
        x.resize((i + 1,))
        x[i] = i
        AFTER
"""
FRAMES = [list(range(n + 1)) for n in range(5)]


@pytest.mark.parametrize(
    "options", ["{}", "{'libver': 'latest'}", "{'libver': 'latest', 'userblock_size': 1024}", "{'libver': 'v110'}"]
)
@pytest.mark.parametrize("pattern", ["traj.h5", "*.h5"])
def test_a_trajectory_is_published_at_every_flush(flow: Workflow, options: str, pattern: str) -> None:
    """One file, open to the end, grows by a frame and is flushed: every frame is a step, none comes twice."""
    script = TRAJECTORY.replace("OPTIONS", options).replace("AFTER", "f.flush()")
    flow.task("writer", script, outports=out(pattern, "flush"))
    flow.reader(pattern, "traj.h5")
    flow.run()
    assert flow.got() == FRAMES


def test_what_was_written_after_the_last_flush_is_published_at_close(flow: Workflow) -> None:
    """Three flushes and two more frames: four steps."""
    flow.task(
        "writer",
        TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", "i < 3 and f.flush()"),
        outports=out("traj.h5", "flush"),
    )
    flow.reader("traj.h5")
    flow.run()
    assert flow.got() == [*FRAMES[:3], FRAMES[4]]


def test_a_file_that_is_never_flushed_is_published_at_close_with_a_note(flow: Workflow) -> None:
    """`publish: flush` for a program without flushes."""
    flow.task("writer", TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", ""), outports=out("traj.h5", "flush"))
    flow.reader("traj.h5")
    flow.run()
    assert flow.got() == FRAMES[4:]
    assert "without any" in flow.log()


@pytest.mark.parametrize(("count", "frames"), [(1, FRAMES), (2, [FRAMES[1], FRAMES[3], FRAMES[4]])])
@pytest.mark.parametrize("dset", ["/x", "x", None])
def test_a_trajectory_is_published_after_writes(flow: Workflow, count: int, frames: object, dset: str | None) -> None:
    """A program that never flushes: the layer does, after every n-th write to the dataset."""
    rule: dict[str, object] = {"write": count}
    if dset:
        rule["dset"] = dset
    script = TRAJECTORY.replace("OPTIONS", "{'libver': 'latest'}").replace("AFTER", "")
    flow.task("writer", script, outports=out("traj.h5", rule))
    flow.reader("traj.h5")
    flow.run()
    assert flow.got() == frames


def test_writes_to_other_datasets_do_not_count(flow: Workflow) -> None:
    """And a dataset that is never written leads to a note."""
    script = TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", "f.flush()")
    flow.task("writer", script, outports=out("traj.h5", {"write": 1, "dset": "/y"}))
    flow.reader("traj.h5")
    ran = flow.run()
    assert flow.got() == FRAMES[4:]
    assert "/y" in flow.log() and "no such write was seen" in flow.log()
    assert "writer: did not do with 1 file of 'traj.h5' what its `publish:` waits for" in ran.out + ran.err


@pytest.mark.parametrize(("count", "told"), [(3, False), (4, True)])
def test_a_count_of_closes_that_is_never_reached_is_told(flow: Workflow, count: int, told: bool) -> None:
    """The files come only when the program ends; without a word nobody would see why."""
    flow.task("writer", OPENPMD.replace("NAME", "'plt{step}.h5'"), outports=out("plt*.h5", count))
    flow.task("reader", "import h5py\nh5py.File('plt3.h5')\n", inports=[{"filename": "plt*.h5", "queue": 20}])
    ran = flow.run()
    assert flow.published("writer") == 4
    assert ("did not do with 4 files of 'plt*.h5'" in ran.out + ran.err) == told


def test_snapshots_obey_the_policy_of_their_channel(flow: Workflow) -> None:
    """`latest`: the producer never waits, and the last state always arrives; `drop-newest` keeps the first."""
    script = TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", "f.flush()").replace("range(5)", "range(40)")
    flow.task("writer", script, outports=out("traj.h5", "flush"))
    flow.reader("traj.h5", io_freq="latest")
    flow.run()
    got = flow.got()
    assert got[-1] == list(range(40))
    lengths = [len(frame) for frame in got if isinstance(frame, list)]
    assert lengths == sorted(set(lengths))
    assert flow.published("writer") == 40


def test_a_killed_trajectory_leaves_the_frames_that_were_flushed(flow: Workflow) -> None:
    """What was published stays; what was not never existed."""
    after = "f.flush() if i < 3 else os.kill(os.getpid(), 9)"
    script = "import os" + TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", after)
    flow.task("writer", script, outports=out("traj.h5", "flush"), on_failure="continue")
    flow.reader("traj.h5")
    flow.run(1)
    assert flow.got() == FRAMES[:3]


@pytest.mark.needs("python:netCDF4")
def test_netcdf_sync_publishes(flow: Workflow) -> None:
    """netCDF's sync is a flush; so is the end of its definitions, when there is no data yet."""
    flow.task(
        "writer",
        """
        import netCDF4
        with netCDF4.Dataset("traj.nc", "w") as f:
            f.createDimension("time", None)
            x = f.createVariable("x", "i4", ("time",))
            for i in range(5):
                x[i] = i
                f.sync()
        """,
        outports=out("traj.nc", "flush"),
    )
    flow.reader("traj.nc")
    flow.run()
    assert flow.got() == [[], *FRAMES]


@pytest.mark.needs("python:tables")
def test_pytables_flush_publishes(flow: Workflow) -> None:
    """PyTables' flush is a flush."""
    flow.task(
        "writer",
        """
        import tables
        with tables.open_file("traj.h5", "w") as f:
            x = f.create_earray("/", "x", tables.Int32Atom(), (0,))
            for i in range(5):
                x.append([i])
                f.flush()
        """,
        outports=out("traj.h5", "flush"),
    )
    flow.reader("traj.h5")
    flow.run()
    assert flow.got() == FRAMES


def test_fsync_publishes_any_kind_of_file(flow: Workflow) -> None:
    """A program without HDF5 appends to a log and makes it durable."""
    flow.task(
        "writer",
        """
        import os
        fd = os.open("table.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for i in range(3):
            os.write(fd, b"%100d\\n" % i)
            os.fsync(fd)
        os.close(fd)
        with open("table.txt", "a") as f:
            for i in range(3, 5):
                f.write(f"{i:100}\\n")
                f.flush()
                os.fsync(f.fileno())
        """,
        outports=out("table.txt", "flush"),
    )
    flow.task(
        "reader",
        """
        while True:
            try:
                lines = open("table.txt").read().split()
            except FileNotFoundError:
                break
            with open("got.txt", "a") as out:
                print([int(line) for line in lines], file=out)
        """,
        inports=[{"filename": "table.txt"}],
    )
    flow.run()
    assert flow.got() == FRAMES


LOOP_SIM = """
import h5py
steer = 1000
for step in range(4):
    FIRST
    with h5py.File("sim.h5", "w") as f:
        f["x"] = [step, steer]
"""
LOOP_LOOK = """
import h5py
for step in range(4):
    with h5py.File("sim.h5") as f, open("got.txt", "a") as out:
        x = f["x"][()].tolist()
        print(x, file=out)
    with h5py.File("steer.h5", "w") as f:
        f["x"] = [x[0] + 1]
"""
STEERED = [[0, 1000], [1, 1], [2, 2], [3, 3]]


def steering(flow: Workflow, read: str, **port: object) -> None:
    """A simulation and an analysis that read what the other wrote."""
    sim = LOOP_SIM.replace("FIRST", textwrap.indent(textwrap.dedent(read), " " * 4).strip())
    flow.task("sim", sim, inports=[{"filename": "steer.h5", **port}], outports=[{"filename": "sim.h5"}])
    flow.task("look", LOOP_LOOK, inports=[{"filename": "sim.h5"}], outports=[{"filename": "steer.h5"}])


TRY = """
try:
    with h5py.File("steer.h5") as f:
        steer = int(f["x"][0])
except FileNotFoundError:
    assert step == 0
"""


def test_the_first_open_of_a_steering_loop_finds_nothing(flow: Workflow) -> None:
    """`first: missing`: every later iteration waits for the answer to the one before."""
    steering(flow, TRY, first="missing")
    flow.run()
    assert flow.got() == STEERED


def test_the_first_open_of_a_steering_loop_reads_the_file_on_disk(flow: Workflow) -> None:
    """`first: file`: the settings that lie there, by name, size and content."""
    run_tree(["python", "-c", "import h5py; h5py.File('steer.h5', 'w')['x'] = [1000]"], 30, flow.folder)
    read = """
    import os
    assert step or os.path.getsize("steer.h5") > 0
    with h5py.File("steer.h5") as f:
        steer = int(f["x"][0])
    """
    steering(flow, read, first="file")
    flow.run()
    assert flow.got() == STEERED
    assert (flow.folder / "steer.h5").exists()


def test_without_first_a_steering_loop_is_stuck_and_says_so(flow: Workflow) -> None:
    """The same loop without the key: each waits for the other."""
    steering(flow, TRY)
    ran = flow.run(4)
    assert "steer.h5" in ran.err


def test_first_is_deterministic(flow: Workflow) -> None:
    """The first open takes no step even if one is there; neither do looks before it."""
    flow.task(
        "writer",
        "import h5py\nfor i in range(2):\n    with h5py.File('a.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "a.h5"}],
    )
    flow.task(
        "reader",
        """
        import os, time, h5py
        time.sleep(1)
        assert not os.path.exists("a.h5") and not h5py.is_hdf5("a.h5") and "a.h5" not in os.listdir(".")
        try:
            h5py.File("a.h5")
            raise SystemExit("took a step")
        except FileNotFoundError:
            pass
        assert os.path.exists("a.h5") and "a.h5" in os.listdir(".")
        """
        + textwrap.indent(READ_ALL.replace("NAME", "'a.h5'"), " " * 8),
        inports=[{"filename": "a.h5", "first": "missing"}],
    )
    flow.run()
    assert flow.got() == [[0], [1]]


def test_a_loop_that_only_asks_goes_on_after_its_first_iteration(flow: Workflow) -> None:
    """A program that asks whether the file is there, and does without, has had its first open."""
    read = """
    import os, time
    while step and not os.path.exists("steer.h5"):
        time.sleep(0.01)
    if os.path.exists("steer.h5"):
        with h5py.File("steer.h5") as f:
            steer = int(f["x"][0])
    """
    steering(flow, read, first="missing")
    flow.run()
    assert flow.got() == STEERED


@pytest.mark.parametrize("names", [("out.h5", "out.h5"), ("*.h5", "out.h5"), ("plt*.h5", "plt{}.h5")])
@pytest.mark.parametrize("opens", [2, 3])
def test_opens_per_step(flow: Workflow, names: tuple[str, str], opens: int) -> None:
    """m opens of a name are one step, with looks in between that do not count; the next is the next step."""
    pattern, name = names
    flow.task(
        "writer",
        f"""
        import h5py
        for i in range(5):
            with h5py.File("{name}".format(i), "w") as f:
                f["x"] = [i]
        """,
        outports=[{"filename": pattern}],
    )
    flow.task(
        "reader",
        f"""
        import os, h5py
        for i in range(5):
            for k in range({opens}):
                with h5py.File("{name}".format(i)) as f, open("got.txt", "a") as out:
                    print(f["x"][()].tolist(), file=out)
                if k + 1 < {opens}:
                    assert os.path.exists("{name}".format(i)) and h5py.is_hdf5("{name}".format(i))
        """,
        inports=[{"filename": pattern, "opens_per_step": opens}],
    )
    flow.run()
    assert flow.got() == [[i] for i in range(5) for _ in range(opens)]


def test_a_task_that_ends_between_the_opens_of_a_step(flow: Workflow) -> None:
    """The rest of the stream is let go, and its producer goes on."""
    flow.task(
        "writer",
        "import h5py\nfor i in range(6):\n    with h5py.File('a.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "a.h5"}],
    )
    flow.task(
        "reader",
        "import h5py\nfor i in range(3):\n    with h5py.File('a.h5') as f, open('got.txt', 'a') as out:\n"
        "        print(f['x'][()].tolist(), file=out)\n",
        inports=[{"filename": "a.h5", "opens_per_step": 2}],
        rerun="never",
    )
    flow.run()
    assert flow.got() == [[0], [0], [1]]


EVERY_RANK = [[10 * step + rank for rank in range(3)] for step in range(4)]
MPIS = pytest.mark.parametrize(
    "mpi",
    [pytest.param(mpi, marks=pytest.mark.needs(f"h5pcc.{mpi}", f"mpiexec.{mpi}")) for mpi in ("mpich", "openmpi")],
)
PARALLEL = {"nyx": 2, "token": 4, "flush": "flush", "write": {"write": 1, "dset": "/x"}}


@pytest.mark.parametrize("way", PARALLEL)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@MPIS
def test_parallel_programs(flow: Workflow, mpi: str, static: bool, way: str) -> None:
    """Made by rank 0 and reopened by all (Nyx); opened by rank after rank; one file to the end, flushed or not."""
    program = build("publish.c", *parallel_c(mpi, static=static))
    launcher = "mpiexec.mpich" if mpi == "mpich" else "mpiexec.openmpi --oversubscribe"
    latest = ["latest"] if not static else []
    flow.task("writer", [program, way, "4", *latest], nprocs=3, mpiexec=launcher, outports=out("out.h5", PARALLEL[way]))
    flow.reader("out.h5")
    flow.run()
    if way == "write" and static:  # H5Dwrite cannot be seen there
        assert flow.got() == EVERY_RANK[-1:]
        assert "linked statically" in flow.log()
    else:
        assert flow.got() == EVERY_RANK


@pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
def test_parallel_readers_open_each_step_twice(flow: Workflow) -> None:
    """`opens_per_step` where the ranks of the reader open files together, and each rank alone."""
    program = build("reopen.c", *parallel_c("mpich", static=False))
    flow.task(
        "writer",
        "import h5py\nfor i in range(4):\n    with h5py.File('out.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "out.h5"}],
    )
    flow.task(
        "reader",
        [program, "4", "2"],
        nprocs=3,
        mpiexec="mpiexec.mpich",
        inports=[{"filename": "out.h5", "opens_per_step": 2}],
    )
    flow.run()


@pytest.mark.parametrize("how", ["asks", "opens"])
def test_all_ranks_have_had_the_first_open_that_they_made_together(flow: Workflow, how: str) -> None:
    """`first: missing` where ranks share files: looks of all ranks are answered alike afterwards."""
    program = Path(__file__).parent / "programs" / "first_together.py"
    flow.task(
        "sim",
        [program, how],
        nprocs=2,
        inports=[{"filename": "steer.h5", "first": "missing"}],
        outports=[{"filename": "sim.h5"}],
    )
    flow.task(
        "look",
        """
        for step in range(3):
            with open("sim.h5", "rb") as sim:
                data = sim.read(4)
            with open("steer.h5", "wb") as steer:
                steer.write(data)
        """,
        inports=[{"filename": "sim.h5"}],
        outports=[{"filename": "steer.h5"}],
    )
    flow.run()
    assert flow.got() == [[0], [1]]
