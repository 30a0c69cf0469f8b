"""The measurement of strategies counts all samples, recalled ones too, and writes its page from what it has saved."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

pytest.importorskip("torch")

from benchmarks.learning import page
from benchmarks.learning.__main__ import main
from benchmarks.learning.courses import Setting
from benchmarks.learning.results import load


@pytest.mark.nightly
def test_samples_and_bytes_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of four steps of 40 samples; with representatives of two batches of up to 32, from the third batch on."""
    main(["--quick", "moving source", "--out", str(tmp_path / "found.json")])
    results = load(tmp_path / "found.json")
    rows = {row.setting: row for row in results.rows("moving source")}
    sample = 3 * 4 + 64 * 4
    assert results.bytes_of("moving source") == sample

    def of(name: str, passes: int, *buffer: int) -> tuple[float, float]:
        row = rows[Setting(name, passes, *buffer)]
        return row.pushed, row.kept

    assert of("incremental", 3) == (3.0, 0.0)
    assert of("from-scratch", 1) == (2.5, 160 * sample)
    assert of("from-scratch", 3) == (7.5, 160 * sample)
    pushed, kept = of("rehearsal", 3, 1000, 32)
    assert 6 < pushed < 3 + 3 * 64 / 40 and 160 * sample <= kept <= 160 * (sample + 32)
    assert of("der++", 3, 1000, 32)[0] > pushed and of("der++", 3, 1000, 32)[1] > kept
    assert "| `from-scratch` | - | - | 3 | 7.5 x |" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.needs("python:matplotlib", "python:sklearn")
def test_the_page_is_written(tmp_path: Path) -> None:
    main(["--quick", "--out", str(tmp_path / "found.json"), "--page", str(tmp_path)])
    text = (tmp_path / "learning.md").read_text()
    assert all(f"## {title}" in text for title in ("In short", "Digits", "A source that fades", "Ptychography"))
    assert (tmp_path / "learning.svg").stat().st_size > 1000
    assert page.text(load(tmp_path / "found.json")) == text
