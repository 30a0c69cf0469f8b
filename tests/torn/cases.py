"""Workflows of programs that check whole steps, in which one process is killed, and all that must hold afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import yaml
from conftest import missing
from programs.build import SOURCES, build, parallel_c, serial_c
from programs.whole import NAMES, PHASES, Told, of_file

from support.hooks import faults
from support.running import WILKINS, Finished, Tree, processes_in, run_tree, started_tree, wait_for
from wilkins.flow.trace import read_trace

LIMIT = 60.0
"""Seconds within which every run has ended, however busy the machine."""
LATER = 1000
"""The first step of a writer that goes on where another was killed."""
MPIS = {"mpich": "mpiexec.mpich", "openmpi": "mpiexec.openmpi --oversubscribe"}
IN_PYTHON = ("h5py", "netcdf4", "channel")
KINDS = ("h5py", "static", "shared", "mpich", "mpich-static", "openmpi", "netcdf4", "channel")

FLUSHES = "netcdf4"
"""Flushes a file whenever something was defined in it (from netCDF 4.10 on)."""


@dataclass
class Reader:
    """A task that reads every step that it is given."""

    kind: str = "h5py"
    ranks: int = 1
    flow: Any = "all"
    updates: bool = False
    pause: float = 0.0
    """Seconds between steps."""


@dataclass
class Case:
    """A writer, its readers, and who is killed; `kind` is a library of Python, or how a C program was linked."""

    kind: str = "h5py"
    ranks: int = 1
    how: str = "close"
    numbered: bool = False
    port: dict[str, Any] = field(default_factory=dict)
    rows: int = 240
    steps: int = 400
    pause: float = 0.0
    """Seconds between steps."""
    readers: list[Reader] = field(default_factory=lambda: [Reader("static"), Reader("shared", flow="latest")])
    victim: str = "sim"
    """``sim``, ``look0``, ``look1``, ... or ``launcher``."""
    rank: int = 0
    way: str = "stop"
    """What its death leads to: ``stop``, ``continue`` (`on_failure`), or ``again`` (another program takes over)."""

    @property
    def name(self) -> str:
        """What the writer calls its files."""
        return "out-%d.h5" if self.numbered else "out.h5"

    @property
    def mode(self) -> str:
        """Where steps are."""
        return str(self.port.get("mode", "memory"))

    def __str__(self) -> str:
        readers = ", ".join(f"{one.kind}x{one.ranks}{'+' * one.updates} {one.flow}" for one in self.readers)
        whom = self.victim if self.victim == "launcher" else f"rank {self.rank} of {self.victim}"
        sim = f"{self.kind}x{self.ranks} {self.how} {self.name} {self.port}"
        return f"{sim} -> {readers}; kill {whom}, then {self.way}"


def _program(kind: str) -> list[str]:
    if kind in IN_PYTHON:
        return [sys.executable, str(SOURCES / "whole.py")]
    if kind in ("static", "shared"):
        return [str(build("whole.c", *serial_c(static=kind == "static")))]
    mpi, _, static = kind.partition("-")
    return [str(build("whole.c", *parallel_c(mpi, static=bool(static))))]


def _task(case: Case, who: str, program: tuple[str, int, float], words: list[str], again: list[str]) -> dict[str, Any]:
    kind, ranks, pause = program
    task: dict[str, Any] = {"name": who, "env": {"PAUSE": str(pause)}}
    library = [kind] if kind in IN_PYTHON else []
    command = [*_program(kind), who, words[0], *library, *words[1:]]
    if who == case.victim and case.way == "again":
        after = [*_program(kind), f"{who}-again", again[0], *library, *again[1:]]
        shell = f"{' '.join(command)}; unset WILKINS_FAULTS; exec {' '.join(after)}"
        command = ["/bin/sh", "-c", shell]
    task["func"], task["args"] = command[0], command[1:]
    if kind.partition("-")[0] in MPIS:
        task |= {"nprocs": ranks, "mpiexec": MPIS[kind.partition("-")[0]]}
    if who == case.victim and case.way == "continue":
        task["on_failure"] = "continue"
    return task


def workflow(case: Case, folder: Path) -> None:
    """Write the workflow file."""
    pattern = case.name.replace("%d", "*")
    made = "*.h5" if case.how == "rename" else pattern

    def writes(first: int) -> list[str]:
        return ["write", case.how, case.name, str(first), str(case.steps), str(case.rows)]

    sim = _task(case, "sim", (case.kind, case.ranks, case.pause), writes(0), writes(LATER))
    tasks = [sim | {"outports": [{"filename": made, **case.port}]}]
    for place, reader in enumerate(case.readers):
        read = ["update" if reader.updates else "read", case.name]
        task = _task(case, f"look{place}", (reader.kind, reader.ranks, reader.pause), read, read)
        tasks.append(task | {"inports": [{"filename": pattern, "flow": reader.flow}], "rerun": "never"})
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))


def kill_at(case: Case, folder: Path, number: int, phase: str, later: float) -> str:
    """Run the workflow, and kill the victim `later` seconds after it has come to a phase of its step of this number.

    Returns where it was.
    """
    workflow(case, folder)
    who = "sim" if case.victim == "launcher" else case.victim
    place = folder / f"phase-{who}-{case.rank}"
    with started_tree([*WILKINS, "run", "workflow.yaml"], folder) as tree:
        told = _told(tree, place)
        wanted = (number, PHASES.index(phase))
        _wait(tree, lambda: (told.now[0], PHASES.index(told.now[1])) >= wanted)
        time.sleep(later)
        pid = tree.process.pid if case.victim == "launcher" else told.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if case.way == "again":
            again = _told(tree, folder / f"phase-{who}-again-0")
            _wait(tree, lambda: again.now[0] > (LATER if who == "sim" else 0))
        if case.way == "continue" and who != "sim":
            written = _told(tree, folder / "phase-sim-0")
            _wait(tree, lambda: written.now[0] > 0)
        if case.way != "stop":
            time.sleep(0.1 * (number % 2))
            (folder / "enough").touch()
        ran = tree.wait(LIMIT)
    check(case, folder, ran)
    whom = case.victim if case.victim == "launcher" else "writer" if who == "sim" else "reader"
    return f"{whom}: {told.now[1]}"


def kill_at_point(case: Case, folder: Path, point: str, arrival: int) -> None:
    """Run the workflow, with a victim that kills itself when it is at a named point of the layer for the n-th time."""
    workflow(case, folder)
    only = f",rank={case.rank}" if case.ranks > 1 and case.victim != "launcher" else ""
    env = faults(f"task={case.victim}{only},kill={point}:{arrival}")
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], LIMIT, folder, env)
    check(case, folder, ran, point)


def _told(tree: Tree, place: Path) -> Told:
    _wait(tree, lambda: place.exists() and place.stat().st_size == 16 and Told(place).pid > 0)
    return Told(place)


def _wait(tree: Tree, condition: Any) -> None:
    until = time.monotonic() + LIMIT
    while not condition():
        assert tree.process.poll() is None, f"it ended before the kill\n{tree.told()}"
        assert time.monotonic() < until, tree.told()
        time.sleep(0.0003)


def check(case: Case, folder: Path, ran: Finished, point: str = "") -> None:
    """Everything that must hold when the run has ended."""
    story = f"{case}\n{ran.out}\n{ran.err}"
    assert "Traceback" not in ran.err, story
    run_folders = {Path(one) for one in re.findall(r"/dev/shm/wilkins-\S+", ran.err)}
    if case.victim == "launcher":
        assert ran.code == -signal.SIGKILL, story
        wait_for(lambda: not processes_in(folder), 20, "the end of all processes")
        run_tree([*WILKINS, "clean"], 30, folder)
    else:
        _check_end(case, folder, ran, point)
    assert not processes_in(folder), story
    assert not [one for one in run_folders if one.exists()], story
    assert not list(folder.rglob(".wilkins-*")), story
    try:
        _check_steps(case, folder, point)
        _check_disk(case, folder)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{story}") from error


def _check_end(case: Case, folder: Path, ran: Finished, point: str) -> None:
    log = (folder / "wilkins-runs" / "latest" / f"{case.victim}.log").read_text(errors="replace")
    reached = f"{point} was not reached by {case}\n{ran.out}\n{ran.err}\n{log}"
    if case.way == "again":
        assert ran.code == 0, f"{case}\n{ran.err}\n{log}"
        assert "Killed" in log, reached
        return
    assert ran.code == 1, f"{case}: exit code {ran.code}\n{ran.err}"
    ended = [line for line in ran.err.splitlines() if line.startswith(f"wilkins: {case.victim}: failed")]
    assert ended, reached
    told = "\n".join([*ended, ran.err, ran.out, log])
    assert "SIGKILL" in told or "signal 9" in told or "KILLED BY" in told or "Killed" in told, reached


def got(folder: Path, task: str, flushed: int | None = None) -> list[int]:
    """The numbers of the steps that a task has read; each must be whole, but for the one that its dead writer has
    `flushed`, which is what it would be on a disk."""
    said = (folder / "wilkins-runs" / "latest" / f"{task}.log").read_text(errors="replace")
    read = re.findall(r"^got (-?\d+) (.*)\n", said, re.MULTILINE)
    assert all(words == "whole" or int(number) == flushed for number, words in read), f"{task} got {read}"
    return [int(number) for number, _ in read]


def _check_steps(case: Case, folder: Path, point: str) -> None:
    """What was read, against what was published, against what the writer has done."""
    events = read_trace(folder / "wilkins-runs" / "latest")
    names = [event.name for event in events if event.event == "publish" and event.task == "sim"]
    published = [name for name in names if name.startswith("out")]
    assert not case.numbered or published == [case.name.replace("%d", str(k)) for k in range(len(published))]
    last, phase = _now(folder, "sim", 0)
    flushed = last if case.victim == "sim" and case.kind == FLUSHES else None
    if case.victim == "launcher":
        written = list(range(last + 1))
    elif case.victim == "sim" and case.way == "again":
        before = _published_by(case, last, phase, point)
        after = _now(folder, "sim-again", 0)[0] + 1 - LATER
        assert len(published) - after in before, f"{len(published)} published, {before} before, {after} after"
        written = [*range(len(published) - after), *range(LATER, LATER + after)]
    else:
        if case.victim == "sim":
            ranks = [_published_by(case, *_now(folder, "sim", rank), point) for rank in range(case.ranks)]
            assert len(published) in range(min(map(min, ranks)), max(map(max, ranks)) + 1), f"{len(published)}: {ranks}"
        written = list(range(len(published)))
    for place, reader in enumerate(case.readers):
        task = f"look{place}"
        read = got(folder, task, flushed)
        assert [step for step in written if step in set(read)] == read, f"{task} got {read} of {written}"
        if case.way == "stop" or (task == case.victim and case.way == "continue"):
            continue
        every = reader.flow if isinstance(reader.flow, int) else 1
        kept = written[every - 1 :: every]
        missed = [step for step in kept if step not in set(read)]
        if reader.flow in ("all", *range(20)):
            # Of the step that the dead one had just opened nobody can say whether it was read.
            assert len(missed) <= (task == case.victim), f"{task} missed {missed} of {kept}"
        elif reader.flow == "latest":
            assert read[-1:] == kept[-1:] or task == case.victim, f"{task} got {read} of {kept}"


def _now(folder: Path, who: str, rank: int) -> tuple[int, str]:
    """What a process was doing last."""
    place = folder / f"phase-{who}-{rank}"
    return Told(place).now if place.exists() and place.stat().st_size else (0, "between")


def _published_by(case: Case, last: int, phase: str, point: str) -> tuple[int, ...]:
    """How many steps may have been published when the writer was at this phase of its step `last`."""
    if phase == "between":
        return (0,)
    place = PHASES.index(phase)
    by_next = case.port.get("publish") == "next"
    publishes = PHASES.index("create" if by_next else "flush" if case.how == "flush" else "close")
    before = last - by_next
    flushed = case.kind == FLUSHES and place < publishes
    if place == publishes or point or flushed or (case.kind == "channel" and phase == "close"):
        return (max(0, before), before + 1)
    return (max(0, before + (place > publishes)),)


def _check_disk(case: Case, folder: Path) -> None:
    """Whole files, where there are to be any; where one rests that was to be added to, perhaps its first half.

    In mode `file` a file that is reopened is changed where it lies, as without Wilkins.
    """
    found = sorted(folder.glob("*.h5"))
    assert case.mode != "memory" or not found, found
    last = case.name.replace("%d", str(_now(folder, "sim", 0)[0]))
    for path in found:
        if path.name == last and case.mode == "file" and case.how == "reopen":
            continue
        with h5py.File(path) as file:
            names = NAMES if case.how != "reopen" or "digest" in file.attrs else NAMES[:2]
            number, words = of_file(file, names)
        assert words == "whole", f"{path}: {words}"
        assert not case.numbered or path.name.endswith(f"-{number}.h5")


def random_case(draw: random.Random, kinds: tuple[str, ...]) -> Case:
    """Of programs of these kinds."""
    case = Case(draw.choice(kinds), rows=draw.choice([60, 240, 240, 480]))
    parallel = case.kind.partition("-")[0] in MPIS
    case.ranks = draw.choice([2, 3]) if parallel else 1
    how = draw.choice(["close", "close", "reopen", "reopen", "flush"])
    case.how = "close" if case.kind in ("netcdf4", "channel") else how
    if case.how == "flush" and case.kind.endswith("static"):
        case.how = "close"
    case.numbered = case.how != "flush" and draw.random() < 0.4
    if case.how == "reopen":
        case.port["publish"] = draw.choice([2, "next"])
    elif case.how == "flush":
        case.port["publish"] = "flush"
    mode = draw.choice(["memory", "memory", "both", "file"])
    if mode != "memory":
        case.port["mode"] = mode
    if draw.random() < 0.2:
        case.port["memory"] = 8 * case.rows * 512 * 4 * 4
    case.readers = [_reader(draw, kinds, case) for _ in range(draw.choice([1, 2, 2, 3]))]
    victims = ["sim"] * 4 + [f"look{place}" for place in range(len(case.readers))] * 2
    case.victim = draw.choice(victims) if draw.random() < 0.95 else "launcher"
    ways = ["stop", "continue", "continue"]  # and `again`, but where programs count: they would begin anew
    if case.victim == "sim":
        case.rank = draw.randrange(case.ranks)
        ways += ["again"] if not parallel and case.how != "flush" and not case.numbered else []
    elif case.victim != "launcher":
        reader = case.readers[int(case.victim[4:])]
        case.rank = draw.randrange(reader.ranks)
        ways += ["again"] if reader.kind.partition("-")[0] not in MPIS and not case.numbered else []
    case.way = "stop" if case.victim == "launcher" else draw.choice(ways)
    return case


def kinds_here() -> tuple[str, ...]:
    """The kinds of programs for which this machine has compilers and libraries."""
    needs = {
        "static": ["h5cc"],
        "shared": ["h5cc"],
        "mpich": ["h5pcc.mpich", "mpiexec.mpich"],
        "mpich-static": ["h5pcc.mpich", "mpiexec.mpich"],
        "openmpi": ["h5pcc.openmpi", "mpiexec.openmpi"],
        "netcdf4": ["python:netCDF4"],
    }
    return tuple(one for one in KINDS if not any(map(missing, needs.get(one, []))))


def _flow(draw: random.Random) -> Any:
    full = {
        "every": draw.randint(1, 2),
        "queue": draw.randint(1, 4),
        "when_full": draw.choice(["block", "drop-oldest", "drop-newest"]),
    }
    return draw.choice(["all", "all", {"queue": draw.randint(2, 4)}, draw.randint(2, 3), "latest", full])


def _reader(draw: random.Random, kinds: tuple[str, ...], case: Case) -> Reader:
    flow = _flow(draw)
    if case.numbered:  # a program that counts can read only what nothing is left out of
        flow = "all" if not isinstance(flow, dict) or flow.get("when_full") else flow
    reader = Reader(draw.choice(kinds), flow=flow)
    if reader.kind.partition("-")[0] in MPIS:
        reader.ranks = draw.choice([1, 2])
    reader.updates = reader.kind == "h5py" and draw.random() < 0.2
    return reader
