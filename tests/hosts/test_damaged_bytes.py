"""What is damaged on its way between hosts is asked for again, or ends the run; nobody reads it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.test_partly_read import MAKES, READS_SOME, pair
from hosts.test_tasks_of_several_hosts import all_have_read, on_this_machine, together

from support.hooks import faults
from support.running import WILKINS, Finished, run_tree, write_program

pytestmark = [pytest.mark.needs("hooks"), pytest.mark.timeout(150)]

SOME = """
tasks:
  - {func: ./makes.py, outports: [{filename: "f*.h5"}]}
  - {func: ./reads.py, args: ["7"], inports: [{filename: "f*.h5"}]}
"""
NOTE = "were damaged on their way from"
OWNED = re.compile(rf"bytes of '\S+' \((dataset|datasets|metadata) ([^()]*)\) {NOTE}")


def unwrapped(said: str) -> str:
    return re.sub(r"\n(wilkins:)? *", " ", said)


def run(folder: Path, workflow: str, what: str, hosts: str = "a:1,b:1") -> Finished:
    (folder / "workflow.yaml").write_text(workflow)
    words = [*WILKINS, "run", "--hosts", hosts, "workflow.yaml"]
    return run_tree(words, 90, folder, {"WILKINS_RSH": str(pseudo.HERE), **faults(what)})


def whose(folder: Path) -> set[str]:
    """What the notes name, each of which names something."""
    notes = [line for line in (folder / "wilkins-runs/latest/layer.log").read_text().splitlines() if NOTE in line]
    found = [match for line in notes if (match := OWNED.search(line))]
    assert notes
    assert len(found) == len(notes), notes
    return {name for match in found for name in re.findall(r"'([^']*)'", match[2]) or ["metadata"]}


def says_why(folder: Path, failed: Finished) -> bool:
    """In the report, or in the log of the relay that it names."""
    logs = [file.read_text() for file in folder.glob("wilkins-runs/*/hosts/*/*.log")]
    return any("checksum shows" in unwrapped(said) for said in (failed.err, *logs))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 12))])
def test_damaged_pieces_of_steps_are_asked_for_again(tmp_path: Path, seed: int) -> None:
    """Whole steps, and what a reader draws at random of larger ones; both programs compare what they read."""
    pseudo.programs(tmp_path)
    done = run(tmp_path, pair(12, 3_000_000, 1), f"seed={seed},flip=0.05")
    assert done.code == 0, done.err
    assert NOTE in unwrapped(done.err)
    assert whose(tmp_path) <= {"metadata", "/x"}
    some = tmp_path / "some"
    some.mkdir()
    for name, text in (("makes.py", MAKES), ("reads.py", READS_SOME)):
        write_program(some / name, text.format(python=sys.executable))
    done = run(some, SOME, f"seed={seed},flip=0.05")
    assert done.code == 0, done.err
    assert "all right" in done.out
    assert NOTE in unwrapped(done.err)
    assert whose(some) <= {"metadata", "/plain", "/chunked", "/packed"}
    assert "::ffff:" not in done.err, "an address of IPv4"


PACKED = """
tasks:
  - {func: ./makes.py, outports: [{filename: "f*.h5", compress: [{dset: "*"}]}]}
  - {func: ./reads.py, args: ["7"], inports: [{filename: "f*.h5"}]}
"""


@pytest.mark.usual("0.15")
@pytest.mark.parametrize("part", [0.15, 0.6])
def test_only_what_is_damaged_is_asked_for_again(tmp_path: Path, part: float) -> None:
    """Of 92 pieces of each step, some are always damaged: were all asked for again, no round would bring the step."""
    pseudo.programs(tmp_path)
    done = run(tmp_path, pair(4, 24_000_000, 1), f"seed=5,flip={part}")
    assert done.code == 0, done.err
    assert whose(tmp_path) <= {"metadata", "/x"}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_of_packed_steps_damaged_pieces_come_unpacked(tmp_path: Path, seed: int) -> None:
    for name, text in (("makes.py", MAKES), ("reads.py", READS_SOME)):
        write_program(tmp_path / name, text.format(python=sys.executable))
    done = run(tmp_path, PACKED, f"seed={seed},flip=0.3")
    assert done.code == 0, done.err
    assert "all right" in done.out
    assert whose(tmp_path) <= {"metadata", "/plain", "/chunked", "/packed"}


@pytest.mark.usual("flip=1")
@pytest.mark.parametrize("what", ["flip=1", "flip-words=0.2"])
def test_damage_without_end_ends_the_run(tmp_path: Path, what: str) -> None:
    """Messages are not asked for again: then it is a relay that fails, and says so in its log."""
    pseudo.programs(tmp_path)
    done = run(tmp_path, pair(12, 3_000_000, 1), what)
    assert done.code == 1
    assert says_why(tmp_path, done), done.err


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(8))
def test_what_ranks_on_several_hosts_read_is_right_or_the_run_fails(tmp_path: Path, seed: int) -> None:
    """What they write to another host and is damaged cannot be asked for again."""
    together(tmp_path, "mpich")
    what = f"seed={seed},flip={(0.001, 0.02)[seed % 2]}" + (",flip-words=0.001" if seed % 4 > 1 else "")
    done = on_this_machine(tmp_path, "a:4,b:4,c:4", environment=faults(what))
    if done.code == 0:
        all_have_read(done, 6)
    else:
        assert says_why(tmp_path, done), done.err
