"""The rig of habits: programs that use files in their own ways, run on files and under a workflow, and compared.

A habit is a program that writes, one that reads, and the keys of the workflow file that their user would write. The
reader tells what it read in lines that begin with ``= ``: a name, and what was in it. It runs

- alone, on files, after the producer: what it must read;
- alone, on files, beside the producer, if it is one that can;
- under a workflow, with the steps in memory, in memory and on disk, on disk only, and with partners that are early or
  late.

Between the two there may be stages, whose programs pass the files on, and other readers. What they tell counts, too.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import yaml
from habits.prelude import cksum, text

from support.hooks import faults
from support.running import WILKINS, started_tree

HERE = Path(__file__).parent
LIMIT = 40.0
"""Seconds that a process may take on a busy machine; a workflow says after half of it what it waits for."""

MODES = ("memory", "both", "file")
PACES = ("free", "late-writer", "late-reader", "random")
"""How fast partners are: as it comes; one begins when the other waits or has ended; delays at points of the layer."""

Keys = Mapping[str, Any]


@dataclass(frozen=True)
class Program:
    """The few lines of a program, without what all begin with."""

    language: Literal["py", "sh", "bash", "c"]
    lines: str


def py(lines: str) -> Program:
    return Program("py", lines)


def sh(lines: str) -> Program:
    return Program("sh", lines)


def bash(lines: str) -> Program:
    return Program("bash", lines)


def c(lines: str) -> Program:
    """The lines of ``main``, or, if they have one, a whole program."""
    return Program("c", lines)


@dataclass(frozen=True)
class Refusal:
    """That a run says that it cannot be as on files, and stops."""

    says: str
    """What it says, as a regular expression."""
    because: str
    """Why it is so, and what to do: a sentence for users."""


ON_DISK = Refusal(
    r"in memory alone",
    "stages pass files on in memory alone: leave out `mode` where a task reads and writes the same files",
)


@dataclass(frozen=True)
class Stage:
    """A program between the two, which passes the files on that it reads."""

    program: Program
    keys: Keys = field(default_factory=dict)
    """Of its task; its ``args`` may hold ``{filename}``: the user starts it for each file."""
    into: Keys = field(default_factory=dict)
    passes_on: bool = True
    """If not, it is a further reader, of the files as they are at its place in the row."""


@dataclass(frozen=True)
class Habit:
    """Two programs, and the keys of the workflow file that their user would write."""

    name: str
    writes: Program
    reads: Program
    ports: str | tuple[str, ...] = "plt*.dat"
    """The pattern, or patterns, of the files that go from one to the other."""
    stages: tuple[Stage, ...] = ()
    """The programs between the two, in the order of the workflow file."""
    out: Keys = field(default_factory=dict)
    """Further keys of the out-ports, of the in-ports (``into``), and of the two tasks."""
    into: Keys = field(default_factory=dict)
    producer: Keys = field(default_factory=dict)
    consumer: Keys = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    """What is on disk beforehand; a name that ends in ``/`` is a folder."""
    beside: bool = False
    """Does the consumer work beside the producer on files as well?"""
    endless: bool = False
    """Does the consumer never end on files, where a name is read for ever?"""
    each: bool = False
    """Does the user start the consumer for each file? (Its ``args`` hold ``{filename}``.)"""
    changes: bool = False
    """Does the consumer first change every file, which so is its own, and then treat it as such?"""
    unordered: bool = False
    """Are the lines in no order, because several processes print them?"""
    expected: tuple[str, ...] | None = None
    """The lines that must come, where files after the producer do not say, as of a name that is rewritten."""
    part: Literal["", "suffix", "subset"] = ""
    """What else than all the policy, or the habit, allows to come; the end always does."""
    refused: Refusal | None = None
    needs: tuple[str, ...] = ()

    def refusal(self, mode: str) -> Refusal | None:
        """What a run is expected to say, instead of being as on files."""
        return ON_DISK if any(stage.passes_on for stage in self.stages) and mode != "memory" else self.refused

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.ports,) if isinstance(self.ports, str) else self.ports

    def is_step(self, name: str) -> bool:
        """Whether a file in the working folder is one of a port, or lies in a folder that is."""
        if any(fnmatch(f"{part}/", pattern) for pattern in self.patterns for part in name.split("/")):
            return True
        return any(fnmatch(part, pattern) for pattern in self.patterns for part in tails(name, pattern))


def tails(name: str, pattern: str) -> Iterator[str]:
    """As many last components of a name as a pattern has."""
    parts = name.split("/")
    yield "/".join(parts[-(pattern.count("/") + 1) :])


@dataclass(frozen=True)
class Ran:
    """How a run ended: exit code (None: it was still running), what it read, all that it said, and what is on disk."""

    code: int | None
    lines: tuple[str, ...]
    told: str
    disk: Mapping[str, str]
    wrote: Mapping[str, str] = field(default_factory=dict)
    """Of programs alone: what was on disk before the consumer began."""
    channels: Sequence[Mapping[str, Any]] = ()
    """Of a workflow: its account of the steps of each channel (``summary.json``)."""


SUMS = {cksum(text(k)): f"#{k}" for k in range(40)} | {cksum(b""): "empty"}


def in_words(line: str) -> str:
    """A line of what was read, with content that is that of a step called by its number."""
    found = re.fullmatch(r"= (.*?) ?(\d+ \d+)( -)?", line)
    if not found:
        return line.removeprefix("= ")
    return f"{found[1]}={content(found[2])}"


def content(total: str) -> str:
    """What a sum stands for."""
    if total in SUMS:
        return SUMS[total]
    size = int(total.split()[1])
    return f"{size} zeros" if total == cksum(bytes(size)) else f"other({total.replace(' ', '/')})"


def build(program: Program, role: str, folder: Path) -> Path:
    """Make a program of its few lines."""
    folder.mkdir(parents=True, exist_ok=True)
    if program.language != "c":
        suffix = {"py": "py", "sh": "sh", "bash": "sh"}[program.language]
        prelude = (HERE / f"prelude.{suffix}").read_text()
        if program.language == "bash":
            prelude = prelude.replace("#!/bin/sh", "#!/bin/bash")
        path = folder / f"{role}.{suffix}"
        path.write_text(prelude + program.lines.lstrip("\n"))
        path.chmod(0o755)
        return path
    source, path = folder / f"{role}.c", folder / role
    lines = program.lines
    if "int main" not in lines:
        lines = f"int main(void) {{\n{lines}\nreturn 0;\n}}\n"
    source.write_text((HERE / "prelude.h").read_text() + lines)
    command = ["gcc", "-O1", "-o", str(path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


@dataclass(frozen=True)
class Bench:
    """A habit whose programs are built, and a folder for its runs."""

    habit: Habit
    folder: Path
    producer: Path
    consumer: Path
    stages: Sequence[Path] = ()

    @classmethod
    def of(cls, habit: Habit, folder: Path) -> Bench:
        build_in = folder / "bin"
        stages = [build(stage.program, f"stage{number}", build_in) for number, stage in enumerate(habit.stages, 1)]
        return cls(habit, folder, build(habit.writes, "write", build_in), build(habit.reads, "read", build_in), stages)

    def place(self, name: str) -> Path:
        """A new folder for a run, with the working folder of both programs in it, as it is before."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        work = place / "work"
        work.mkdir(parents=True)
        for task in (self.habit.producer, self.habit.consumer):
            (place / str(task.get("cwd", "work"))).mkdir(parents=True, exist_ok=True)
        for file, lines in self.habit.before.items():
            if file.endswith("/"):
                (work / file).mkdir(parents=True)
            else:
                (work / file).write_text(lines)
        return place

    def argv(self, program: Path, keys: Keys, filename: str = "") -> list[str]:
        python = [sys.executable] if program.suffix == ".py" else []
        return [*python, str(program), *(str(word).replace("{filename}", filename) for word in keys.get("args", ()))]

    def writes(self) -> list[str]:
        """The producer's command, on as many ranks as it is to have."""
        ranks = self.habit.producer.get("nprocs", 1)
        mpiexec = [str(self.habit.producer["mpiexec"]), "-n", str(ranks)] if ranks > 1 else []
        return [*mpiexec, *self.argv(self.producer, self.habit.producer)]

    def after(self) -> Ran:
        """Run the consumer on files after the producer."""
        place, habit = self.place("after"), self.habit
        wrote = execute(place, str(habit.producer.get("cwd", "work")), self.writes())
        assert wrote.code == 0, f"{habit.name}: the producer alone\n{wrote.told}"
        steps = sorted(name for name, what in wrote.disk.items() if habit.is_step(name) and what != "folder")
        told: list[str] = []
        for program, stage in zip(self.stages, habit.stages, strict=True):
            wrote = self.read(place, program, stage.keys, steps if "{filename}" in stage.keys.get("args", ()) else None)
            told += wrote.lines
        read = (
            wrote if habit.endless else self.read(place, self.consumer, habit.consumer, steps if habit.each else None)
        )
        told += () if habit.endless else read.lines
        return Ran(0, tuple(told), "", read.disk, wrote.disk)

    def read(self, place: Path, program: Path, keys: Keys, each: Sequence[str] | None) -> Ran:
        """Run a program on files, once, or for each of them; again where it has failed, if a workflow would."""
        runs = []
        for name in [""] if each is None else each:
            runs.append(execute(place, str(keys.get("cwd", "work")), self.argv(program, keys, name)))
            if runs[-1].code and keys.get("on_failure") == "restart":
                runs.append(execute(place, str(keys.get("cwd", "work")), self.argv(program, keys, name)))
            assert runs[-1].code == 0, f"{self.habit.name}: {program.stem} alone\n{runs[-1].told}"
        return replace(runs[-1], lines=tuple(line for run in runs for line in run.lines))

    def beside(self) -> Ran:
        """Run the consumer on files beside the producer."""
        place, habit = self.place("beside"), self.habit
        (place / "reader").mkdir()
        writes = self.writes()
        cwd = str(place / str(habit.producer.get("cwd", "work")))
        with started_tree(["env", "-C", cwd, *writes], place, {"LC_ALL": "C.UTF-8"}) as tree:
            read = execute(
                place,
                str(habit.consumer.get("cwd", "work")),
                self.argv(self.consumer, habit.consumer),
                place / "reader",
            )
            tree.process.wait(LIMIT)
        return read

    def workflow(self, mode: str, pace: str = "free", seed: int = 0) -> Ran:
        """Run both under a workflow."""
        habit = self.habit
        place = self.place(f"{mode}-{pace}-{seed}")
        modes = {} if mode == "memory" else {"mode": mode}
        tasks: list[dict[str, Any]] = [
            {"name": "producer", "func": str(self.producer), "cwd": "work"}
            | {"outports": [{"filename": pattern, **modes, **habit.out} for pattern in habit.patterns]}
            | dict(habit.producer),
            *(self.stage(number) for number in range(len(habit.stages))),
            {"name": "consumer", "func": str(self.consumer), "cwd": "work"}
            | {"inports": [{"filename": pattern, **habit.into} for pattern in habit.patterns]}
            | dict(habit.consumer),
        ]
        if pace.startswith("late"):
            last = len(tasks) - 1
            late = 0 if pace == "late-writer" else last
            tasks[late]["prefix"] = [sys.executable, str(HERE / "late.py"), str(last - late)]
        env = {}
        if pace == "random":
            env = faults(f"seed={seed},delay=5ms,chance=0.3")
        (place / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
        limit = LIMIT / (8 if habit.refusal(mode) else 2)
        ran = execute(place, ".", [*WILKINS, "run", "--timeout", f"{limit:g}", "workflow.yaml"], env=env)
        summary = place / "wilkins-runs/latest/summary.json"
        told = json.loads(summary.read_text()) if summary.exists() else {}
        return replace(ran, channels=told.get("channels", ()))

    def stage(self, number: int) -> dict[str, Any]:
        """The task of a stage."""
        stage = self.habit.stages[number]
        return (
            {"name": f"stage{number + 1}", "func": str(self.stages[number]), "cwd": "work"}
            | {"inports": [{"filename": pattern, **stage.into} for pattern in self.habit.patterns]}
            | ({"outports": [{"filename": pattern} for pattern in self.habit.patterns]} if stage.passes_on else {})
            | dict(stage.keys)
        )


def execute(
    place: Path,
    cwd: str,
    argv: Sequence[str],
    told_in: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit: float = LIMIT,
) -> Ran:
    """Run a program, or a workflow, for at most so many seconds, and gather what came of it."""
    folder = told_in or place
    with started_tree(["env", "-C", str(place / cwd), *argv], folder, {"LC_ALL": "C.UTF-8", **(env or {})}) as tree:
        try:
            code: int | None = tree.process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        told = tree.told()
    logs = [log for task in ("stage", "consumer") for log in sorted(place.glob(f"wilkins-runs/latest/{task}*.log"))]
    lines = [
        in_words(line.replace(str(place), ""))
        for log in logs or [folder / ".stdout"]
        for line in log.read_text(errors="replace").splitlines()
        if line.startswith("= ") and not line.startswith("=   ")  # as mpiexec says that it failed
    ]
    return Ran(code, tuple(lines), told.replace(str(place), ""), on_disk(place))


def on_disk(place: Path) -> dict[str, str]:
    """The files below the working folder, and what they hold."""
    found = {}
    for path in sorted((place / "work").rglob("*")):
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            what = "folder"
        elif stat.S_ISLNK(kind):
            what = f"-> {path.readlink()}".replace(str(place), "")
        elif stat.S_ISREG(kind):
            data = unmarked(path.read_bytes())
            what = content(cksum(data)) if len(data) < 20_000 else hashlib.sha1(data).hexdigest()[:8]
        else:
            what = "other"
        found[str(path.relative_to(place / "work"))] = what
    return found


def unmarked(data: bytes) -> bytes:
    """An HDF5 file without what its superblock says of being open for writing, and the checksum over that."""
    if not data.startswith(b"\x89HDF\r\n\x1a\n"):
        return data
    if data[8] < 2:
        return data[:20] + bytes(4) + data[24:]
    checksum = 12 + 4 * data[9]
    return data[:11] + bytes(1) + data[12:checksum] + bytes(4) + data[checksum + 4 :]


def judge(habit: Habit, alone: Ran, ran: Ran, mode: str) -> str:
    """``same``, ``refused``, or what differs."""
    wrong = []
    if ran.code is None:
        wrong.append("did not end")
    elif ran.code:
        wrong.append(f"exit code {ran.code}")
    wanted = list(habit.expected if habit.expected is not None else alone.lines)
    lost = differs(habit, wanted, list(ran.lines))
    wrong += lost
    if mode in MODES:
        wrong += disk_differs(habit, alone, ran, mode)
        wrong += misaccounted(ran, bool(lost))
    refused = habit.refusal(mode)
    if wrong and refused and re.search(refused.says, ran.told):
        return "refused"
    return "; ".join(wrong) or "same"


def misaccounted(ran: Ran, lost: bool) -> list[str]:
    """How a run that ended well tells something else of steps that were not read than what programs read."""
    if ran.code or not ran.channels:
        return []
    unread = sum(channel[what] for channel in ran.channels for what in ("skipped", "dropped", "let_go", "unread"))
    published = sum(channel["published"] for channel in ran.channels)
    whole = {step for line in ran.lines for step in re.findall(r"=(#\d+)$", line)}
    if lost:
        return [f"and the account tells of {unread or 'no'} steps that were not read"]
    if unread and len(whole) >= published:
        return [f"the account tells of {unread} steps that were not read, and all were"]
    return []


def differs(habit: Habit, wanted: list[str], got: list[str]) -> list[str]:
    """How what was read differs from what should have been."""
    if habit.unordered:
        wanted, got = sorted(wanted), sorted(got)
    if got == wanted:
        return []
    if habit.part == "suffix" and got and got == wanted[-len(got) :]:
        return []
    if habit.part == "subset" and got and got[-1] == wanted[-1] and in_order(got, wanted):
        return []
    missing, extra = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
    parts = []
    if missing:
        parts.append("lost " + short(list(missing.elements())))
    if extra:
        parts.append("read instead " + short(list(extra.elements())))
    return parts or ["in another order: " + short(got)]


def in_order(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether a sequence is another one with some left out."""
    rest = iter(whole)
    return all(item in rest for item in part)


def disk_differs(habit: Habit, alone: Ran, ran: Ran, mode: str) -> list[str]:
    """How what lies on disk differs from what should be there.

    With the steps in memory, files of before stay as they are. With the steps also on disk they stay as the producer
    wrote them, whatever the consumer removes or renames; with the steps only there, they are what both alone have left.
    What the consumer has written into a step is on disk in every mode.
    """
    wanted = dict(alone.disk) if mode == "file" else kept_from_consumer(habit, alone, mode)
    parts = []
    for name in sorted(wanted.keys() | ran.disk.keys()):
        one, other = wanted.get(name, "nothing"), ran.disk.get(name, "nothing")
        if one != other:
            parts.append(f"{name} is {other} (alone: {one})")
    return ["on disk " + short(parts)] if parts else []


def kept_from_consumer(habit: Habit, alone: Ran, mode: str) -> dict[str, str]:
    """What lies on disk if the consumer cannot change the steps there."""
    if habit.changes:
        return dict(alone.disk)
    wanted = {name: what for name, what in alone.disk.items() if not (habit.is_step(name) and name in alone.wrote)}
    if mode == "memory":
        files = {name.rstrip("/"): content(cksum(lines.encode())) for name, lines in habit.before.items()}
        wanted |= {name: what for name, what in files.items() if habit.is_step(name)}
    else:
        wanted |= {name: what for name, what in alone.wrote.items() if habit.is_step(name)}
    return wanted | {name: alone.disk[name] for name in changed_by_consumer(habit, alone)}


def changed_by_consumer(habit: Habit, alone: Ran) -> list[str]:
    """Steps of wildcard names that the consumer has changed: they are files of its own."""
    wildcards = any(letter in pattern for pattern in habit.patterns for letter in "*?[")
    return [
        name
        for name, what in alone.wrote.items()
        if wildcards and habit.is_step(name) and alone.disk.get(name, what) != what
    ]


def short(items: Sequence[str], most: int = 6) -> str:
    """Some words, the first ones if there are many."""
    rest = f", and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest
