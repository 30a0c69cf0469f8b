"""The rig of habits sees what differs: steps that are lost, doubled, empty or in another order, and files on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from habits import common, known, rig
from habits.prelude import cksum, text
from habits.rig import Habit, Ran, Refusal, Stage, py

pytestmark = pytest.mark.rig
HABIT = Habit("any", common.BYTES, common.READS)
ALONE = Ran(0, ("a=#0", "b=#1"), "", {"plt0.dat": "#0", "mine": "#0"}, {"plt0.dat": "#0"})
FLOW = replace(ALONE, disk={"mine": "#0"}, wrote={})


def channel(published: int, read: int, **others: int) -> dict[str, int]:
    """A line of a run's account."""
    return {"published": published, "read": read, "skipped": 0, "dropped": 0, "let_go": 0, "unread": 0, **others}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "same"),
        ({"lines": ("a=#0",)}, "lost b=#1"),
        ({"lines": ("a=#0", "b=#1", "b=#1")}, "read instead b=#1"),
        ({"lines": ("a=#0", "b=empty")}, "lost b=#1; read instead b=empty"),
        ({"lines": ("b=#1", "a=#0")}, "in another order: b=#1, a=#0"),
        ({"code": 1}, "exit code 1"),
        ({"code": None}, "did not end"),
        ({"disk": {}}, "on disk mine is nothing (alone: #0)"),
        ({"disk": {"mine": "#0", "plt0.dat": "#0"}}, "on disk plt0.dat is #0 (alone: nothing)"),
        ({"lines": ("a=#0",), "channels": [channel(2, 2)]}, "lost b=#1; and the account tells of no steps"),
        ({"lines": ("a=#0",), "channels": [channel(2, 1, unread=1)]}, "lost b=#1; and the account tells of 1 steps"),
        ({"channels": [channel(2, 1, let_go=1)]}, "the account tells of 1 steps that were not read, and all were"),
    ],
)
def test_what_differs_is_said(changes: dict[str, Any], told: str) -> None:
    found = rig.judge(HABIT, ALONE, replace(FLOW, **changes), "memory")
    assert found.startswith(told)
    assert (found == "same") == (told == "same")


def test_files_of_mode_both_stay_and_those_of_mode_file_are_what_both_programs_leave() -> None:
    taken_away = replace(ALONE, disk={"mine": "#0"})
    kept = replace(FLOW, disk={"mine": "#0", "plt0.dat": "#0"})
    assert rig.judge(HABIT, taken_away, kept, "both") == "same"
    assert "plt0.dat is nothing" in rig.judge(HABIT, taken_away, FLOW, "both")
    assert rig.judge(HABIT, taken_away, FLOW, "file") == "same"
    assert "plt0.dat is #0" in rig.judge(HABIT, taken_away, kept, "file")


@pytest.mark.parametrize(
    ("part", "lines", "same"),
    [
        ("suffix", ("b=#1",), True),
        ("suffix", ("a=#0",), False),
        ("subset", ("b=#1",), True),
        ("subset", ("a=#0",), False),
        ("subset", ("b=#1", "a=#0", "b=#1"), False),
    ],
)
def test_only_a_policy_allows_less_and_the_last_always_comes(part: Any, lines: tuple[str, ...], same: bool) -> None:
    habit = replace(HABIT, part=part)
    assert (rig.judge(habit, ALONE, replace(FLOW, lines=lines), "memory") == "same") == same


def test_a_refusal_says_what_it_is_expected_to_say() -> None:
    habit = replace(HABIT, refused=Refusal("waits for room", "because"))
    stuck = replace(FLOW, code=4, lines=(), told="producer waits for room")
    assert rig.judge(habit, ALONE, stuck, "memory") == "refused"
    assert "exit code 4" in rig.judge(habit, ALONE, replace(stuck, told="stuck"), "memory")
    assert rig.judge(habit, ALONE, FLOW, "memory") == "same"


def test_content_is_called_by_its_step() -> None:
    sums = [cksum(data) for data in (text(3), b"", bytes(100), b"x")]
    assert [rig.content(total) for total in sums] == ["#3", "empty", "100 zeros", "other(12738659/1)"]
    assert rig.in_words(f"= plt.dat {sums[0]}") == "plt.dat=#3"


def test_known_wrong_that_becomes_right_and_wrong_that_is_not_known_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "FILE", tmp_path / "known.yaml")
    known.FILE.write_text("{}")
    known.update({("order-as-written", "memory"): ["lost a"], ("order-reversed", "memory"): ["same", "exit code 4"]})
    assert not known.wrong_as_known("order-as-written", "memory", {"free": "same", "random": "lost a"})
    assert "right now" in known.wrong_as_known("order-as-written", "memory", {"free": "same"})
    assert "lost a" in known.wrong_as_known("order-as-written", "file", {"free": "lost a"})
    assert not known.wrong_as_known("order-reversed", "memory", {"free": "same"})
    known.update({("order-as-written", "memory"): ["same"]})
    assert list(known.load()) == ["order-reversed"]


def test_programs_in_every_language_make_and_tell_the_same(tmp_path: Path) -> None:
    """So a step that a C program wrote is known as the one that a shell reads."""
    shell = rig.sh("for k in $(steps); do text $k > plt000$k.dat; done\n")
    for number, writes in enumerate((common.BYTES, common.C, common.DRAFTS, shell)):
        for reads in (common.READS, rig.sh('for k in $(steps); do f=plt000$k.dat; cat $f | show "$f"; done\n')):
            bench = rig.Bench.of(Habit("any", writes, reads), tmp_path / f"{number}-{reads.language}")
            assert bench.after().lines == tuple(f"plt{k:04d}.dat=#{k}" for k in range(6))


def test_a_program_that_fails_on_files_is_no_habit(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="read alone"):
        rig.Bench.of(Habit("any", common.BYTES, py("sys.exit(3)\n")), tmp_path).after()


def test_stages_tell_as_well_and_are_refused_on_disk(tmp_path: Path) -> None:
    tells = py("for k in range(N):\n    tell('stage', k)\n")
    habit = replace(HABIT, stages=(Stage(tells), Stage(tells, passes_on=False)))
    lines = rig.Bench.of(habit, tmp_path).after().lines
    assert lines == (*(f"stage {k}" for _ in range(2) for k in range(6)), *(f"plt{k:04d}.dat=#{k}" for k in range(6)))
    refused = replace(FLOW, code=2, lines=(), told="a stage, in memory alone")
    assert [rig.judge(habit, ALONE, refused, mode).split()[0] for mode in rig.MODES] == ["exit", "refused", "refused"]
