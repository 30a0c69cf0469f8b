"""The reading side of steps: what the first open finds, and several opens of one step."""

from __future__ import annotations

import textwrap

import pytest

from support.running import WAITS, WILKINS, run_tree
from support.small_workflows import READ_ALL, Workflow

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


NUMBERED = """
import h5py
for k in range(3):
    OPENS
    h5py.File(f"a{k}.h5", "w").close()
"""
ANSWERS = """
import h5py
for k in range(3):
    h5py.File(f"a{k}.h5").close()
    h5py.File(f"b{k + OFF}.h5", "w").close()
"""
OPENS = """
    try:
        h5py.File(f"b{k}.h5").close()
    except FileNotFoundError:
        pass
"""
AGAIN = ": names fit a cycle if the answer to the first file has the name that sim asks for next"


@pytest.mark.parametrize(
    ("opens", "off", "told"),
    [
        (OPENS, 0, "; 'b1.h5', which it asks for now, is not there, but 'b0.h5' is" + AGAIN),
        pytest.param(
            OPENS + OPENS,
            1,
            ", and it opens that name again: if it opens the file several times for each step, give ",
            marks=pytest.mark.nightly,
        ),
        pytest.param(OPENS, 1, "", marks=pytest.mark.nightly),
    ],
)
def test_a_cycle_that_first_does_not_begin_says_what_it_covers(flow: Workflow, opens: str, off: int, told: str) -> None:
    """Numbers that are one off, or a file that is opened twice."""
    flow.task(
        "sim",
        NUMBERED.replace("OPENS", opens),
        inports=[{"filename": "b*.h5", "first": "missing"}],
        outports=[{"filename": "a*.h5"}],
        enough=True,
    )
    flow.task(
        "look",
        ANSWERS.replace("OFF", str(off)),
        inports=[{"filename": "a*.h5"}],
        outports=[{"filename": "b*.h5"}],
    )
    said = " ".join(flow.run(4 if told else 0).err.split())
    first = "`first:` of the in-port 'b*.h5' of sim answered its first open alone, of 'b0.h5'"
    assert (first in said) == bool(told) and f"{first}{told}" in said + first


def test_a_cycle_without_first_is_noted_before_the_run(flow: Workflow) -> None:
    """It may be right, so it is no mistake."""
    steering(flow, TRY)
    flow.save()
    checked = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert checked.code == 0
    note = (
        "note: the tasks sim, look form a cycle, and no in-port of it has `first:`; that is right if one of them writes"
    )
    assert note in " ".join(checked.err.split())
    assert "give 'steer.h5' of sim `first: missing`" in " ".join(checked.err.split())
    flow.tasks[0]["inports"] = [{"filename": "steer.h5", "first": "missing"}]
    flow.save()
    checked = run_tree([*WILKINS, "check", "workflow.yaml"], 30, flow.folder)
    assert checked.code == 0 and "cycle" not in checked.err


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
        WAITS
        import os, h5py
        waits.until_published(0, 1)
        assert not os.path.exists("a.h5") and not h5py.is_hdf5("a.h5") and "a.h5" not in os.listdir(".")
        try:
            h5py.File("a.h5")
            raise SystemExit("took a step")
        except FileNotFoundError:
            pass
        assert os.path.exists("a.h5") and "a.h5" in os.listdir(".")
        """.replace("WAITS", WAITS)
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


@pytest.mark.usual("2-names0", also_between_hosts=["3-names2"])
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
