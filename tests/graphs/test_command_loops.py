"""Loops side by side that read all files between them, each in order, by commands, threads and processes as drawn.

One of them can always go on, so nothing may be let go for another that waits. ``WILKINS_TEST_SEED`` gives others.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program

FILES = 24
SEEDS = 40

COMMANDS = (
    "cat NAME",
    "head -1 NAME",
    "cat < NAME",
    "sh -c 'cat NAME'",
    """python3 -S -c 'print(open("NAME").read(), end="")'""",
)
CALLS = (
    "subprocess.run(['cat', name])",
    "os.system(f'cat {name}')",
    "say(subprocess.check_output(['cat', name], text=True))",
    "say(os.popen(f'cat {name}').read())",
    "say(open(name).read())",
    "say(open(name).read()) if k % 2 else subprocess.run(['cat', name])",
)
PYTHON = """#!/usr/bin/env python3
import asyncio, multiprocessing, os, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor
loops = LOOPS
def say(text):
    os.write(1, text.encode())
def read(k):
    name = f"f{k:02}.txt"
    CALL
    time.sleep(PAUSE)
def read_all(numbers):
    for k in numbers:
        read(k)
async def run_all(numbers):
    for k in numbers:
        await (await asyncio.create_subprocess_exec("cat", f"f{k:02}.txt")).wait()
async def run_loops():
    await asyncio.gather(*map(run_all, loops))
def together(kind):
    each = [kind(target=read_all, args=[numbers]) for numbers in loops]
    for one in each:
        one.start()
    for one in each:
        one.join()
if __name__ == "__main__":
    WAY
"""
WAYS = (
    "together(threading.Thread)",
    "together(multiprocessing.Process)",
    f"list(ThreadPoolExecutor(len(loops)).map(read, range({FILES})))",
    "asyncio.run(run_loops())",
)


def in_shell(loops: list[list[int]], chance: random.Random, pause: float) -> str:
    command = chance.choice(COMMANDS)
    sleep = f"sleep {pause}; " if pause else ""
    each = "; ".join if chance.random() < 0.5 else " | cat; ".join
    bodies = [each([*(command.replace("NAME", f"f{k:02}.txt") for k in numbers), "true"]) for numbers in loops]
    way = chance.choice(["group", "shell", "xargs", "python"])
    if way == "xargs":
        return f"seq -w 0 {FILES - 1} | xargs -P {len(loops)} -I K cat fK.txt\n"
    if way == "python":
        starts = "import subprocess; [subprocess.run(['cat', f'f{k:02}.txt']) for k in NUMBERS]"
        return "".join(f'python3 -c "{starts.replace("NUMBERS", str(numbers))}" &\n' for numbers in loops) + "wait\n"
    if way == "shell":
        names = [f"loop{k}.sh" for k in range(len(loops))]
        texts = "".join(f"cat > {name} <<'END'\n{body}\nEND\n" for name, body in zip(names, bodies, strict=True))
        return texts + "".join(f"bash {name} &\n" for name in names) + "wait\n"
    return "".join(f"({sleep}{body}) &\n" for body in bodies) + "wait\n"


def draw(seed: int) -> tuple[str, float, int]:
    """A program that reads all, how long its producer pauses, and the in-port's `reorder`."""
    chance = random.Random(seed)
    loops: list[list[int]] = [[] for _ in range(chance.choice([2, 2, 3, 4]))]
    if chance.random() < 0.4:
        cuts = [0, *sorted(chance.sample(range(1, FILES), len(loops) - 1)), FILES]
        loops = [list(range(*both)) for both in itertools.pairwise(cuts)]
    else:
        for k in range(FILES):
            chance.choice(loops).append(k)
    chance.shuffle(loops)
    pause = chance.choice([0, 0.02, 0.05])
    if chance.random() < 0.5:
        text = "#!/bin/bash\n" + in_shell(loops, chance, pause)
    else:
        text = PYTHON.replace("LOOPS", str(loops)).replace("CALL", chance.choice(CALLS))
        text = text.replace("PAUSE", str(pause)).replace("WAY", chance.choice(WAYS))
    return text, chance.choice([0, 0, 0.01]), chance.choice([1, 4, 8])


FIRST = SEEDS * int(os.environ.get("WILKINS_TEST_SEED", "0"))


@pytest.mark.parametrize(
    "seed", [FIRST, *(pytest.param(FIRST + k, marks=pytest.mark.nightly) for k in range(1, SEEDS))]
)
def test_loops_side_by_side_lose_nothing(tmp_path: Path, seed: int) -> None:
    text, pause, reorder = draw(seed)
    write_program(tmp_path / "reads", text)
    (tmp_path / "writes.py").write_text(f"""
import time
for k in range({FILES}):
    with open(f"f{{k:02}}.txt", "w") as file:
        file.write(f"number {{k}}\\n")
    time.sleep({pause})
""")
    (tmp_path / "workflow.yaml").write_text(f"""tasks:
  - {{func: writes.py, outports: [{{filename: "f*.txt"}}]}}
  - {{func: ./reads, inports: [{{filename: "f*.txt", reorder: {reorder}}}], rerun: never}}
""")
    ran = run_tree([*WILKINS, "run", "--timeout", "30", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, text + ran.out + ran.err
    read = sorted(map(int, re.findall(r"number (\d+)", ran.out)))
    assert read == list(range(FILES)), text + ran.out + ran.err
