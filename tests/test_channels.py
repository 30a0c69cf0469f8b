"""`wilkins.transport` in runs: steps as arrays over shared memory, with unmodified HDF5 programs at the other end."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from programs.build import build, parallel_c, serial_c

from support import MPIEXEC, WILKINS, Finished, processes_in, run_tree, started_tree, wait_for

WRITE = """
    import sys, time, h5py, numpy as np
    for step in range(int(sys.argv[1])):
        with h5py.File(sys.argv[2].format(step), "w") as file:
            file["u"] = np.full((300, 1000), step, "f4")
            file.create_dataset("packed", data=np.arange(1000) + step, compression="gzip")
            file["name"] = f"step {step}"
            file.attrs["step"] = step
        time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""


class Tasks:
    """A folder with the programs of a workflow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        """A Python program; it prints what the test looks at."""
        (self.folder / name).write_text(textwrap.dedent(text))

    def workflow(self, *tasks: str) -> None:
        """Each task in YAML."""
        (self.folder / "workflow.yaml").write_text("\n".join(["tasks:", *(f"  - {{{task}}}" for task in tasks)]))

    def run(self, *tasks: str, code: int = 0, job: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Finished:
        """Run the tasks; nothing may be left of them."""
        self.workflow(*tasks)
        done = run_tree([*job, *WILKINS, "run", "workflow.yaml"], 90, self.folder, env)
        logs = "\n".join(path.read_text() for path in (self.folder / "wilkins-runs" / "latest").glob("*.log"))
        assert done.code == code, f"{done.out}\n{done.err}\n{logs}"
        assert not processes_in(self.folder)
        return done

    def said(self, task: str) -> list[str]:
        """The lines that a task has printed."""
        return (self.folder / "wilkins-runs" / "latest" / f"{task}.log").read_text().splitlines()


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    """An empty folder for a workflow."""
    return Tasks(tmp_path)


@pytest.mark.parametrize("mode", ["memory", "both", "file"])
def test_steps_of_an_unmodified_program(tasks: Tasks, mode: str) -> None:
    """Views lie in the arena and cost no copy; what is packed is read; all values are those of the step."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import numpy as np, wilkins.transport
        from wilkins.transport.memory import bytes_moved
        for step in wilkins.transport.open("x*.h5"):
            before = bytes_moved()
            u = step["u"]
            assert bytes_moved() == before and not u.flags.writeable
            assert u.shape == (300, 1000) and (u == step.index).all()
            stored = step._stored
            assert stored.address < u.ctypes.data < stored.address + stored.size
            assert any(f"{stored.address:x}-" in line and "wilkins-" in line for line in open("/proc/self/maps"))
            assert (step["packed"] == np.arange(1000) + step.index).all()
            assert (step["packed", 3:7] == np.arange(3, 7) + step.index).all()
            assert step["name"][()].decode() == f"step {step.index}" and step.attrs["step"] == step.index
            print(step.index, step.filename, *step.names())
        """,
    )
    tasks.run(
        f"func: write.py, args: [7, 'x{{}}.h5'], outports: [{{filename: 'x*.h5', mode: {mode}}}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
    )
    assert tasks.said("read") == [f"{step} x{step}.h5 name packed u" for step in range(7)]
    assert len(list(tasks.folder.glob("x*.h5"))) == (0 if mode == "memory" else 7)


@pytest.mark.parametrize("fixed", [False, True], ids=["numbered", "rewritten"])
@pytest.mark.parametrize("policy", ["all", "latest", "3"])
def test_policies(tasks: Tasks, policy: str, fixed: bool) -> None:
    pattern, name = ("x.h5", "x.h5") if fixed else ("x*.h5", "x{}.h5")
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import time, wilkins.transport
        for step in wilkins.transport.open():
            u = step["u"]
            time.sleep(0.05)
            assert (u == step.attrs["step"]).all()
            print(step.attrs["step"])
        """,
    )
    tasks.run(
        f"func: write.py, args: [12, '{name}'], outports: [{{filename: '{pattern}'}}]",
        f"func: read.py, inports: [{{filename: '{pattern}', io_freq: {policy}}}]",
    )
    got = [int(line) for line in tasks.said("read")]
    if policy == "latest":
        assert got == sorted(set(got)) and got[-1] == 11
    else:
        assert got == list(range(0, 12, 1 if policy == "all" else 3))


def test_arrays_outlive_step_channel_and_producer(tasks: Tasks) -> None:
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import gc, wilkins.transport
        kept = []
        def read():
            with wilkins.transport.open("x*.h5") as channel:
                for step in channel:
                    if step.index % 2 == 0:
                        kept.append((step.index, step["u"][step.index :, ::3], step.buffer("u")))
        read()
        gc.collect()
        assert wilkins.transport.open("x*.h5").poll() is None
        for index, part, buffer in kept:
            assert (part == index).all() and (buffer.array == index).all() and part.shape == (300 - index, 334)
        print(*(index for index, _, _ in kept))
        """,
    )
    tasks.run(
        "func: write.py, args: [9, 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
    )
    assert tasks.said("read") == ["0 2 4 6 8"]


def test_a_step_is_itself_whatever_its_name_means(tasks: Tasks) -> None:
    """Steps of a rewritten name, opened by HDF5 only after later ones were taken, and again after they were closed."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import h5py, wilkins.transport
        channel = wilkins.transport.open("x.h5")
        first, second, third = next(channel), next(channel), channel.poll() or next(channel)
        with h5py.File("x.h5") as file:  # the name means the step that was taken last
            assert file.attrs["step"] == 2
        for step in (second, first, third):
            assert step.attrs["step"] == step.index and (step["u"] == step.index).all()
            step.file.close()
            assert step["name"][()].decode() == f"step {step.index}" and (step["u", 1] == step.index).all()
        both = first.file, h5py.File("x.h5")
        assert [file.attrs["step"] for file in both] == [0, 2]
        del first, second, third, step, both
        print(*(step.attrs["step"] for step in channel))
        """,
    )
    tasks.run(
        "func: write.py, args: ['7', x.h5], outports: [{filename: x.h5}]",
        "func: read.py, inports: [{filename: x.h5}]",
    )
    assert tasks.said("read") == ["3 4 5 6"]


def test_two_channels_at_once(tasks: Tasks) -> None:
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import time, wilkins.transport
        with wilkins.transport.open("x*.h5") as first, wilkins.transport.open("y.h5") as second:
            for a, b in zip(first, second):
                u, v = a["u"], b["u"]
                assert (u == a.index).all() and (v == b.index).all() and a.index == b.index
                print(a.filename, b.filename)
            while not second.ended:  # its producer may take a moment to end
                assert second.poll() is None
                time.sleep(0.001)
        """,
    )
    tasks.run(
        "func: write.py, args: [6, 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "name: other, func: write.py, args: [6, y.h5], outports: [{filename: y.h5}]",
        "func: read.py, inports: [{filename: 'x*.h5'}, {filename: y.h5}]",
    )
    assert tasks.said("read") == [f"x{step}.h5 y.h5" for step in range(6)]


PUBLISH = """
    import sys, numpy as np, wilkins.transport
    for step in range(int(sys.argv[1])):
        name = sys.argv[2] % step
        rows = step * 1e6 + np.arange(9)[:, None] * 1000.0 + np.arange(12)
        if step % 2:
            arrays = {"rows": rows, "g": {"text": "grüße", "tag": [b"tag"]}}
            wilkins.transport.publish(name, arrays, {"step": np.int32(step)})
        else:
            with wilkins.transport.create(name) as new:
                new.empty("rows", (9, 12))[:] = rows
                new["g/text"], new["g/tag"] = "grüße", [b"tag"]
                new.attrs["step"] = np.int32(step)
"""


@pytest.mark.needs("h5cc", "python:tables")
def test_unmodified_programs_read_what_is_published(tasks: Tasks) -> None:
    tasks.write("write.py", PUBLISH)
    tasks.write(
        "pytables.py",
        """
        import os, sys, tables, time
        for step in range(int(sys.argv[1])):
            while not os.path.exists(sys.argv[2] % step):  # PyTables looks first, and a look does not wait
                time.sleep(0.01)
            with tables.open_file(sys.argv[2] % step) as file:
                assert file.root.rows[8, 11] == step * 1e6 + 8011 and file.root.g.tag.read() == [b"tag"]
        print("read", step + 1)
        """,
    )
    tasks.write(
        "h5.py",
        """
        import sys, h5py
        for step in range(int(sys.argv[1])):
            with h5py.File(sys.argv[2] % step) as file:
                assert file["rows"][8, 11] == step * 1e6 + 8011 and file["g/text"].asstr()[()] == "grüße"
                assert file["rows"].id.get_offset() % 8 == 0
        print("read", step + 1)
        """,
    )
    args, port = "args: ['6', 'x%d.h5']", "[{filename: 'x*.h5'}]"
    c_args = "args: ['x%d.h5', '6']"
    tasks.run(
        f"func: write.py, {args}, outports: {port}",
        f"func: pytables.py, {args}, inports: {port}",
        f"func: h5.py, {args}, inports: {port}",
        f"name: shared, func: {build('ser_read.c', *serial_c(static=False))}, {c_args}, inports: {port}",
        f"name: static, func: {build('ser_read.c', *serial_c(static=True))}, {c_args}, inports: {port}",
    )
    for task in ("pytables", "h5"):
        assert tasks.said(task) == ["read 6"]
    for task in ("shared", "static"):
        assert tasks.said(task)[-1].startswith("rank 0 read 6 steps")
    assert not list(tasks.folder.glob("*.h5"))


@pytest.mark.needs("h5cc", "python:tables")
def test_what_unmodified_programs_write_is_read(tasks: Tasks) -> None:
    tasks.write(
        "pytables.py",
        """
        import tables, numpy as np
        for step in range(5):
            with tables.open_file(f"t{step}.h5", "w") as file:
                file.create_array("/", "rows", np.full((9, 12), float(step)))
                file.create_carray("/", "packed", obj=np.arange(99), filters=tables.Filters(1, "zlib"))
                columns = {"a": tables.Int32Col(), "b": tables.Float64Col()}
                table = file.create_table("/", "table", columns)
                table.append([(step, 0.5)])
        """,
    )
    tasks.write(
        "read.py",
        """
        import numpy as np, wilkins.transport
        def in_memory(step, array):
            return step._stored.address <= array.ctypes.data < step._stored.address + step._stored.size
        for name in ("s*.h5", "c*.h5"):
            for step in wilkins.transport.open(name):
                rows = step["rows"]
                assert in_memory(step, rows)
                assert (rows == step.index * 1e6 + np.arange(9)[:, None] * 1000.0 + np.arange(12)).all()
            print(step.index)
        for step in wilkins.transport.open("t*.h5"):
            assert in_memory(step, step["rows"]) and (step["rows"] == step.index).all()
            assert (step["packed"] == np.arange(99)).all() and step["table"].tolist() == [(step.index, 0.5)]
        print(step.index)
        """,
    )
    args = "['{}%d.h5', '5']"
    tasks.run(
        "func: pytables.py, outports: [{filename: 't*.h5'}]",
        f"name: shared, func: {build('ser_write.c', *serial_c(static=False))}, args: {args.format('s')}, "
        "outports: [{filename: 's*.h5'}]",
        f"name: static, func: {build('ser_write.c', *serial_c(static=True))}, args: {args.format('c')}, "
        "outports: [{filename: 'c*.h5'}]",
        "func: read.py, inports: [{filename: 's*.h5'}, {filename: 'c*.h5'}, {filename: 't*.h5'}]",
    )
    assert tasks.said("read") == ["4", "4", "4"]


@pytest.mark.parametrize(
    "mpi",
    [
        pytest.param("mpich", marks=pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")),
        pytest.param("openmpi", marks=pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")),
    ],
)
def test_between_parallel_programs(tasks: Tasks, mpi: str) -> None:
    """Parallel files are read as arrays and published again; a parallel program checks all that comes out."""
    tasks.write(
        "pass_on.py",
        """
        import numpy as np, wilkins.transport
        for step in wilkins.transport.open("plt*.h5"):
            rows = step["rows"]
            assert step._stored.address <= rows.ctypes.data < step._stored.address + step._stored.size
            arrays = {name: step[name] for name in step}
            wilkins.transport.publish(f"out{step.index:04d}.h5", arrays, step.attrs)
            print(step.filename, step["mesh"].dtype.names)
        """,
    )
    launcher = "mpiexec.mpich" if mpi == "mpich" else "mpirun.openmpi --oversubscribe"
    parallel = "nprocs: 2, mpiexec: " + launcher
    tasks.run(
        f"func: {build('par_write.c', *parallel_c(mpi, static=False))}, {parallel}, args: ['plt%04d.h5', '3'], "
        "outports: [{filename: 'plt*.h5'}]",
        "func: pass_on.py, inports: [{filename: 'plt*.h5'}], outports: [{filename: 'out*.h5'}]",
        f"func: {build('par_read.c', *parallel_c(mpi, static=False))}, {parallel}, args: ['out%04d.h5', '3'], "
        "inports: [{filename: 'out*.h5'}]",
    )
    assert tasks.said("pass_on") == [f"plt{step:04d}.h5 ('id', 'at')" for step in range(3)]
    assert any("read 3 steps" in line for line in tasks.said("par_read"))


def test_a_step_that_is_given_up_never_was(tasks: Tasks) -> None:
    tasks.write(
        "write.py",
        """
        import numpy as np, wilkins.transport
        from wilkins.transport.memory import bytes_moved
        for step in range(8):
            try:
                with wilkins.transport.create(f"x{step}.h5") as new:
                    u = new.empty("u", (1 << 20,), "f4")
                    before = bytes_moved()
                    u[:] = step
                    if step % 3 == 1:
                        raise ArithmeticError
                assert bytes_moved() - before < 1 << 20  # nothing but HDF5's own bookkeeping
                try:
                    u[0] = 1
                except ValueError as error:
                    print("closed:", error)
            except ArithmeticError:
                print("gave up", step)
        """,
    )
    tasks.write(
        "read.py",
        """
        import wilkins.transport
        for step in wilkins.transport.open("x*.h5"):
            assert (step["u"] == int(step.filename[1:-3])).all()
            print(step.filename)
        """,
    )
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert tasks.said("read") == [f"x{step}.h5" for step in range(8) if step % 3 != 1]
    assert tasks.said("write").count("closed: assignment destination is read-only") == 5
    assert [line for line in tasks.said("write") if "gave up" in line] == ["gave up 1", "gave up 4", "gave up 7"]


def test_a_program_that_ends_while_a_thread_fills_a_step_discards_it(tasks: Tasks) -> None:
    tasks.write(
        "write.py",
        """
        import threading, time, wilkins.transport
        wilkins.transport.publish("x0.h5", {"u": 1})
        filling = threading.Event()
        def fill():
            with wilkins.transport.create("x1.h5") as new:
                new.empty("u", 1000)
                filling.set()
                time.sleep(60)
        threading.Thread(target=fill, daemon=True).start()
        filling.wait()
        """,
    )
    tasks.write(
        "read.py", "import wilkins.transport\nfor step in wilkins.transport.open('x*.h5'):\n    print(step.filename)"
    )
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert tasks.said("read") == ["x0.h5"]


def test_a_step_whose_gpu_copies_fail_at_its_end_never_was(tasks: Tasks) -> None:
    tasks.write(
        "write.py",
        """
        import wilkins.transport
        class Failing:
            def end(self, file):
                raise OSError("CUDA: cuStreamSynchronize failed")
        for step in range(3):
            try:
                with wilkins.transport.create(f"x{step}.h5") as new:
                    new["u"] = step
                    if step == 1:
                        new._place._on_gpu = Failing()
            except OSError as error:
                print(error)
        """,
    )
    tasks.write(
        "read.py", "import wilkins.transport\nfor step in wilkins.transport.open('x*.h5'):\n    print(step.filename)"
    )
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert tasks.said("write") == ["CUDA: cuStreamSynchronize failed"]
    assert tasks.said("read") == ["x0.h5", "x2.h5"]


def test_arrays_of_too_many_steps_of_one_name(tasks: Tasks) -> None:
    """Steps are counted, not names: a program that writes one name again and again would wait for ever, too."""
    tasks.write(
        "write.py",
        """
        import wilkins.transport
        kept = []
        for step in range(30):
            try:
                with wilkins.transport.create("x.h5") as new:
                    kept.append(new.empty("u", 10))
                    kept[-1][:] = step
            except BufferError as error:
                print(error)
                kept.clear()
        """,
    )
    tasks.write("read.py", "import wilkins.transport\nprint(sum(1 for _ in wilkins.transport.open('x.h5')))")
    tasks.run("func: write.py, outports: [{filename: x.h5}]", "func: read.py, inports: [{filename: x.h5}]")
    assert tasks.said("write") == 3 * [tasks.said("write")[0]] and "arrays of 8 steps of" in tasks.said("write")[0]
    assert tasks.said("read") == ["27"]


def test_arrays_of_too_many_published_steps(tasks: Tasks) -> None:
    """Their memory could not be used again; a program that keeps them is told before it would wait for ever."""
    tasks.write(
        "write.py",
        """
        import wilkins.transport
        kept = []
        try:
            for step in range(30):
                with wilkins.transport.create(f"x{step}.h5") as new:
                    kept.append(new.empty("u", 10))
                    kept[-1][:] = step
        except BufferError as error:
            print(error)
        assert all((array == step).all() for step, array in enumerate(kept))
        kept.clear()
        wilkins.transport.publish("x30.h5", {"u": 3})
        """,
    )
    tasks.write("read.py", "import wilkins.transport\nprint(len(list(wilkins.transport.open('x*.h5'))))")
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert "'x8.h5' cannot be created: arrays of 8 steps of this task (x0.h5, " in tasks.said("write")[0]
    assert tasks.said("read") == ["9"]


@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "4")], ids=["alone", "one job"])
@pytest.mark.parametrize("policy", ["all", "latest"])
def test_ranks_that_poll_get_the_same_answers(tasks: Tasks, policy: str, job: tuple[str, ...]) -> None:
    """Three ranks that poll each at its own pace, and once in a while wait: one list of answers."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "poll.py",
        """
        import random, time
        from mpi4py import MPI
        import wilkins.transport
        rank = MPI.COMM_WORLD.rank
        pause = random.Random(rank)
        channel, answers = wilkins.transport.open("x*.h5"), []
        while not channel.ended:
            step = next(channel, None) if len(answers) % 7 == 6 else channel.poll()
            answers.append(None if step is None else int(step.attrs["step"]))
            time.sleep(pause.random() * 0.03 * (rank != 1))
        everyone = MPI.COMM_WORLD.gather(answers)
        if rank == 0:
            assert all(others == answers for others in everyone), everyone
            print(*(answer for answer in answers if answer is not None))
        """,
    )
    tasks.run(
        "func: write.py, args: ['15', 'x{}.h5', '0.03'], outports: [{filename: 'x*.h5'}]",
        f"func: poll.py, nprocs: 3, inports: [{{filename: 'x*.h5', flow: {policy}}}]",
        job=job,
    )
    numbers = [int(step) for step in tasks.said("poll.0" if job else "poll")[-1].split()]
    assert numbers[-1] == 14
    assert numbers == list(range(15)) if policy == "all" else numbers == sorted(set(numbers))


def test_prefetch_lets_the_producer_go_on(tasks: Tasks) -> None:
    """While the consumer works on the first step, three more than the queue's one are written, as it asked for."""
    tasks.write(
        "write.py",
        """
        import pathlib, wilkins.transport
        for step in range(8):
            wilkins.transport.publish(f"x{step}.h5", {"u": step})
            pathlib.Path(f"written-{step}").touch()
        """,
    )
    tasks.write(
        "read.py",
        """
        import pathlib, time, wilkins.transport
        for step in wilkins.transport.open("x*.h5", prefetch=3):
            while step.index == 0 and not pathlib.Path("written-4").exists():
                time.sleep(0.01)
            if step.index == 0:
                time.sleep(0.3)
                print(pathlib.Path("written-5").exists())
        print(step.index)
        """,
    )
    tasks.run(
        "func: write.py, outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5', flow: {queue: 1}}]",
    )
    assert tasks.said("read") == ["False", "7"]


def test_a_consumer_that_keeps_everything_is_told(tasks: Tasks) -> None:
    """It holds all memory there is and waits for more: the run ends and says who waits for whom."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import wilkins.transport
        kept = [step["u"] for step in wilkins.transport.open("x*.h5")]
        """,
    )
    done = tasks.run(
        "func: write.py, args: ['60', 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
        code=4,
    )
    assert "waits for room to create 'x" in done.err + done.out


def test_ctrl_c_reaches_a_task_that_waits(tasks: Tasks) -> None:
    tasks.write("write.py", "import time; time.sleep(60)")
    tasks.write(
        "read.py",
        """
        import os, wilkins.transport
        open("pid", "w").write(str(os.getpid()))
        try:
            for step in wilkins.transport.open("x*.h5", prefetch=2):
                pass
        except KeyboardInterrupt:
            open("interrupted", "w").close()
        """,
    )
    tasks.workflow("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    with started_tree([*WILKINS, "run", "workflow.yaml"], tasks.folder):
        pid = tasks.folder / "pid"
        wait_for(lambda: pid.exists() and pid.read_text(), 40, "the task to start")
        time.sleep(0.5)
        os.kill(int(pid.read_text()), signal.SIGINT)
        wait_for((tasks.folder / "interrupted").exists, 20, "the task to notice")


ENDS: dict[str, tuple[str, int]] = {
    "the program's end": ("", 0),
    "sys.exit": ("import sys; sys.exit(0)", 0),
    "an exception": ("raise ArithmeticError('mine')", 1),
    "os._exit": ("import os; os._exit(0)", 0),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_task_may_end_with_steps_in_its_hands(tasks: Tasks, end: str) -> None:
    tasks.write("write.py", WRITE)
    text = """
        import wilkins.transport
        channel = wilkins.transport.open("x*.h5", prefetch=1)
        first, second = next(channel), channel.poll()
        kept = [first["u"], first.file["u"], second and second["u"]]
        step = next(channel)
        {}
        """
    tasks.write("read.py", text.format(ENDS[end][0]))
    done = tasks.run(
        "func: write.py, args: ['6', 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5'}], rerun: never",
        code=ENDS[end][1],
    )
    said = "\n".join(tasks.said("read"))
    assert ("Traceback" in said) == (end == "an exception") and "Exception ignored" not in said
    assert "ArithmeticError: mine" in said or end != "an exception"
    assert "Fatal" not in said + done.err


def test_a_fork_sees_what_its_parent_holds(tasks: Tasks) -> None:
    """Arrays can be read in a child, which cannot take steps, and whose end changes nothing for the parent."""
    tasks.write("write.py", WRITE)
    tasks.write(
        "read.py",
        """
        import os, wilkins.transport
        channel = wilkins.transport.open("x*.h5")
        for step in channel:
            u = step["u"]
            child = os.fork()
            if child == 0:
                good = (u == step.index).all() and (step["u"] == step.index).all()
                try:
                    channel.poll()
                except RuntimeError as error:
                    good = good and "not by a fork of it" in str(error)
                del u, step
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert (u == step.index).all()
        print(step.index)
        """,
    )
    tasks.run(
        "func: write.py, args: ['8', 'x{}.h5'], outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5'}]",
    )
    assert tasks.said("read") == ["7"]


@pytest.mark.needs("python:torch")
def test_torch_tensors_in_a_run(tasks: Tasks) -> None:
    tasks.write(
        "write.py",
        """
        import torch, wilkins.transport
        for step in range(4):
            x = torch.full((1 << 18,), float(step))
            wilkins.transport.publish(f"x{step}.h5", {"x": x, "y": torch.arange(5)})
        """,
    )
    tasks.write(
        "read.py",
        """
        import torch, wilkins.transport
        from wilkins.transport.memory import bytes_moved
        kept = []
        for step in wilkins.transport.open("x*.h5"):
            before = bytes_moved()
            x = step.torch("x")
            assert bytes_moved() == before and x.data_ptr() == step["x"].ctypes.data
            assert torch.all(x == step.index) and step.torch("y").tolist() == [0, 1, 2, 3, 4]
            kept.append(step.torch("x", slice(10)))
        assert [tensor[0].item() for tensor in kept] == [0, 1, 2, 3]
        weights = torch.ones(10, requires_grad=True)
        (weights * kept[3]).sum().backward()
        print(weights.grad.sum().item())
        """,
    )
    tasks.run("func: write.py, outports: [{filename: 'x*.h5'}]", "func: read.py, inports: [{filename: 'x*.h5'}]")
    assert tasks.said("read") == ["30.0"]


def stress(tasks: Tasks, env: dict[str, str], victim: str = "") -> list[Any]:
    """A reader that holds steps at random while its producer goes on, and looks at every value before it lets go."""
    tasks.write(
        "write.py",
        """
        import numpy as np, wilkins.transport
        for step in range(80):
            name = f"x{step}.h5"
            if step % 2:
                wilkins.transport.publish(name, {"u": np.full(200_000, step, "i4"), "v": np.full(7, step)})
            else:
                with wilkins.transport.create(name) as new:
                    new.empty("u", 200_000, "i4")[:] = step
                    new["v"] = np.full(7, step)
        """,
    )
    tasks.write(
        "read.py",
        """
        import random, sys, threading, wilkins.transport
        choose, held, got = random.Random(int(sys.argv[1])), [], 0
        def look(step, u, v):
            number = int(step.filename[1:-3])
            assert (u == number).all() and (v == number).all(), (number, u.min(), u.max(), v)
        for step in wilkins.transport.open("x*.h5", prefetch=choose.randrange(3)):
            got += 1
            held.append((step, step["u"], step["v", 1:]))
            while held and (len(held) > 6 or choose.random() < 0.4):
                item = held.pop(choose.randrange(len(held)))
                if choose.random() < 0.3:
                    looking = threading.Thread(target=look, args=item)
                    looking.start()
                    looking.join()
                else:
                    look(*item)
                if choose.random() < 0.5:
                    step = item[0]
                    del item
                    step.release()
        for item in held:
            look(*item)
        print(got)
        """,
    )
    tasks.run(
        f"func: write.py, outports: [{{filename: 'x*.h5'{victim}}}]",
        "name: one, func: read.py, args: ['1'], inports: [{filename: 'x*.h5', flow: {queue: 3}}]",
        "name: two, func: read.py, args: ['2'], inports: [{filename: 'x*.h5', flow: latest}]",
        env=env,
    )
    return [tasks.said(task)[-1] for task in ("one", "two")]


@pytest.mark.parametrize("seed", [1, 2])
def test_values_never_change_under_an_array(tasks: Tasks, seed: int) -> None:
    """With everyone held up at random at the points of the store where others could get in between."""
    seed = int(os.environ.get("WILKINS_TEST_SEED", seed))
    all_of_them, newest = stress(tasks, {"WILKINS_FAULTS": f"seed={seed},delay=1ms,chance=0.2"})
    assert all_of_them == "80" and 0 < int(newest) <= 80


def test_values_never_change_where_memory_is_short(tasks: Tasks) -> None:
    """Arenas give their memory back as soon as they can."""
    assert stress(tasks, {}, ", memory: 12MiB")[0] == "80"


@pytest.mark.parametrize("victim", ["write", "read"])
def test_a_task_is_killed(tasks: Tasks, victim: str) -> None:
    """The other one ends; what it held was good to the end."""
    tasks.write(
        "write.py",
        PUBLISH.replace(
            "    for step", "    open('write.pid', 'w').write(str(__import__('os').getpid()))\n    for step"
        ),
    )
    tasks.write(
        "read.py",
        """
        import os, sys, time, wilkins.transport
        open("read.pid", "w").write(str(os.getpid()))
        for step in wilkins.transport.open("x*.h5"):
            rows = step["rows"]
            print(step.filename, flush=True)
            time.sleep(0.02)
            assert rows[8, 11] == int(step.filename[1:-3]) * 1e6 + 8011
        print("ended")
        """,
    )
    option = ", on_failure: continue"
    tasks.workflow(
        "func: write.py, args: ['400', 'x%d.h5'], outports: [{filename: 'x*.h5'}]" + option,
        "func: read.py, inports: [{filename: 'x*.h5'}]" + option,
    )
    with started_tree([*WILKINS, "run", "workflow.yaml"], tasks.folder) as tree:
        log = tasks.folder / "wilkins-runs" / "latest" / "read.log"
        wait_for(lambda: log.exists() and log.read_text().count("\n") > 5, 40, "some steps")
        os.kill(int((tasks.folder / f"{victim}.pid").read_text()), signal.SIGKILL)
        done = tree.wait(60)
    assert done.code == 1 and "Traceback" not in done.err
    if victim == "write":
        assert tasks.said("read")[-1] == "ended"
    assert not processes_in(tasks.folder)
