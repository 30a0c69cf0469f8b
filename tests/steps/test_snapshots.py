"""When a step is published: at a flush, after writes; real programs, exact sequences."""

from __future__ import annotations

import pytest

from support.small_workflows import Workflow, out

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


@pytest.mark.usual("traj.h5-{}", "*.h5-{'libver': 'latest', 'userblock_size': 1024}")
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


def test_swmr_is_refused_with_its_reason_once_and_no_other_advice(flow: Workflow) -> None:
    """The program fails before its first flush, so that there was none is no news."""
    script = TRAJECTORY.replace("OPTIONS", "{'libver': 'latest'}").replace("AFTER", "setattr(f, 'swmr_mode', True)")
    flow.task("writer", script, outports=out("traj.h5", "flush"))
    flow.reader("traj.h5")
    ran = flow.run(1)
    said = (ran.out + ran.err).lower()
    assert said.count("there is no swmr (one writer with many readers at the same time)") == 1
    assert "did not do with" not in said and "at every flush, without any" not in said


@pytest.mark.usual("x-2-frames1")
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


@pytest.mark.nightly
def test_writes_to_other_datasets_do_not_count(flow: Workflow) -> None:
    """And a dataset that is never written leads to a note."""
    script = TRAJECTORY.replace("OPTIONS", "{}").replace("AFTER", "f.flush()")
    flow.task("writer", script, outports=out("traj.h5", {"write": 1, "dset": "/y"}))
    flow.reader("traj.h5")
    ran = flow.run()
    assert flow.got() == FRAMES[4:]
    assert "/y" in flow.log() and "no such write was seen" in flow.log()
    assert "writer: did not do with 1 file of 'traj.h5' what its `publish:` waits for" in ran.out + ran.err


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


@pytest.mark.nightly
def test_a_limit_with_room_for_a_file_but_not_for_its_copy(flow: Workflow) -> None:
    """The message does not call a file larger than the limit that is not."""
    script = (
        "import h5py, numpy as np\nwith h5py.File('traj.h5', 'w') as f:\n    f['x'] = np.ones(1 << 21)\n    f.flush()\n"
    )
    flow.task("writer", script, outports=out("traj.h5", "flush", memory="24MiB"))
    flow.reader("traj.h5")
    ran = flow.run(1)
    assert ", beside other files that its program has open or will add to, more than the 25165824" in ran.err


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
