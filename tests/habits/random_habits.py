"""Random habits, made from a seed: what ranks of a producer, of stages and of a consumer do with files, call by call.

What each rank read under a workflow is compared with what it reads from files, where one program runs after the other.
A habit that is known to be read wrongly (`known.yaml`) is left out; so these programs do more, the less is known to be
wrong.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml
from habits import known, rig
from habits.random_programs import READS, STAGES, WRITES

from support.hooks import LIBRARY, faults
from support.running import MPIEXEC, WILKINS

WRITTEN = {
    "plain": "order-as-written",
    "rename": "rename-write-replace",
    "mapped": "descriptor-write-mmap",
    "duplicated": "descriptor-write-dup-closed-first",
    "backwards": "descriptor-write-pwrite-backwards",
    "child": "process-child-writes-stdout",
    "redirected": "redirect-write-to",
    "copied": "redirect-write-cp",
    "linked": "link-write-os-link",
}
WRITTEN5 = {"hdf5": "look-exists-h5"}
LEFT = {
    "left_by_exit_now": "end-descriptor-exit-now",
    "left_by_failure": "end-descriptor-exit-now-in-failure",
    "left_by_exit": "end-descriptor-exit",
    "left_by_exec": "end-descriptor-exec",
    "left_by_process": "end-flushed-in-multiprocessing",
    "left_by_worker": "end-flushed-in-pool-that-is-terminated",
}
"""By a child, which ends with the file open."""
LEFT5 = LEFT | {"left_by_kill": "end-flushed-kill"}
ENDS = {
    "return": "end-descriptor-exit",
    "exit": "end-descriptor-exit",
    "exit now": "end-descriptor-exit-now",
    "exec": "end-program-execs-with-the-last-left-open",
}
"""Of a rank, with its last file open."""
READ = {
    "plain": "order-as-written",
    "mapped": "descriptor-read-mmap",
    "positioned": "descriptor-read-pread-backwards",
    "cat": "process-check-output-cat",
    "stdin": "process-child-reads-stdin",
    "copied": "redirect-read-cp",
}
READ5 = {"hdf5": "look-exists-h5"}
LATE = {
    "map_kept": "life-map-kept",
    "map_in_a_fork": "life-map-in-a-fork",
    "descriptor_in_a_fork": "life-descriptor-in-a-fork",
    "sent": "life-sendfile-to-a-socket",
    "spliced": "life-splice-to-a-pipe",
    "passed": "life-fork-before-the-open",
}
"""Seen only after further calls."""
LATE5 = {"handle_in_a_fork": "life-handle-in-a-fork", "handle_mapped": "life-handle-mapped"}
STAGED = {
    "looked": "stage-bytes-read",
    "appended": "stage-bytes-appended",
    "patched": "stage-bytes-changed",
    "cut": "stage-bytes-cut",
    "mapped": "stage-bytes-mapped",
    "replaced": "stage-bytes-replaced",
    "renewed": "stage-makes-anew",
}
STAGED5 = {
    "looked": "stage-only-reads",
    "tagged": "stage-r-plus",
    "added": "stage-append",
    "overwritten": "stage-overwrites",
    "replaced": "stage-replaces",
    "renewed": "stage-makes-anew",
}
SHAPES = {
    "one process": "stage-r-plus",
    "ranks": "stage-by-ranks",
    "ranks that all read": "stage-by-ranks-that-all-read",
    "threads": "stage-by-threads",
    "children": "stage-by-a-fork",
}
LOOKED = {
    "exists": "look-isfile-bytes",
    "access": "look-access",
    "size": "look-stat-size",
    "poll": "poll-until-exists",
    "missing": "look-try-open-until-missing",
}
ORDERS = {
    "as written": "order-as-written",
    "swapped": "order-swapped-pairs",
    "shuffled": "order-shuffled",
    "reversed": "order-reversed",
}
SHARES = {"all": "process-ranks-read-all", "each its own": "process-ranks-share"}
"""Of each kind of call, the habit that must be right for it to be drawn."""
_PATIENCE = 100.0
"""Seconds for a workflow. One with stages of several ranks takes up to 20 where nothing else runs."""


@dataclass
class Case:
    """What runs."""

    seed: int
    mode: str
    hdf5: bool
    steps: int
    faults: str
    writers: list[list[list[Any]]] = field(default_factory=list)
    """By rank: the way in which it writes, the step, and the seconds before."""
    ends: list[str] = field(default_factory=list)
    """By rank: how it ends with its last file open, if it does."""
    shapes: list[str] = field(default_factory=list)
    stages: list[list[list[list[Any]]]] = field(default_factory=list)
    """By stage and rank: what it does to a step, or how it looks at it, the step, and the seconds before."""
    before: list[list[list[Any]]] = field(default_factory=list)
    """As for the readers, of a task that reads what the producer has written, before the stages."""
    readers: list[list[list[Any]]] = field(default_factory=list)
    """By rank: a way to look or to read, a step, and after how many further calls what was read is looked at; or
    ``rest``, a way, and steps to read as listings show them."""

    @property
    def pattern(self) -> str:
        return "plt*.h5" if self.hdf5 else "plt*.dat"

    def kinds(self) -> set[str]:
        """What is in it, in words."""
        found = {f"write {call[0]}" for calls in self.writers for call in calls}
        found |= {f"end {end}" for end in self.ends if end}
        found |= {f"stage {call[0]}" for stage in self.stages for calls in stage for call in calls}
        found |= {f"shape {shape}" for shape in self.shapes}
        calls = [call for calls in self.before + self.readers for call in calls]
        found |= {f"read {call[1] if call[0] == 'rest' else call[0]}" for call in calls}
        found |= {"before" for _ in self.before}
        return found | {f"{len(self.stages)} stages", self.mode}


KINDS = {
    *(f"write {way}" for way in WRITTEN | WRITTEN5 | LEFT5 | {"leave": ""}),
    *(f"end {end}" for end in ENDS),
    *(f"stage {way}" for way in STAGED | STAGED5 | {"exists": "", "size": ""}),
    *(f"shape {shape}" for shape in SHAPES),
    *(f"read {way}" for way in READ | READ5 | LATE | LATE5 | LOOKED | {"pause": ""}),
    *(f"{number} stages" for number in range(4)),
    "before",
    *rig.MODES,
}
"""All that is drawn, as `Case.kinds` says it."""


def make(seed: int) -> Case:
    """The case of a seed."""
    draw = random.Random(seed)
    wrong = known.load()

    def right(kinds: dict[str, str]) -> list[str]:
        return [kind for kind, habit in kinds.items() if habit not in wrong]

    stages = draw.choice((0, 0, 0, 0, 1, 1, 2, 3)) if right(SHAPES) else 0
    mode = "memory" if stages else draw.choice(rig.MODES)  # stages pass files on in memory alone
    case = Case(seed, mode, draw.random() < 0.4, draw.randint(2, 12), "")
    if draw.random() < 0.5:
        case.faults = f"seed={seed},delay={draw.choice((1, 5, 20))}ms,chance=0.3"
    writers, readers = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2, 3))
    readers = readers if right(SHARES) else 1
    written, left = (right(WRITTEN5), right(LEFT5)) if case.hdf5 else (right(WRITTEN), right(LEFT))
    read, late = (right(READ5), right(LATE5)) if case.hdf5 else (right(READ), right(LATE))
    for rank in range(writers):
        ways = [
            draw.choice(left if left and draw.random() < 0.2 else written) for _ in range(rank, case.steps, writers)
        ]
        end = draw.choice(right(ENDS)) if ways and right(ENDS) and draw.random() < 0.3 else ""
        ways[-1:] = ["leave"] if end else ways[-1:]
        case.writers.append([[way, rank + n * writers, pause(draw)] for n, way in enumerate(ways)])
        case.ends.append(end)
    steps = list(range(case.steps))
    for _ in range(stages):
        add_stage(draw, case, right(SHAPES), right(STAGED5 if case.hdf5 else STAGED), right(ORDERS))
    shares = [steps] * readers
    if readers > 1 and draw.choice(right(SHARES)) == "each its own":
        shares = [steps[rank::readers] for rank in range(readers)]
    order = draw.choice(right(ORDERS)) if in_row(case) else "as written"
    passes = 2 if right({"two": "pass-two"}) and draw.random() < 0.2 else 1
    state = draw.getstate()
    for share in shares:
        if shares[0] is shares[-1]:
            draw.setstate(state)  # ranks that read all do the same
        asked = in_order(draw, share, order) * passes
        case.readers.append(operations(draw, asked, read, late, right(LOOKED), case, "reversed" in right(ORDERS)))
    if stages and draw.random() < 0.3:
        case.before = [operations(draw, steps, read, late, right(LOOKED), case, "reversed" in right(ORDERS))]
    return case


def in_row(case: Case) -> bool:
    """Whether one process, and one thread of it, brings the steps: others may come late with theirs."""
    return len(case.writers) == 1 and all(shape == "one process" for shape in case.shapes)


def add_stage(draw: random.Random, case: Case, shapes: list[str], ways: list[str], orders: list[str]) -> None:
    """A stage that opens each of the steps, on one of its ranks, or on all, which then change none."""
    steps = in_order(draw, range(case.steps), draw.choice(orders) if in_row(case) and draw.random() < 0.3 else "")
    shape = draw.choice(shapes)
    ranks = draw.choice((2, 3)) if shape.startswith("ranks") else 1
    all_read = shape == "ranks that all read"
    case.shapes.append(shape)
    some = ["looked"] if all_read else draw.sample(ways, draw.randint(1, len(ways)))
    case.stages.append([])
    for rank in range(ranks):
        calls: list[list[Any]] = []
        for k in steps if all_read else steps[rank::ranks]:
            if draw.random() < 0.2:
                calls.append([draw.choice(("exists", "size")), k, pause(draw)])
            calls.append([draw.choice(some), k, pause(draw)])
        case.stages[-1].append(calls)


def pause(draw: random.Random) -> float:
    """Seconds: mostly none."""
    return draw.choice((0, 0, 0, 0.01, 0.05))


def in_order(draw: random.Random, steps: Sequence[int], order: str) -> list[int]:
    """The steps, in an order."""
    found = list(steps)
    if order == "reversed":
        found.reverse()
    elif order == "shuffled":
        draw.shuffle(found)
    elif order == "swapped":
        for k in range(1, len(found), 2):
            found[k - 1], found[k] = found[k], found[k - 1]
    return found


def operations(
    draw: random.Random, steps: list[int], read: list[str], late: list[str], looked: list[str], case: Case, wide: bool
) -> list[list[Any]]:
    """What a rank does to read steps in this order; `wide`: may it wait for what comes only when it has read more?"""
    found: list[list[Any]] = []
    rest: list[int] = []

    def reads(k: int) -> list[Any]:
        if late and draw.random() < 0.3:
            return [draw.choice(late), k, draw.choice((1, 2, 3, 5, 99))]
        return [draw.choice(read), k]

    if "poll" in looked and draw.random() < 0.2 and len(set(steps)) == len(steps):
        cut = draw.randrange(len(steps) + 1)
        steps, rest = steps[:cut], steps[cut:]
    for k in steps:
        if draw.random() < 0.2:
            found.append(["pause", pause(draw)])
        if looked and draw.random() < 0.4:
            look = draw.choice(looked)
            if look != "missing":
                found.append([look, k])
            elif wide or k == steps[-1]:  # it waits for the producer's end
                found.append([look, case.steps + draw.randrange(3)])
        found.append(reads(k))
        if draw.random() < 0.1:
            found.append(reads(k))
    if rest:
        found.append(["rest", reads(0)[0], sorted(rest)])
    return found


def run(case: Case, folder: Path) -> dict[str, str]:
    """Run a case on files and under a workflow; returns the ranks that read something else, with both."""
    files, flow = folder / "files", folder / "flow"
    told = {place: prepare(case, place) for place in (files, flow)}
    programs = {
        "producer": ("write", case.writers),
        **({"before": ("read", case.before)} if case.before else {}),
        **{f"stage{number}": ("stage", ranks) for number, ranks in enumerate(case.stages)},
        "consumer": ("read", case.readers),
    }
    for task, (role, ranks) in programs.items():
        for rank in range(len(ranks)):
            argv = [sys.executable, str(files / f"{role}.py"), task]
            ran = rig.execute(files, "work", argv, env={**told[files], "PMI_RANK": str(rank)})
            assert ran.code == 0, f"seed {case.seed}: rank {rank} of {task} alone\n{ran.told}"
    modes = {} if case.mode == "memory" else {"mode": case.mode}
    tasks = [
        {"name": task, "func": str(flow / f"{role}.py"), "args": [task], "nprocs": len(ranks)}
        | {"cwd": "work", "mpiexec": MPIEXEC}
        | ({} if role == "write" else {"inports": [{"filename": case.pattern}], "rerun": "never"})
        | ({} if role == "read" else {"outports": [{"filename": case.pattern, **modes}]})
        for task, (role, ranks) in programs.items()
    ]
    (flow / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    env = {**told[flow], **(faults(case.faults) if case.faults and LIBRARY.exists() else {})}
    argv = [*WILKINS, "run", "--timeout", f"{_PATIENCE:g}", "workflow.yaml"]
    ran = rig.execute(flow, ".", argv, env=env, limit=_PATIENCE + rig.LIMIT)
    wrong = {}
    for task, (role, ranks) in programs.items():
        for rank, calls in enumerate(ranks if role != "write" else ()):
            in_turn = 0 if role == "stage" else sum(call[0] not in ("pause", "rest") for call in calls)
            one, other = (read_by(place / "got" / f"{task}{rank}", in_turn) for place in (files, flow))
            if one != other:
                wrong[f"rank {rank} of {task}"] = f"read {other}\non files {one}"
    wanted, lies = rig.on_disk(files), dict(ran.disk)
    if case.mode == "memory":
        wanted = {name: what for name, what in wanted.items() if not fnmatch(name, case.pattern)}
    if wanted != lies:
        wrong["the disk"] = f"holds {lies}\non files {wanted}"
    if ran.code != 0:
        wrong["the run"] = f"exit code {ran.code}"
    if wrong:
        wrong["it said"] = ran.told
    return wrong


def prepare(case: Case, place: Path) -> dict[str, str]:
    """Lay out the programs in a new folder; returns the environment that tells them what to do."""
    (place / "work").mkdir(parents=True)
    (place / "got").mkdir()
    for role, program in (("write", WRITES), ("stage", STAGES), ("read", READS)):
        rig.build(rig.py(program), role, place)
    names = {"name": case.pattern.replace("*", "%04d"), "pattern": case.pattern}
    (place / "case.json").write_text(json.dumps(asdict(case) | names))
    return {"HABITS_CASE": str(place / "case.json"), "HABITS_OUT": str(place / "got")}


def read_by(told: Path, in_turn: int) -> list[str]:
    """What a rank read, in words: so much in its order, and then what came by listings, or threads, by name."""
    lines = [rig.in_words(f"= {line}") for line in told.read_text().splitlines()] if told.exists() else []
    return lines[:in_turn] + sorted(lines[in_turn:])
