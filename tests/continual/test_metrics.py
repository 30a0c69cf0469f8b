"""The measures of continual learning against cases worked out by hand."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from wilkins.tasks.continual.metrics import Metrics, accuracy_so_far, draw, metrics, read_json, write_json
from wilkins.tasks.errors import TaskError

UNKNOWN = math.nan
MATRIX = [
    [0.9, 0.1, 0.0],
    [0.6, 0.8, 0.2],
    [0.5, 0.7, 1.0],
]


def test_the_example_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "continual.md").read_text()
    example = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "metrics(" in block)
    exec(example, {})
    assert capsys.readouterr().out.strip() == example.rpartition("# ")[2].strip()


def test_by_hand() -> None:
    found = metrics(MATRIX)
    assert found.final_accuracy == pytest.approx((0.5 + 0.7 + 1.0) / 3)
    assert found.average_accuracy == pytest.approx((0.9 + (0.6 + 0.8) / 2 + (0.5 + 0.7 + 1.0) / 3) / 3)
    assert found.forgetting == pytest.approx(((0.9 - 0.5) + (0.8 - 0.7)) / 2)
    assert found.backward_transfer == pytest.approx(((0.5 - 0.9) + (0.7 - 0.8)) / 2)
    assert accuracy_so_far(MATRIX) == pytest.approx([0.9, 0.7, (0.5 + 0.7 + 1.0) / 3])


def test_best_accuracy_may_come_later_or_earlier() -> None:
    """Forgetting is from the best of all earlier moments, backward transfer from that of learning it."""
    later = metrics([[0.5, 0.0, 0.0], [0.8, 0.6, 0.0], [0.7, 0.6, 0.9]])
    assert later.forgetting == pytest.approx(((0.8 - 0.7) + (0.6 - 0.6)) / 2)
    assert later.backward_transfer == pytest.approx(((0.7 - 0.5) + 0.0) / 2)
    earlier = metrics([[0.5, 0.7, 0.0], [0.5, 0.6, 0.0], [0.5, 0.6, 0.9]])
    assert earlier.forgetting == pytest.approx((0.0 + (0.7 - 0.6)) / 2)


def test_above_the_diagonal_may_be_unknown() -> None:
    unknown = [[0.9, UNKNOWN, UNKNOWN], [0.6, 0.8, UNKNOWN], [0.5, 0.7, 1.0]]
    assert metrics(unknown) == metrics(MATRIX)
    assert not np.isnan(accuracy_so_far(unknown)).any()


def test_one_experience() -> None:
    found = metrics([[0.25]])
    assert found.final_accuracy == found.average_accuracy == 0.25
    assert math.isnan(found.forgetting)
    assert math.isnan(found.backward_transfer)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
        ([[0.5, 0.5], [UNKNOWN, 0.5]], "experience 0 after experience 1 is missing"),
    ],
)
def test_what_is_no_accuracy_matrix(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics(matrix)


def test_json(tmp_path: Path) -> None:
    """Matrices come back; means and spreads are over the runs; what is not known is null, which JSON has a word for."""
    path = tmp_path / "found.json"
    other = [[0.7, UNKNOWN], [0.5, 0.9]]
    write_json(path, {"rehearsal": [other, [[0.9, 0.0], [0.7, 0.9]]], "one": [[[0.5]]]})
    content = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert content["rehearsal"]["mean"]["final_accuracy"] == pytest.approx(0.75)
    assert content["rehearsal"]["standard_deviation"]["final_accuracy"] == pytest.approx(0.05)
    assert content["rehearsal"]["metrics"][0]["forgetting"] == pytest.approx(0.2)
    assert content["rehearsal"]["accuracy"][0][0] == [0.7, None]
    assert content["one"]["mean"]["forgetting"] is None
    assert set(content["one"]["mean"]) == set(Metrics.__dataclass_fields__)
    back = read_json(path)
    np.testing.assert_equal(back["rehearsal"][0], np.array(other))


@pytest.mark.needs("python:matplotlib")
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"curves.{suffix}"
    draw(path, {"rehearsal": [MATRIX, MATRIX], "incremental": [MATRIX]}, title="digits")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(TaskError, match=r"pip install matplotlib"):
        draw(tmp_path / "x.png", {"one": [[[0.5]]]})
