"""Processes die, or are late, at every named point of the store: the others go on; no step is torn, lost or doubled.

The points are those of the library (`fault_points`); for each, SCENES says which program of which workflow gets there.
A point that is not reached fails its test.
"""

from __future__ import annotations

import inspect
import os
import random
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import pytest

from support.hooks import fault_points, faults
from support.running import MPIEXEC, WILKINS, Finished, processes_in, run_tree, started_tree, wait_for, write_program
from wilkins.flow.trace import Event, read_trace

pytestmark = pytest.mark.needs("hooks")

LIMIT = 40.0
STEPS = 6


def content(number: int) -> bytes:
    """What the step of this number holds."""
    return number.to_bytes(8, "little") + random.Random(number).randbytes(130_000 + 1000 * (number % 7))


COMMON = "import os, random, sys, time\n" + inspect.getsource(content)

WRITE = (
    COMMON
    + """
open("run-folder", "w").write(os.environ["WILKINS_RUN"])
how, first, steps, pause = sys.argv[1], *map(float, sys.argv[2:])
for other in range(60 if how == "crowd" else 0):
    open(f"{other * other}-{random.Random(other).random()}.h5", "w").close()
for number in range(int(first), int(first + steps)):
    name = f"tmp-{number}.h5" if how in ("rename", "crowd", "move", "turn") else "out.h5"
    data = content(number)
    if how == "flush":
        import h5py
        with h5py.File(name, "w") as file:
            file["x"] = bytearray(data)
            file.flush()
        continue
    if how == "left":
        if child := os.fork():
            os.waitpid(child, 0)
            continue
        import h5py
        file = h5py.File(name, "w")
        file["x"] = bytearray(data)
        file.flush()
        os._exit(0)
    file = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    if how == "large":
        os.ftruncate(file, 4 << 20)
    os.write(file, data[:50_000])
    if how == "turn":
        os.makedirs("moved", exist_ok=True)
        os.rename(name, f"moved/out-{number}.h5")
    if how in ("reopen", "move"):
        os.close(file)
        if how == "move":
            os.makedirs("moved", exist_ok=True)
            os.rename(name, f"moved/out-{number}.h5")
            name = f"moved/out-{number}.h5"
        file = os.open(name, os.O_RDWR)
        os.lseek(file, 50_000, os.SEEK_SET)
    os.write(file, data[50_000:])
    os.close(file)
    if how in ("rename", "crowd"):
        os.rename(name, f"out-{number}.h5")
    if how == "remove":
        os.unlink(name)
    time.sleep(pause)
"""
)

WRITE_TOGETHER = (
    COMMON
    + """
from mpi4py import MPI
open("run-folder", "w").write(os.environ["WILKINS_RUN"])
rank = MPI.COMM_WORLD.rank
for number in range(int(sys.argv[1])):
    data = content(number)
    half = len(data) // 2
    file = MPI.File.Open(MPI.COMM_WORLD, "out.h5", MPI.MODE_CREATE | MPI.MODE_WRONLY)
    file.Set_size(len(data))
    file.Write_at_all(rank * half, data[half:] if rank else data[:half])
    file.Close()
"""
)

READ = (
    COMMON
    + """
how, pause = sys.argv[1], float(sys.argv[2])
found = 0

def crowd(name):
    # Programs keep eight steps each in the places of their rank: five of them and this one need more than there are.
    came, goes = os.pipe(), os.pipe()
    for _ in range(5):
        if os.fork() == 0:
            os.close(goes[1])
            for _ in range(8):
                os.open(name, os.O_RDONLY)
            os.write(came[1], b".")
            os.read(goes[0], 1)
            os._exit(0)
    for _ in range(5):
        os.read(came[0], 1)
    others = [os.open(name, os.O_RDONLY) for _ in range(10)]
    os.close(goes[1])
    for _ in range(5):
        os.wait()
    return [*others, *came, goes[0]]

while True:
    folder = "moved/" if how == "move" else ""
    name = f"{folder}out-{found}.h5" if how in ("rename", "crowd", "move") else "out.h5"
    try:
        file = os.open(name, os.O_RDWR if how == "update" else os.O_RDONLY)
    except FileNotFoundError:
        break
    others = crowd(name) if how == "crowd" else []
    data = os.read(file, 1 << 20)
    if os.fstat(file).st_size == 4 << 20:
        length = len(content(int.from_bytes(data[:8], "little")))
        data = data[:length] if data.count(0, length) == len(data) - length else b""
    if data.startswith(b"\\x89HDF"):
        import h5py, io
        data = h5py.File(io.BytesIO(data))["x"][:].astype("u1").tobytes()
    number = int.from_bytes(data[:8], "little")
    print("got", number, "whole" if data == content(number) else "TORN", flush=True)
    if how == "update":
        os.pwrite(file, b"mine", 0)
    for handle in (file, *others):
        os.close(handle)
    if how == "let go":
        os.unlink(name)
    found += 1
    time.sleep(pause)
"""
)


@dataclass(frozen=True, slots=True)
class Scene:
    """A workflow and the task in it that dies."""

    victim: str
    writes: str = "plain"
    reads: str = "plain"
    write_pause: float = 0.0
    read_pause: float = 0.0
    outport: str = "filename: out.h5"
    inport: str = "filename: out.h5, flow: {queue: 1}"
    arrival: int = 2
    """At the point, when it dies."""
    per_step: int = 1
    """Arrivals there."""
    every: int = 1
    publishes: bool = True
    restart: str = ""
    """What the producer says that it can be restarted from."""
    expected: str = ""
    """Bytes of a step, for which memory is made ready before there is one; it need not come to so many."""
    goes_on: bool = True
    """Can another program of the task take over where one died?"""


SIM = Scene("sim")
LOOK = Scene("look")
SLOW_LOOK = Scene("sim", read_pause=0.01)
SHORT = Scene(
    "sim", outport="filename: out.h5, memory: 400KiB", inport="filename: out.h5, flow: {queue: 4}", read_pause=0.01
)
TIGHT = Scene("sim", outport="filename: out.h5, memory: 200KiB")
FILE = Scene("sim", outport="filename: out.h5, mode: file")
BOTH = Scene("sim", outport="filename: out.h5, mode: both")
RENAME = Scene("sim", "rename", "rename", outport="filename: '*.h5'", inport="filename: 'out-*.h5'", goes_on=False)
CROWD = replace(RENAME, writes="crowd", reads="crowd", arrival=1)
MOVE = replace(RENAME, writes="move", reads="move", outport="filename: '*.h5', publish: 2, mode: file")
TURN = replace(MOVE, writes="turn", outport="filename: '*.h5', mode: file")
TOGETHER = Scene("sim", "together", goes_on=False)
LAUNCHER = Scene("launcher", goes_on=False)
LEFT = Scene("sim", "left", arrival=1, goes_on=False)

RENAMES = ("rename", "crowd", "move", "turn")

SCENES: dict[str, tuple[Scene, ...]] = {
    "account": (TIGHT,),
    "adopt": (Scene("sim", expected="4MiB", arrival=1), Scene("sim", "large", expected="4MiB", read_pause=0.01)),
    "annex": (CROWD,),
    "aside": (),  # who keeps many steps in view gets there (tests/steps/test_views.py)
    "attach": (TOGETHER,),
    "circle": (),  # whoever waits gets there first (`test_a_process_dies_as_it_ends_a_circle`)
    "clear": (SIM,),
    "close": (SIM,),
    "close.before-free": (SIM, LOOK),
    "close.peer": (TOGETHER,),
    "close.reader": (LOOK,),
    "complete": (SIM,),
    "create": (SIM,),
    "disk": (FILE, BOTH),
    "disk.file-linked": (FILE,),
    "disk.file-named": (FILE,),
    "disk.image-named": (BOTH,),
    "disk.image-opened": (BOTH,),
    "disk.image-written": (BOTH,),
    "disk.kept": (replace(FILE, restart="files: out.h5, keep: 1"), replace(BOTH, restart="files: out.h5")),
    "disk.moved": (MOVE, replace(MOVE, outport=MOVE.outport.replace("mode: file", "mode: both"))),
    "disk.moved-hidden": (MOVE,),
    "disk.turning": (replace(MOVE, arrival=3, per_step=2), replace(MOVE, arrival=4, per_step=2)),
    "drop": (LOOK,),
    "exit": (LAUNCHER,),
    "exit.aligned": (Scene("launcher", arrival=1, goes_on=False),),
    "exit.before-ring": (Scene("launcher", arrival=1, goes_on=False),),
    "hold": (LOOK,),
    "hold.room": (replace(CROWD, victim="look"),),
    "leave": (TOGETHER,),
    "lease": (),  # who closes what others may write gets there (tests/steps/test_joint_writers.py)
    "left-open": (LEFT, replace(LEFT, outport=FILE.outport), replace(LEFT, outport=BOTH.outport)),
    "let-go": (Scene("look", reads="let go"),),
    "memory": (SHORT,),
    "names": (replace(RENAME, per_step=4),),
    "names.table": (CROWD,),
    "open": (LOOK,),
    "open.mapped": (LOOK, Scene("look", outport=TIGHT.outport)),
    "stage": (),  # who passes on what it reads gets there (tests/steps/test_stages.py)
    "own": (),  # who changes what it reads gets there (tests/steps/test_annotations.py)
    "publish": (SIM,),
    "publish.dropped": (SLOW_LOOK,),
    "publish.offered": (Scene("sim", inport="filename: out.h5, flow: {every: 2, queue: 1}", every=2),),
    "publish.again": (),  # a task that is started again gets there (`test_a_process_dies_as_it_makes_steps_again`)
    "reclaim": (SHORT,),
    "reclaim.forgotten": (),  # a full disk gets there (tests/faults/test_stalled_disk.py)
    "remove": (Scene("sim", "remove"),),
    "rename": (RENAME,),
    "rename.claimed": (MOVE, replace(MOVE, outport=MOVE.outport.replace("mode: file", "mode: both"))),
    "rename.noted": (MOVE,),
    "rename.turned": (TURN, replace(TURN, outport=TURN.outport.replace("mode: file", "mode: both"))),
    "closed.empty": (CROWD,),
    "closed": (Scene("sim", "reopen", outport="filename: out.h5, publish: 2"),),
    "closed.turning": (Scene("sim", outport="filename: out.h5, publish: next"),),
    "reserve": (SIM,),
    "snapshot": (Scene("sim", "flush", outport="filename: out.h5, publish: flush"),),
    "start": (LAUNCHER,),
    "take": (LOOK,),
    # (Others write for it, too, unless they sleep.)
    "trace": (replace(SIM, restart="files: state.h5", arrival=1, write_pause=0.02),),
    "trim": (SIM,),
    "withdraw": (Scene("sim", "remove", outport="filename: out.h5, publish: next", publishes=False),),
    "wait": (SLOW_LOOK, Scene("look", write_pause=0.02)),
}
WAYS = ("another goes on", "the others go on", "the run stops")


def workflow(folder: Path, scene: Scene, way: str) -> None:
    """`sim` streams to `look`, which is to get every step, and to `last`, which is to get the newest."""
    for name, text in {"write.py": WRITE, "together.py": WRITE_TOGETHER, "read.py": READ}.items():
        write_program(folder / name, "#!/usr/bin/env python3\n" + text)
    write = f"./write.py {scene.writes}"
    tasks = {
        "sim": (f"{write} 0 {STEPS} {scene.write_pause}", f"{write} 100 {STEPS} {scene.write_pause}"),
        "look": (f"./read.py '{scene.reads}' {scene.read_pause}",) * 2,
        "last": ("./read.py plain 0.03",) * 2,
    }
    ports = {
        "sim": f"outports: [{{{scene.outport}}}]",
        "look": f"inports: [{{{scene.inport}}}]",
        "last": "inports: [{filename: out.h5, flow: latest}]",
    }
    lines = ["tasks:"]
    for name, (words, again) in tasks.items():
        if name == "last" and scene.writes in RENAMES:
            continue
        dies = name == scene.victim
        options = ", on_failure: continue" if dies and way == "the others go on" else ""
        if name == "sim" and scene.restart:
            options += f", restart: {{{scene.restart}}}"
        if name == "sim" and scene.expected:
            options += f", model: {{size: {scene.expected}}}"
        if dies and way == "another goes on":
            words = f"{words}; unset WILKINS_FAULTS; exec {again}"
        if name == "sim" and scene.writes == "together":
            command = f"func: ./together.py, args: ['{STEPS}'], nprocs: 2, mpiexec: {MPIEXEC}"
        else:
            command = f'func: /bin/sh, args: [-c, "{words}"]' if ";" in words else _command(words)
        lines.append(f"- {{name: {name}, {command}, {ports[name]}{options}}}")
    (folder / "workflow.yaml").write_text("\n".join(lines) + "\n")


def _command(words: str) -> str:
    program, _, arguments = words.partition(" ")
    return f'func: /bin/sh, args: [-c, "exec {program} {arguments}"]'


def run(folder: Path, what: str, *before: str) -> Finished:
    """Run the folder's workflow (under an mpiexec) and check that nothing is left of it."""
    ran = run_tree([*before, *WILKINS, "run", "workflow.yaml"], LIMIT, folder, faults(what))
    assert "Traceback" not in ran.err, ran.err
    assert not processes_in(folder)
    note = folder / "run-folder"
    assert not (note.is_file() and Path(note.read_text()).exists())
    assert not list(folder.rglob(".wilkins-*"))
    _check_disk(folder)
    return ran


def _check_disk(folder: Path) -> None:
    """What lies there is whole; of a file that its program was to add to, perhaps only the first part."""
    for path in folder.rglob("*.h5"):
        data = path.read_bytes()
        if data.startswith(b"\x89HDF"):
            with h5py.File(path) as file:
                data = file["x"][:].astype("u1").tobytes()
        whole = content(int.from_bytes(data[:8], "little"))
        assert data == whole or data == whole[:50_000], path


def got(folder: Path, task: str) -> list[int]:
    """The steps that a task has read, each of them whole."""
    said = (folder / "wilkins-runs" / "latest" / f"{task}.log").read_text()
    lines = said[: said.rfind("\n") + 1].splitlines()  # a task that was killed may have begun another
    read = [line.split() for line in lines if line.startswith("got")]
    assert all(words[2] == "whole" for words in read), read
    return [int(words[1]) for words in read]


def published(events: list[Event]) -> int:
    """How many steps were published, by the trace."""
    steps = [event.sequence for event in events if event.event == "publish"]
    assert steps == list(range(len(steps)))
    return len(steps)


FIRST_SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))


def seeds() -> list[Any]:
    """Given by WILKINS_TEST_SEED (`make soak` gives each round one), else one, and two more every night."""
    more = () if "WILKINS_TEST_SEED" in os.environ else (FIRST_SEED + 1, FIRST_SEED + 2)
    return [FIRST_SEED, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in more)]


def cases() -> list[Any]:
    """Every point, with each scene that reaches it and, by turns, what happens then; nightly, but one per prefix."""
    found = []
    shown = set()
    for turn, point in enumerate(fault_points(), start=FIRST_SEED):
        for number, scene in enumerate(SCENES.get(point, SCENES.get(point.partition(".")[0], ()))):
            if scene.victim == "launcher":
                continue
            ways = dict.fromkeys([WAYS[0] if scene.goes_on else WAYS[1], WAYS[1 + turn % 2]])
            for way in ways:
                prefix = point.partition(".")[0]
                marks = [pytest.mark.nightly] if prefix in shown else []
                shown.add(prefix)
                case = f"{point}-{number}-{way}".replace(" ", "-")
                found.append(pytest.param(point, scene, way, id=case, marks=marks))
    return found


def test_every_point_has_a_scene() -> None:
    without = [point for point in fault_points() if not (SCENES.keys() & {point, point.partition(".")[0]})]
    assert not without, "say in SCENES which program gets there"


@pytest.mark.parametrize(("point", "scene", "way"), cases())
def test_a_process_dies(tmp_path: Path, point: str, scene: Scene, way: str) -> None:
    workflow(tmp_path, scene, way)
    ran = run(tmp_path, f"task={scene.victim},kill={point}:{scene.arrival}")
    killed = ran.err + ran.out
    if way == "another goes on":
        killed += (tmp_path / "wilkins-runs" / "latest" / f"{scene.victim}.log").read_text()
        assert ran.code == 0, ran.err
        assert "Killed" in killed, f"{point} was not reached"
    else:
        assert ran.code == 1, ran.err
        assert "SIGKILL" in killed or "signal 9" in killed or "KILLED" in killed, f"{point} was not reached: {killed}"
    if way == "the run stops":
        got(tmp_path, "look")
        return
    events = read_trace(tmp_path / "wilkins-runs" / "latest")
    steps = published(events)
    look = got(tmp_path, "look")
    if scene.writes in RENAMES:  # of a step that is being renamed, nothing may be left
        assert look == list(range(len(look))) and len(look) >= (scene.arrival - 1) // scene.per_step
        return
    if not scene.publishes:  # but for the file that its program was about to remove, perhaps
        assert len(look) == steps <= 1
        return
    after = list(range(100, 100 + STEPS)) if scene.victim == "sim" and way == WAYS[0] else []
    written = [*range(steps - len(after)), *after]
    if scene.victim == "sim":
        assert look == written[:: scene.every]
    else:
        assert written == list(range(STEPS))
        assert look == sorted(set(look))
        # The step that the dead one had just opened is one it has had.
        assert way != WAYS[0] or len(set(written) - set(look)) <= 1
    last = got(tmp_path, "last")
    assert [step for step in written if step in last] == last
    assert last[-1:] == written[-1:]


WRITE_ALL = """
for number in range(8):
    with open(f"s-{number}", "w") as file:
        file.write(f"{number}" * 50_000)
print("wrote all")
"""
READ_BACKWARDS = """
for number in range(7, -1, -1):
    try:
        text = open(f"s-{number}").read()
    except FileNotFoundError:
        print("missing", number, flush=True)
    else:
        print("got", number, "whole" if text == f"{number}" * 50_000 else "TORN", flush=True)
print("read all")
"""


@pytest.mark.parametrize(("point", "reorder"), [("circle.stretched", 16), ("circle.let-go", 3)])
def test_a_process_dies_as_it_ends_a_circle(tmp_path: Path, point: str, reorder: int) -> None:
    """Writer or reader, whichever of the two that wait for each other is first: the other one comes to its end."""
    write_program(tmp_path / "write.py", WRITE_ALL)
    write_program(tmp_path / "read.py", READ_BACKWARDS)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "- {name: sim, func: ./write.py, outports: [{filename: 's-*'}], on_failure: continue}\n"
        f"- {{name: look, func: ./read.py, inports: [{{filename: 's-*', reorder: {reorder}}}], on_failure: continue}}\n"
    )
    ran = run(tmp_path, f"kill={point}:1")
    assert ran.code == 1 and "SIGKILL" in ran.err, f"{point} was not reached: {ran.err}"
    done = [line for line in ran.out.splitlines() if line.endswith((" wrote all", " read all"))]
    assert len(done) == 1, ran.out
    events = read_trace(tmp_path / "wilkins-runs" / "latest")
    steps = {event.name for event in events if event.event == "publish"}
    if done[0].endswith("wrote all"):
        assert len(steps) == 8
        return
    read = [f"s-{number}" for number in got(tmp_path, "look")]
    left = steps - set(read) - {event.name for event in events if event.event == "drop"}
    assert read == sorted(read, reverse=True)
    assert len(left) <= (point == "circle.let-go") and all(f"'{name}'" in ran.err for name in left), ran.err


WRITE_AGAIN = """
import os
starts = len(open("starts").read().split())
for number in range(8):
    if starts == 1 and number == 4:
        os.kill(os.getpid(), 9)
    with open(f"s-{number}", "w") as file:
        file.write(f"{number}" * 50_000)
"""
READ_ALL = """
for number in range(8):
    with open(f"s-{number}") as file:
        print("got", number, "whole" if file.read() == f"{number}" * 50_000 else "TORN", flush=True)
"""


def test_a_process_dies_as_it_makes_steps_again(tmp_path: Path) -> None:
    """It is started again, at first with half of its steps published, then at one of these."""
    write_program(tmp_path / "write.py", "#!/usr/bin/env python3\n" + WRITE_AGAIN)
    write_program(tmp_path / "read.py", READ_ALL)
    words = "echo x >> starts; grep -c x starts | grep -q 3 && unset WILKINS_FAULTS; exec ./write.py"
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        f"- {{name: sim, func: /bin/sh, args: [-c, '{words}'], outports: [{{filename: 's-*'}}],"
        " on_failure: restart, retry_delay: 10ms}\n"
        "- {name: look, func: ./read.py, inports: [{filename: 's-*'}]}\n"
    )
    ran = run(tmp_path, "task=sim,kill=publish.again:2")
    assert ran.code == 0, ran.err
    assert (tmp_path / "starts").read_text().split() == ["x"] * 3, ran.err
    assert got(tmp_path, "look") == list(range(8))


@pytest.mark.parametrize("point", [point for point in fault_points() if point.startswith(("start.", "exit."))])
def test_the_launcher_dies(tmp_path: Path, point: str) -> None:
    scene = SCENES.get(point, SCENES[point.partition(".")[0]])[0]
    workflow(tmp_path, scene, "the run stops")
    env = faults(f"task=launcher,kill={point}:{scene.arrival}")
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path, env) as tree:
        assert tree.wait(LIMIT).code == -signal.SIGKILL, f"{point} was not reached"
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all processes")
    note = tmp_path / "run-folder"
    if note.is_file():
        folder = Path(note.read_text())
        run_tree([*WILKINS, "clean"], 30, tmp_path)
        wait_for(lambda: not folder.exists(), 10, "the end of the run's shared memory")


LATE = {
    "stream": SIM,
    "slow reader": SLOW_LOOK,
    "short of memory": SHORT,
    "rename": RENAME,
    "mode file": FILE,
    "mode both": BOTH,
    "move": MOVE,
    "MPI-IO": TOGETHER,
    "let go": Scene("-", reads="let go"),
    "update": Scene("-", reads="update"),
    "remove": Scene("-", "remove"),
    "n-th close": SCENES["closed"][0],
    "next name": SCENES["closed.turning"][0],
    "flush": SCENES["snapshot"][0],
    "one job": SIM,
}


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("name", LATE)
def test_all_are_late(tmp_path: Path, name: str, seed: int) -> None:
    """Every process, the launcher included, is held up at random: the steps are those of an undisturbed run."""
    print(f"WILKINS_FAULTS=seed={seed},delay=2ms,chance=0.3")
    scene = LATE[name]
    workflow(tmp_path, scene, "the run stops")
    before = (MPIEXEC, "-n", "3") if name == "one job" else ()
    ran = run(tmp_path, f"seed={seed},delay=2ms,chance=0.3", *before)
    assert ran.code == 0, ran.err
    assert got(tmp_path, "look") == list(range(STEPS))
    if scene.writes not in RENAMES:
        last = got(tmp_path, "last")
        assert last == sorted(set(last)) and last[-1] == STEPS - 1
