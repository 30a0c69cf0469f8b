"""Streams to learn from, made of a labelled data set: classes that come one group after the other, or changing inputs.

Pure functions on arrays. Three scenarios of continual learning: van de Ven, Tolias, Three scenarios for continual
learning, arXiv 1904.07734 (2019); of these, class-incremental and domain-incremental.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Transform = Callable[[NDArray[Any]], NDArray[Any]]
"""Changes inputs, samples along the first axis, without changing their number."""


@dataclass(frozen=True, slots=True)
class Experience:
    """A part of a stream: its samples, and what makes it different."""

    x: NDArray[Any]
    """Inputs, samples along the first axis."""
    y: NDArray[Any]
    """Class of each sample."""
    classes: tuple[int, ...]
    """The classes in it, ascending."""

    def as_batch(self) -> dict[str, NDArray[Any]]:
        """As `Learner.experience` takes it."""
        return {"x": self.x, "y": self.y}

    def share(self, rank: int, ranks: int) -> Experience:
        """A rank's part: every `ranks`-th sample; together the parts are all samples, each once."""
        return Experience(self.x[rank::ranks], self.y[rank::ranks], self.classes)


def class_groups(classes: Sequence[int], experiences: int, *, seed: int | None = None) -> list[tuple[int, ...]]:
    """Deal classes to experiences: in ascending order, or with a seed in random order. Earlier groups get the rest.

    Raises:
        ValueError: there are fewer classes than experiences, or a class is named twice.
    """
    if len(set(classes)) != len(classes):
        raise ValueError(f"a class is named twice in {list(classes)}")
    if not 1 <= experiences <= len(classes):
        raise ValueError(f"{len(classes)} classes cannot be dealt to {experiences} experiences, at least one to each")
    order = np.sort(np.asarray(classes))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
    return [tuple(sorted(group.tolist())) for group in np.array_split(order, experiences)]


def class_incremental(
    x: ArrayLike, y: ArrayLike, experiences: int, *, seed: int | None = None, shuffle: int | None = None
) -> list[Experience]:
    """Experiences, each with classes that were not seen before.

    Args:
        x: inputs, samples along the first axis.
        y: the class of each sample, a whole number.
        experiences: how many.
        seed: which classes come when; left out: in ascending order. Training and test data with the same classes and
            the same seed are split alike.
        shuffle: seed of a random order of samples within each experience; left out: as given.

    Raises:
        ValueError: x and y do not belong together, or there are too few classes.
    """
    inputs, labels = _paired(x, y)
    groups = class_groups(np.unique(labels).tolist(), experiences, seed=seed)
    parts = (np.flatnonzero(np.isin(labels, group)) for group in groups)
    orders = _shuffled(parts, shuffle)
    return [Experience(inputs[o], labels[o], group) for o, group in zip(orders, groups, strict=True)]


def domain_incremental(
    x: ArrayLike, y: ArrayLike, transforms: Sequence[Transform], *, shuffle: int | None = None
) -> list[Experience]:
    """Experiences with the same samples and classes, whose inputs are transformed: one experience per transform.

    Raises:
        ValueError: x and y do not belong together, there is no transform, or one changes the number of samples.
    """
    inputs, labels = _paired(x, y)
    if not transforms:
        raise ValueError("give one transform for each experience; `lambda x: x` leaves inputs as they are")
    classes = tuple(np.unique(labels).tolist())
    found = []
    everything = (np.arange(len(labels)) for _ in transforms)
    for number, (transform, order) in enumerate(zip(transforms, _shuffled(everything, shuffle), strict=True)):
        changed = np.asarray(transform(inputs))
        if len(changed) != len(inputs):
            raise ValueError(f"transform {number} makes {len(changed)} samples of {len(inputs)}")
        found.append(Experience(changed[order], labels[order], classes))
    return found


def permutations(shape: Sequence[int], experiences: int, *, seed: int = 0) -> list[Transform]:
    """Transforms that move the elements of a sample of this shape, each by a fixed random permutation; the first one
    leaves them in place. (Goodfellow et al., An Empirical Investigation of Catastrophic Forgetting, 2013.)"""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    orders = [np.arange(size), *(rng.permutation(size) for _ in range(experiences - 1))]

    def transform(order: NDArray[np.int64]) -> Transform:
        return lambda x: x.reshape(len(x), size)[:, order].reshape(len(x), *shape)

    return [transform(order) for order in orders[:experiences]]


def rotations(angles: Sequence[float]) -> list[Transform]:
    """Transforms that turn pictures, the last two axes, anticlockwise by these angles in degrees, about their middle.

    Values between pixels are interpolated linearly; what comes from outside is 0. Multiples of 90 degrees of square
    pictures are exact.
    """
    return [_rotation(angle) for angle in angles]


def _rotation(angle: float) -> Transform:
    def transform(x: NDArray[Any]) -> NDArray[Any]:
        height, width = x.shape[-2:]
        if angle % 90 == 0 and (height == width or angle % 180 == 0):
            return np.rot90(x, round(angle / 90), axes=(-2, -1))
        turn = np.deg2rad(angle)
        rows, columns = np.indices((height, width), dtype=float)
        rows, columns = rows - (height - 1) / 2, columns - (width - 1) / 2
        from_row = np.cos(turn) * rows + np.sin(turn) * columns + (height - 1) / 2
        from_column = -np.sin(turn) * rows + np.cos(turn) * columns + (width - 1) / 2
        turned = np.zeros(x.shape, np.result_type(x.dtype, np.float32))
        top, left = np.floor(from_row).astype(int), np.floor(from_column).astype(int)
        for row in (top, top + 1):
            for column in (left, left + 1):
                weight = (1 - np.abs(from_row - row)) * (1 - np.abs(from_column - column))
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                picked = x[..., np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
                turned += (picked * np.where(inside, weight, 0)).astype(turned.dtype)
        return turned

    return transform


def _paired(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    inputs, labels = np.asarray(x), np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ValueError(f"classes are one whole number per sample, not {labels.dtype} of shape {labels.shape}")
    if inputs.ndim == 0 or len(inputs) != len(labels):
        raise ValueError(f"there are {len(labels)} classes of samples, but inputs have the shape {inputs.shape}")
    return inputs, labels


def _shuffled(parts: Iterator[NDArray[np.int64]], seed: int | None) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    for part in parts:
        yield part if seed is None else rng.permutation(part)
