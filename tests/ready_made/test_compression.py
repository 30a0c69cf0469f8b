"""Compressed archives: within their bounds whatever the data, all else bit by bit; the workflow that writes them."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support import hostile_blocks
from support.running import WILKINS, run_tree
from wilkins.compression.bounds import Rule, difference
from wilkins.compression.errors import CannotCopy
from wilkins.compression.objects import address
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.copy import Compressed, compressed_copy
from wilkins.tasks.compression.worker import filters

pytestmark = pytest.mark.needs("python:hdf5plugin")

Array = NDArray[Any]


@pytest.fixture(scope="module")
def compressor() -> Iterator[Compressor]:
    Compressor.check()
    with Compressor() as made:
        yield made


def blocks(seed: int) -> tuple[Array, float]:
    """A block of random data, of one to four axes, and a bound."""
    rng = np.random.default_rng(seed)
    return hostile_blocks.drawn(rng, tuple(int(one) for one in rng.integers(1, 12, rng.integers(1, 5))))


def read_back(path: Path, block: Array, bound: float, compressor: Compressor) -> Array:
    """A block that was compressed and put into a file, as a reader of that gets it."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(block.shape)
    filters(properties, bound)
    done = compressor.encoded(block, bound)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(block.shape)
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(block.dtype), space, properties)
        made.write_direct_chunk((0,) * block.ndim, done.data, filter_mask=done.mask)
    with h5py.File(path) as file:
        return np.asarray(file["x"][...])


def within_bounds(seeds: range, folder: Path, compressor: Compressor) -> None:
    for seed in seeds:
        block, bound = blocks(seed)
        after = read_back(folder / "block.h5", block, bound, compressor)
        finite = np.isfinite(block)
        assert after[~finite].tobytes() == block[~finite].tobytes(), seed
        with np.errstate(over="ignore"):
            apart = np.abs(after[finite].astype(np.longdouble) - block[finite].astype(np.longdouble))
        assert not apart.size or apart.max() <= bound, (seed, bound, apart.max())


def test_no_element_is_over_its_bound(tmp_path: Path, compressor: Compressor) -> None:
    within_bounds(range(300), tmp_path, compressor)
    assert compressor.deaths == 0


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_no_element_of_ten_thousand_blocks_is_over_its_bound(tmp_path: Path, compressor: Compressor) -> None:
    within_bounds(range(1000, 11_000), tmp_path, compressor)
    assert compressor.deaths == 0


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.floats(0, 10), st.booleans())
def test_a_difference_over_the_bound_is_found(seed: int, factor: float, double: bool) -> None:
    rng = np.random.default_rng(seed)
    before = rng.standard_normal(20).astype("<f8" if double else "<f4")
    after, bound = before.copy(), 1e-2
    after[seed % 20] += factor * bound
    over = abs(float(after[seed % 20]) - float(before[seed % 20])) >= bound
    assert (difference(before, after, bound) is None) == over
    assert (difference(before, after, 0.0) is None) == (after.tobytes() != before.tobytes())
    after[3] = math.nan
    assert difference(before, after, bound) is None
    before[3] = math.nan
    assert (difference(before, after, bound) is None) == (over and seed % 20 != 3)


@pytest.mark.parametrize("unit", [1e200, 1.0, 1e-200])
def test_the_ratio_of_signal_to_noise_has_no_unit(unit: float) -> None:
    before = np.sin(np.linspace(0, 9, 1000))
    apart = difference(before * unit, (before + 1e-3) * unit, 1e-2 * unit)
    assert apart is not None
    assert apart.psnr(-unit, unit, 1e-2 * unit) == pytest.approx(20 * math.log10(2 / 1e-3))


def write_everything(path: Path, order: bool, libver: str) -> None:
    """A file with all that HDF5 files hold."""
    rng = np.random.default_rng(1)
    x, y, z = np.meshgrid(*[np.linspace(0, 6, 30)] * 3, indexing="ij")
    field = np.sin(x) * np.cos(y) + z / 100
    with h5py.File(path, "w", libver=libver, track_order=order) as file:
        file["fields/z"] = field
        file["fields/a"] = field.astype("f4")
        file["fields/big"] = field.astype(">f8")
        strange = field.astype("f4")
        strange[3, 4, 5], strange[20, 0, 1] = math.nan, -math.inf
        file.create_dataset("strange", data=strange, chunks=(30, 30, 20), compression="gzip", maxshape=(None, 30, 30))
        file["axes"] = rng.random((7, 6, 5, 4, 3, 2))
        file["ids"] = rng.integers(0, 2**60, 5000)
        file["records"] = np.zeros(1000, [("a", "f4"), ("b", "i8", (3,))])
        file["scalar"], file["none"], file["null"] = 2.0, np.zeros((0, 3)), h5py.Empty("f4")
        file["words"] = ["a", "", "longer"]
        file["lists"] = np.array([np.arange(3), np.arange(0), np.arange(4)], object).astype(h5py.vlen_dtype(int))
        file["refers"] = np.array([file["ids"].ref, file["fields"].ref, h5py.Reference()], h5py.ref_dtype)
        file["regions"] = np.array([file["fields/z"].regionref[3:5, 2, ::3]], h5py.regionref_dtype)
        file["same"] = file["ids"]
        file["soft"], file["nowhere"] = h5py.SoftLink("/ids"), h5py.SoftLink("/no/such")
        file["outside"] = h5py.ExternalLink("other.h5", "/x")
        file["fields/up"] = file["/"]
        file["type"] = np.dtype("f8")
        for name in ("a_typed", "typed"):  # before and behind their type, in the order of names
            file.create_dataset(name, data=rng.random(2000), dtype=file["type"])
        file.attrs.create("typed", 1.5, dtype=file["type"])
        file.create_dataset("filled", (3000,), "f8", chunks=(1000,), maxshape=(None,), fillvalue=7.0)[500:] = 2.5
        file["ids"].make_scale("x")
        file["scaled"] = np.zeros(5000)
        file["scaled"].dims[0].attach_scale(file["ids"])
        file["compact_only"] = np.arange(10.0)
        for where in (file, file["fields"], file["ids"], file["type"]):
            where.attrs["z"], where.attrs["a"] = 1, "text"
            where.attrs["none"] = h5py.Empty("i4")
            where.attrs["to"] = file["scaled"].ref
        if order:
            file.attrs["long"] = rng.random(9000)
        if libver == "latest":
            file["ids"].attrs["long"] = rng.random(9000)


def copied(source: Path, target: Path, rules: list[Rule], compressor: Compressor) -> dict[str, Compressed]:
    with h5py.File(source) as file:
        return {one.dset: one for one in compressed_copy(file, target, rules, compressor)}


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("order", [False, True])
def test_everything_else_stays(tmp_path: Path, order: bool, libver: str, compressor: Compressor) -> None:
    write_everything(tmp_path / "a.h5", order, libver)
    rules = [Rule("/fields/z", absolute=1e-3), Rule("fields/*", relative=1e-3), Rule("strange", 1e-3), Rule("*")]
    found = copied(tmp_path / "a.h5", tmp_path / "b.h5", rules, compressor)
    assert (tmp_path / "b.h5").stat().st_size < (tmp_path / "a.h5").stat().st_size / 2
    with h5py.File(tmp_path / "a.h5") as before, h5py.File(tmp_path / "b.h5") as after:
        assert list(after) == list(before)
        assert list(after.attrs) == list(before.attrs)
        assert after[after["refers"][0]] == after["ids"]
        assert after[after["refers"][1]] == after["fields"]
        assert not after["refers"][2]
        region = after["regions"][0]
        assert after[region].name == "/fields/z"
        near = after["fields/z"][region] - before["fields/z"][before["regions"][0]]
        assert abs(near).max() < 1e-3
        assert after["scaled"].dims[0]["x"] == after["ids"] == after["same"]
        assert after["fields/up"] == after["/"]
        assert after[after["type"].attrs["to"]] == after["scaled"]
        assert isinstance(after["type"], h5py.Datatype)
        for user in (after["a_typed"].id, after["typed"].id, after.attrs.get_id("typed")):
            assert address(user.get_type()) == address(after["type"].id)
        assert after.get("outside", getlink=True).filename == "other.h5"
        assert after.get("nowhere", getlink=True).path == "/no/such"
        assert [list(one) for one in after["lists"]] == [list(one) for one in before["lists"]]
        assert list(after["words"]) == list(before["words"])
        for name in ("fields/big", "ids", "records", "scalar", "none", "typed", "filled", "axes", "compact_only"):
            assert after[name].dtype == before[name].dtype
            assert after[name][()].tobytes() == before[name][()].tobytes(), name
        assert after["filled"].maxshape == (None,)
        assert after["filled"].fillvalue == 7.0
        assert after["strange"].chunks == before["strange"].chunks
        assert np.isnan(after["strange"][3, 4, 5])
        assert np.isneginf(after["strange"][20, 0, 1])
    assert found["/fields/big"].bound == found["/ids"].bound == found["/axes"].bound == 0
    assert found["/fields/a"].bound == 1e-3 * (found["/fields/a"].high - found["/fields/a"].low)
    assert found["/strange"].kept == 1 < found["/strange"].blocks == 2
    assert 0 < found["/fields/z"].apart.largest < 1e-3


@pytest.mark.needs("python:netCDF4")
def test_netcdf_reads_a_copy(tmp_path: Path, compressor: Compressor) -> None:
    import hdf5plugin
    import netCDF4

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, length in (("time", None), ("y", 40), ("x", 50)):
            file.createDimension(name, length)
            file.createVariable(name, "f8", (name,)).units = f"{name} unit"
        heat = file.createVariable("heat", "f4", ("time", "y", "x"), zlib=True, fill_value=-1.0)
        heat[:3] = np.sin(np.linspace(0, 9, 6000)).reshape(3, 40, 50)
        file["x"][:], file["y"][:], file["time"][:] = np.arange(50), np.arange(40), [1, 2, 4]
        file.createGroup("inner").createVariable("v", "i4", ("x",))[:] = np.arange(50)
        file.title = "heat"
    found = copied(tmp_path / "a.nc", tmp_path / "b.nc", [Rule("heat", absolute=1e-4)], compressor)
    assert found["/heat"].bound == 1e-4
    program = """
import netCDF4
with netCDF4.Dataset("a.nc") as before, netCDF4.Dataset("b.nc") as after:
    assert after["heat"].dimensions == ("time", "y", "x")
    assert after["x"].units == "x unit"
    assert after.title == "heat"
    assert after["inner/v"][7] == 7
    assert abs(after["heat"][:] - before["heat"][:]).max() < 1e-4
"""
    done = run_tree([sys.executable, "-c", program], 60, tmp_path, {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH})
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("rules", "bounds"),
    [
        ([Rule("/b"), Rule("*", absolute=1e-3)], {"/a": 0.0, "/g/u": 1e-3, "/n[0]": 1e-3}),
        ([Rule("/b", absolute=1e-3)], {"/a": 1e-3}),
        ([Rule("/h/*"), Rule("g/u", absolute=1e-3), Rule("/n[0]", absolute=1e-2)], {"/g/u": 0.0, "/n[0]": 1e-2}),
        ([Rule("/a", absolute=1e-2), Rule("/b", absolute=1e-3)], {"/a": 1e-3}),
    ],
)
def test_all_names_of_a_dataset_count(
    tmp_path: Path, rules: list[Rule], bounds: dict[str, float], compressor: Compressor
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("a", "g/u", "n[0]"):
            file[name] = np.sin(np.linspace(0, 9, 4000))
        file["b"], file["h"], file["g/up"] = file["a"], file["g"], file["/"]
    found = copied(tmp_path / "a.h5", tmp_path / "b.h5", rules, compressor)
    assert {name: one.bound for name, one in found.items()} == bounds


@pytest.mark.parametrize(
    ("shape", "most", "chunks"),
    [
        ((3, 600_000), None, None),
        ((5, 20_000), (None, 20_000), (1, 20_000)),
        ((1, 20_000), (None, 20_000), (1, 20_000)),
        ((4, 20_000, 1), None, (1, 20_000, 1)),
        ((1, 4, 20_000), None, (1, 1, 20_000)),
        ((20_000, 1), None, (20_000, 1)),
    ],
)
def test_rows_are_compressed(
    tmp_path: Path, shape: tuple[int, ...], most: Any, chunks: tuple[int, ...] | None, compressor: Compressor
) -> None:
    field = np.sin(np.linspace(0, 99, math.prod(shape))).reshape(shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=field, chunks=chunks, maxshape=most)
    found = copied(tmp_path / "a.h5", tmp_path / "b.h5", [Rule("x", absolute=1e-3)], compressor)["/x"]
    assert found.kept == 0
    assert found.stored < found.bytes / 10
    with h5py.File(tmp_path / "b.h5") as file:
        assert abs(file["x"][...] - field).max() <= 1e-3


@pytest.mark.parametrize("chunks", [None, (1000,)])
def test_what_was_hardly_written_is_not_read_for_hours(
    tmp_path: Path, chunks: tuple[int, ...] | None, compressor: Compressor
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (10**14,), "f8", chunks=chunks)
    with pytest.raises(CannotCopy, match="most elements of '/x' were never written"):
        copied(tmp_path / "a.h5", tmp_path / "b.h5", [Rule("y")], compressor)


def test_a_full_disk_ends_no_process(tmp_path: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
import h5py, numpy as np
from wilkins.compression.bounds import Rule
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.copy import compressed_copy
with h5py.File("a.h5", "w") as file:
    file["x"] = np.random.default_rng(0).random(100_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # of a full disk, what a test may have
with h5py.File("a.h5") as file, Compressor() as compressor:
    try:
        compressed_copy(file, Path("b.h5"), [Rule("*")], compressor)
    except OSError as error:
        sys.exit(error.strerror)
"""
    done = run_tree([sys.executable, "-c", program], 60, tmp_path)
    assert (done.code, done.err) == (1, "File too large\n")


@pytest.mark.parametrize("what", ["user block", "data in other files"])
def test_what_a_copy_would_not_have_is_said(tmp_path: Path, what: str, compressor: Compressor) -> None:
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512 if what == "user block" else 0) as file:
        external = [(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)] if what != "user block" else None
        file.create_dataset("x", data=np.zeros(1000), external=external)
    with pytest.raises(CannotCopy, match=what):
        copied(tmp_path / "a.h5", tmp_path / "b.h5", [Rule("*")], compressor)


def test_bits_that_flip_in_an_archive_are_found(tmp_path: Path, compressor: Compressor) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.sin(np.linspace(0, 99, 100_000))
    for rule in (Rule("x", absolute=1e-5), Rule("x")):
        (tmp_path / "b.h5").unlink(missing_ok=True)
        copied(tmp_path / "a.h5", tmp_path / "b.h5", [rule], compressor)
        with h5py.File(tmp_path / "b.h5") as file:
            chunk = file["x"].id.get_chunk_info(0)
        data = bytearray((tmp_path / "b.h5").read_bytes())
        data[chunk.byte_offset + chunk.size // 2] ^= 4
        (tmp_path / "c.h5").write_bytes(data)
        with h5py.File(tmp_path / "c.h5") as file, pytest.raises(OSError, match="filter"):
            file["x"][:]


def test_a_compressor_that_dies_loses_nothing() -> None:
    block = np.sin(np.linspace(0, 9, 1000))
    with Compressor() as compressor:
        assert compressor.encoded(block, 1e-3).lossy
        assert compressor._process is not None
        os.kill(compressor._process.pid, signal.SIGKILL)
        compressor._process.wait()
        assert not compressor.encoded(block, 1e-3).lossy
        assert compressor.encoded(block, 1e-3).lossy
        assert compressor.deaths == 1


PRODUCER = """
    import h5py, numpy as np
    for step in range(4):
        with h5py.File(f"out-{step}.h5", "w") as file:
            file["fields/u"] = np.sin(np.linspace(step, step + 9, 40_000)).reshape(200, 200)
            file["ids"] = np.arange(4000)
            file.attrs["step"] = step
"""


def archive(folder: Path, compress: Any, program: str = PRODUCER, into: str = ".") -> Any:
    (folder / "producer.py").write_text(textwrap.dedent(program))
    analysis = {"folder": into, "archive": [{"filename": "all/{name}.h5", "compress": compress}]}
    tasks = [
        {"func": "producer.py", "outports": [{"filename": "out-*.h5"}]},
        {"func": "wilkins.tasks.analysis", "analysis": analysis, "inports": [{"filename": "out-*.h5"}]},
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    return run_tree([*WILKINS, "run", "workflow.yaml"], 100, folder, {"PYTHONPATH": str(folder)})


def test_an_archive_in_a_workflow(tmp_path: Path) -> None:
    done = archive(tmp_path, [{"dset": "/fields/*", "absolute": 1e-3}, {"dset": "*"}])
    assert done.code == 0, done.out + done.err
    Compressor.check()  # and so let this process find the filter
    with (tmp_path / "all/name-compression.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["file"], row["dset"]) for row in rows] == [
        (str(step), f"out-{step}.h5", dset) for step in range(4) for dset in ("/fields/u", "/ids")
    ]
    for row in rows:
        with h5py.File(tmp_path / "all" / row["file"]) as file:
            step = int(row["step"])
            assert file.attrs["step"] == step
            if row["dset"] == "/ids":
                assert (file["ids"][:] == np.arange(4000)).all()
                assert (row["bound"], row["largest_error"], row["psnr"]) == ("0.0", "0.0", "inf")
                continue
            apart = abs(file["fields/u"][:] - np.sin(np.linspace(step, step + 9, 40_000)).reshape(200, 200))
            assert 0 < apart.max() == float(row["largest_error"]) < 1e-3
            assert float(row["mean_error"]) == pytest.approx(apart.mean())
            assert float(row["psnr"]) == pytest.approx(20 * np.log10(2 / np.sqrt(np.square(apart).mean())), rel=0.01)
            assert int(row["bytes"]) == 320_000 > 20 * int(row["stored"])
    assert "archived 4 steps, 0 of them as they are" in done.out
    assert "no dataset" not in done.out
    assert not [path for path in (tmp_path / "all").iterdir() if ".part" in path.name]


def test_a_step_without_such_a_dataset_is_archived_as_it_is(tmp_path: Path) -> None:
    done = archive(tmp_path, [{"dset": "/none"}])
    assert done.code == 0, done.out + done.err
    assert "compress: no dataset that can be compressed fits '/none'" in done.out
    assert "out-0.h5: archived as it is: no dataset of it is to be compressed" in done.out
    with h5py.File(tmp_path / "all/out-3.h5") as file:
        assert (file["ids"][:] == np.arange(4000)).all()


def test_a_users_own_modules_are_not_in_the_compressor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resource.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    with Compressor() as compressor:
        assert compressor.encoded(np.zeros(1000), 1e-3).lossy


@pytest.mark.nightly
def test_names_of_steps_need_not_be_utf8(tmp_path: Path) -> None:
    program = """
import h5py, numpy as np
with h5py.File(b"out-\\xff.h5", "w") as file:
    file["u"] = np.zeros(4000)
with h5py.File(b"out-\\xfe.h5", "w", userblock_size=512) as file:
    file["u"] = np.zeros(4000)
"""
    done = archive(tmp_path, [{"dset": "*"}], program=program)
    assert done.code == 0, done.out + done.err
    assert {os.fsencode(path.name) for path in (tmp_path / "all").glob("*.h5")} == {b"out-\xff.h5", b"out-\xfe.h5"}
    assert "archived as it is: the file has a user block" in done.out
    assert "out-\\udcff.h5,/u" in (tmp_path / "all/name-compression.csv").read_text()


@pytest.mark.nightly
def test_empty_files_are_archived(tmp_path: Path) -> None:
    done = archive(tmp_path, [{"dset": "*"}], program="open('out-0.h5', 'w').close()")
    assert done.code == 0, done.out + done.err
    assert "archived 1 steps, 1 of them as they are: 0 bytes in 0" in done.out
    assert "fits '*'" not in done.out


def test_a_step_that_is_no_smaller_or_no_hdf5_is_archived_as_it_is(tmp_path: Path) -> None:
    program = """
import h5py, numpy as np
rng = np.random.default_rng(0)
with h5py.File("out-0.h5", "w") as file:
    file["u"] = rng.integers(0, 2**62, 600)
with open("out-1.h5", "wb") as file:
    np.save(file, np.arange(1000))
"""
    done = archive(tmp_path, [{"dset": "*"}], program=program)
    assert done.code == 0, done.out + done.err
    assert "out-0.h5: archived as it is: compressed, it would not be smaller" in done.out
    assert "out-1.h5: archived as it is: " in done.out
    assert "file signature not found" in done.out
    assert "archived 2 steps, 2 of them as they are" in done.out
    assert "fits '*'" not in done.out
    assert (np.load(tmp_path / "all/out-1.h5") == np.arange(1000)).all()
    with h5py.File(tmp_path / "all/out-0.h5") as file:
        assert (file["u"][:] == np.random.default_rng(0).integers(0, 2**62, 600)).all()
    assert len((tmp_path / "all/name-compression.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"dset": "u", "absolute": 0}, "'absolute' of 'u' is 0, and must be above 0; leave it out to keep every bit"),
        ({"dset": "u", "relative": 1.5}, "'relative' of 'u' is 1.5, and must be above 0 and below 1"),
        ({"absolute": 1e-3}, "the key 'dset' is missing"),
        ({"dset": "u", "abs": 1e-3}, "unknown key 'abs'"),
    ],
)
def test_rules_that_are_wrong(tmp_path: Path, rule: dict[str, Any], why: str) -> None:
    done = archive(tmp_path, [rule])
    assert done.code == 2
    assert why in done.err


@pytest.mark.nightly
def test_two_archives_have_two_tables(tmp_path: Path) -> None:
    section = "- {filename: 'all/{name}.%s', compress: [{dset: u}]}\n"
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- func: a.py\n  outports: [{filename: a.h5}]\n- func: wilkins.tasks.analysis\n"
        f"  inports: [{{filename: a.h5}}]\n  analysis:\n    archive:\n    {section % 'h5'}    {section % 'hdf5'}"
    )
    done = run_tree([*WILKINS, "check", "workflow.yaml"], 60, tmp_path)
    assert done.code == 2
    assert "two archives would have the table 'all/name-compression.csv'" in done.err


@pytest.mark.nightly
def test_a_folder_may_have_braces_in_its_name(tmp_path: Path) -> None:
    done = archive(tmp_path, [{"dset": "*"}], into="a{b}")
    assert done.code == 0, done.out + done.err
    assert {path.name for path in (tmp_path / "a{b}/all").iterdir()} == {
        "name-compression.csv",
        *(f"out-{step}.h5" for step in range(4)),
    }


def test_a_bound_without_a_compressor_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "hdf5plugin.py").write_text("raise ImportError\n")
    done = archive(tmp_path, [{"dset": "u", "absolute": 1e-3}])
    assert done.code == 1
    assert "needs hdf5plugin, which is not installed here; pip install hdf5plugin" in done.out + done.err
