"""`wilkins ckpt`: what it says of versions that are whole, damaged or being written, and what it removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wilkins.cli import main
from wilkins.tasks.checkpoint import Checkpointer
from wilkins.tasks.checkpoint.storage import versions

from .conftest import Opener, arrays


@pytest.fixture
def folder(opened: Opener, tmp_path: Path) -> Path:
    """Three versions that nobody writes to any more."""
    checkpointer = opened(keep=5)
    for step in (10, 20, 30):
        checkpointer.save(step, arrays(step))
    checkpointer.close()
    return tmp_path


def test_list_and_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ckpt", "list", str(folder)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["version", "step", "ranks", "files", "bytes", "written"]
    names = [["000001-step-10", "10"], ["000002-step-20", "20"], ["000003-step-30", "30"]]
    assert [line.split()[:2] for line in lines] == names
    assert [line.endswith("latest") for line in lines] == [False, False, True]
    assert main(["ckpt", "show", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "000003-step-30: step 30, saved by 1 rank" in out
    assert ["0", "b/c", "numpy", "<i8", "3x100000", "2,400,000"] in [line.split() for line in out.splitlines()]
    assert main(["ckpt", "show", str(folder), "20"]) == 0
    assert "000002-step-20: step 20" in capsys.readouterr().out


def test_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ckpt", "verify", str(folder)]) == 0
    assert capsys.readouterr().out.count("all right") == 3
    data = folder / "000002-step-20" / "data-0.bin"
    raw = bytearray(data.read_bytes())
    raw[1_000_000] ^= 16
    data.write_bytes(raw)
    assert main(["ckpt", "verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.count("all right") == 2 and "000002-step-20: damaged" in out
    assert "do not match their digest; they are of a\n" in out, out
    assert main(["ckpt", "verify", str(folder), "30"]) == 0


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Never the last one that verifies."""
    for name in ("000003-step-30", "000002-step-20"):
        (folder / name / "index-0.json").unlink()
    assert main(["ckpt", "prune", str(folder), "--keep", "2"]) == 1
    assert "none of the newest 2 versions" in capsys.readouterr().err
    assert len(versions.versions(folder)) == 3 and (folder / "latest").readlink() == Path("000001-step-10")
    with Checkpointer(folder, keep=9) as checkpointer:
        checkpointer.save(40, {"x": 1})
        checkpointer.wait()
        assert main(["ckpt", "prune", str(folder), "--keep", "1"]) == 1
        assert "written by this process already" in capsys.readouterr().err
    assert main(["ckpt", "prune", str(folder), "--keep", "1"]) == 0
    gone = ["removed 000001-step-10", "removed 000002-step-20", "removed 000003-step-30"]
    assert capsys.readouterr().out.splitlines() == gone
    assert [one.step for one in versions.versions(folder)] == [40]


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["list", str(tmp_path / "none")], "is no folder; give the folder that checkpoints are kept in"),
        (["verify", str(tmp_path)], "holds no checkpoints"),
    ):
        assert main(["ckpt", *words]) == 2
        assert told in capsys.readouterr().err
    assert main(["ckpt", "prune", str(tmp_path), "--keep", "0"]) == 2
    assert "must be 1 or more" in capsys.readouterr().err
