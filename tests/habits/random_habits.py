"""Random habits, made from a seed: what ranks of a producer and a consumer do with files, one call after another.

What each rank read under a workflow is compared with what it reads from files after the producer. A habit that is
known to be read wrongly (`known.yaml`) is left out; so these programs do more, the less is known to be wrong.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml
from habits import known, rig
from hooks import LIBRARY, faults

from support import MPIEXEC, WILKINS

PROGRAM = """
import glob, json, mmap, os, shutil, subprocess, time
rank = int(os.environ.get("PMI_RANK", "0"))
case = json.load(open(os.environ["HABITS_CASE"]))
def name_of(k):
    return case["name"] % k
"""

WRITES = (
    PROGRAM
    + """
def plain(name, k):
    with open(name, "wb") as file:
        file.write(text(k)[:700])
        file.write(text(k)[700:])
def hdf5(name, k):
    put5(name, k)
def rename(name, k):
    put(f"draft{rank}", k)
    os.replace(f"draft{rank}", name)
def mapped(name, k):
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(fd, len(text(k)))
    with mmap.mmap(fd, len(text(k))) as memory:
        memory[:] = text(k)
    os.close(fd)
def duplicated(name, k):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    other = os.dup(fd)
    os.write(fd, text(k)[:99])
    os.close(fd)
    os.write(other, text(k)[99:])
    os.close(other)
def backwards(name, k):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.pwrite(fd, text(k)[1000:], 1000)
    os.pwrite(fd, text(k)[:1000], 0)
    os.close(fd)
def child(name, k):
    with open(name, "wb") as file:
        subprocess.run(["seq", str(k), str(k + 999)], stdout=file, check=True)
def redirected(name, k):
    subprocess.run(["sh", "-c", f"seq {k} {k + 999} > {name}"], check=True)
def copied(name, k):
    put(f"draft{rank}", k)
    subprocess.run(["cp", f"draft{rank}", name], check=True)
    os.remove(f"draft{rank}")
def linked(name, k):
    put(f"draft{rank}", k)
    os.link(f"draft{rank}", name)
    os.remove(f"draft{rank}")
for way, k, pause in case["writers"][rank]:
    time.sleep(pause)
    globals()[way](name_of(k), k)
"""
)

READS = (
    PROGRAM
    + """
out = open(os.path.join(os.environ["HABITS_OUT"], str(rank)), "a")
def told(*words):
    print(*words, file=out, flush=True)
def shown(name, data):
    told(name, cksum(data))
def plain(name):
    with open(name, "rb") as file:
        shown(name, file.read())
def hdf5(name):
    import h5py
    with h5py.File(name) as file:
        shown(name, "".join(f"{number}\\n" for number in file["x"][()]).encode())
def mapped(name):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        shown(name, memory[:])
def positioned(name):
    fd = os.open(name, os.O_RDONLY)
    size = os.fstat(fd).st_size
    shown(name, os.pread(fd, 500, 0) + os.pread(fd, size, 500))
    os.close(fd)
def cat(name):
    shown(name, subprocess.run(["cat", name], capture_output=True, check=True).stdout)
def stdin(name):
    with open(name, "rb") as file:
        shown(name, subprocess.run(["cat"], stdin=file, capture_output=True, check=True).stdout)
def copied(name):
    subprocess.run(["cp", name, f"mine{rank}"], check=True)
    with open(f"mine{rank}", "rb") as file:
        shown(name, file.read())
    os.remove(f"mine{rank}")
def exists(name):
    told(name, os.path.exists(name))
def access(name):
    told(name, os.access(name, os.R_OK))
def size(name):
    told(name, os.stat(name).st_size > 0)
def poll(name):
    while not os.path.exists(name):
        time.sleep(0.005)
    told(name, "is there")
def missing(name):
    try:
        open(name, "rb").close()
        told(name, "is there")
    except FileNotFoundError:
        told(name, "is missing")
for operation in case["readers"][rank]:
    if operation[0] == "pause":
        time.sleep(operation[1])
    elif operation[0] == "rest":
        left = {name_of(k) for k in operation[2]}
        while left:
            for name in sorted(left & set(glob.glob(case["pattern"]))):
                globals()[operation[1]](name)
                left.remove(name)
            time.sleep(0.005)
    else:
        globals()[operation[0]](name_of(operation[1]))
"""
)

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
READ = {
    "plain": "order-as-written",
    "mapped": "descriptor-read-mmap",
    "positioned": "descriptor-read-pread-backwards",
    "cat": "process-check-output-cat",
    "stdin": "process-child-reads-stdin",
    "copied": "redirect-read-cp",
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
    readers: list[list[list[Any]]] = field(default_factory=list)
    """By rank: a way to look or to read, and a step; or ``rest``, a way, and steps to read as listings show them."""

    @property
    def pattern(self) -> str:
        return "plt*.h5" if self.hdf5 else "plt*.dat"


def make(seed: int) -> Case:
    """The case of a seed."""
    draw = random.Random(seed)
    mode = draw.choice(rig.MODES)
    wrong = known.load()

    def right(kinds: dict[str, str]) -> list[str]:
        return [kind for kind, habit in kinds.items() if habit not in wrong]

    case = Case(seed, mode, draw.random() < 0.3, draw.randint(2, 12), "")
    if draw.random() < 0.5:
        case.faults = f"seed={seed},delay={draw.choice((1, 5, 20))}ms,chance=0.3"
    writers, readers = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2, 3))
    readers = readers if right(SHARES) else 1
    written = ["hdf5"] if case.hdf5 else right(WRITTEN)
    read = ["hdf5"] if case.hdf5 else right(READ)
    case.writers = [
        [[draw.choice(written), k, pause(draw)] for k in range(rank, case.steps, writers)] for rank in range(writers)
    ]
    steps = list(range(case.steps))
    shares = [steps] * readers
    if readers > 1 and draw.choice(right(SHARES)) == "each its own":
        shares = [steps[rank::readers] for rank in range(readers)]
    order = draw.choice(right(ORDERS)) if writers == 1 else "as written"
    passes = 2 if right({"two": "pass-two"}) and draw.random() < 0.2 else 1
    state = draw.getstate()
    for share in shares:
        if shares[0] is shares[-1]:
            draw.setstate(state)  # ranks that read all do the same
        asked = in_order(draw, share, order) * passes
        case.readers.append(operations(draw, asked, read, right(LOOKED), case, "reversed" in right(ORDERS)))
    return case


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
    draw: random.Random, steps: list[int], read: list[str], looked: list[str], case: Case, wide: bool
) -> list[list[Any]]:
    """What a rank does to read steps in this order; `wide`: may it wait for what comes only when it has read more?"""
    found: list[list[Any]] = []
    rest: list[int] = []
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
        found.append([draw.choice(read), k])
        if draw.random() < 0.1:
            found.append([draw.choice(read), k])
    if rest:
        found.append(["rest", draw.choice(read), sorted(rest)])
    return found


def run(case: Case, folder: Path) -> dict[str, str]:
    """Run a case on files and under a workflow; returns the ranks that read something else, with both."""
    files, flow = folder / "files", folder / "flow"
    told = {place: prepare(case, place) for place in (files, flow)}
    for role, ranks in (("write", case.writers), ("read", case.readers)):
        for rank in range(len(ranks)):
            argv = [sys.executable, str(files / f"{role}.py")]
            ran = rig.execute(files, "work", argv, env={**told[files], "PMI_RANK": str(rank)})
            assert ran.code == 0, f"seed {case.seed}: rank {rank} of {role} alone\n{ran.told}"
    task = {"cwd": "work", "mpiexec": MPIEXEC}
    modes = {} if case.mode == "memory" else {"mode": case.mode}
    tasks = [
        {"name": "producer", "func": str(flow / "write.py"), "nprocs": len(case.writers)}
        | task
        | {"outports": [{"filename": case.pattern, **modes}]},
        {"name": "consumer", "func": str(flow / "read.py"), "nprocs": len(case.readers), "rerun": "never"}
        | task
        | {"inports": [{"filename": case.pattern}]},
    ]
    (flow / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    env = {**told[flow], **(faults(case.faults) if case.faults and LIBRARY.exists() else {})}
    ran = rig.execute(flow, ".", [*WILKINS, "run", "--timeout", f"{rig.LIMIT / 2:g}", "workflow.yaml"], env=env)
    wrong = {}
    for rank, calls in enumerate(case.readers):
        one, other = (read_by(place, rank, calls) for place in (files, flow))
        if one != other:
            wrong[f"rank {rank}"] = f"read {other}\non files {one}"
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
    for role, program in (("write", WRITES), ("read", READS)):
        rig.build(rig.py(program), role, place)
    text = {
        "name": case.pattern.replace("*", "%04d"),
        "pattern": case.pattern,
        "writers": case.writers,
        "readers": case.readers,
    }
    (place / "case.json").write_text(json.dumps(text))
    return {"HABITS_CASE": str(place / "case.json"), "HABITS_OUT": str(place / "got")}


def read_by(place: Path, rank: int, calls: Sequence[Sequence[Any]]) -> list[str]:
    """What a rank read, in words; what listings showed it comes last, in the order of names."""
    told = place / "got" / str(rank)
    lines = [rig.in_words(f"= {line}") for line in told.read_text().splitlines()] if told.exists() else []
    before = sum(call[0] not in ("pause", "rest") for call in calls)
    return lines[:before] + sorted(lines[before:])
