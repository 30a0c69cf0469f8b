"""Steps that their producer gives up, and readers that hold too many."""

from __future__ import annotations

import pytest
from channels.programs import WRITE, Tasks


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


@pytest.mark.nightly
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
