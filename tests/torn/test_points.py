"""Real programs die at every named point of the layer: nobody ever sees a step that is not whole, and the run ends.

With `WILKINS_TEST_KILLS` (`make soak`) programs of every kind die there, at several arrivals; else one, by turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from torn.cases import Case, Reader, kill_at_point, kinds_here

from support.hooks import fault_points

pytestmark = pytest.mark.needs("hooks")

FULL = "WILKINS_TEST_KILLS" in os.environ
AT_ONCE = 3
BATCH = 9
SERIAL = ("h5py", "static", "shared", "netcdf4", "channel")
PARALLEL = ("mpich", "openmpi", "mpich-static")
ONE_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Scene:
    """Which programs get to a point, who of them dies, and when."""

    kinds: tuple[str, ...] = SERIAL + PARALLEL
    """Of the one that dies."""
    victim: str = "sim"
    how: str = "close"
    port: dict[str, Any] = field(default_factory=dict)
    flow: Any = field(default_factory=lambda: {"queue": 2})
    updates: bool = False
    arrivals: tuple[int, ...] = (2, 1, 3)
    rank: int = 0
    steps: int = 6
    write_pause: float = 0.0
    read_pause: float = 0.0


WRITER, READER = Scene(), Scene(victim="look0")
BY_NAME = replace(READER, kinds=tuple(kind for kind in READER.kinds if kind != "channel"))
IN_PYTHON = Scene(("h5py",))
SHORT = replace(WRITER, port={"memory": 5 * ONE_MEBIBYTE}, flow={"queue": 8}, kinds=SERIAL, read_pause=0.05)
FILE, BOTH = replace(WRITER, port={"mode": "file"}), replace(WRITER, port={"mode": "both"})
RENAME = replace(IN_PYTHON, how="rename")
REST = ("h5py", "static", "shared", *PARALLEL)
LAUNCHER = replace(WRITER, victim="launcher")

SCENES: dict[str, tuple[Scene, ...]] = {
    "account": (WRITER,),
    "attach": (replace(WRITER, kinds=PARALLEL, rank=1),),
    "clear": (WRITER,),
    "close": (WRITER,),
    "close.before-free": (WRITER, READER),
    "close.peer": (replace(WRITER, kinds=PARALLEL, rank=1),),
    "close.reader": (READER,),
    "complete": (WRITER,),
    "copy": (replace(IN_PYTHON, victim="look0", updates=True),),
    "create": (WRITER,),
    "disk": (FILE, BOTH),
    "disk.file-linked": (FILE,),
    "disk.file-named": (FILE,),
    "disk.image-named": (BOTH,),
    "disk.image-opened": (BOTH,),
    "disk.image-written": (BOTH,),
    "drop": (READER,),
    "exit": (replace(LAUNCHER, arrivals=(1,)),),
    "hold": (READER,),
    "leave": (replace(WRITER, kinds=PARALLEL, arrivals=(1,)),),
    "memory": (SHORT,),
    "open": (READER,),
    "open.found": (BY_NAME,),
    "open.held": (BY_NAME,),
    "open.taken": (BY_NAME,),
    "publish": (WRITER,),
    "publish.dropped": (replace(WRITER, kinds=SERIAL, flow="latest", steps=30, read_pause=0.1),),
    "publish.offered": (replace(WRITER, flow=2),),
    "reclaim": (SHORT,),
    "remove": (replace(IN_PYTHON, how="remove"),),
    "rename": (RENAME,),
    "reserve": (WRITER,),
    "closed": (replace(WRITER, how="reopen", port={"publish": 2}, kinds=REST),),
    "closed.turning": (replace(WRITER, how="reopen", port={"publish": "next"}, kinds=REST),),
    "snapshot": (replace(WRITER, how="flush", port={"publish": "flush"}, kinds=("h5py", "shared", "mpich")),),
    "start": (LAUNCHER,),
    "take": (READER,),
    "trim": (WRITER,),
    "wait": (
        replace(READER, kinds=SERIAL, write_pause=0.3, steps=8),
        replace(WRITER, kinds=SERIAL, read_pause=0.5, steps=30, flow={"queue": 1}),
    ),
}
OUT_OF_REACH = {
    "adopt": "memory that was made ready before the step",
    "annex": "a stream of thousands of names, or hundreds of open steps",
    "aside": "who keeps many steps in view",
    "circle": "programs that wait for each other",
    "disk.kept": "a task with `restart:`",
    "disk.moved": "a file that rests and is renamed",
    "disk.moved-hidden": "the same",
    "disk.turning": "the same",
    "exit.peers": "a program that ends while its peers write",
    "hold.room": "hundreds of open steps",
    "lease": "who closes what others may write",
    "left-open": "a program that ends with files open",
    "names": "names that go on after others, and thousands of them",
    "let-go": "a reader that removes what it reads",
    "own": "a task that changes what it reads",
    "stage": "a task that passes on what it reads",
    "publish.again": "a task with `restart:`",
    "reclaim.forgotten": "files on a disk that is full",
    "rename.claimed": "a file that rests and is renamed",
    "rename.noted": "the same",
    "rename.turned": "a file that is renamed while it is written",
    "closed.empty": "a file that stays empty",
    "trace.begun": "a task with `restart:`",
    "trace.written": "a task with `restart:`",
    "withdraw": "a file that is removed while it rests",
}
"""What tests/faults/test_faults.py has programs for, and what these need; here none is killed there."""


def attempts() -> Iterator[tuple[str, Case, int]]:
    """A point, the programs that get there, and at which arrival one dies."""
    here = kinds_here()
    for turn, point in enumerate(fault_points()):
        known = () if point in OUT_OF_REACH else SCENES.get(point.partition(".")[0], ())
        for scene in SCENES.get(point, known):
            kinds = [one for one in scene.kinds if one in here]
            chosen = kinds if FULL else [kinds[turn % len(kinds)]]
            for place, kind in enumerate(chosen):
                for arrival in scene.arrivals if FULL else scene.arrivals[:1]:
                    yield point, _case(scene, kind, here, turn + place), arrival


def _case(scene: Scene, kind: str, here: tuple[str, ...], turn: int) -> Case:
    others = [one for one in here if one not in PARALLEL] if not scene.updates else ["h5py"]
    dies = scene.victim.startswith("look")
    ranks = {one: 2 if one in PARALLEL else 1 for one in here}
    writer = others[turn % len(others)] if dies else kind
    reader = kind if dies else others[(turn + 1) % len(others)]
    return Case(
        writer,
        ranks[writer],
        scene.how,
        numbered=scene.how == "rename",
        port=scene.port,
        steps=scene.steps,
        pause=scene.write_pause,
        readers=[
            Reader(reader, ranks[reader], scene.flow, scene.updates, scene.read_pause),
            Reader("static", flow="all" if scene.how == "rename" else "latest"),
        ],
        victim=scene.victim,
        rank=min(scene.rank, ranks[kind] - 1),
        way="stop" if scene.victim == "launcher" else "continue",
    )


ATTEMPTS = list(enumerate(attempts()))
BATCHES = [
    pytest.param(
        ATTEMPTS[first : first + BATCH],
        id=f"{ATTEMPTS[first][1][0]}-to-{ATTEMPTS[first : first + BATCH][-1][1][0]}",
        marks=[] if first == 0 or FULL else pytest.mark.nightly,
    )
    for first in range(0, len(ATTEMPTS), BATCH)
]


def attempt(folder: Path, point: str, case: Case, arrival: int) -> str:
    """What does not hold, if anything."""
    folder.mkdir()
    try:
        kill_at_point(case, folder, point, arrival)
    except (AssertionError, OSError, pytest.fail.Exception) as error:
        return f"{point}:{arrival}: {error}"
    return ""


def test_every_point_has_a_scene() -> None:
    known = SCENES.keys() | OUT_OF_REACH.keys()
    assert not [point for point in fault_points() if not known & {point, point.partition(".")[0]}]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", BATCHES)
def test_killed_at_a_point(tmp_path: Path, batch: list[tuple[int, tuple[str, Case, int]]]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = pool.map(lambda one: attempt(tmp_path / str(one[0]), *one[1]), batch)
    failed = [words for words in said if words]
    assert not failed, "\n\n".join(failed)
