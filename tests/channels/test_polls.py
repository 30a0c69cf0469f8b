"""Asking without waiting, prefetching, and being interrupted while waiting."""

from __future__ import annotations

import os
import signal

import pytest
from channels.programs import WRITE, Tasks

from support import waits
from support.running import MPIEXEC, WAITS, WILKINS, started_tree, wait_for


@pytest.mark.nightly
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
        WAITS
        import pathlib, time, wilkins.transport
        for step in wilkins.transport.open("x*.h5", prefetch=3):
            while step.index == 0 and not pathlib.Path("written-4").exists():
                time.sleep(0.01)
            if step.index == 0:
                waits.until_waits(0)
                print(pathlib.Path("written-5").exists())
        print(step.index)
        """.replace("WAITS", WAITS),
    )
    tasks.run(
        "func: write.py, outports: [{filename: 'x*.h5'}]",
        "func: read.py, inports: [{filename: 'x*.h5', flow: {queue: 1}}]",
    )
    assert tasks.said("read") == ["False", "7"]


def test_ctrl_c_reaches_a_task_that_waits(tasks: Tasks) -> None:
    tasks.write("write.py", "import time; time.sleep(60)")
    tasks.write(
        "read.py",
        """
        import os, wilkins.transport
        open("run", "w").write(os.environ["WILKINS_RUN"])
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
        waits.until_waits(1, (tasks.folder / "run").read_text())
        os.kill(int(pid.read_text()), signal.SIGINT)
        wait_for((tasks.folder / "interrupted").exists, 20, "the task to notice")
