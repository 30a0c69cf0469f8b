"""Pages of docs/ are written only if what they show has been seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from fidelity import pages

pytestmark = pytest.mark.rig


def test_a_page_is_written_if_nothing_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    assert pages.write(path, lambda: "all the same\n", [("one", 2, {}), ("other", 3, {})]) == 0
    assert path.read_text() == "all the same\n"


def test_a_difference_is_told_and_the_page_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n")
    assert pages.write(path, lambda: "all the same\n", [("one", 2, {"a": "-1 +2"}), ("other", 3, {})]) == 1
    assert path.read_text() == "before\n"
    said = capsys.readouterr().out
    assert "one: 2 cases, 1 not as the page shows\na: -1 +2\n" in said
    assert "other: 3 cases, 0 not" in said
