"""Streams made of a data set: nothing is lost or doubled, classes come when they should, seeds decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wilkins.tasks.continual.scenarios import (
    class_groups,
    class_incremental,
    domain_incremental,
    permutations,
    rotations,
)

X = np.arange(60, dtype=np.float32).reshape(20, 3)
Y = np.arange(20) % 5


def test_classes_come_in_groups() -> None:
    stream = class_incremental(X, Y, 2)
    assert [one.classes for one in stream] == [(0, 1, 2), (3, 4)]
    for one in stream:
        assert set(one.y.tolist()) == set(one.classes)
        np.testing.assert_array_equal(Y[(one.x[:, 0] / 3).astype(int)], one.y)
    assert sorted(np.concatenate([one.x[:, 0] for one in stream]).tolist()) == X[:, 0].tolist()


def test_seeds_decide() -> None:
    groups = [class_groups(range(10), 5, seed=seed) for seed in range(20)]
    assert len({str(one) for one in groups}) > 10
    assert groups[3] == class_groups(range(10), 5, seed=3)
    for one in groups:
        assert sorted(sum(one, ())) == list(range(10))
    test = class_incremental(X[5:], Y[5:], 2, seed=4, shuffle=1)
    train = class_incremental(X, Y, 2, seed=4, shuffle=9)
    assert [one.classes for one in test] == [one.classes for one in train]


def test_shuffled_within_an_experience() -> None:
    plain, one, same, other = (class_incremental(X, Y, 2, shuffle=seed)[0] for seed in (None, 1, 1, 2))
    assert plain.x[:, 0].tolist() == sorted(plain.x[:, 0].tolist())
    assert one.x.tolist() == same.x.tolist() != plain.x.tolist()
    assert other.x.tolist() != one.x.tolist()
    assert sorted(one.x[:, 0].tolist()) == plain.x[:, 0].tolist()


@pytest.mark.parametrize("ranks", [1, 2, 3, 30])
def test_ranks_share_an_experience(ranks: int) -> None:
    whole = class_incremental(X, Y, 2, shuffle=0)[0]
    parts = [whole.share(rank, ranks) for rank in range(ranks)]
    assert sorted(np.concatenate([one.x[:, 0] for one in parts]).tolist()) == sorted(whole.x[:, 0].tolist())
    sizes = [len(one.y) for one in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(one.as_batch()["x"].shape[1:] == (3,) for one in parts)


def test_permuted_inputs() -> None:
    pictures = np.arange(2 * 4 * 5).reshape(2, 4, 5)
    first, second, third = permutations((4, 5), 3, seed=7)
    np.testing.assert_array_equal(first(pictures), pictures)
    moved = second(pictures)
    assert moved.shape == pictures.shape
    assert sorted(moved[1].ravel().tolist()) == sorted(pictures[1].ravel().tolist())
    np.testing.assert_array_equal(moved[0].ravel() + 20, moved[1].ravel())  # the same permutation for all samples
    assert not np.array_equal(moved, third(pictures))
    np.testing.assert_array_equal(moved, permutations((4, 5), 2, seed=7)[1](pictures))


def test_turned_pictures() -> None:
    picture = np.zeros((1, 5, 5))
    picture[0, 0, 2] = 1  # on top, in the middle
    whole, quarter, eighth = (turn(picture)[0] for turn in rotations([0, 90, 45]))
    np.testing.assert_array_equal(whole, picture[0])
    assert quarter[2, 0] == 1  # anticlockwise: to the left
    row, column = np.unravel_index(eighth.argmax(), eighth.shape)
    assert row < 2 and column < 2
    almost = rotations([90 - 1e-9])[0](picture)[0]
    np.testing.assert_allclose(almost, quarter, atol=1e-6)
    flat = rotations([30])[0](np.ones((2, 9, 9)))
    np.testing.assert_allclose(flat[:, 3:6, 3:6], 1)


def test_domains_change_inputs_only() -> None:
    def doubled(x: NDArray[Any]) -> NDArray[Any]:
        return 2 * x

    stream = domain_incremental(X, Y, [lambda x: x, doubled], shuffle=3)
    assert [one.classes for one in stream] == [(0, 1, 2, 3, 4)] * 2
    assert sorted(stream[1].x[:, 0].tolist()) == (2 * X[:, 0]).tolist()
    for factor, one in zip((1, 2), stream, strict=True):
        np.testing.assert_array_equal(Y[(one.x[:, 0] / 3 / factor).astype(int)], one.y)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="5 classes cannot be dealt to 6 experiences"):
        class_incremental(X, Y, 6)
    with pytest.raises(ValueError, match=r"20 classes of samples, but inputs have the shape \(19, 3\)"):
        class_incremental(X[1:], Y, 2)
    with pytest.raises(ValueError, match="one whole number per sample, not float64"):
        class_incremental(X, Y / 2, 2)
    with pytest.raises(ValueError, match="named twice"):
        class_groups([1, 1], 1)
    with pytest.raises(ValueError, match="one transform for each"):
        domain_incremental(X, Y, [])
    with pytest.raises(ValueError, match="transform 0 makes 10 samples of 20"):
        domain_incremental(X, Y, [lambda x: x[::2]])
