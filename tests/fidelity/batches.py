"""Batches of random programs: each is run once through real files and once through channels, and compared.

Hypothesis draws the programs of a batch, and one workflow runs them all; so a program costs milliseconds. If one
differs, Hypothesis draws the same ones again from the same seed, hears which of them differ, and shrinks; then each
program runs alone.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from fidelity.rig import ENV, sections
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

from support.running import WILKINS, started_tree

SAME = "same"
DIED = "died"
AGREE = (SAME, DIED)
CHECKED = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
"""With files, a program that spoils its own memory dies of it: what it would do is not defined."""
OTHER_IO = {"OMPI_MCA_io": "^ompio"}
"""Open MPI has two implementations of MPI-IO, of which the one that it takes by itself (4.1) loses bytes on a disk now
and then."""
CHANGED = "changed.json"
"""Which files of ports were changed after their writer had ended, in a run through files."""
REGRESSIONS = Path(__file__).parent / "regressions"
SHRINKING = 40
"""Programs that are run alone to find a smaller one that differs, at most."""

Program = dict[str, Any]
Spoil = Callable[[Path], None]


@dataclass(frozen=True)
class Side:
    """A task that performs all programs, and the files in which it tells what it saw."""

    name: str
    argv: tuple[str, ...]
    outs: tuple[str, ...]
    ranks: int = 1
    mpiexec: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    """More arguments, with which each program that is run through files runs in a process of its own."""


@dataclass(frozen=True)
class Batch:
    """Programs, and those that perform them: a producer, then its consumers."""

    programs: Sequence[Program]
    sides: tuple[Side, ...]
    ports: dict[str, str]
    """The patterns of its files, and when each is published."""
    inputs: Callable[[Sequence[Program]], dict[str, str]]
    """The files that are there before: names and contents. The sides are told the programs in some of them."""
    nothing: Program
    """Stands for a program that HDF5 itself dies of, with files."""
    queue: int
    limit: float = 120.0
    """Seconds that a side may take on a busy machine, and one more for each program."""
    undetermined: str = "$^"
    """Matches lines that say what is not determined, and so is not compared."""
    named: dict[str, Any] = field(default_factory=dict)
    """What the rest follows from, as a regression file says it."""


@contextlib.contextmanager
def nothing_but_the_seed() -> Iterator[None]:
    """Let a seed alone say what is drawn: Hypothesis also draws constants of all modules that happen to be loaded."""
    if not hasattr(providers, "_get_local_constants"):  # its older versions do not
        yield
        return
    with mock.patch.object(providers, "_get_local_constants", type(providers.GLOBAL_CONSTANTS)):
        providers.CONSTANTS_CACHE.cache.clear()
        try:
            yield
        finally:
            providers.CONSTANTS_CACHE.cache.clear()


def draw(strategy: SearchStrategy[Program], count: int, start: int) -> list[Program]:
    """The programs that Hypothesis draws from a seed."""
    drawn: list[Program] = []

    @seed(start)
    @settings(_settings(count), phases=[Phase.generate])
    @given(strategy)
    def take(program: Program) -> None:
        drawn.append(program)

    with nothing_but_the_seed():
        take()
    return drawn


def _settings(count: int) -> settings:
    return settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )


class Differs(AssertionError):
    """A program that does not do the same both ways."""

    def __init__(self, program: Program, text: str) -> None:
        super().__init__(text)
        self.program = program


def outcomes(folder: Path, batch: Batch, spoil: Spoil | None = None) -> list[str]:
    """What each program came to: ``same``, ``died`` (of HDF5 itself, through files), or where the two ways differ.

    If any differs, all are run through files once more: what two such runs do not agree on, HDF5 leaves undefined, or
    an MPI loses.
    """
    folder.mkdir()
    outs = [out for side in batch.sides for out in side.outs]
    dead: set[str] = set()
    while failed := _through_files(folder / "files", _without(batch, dead), spoil):
        last = _last_begun(folder / "files", batch)
        few = len(dead) < max(5, len(batch.programs) / 5)  # programs that Hypothesis makes of one another are alike
        assert last and last not in dead and few, f"the rig itself fails: {failed}"
        (folder / "files").rename(folder / f"died-{last}")
        dead.add(last)
    dead |= {
        number
        for out in outs
        for number, lines in sections(folder / "files" / out).items()
        if any(line.startswith(": died: ") for line in lines)
    }
    alive = _without(batch, dead).programs
    failed = _through_channels(folder / "steps", replace(batch, programs=alive))
    found = _compare(folder, batch, failed)
    if any(text != SAME and f"{k:04d}" not in dead for k, text in enumerate(found)) and not failed:
        defined = replace(batch, programs=alive, sides=tuple(replace(side, apart=()) for side in batch.sides))
        if not _through_files(folder / "twice", defined, spoil, OTHER_IO):
            found = _compare(folder, batch, failed)
    return [DIED if f"{k:04d}" in dead else text for k, text in enumerate(found)]


def _without(batch: Batch, dead: set[str]) -> Batch:
    """The batch with nothing in the place of programs that HDF5 dies of."""
    return replace(batch, programs=[batch.nothing if f"{k:04d}" in dead else p for k, p in enumerate(batch.programs)])


def _last_begun(folder: Path, batch: Batch) -> str:
    """The program that the last of the sides was at when it ended all of a sudden."""
    outs = [[folder / out for out in side.outs if (folder / out).exists()] for side in batch.sides]
    last = [found for found in outs if found][-1:]
    return max((number for found in last for out in found for number in sections(out)), default="")


def _lay(folder: Path, batch: Batch) -> None:
    folder.mkdir()
    for name, content in batch.inputs(batch.programs).items():
        (folder / name).write_text(content, encoding="utf-8")


def _run(folder: Path, argv: Sequence[str], batch: Batch, env: dict[str, str]) -> str:
    """Run a program in a folder: how it failed."""
    with started_tree(argv, folder, env) as tree:
        try:
            code = tree.process.wait(batch.limit + len(batch.programs))
        except subprocess.TimeoutExpired:
            return f"still running: {' '.join(argv)}\n{tree.told()}"
        return f"exit code {code}: {' '.join(argv)}\n{tree.told()}" if code else ""


def _through_files(folder: Path, batch: Batch, spoil: Spoil | None, env: Mapping[str, str] = ENV) -> str:
    """One side after the other, up to one that fails: how it failed."""
    _lay(folder, batch)
    written: dict[str, bytes] = {}
    for side in batch.sides:
        before = [*side.mpiexec, "-n", str(side.ranks)] if side.mpiexec else []
        checked = CHECKED if side.apart else {}
        if failed := _run(folder, [*before, *side.argv, *side.apart], batch, {**ENV, **env, **checked}):
            return failed
        if side is not batch.sides[0]:
            continue
        if spoil:
            spoil(folder)
        written = _files(folder, batch)
    changed = [name for name, content in _files(folder, batch).items() if written.get(name) != content]
    (folder / CHANGED).write_text(json.dumps(changed), encoding="utf-8")
    return ""


def _files(folder: Path, batch: Batch) -> dict[str, bytes]:
    """The files of the ports that lie in a folder, and their bytes."""
    return {path.name: path.read_bytes() for pattern in batch.ports for path in folder.glob(pattern)}


def _through_channels(folder: Path, batch: Batch) -> str:
    """As one workflow; on disk are only steps that a reader has changed, and what lies there before is as it was."""
    _lay(folder, batch)
    flow = {"every": 1, "queue": batch.queue, "when_full": "block"}
    out = [{"filename": pattern, "publish": rule} for pattern, rule in batch.ports.items()]
    into = [{"filename": pattern, "flow": flow} for pattern in batch.ports]
    tasks = []
    for side in batch.sides:
        task = {"name": side.name, "func": side.argv[0], "args": list(side.argv[1:]), "nprocs": side.ranks}
        task |= {"mpiexec": " ".join(side.mpiexec)} if side.mpiexec else {}
        tasks.append(task | ({"outports": out} if side is batch.sides[0] else {"inports": into}))
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    failed = _run(folder, [*WILKINS, "run", "workflow.yaml"], batch, ENV)
    stale = batch.inputs(batch.programs)
    changed = json.loads((folder.parent / "files" / CHANGED).read_text(encoding="utf-8"))
    there = _files(folder, batch).items()
    left = sorted(name for name, content in there if content != stale.get(name, "").encode() and name not in changed)
    return failed + (f"on disk are {left}" if left else "")


def _compare(folder: Path, batch: Batch, failed: str) -> list[str]:
    count = len(batch.programs)
    found = [SAME] * count
    for out in (out for side in batch.sides for out in side.outs):
        if not (folder / "steps" / out).exists():
            return [f"the workflow {failed}"] * count
        of_files, of_steps = sections(folder / "files" / out), sections(folder / "steps" / out)
        once_more = folder / "twice" / out
        twice = sections(once_more) if once_more.exists() else of_files
        for number in range(count):
            views = (way.get(f"{number:04d}") for way in (of_files, of_steps, twice))
            one, other = _defined(*(view and _determined(view, batch) for view in views))
            if one is None or other is None:
                found[number] = f"{out} says nothing of it; the workflow {failed}"
            elif one != other and found[number] == SAME:
                lines = difflib.unified_diff(one, other, f"{out} of files", f"{out} of steps", lineterm="", n=0)
                found[number] = "\n".join(line[:400] for line in list(lines)[:40])
    if failed and all(text == SAME for text in found):
        found[-1] = f"the workflow {failed}"
    return found


def _determined(lines: list[str], batch: Batch) -> list[str]:
    return [line for line in lines if not re.search(batch.undetermined, line)]


def _defined(
    one: list[str] | None, other: list[str] | None, twice: list[str] | None
) -> tuple[list[str] | None, list[str] | None]:
    """Two views, less the lines in which a second look at real files differs from the first."""
    if other == twice:
        return twice, twice
    if one is None or other is None or twice is None or not len(one) == len(other) == len(twice):
        return one, other
    kept = [number for number, line in enumerate(one) if line == twice[number]]
    return [one[number] for number in kept], [other[number] for number in kept]


def shrunk(
    folder: Path, batch: Batch, strategy: SearchStrategy[Program], start: int, told: Sequence[str]
) -> tuple[list[Program], str]:
    """The smallest programs found that differ, and how: one alone, or one and what must run before it."""
    folder.mkdir()
    known = {_key(program): text for program, text in zip(batch.programs, told, strict=True)}
    tried = 0

    def alone(*programs: Program) -> str:
        nonlocal tried
        tried += 1
        return outcomes(folder / str(tried), replace(batch, programs=programs))[-1]

    first = next(number for number, text in enumerate(told) if text not in AGREE)
    if alone(batch.programs[first]) in AGREE:
        before = 1
        while before < first and alone(*batch.programs[first - before : first + 1]) in AGREE:
            before *= 2
        return list(batch.programs[max(first - before, 0) : first + 1]), told[first]

    @seed(start)
    @settings(_settings(len(batch.programs)), phases=[Phase.generate, Phase.shrink])
    @given(strategy)
    def check(program: Program) -> None:
        text = known.get(_key(program))
        if text is None:  # one that is smaller
            text = known[_key(program)] = alone(program) if tried < SHRINKING else SAME
        if text not in AGREE:
            raise Differs(program, text)

    try:
        with nothing_but_the_seed():
            check()
    except Differs as smallest:
        return [smallest.program], str(smallest)
    raise AssertionError("Hypothesis drew other programs from the same seed")


def _key(program: Program) -> str:
    return json.dumps(program, sort_keys=True)


def keep(batch: Batch, programs: Sequence[Program], name: str) -> Path:
    """Write programs that differ to a regression file."""
    REGRESSIONS.mkdir(exist_ok=True)
    path = REGRESSIONS / f"{name}.json"
    path.write_text(json.dumps(batch.named | {"programs": list(programs)}, indent=1) + "\n", encoding="utf-8")
    return path
