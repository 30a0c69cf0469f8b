"""A buffer in one process: what comes back, in which form, and what it says when a batch is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wilkins.tasks.continual import BadSample, RehearsalBuffer, RehearsalError, RehearsalOptions, concatenate

Batch = dict[str, NDArray[Any]]


def options(**changes: Any) -> RehearsalOptions:
    """A small buffer."""
    return RehearsalOptions(**{"batch": 8, "candidates": 4, "representatives": 5, "samples": 20} | changes)


def batch(step: int, size: int = 8) -> Batch:
    """Samples whose tensors all follow from their number."""
    number = np.arange(step * 100, step * 100 + size)
    return {"x": np.tile(number[:, None, None], (1, 3, 2)).astype("f4"), "y": number % 5, "number": number}


@pytest.mark.parametrize("background", [True, False], ids=["in a thread", "at once"])
def test_representatives_are_earlier_samples(background: bool) -> None:
    """What comes back was offered two steps before or earlier: a batch is inserted only after the draw it starts."""
    with RehearsalBuffer(options(label="y", background=background)) as buffer:
        for step in range(40):
            given = batch(step)
            expected = {name: array.copy() for name, array in given.items()}
            drawn = buffer.update(given)
            for array in given.values():
                array[...] = -1  # the caller's arrays are its own again
            number = drawn["number"]
            assert len(number) == (0 if step < 2 else 4 if step == 2 else 5)
            assert len(set(number.tolist())) == len(number)
            assert all(n // 100 <= step - 2 and n % 100 < 8 for n in number.tolist())
            assert (drawn["y"] == number % 5).all()
            assert (drawn["x"] == number[:, None, None]).all()
            for name, array in drawn.items():
                assert (array.dtype, array.shape[1:]) == (expected[name].dtype, expected[name].shape[1:])
                assert array.flags.c_contiguous
            joined = concatenate(expected, drawn)
            assert len(joined["x"]) == 8 + len(number)
        statistics = buffer.statistics()
    assert statistics.step == 39
    assert (statistics.size, statistics.capacity, statistics.population) == (20, 20, 20)
    assert statistics.classes == dict.fromkeys(range(5), 4)
    assert statistics.candidates == 39 * 4
    assert statistics.kept == statistics.size + statistics.replaced
    assert statistics.drawn == 4 + 37 * 5
    assert statistics.drawn_elsewhere == statistics.messages == statistics.bytes_received == 0
    assert statistics.waits == 39
    assert asdict(statistics)["wait_seconds"] > 0


@pytest.mark.parametrize("eviction", ["reservoir", "random", "fifo"])
@pytest.mark.parametrize("balance", ["class", "proportional"])
@pytest.mark.parametrize("label", ["y", None])
def test_every_eviction(eviction: str, balance: str, label: str | None) -> None:
    """Labelled or not, balanced or not, samples stay whole."""
    with RehearsalBuffer(options(eviction=eviction, balance=balance, label=label)) as buffer:
        for step in range(30):
            drawn = buffer.update(batch(step))
            assert (drawn["x"] == drawn["number"][:, None, None]).all()
        statistics = buffer.statistics()
    assert statistics.size == 20
    assert sum(statistics.classes.values()) == (20 if label else 0)
    if eviction == "fifo" and balance == "proportional":
        assert drawn["number"].min() >= 2300


DTYPES = [
    "?",
    "i1",
    "u2",
    "<i8",
    ">f4",
    "f2",
    "f8",
    "c8",
    "c16",
    "S5",
    "U3",
    "M8[s]",
    [("a", "f4"), ("b", ">i2", (2,))],
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0 + 1, 4)])
def test_any_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    """Bytes, byte order and fields come back as they were, also from arrays that are not contiguous."""
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    raw = rng.integers(0, 2 if kind.kind == "?" else 60, (6, *shape, kind.itemsize), np.uint8)
    if kind.kind == "U":
        raw = rng.integers(65, 90, (6, *shape, 3), np.uint32).view(np.uint8)
    values = raw.view(kind).reshape(6, *shape)
    spread = np.empty((6, 2, *shape), kind)
    spread[:, 1] = values
    with RehearsalBuffer(options(batch=6, candidates=6, representatives=6, samples=6, nan="keep")) as buffer:
        for _ in range(3):
            drawn = buffer.update({"v": spread[:, 1], "n": np.arange(6, dtype="u1")})
    assert drawn["v"].dtype == kind
    assert drawn["v"].tobytes() == values[drawn["n"]].tobytes()


def test_room_in_bytes() -> None:
    with RehearsalBuffer(options(samples=None, bytes=1000)) as buffer:
        for step in range(10):
            buffer.update(batch(step))
        statistics = buffer.statistics()
    assert statistics.sample_bytes == 32 + 16 + 16
    assert statistics.capacity == statistics.size == 15


def test_batches_of_any_length() -> None:
    """A short last batch, an empty one and a long one are fine."""
    with RehearsalBuffer(options()) as buffer:
        for step, size in enumerate([8, 3, 0, 20, 1, 0, 8]):
            drawn = buffer.update(batch(step, size))
    assert len(drawn["x"]) == 5


def test_classes_that_come_later_share_the_room() -> None:
    with RehearsalBuffer(options(label="y", samples=12)) as buffer:
        for step in range(90):
            label = step // 30 * 1000
            buffer.update({"y": np.full(8, label), "x": np.zeros((8, 2))})
        buffer.take()
        assert buffer.statistics().classes == {0: 4, 1000: 4, 2000: 4}


def test_the_same_seed_gives_the_same_draws() -> None:
    def numbers(seed: int) -> list[int]:
        with RehearsalBuffer(options(seed=seed)) as buffer:
            return [n for step in range(20) for n in buffer.update(batch(step))["number"].tolist()]

    assert numbers(3) == numbers(3)
    assert numbers(3) != numbers(4)


def broken(**changes: Any) -> Batch:
    """A batch with other tensors."""
    return {name: array for name, array in (batch(2) | changes).items() if array is not None}


@pytest.mark.parametrize(
    ("given", "tensor", "message"),
    [
        (broken(x=np.zeros((8, 3, 3), "f4")), "x", r"samples are float32 \(3, 3\), the buffer's are float32 \(3, 2\)"),
        (broken(x=np.zeros((8, 3, 2), "f8")), "x", r"samples are float64 \(3, 2\), the buffer's are float32 \(3, 2\)"),
        (broken(x=np.zeros((7, 3, 2), "f4"), y=np.zeros(8, int)), "y", "holds 8 samples, tensor 'x' 7"),
        (broken(x=None), "x", "is missing"),
        (broken(z=np.zeros(8)), "z", "is not expected"),
        (broken(y=None), "y", "no such tensor, but holds number, x"),
        (broken(y=np.full(8, 5)), "y", "sample 0 has label 5, but classes are 0 to 4"),
        (broken(y=np.array([0, 1, -1, 0, 0, 0, 0, 0])), "y", "sample 2 has label -1"),
        (broken(y=np.zeros(8)), "y", "labels are float64, but classes are whole numbers"),
        (broken(y=np.zeros((8, 1), int)), "y", r"labels have shape \(8, 1\)"),
        (broken(x=np.array([None] * 8)), "x", "are objects"),
        (broken(x=[1.0] * 8), "x", "a list is no array"),
        (broken(x=np.float32(1)), "x", "a single number"),
        ([1, 2], "", "a batch is a mapping of names to arrays, not a list"),
    ],
)
def test_a_batch_that_does_not_fit(given: Any, tensor: str, message: str) -> None:
    """The error names the port, the step and the tensor; the buffer takes no more batches."""
    with (
        pytest.raises(BadSample, match=message) as caught,
        RehearsalBuffer(options(label="y", classes=5), port="digits-*.h5") as buffer,
    ):
        for step in range(7):
            buffer.update(batch(step))
        buffer.update(given)
    assert (caught.value.port, caught.value.step, caught.value.tensor) == ("digits-*.h5", 7, tensor)
    assert str(caught.value).startswith(
        "rehearsal buffer, port 'digits-*.h5', step 7" + (f", tensor {tensor!r}: " if tensor else ": ")
    )
    with pytest.raises(RehearsalError, match=message):
        buffer.offer(batch(8))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "holds no tensors"),
        ({"x": np.zeros((8, 0))}, r"samples of shape \(0,\) have no elements"),
        ({"x": np.zeros((8, 1000))}, "a sample takes 8,000 bytes, but the buffer has room for 500"),
    ],
)
def test_a_first_batch_that_cannot_be_kept(given: Any, message: str) -> None:
    with pytest.raises(BadSample, match=message), RehearsalBuffer(options(samples=None, bytes=500)) as buffer:
        buffer.update(given)


def with_nan(sample: int) -> Batch:
    """A batch of which one sample holds NaN."""
    given = batch(0)
    given["x"][sample, 1, 1] = np.nan
    return given


def test_nan_is_an_error() -> None:
    """It is found in the background and raised a step later, with the step it came in."""
    with (
        pytest.raises(BadSample, match="sample 6 holds NaN") as caught,
        RehearsalBuffer(options(candidates=8), port="p") as buffer,
    ):
        buffer.update(batch(0))
        buffer.update(with_nan(6))
        buffer.update(batch(2))
    assert (caught.value.step, caught.value.tensor) == (1, "x")


def test_nan_in_the_last_batch_is_an_error() -> None:
    with pytest.raises(BadSample, match="sample 0 holds NaN"), RehearsalBuffer(options(candidates=8)) as buffer:
        buffer.update(with_nan(0))


@pytest.mark.parametrize("policy", ["skip", "keep"])
def test_nan_is_skipped_or_kept(policy: str) -> None:
    with RehearsalBuffer(options(candidates=8, nan=policy, samples=100, representatives=100)) as buffer:
        for _ in range(3):
            drawn = buffer.update(with_nan(6))
        statistics = buffer.statistics()
    assert np.isnan(drawn["x"]).any() == (policy == "keep")
    assert statistics.skipped == (2 if policy == "skip" else 0)
    assert set(drawn["number"].tolist()) == set(range(8)) - ({6} if policy == "skip" else set())


def test_nan_in_a_field_is_found() -> None:
    values = np.zeros(8, [("a", "i4"), ("b", "f8", (2,))])
    values["b"][3, 1] = np.nan
    with pytest.raises(BadSample, match="sample 3 holds NaN"), RehearsalBuffer(options(candidates=8)) as buffer:
        buffer.update({"v": values})


def test_an_empty_stream() -> None:
    """No batch at all, or only empty ones."""
    with RehearsalBuffer(options(label="y")) as buffer:
        assert buffer.take() == {}
        assert buffer.statistics().size == 0
    with RehearsalBuffer(options(label="y")) as buffer:
        for step in range(4):
            assert len(buffer.update(batch(step, 0))["x"]) == 0


def test_take_before_the_next_offer() -> None:
    with pytest.raises(RehearsalError, match="take"), RehearsalBuffer(options()) as buffer:
        assert buffer.take() == {}
        buffer.offer(batch(0))
        buffer.offer(batch(1))


def test_what_a_forward_pass_tells_is_kept_too() -> None:
    """DER keeps logits: take, train, then offer the batch with them."""
    with RehearsalBuffer(options()) as buffer:
        for step in range(10):
            drawn = buffer.take()
            given = batch(step)
            buffer.offer(given | {"logits": given["x"].sum((1, 2))})
    assert (drawn["logits"] == drawn["x"].sum((1, 2))).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": 9}, "'candidates' \\(9\\) must not exceed 'batch' \\(8\\)"),
        ({"batch": 0}, "'batch' must be a whole number, 1 or more"),
        ({"representatives": True}, "'representatives' must be a whole number"),
        ({"samples": None}, "either 'samples' or 'bytes'"),
        ({"bytes": 5}, "either 'samples' or 'bytes'"),
        ({"eviction": "lru"}, "'eviction' must be one of reservoir, random, fifo, not 'lru'"),
        ({"balance": "none"}, "'balance' must be one of class, step, task, proportional"),
        ({"nan": "drop"}, "'nan' must be one of error, skip, keep"),
        ({"classes": 3}, "'classes' is given, but not 'label'"),
        ({"seed": -1}, "'seed' must be a whole number from 0 on"),
    ],
)
def test_wrong_options(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options(**changes)
