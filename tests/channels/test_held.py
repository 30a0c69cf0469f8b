"""Steps that are held for long: at the end of a program, in forks, under load, when a task is killed."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from channels.programs import PUBLISH, WRITE, Tasks

from support.hooks import faults
from support.running import WILKINS, processes_in, started_tree, wait_for

ENDS: dict[str, tuple[str, int]] = {
    "the program's end": ("", 0),
    "sys.exit": ("import sys; sys.exit(0)", 0),
    "an exception": ("raise ArithmeticError('mine')", 1),
    "os._exit": ("import os; os._exit(0)", 0),
}


@pytest.mark.usual("sys.exit", "os._exit")
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


def test_steps_whose_arrays_their_producer_keeps_come_as_their_blocks_end(tasks: Tasks) -> None:
    """Its array is read-only then, and no other process's memory."""
    tasks.write(
        "write.py",
        """
        import os, time, wilkins.transport
        kept = []
        for k in range(4):
            with wilkins.transport.create(f"x{k}.h5") as new:
                kept.append(new.empty("u", 300))
                kept[-1][:] = k
        while not os.path.exists("read"):
            time.sleep(0.02)
        assert all((array == k).all() and not array.flags.writeable for k, array in enumerate(kept))
        """,
    )
    tasks.write(
        "read.py",
        """
        import wilkins.transport
        for k, step in enumerate(wilkins.transport.open("x*.h5")):
            print(step.filename, (step["u"] == k).all(), flush=True)
            if k == 3:
                open("read", "w").close()
        """,
    )
    tasks.run(
        "func: write.py, outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5', flow: {queue: 4}}]",
    )
    assert tasks.said("read") == [f"x{k}.h5 True" for k in range(4)]


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


@pytest.mark.usual("2")
@pytest.mark.needs("hooks")
@pytest.mark.parametrize("seed", [1, 2])
def test_values_never_change_under_an_array(tasks: Tasks, seed: int) -> None:
    """With everyone held up at random at the points of the store where others could get in between."""
    seed = int(os.environ.get("WILKINS_TEST_SEED", seed))
    all_of_them, newest = stress(tasks, faults(f"seed={seed},delay=1ms,chance=0.2"))
    assert all_of_them == "80" and 0 < int(newest) <= 80


@pytest.mark.nightly
def test_values_never_change_where_memory_is_short(tasks: Tasks) -> None:
    """Arenas give their memory back as soon as they can."""
    assert stress(tasks, {}, ", memory: 12MiB")[0] == "80"


@pytest.mark.usual("write")
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
