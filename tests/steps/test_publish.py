"""When a step is published: at the n-th close, at the next name; what rests until then; exact sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, serial_c

from support.running import WAITS, WILKINS, run_tree, write_program
from support.small_workflows import Workflow, out
from wilkins.flow.trace import read_trace

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


@pytest.mark.usual("next", also_between_hosts=["3"])
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


@pytest.mark.nightly
@pytest.mark.also_between_hosts
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
    assert "writer: reopened files of 'plt*.h5' 8 times to add to what had been published" in ran.out + ran.err


@pytest.mark.usual("True", also_between_hosts=["False"])
@pytest.mark.needs("h5cc")
@pytest.mark.parametrize("static", [False, True])
def test_flushes_of_an_hdf5_inside_the_program(flow: Workflow, static: bool) -> None:
    """They cannot be seen, as is said before the run and after it, with what mends it."""
    program = build("flushes.c", *serial_c(static=static))
    flow.task("writer", [program], outports=[{"filename": "frames.h5", "publish": "flush"}])
    flow.reader("frames.h5")
    ran = flow.run()
    assert flow.published("writer") == (1 if static else 3)
    said = " ".join((ran.out + ran.err).split())
    assert (
        "flushes has its HDF5 inside, where flushes cannot be seen: build it with the shared HDF5" in said
    ) == static
    assert ("where flushes and writes to datasets cannot be seen" in said) == static
    assert ("did not do with 1 file of 'frames.h5'" in said) == static
    checked = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert checked.code == 0
    assert ("(`wilkins help static-programs`)" in checked.err) == static


@pytest.mark.usual("True", also_between_hosts=["False"])
@pytest.mark.parametrize("given", [False, True])
def test_one_name_that_is_appended_to(flow: Workflow, given: bool) -> None:
    """Each close is a step. The run counts them, unless the workflow file says that it is meant so."""
    program = (
        "import h5py\nfor step in range(5):\n    with h5py.File('history.h5', 'a') as f:\n        f[str(step)] = step\n"
    )
    flow.task("writer", program, outports=[{"filename": "history.h5", **({"publish": "close"} if given else {})}])
    flow.task(
        "reader",
        "import h5py\nwhile True:\n    try: h5py.File('history.h5').close()\n    except OSError: break\n",
        inports=[{"filename": "history.h5"}],
    )
    ran = flow.run()
    assert flow.published("writer") == 5
    assert ("writer: reopened 'history.h5' 4 times" in ran.out + ran.err) == (not given)


@pytest.mark.nightly
@pytest.mark.also_between_hosts
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


HALVES = """
import os, sys, h5py
first, steps, ending = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for step in range(first, first + steps):
    name = sys.argv[4].format(step)
    with h5py.File(name, "w") as f:
        f["y"] = [step]
    if step + 1 == first + steps and ending:
        exec(ending)
    with h5py.File(name, "a") as f:
        f["x"] = [step, int(f["y"][0])]
"""
READ_HALVES = """
import h5py
from wilkins.transport import steps
for name in steps.names("out*.h5"):
    with h5py.File(name) as f, open("got.txt", "a") as out:
        print(f["x"][()].tolist() if "x" in f else "half", file=out)
"""


@pytest.mark.usual("out-{}.h5-2", also_between_hosts=["out.h5-next"])
@pytest.mark.parametrize("publish", [2, "next"])
@pytest.mark.parametrize("name", ["out.h5", "out-{}.h5"])
def test_what_a_killed_program_of_a_script_has_left(flow: Workflow, name: str, publish: object) -> None:
    """It was about to add to the file that rests: nobody gets it, and the next one's closes count from the start."""
    (flow.folder / "halves.py").write_text(HALVES)
    die = "os.kill(os.getpid(), 9)"
    script = f"python halves.py 0 2 '{die}' '{name}'\nexec python halves.py 5 2 '' '{name}'\n"
    flow.task("writer", ["/bin/sh", "-c", script], outports=out("out*.h5", publish))
    flow.task("reader", READ_HALVES, inports=[{"filename": "out*.h5", "flow": {"queue": 8}}])
    flow.run()
    assert flow.got() == [[0, 0], [5, 5], [6, 6]]
    assert f"'{name.format(1)}' was closed but not yet published when its program failed" in flow.log()


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_what_a_killed_program_of_a_script_has_left_can_be_finished(flow: Workflow) -> None:
    """By a program that opens it to add to it."""
    (flow.folder / "halves.py").write_text(HALVES)
    add = "import h5py; f = h5py.File('out.h5', 'a'); f['x'] = [int(f['y'][0]), 7]"
    script = f'python halves.py 0 2 "os.kill(os.getpid(), 9)" out.h5\nexec python -c "{add}"\n'
    flow.task("writer", ["/bin/sh", "-c", script], outports=out("out.h5", 2))
    flow.reader("out.h5")
    flow.run()
    assert flow.got() == [[0, 0], [1, 7]]


@pytest.mark.usual("os._exit(0)", "sys.exit(3)", also_between_hosts=["sys.exit(0)"])
@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)", "sys.exit(3)"])
def test_a_program_that_ends_by_itself_leaves_its_files_to_the_script(flow: Workflow, ending: str) -> None:
    """Whatever its exit code, and without exit handlers too."""
    (flow.folder / "halves.py").write_text(HALVES)
    script = f"python halves.py 0 2 '{ending}' 'out.h5'\nexec python halves.py 5 1 '' 'out.h5'\n"
    flow.task("writer", ["/bin/sh", "-c", script], outports=out("out*.h5", "next"))
    flow.task("reader", READ_HALVES, inports=[{"filename": "out*.h5", "flow": {"queue": 8}}])
    flow.run()
    assert (flow.folder / "got.txt").read_text().splitlines() == ["[0, 0]", "half", "[5, 5]"]


EXEC = ["execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "execveat", "fexecve"]
READ_BOTH = """
import os
for name in "first.h5", "second.h5":
    with open("got.txt", "a") as out:
        print(f'"{open(name).read()}"' if os.path.exists(name) else "0", file=out)
"""
"""Looks for the first once the second is there."""


def replaced(flow: Workflow, script: str) -> None:
    """Runs a script of C programs, and tells which of two files came from it."""
    flow.task("writer", ["/bin/sh", "-c", script], outports=out("*.h5", "next"))
    reader = f"{WAITS}\nwaits.until_published(0, 1)\nopen('second.h5').close()\n{READ_BOTH}"
    flow.task("reader", reader, inports=[{"filename": "*.h5", "flow": {"queue": 4}}])
    flow.run()


@pytest.mark.usual("execv", also_between_hosts=["execle", "execve"])
@pytest.mark.parametrize("call", EXEC)
@pytest.mark.needs("cc")
def test_a_program_whose_process_another_one_takes(flow: Workflow, call: str) -> None:
    """What it has closed is left to the other one, as at an end of its own, and published."""
    program = build("replaced.c", "cc", "-Wall", "-Werror")
    replaced(flow, f"exec {program} {call} {program}")
    assert flow.got() == ["first.h5", "second.h5"]
    assert "when its program failed" not in flow.log()


@pytest.mark.usual("execve", also_between_hosts=["execle", "execv"])
@pytest.mark.parametrize("call", EXEC)
@pytest.mark.needs("cc")
def test_a_program_whose_process_no_other_takes(flow: Workflow, call: str) -> None:
    """There is none of that name; the program is killed later, so that nobody gets what it was about to add to."""
    program = build("replaced.c", "cc", "-Wall", "-Werror")
    replaced(flow, f"{program} {call} /nowhere; exec {program} none")
    assert flow.got() == [0, "second.h5"]
    assert "'first.h5' was closed but not yet published when its program failed" in flow.log()


@pytest.mark.usual("vfork")
@pytest.mark.parametrize("call", ["fork", "vfork", "posix_spawn"])
@pytest.mark.needs("cc")
def test_a_program_that_starts_others(flow: Workflow, call: str) -> None:
    """Theirs are no ends of its own."""
    program = build("replaced.c", "cc", "-Wall", "-Werror")
    replaced(flow, f"{program} {call} /bin/true; exec {program} none")
    assert flow.got() == [0, "second.h5"]
    assert "'first.h5' was closed but not yet published when its program failed" in flow.log()


@pytest.mark.usual("os.kill(os.getpid(), 9)-2", also_between_hosts=["-3", "raise SystemExit(3)-2"])
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


@pytest.mark.nightly
@pytest.mark.also_between_hosts
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


@pytest.mark.usual("3-False", also_between_hosts=["4-True"])
@pytest.mark.parametrize(("count", "told"), [(3, False), (4, True)])
def test_a_count_of_closes_that_is_never_reached_is_told(flow: Workflow, count: int, told: bool) -> None:
    """The files come only when the program ends; without a word nobody would see why."""
    flow.task("writer", OPENPMD.replace("NAME", "'plt{step}.h5'"), outports=out("plt*.h5", count))
    flow.task("reader", "import h5py\nh5py.File('plt3.h5')\n", inports=[{"filename": "plt*.h5", "queue": 20}])
    ran = flow.run()
    assert flow.published("writer") == 4
    assert ("did not do with 4 files of 'plt*.h5'" in ran.out + ran.err) == told


LEAVES_OPEN = {
    "descriptors": """
import os
for number in range(6):
    file = os.open(f"s-{number}.h5", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(file, b"x" * 100)
""",
    "HDF5": """
import ctypes, h5py
files = [h5py.h5f.create(f"s-{number}.h5".encode()) for number in range(6)]
ctypes.CDLL(None).exit(0)
""",
}


@pytest.mark.usual(also_between_hosts=["descriptors", "HDF5"])
@pytest.mark.parametrize("kind", LEAVES_OPEN)
def test_files_left_open_to_the_end_are_published_in_the_order_in_which_they_were_begun(
    tmp_path: Path, kind: str, between_hosts: bool
) -> None:
    write_program(tmp_path / "write.py", LEAVES_OPEN[kind])
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {name: sim, func: ./write.py, outports: [{filename: 's-*.h5'}]}\n"
        "- {name: ana, func: cat, args: [s-5.h5], inports: [{filename: 's-*.h5', queue: 9}], rerun: never}\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.err
    latest = tmp_path / "wilkins-runs" / "latest"
    events = read_trace(latest / "hosts" / "h1" if between_hosts else latest)
    assert [one.name for one in events if one.event == "publish"] == [f"s-{number}.h5" for number in range(6)]
