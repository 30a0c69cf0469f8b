"""Programs of random habits: generators of the calls that they make."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from reference.records import End, Missing, Opened, Step
from reference.scenarios import LEFT_OPEN, Habit, Stage, Workers

Program = Generator[tuple[Any, ...], Any, None]
"""Yields calls, and is sent their answers: ``("create", name)``, ``("publish", name)``, ``("open", name)``,
``("look", name)``, ``("list", inport)``, ``("close", step)``, ``("write", name)``, ``("flush", name)``, ``("keep",
step)``, ``("use", step)``, ``("forget", step)``, ``("pause",)``, ``("fork", programs)``, ``("join",)``: its children
have ended or idle, ``("idle",)``: until its parent has joined it, ``("meet",)``: all ranks of its task, ``("sleep",)``:
whether it makes sense to go on, ``("end", how)``: nothing more."""

MORE = "one more"
"""A name that nobody writes."""
RESTS = ("join", "idle", "meet")
"""Calls in which a process sleeps until others of its task let it go on."""
WORKERS = 3


class Broken(AssertionError):
    """A rule does not hold."""


Got = list[tuple[str, Step | None]]
"""What a program asked for, and which step it was, or None."""


def write(files: Sequence[tuple[int, str]], leaves_open: bool, meets: bool) -> Program:
    """Writes the files one by one."""
    for number, (_, name) in enumerate(files):
        yield ("create", name)
        if not leaves_open or number < len(files) - LEFT_OPEN:
            yield ("publish", name)
        if meets:
            yield ("meet",)


def write_by_workers(files: Sequence[tuple[int, str]], workers: Workers, raw: bool, rng: random.Random) -> Program:
    """Another process writes each file, or has a hand in it."""
    for _, name in files:
        if workers == "each":
            yield from write_until_whole(name, raw, rng)
            continue
        yield ("create", name)
        idle = workers == "idle"
        last = rng.random() < 0.5
        ends: list[End] = ["return", "_exit", "signal"]
        helper = idles(rng.randrange(3)) if idle else adds(name, rng.choice(ends))
        yield ("fork", [helper])
        if not idle and not last:
            yield ("join",)
        yield ("publish", name)
        yield ("join",)


def write_until_whole(name: str, raw: bool, rng: random.Random) -> Program:
    """One process after the other writes the file and leaves it open as it ends, until one has left it whole."""
    whole = False
    while not whole:
        end: End = rng.choice(["return", "_exit", "signal"])
        flushes, goes_on = rng.random() < 0.5, rng.random() < 0.3
        yield ("fork", [leaves(name, end, flushes, goes_on)])
        yield ("join",)
        whole = end == "return" or (end == "_exit" if raw else flushes and not goes_on)


def leaves(name: str, end: End, flushes: bool, goes_on: bool) -> Program:
    """Writes a file, and ends with it open."""
    yield ("create", name)
    if flushes:
        yield ("flush", name)
    if goes_on:
        yield ("write", name)
    yield ("end", end)


def adds(name: str, end: End) -> Program:
    """Adds to a file of its parent's, and ends with it open."""
    yield ("pause",)
    yield ("write", name)
    yield ("end", end)


def idles(pauses: int) -> Program:
    """Does nothing."""
    for _ in range(pauses):
        yield ("pause",)
    yield ("idle",)


class Kept:
    """Steps that a process sees when it has closed them: so many, those that it has read last."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.steps: list[Step] = []

    def add(self, step: Step) -> Program:
        """One more, which it is about to close."""
        if not self.most or step in self.steps:
            return
        yield ("keep", step)
        self.steps.append(step)
        if len(self.steps) > self.most:
            yield ("use", self.steps[0])
            yield ("forget", self.steps.pop(0))

    def look(self) -> Program:
        """At all of them."""
        for step in self.steps:
            yield ("use", step)


def read(names: Iterable[str], habit: Habit, got: Got, makes: str = "", keeps: int = 0) -> Program:
    """Reads files by name, and notes which steps they were. `makes`: how the name of a file made of each begins."""
    kept = Kept(keeps)
    for number, name in enumerate(names):
        if habit == "optional":
            yield ("look", f"{name}.lock")
        seen = (yield ("look", name)) if habit in ("look", "optional") else None
        answer = None if isinstance(seen, Missing) else (yield ("open", name))
        step = answer.step if isinstance(answer, Opened) else None
        got.append((name, step))
        if step and habit == "twice":
            yield from read([name], "open", got)
        if step:
            yield from kept.add(step)
            yield ("close", step)
        if step and habit == "again":
            yield from read([name], "open", got)
        if makes:
            yield ("create", f"{makes}{number}")
            yield ("publish", f"{makes}{number}")
    yield from kept.look()


def pass_on(names: Iterable[str], stage: Stage, got: Got) -> Program:
    """Opens files one by one, for they are to be passed on."""
    last: Step | None = None
    for number, name in enumerate(names, 1):
        seen = (yield ("look", name)) if stage.habit == "look" else None
        answer = None if isinstance(seen, Missing) else (yield ("open", name))
        step = answer.step if isinstance(answer, Opened) else None
        got.append((name, step))
        if last:
            yield ("close", last)
            last = None
        if step is None:
            continue
        if stage.habit == "overlap":
            last = step
        else:
            yield ("close", step)
        if stage.habit == "twice":
            yield from read([name], "open", got)
        if number == stage.fails:
            yield ("end", "signal")
    if last:
        yield ("close", last)


def read_listed(inports: int, got: Got) -> Program:
    """Lists, reads what it has not read yet, and ends once a listing shows nothing new."""
    known: set[str] = set()
    for port in range(inports):
        while True:
            listed = yield ("list", port)
            fresh = [name for name in listed.names if name not in known]
            if not fresh:
                break
            known.update(fresh)
            yield from read(fresh, "open", got)


def read_when_counted(names: Sequence[str], wanted: Sequence[str], inports: int, got: Got) -> Program:
    """Lists again and again until all that it wants is there, then reads. Notes when it does without."""
    missing = set(wanted)
    while missing:
        shown: set[str] = set()
        for port in range(inports):
            listed = yield ("list", port)
            shown.update(listed.names)
        missing = set(wanted) - shown
        if missing and not (yield ("sleep",)):
            got.append((MORE, None))
            break
    yield from read(names, "open", got)


def read_when_there(names: Iterable[str], got: Got) -> Program:
    """Looks for each file again and again until it is there, or gone, and opens it."""
    for name in names:
        while isinstance(seen := (yield ("look", name)), Missing) and seen.why != "passed":
            if not (yield ("sleep",)):
                raise Broken(f"{name} is asked for again and again ({seen.why}), and nothing comes of it")
        yield from read([name], "open", got)


def read_by_children(names: Iterable[str], got: Got, stay: bool) -> Program:
    """A child reads each file, whose descriptor it has from its parent, which closes it at once. `stay`: until their
    parent has read all."""
    for name in names:
        answer = yield ("open", name)
        step = answer.step if isinstance(answer, Opened) else None
        got.append((name, step))
        if step:
            yield ("fork", [read_inherited(step, stay)])
            yield ("close", step)
    if stay:
        yield ("join",)


def read_inherited(step: Step, stays: bool) -> Program:
    """Takes its time, and reads the step that it has inherited."""
    for _ in range(3):
        yield ("pause",)
    if stays:
        yield ("idle",)
    yield ("use", step)


def read_in_pool(worker: Callable[[Iterator[str]], Program], names: Iterable[str]) -> Program:
    """Workers take names from one list; their parent waits for them, which nobody is told."""
    queue = iter(names)
    yield ("fork", [worker(queue) for _ in range(WORKERS)])
    yield ("join",)


def read_after(names: Iterable[str], made: str, got: Got) -> Program:
    """Reads the files in order, and after each one that was made of some file."""
    for number, name in enumerate(names):
        yield from read([name], "open", got)
        yield from read([f"{made}{number}"], "open", got)
