"""`wilkins report --compare`: how far the numbers of a file are from those of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.running import WILKINS, Finished, run_tree
from wilkins.compression import quality
from wilkins.compression.quality import Quality, qualities
from wilkins.compression.spectrum import powers

FIELD = np.sin(np.linspace(0, 9, 6000)).reshape(3, 40, 50)
APART = np.random.default_rng(0).uniform(-1e-3, 1e-3, FIELD.shape)


def written(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> list[Quality]:
    """How files with these datasets differ."""
    for name, values in (("before.h5", before), ("after.h5", after)):
        with h5py.File(folder / name, "w") as file:
            for path, value in values.items():
                file[path] = value
    with h5py.File(folder / "before.h5") as one, h5py.File(folder / "after.h5") as other:
        return list(qualities(one, other))


@pytest.mark.parametrize("at_once", [1, 1 << 23], ids=["row by row", "whole"])
@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_errors_and_their_ratio_to_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: float, at_once: int
) -> None:
    monkeypatch.setattr(quality, "_AT_ONCE", at_once)
    before, after = scale * FIELD, scale * (FIELD + APART)
    (found,) = written(tmp_path, {"u": before}, {"u": after})
    apart = np.abs(after - before)
    assert (found.low, found.high) == (before.min(), before.max())
    assert found.largest == apart.max()
    assert found.mean == pytest.approx(apart.mean())
    root = scale * np.sqrt(np.mean((apart / scale) ** 2))
    assert found.psnr == pytest.approx(20 * np.log10((before.max() - before.min()) / root))


@pytest.mark.parametrize("shape", [(16,), (15,), (16, 24), (1, 24, 16), (15, 16, 9)])
def test_powers_are_those_of_the_whole_transform(shape: tuple[int, ...]) -> None:
    field = np.random.default_rng(0).normal(size=shape)
    longest, square = max(shape), np.zeros(())
    for side in shape:
        square = np.add.outer(square, (np.fft.fftfreq(side) * longest) ** 2)
    waves = np.rint(np.sqrt(square)).astype(int)
    whole = [float((np.abs(np.fft.fftn(field)) ** 2)[waves == one].sum()) for one in range(1, longest // 2 + 1)]
    assert powers(field) == pytest.approx(whole)


def test_up_to_which_wavenumber_a_spectrum_is_what_it_was(tmp_path: Path) -> None:
    """A wave that comes to noise is found at its number, and what is no field is said."""
    x = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    noise = np.random.default_rng(1).normal(size=(64, 64))
    before = {
        "u": noise,
        "const": np.ones((8, 8)),
        "nan": np.full(8, np.nan),
        "one": 1.5,
        "long": noise[0],
        "none": np.empty((0, 5)),
    }
    after = before | {"u": noise + np.sin(20 * x), "long": noise[0] * (1 + 0.03)}
    written(tmp_path, before, after)
    words = [*WILKINS, "report", "--compare", "before.h5", "after.h5", "--spectrum"]
    done = run_tree(words, 60, tmp_path)
    assert done.code == 0, done.err
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert rows["/u"].split("exact")[-1].count("up to 19 of 32") == 2
    assert rows["/long"].split("dB")[1].split() == ["up", "to", "0", "of", "32", "up", "to", "32", "of", "32"]
    assert rows["/const"].count("up to 4 of 4") == 2
    assert rows["/nan"].count("NaN or inf") == 2 and all(rows[one].count("no field") == 2 for one in ("/one", "/none"))
    alone = run_tree([*WILKINS, "report", "--spectrum"], 60, tmp_path)
    assert alone.code == 2 and "--spectrum goes with --compare: wilkins report --compare BEFORE.h5" in alone.err


def test_numbers_alone_are_compared(tmp_path: Path) -> None:
    strange = [np.nan, np.inf, np.nan, 1.0]
    before = {
        "a/i": np.arange(9, dtype="u1"),
        "b": [1.0, 2.0],
        "c": "text",
        "d": strange,
        "e": np.empty((0, 3)),
        "f": 1.5,
    }
    after = {"a/i": np.arange(9, dtype="u1")[::-1], "b": [1.0], "c": "x", "d": [np.nan, np.inf, 1.0, 1.5]}
    found = {one.dset: one for one in written(tmp_path, before, after | {"e": before["e"], "f": 1.25})}
    assert found["/a/i"].largest == 8, "no number of one byte wraps around"
    assert found["/b"].why == "is float64 (2,), and float64 (1,) in the other file"
    assert (found["/d"].largest, found["/d"].strange) == (0.5, 1)
    assert (found["/e"].largest, found["/f"].largest) == (0, 0.25)
    assert found["/c"].why.startswith("is not compared: it is object")


def test_large_whole_numbers_are_told_apart(tmp_path: Path) -> None:
    """By differences that a number of 8 bytes does not hold."""
    before = {"i": np.array([2**53]), "u": np.array([2**64 - 1], "u8")}
    after = {"i": np.array([2**53 + 1]), "u": np.array([2**64 - 1000], "u8"), "z": [1.0]}
    found = {one.dset: one for one in written(tmp_path, before, after)}
    assert (found["/i"].largest, found["/u"].largest) == (1, 999)
    assert found["/z"].why == "is only in the other file"


def test_a_number_that_became_none_is_not_exact(tmp_path: Path) -> None:
    written(tmp_path, {"x": [1.0, np.nan]}, {"x": [1.0, 7.0]})
    lines = compared(tmp_path, "before.h5", "after.h5").out.splitlines()
    assert lines[0].endswith("NaN or inf")
    assert lines[-1].split()[-2:] == ["-", "1"]


def test_each_name_of_a_dataset_and_links_are_told_of(tmp_path: Path) -> None:
    for name, add, there in (("before.h5", 0.0, "o.h5"), ("after.h5", 0.25, "p.h5")):
        with h5py.File(tmp_path / name, "w") as file:
            file["g/u"] = np.arange(9.0) + add
            file["again"] = file["g/u"]
            file["group"] = file["g"]
            file["g/loop"] = file["g"]
            file["soft"] = h5py.SoftLink("/g/u")
            file["far"] = h5py.ExternalLink(there, "/x")
            file["turned" if add else "bad\x1b[31m"] = h5py.SoftLink("/nowhere")
    with h5py.File(tmp_path / "before.h5") as one, h5py.File(tmp_path / "after.h5") as other:
        found = {quality.dset: quality for quality in qualities(one, other)}
    assert [found[name].largest for name in ("/g/u", "/again", "/group/u")] == [0.25] * 3
    assert found["/soft"].why == "is not compared: it is a soft link to '/g/u'"
    assert found["/far"].why == "is an external link to '/x' of 'o.h5', but not in the other file"
    assert found["/turned"].why == "is a soft link to '/nowhere', and only in the other file"
    assert "/again" in compared(tmp_path, "before.h5", "after.h5", "--dset", "again").out
    assert "/bad\\x1b[31m is a soft link" in compared(tmp_path, "before.h5", "after.h5").out


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    written(tmp_path, {"a": [1.0]}, {"a": [1.0]})
    for name in ("before.h5", "after.h5"):
        with h5py.File(tmp_path / name, "a") as file:
            file.create_dataset("c\n", data=np.arange(1000.0), chunks=(100,), fletcher32=True)
            at = file["c\n"].id.get_chunk_info(3).byte_offset
    data = bytearray((tmp_path / "after.h5").read_bytes())
    data[at] ^= 1
    (tmp_path / "after.h5").write_bytes(data)
    done = compared(tmp_path, "before.h5", "after.h5")
    assert done.code == 2
    assert "--compare: /c\\n of after.h5 cannot be read: " in " ".join(done.err.split())


def compared(folder: Path, *words: str) -> Finished:
    return run_tree([*WILKINS, "report", "--compare", *words], 30, folder)


def test_the_table(tmp_path: Path) -> None:
    written(tmp_path, {"u/v": FIELD, "i": np.arange(3)}, {"u/v": FIELD + 1e-3, "i": np.arange(3)})
    lines = [line.split() for line in compared(tmp_path, "before.h5", "after.h5").out.splitlines()]
    assert lines[0] == ["dataset", "range", "largest", "error", "mean", "error", "PSNR"]
    assert ["/i", "0", "to", "2", "0", "0", "exact"] in lines
    assert ["/u/v", "-1", "to", "1", "0.001", "0.001", "66.0", "dB"] in lines
    assert "/i" not in compared(tmp_path, "before.h5", "after.h5", "--dset", "u/*").out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["before.h5", "none.h5"], "none.h5 cannot be read as HDF5"),
        (["before.h5", "before.h5", "--dset", "x"], "before.h5 has no dataset 'x'; `h5ls -r before.h5`"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], why: str) -> None:
    written(tmp_path, {"u": FIELD}, {})
    done = compared(tmp_path, *words)
    assert done.code == 2
    assert why in " ".join(done.err.split())
