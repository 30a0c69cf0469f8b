"""Restart points: what a task tells is there after a kill, line by line, and the one chosen comes back to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wilkins.transport import points


def test_told_points_are_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "train.jsonl"
    monkeypatch.setenv(points.POINTS, str(place))
    points.tell("first", {"u*.h5": 3})
    points.tell("second", {"u*.h5": 6}, {"model.h5": 2}, tmp_path / "model.pt", {"v*.h5": 4})
    with pytest.raises(ValueError, match="is in 'consumed' and in 'opened'; leave one out"):
        points.tell("third", {"u*.h5": 7}, opened={"u*.h5": 7})
    assert points.read(place) == [
        points.Point("first", {"u*.h5": 3}),
        points.Point("second", {"u*.h5": 6}, {"model.h5": 2}, str(tmp_path / "model.pt"), {"v*.h5": 4}),
    ]


def test_nobody_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(points.POINTS, raising=False)
    monkeypatch.chdir(tmp_path)
    points.tell("first", {"u*.h5": 3})
    assert not list(tmp_path.iterdir())
    assert points.chosen() is None


def test_the_chosen_point_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    point = points.Point("000012-step-40", {"u*.h5": 40}, {}, "/somewhere/état.h5")
    monkeypatch.setenv(points.CHOSEN, points.line(point))
    assert points.chosen() == point


@pytest.mark.parametrize("text", ["{}", "7", '{"label":"a","consumed":{"x":-1},"published":{},"file":""}', "{"])
def test_what_is_no_point_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(points.CHOSEN, text)
    with pytest.raises(ValueError, match="not a restart point"):
        points.chosen()


def test_lines_cut_short_are_passed_over(tmp_path: Path) -> None:
    place = tmp_path / "train.jsonl"
    whole = points.line(points.Point("first", {"u": 1}))
    place.write_text(whole + "\n" + whole[:20] + "\n" + whole.replace("first", "third") + "\n" + whole[:-1])
    assert [point.label for point in points.read(place)] == ["first", "third"]
    assert points.read(tmp_path / "none") == []


def test_a_negative_count_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(points.POINTS, str(tmp_path / "points"))
    with pytest.raises(ValueError, match="cannot be at step -1"):
        points.tell("a", {"u": -1})


def test_needs_nothing_heavy() -> None:
    code = "import sys, wilkins.transport.points; print({'h5py', 'numpy', 'torch', 'yaml'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
