"""Random workflows whose programs are killed at random moments, and started again: every step reaches every reader.

`WILKINS_TEST_FAILURES` says how many are tried, `WILKINS_TEST_SEED` which.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.running import WILKINS, Tree, processes_in, started_tree

CASES = int(os.environ.get("WILKINS_TEST_FAILURES", "60"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "0"))
LIMIT = 120

PROGRAMS = {
    "simulate": """\
import sys, time
import h5py
name, last, checkpoints, again = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "again"
first = 0
if len(sys.argv) > 5:
    with h5py.File(sys.argv[5]) as file:
        first = int(file.attrs["step"])
for step in range(first, last):
    time.sleep(0.03)
    with h5py.File(name.replace("#", f"{step:04}"), "w") as file:
        file["u"] = [float(step)] * 500
    if again:
        with h5py.File(name.replace("#", f"{step:04}"), "a") as file:
            file["w"] = [1.0]
    if checkpoints != "none" and step % 5 == 4:
        with h5py.File(f"{checkpoints}-{step + 1:04}.h5", "w") as file:
            file.attrs["step"] = step + 1
""",
    "loop": """\
import sys, time
import h5py
from wilkins.transport import steps
pattern, times, out, hands_on = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
for name in steps.names(pattern):
    for _ in range(times):
        with h5py.File(name) as file:
            value = file["u"][0]
    time.sleep(0.01)
    for begin in hands_on:
        with h5py.File(begin + name, "w") as file:
            file["u"] = [value]
    with open(out, "a") as told:
        print(name, int(value), file=told)
""",
    "one_name": """\
import sys
import h5py
while True:
    with h5py.File(sys.argv[1]) as file:
        value = file["u"][0]
    with open(sys.argv[2], "a") as told:
        print(sys.argv[1], int(value), file=told)
""",
    "each": """\
import sys
import h5py
with h5py.File(sys.argv[1]) as file:
    value = file["u"][0]
with open(sys.argv[2], "a") as told:
    print(sys.argv[1], int(value), file=told)
""",
}
RESTART = "    on_failure: restart\n    retry_delay: 20ms\n    retries: 20\n"


class Case:
    """A workflow, and which steps each of its readers is to get."""

    def __init__(self, rng: random.Random) -> None:
        self.last = rng.randint(10, 25)
        self.tasks: list[str] = []
        self.words: list[tuple[str, str]] = []
        """Of each task, its program, and what it alone writes: so its processes are told from all others."""
        self.readers: dict[str, tuple[int, list[str]]] = {}
        """By the file that it writes: the n of its every n-th step, and the names of the streams, without numbers."""
        self.text = "tasks:\n"
        names = (
            ["state.h5"] if rng.random() < 0.3 else [f"s{number}-#.h5" for number in range(rng.choice([1, 1, 2, 3]))]
        )
        rests = rng.random() < 0.3
        for number, name in enumerate(names):
            self._producer(rng, number, name, rests=rests)
        for number in range(rng.choice([1, 2])):
            self._reader(rng, number, names)

    def _task(self, name: str, program: str, args: list[str], writes: str, more: str) -> None:
        self.tasks.append(name)
        self.words.append((program, writes))
        self.text += f"  - func: {program}.py\n    name: {name}\n    args: {args}\n{more}{RESTART}"

    def _producer(self, rng: random.Random, number: int, name: str, *, rests: bool) -> None:
        checkpoints = rng.choice([f"chk{number}", "none"])
        args = [name, str(self.last), checkpoints, "again" if rests else "once"]
        publish = ", publish: next" if rests else ""
        mode, queue = rng.choice(["memory", "memory", "both"]), rng.choice([1, 2, 4])
        pattern = name.replace("#", "*")
        more = f'    outports: [{{filename: "{pattern}", mode: {mode}, queue: {queue}{publish}}}]\n'
        if checkpoints != "none":
            more += f'    restart: {{files: "{checkpoints}-*.h5", args: {[*args, "{file}"]}}}\n'
        self._task(f"sim{number}", "simulate", args, name, more)

    def _reader(self, rng: random.Random, number: int, names: list[str]) -> None:
        every, out = rng.choice([1, 1, 1, 2, 3]), f"out{number}"
        streams = [name.partition("#")[0] for name in names]
        self.readers[out] = (every, streams)
        pattern = "state.h5" if names == ["state.h5"] else "s*-*.h5"
        port = f'    inports: [{{filename: "{pattern}"{f", io_freq: {every}" if every > 1 else ""}}}]\n'
        if pattern == "state.h5":
            self._task(f"r{number}", "one_name", [pattern, out], out, f"{port}    restart: each-step\n")
            return
        if rng.random() < 0.4:
            self._task(f"r{number}", "each", ["{filename}", out], out, port)
            return
        hands_on = [f"h{number}-"] if rng.random() < 0.5 else []
        if hands_on:
            port += f'    outports: [{{filename: "h{number}-*.h5"}}]\n'
        args = [pattern, str(rng.choice([1, 2])), out, *hands_on]
        self._task(f"r{number}", "loop", args, out, f"{port}    restart: each-step\n")
        if hands_on:
            self.readers[f"last{number}"] = (every, [f"h{number}-{name}" for name in streams])
            last = [f"h{number}-*.h5", f"last{number}"]
            port = f'    inports: [{{filename: "h{number}-*.h5"}}]\n'
            self._task(f"last{number}", "loop", [last[0], "1", last[1]], last[1], f"{port}    restart: each-step\n")


def _kill(tree: Tree, program: str, writes: str, after_s: float) -> bool:
    """Kill a task's program at a moment, or as soon as it is there; whether it ever was."""
    until = time.monotonic() + after_s
    while tree.process.poll() is None:
        time.sleep(0.005)
        for pid in processes_in(tree.folder) if time.monotonic() >= until else ():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                coupled = b"WILKINS_TASK=" in Path(f"/proc/{pid}/environ").read_bytes()
                if coupled and writes in words and any(word.endswith(f"/{program}.py") for word in words):
                    os.kill(pid, signal.SIGKILL)
                    return True
    return False


def every_step_reaches_every_reader(folder: Path, number: int, **env: str) -> None:
    """Kill programs of a random workflow, and see to it that each reader gets its steps all the same."""
    rng = random.Random(f"{SEED} {number}")
    case = Case(rng)
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "workflow.yaml").write_text(case.text)
    killed: list[str] = []
    with started_tree([*WILKINS, "run"], folder, env) as tree:
        for _ in range(rng.choice([1, 2, 3])):
            victim, after_s = rng.randrange(len(case.tasks)), rng.uniform(0.1, 1.2)
            if _kill(tree, *case.words[victim], after_s):
                killed.append(case.tasks[victim])
        done = tree.wait(LIMIT)
        told = f"case {number} of seed {SEED}, killed {killed}\n{case.text}\n{tree.told()}"
    print(f"killed {killed}")
    assert done.code == 0, told
    for out, (every, streams) in case.readers.items():
        lines = [line.split() for line in (folder / out).read_text().splitlines()]
        for stream in streams:
            got = [int(value) for name, value in lines if name.startswith(stream)]
            assert sorted(set(got)) == list(range(case.last))[every - 1 :: every], (out, stream, told)
            # A reader that was killed at the end of a step may have told of it twice.
            assert len(got) - len(set(got)) <= len(killed), (out, stream, told)


@pytest.mark.nightly
@pytest.mark.timeout(2 * LIMIT)
@pytest.mark.parametrize("number", range(CASES))
def test_every_step_reaches_every_reader(tmp_path: Path, number: int) -> None:
    every_step_reaches_every_reader(tmp_path, number)
