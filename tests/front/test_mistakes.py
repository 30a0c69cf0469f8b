"""Mistakes that users make: each is named, in the words that docs/guides/mistakes.md quotes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.running import MPIEXEC, OWN_MOUNTS, WILKINS, must_run, run_tree, write_program

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "mistakes.md"
WRITE = """\
import h5py
for step in range(3):
    with h5py.File(f"out{step}.h5", "w") as file:
        file["x"] = [step] * SIZE
"""
READ = """\
import h5py
for step in range(3):
    with h5py.File(f"out{step}.h5") as file:
        print(file["x"][0])
"""
TWO_SERIES = """\
import h5py
for step in range(40):
    for name in "ab":
        with h5py.File(f"{name}{step}.h5", "w") as file:
            file["x"] = [step]
"""
IN_OTHER_ORDER = """\
import h5py
for name in "ba":
    for step in range(40):
        h5py.File(f"{name}{step}.h5").close()
"""
SLEEPER = "import h5py, time\nh5py.File('out0.h5').close()\ntime.sleep(1000)\n"
POLLS = "import os, time\nwhile not os.path.exists('oot0.h5'):\n    time.sleep(0.05)\n"
TWICE = "import h5py\nfor part in 'ab':\n    h5py.File('out0.h5').close()\n"
AGAIN = WRITE.replace("    with", "    for turn in 0, 1:\n      with")
OUT, IN = '[{filename: "out*.h5"}]', '[{filename: "out*.h5"}]'


def pair(writer: str = "./write.py", outports: str = OUT, reader: str = "./read.py", inports: str = IN) -> str:
    return f"tasks:\n  - {{func: {writer}, outports: {outports}}}\n  - {{func: {reader}, inports: {inports}}}\n"


TWO = '[{filename: "a*.h5"}, {filename: "b*.h5"}]'
SLOW = '[{filename: "out*.h5", poll_end: 1}]'
WORKFLOWS = {
    "a misspelt port": pair(outports=OUT.replace("out", "otu")),
    "a pattern that matches the task's own script": pair(outports='[{filename: "w*"}]', inports='[{filename: "w*"}]'),
    "a dataset that the other side does not have": pair(
        outports='[{filename: "out*.h5", dsets: [{name: /x}]}]',
        inports='[{filename: "out*.h5", dsets: [{name: /rho}]}]',
    ),
    "a `publish:` that does not fit the program": pair(outports='[{filename: "out*.h5", publish: 2}]'),
    "a static executable": pair(writer="./static"),
    "too little `/dev/shm`": pair(writer="./large.py"),
    "two series that are read in another order than they are written": pair("./two.py", TWO, "./order.py", TWO),
    "a reader that sleeps, or computes for ever": pair(
        outports='[{filename: "out*.h5", queue: 1}]', reader="./sleeper.py"
    ),
    "a reader that polls for a misspelt name": pair(reader="./polls.py", inports=SLOW),
    "a producer that never writes": pair(writer="./never.py"),
    "a file that is written once and opened twice": pair(reader="./twice.py", inports='[{filename: "out0.h5"}]'),
    "a file that is written twice, of which the first version is read": pair(writer="./again.py"),
    "more ranks than cores": pair().replace("inports", "nprocs: 2, inports"),
}
COMMANDS = {
    "a reader that sleeps, or computes for ever": [*WILKINS, "run", "--timeout", "3"],
    "more ranks than cores": ["taskset", "--cpu-list", f"{min(os.sched_getaffinity(0))}", *WILKINS, "run"],
    "too little `/dev/shm`": [
        *OWN_MOUNTS, "sh", "-c", 'mount -t tmpfs -o size=4m none /dev/shm && exec "$@"', "sh", *WILKINS, "run",
    ],
}  # fmt: skip
GOOD = {"a `publish:` that does not fit the program", "more ranks than cores"}
"""They are told of, and nothing fails."""
NEEDS = {"a static executable": "cc", "too little `/dev/shm`": "tmpfs", "more ranks than cores": MPIEXEC}


def quoted() -> dict[str, str]:
    """By mistake: the words on the page."""
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    return {row[0].removeprefix("| "): re.findall(r'"(.*?)"', row[2])[0] for row in rows}


def test_the_page_has_them_all() -> None:
    assert list(quoted()) == list(WORKFLOWS)


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(one, marks=[pytest.mark.needs(NEEDS[one])] if one in NEEDS else []) for one in WORKFLOWS],
)
def test_a_mistake_is_named(tmp_path: Path, mistake: str) -> None:
    programs = {"write": WRITE.replace("SIZE", "4"), "large": WRITE.replace("SIZE", "1000000"), "read": READ}
    programs |= {"twice": TWICE, "again": AGAIN.replace("SIZE", "4")}
    programs |= {"two": TWO_SERIES, "order": IN_OTHER_ORDER, "sleeper": SLEEPER, "polls": POLLS, "never": "pass\n"}
    for name, text in programs.items():
        write_program(tmp_path / f"{name}.py", text)
    if "static" in mistake:
        (tmp_path / "static.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
        must_run(tmp_path, "cc", "-static", "static.c", "-o", "static")
    (tmp_path / "workflow.yaml").write_text(WORKFLOWS[mistake], encoding="utf-8")
    command = COMMANDS.get(mistake, [*WILKINS, "run"])
    finished = run_tree([*command, "workflow.yaml"], 90, tmp_path)
    said = re.sub(r"\n(wilkins:)? *", " ", finished.out + finished.err)
    words = re.escape(quoted()[mistake]).replace(r"\.\.\.", ".*?")
    assert re.search(words, said), said
    assert (finished.code == 0) == (mistake in GOOD), said
    assert "Traceback" not in finished.err
