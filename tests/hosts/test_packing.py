"""Blocks and steps that are packed for their way between hosts: within their bounds, all else bit by bit."""

from __future__ import annotations

import io
import math
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from support import hostile_blocks
from wilkins.compression.bounds import Rule
from wilkins.compression.choice import Choice
from wilkins.compression.crossing import PackedStep, Packer
from wilkins.compression.errors import CannotUnpack
from wilkins.compression.packing import pack, unpack

Array = NDArray[Any]
HOSTILE = [2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 255, 0, 1, -1]


def drawn(seed: int) -> tuple[Array, float]:
    """A three-dimensional block of random data, and a bound."""
    rng = np.random.default_rng(seed)
    return hostile_blocks.drawn(rng, tuple(int(one) for one in rng.integers(1, 24, 3)))


def unpacked(data: bytes, like: Array) -> Array:
    into = bytearray(like.nbytes)
    unpack(data, memoryview(into))
    return np.frombuffer(into, like.dtype).reshape(like.shape)


def within_bounds(seeds: range) -> int:
    """How many of the blocks differ at all."""
    differ = 0
    for seed in seeds:
        block, bound = drawn(seed)
        for allowed in (bound, 0.0):
            packed = pack(block, allowed)
            if packed is None:
                continue
            after = unpacked(packed.data, block)
            finite = np.isfinite(block)
            assert after[~finite].tobytes() == block[~finite].tobytes(), seed
            assert not packed.error or finite.all(), seed
            with np.errstate(over="ignore"):
                apart = np.abs(after[finite].astype(np.longdouble) - block[finite].astype(np.longdouble))
            most = float(apart.max()) if apart.size else 0.0
            assert most <= allowed, (seed, bound, most)
            assert most == pytest.approx(packed.error, rel=1e-6)
            assert allowed or after.tobytes() == block.tobytes(), seed
            differ += packed.error > 0
    return differ


def smooth_step() -> memoryview:
    """A step of a smooth field, in one dataset."""
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["u"] = np.outer(*[np.sin(np.linspace(0, 6, 700))] * 2)
    return memoryview(made.getvalue())


def test_the_way_that_is_faster_is_taken_when_the_line_changes() -> None:
    """Until it is known, the step is packed as asked for."""
    rate: float | None = None
    packer, step = Packer([Rule("u", 1e-3)], Choice(lambda: rate)), smooth_step()
    assert packer.pack(step).error > 0
    for rate, packs in ((1e5, True), (1e12, False), (1e6, True), (1e11, False)):
        found = [packer.pack(step) for _ in range(40)]
        assert all(bool(one.pieces) == packs and (one.error > 0) == packs for one in found), rate
        assert all(one.unfit == () for one in found), "a step that nobody looks at may have what a rule fits"


def test_every_bit_is_kept_where_a_bound_gains_nothing() -> None:
    """Of whole numbers in double precision, bit by bit is smaller than within such a bound."""
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["u"] = np.random.default_rng(1).integers(0, 250, 500_000).astype("f8")
    step = memoryview(made.getvalue())
    kept = Packer([Rule("u", 1e-12)], Choice(lambda: 1e4))
    found = [kept.pack(step) for _ in range(3)]
    assert all(one.pieces and not one.error for one in found)


def test_no_element_is_over_its_bound() -> None:
    assert within_bounds(range(400)) > 50


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_no_element_of_twenty_thousand_blocks_is_over_its_bound() -> None:
    assert within_bounds(range(1000, 21_000)) > 2000


@pytest.mark.parametrize("kind", ["i1", "<i2", "<i4", "<i8", "<u8", ">f4", ">f8", "<f2", "S7", "V12", "V200", "<c16"])
def test_elements_of_all_types_keep_their_bits(kind: str) -> None:
    rng = np.random.default_rng(1)
    counted = np.arange(6 * 7 * 40 * np.dtype(kind).itemsize).astype("<i2").view("u1")[::2]
    noise = rng.integers(0, 256, counted.size).astype("u1")
    for data in (np.zeros_like(noise), counted, np.where(np.arange(noise.size) % 9, noise * 0, noise)):
        block = np.ascontiguousarray(data).view(f"V{np.dtype(kind).itemsize}").reshape(6, 7, 40)
        packed = pack(block, 0.0)
        assert packed is not None
        assert unpacked(packed.data, block).tobytes() == block.tobytes()
    assert pack(noise.view(f"V{np.dtype(kind).itemsize}").reshape(6, 7, 40), 0.0) is None, "noise would not be smaller"


def damage_all(seeds: range) -> int:
    """Unpack what was damaged, and count what was refused."""
    refused = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        block, bound = drawn(seed)
        packed = pack(block, bound if seed % 2 else 0.0)
        if packed is None:
            continue
        data = bytearray(packed.data)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(len(data)) if rng.random() < 0.5 else rng.integers(min(len(data), 40)))
            what = rng.integers(4)
            if what == 0:
                data[place] ^= 1 << int(rng.integers(8))
            elif what == 1:
                word = int(rng.choice(HOSTILE)) & 0xFFFFFFFF
                data[place : place + 4] = word.to_bytes(4, "little")
            elif what == 2:
                del data[place:]
            else:
                data += bytes(rng.integers(0, 256, 9).astype("u1"))
            if not data:
                break
        guarded = bytearray(b"\x5a" * (block.nbytes + 64))
        try:
            unpack(bytes(data), memoryview(guarded)[32:-32])
        except CannotUnpack:
            refused += 1
        assert guarded[:32] == guarded[-32:] == b"\x5a" * 32
    return refused


def test_damaged_blocks_are_refused_or_give_as_many_bytes() -> None:
    assert damage_all(range(400)) > 100


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_hundred_thousand_damaged_blocks_harm_nobody() -> None:
    assert damage_all(range(1000, 101_000)) > 25_000


def test_a_block_that_would_inflate_without_end_takes_no_memory() -> None:
    import resource
    import zlib

    block = np.zeros((1, 1, 1000), "V1")
    packed = pack(block, 0.0)
    assert packed is not None
    deflating = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join([deflating.compress(bytes(1 << 20)) for _ in range(256)]) + deflating.flush()
    head = packed.data[:24]
    for length in (len(bomb), 999):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(CannotUnpack):
            unpack(head + length.to_bytes(4, "little") + bomb[:length], memoryview(bytearray(1000)))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (64 << 10)


def smooth(*shape: int) -> Array:
    return np.sin(np.linspace(0, 9, math.prod(shape))).reshape(shape)


def written(libver: Any = None) -> bytes:
    """A file with all kinds of datasets."""
    kept = io.BytesIO()
    rng = np.random.default_rng(3)
    with h5py.File(kept, "w", libver=libver) as file:
        file["fields/plain"] = smooth(60, 50, 40)
        file["fields/single"] = smooth(300, 200).astype("f4")
        file.create_dataset("fields/chunked", data=smooth(100, 90, 8), chunks=(7, 11, 8))
        file.create_dataset("fields/growing", data=smooth(20_000), chunks=(3000,), maxshape=(None,))
        file.create_dataset("fields/sparse", (500, 500), "f8", chunks=(50, 500), fillvalue=7.0)[:40] = smooth(40, 500)
        file.create_dataset("fields/gzip", data=smooth(10_000), chunks=(1000,), compression="gzip")
        file.create_dataset("fields/sum", data=smooth(10_000), chunks=(1000,), fletcher32=True)
        file["fields/strange"] = np.where(rng.random(9000) < 0.01, np.nan, smooth(9000))
        file["fields/other"] = np.where(rng.random(9000) < 0.01, np.inf, smooth(9000))
        file["fields/big"] = smooth(9000).astype(">f8")
        file["fields/half"] = smooth(9000).astype("f2")
        file["fields/noise"] = rng.standard_normal(9000)
        file["fields/none"] = np.empty((0, 5))
        file["fields/one"] = 3.5
        file.create_dataset("fields/null", dtype="f8")
        file["ids"] = np.arange(20_000)
        file["pairs"] = np.zeros(3000, [("a", "<f4"), ("b", ">i8"), ("c", "S3")])
        file["texts"] = ["some", "words"] * 900
        file["letters"] = np.array([b"abc"] * 3000)
        file["link"] = file["fields/plain"]
        file["soft"] = h5py.SoftLink("/fields/plain")
        file["refers"] = np.array([file["ids"].ref] * 900, h5py.ref_dtype)
        file.attrs["time"] = 0.25
        file["ids"].attrs["unit"] = "none"
        file.create_dataset("compact", data=smooth(100))
        file.create_dataset("left", data=smooth(9000))
    return kept.getvalue()


RULES = (
    Rule("/left"),
    Rule("/fields/single", relative=1e-4),
    Rule("/fields/*", absolute=1e-3),
    Rule("/link", absolute=1e-2),
    Rule("*"),
)


def arrived(data: bytes, rules: Any = RULES) -> tuple[bytes, PackedStep]:
    """A file as it is on the other host, and what crossed packed."""
    packer = Packer(rules)
    packed = packer.pack(memoryview(data))
    there = bytearray(data)
    for piece in packed.pieces:
        there[piece.begin : piece.end] = b"\xee" * (piece.end - piece.begin)
    packer.unpack(memoryview(there), packed.pieces, memoryview(packed.data))
    return bytes(there), packed


LOSSY = {"plain": 1e-3, "single": 2e-4, "chunked": 1e-3, "growing": 1e-3, "sparse": 1e-3, "noise": 1e-3}


@pytest.mark.parametrize("libver", ["earliest", "latest", "v110"])
def test_a_file_arrives_within_its_bounds_and_all_else_as_it_was(libver: str) -> None:
    data = written(libver)
    after, packed = arrived(data)
    assert not packed.why
    assert not packed.unfit
    assert 0 < packed.error <= 1e-3
    one, other = h5py.File(io.BytesIO(data)), h5py.File(io.BytesIO(after))
    names: list[str] = []
    one.visit(names.append)
    differ = set()
    for name in names:
        if not isinstance(one[name], h5py.Dataset) or one[name].shape is None:
            continue
        here, there = one[name][()], other[name][()]
        if "refers" in name:
            assert [one[ref].name for ref in here] == [other[ref].name for ref in there]
            continue
        short = name.rpartition("/")[2]
        if name.startswith("fields/") and short in LOSSY:
            assert np.abs(there.astype("f8") - here).max() <= LOSSY[short], name
            differ |= {short} if (there != here).any() else set()
        else:
            same = here.tolist() == there.tolist() if "texts" in name else here.tobytes() == there.tobytes()
            assert same, name
    assert differ >= {"plain", "single", "chunked", "growing", "sparse"}
    # All that differs is elements that may.
    apart = np.flatnonzero(np.frombuffer(data, "u1") != np.frombuffer(after, "u1"))
    places = {0, *(int(place) for place in apart)}
    inside = [range(piece.begin, piece.end) for piece in packed.pieces]
    assert all(any(place in some for some in inside) for place in places - {0})
    saved = sum(piece.end - piece.begin - piece.stored for piece in packed.pieces)
    assert saved > 0.6 * sum(one[f"fields/{name}"].nbytes for name in LOSSY)


def test_without_bounds_a_file_arrives_bit_by_bit() -> None:
    data = written()
    after, packed = arrived(data, [Rule("*")])
    assert after == data
    assert packed.error == 0
    assert len(packed.pieces) > 5
    after, packed = arrived(data, [Rule("/nowhere", absolute=1.0)])
    assert after == data
    assert not packed.pieces
    assert packed.unfit == (0,)


def test_what_is_no_sound_file_crosses_as_it_is() -> None:
    kept = io.BytesIO()
    with h5py.File(kept, "w", userblock_size=512) as file:
        file["x"] = smooth(9000)
    cut = written()[:20_000]
    for data, why in ((b"", "HDF5"), (b"some text" * 1000, "HDF5"), (kept.getvalue(), "user block"), (cut, "HDF5")):
        after, packed = arrived(data)
        assert after == data
        assert why in packed.why


def test_many_small_chunks_are_packed_together() -> None:
    kept = io.BytesIO()
    with h5py.File(kept, "w") as file:
        file.create_dataset("x", data=smooth(20_000, 8), chunks=(4, 8))
    _, packed = arrived(kept.getvalue(), [Rule("x", absolute=1e-3)])
    assert len(packed.pieces) < 200
    assert len(packed.data) < 20_000 * 64 / 8


def test_the_range_of_a_relative_bound_is_that_of_the_elements() -> None:
    """Not that of what lies beside them in chunks at the edge."""
    kept = io.BytesIO()
    with h5py.File(kept, "w") as file:
        file.create_dataset("x", data=1000 + smooth(1010), chunks=(100,), fillvalue=0.0)
    after, packed = arrived(kept.getvalue(), [Rule("x", relative=1e-3)])
    with h5py.File(io.BytesIO(after)) as file:
        assert 0 < np.abs(file["x"][()] - 1000 - smooth(1010)).max() <= 2.1e-3
    assert packed.pieces


def damaged_steps(seeds: range) -> None:
    data = written()
    packer = Packer(RULES)
    packed = packer.pack(memoryview(data))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        pieces = [list(piece) for piece in packed.pieces]
        for _ in range(rng.integers(1, 3)):
            piece = pieces[rng.integers(len(pieces))]
            piece[rng.integers(3)] = [*HOSTILE, len(data), int(rng.integers(len(data)))][rng.integers(len(HOSTILE) + 2)]
        there = bytearray(b"\x5a" * (len(data) + 64))
        try:
            step = memoryview(there)[32:-32]
            packer.unpack(step, [(begin, end, stored) for begin, end, stored in pieces], memoryview(packed.data))
        except CannotUnpack:
            pass
        assert there[:32] == there[-32:] == b"\x5a" * 32


def test_damaged_lists_of_pieces_harm_nobody() -> None:
    damaged_steps(range(60))
