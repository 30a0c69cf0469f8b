"""k-means on a stream of samples: each step moves the centres, which weigh what came before.

The nearest centres: S. P. Lloyd, Least Squares Quantization in PCM, IEEE Transactions on Information Theory 28 (1982).
A stream: D. Sculley, Web-Scale K-Means Clustering, WWW 2010; that centres forget with a half-life is as in Spark's
streaming k-means. First centres: D. Arthur, S. Vassilvitskii, k-means++: The Advantages of Careful Seeding, SODA 2007.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.errors import TaskError

Array = NDArray[Any]
Doubles = NDArray[np.float64]

_BLOCK = 1 << 21
"""Bytes of a block's samples and products together: they stay near a core, and calls are few."""
_MOST = 1 << 14
"""Samples of a block."""
_BY_PRODUCT = 16
"""Up to so many clusters, their sums are a product of matrices; beyond, the samples are sorted by cluster."""


class Table(NamedTuple):
    """The centres as a pass over d features and k clusters uses them, in the type of the samples."""

    product: Array
    """-2 times the centres, transposed: (d, k)."""
    norms: Array
    """Square lengths of the centres: (k,)."""
    room: Array
    """Where the distances of a block go, over and over: memory that is new takes as long as the product. (n, k)."""

    @classmethod
    def of(cls, centres: Doubles, dtype: np.dtype[Any]) -> Table:
        """The table of these centres."""
        product = np.ascontiguousarray((-2 * centres).T.astype(dtype))
        return cls(product, np.einsum("ij,ij->i", centres, centres).astype(dtype), room_for(centres, dtype))


@dataclass(slots=True)
class Assigned:
    """What an assignment of samples to clusters gives."""

    sums: Doubles
    """Sums of the samples of each cluster: (k, d)."""
    counts: NDArray[np.int64]
    """Samples of each cluster: (k,)."""
    inertia: float
    """Sum of the square distances from the nearest centre."""
    left_out: int
    """Samples that hold a NaN or an infinite number, and are in no cluster."""
    labels: NDArray[np.int32]
    """The cluster of each sample; -1: none."""


def block_rows(features: int, clusters: int, dtype: np.dtype[Any]) -> int:
    """Samples of a block."""
    return min(max(_BLOCK // dtype.itemsize // (features + clusters), 1024), _MOST)


def room_for(centres: Doubles, dtype: np.dtype[Any]) -> Array:
    """The room of a table of these centres."""
    clusters, features = centres.shape
    return np.empty((block_rows(features, clusters, dtype), clusters), dtype)


def products(samples: Array, table: Table) -> Array:
    """Square distances from each centre, less the sample's own square length: (n, k), in the table's room."""
    room = table.room[: len(samples)] if len(samples) <= len(table.room) else None
    found: Array = np.matmul(samples, table.product, out=room)
    found += table.norms
    return found


def nearest(distances: Array) -> NDArray[np.int64]:
    """The cluster of each sample; of several at the same distance the first."""
    found: NDArray[np.int64] = distances.argmin(axis=1)
    return found


def at_labels(distances: Array, labels: NDArray[np.int64]) -> Array:
    """Each sample's entry of its cluster: (n,)."""
    rows, clusters = distances.shape
    found: Array = distances.reshape(-1)[np.arange(0, rows * clusters, clusters) + labels]
    return found


def cluster_sums(samples: Array, labels: NDArray[np.int64], clusters: int) -> Array:
    """Sums of the samples of each cluster, in the samples' type: (k, d)."""
    rows, features = samples.shape
    if clusters <= _BY_PRODUCT:
        chosen = np.zeros((rows, clusters), samples.dtype)
        chosen.reshape(-1)[np.arange(0, rows * clusters, clusters) + labels] = 1
        found: Array = chosen.T @ samples
        return found
    order = np.argsort(labels.astype(np.uint16), kind="stable")  # of 16 bits: sorted by radix
    ordered = labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sums = np.zeros((clusters, features), samples.dtype)
    if rows:
        sums[ordered[starts]] = np.add.reduceat(samples.take(order, axis=0), starts, axis=0)
    return sums


def square(samples: Array) -> float:
    """Sum of the squares of all elements."""
    flat = samples.reshape(-1)
    return float(np.vdot(flat, flat))


def assigned(samples: Array, table: Table) -> Assigned:
    """Assigns samples, of shape (n, d) and the table's type, to the nearest centres.

    Raises:
        TaskError: they are too large for sums of their squares.
    """
    total = square(samples)
    if not total < ceiling(samples.dtype, len(table.norms)):
        return without_unknown(samples, table, assigned)
    distances = products(samples, table)
    labels = nearest(distances)
    least = at_labels(distances, labels)
    clusters = len(table.norms)
    return Assigned(
        cluster_sums(samples, labels, clusters).astype(np.float64),
        np.bincount(labels, minlength=clusters),
        total + float(least.sum(dtype=np.float64)),
        0,
        labels.astype(np.int32),
    )


def ceiling(dtype: np.dtype[Any], clusters: int) -> float:
    """The sum of squares of a block below which no sum of its distances overflows."""
    return float(np.finfo(dtype).max) / (_MOST * 16 * clusters)


def without_unknown(samples: Array, table: Table, assign: Any) -> Assigned:
    """The same without the samples that hold a NaN or an infinite number.

    Raises:
        TaskError: all numbers are finite, and too large for sums of their squares.
    """
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(samples), axis=1)
    if finite.all():
        raise TaskError(
            f"samples as large as {np.abs(samples).max():.3g} times what the first step held have squares "
            f"too large for {samples.dtype}; leave out such a step, or begin with one that is as large"
        )
    found: Assigned = assign(samples[finite], table)
    labels = np.full(len(samples), -1, np.int32)
    labels[finite] = found.labels
    found.labels, found.left_out = labels, int(len(finite) - finite.sum())
    return found


def first_centres(samples: Doubles, clusters: int, random: np.random.Generator) -> Doubles:
    """k-means++: each centre is a sample, drawn with a probability that grows as its square distance from the others.

    Args:
        samples: (n, d), at least as many as clusters.
        clusters: their number.
        random: the source of chance.
    """
    chosen = [int(random.integers(len(samples)))]
    apart = _square_distances(samples, samples[chosen[0]])
    while len(chosen) < clusters:
        ends = np.cumsum(apart)
        if ends[-1] > 0:
            place = int(np.searchsorted(ends, random.random() * ends[-1], side="right"))
            place = min(place, int(np.flatnonzero(apart)[-1]))
        else:  # fewer different samples than clusters
            place = int(random.integers(len(samples)))
        chosen.append(place)
        apart = np.minimum(apart, _square_distances(samples, samples[place]))
    centres: Doubles = samples[chosen]
    return centres


def _square_distances(samples: Doubles, centre: Doubles) -> Doubles:
    apart = samples - centre
    found: Doubles = np.einsum("ij,ij->i", apart, apart)
    return found


def moved(centres: Doubles, weights: Doubles, found: Assigned) -> Doubles:
    """The centres after the samples of a step, which count beside those before by their weights; an empty cluster's
    centre stays.

    Args:
        centres: (k, d), before the step.
        weights: (k,), of the samples before the step.
        found: the step's samples, assigned.
    """
    whole = weights + found.counts
    share = np.divide(1.0, whole, out=np.zeros_like(whole), where=found.counts > 0)[:, None]
    heavy = (weights[:, None] * centres + found.sums) * share
    return np.where(found.counts[:, None] > 0, heavy, centres)


class Frame(NamedTuple):
    """Where the samples are seen from, so that no digits are lost: shifted, then scaled by a power of two."""

    origin: Doubles
    """(d,)."""
    scale: float

    @classmethod
    def of(cls, samples: Doubles) -> Frame:
        """A frame for samples like these, (n, d), all finite.

        The origin is 0 unless the samples lie far from it for their spread; the scale is 1 unless their squares might
        overflow or vanish.
        """
        largest = float(np.abs(samples).max(initial=0.0))
        bring = math.ldexp(1.0, min(-math.frexp(largest)[1], 1000))
        small = samples * bring
        mean = small.mean(axis=0)
        spread = math.sqrt(float(np.square(small - mean).mean()))
        far = float(np.abs(mean).max()) > _FAR * spread
        origin = mean / bring if far else np.zeros(samples.shape[1])
        exponent = math.frexp(float(np.abs(samples - origin).max(initial=0.0)))[1]
        return cls(origin, 1.0 if abs(exponent) <= _PLAIN else math.ldexp(1.0, min(-exponent, 1000)))

    @property
    def plain(self) -> bool:
        """Whether samples are seen as they are."""
        return self.scale == 1.0 and not self.origin.any()

    def seen(self, samples: Array) -> Array:
        """The samples in the frame: `samples` itself if it is plain."""
        if self.plain:
            return samples
        found: Array = samples - self.origin.astype(samples.dtype)
        if self.scale != 1.0:
            exponent = math.frexp(self.scale)[1] - 1
            for half in (exponent // 2, exponent - exponent // 2):  # single precision need not hold all of it
                found *= samples.dtype.type(math.ldexp(1.0, half))
        return found

    def outside(self, centres: Doubles) -> Doubles:
        """Centres in the units of the data."""
        return centres / self.scale + self.origin


_FAR = 8.0
"""Samples are shifted if their mean is farther from zero than so many times their spread."""
_PLAIN = 30
"""Samples are scaled if the largest is above two to this power, or below one over it."""
