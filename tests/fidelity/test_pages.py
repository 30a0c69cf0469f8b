"""Sections of pages of docs/ are written only if what they show has been seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from fidelity import pages

pytestmark = pytest.mark.rig
PAGE = """# A page

<!-- one: written by hand -->

before

<!-- end of one -->

<!-- other: written by hand -->

as it was

<!-- end of other -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_a_section_is_written_if_nothing_is_wrong(page: Path) -> None:
    assert pages.write(page, "one", lambda: "all the same\n", [("one", 2, {}), ("other", 3, {})]) == 0
    assert page.read_text() == PAGE.replace("before", "all the same")
    assert pages.section(page, "one") == "all the same\n"
    assert pages.section(page, "other") == "as it was\n"


def test_a_difference_is_told_and_the_page_stays(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pages.write(page, "one", lambda: "all the same\n", [("one", 2, {"a": "-1 +2"}), ("other", 3, {})]) == 1
    assert page.read_text() == PAGE
    said = capsys.readouterr().out
    assert "one: 2 cases, 1 not as the page shows\na: -1 +2\n" in said
    assert "other: 3 cases, 0 not" in said


def test_a_section_that_is_not_there(page: Path) -> None:
    with pytest.raises(LookupError, match="no section 'third'"):
        pages.section(page, "third")
