"""What files of data are said to hold: of every format, large, damaged and hostile ones."""

from __future__ import annotations

import io
import json
import math
import random
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wilkins.contents.apart import look_apart
from wilkins.contents.look import look
from wilkins.contents.preview import Field, by_chunk, means, preview_of, selection_of
from wilkins.contents.summary import Contents, Dataset, Preview, as_value, from_value
from wilkins.names import printable
from wilkins.report.draw.thumbnail import png, thumbnail
from wilkins.terminal.tables import size

Y, X = np.mgrid[0:100, 0:150]
WAVE = np.sin(X / 20) * np.cos(Y / 10)


def datasets(seen: Contents) -> dict[str, tuple[tuple[int, ...] | None, str]]:
    return {one.name: (one.shape, one.dtype) for one in seen.datasets}


def shown(seen: Contents) -> Preview:
    """The preview, which there is."""
    assert seen.problem == ""
    assert seen.preview is not None
    return seen.preview


def classic(version: int, records: int, *, streaming: bool = False) -> bytes:
    """A netCDF file of a classic format: `T(t, y, x)` in records beside `n(t)`, and `q(y, x)`, packed."""
    wide = 8 if version == 5 else 4

    def count(value: int) -> bytes:
        return value.to_bytes(wide, "big")

    def name(text: str) -> bytes:
        return count(len(text)) + text.encode() + bytes(-len(text) % 4)

    def text_of(key: str, text: str) -> bytes:
        return name(key) + struct.pack(">i", 2) + name(text)

    def number(key: str, value: float) -> bytes:
        return name(key) + struct.pack(">i", 6) + count(1) + struct.pack(">d", value)

    def items(tag: int, *all_items: bytes) -> bytes:
        return struct.pack(">i", tag) + count(len(all_items)) + b"".join(all_items)

    def header(begins: tuple[int, int, int]) -> bytes:
        offset = "i" if version == 1 else "q"
        variables = [
            name("q") + count(2) + count(1) + count(2)
            + items(12, text_of("units", "hPa"), number("scale_factor", 0.5), number("add_offset", 100))
            + struct.pack(">i", 3) + count(30000),
            name("T") + count(3) + count(0) + count(1) + count(2)
            + items(12, text_of("units", "K"), number("_FillValue", -999)) + struct.pack(">i", 5) + count(60000),
            name("n") + count(1) + count(0) + items(0) + struct.pack(">i", 3) + count(4),
        ]  # fmt: skip
        ends = [struct.pack(f">{offset}", begin) for begin in begins]
        known = b"\xff" * wide if streaming else count(records)
        axes = items(10, name("t") + count(0), name("y") + count(100), name("x") + count(150))
        both = [one + end for one, end in zip(variables, ends, strict=True)]
        return b"CDF" + bytes([version]) + known + axes + items(12, text_of("title", "a")) + items(11, *both)

    size = len(header((0, 0, 0)))
    data = header((size, size + 30000, size + 90000)) + np.broadcast_to(X, (100, 150)).astype(">i2").tobytes()
    for step in range(records):
        data += np.where(X < 10, -999, WAVE * step).astype(">f4").tobytes() + struct.pack(">hh", step, 0)
    return data


def put_zarr2(folder: Path, values: np.ndarray[Any, Any], chunks: tuple[int, ...], **more: Any) -> None:
    """An array of Zarr, version 2, whose chunks are not compressed."""
    folder.mkdir(parents=True)
    known = {
        "zarr_format": 2, "shape": values.shape, "chunks": chunks, "dtype": values.dtype.str, "compressor": None,
        "fill_value": 0, "order": "C", "filters": None, **more,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(known))
    for place in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, chunks, strict=True))):
        part = values[tuple(slice(n * c, (n + 1) * c) for n, c in zip(place, chunks, strict=True))]
        whole = np.zeros(chunks, values.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        (folder / ".".join(map(str, place))).write_bytes(whole.tobytes())


def put_zarr3(folder: Path, values: np.ndarray[Any, Any], chunks: tuple[int, ...], codecs: list[Any]) -> None:
    """An array of Zarr, version 3, of one chunk along each axis but the first."""
    folder.mkdir(parents=True)
    known = {
        "zarr_format": 3, "node_type": "array", "shape": values.shape, "data_type": values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN", "codecs": codecs, "attributes": {"units": "m"},
    }  # fmt: skip
    (folder / "zarr.json").write_text(json.dumps(known))
    for number in range(0, len(values), chunks[0]):
        file = folder / "c" / str(number // chunks[0]) / "0"
        file.parent.mkdir(parents=True)
        file.write_bytes(values[number : number + chunks[0]].astype(values.dtype.newbyteorder(">")).tobytes())


def test_hdf5(tmp_path: Path) -> None:
    """Names, shapes, types, units; links are not followed, and groups that hold themselves are walked once."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        field = file.create_dataset("fields/u", data=WAVE, chunks=(50, 50), compression="gzip")
        field.attrs["units"], field.attrs["long_name"] = "K", "temperature"
        file.attrs["title"] = "all kinds"
        file["big"] = np.arange(3, dtype=">f4")
        file["words"], file["empty"], file["none"] = "x", h5py.Empty("f8"), np.zeros((0, 4))
        file["pairs"] = np.zeros(2, [("x", "f8"), ("n", "i4")])
        file["complex"] = np.zeros(2, "c8")
        file.create_dataset("refs", data=[field.ref], dtype=h5py.ref_dtype)
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i2"))
        file["fields/up"], file["same"] = file["/"], field
        file["soft"], file["far"] = h5py.SoftLink("/nowhere"), h5py.ExternalLink("/etc/passwd", "/x")
    seen = look(path)
    assert (seen.format, seen.attributes, seen.more) == ("HDF5", 1, 0)
    assert datasets(seen) == {
        "/big": ((3,), "float32 big-endian"),
        "/complex": ((2,), "complex64"),
        "/empty": (None, "float64"),
        "/far": (None, "link to /x of file /etc/passwd"),
        "/fields/u": ((100, 150), "float64"),
        "/lists": ((2,), "lists of int16"),
        "/none": ((0, 4), "float64"),
        "/pairs": ((2,), "{x: float64, n: int32}"),
        "/refs": ((1,), "reference"),
        "/soft": (None, "link to /nowhere"),
        "/words": ((), "text"),
    }
    known = next(one for one in seen.datasets if one.name == "/fields/u")
    assert known == Dataset("/fields/u", (100, 150), "float64", 120_000, "K", "chunks 50 x 50, gzip", 2)
    preview = shown(seen)
    assert (preview.name, preview.shape, preview.units, preview.is_sampled) == ("/fields/u", (100, 150), "K", False)
    assert (preview.low, preview.high) == (WAVE.min(), WAVE.max())
    assert (len(preview.rows), len(preview.rows[0])) == (64, 64)
    assert from_value(json.loads(json.dumps(as_value(seen)))) == seen


def test_of_many_datasets_some_are_shown(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(300):
            file.create_dataset(f"d{number:04}", (1,), "f8")
    seen = look(tmp_path / "a.h5")
    assert len(seen.datasets) == 20
    assert seen.others == "and 280 more"


@pytest.mark.parametrize("chunks", [None, (100, 100)])
def test_of_a_huge_dataset_little_is_read(tmp_path: Path, chunks: tuple[int, int] | None) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = file.create_dataset("u", (10**9, 10**9), "f8", chunks=chunks)
        if chunks:
            values[0, 0] = 3
    began = time.monotonic()
    preview = shown(look(tmp_path / "a.h5"))
    assert time.monotonic() - began < 10
    assert (preview.high, preview.is_sampled) == (3 if chunks else 0, True)


def test_values_in_other_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 800)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("outside", (10, 10), "u8", external=[(tmp_path / "secret", 0, 800)])
        layout = h5py.VirtualLayout((10, 10), "f8")
        layout[:] = h5py.VirtualSource("b.h5", "x", (10, 10))
        file.create_virtual_dataset("virtual", layout)
    seen = look(tmp_path / "a.h5")
    assert [one.stored for one in seen.datasets] == ["in other files", "virtual"]
    assert seen.preview is None


@pytest.mark.parametrize("version", [1, 2, 5])
@pytest.mark.parametrize("streaming", [False, True])
def test_classic_netcdf(tmp_path: Path, version: int, streaming: bool) -> None:
    data = classic(version, 3, streaming=streaming)
    (tmp_path / "a.nc").write_bytes(data)
    seen = look(tmp_path / "a.nc")
    assert seen.format == {1: "netCDF classic", 2: "netCDF 64-bit offset", 5: "netCDF 64-bit data"}[version]
    assert datasets(seen) == {
        "q": ((100, 150), "int16"),
        "T": ((3, 100, 150), "float32"),
        "n": ((3,), "int16"),
    }
    assert [one.units for one in seen.datasets] == ["hPa", "K", ""]
    preview = shown(seen)
    assert (preview.name, preview.low, preview.high, preview.units) == ("q", 100, 174.5, "hPa")
    (tmp_path / "a.nc").write_bytes(data[:-70_000])
    if not streaming:
        assert "may lack: the file ends" in look(tmp_path / "a.nc").problem


def test_the_records_of_a_variable_lie_apart(tmp_path: Path) -> None:
    data = classic(1, 3).replace(b"\0\0\0\x01q\0\0\0\0\0\0\x02", b"\0\0\0\x01q\0\0\0\0\0\0\x01")
    (tmp_path / "a.nc").write_bytes(data)
    assert "damaged" in look(tmp_path / "a.nc").problem
    whole = classic(1, 3)
    (tmp_path / "a.nc").write_bytes(
        whole.replace(b"\0\0\0\x03\0\0\x75\x30", b"\0\0\0\x02\0\0\x75\x30")
    )  # q is text now
    preview = shown(look(tmp_path / "a.nc"))
    assert preview.name == "T[1, :, :]"
    wave = np.where(X < 10, np.nan, WAVE).astype("f4")
    assert (preview.low, preview.high) == (np.nanmin(wave), np.nanmax(wave))
    assert preview.rows[0][0] is None


def test_numpy(tmp_path: Path) -> None:
    """Arrays in any order; objects are not unpickled."""
    np.save(tmp_path / "a.npy", np.asfortranarray(WAVE.astype(">f4")))
    seen = look(tmp_path / "a.npy")
    assert (seen.format, datasets(seen)) == ("NumPy", {"array": ((100, 150), "float32 big-endian")})
    direct = shown(seen)

    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
            return Path.mkdir, (tmp_path / "unpickled",)  # type: ignore[return-value]

    for save, stored in ((np.savez, ""), (np.savez_compressed, "deflate")):
        save(tmp_path / "a.npz", trap=np.array([Trap()], dtype=object), u=WAVE.astype("f4"), n=np.arange(3))
        seen = look(tmp_path / "a.npz")
        assert datasets(seen) == {
            "trap": ((1,), "Python objects (pickled, not read)"),
            "u": ((100, 150), "float32"),
            "n": ((3,), "int64"),
        }
        assert seen.datasets[1].stored == stored
        assert shown(seen).rows == direct.rows
    assert not (tmp_path / "unpickled").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A header that promises little, with 1 GB behind it; and one that promises all."""
    for shape, is_drawn in (((10, 10), True), ((10_000, 12_500), False)):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("u.npy", "w") as u:
            u.write(header.getvalue())
            for _ in range(20):
                u.write(bytes(1_000_000))
        data = (tmp_path / "a.npz").read_bytes()
        assert len(data) < 100_000
        began = time.monotonic()
        seen = look(tmp_path / "a.npz")
        assert time.monotonic() - began < 5
        assert datasets(seen) == {"u": (shape, "float64")}
        assert (seen.preview is not None) == is_drawn


def test_an_archive_of_very_many_members_is_not_listed(tmp_path: Path) -> None:
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, 1 << 30, 0, 0)
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04" + bytes(100) + end)
    assert "list of its members has 1073741824 bytes" in look(tmp_path / "a.npz").problem


def test_zarr(tmp_path: Path) -> None:
    """Groups and arrays of both versions; of compressed chunks the metadata alone, without the package."""
    store = tmp_path / "a.zarr"
    put_zarr2(store / "p" / "u", WAVE, (40, 70))
    put_zarr2(store / "k", WAVE, (100, 150), compressor={"id": "no such"})
    for folder in (store, store / "p"):
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (store / "p" / "u" / ".zattrs").write_text('{"units": "m/s"}')
    (store / "up").symlink_to(store)
    seen = look(store)
    assert (seen.format, datasets(seen)) == ("Zarr 2", {"/k": ((100, 150), "float64"), "/p/u": ((100, 150), "float64")})
    assert [one.stored for one in seen.datasets] == ["no such", "chunks 40 x 70"]
    preview = shown(seen)
    assert (preview.name, preview.low, preview.high, preview.units) == ("/p/u", WAVE.min(), WAVE.max(), "m/s")
    assert preview.rows == tuple(map(tuple, means(WAVE.astype(np.longdouble)).tolist()))
    put_zarr3(tmp_path / "b.zarr", WAVE, (20, 150), [{"name": "bytes", "configuration": {"endian": "big"}}])
    (tmp_path / "b.zarr" / "c" / "0" / "0").unlink()
    preview = shown(look(tmp_path / "b.zarr"))
    assert (preview.low, preview.units, preview.rows[0][0]) == (WAVE[20:].min(), "m", None)
    put_zarr3(tmp_path / "c.zarr", WAVE, (20, 150), [{"name": "bytes"}, {"name": "no such"}])
    assert [one.stored for one in look(tmp_path / "c.zarr").datasets] == ["chunks 20 x 150, no such"]


@pytest.mark.needs("python:zarr")
def test_zarr_that_is_compressed(tmp_path: Path) -> None:
    import zarr

    zarr.create_array(tmp_path / "a.zarr", data=WAVE, chunks=(40, 70))
    (seen,) = look_apart([tmp_path / "a.zarr"], 60)
    assert shown(seen).rows == tuple(map(tuple, means(WAVE.astype(np.longdouble)).tolist()))


@pytest.mark.parametrize(
    ("begins", "name", "known"),
    [
        (b"SIMPLE  =                    T", "a.fits", "FITS"),
        (b"root\0\0", "a.root", "ROOT"),
        (b"PAR1", "a.parquet", "Parquet"),
        (b"\xff\xd8\xff\xe0", "a", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "a", "PNG"),
        (b"PK\x03\x04", "a.zip", "a ZIP archive"),
        ("t  Θ\n0  1.5\n".encode(), "a.dat", "text"),
        (b"\0\1\2", "a", "an unknown format"),
        (b"\0\1\2", "a.bp", "ADIOS2 BP"),
        (b"", "a.h5", "an empty file"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, begins: bytes, name: str, known: str) -> None:
    (tmp_path / name).write_bytes(begins)
    assert look(tmp_path / name) == Contents(str(tmp_path / name), known, len(begins))


def test_folders_and_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.bp").mkdir()
    for name in ("md.idx", "data.0"):
        (tmp_path / "a.bp" / name).write_bytes(b"12345")
    seen = look(tmp_path / "a.bp")
    assert (seen.format, seen.size) == ("ADIOS2 BP", 10)
    assert look(tmp_path).format == "a folder"
    assert look(Path("/dev/null")).format == "not a file"
    assert look(tmp_path / "gone").problem == "it is not there any more"


def valid_files(folder: Path) -> list[Path]:
    """A small one of each format that is read."""
    for libver in ("earliest", "latest"):
        with h5py.File(folder / f"{libver}.h5", "w", libver=libver) as file:
            for number in range(9):
                file[f"g{number % 3}/d{number}"] = np.arange(100).reshape(10, 10)
                file[f"g{number % 3}/d{number}"].attrs["units"] = "m"
            file.create_dataset("z", data=np.ones((50, 50)), chunks=(10, 10), compression="gzip")
    (folder / "a.nc").write_bytes(classic(1, 2))
    (folder / "b.nc").write_bytes(classic(5, 2))
    np.save(folder / "a.npy", WAVE)
    np.savez(folder / "a.npz", u=WAVE, v=X)
    np.savez_compressed(folder / "b.npz", u=WAVE, v=X)
    return sorted(folder.iterdir())


@pytest.mark.usual("1")
@pytest.mark.parametrize("seed", range(1, 9), ids=str)
def test_damaged_files_give_a_summary(tmp_path: Path, seed: int) -> None:
    """Bytes that have changed, most of them in headers, and files that are cut."""
    chance = random.Random(seed)
    damaged = []
    (tmp_path / "valid").mkdir()
    for path in valid_files(tmp_path / "valid"):
        for number in range(20):
            data = bytearray(path.read_bytes())
            if number % 4 == 0:
                del data[chance.randrange(len(data)) :]
            for _ in range(chance.choice((1, 5, 50)) if data else 0):
                within = min(len(data), chance.choice((100, 3000, len(data))))
                data[chance.randrange(within)] = chance.choice((0, 255, chance.randrange(256)))
            damaged.append(tmp_path / f"{number}-{path.name}")
            damaged[-1].write_bytes(data)
    seen = look_apart(damaged, 30)
    assert [one.path for one in seen] == [str(path) for path in damaged]
    slow = [one for one in seen if "took longer" in one.problem]
    assert not slow
    for one in seen:
        if one.preview:
            assert "<figure" in thumbnail(one.preview)


@given(data=st.binary(max_size=300), begin=st.sampled_from([b"CDF\x01", b"CDF\x05", b"\x93NUMPY\x01\0", b"PK\x03\x04"]))
@settings(max_examples=200)
def test_any_bytes_give_a_summary(tmp_path_factory: pytest.TempPathFactory, begin: bytes, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.npz"
    path.write_bytes(begin + data)
    assert look(path).size == len(begin + data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters", "dimension_separator")


@given(changed=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3))
@settings(max_examples=40)
def test_any_metadata_of_zarr_give_a_summary(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("zarr") / "a.zarr"
    put_zarr2(folder, np.ones((4, 4)), (2, 2))
    known = json.loads((folder / ".zarray").read_text()) | changed
    (folder / ".zarray").write_text(json.dumps(known))
    assert look(folder).format == "Zarr 2"


def test_metadata_of_zarr_lead_nowhere_else(tmp_path: Path) -> None:
    """Chunks are files below the array, whatever separates their numbers; and JSON may be nested without end."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "secret").write_bytes(bytes(32))
    put_zarr2(tmp_path / "a.zarr", np.ones((4, 4)), (2, 2), dimension_separator="/../../0/")
    assert look(tmp_path / "a.zarr").format == "Zarr 2"
    (tmp_path / "a.zarr" / ".zarray").write_text("[" * 100_000)
    assert "cannot be read" in look(tmp_path / "a.zarr").datasets[0].dtype


LOOK = """\
import os, sys, time
sys.path[:] = sys.argv[1:]
import wilkins.contents.look as module
from wilkins.contents.apart import main
true = module.look
def look(path):
    if path.name == "dies.npy":
        os.abort()
    if path.name == "hangs.npy":
        time.sleep(100)
    return true(path)
module.look = look
main()
"""


@pytest.mark.usual("dies")
@pytest.mark.parametrize(
    ("bad", "said"), [("dies", "crashed"), ("hangs", "took longer than 15 s")], ids=["dies", "hangs"]
)
def test_a_reader_that_dies_or_hangs_costs_its_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, said: str
) -> None:
    names = ["a.npy", f"{bad}.npy", "b.npy"]
    for name in names:
        np.save(tmp_path / name, WAVE)
    monkeypatch.setattr("wilkins.contents.apart._PROGRAM", LOOK)
    seen = look_apart([tmp_path / name for name in names], 15)
    assert [one.preview is not None for one in seen] == [True, False, True]
    assert said in seen[1].problem


def test_files_after_slow_ones_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wilkins.contents.apart._PROGRAM", "import time; time.sleep(100)")
    seen = look_apart([tmp_path / str(number) for number in range(20)], 0.1)
    said = [one.problem for one in seen]
    assert said[0] == "reading it took longer than 0.1 s"
    assert said[-1] == "it was not looked at: others before it took too long"


def test_a_reader_that_goes_on_and_on_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wilkins.contents.apart._PROGRAM", "import os\nwhile True: os.write(1, bytes(1 << 16))")
    began = time.monotonic()
    assert look_apart([tmp_path / "a"], 1)[0].problem == "reading it took longer than 1 s"
    assert time.monotonic() - began < 10


def test_long_units_are_cut(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = WAVE
        file["x"].attrs["units"] = "m" * 1_000_000
    assert len(look(tmp_path / "a.h5").datasets[0].units) < 10_000


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_sizes_that_no_float_holds_are_shown(tmp_path: Path, kind: str) -> None:
    path, length = tmp_path / f"a.{kind}", int("9" * 400)
    if kind == "npy":
        header = str({"descr": "<f8", "fortran_order": False, "shape": (length,)}).encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    else:
        put_zarr2(path, np.ones((4, 4)), (2, 2), shape=[length, 4])
    (seen,) = look_apart([path])
    assert seen.datasets[0].shape is not None
    assert seen.datasets[0].shape[0] == length
    assert size(seen.datasets[0].nbytes) == "1.8e+296 TB"


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.data())
@settings(max_examples=200)
def test_what_is_read_of_a_dataset_is_little_and_in_it(shape: list[int], data: st.DataObject) -> None:
    shape = [length * data.draw(st.sampled_from((1, 1, 10**4, 10**8))) for length in shape]
    chunks = data.draw(st.none() | st.tuples(*(st.integers(1, 1000) for _ in shape)))
    chosen = selection_of(shape, 8, chunks)
    if chosen is None:
        return
    assert sum(isinstance(one, range) for one in chosen) == 2
    for one, length in zip(chosen, shape, strict=True):
        last = one[-1] if isinstance(one, range) else one
        assert 0 <= last < length
    if chunks:
        parts = list(by_chunk(chosen, chunks))
        assert len(parts) * math.prod(chunks) * 8 <= 128 << 20
        assert len(parts) <= 2048


@given(arrays(np.float64, st.tuples(st.integers(2, 150), st.integers(2, 150)), elements=st.floats(), fill=st.floats()))
@settings(max_examples=60)
def test_means_and_pictures_of_any_numbers(values: np.ndarray[Any, Any]) -> None:
    """NaN and infinities are left out; values as large as there are do not overflow."""
    preview = preview_of(Field("u", values.shape, values.dtype, lambda _: values))
    assert preview is not None
    known = values[np.isfinite(values)]
    if not known.size:
        assert (preview.low, preview.high) == (None, None)
        assert "no value is finite" in thumbnail(preview)
    else:
        assert (preview.low, preview.high) == (known.min(), known.max())
    rows = preview.rows
    assert (len(rows), len(rows[0])) == tuple(min(64, length) for length in values.shape)
    for row in rows:
        for one in row:
            assert one is None or (preview.low is not None and math.isfinite(one))
    data = png(preview)
    at = data.index(b"IDAT")
    pixels = zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")])
    assert len(pixels) == len(rows) * (1 + len(rows[0]))


@pytest.mark.parametrize("values", [np.full((3, 5), 7), np.ones((3, 5), bool), np.full((3, 5), 3 + 4j)])
def test_constant_bool_and_complex_fields(values: np.ndarray[Any, Any]) -> None:
    preview = preview_of(Field("u", values.shape, values.dtype, lambda _: values))
    assert preview is not None
    assert preview.low == preview.high == abs(values[0, 0])
    assert png(preview).startswith(b"\x89PNG")


@given(st.text(max_size=300))
def test_names_are_printable(name: str) -> None:
    said = printable(name)
    assert said.isprintable()
    assert len(said) <= 10 * 200 + 3
    said.encode()
