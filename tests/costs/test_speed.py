"""The measurement of speed: what a sheet of times says, what is made of the results, and a few real steps."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.programs.speed.sheet import BEGIN, COLUMNS, CREATED, OPENED, OPENING, READ, RELEASED, WRITTEN
from benchmarks.speed import page, running, scenes
from benchmarks.speed.goals import Goal, goals
from benchmarks.speed.results import Results, Spread, compared, load
from benchmarks.speed.times import Steps, measured

MACHINE = {
    "date": "2026-01-01 00:00",
    "processor": "a processor",
    "cores": 2,
    "memory": 16e9,
    "system": "Linux",
    "huge pages": "never",
    "commit": "",
    "versions": {"Python": "3"},
    "load": 0.1,
    "busy": [0.0, 0.02],
}


def results_of(rows: dict[str, dict[str, list[float]]]) -> Results:
    return Results(dict(MACHINE), rows)


def test_a_sheet_says_what_a_step_took_and_where() -> None:
    sheet = np.zeros((6, COLUMNS))
    sheet[:, BEGIN] = [0, 10, 20, 30, 40, 50]
    for column, later in ((CREATED, 1), (WRITTEN, 3), (RELEASED, 4), (OPENING, 2), (OPENED, 5), (READ, 7)):
        sheet[:, column] = sheet[:, BEGIN] + later
    sheet[0, RELEASED] = 9
    sheet[4:, READ] = [44, 45]
    assert measured(sheet, Steps(warm=2, paced=2, long=2)) == {
        "first step": 9,
        "blocked": 4,
        "create to last read": 7,
        "create": 1,
        "write": 2,
        "close": 1,
        "close to open": 2,
        "open": 3,
        "read": 2,
        "long stream": 1,
    }
    sheet[5, RELEASED] = 0
    with pytest.raises(RuntimeError, match="1 steps were not made"):
        measured(sheet, Steps(2, 2, 2))


def test_ratios_are_of_values_of_one_turn() -> None:
    results = results_of({"blocked, 16 MiB": {"a": [1.0, 20.0, 3.0], "b": [1.0, 10.0, 2.0]}})
    assert results.ratio("blocked, 16 MiB", "a", "b") == Spread(1.5, 1.0, 2.0)
    assert results.ratio("blocked, 16 MiB", "a", "c") is None


def test_goals_are_met_by_what_was_measured() -> None:
    fast, slow = (
        results_of({"blocked, 16 MiB": {scenes.C: [ours], scenes.BESIDE: [1.0]}, "long stream, 16 MiB": rates})
        for ours, rates in (
            (0.9, {scenes.C: [1.0], scenes.SHM: [6.0]}),
            (1.1, {scenes.C: [1.0], scenes.SHM: [4.0]}),
        )
    )
    met = [[goal.met for goal in goals(results) if goal.measured] for results in (fast, slow)]
    assert met == [[True, True], [False, False]]
    assert len({goal.what for goal in goals(fast)}) == len(goals(fast)) > 40
    assert Goal("", Spread(1.0, 1.0, 1.0), "<", 1.0).met is False


def test_results_are_saved_and_compared(tmp_path: Path) -> None:
    old, new = (results_of({"row": {"a": values}}) for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    old.save(tmp_path / "old.json")
    assert load(tmp_path / "old.json") == old
    (line,) = compared(load(tmp_path / "old.json"), new)
    assert line.split() == ["row", "a", "2", "5", "2.50", "x", "ranges", "apart"]
    assert "apart" not in compared(old, old)[0]


def test_the_page_has_goals_steps_and_a_picture(tmp_path: Path) -> None:
    sizes = ("1 KiB", "16 MiB", "128 MiB")
    kinds = ("blocked", "create to last read", "long stream")
    times = {scenes.C: [0.002, 0.004], scenes.BESIDE: [0.002, 0.002]}
    results = results_of({f"{kind}, {size}": times for kind in kinds for size in sizes})
    page.write(results, tmp_path)
    text = (tmp_path / "speed.md").read_text()
    assert "| wilkins, C | 1.5 / 1.5 / 1.5 | 1.5 / 1.5 / 1.5 | 3 / 3 / 3 | 3 / 3 / 3 | 3 / 3 / 3 |" in text
    assert "Other programs used 1 % (0 to 2)" in text and "memcpy beside another, 128 MiB: 2 ms (2 to 2)" in text
    assert (tmp_path / "speed.svg").stat().st_size > 1000


@pytest.mark.nightly
def test_steps_of_real_programs_are_measured(tmp_path: Path) -> None:
    programs = running.build(tmp_path)
    every = {one.name: one for one in scenes.scenes(programs, quick=True)[0].contestants}
    steps = Steps(warm=2, paced=2, long=4)
    for name in {scenes.C, scenes.VIEWS, scenes.HAND, scenes.SHM} & set(every):
        found = scenes.measure(every[name], steps)
        assert all(0 < found[what] < 10 for what in ("blocked", "create to last read", "long stream"))
    broken = scenes.Contestant("none", "processes", ((sys.executable, "-c", "raise SystemExit('it broke')"),))
    with pytest.raises(RuntimeError, match="it broke"):
        scenes.measure(broken, steps)
