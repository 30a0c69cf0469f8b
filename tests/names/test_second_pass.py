"""Programs look at, list and read files again: they are there, or the run says what keeps them."""

from __future__ import annotations

import pytest

from support.small_workflows import Workflow

WRITE = """
import sys
for k in range(6):
    with open(f"plt{k}.dat", "wb") as file:
        file.write(bytes([k]) * int(sys.argv[1]))
"""
READ = """
import glob, os, sys
NAMES = [f"plt{k}.dat" for k in range(6)]
def read(name):
    with open(name, "rb") as file:
        return file.read(1)[0]
first = [read(name) for name in NAMES]
print("first", *first)
"""
LOOKS = READ + 'print("again", *(read(name) for name in NAMES if os.path.exists(name)))'
LOOKS_ONLY = READ + 'print("again", *(k for k, name in enumerate(NAMES) if os.path.exists(name)))'
COUNTS = READ + 'print("again", *(int(name[3]) for name in sorted(glob.glob("plt*.dat"))))'
LISTS = (
    'import glob; glob.glob("plt*.dat")'
    + READ
    + 'print("again", *(read(name) for name in sorted(glob.glob("plt*.dat"))))'
)
FOLLOWS = """
import glob, time
seen = []
while len(seen) < 6:
    for name in sorted(set(glob.glob("plt*.dat")) - set(seen)):
        for _ in range(2):
            with open(name, "rb") as file:
                file.read()
        seen.append(name)
    time.sleep(0.01)
print("seen", *seen)
"""
REMOVES = """
import os
NAMES = [f"plt{k}.dat" for k in range(6)]
for name in NAMES:
    with open(name, "rb") as file:
        file.read()
    os.remove(name)
print("left", *(name for name in NAMES if os.path.exists(name)))
"""
LARGE = 3 << 20
"""Bytes: of these, two fit into what a source retains by itself."""

PASSES = [LOOKS, LOOKS_ONLY, COUNTS, LISTS]


def run(flow: Workflow, reads: str, size: int, **port: object) -> tuple[list[str], str]:
    """What the reader says of its first pass and of its second, and what the run says."""
    flow.task("writer", WRITE.replace("sys.argv[1]", str(size)), outports=[{"filename": "plt*.dat"}])
    flow.task("reader", reads, inports=[{"filename": "plt*.dat", **port}])
    done = flow.run()
    log = (flow.folder / "wilkins-runs" / "latest" / "reader.log").read_text()
    return log.splitlines(), done.err


@pytest.mark.usual("reads0", "reads2", also_between_hosts=["reads1", "reads3"])
@pytest.mark.parametrize("reads", PASSES)
def test_small_files_are_there_again(flow: Workflow, reads: str) -> None:
    """Also while their producer could yet begin another file."""
    said, err = run(flow, reads, 10)
    assert said == ["first 0 1 2 3 4 5", "again 0 1 2 3 4 5"]
    assert "hint" not in err


@pytest.mark.usual("reads0", "reads2", also_between_hosts=["reads1", "reads3"])
@pytest.mark.parametrize("reads", PASSES)
def test_large_files_of_which_some_are_gone_are_told(flow: Workflow, reads: str) -> None:
    said, err = run(flow, reads, LARGE)
    assert said[0] == "first 0 1 2 3 4 5"
    assert said[1] != "again 0 1 2 3 4 5" and said[1].startswith("again") and said[1].endswith("5")
    assert err.count("hint: task 'reader'") == 1 and "'reorder: 6'" in " ".join(err.split())


@pytest.mark.usual("reads0", "reads2", also_between_hosts=["reads1", "reads3"])
@pytest.mark.parametrize("reads", PASSES)
def test_large_files_stay_as_the_port_says(flow: Workflow, reads: str) -> None:
    said, err = run(flow, reads, LARGE, reorder=6)
    assert said == ["first 0 1 2 3 4 5", "again 0 1 2 3 4 5"]
    assert "hint" not in err


def test_who_follows_a_stream_by_listings_is_told_nothing(flow: Workflow) -> None:
    said, err = run(flow, FOLLOWS, LARGE)
    assert said == ["seen plt0.dat plt1.dat plt2.dat plt3.dat plt4.dat plt5.dat"]
    assert "hint" not in err


def test_who_removes_what_it_has_read_is_told_nothing(flow: Workflow) -> None:
    said, err = run(flow, REMOVES, LARGE)
    assert said == ["left"]
    assert "hint" not in err
