"""`actions` of Python tasks: hooks written for Wilkins, and what they do to what is published."""

from __future__ import annotations

import textwrap

import pytest
from programs.build import build, serial_c

from support.running import WILKINS, run_tree
from support.small_workflows import Workflow

WRITER = """
import sys, h5py
for step in range(4):
    with h5py.File("out.h5", "w") as f:
        for k in range(4):
            f[f"x{k}"] = [step, k]
        f["x"] = [step]
"""


def with_actions(flow: Workflow, actions: str, writer: str = WRITER, pattern: str = "out.h5", **keys: object) -> None:
    """A writer with actions in a module beside it, and a reader."""
    (flow.folder / "hooks.py").write_text(textwrap.dedent(actions))
    flow.task("writer", writer, outports=[{"filename": pattern}], actions=["hooks", "act"], **keys)
    flow.reader(pattern, "out.h5")


def test_every_so_many_writes_are_served(flow: Workflow) -> None:
    """The example of Wilkins: count dataset writes, serve all at every second, and not at the close."""
    writer = """
    import h5py
    with h5py.File("out.h5", "w") as f:
        x = f.create_dataset("x", (0,), maxshape=(None,), dtype="i4", chunks=(4,))
        for i in range(7):
            x.resize((i + 1,))
            x[i] = i
    """
    actions = """
    def act(vol, rank):
        writes = 0
        def written():
            nonlocal writes
            writes += 1
            if writes % 2 == 0:
                vol.serve_all(True, True)
        vol.set_after_dataset_write(written)
        vol.serve_on_close = False
    """
    with_actions(flow, actions, writer)
    flow.run()
    assert flow.got() == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]


def test_every_second_close_is_served(flow: Workflow) -> None:
    """Closing publishes nothing until the actions say so; reopening then continues the file."""
    writer = """
    import h5py
    for step in range(3):
        with h5py.File("out.h5", "w") as f:
            f["y"] = [step]
        with h5py.File("out.h5", "r+") as f:
            f["x"] = [step, int(f["y"][0])]
    """
    actions = """
    closes = []
    def act(vol, rank):
        vol.serve_on_close = False
        def closed(name):
            assert name == "out.h5", name
            closes.append(name)
            if len(closes) % 2 == 0:
                vol.serve_all()
        vol.set_after_file_close(closed)
    """
    with_actions(flow, actions, writer)
    flow.run()
    assert flow.got() == [[step, step] for step in range(3)]


@pytest.mark.usual("out.h5")
@pytest.mark.parametrize("name", ["out.h5", "out-{step}.h5"])
def test_what_is_kept_back_is_not_published_at_the_next_name(flow: Workflow, name: str) -> None:
    """The actions say when, also where the port says `publish: next`."""
    (flow.folder / "hooks.py").write_text(
        textwrap.dedent("""
        closes = []
        def act(vol, rank):
            vol.serve_on_close = False
            def closed(name):
                closes.append(name)
                if len(closes) == 3:
                    vol.serve_all()
            vol.set_after_file_close(closed)
        """)
    )
    writer = WRITER.replace('"out.h5"', f'f"{name}"')
    port = {"filename": "out*.h5", "publish": "next"}
    flow.task("writer", writer, outports=[port], actions=["hooks", "act"])
    flow.task(
        "reader",
        """
        from wilkins.transport import steps
        import h5py
        for name in steps.names("out*.h5"):
            with h5py.File(name) as f, open("got.txt", "a") as out:
                print(f["x"][()].tolist(), file=out)
        """,
        inports=[{"filename": "out*.h5", "flow": {"queue": 8}}],
    )
    flow.run()
    assert flow.got() == ([[2]] if name == "out.h5" else [[0], [1], [2]])


def test_serving_before_a_close_publishes_by_that_close(flow: Workflow) -> None:
    """Whatever `serve_on_close` says."""
    actions = """
    def act(vol, rank):
        vol.serve_on_close = False
        count = 0
        def closing():
            nonlocal count
            count += 1
            if count != 2:
                vol.serve_all()
        vol.set_before_file_close(closing)
    """
    with_actions(flow, actions)
    flow.run()
    assert flow.got() == [[0], [2], [3]]


def test_kept_files_can_be_served_again(flow: Workflow) -> None:
    """With `set_keep(True)` a served file stays, until `clear_files`."""
    actions = """
    def act(vol, rank):
        vol.serve_on_close = False
        vol.set_keep(True)
        def closed():
            vol.serve_all()
            vol.serve_all()
            vol.clear_files()
            vol.serve_all()
        vol.set_after_file_close(closed)
    """
    with_actions(flow, actions)
    flow.run()
    assert flow.got() == [[step] for step in range(4) for _ in range(2)]


def test_all_hooks_are_called_in_order_with_their_names(flow: Workflow) -> None:
    """Files and datasets of ports only; a callback takes a name or nothing; `pl_con` is the in-ports by pattern."""
    writer = """
    import h5py
    with h5py.File("plain.h5", "w") as f:
        f["x"] = [0]
    with h5py.File("out.h5", "w") as f:
        f.create_dataset("x", (1,), "i4")[:] = 1
    with h5py.File("out.h5") as f:
        pass
    """
    actions = """
    def act(vol, rank, pl_con):
        told = open("told.txt", "w", buffering=1)
        print(rank, pl_con, vol.serve_on_close, file=told)
        print(vol.is_passthru("plain.h5", "/x"), vol.is_passthru("out.h5", "/x"), file=told)
        for event in ("before_file_open", "after_file_open", "before_file_close", "after_file_close"):
            getattr(vol, "set_" + event)(lambda name, event=event: print(event, name, file=told))
        vol.set_before_dataset_write(lambda: print("before", file=told))
        vol.set_after_dataset_write(lambda path: print("after", path, file=told))
        vol.broadcast_files()
        vol.broadcast_files()
        vol.set_passthru("*", "*")
    """
    with_actions(flow, actions, writer)
    flow.run()
    assert (flow.folder / "told.txt").read_text().splitlines() == [
        "0 {} True",
        "True False",
        "before",
        "after /x",
        "before_file_close out.h5",
        "after_file_close out.h5",
        "before_file_open out.h5",
        "after_file_open out.h5",
        "before_file_close out.h5",
        "after_file_close out.h5",
    ]
    assert flow.log().count("note: broadcast_files") == 1 and "set_passthru" in flow.log()


def test_a_consumer_asks_for_names(flow: Workflow) -> None:
    """`get_filenames` waits for the next step's name; its list is empty at the end of the stream."""
    flow.task(
        "writer",
        "import h5py\nfor i in range(3):\n    with h5py.File(f'plt{i}.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "plt*.h5"}],
    )
    (flow.folder / "hooks.py").write_text("def act(*given):\n    global vol, patterns\n    vol, _, patterns = given\n")
    flow.task(
        "reader",
        """
        import h5py, hooks
        assert hooks.patterns == {"plt*.h5": 0}
        while names := hooks.vol.get_filenames(0):
            with h5py.File(names[0]) as f, open("got.txt", "a") as out:
                print(f["x"][()].tolist(), file=out)
            hooks.vol.send_done(0)
        """,
        inports=[{"filename": "plt*.h5"}],
        actions=["hooks", "act"],
    )
    flow.run()
    assert flow.got() == [[0], [1], [2]]


def test_the_program_is_its_own(flow: Workflow) -> None:
    """Arguments, `__main__`, the environment of its children and its exit code are as without actions."""
    writer = """
    import os, subprocess, sys
    assert sys.argv[1:] == ["a", "b c"] and sys.argv[0].endswith("writer.py"), sys.argv
    assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals() and __file__.endswith("writer.py")
    assert sys.path[0] == os.path.dirname(os.path.abspath(__file__)) and not any("startup" in p for p in sys.path)
    assert "WILKINS_ACTIONS" not in os.environ and "startup" not in os.environ.get("PYTHONPATH", "")
    ask = "import sys; print('hooks' in sys.modules)"
    child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    assert child.stdout == "False\\n", child
    import hooks
    assert hooks.called == 1
    """
    actions = """
    called = 0
    def act(vol, rank):
        global called
        called += 1
    """
    with_actions(flow, actions, writer + textwrap.indent(WRITER, "    "))
    flow.tasks[0]["args"] = ["a", "b c"]
    flow.run()
    assert flow.got() == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("def act(vol, rank):\n    vol.set_after_file_close(lambda: 1 + 'a')\n", "TypeError: unsupported operand"),
        ("def act(vol, rank):\n    return len(5)\n", "TypeError: object of type 'int' has no len()"),
        ("def act(a, b, c, d):\n    pass\n", "act needs more than 3 arguments"),
        ("def act(vol, rank):\n    vol.set_after_file_close(lambda a, b: 0)\n", "needs more than 1 arg"),
        ("def other():\n    pass\n", "has no function 'act'"),
        ("import no_such_module\n", "No module named 'no_such_module'"),
        ("def act(vol, rank):\n    vol.set_before_file_open(lambda: 0)\n    raise SystemExit('enough')\n", "enough"),
    ],
)
def test_an_error_in_actions_is_told_once_and_fails_the_task(flow: Workflow, actions: str, told: str) -> None:
    """With the user's own traceback; nothing is called a second time."""
    with_actions(flow, actions)
    ran = flow.run(1)
    log = (flow.folder / "wilkins-runs" / "latest" / "writer.log").read_text()
    assert log.count(told) == 1, log
    assert "transport/actions.py" not in log.replace("_called", ""), ran.err


def test_actions_of_another_program_name_publish(flow: Workflow) -> None:
    """A C program has no Python to hook into: an error with its place."""
    flow.task("writer", ["/bin/sh"], outports=[{"filename": "out.h5"}], actions=["hooks", "act"])
    flow.reader("out.h5")
    flow.save()
    ran = run_tree([*WILKINS, "check", "workflow.yaml"], 60, flow.folder)
    assert ran.code == 2
    assert "publish" in ran.out + ran.err and "workflow.yaml:" in ran.out + ran.err


@pytest.mark.usual("beside the file")
@pytest.mark.parametrize("place", [".", "copied", None], ids=["beside the file", "on PYTHONPATH", "not copied"])
def test_the_originals_passthru_actions_run_unchanged(
    flow: Workflow, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    """Files on disk, under a policy: a module whose name has a hyphen, which imports from `wilkins.utils`."""
    if place:
        (flow.folder / place).mkdir(exist_ok=True)
        (flow.folder / place / "passthru-actions.py").write_text(
            "from wilkins.utils import setup_passthru_callbacks\n\ndef prod_callback(vol, rank):\n"
            '    setup_passthru_callbacks(vol, "producer")\n\ndef con_callback(vol, rank, pl_con):\n'
            '    assert pl_con == {"out-*.h5": 0}\n    setup_passthru_callbacks(vol, "consumer", pl_con)\n'
        )
        monkeypatch.setenv("PYTHONPATH", str(flow.folder / place))
    dsets = [{"name": "*", "passthru": 1, "metadata": 0}]
    port = {"filename": "out-*.h5", "dsets": dsets}
    writer = WRITER.replace('"out.h5"', 'f"out-{step}.h5"')
    flow.task("writer", writer, outports=[port], actions=["passthru-actions", "prod_callback"])
    reader = """
    import sys, h5py
    with h5py.File(sys.argv[1]) as f, open("got.txt", "a") as out:
        print(f["x"][()].tolist(), file=out)
    """
    flow.task("reader", reader, inports=[port | {"io_freq": 2}], actions=["passthru-actions", "con_callback"])
    flow.tasks[1]["args"] = ["{filename}"]
    ran = flow.run()
    assert flow.got() == [[1], [3]]
    assert sorted(path.name for path in flow.folder.glob("*.h5")) == [f"out-{step}.h5" for step in range(4)]
    assert ran.err.count("is accepted and not used") == (0 if place else 2)


@pytest.mark.parametrize("missing", [True, False])
def test_actions_are_found_beside_the_workflow_file(flow: Workflow, missing: bool) -> None:
    """Also where the program runs, and lies, elsewhere; if they are not there, the folders are named."""
    (flow.folder / "run").mkdir()
    program = f"import h5py\nwith h5py.File({str(flow.folder / 'out.h5')!r}, 'w') as f:\n    f['x'] = [0]\n"
    (flow.folder / "run" / "writer.py").write_text(program)
    if not missing:
        (flow.folder / "my-hooks.py").write_text("def act(vol, rank):\n    open('acted', 'w').close()\n")
    ports = [{"filename": "out.h5"}]
    flow.task("writer", ["run/writer.py"], cwd="run", outports=ports, actions=["my-hooks.py", "act"])
    flow.reader("out.h5")
    flow.run(int(missing))
    assert (flow.folder / "run" / "acted").exists() == (not missing)
    if missing:
        log = (flow.folder / "wilkins-runs" / "latest" / "writer.log").read_text()
        assert f"there is no module 'my-hooks' in {flow.folder}/run, {flow.folder} or on PYTHONPATH" in log


@pytest.mark.needs("h5cc")
def test_a_c_program_with_the_originals_passthru_callbacks(flow: Workflow) -> None:
    """No Python runs in it: it exchanges files on disk, and the run notes that its callbacks are not used."""
    program = build("stream.c", *serial_c(static=False))
    port = {"filename": "out.h5", "passthru": 1}
    written = {"outports": [port], "actions": ["passthru-actions", "prod_callback"]}
    read = {"inports": [port], "actions": ["passthru-actions", "con_callback"]}
    flow.task("writer", [program, "write", "out.h5", "4", "w"], **written)
    flow.task("reader", [program, "read", "out.h5"], **read)
    ran = flow.run()
    assert ran.err.count("is accepted and not used") == 2
    assert (flow.folder / "out.h5").exists()
    log = (flow.folder / "wilkins-runs" / "latest" / "reader.log").read_text()
    assert [line for line in log.splitlines() if line.startswith("got")] == [f"got w {step}" for step in range(4)]


@pytest.mark.needs("python:mpi4py", "mpiexec")
def test_actions_of_an_mpi_program(flow: Workflow) -> None:
    """Every rank has its hooks, and serves its own files."""
    writer = """
    import h5py
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.rank
    for step in range(3):
        for half in range(2):
            with h5py.File(f"out-{rank}.h5", "a" if half else "w") as f:
                f[f"part{half}"] = [rank, step]
    """
    actions = """
    def act(vol, rank):
        vol.serve_on_close = False
        count = 0
        def closed(name):
            nonlocal count
            assert name == f"out-{rank}.h5"
            count += 1
            if count % 2 == 0:
                vol.serve_all(True, True)
        vol.set_after_file_close(closed)
    """
    (flow.folder / "hooks.py").write_text(textwrap.dedent(actions))
    flow.task("writer", writer, nprocs=2, outports=[{"filename": "out-*.h5"}], actions=["hooks", "act"])
    flow.task(
        "reader",
        """
        import h5py
        for step in range(3):
            for rank in range(2):
                with h5py.File(f"out-{rank}.h5") as f, open("got.txt", "a") as out:
                    print([*f["part0"][()].tolist(), *f["part1"][()].tolist()], file=out)
        """,
        inports=[{"filename": "out-*.h5"}],
    )
    flow.run()
    assert flow.got() == [[rank, step, rank, step] for step in range(3) for rank in range(2)]
