"""Readers on other hosts that read any parts of steps, and keep some open, see what was written, however it comes."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hosts import pseudo

from support.hooks import faults
from support.running import WILKINS, run_tree, write_program

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(120), pytest.mark.needs("hooks")]

STEPS = 40
WRITE = """#!{python}
import random, sys, time
import h5py, numpy
draw = random.Random(int(sys.argv[1]))
usual, *sizes = draw.choices([250, 4000, 50_000, 190_000], k={steps} + 1)
for step, size in enumerate(sizes):
    with h5py.File(f"f{{step}}.h5", "w") as file:
        for one in range(4):
            file[f"d{{one}}"] = numpy.arange(size if draw.random() < 0.3 else usual) + step * 1_000_003 + one * 7
        file.attrs["step"] = step
    time.sleep(0.1 * draw.random() * (draw.random() < 0.1))
"""
READ = """#!{python}
import random, sys, time
import h5py, numpy
from wilkins.transport import steps
draw = random.Random(sys.argv[1])
habit = draw.choice(["begin", "same", "random", "all", "any"])
keeps, pause = draw.choice([0, 1, 3, 6]), draw.choice([0, 0, 0.02])


def see(file, one, begin, end):
    size = len(file[f"d{{one}}"])
    expected = numpy.arange(size)[begin:end] + file.attrs["step"] * 1_000_003 + one * 7
    assert numpy.array_equal(file[f"d{{one}}"][begin:end], expected), (file.filename, one, begin, end)


def look(file):
    what = draw.choice(["begin", "same", "random", "all"]) if habit == "any" else habit
    size = min(len(file[f"d{{one}}"]) for one in range(4))
    if what == "begin":
        see(file, 0, 0, 10)
    elif what == "same":
        see(file, 1, size // 3, size // 2)
        see(file, 2, 0, 5)
    elif what == "random":
        for _ in range(draw.randrange(1, 5)):
            begin = draw.randrange(size)
            see(file, draw.randrange(4), begin, begin + draw.randrange(1, size))
    else:
        for one in range(4):
            see(file, one, 0, None)


kept = []
for count, name in enumerate(steps.names(), 1):
    kept.append(h5py.File(name))
    look(kept[-1])
    look(draw.choice(kept))
    while len(kept) > keeps:
        look(kept[0])
        kept.pop(0).close()
    time.sleep(pause)
print("read", count)
"""
WORKFLOW = """
tasks:
  - {{func: ./write.py, args: ["{seed}"], outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./read.py, taskCount: {readers}, args: ["{seed}-{{instance}}"],
      inports: [{{filename: "f*.h5", flow: {{queue: {queue}}}}}]}}
"""


@pytest.mark.parametrize("seed", range(24))
def test_all_see_what_was_written(tmp_path: Path, seed: int) -> None:
    """With 1 to 5 readers, each on a host, and queues of 1 to 8; late, damaged, encrypted, or none of these."""
    draw = random.Random(seed)
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(tmp_path / name, text.format(python=sys.executable, steps=STEPS))
    readers = draw.choice([1, 2, 3, 5])
    text = WORKFLOW.format(seed=seed, readers=readers, queue=draw.choice([1, 2, 4, 8]))
    (tmp_path / "workflow.yaml").write_text(text)
    what = draw.choice(["", "delay=2ms", "flip=0.02"])
    options = draw.choice([[], [], ["--encrypt"]])
    env = {"WILKINS_RSH": str(pseudo.HERE), **(faults(f"seed={seed},{what}") if what else {})}
    hosts = ",".join(f"{name}:1" for name in "abcdef"[: readers + 1])
    done = run_tree([*WILKINS, "run", *options, "--hosts", hosts, "workflow.yaml"], 100, tmp_path, env)
    assert done.code == 0, done.err
    assert done.out.count(f"read {STEPS}") == readers
