"""`wilkins.transport.steps`: a task that asks for the names of its steps gets all of them, in order, on every rank."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from pathlib import Path

import h5py
import pytest

from support.running import MPIEXEC, WILKINS, Finished, must_run, run_tree, started_tree, wait_for
from wilkins.transport import steps

PYTHON = sys.executable

PRODUCER = """
    import sys, h5py
    count, stem, fixed = int(sys.argv[1]), sys.argv[2], len(sys.argv) > 3
    for step in range(count):
        with h5py.File(f"{stem}.h5" if fixed else f"{stem}{step}.h5", "w") as file:
            file["step"] = step
"""

CONSUMER = """
    import os, h5py
    from wilkins.transport import steps
    rank = os.environ.get("RANK", "0")
    with open(f"seen-{rank}.txt", "w") as seen:
        for name in steps.names(PATTERN):
            with h5py.File(name) as file:
                step = file["step"][()]
            with h5py.File(name) as file:  # the name means this step as long as the loop stands here
                assert file["step"][()] == step
            print(name, step, file=seen)
"""


def lay_out(folder: Path, consumer: str = CONSUMER, pattern: str = "x*.h5") -> None:
    """The programs of a pair of tasks."""
    (folder / "producer.py").write_text(textwrap.dedent(PRODUCER))
    (folder / "consumer.py").write_text(textwrap.dedent(consumer).replace("PATTERN", repr(pattern)))


def run_pair(folder: Path, producer: str, consumer: str, *job: str) -> Finished:
    """Runs a producer and a consumer, given as YAML that follows their `func`."""
    workflow = f"tasks:\n  - {{func: producer.py, {producer}}}\n  - {{func: consumer.py, {consumer}}}\n"
    (folder / "workflow.yaml").write_text(workflow)
    return run_tree([*job, *WILKINS, "run", "workflow.yaml"], 100, folder)


def seen(folder: Path, rank: int = 0) -> list[str]:
    """What a rank of the consumer noted."""
    return (folder / f"seen-{rank}.txt").read_text().splitlines()


@pytest.mark.usual("memory", also_between_hosts=["file", "both"])
@pytest.mark.parametrize("mode", ["memory", "file", "both"])
def test_every_step_in_order(tmp_path: Path, mode: str) -> None:
    lay_out(tmp_path)
    port = f"{{filename: 'x*.h5', mode: {mode}}}"
    done = run_pair(tmp_path, f"args: [12, x], outports: [{port}]", "inports: [{filename: 'x*.h5'}]")
    assert done.code == 0, done.err
    assert seen(tmp_path) == [f"x{step}.h5 {step}" for step in range(12)]
    assert bool(list(tmp_path.glob("*.h5"))) == (mode != "memory")


def test_a_fixed_name(tmp_path: Path) -> None:
    lay_out(tmp_path, pattern="")
    done = run_pair(tmp_path, "args: [6, x, fixed], outports: [{filename: x.h5}]", "inports: [{filename: x.h5}]")
    assert done.code == 0, done.err
    assert seen(tmp_path) == [f"x.h5 {step}" for step in range(6)]


def test_a_program_that_is_started_for_one_step_is_told_of_one(tmp_path: Path) -> None:
    """A rewritten name given as an argument: a program that asks for the next ends, and is started again for it."""
    consumer = CONSUMER.replace('"w") as seen', '"a") as seen')
    lay_out(tmp_path, consumer, pattern="x.h5")
    done = run_pair(
        tmp_path,
        "args: [5, x, fixed], outports: [{filename: x.h5}]",
        "args: ['{filename}'], inports: [{filename: x.h5}]",
    )
    assert done.code == 0, done.err
    assert seen(tmp_path) == [f"x.h5 {step}" for step in range(5)]


def test_a_step_handed_out_is_not_dropped(tmp_path: Path) -> None:
    """Under `latest`, the producer goes on between the name and the open; the last step is delivered."""
    consumer = CONSUMER.replace(
        "with h5py.File(name) as file:\n",
        "__import__('time').sleep(0.3)\n" + " " * 12 + "with h5py.File(name) as file:\n",
        1,
    )
    lay_out(tmp_path, consumer)
    done = run_pair(
        tmp_path, "args: [200, x], outports: [{filename: 'x*.h5'}]", "inports: [{filename: 'x*.h5', io_freq: latest}]"
    )
    assert done.code == 0, done.err
    found = [int(line.split()[1]) for line in seen(tmp_path)]
    assert found == sorted(set(found))
    assert len(found) < 200
    assert found[-1] == 199


def test_steps_that_are_not_opened_are_passed_over(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        """
        from wilkins.transport import steps
        with open("seen-0.txt", "w") as seen:
            for name in steps.names(PATTERN):
                print(name, file=seen)
        """,
    )
    done = run_pair(tmp_path, "args: [9, x], outports: [{filename: 'x*.h5'}]", "inports: [{filename: 'x*.h5'}]")
    assert done.code == 0, done.err
    assert seen(tmp_path) == [f"x{step}.h5" for step in range(9)]


@pytest.mark.one_host(
    "ranks on several hosts cannot agree on steps left out while one of them is busy: the run is refused",
    "latest-alone",
)
@pytest.mark.usual("latest-alone", also_between_hosts=["all-one job"])
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "5")], ids=["alone", "one job"])
@pytest.mark.parametrize("policy", ["all", "latest"])
def test_all_ranks_get_the_same_steps(tmp_path: Path, policy: str, job: tuple[str, ...]) -> None:
    """Two ranks that write files of their own at their own pace, three that read all of them."""
    lay_out(tmp_path, CONSUMER.replace("import os, h5py", "import mpi4py.MPI, os, h5py"))
    text = """
        import time, h5py
        from mpi4py import MPI
        rank = MPI.COMM_WORLD.rank
        for step in range(10 if rank else 3):
            with h5py.File(f"x{rank}-{step}.h5", "w") as file:
                file["step"] = step
            time.sleep(0.2 if not rank else 0)
    """
    (tmp_path / "producer.py").write_text(textwrap.dedent(text))
    done = run_pair(
        tmp_path,
        "nprocs: 2, outports: [{filename: 'x*.h5'}]",
        f"nprocs: 3, inports: [{{filename: 'x*.h5', flow: {policy}}}]",
        *job,
    )
    assert done.code == 0, done.err
    first = seen(tmp_path)
    assert seen(tmp_path, 1) == seen(tmp_path, 2) == first
    assert {"x0-2.h5 2", "x1-9.h5 9"} <= set(first)
    if policy == "all":
        assert sorted(first) == sorted(
            f"x{rank}-{step}.h5 {step}" for rank, n in ((0, 3), (1, 10)) for step in range(n)
        )


def test_a_wait_sleeps_and_can_be_interrupted(tmp_path: Path) -> None:
    """While it waits, a task uses no processor, its other threads run, and Ctrl-C reaches it."""
    lay_out(
        tmp_path,
        """
        import os, threading, time
        from wilkins.transport import steps
        def tick():
            for _ in range(20):
                time.sleep(0.05)
            open("ticked", "w").write(str(os.getpid()))
        try:
            threading.Thread(target=tick).start()
            for name in steps.names(PATTERN):
                pass
        except KeyboardInterrupt:
            open("interrupted", "w").write(str(time.process_time()))
        """,
    )
    (tmp_path / "producer.py").write_text("import time; time.sleep(60)")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: producer.py, outports: [{filename: 'x*.h5'}]}\n"
        "  - {func: consumer.py, inports: [{filename: 'x*.h5'}]}\n"
    )
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: (tmp_path / "ticked").exists() and (tmp_path / "ticked").read_text(), 40, "the thread to run")
        os.kill(int((tmp_path / "ticked").read_text()), signal.SIGINT)
        wait_for((tmp_path / "interrupted").exists, 20, "the task to notice")
        wait_for((tmp_path / "interrupted").read_text, 20, "the task to say how long it took")
        assert float((tmp_path / "interrupted").read_text()) < 1.0


def test_no_such_port_is_named(tmp_path: Path) -> None:
    lay_out(tmp_path, pattern="y*.h5")
    done = run_pair(tmp_path, "args: [2, x], outports: [{filename: 'x*.h5'}]", "inports: [{filename: 'x*.h5'}]")
    assert done.code == 1
    assert "(in-ports of this task: x*.h5); did you mean 'x*.h5'?" in done.out + done.err


def test_files_alone_are_sorted_naturally(tmp_path: Path) -> None:
    lay_out(tmp_path)
    must_run(tmp_path, PYTHON, "producer.py", "12", "x")
    must_run(tmp_path, PYTHON, "consumer.py")
    assert seen(tmp_path) == [f"x{step}.h5 {step}" for step in range(12)]


def test_nothing_to_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file in .* matches.*x\*"):
        list(steps.names("x*.h5"))
    with h5py.File("x1.h5", "w"):
        assert list(steps.names("x*.h5")) == ["x1.h5"]
