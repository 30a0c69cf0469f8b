"""k-means with checks: what a flipped bit has changed is found, or changes no label.

The product of samples and centres is checked by its row and column sums (Huang, Abraham, 1984; for k-means: S. Wu et
al., FT K-Means, arXiv:2408.01391, 2024). Samples, centres and labels are sealed by the exact sum of their bits.

A sum differs from what it should be by rounding, too. Up to a threshold it is taken for that. It grows as the square
root of the number of terms (N. J. Higham, T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J.
Sci. Comput. 41, 2019; as the variance-based one of Y. Gao, Q. Hua, Z. Chen, V-ABFT, arXiv:2602.08043). Neither of its
errors matters:

- An error below it might still change the label of a sample that is nearly as far from two centres. All such samples
  are decided by their distances in double precision, term by term.
- If the sum is beyond it, the product is computed again. Only one that is other then, or beyond the certain bound
  (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), is a fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.analysis import kmeans
from wilkins.tasks.analysis.checks import Flipped, Guarded, Watch, seal
from wilkins.tasks.analysis.kmeans import Array, Assigned, Doubles, Table
from wilkins.tasks.errors import TaskError

_LIKELY = 4.0
"""How many times the expected rounding error of a sum is taken for rounding."""
_AT_ONCE = 1 << 20
"""Elements of samples that are decided at once."""
_LONG = 256
"""Where a sample's distances have more bytes, looking for the least a second time is quicker than comparing all."""


class CheckedTable:
    """The centres of a pass, sealed, and the bounds that follow from them.

    Args:
        master: the centres, (k, d); they stay as they are while the table is used.
        dtype: of the samples.
        watch: is told of flipped bits.
    """

    def __init__(self, master: Guarded, dtype: np.dtype[Any], watch: Watch) -> None:
        self._master, self._dtype, self._watch = master, dtype, watch
        self.unit = float(np.finfo(dtype).eps) / 2
        """The largest relative rounding error of one operation."""
        self.tiny = float(np.finfo(dtype).tiny)
        clusters, features = master.values.shape
        self._ones = np.ones(max(clusters, kmeans.block_rows(features, clusters, dtype)), dtype)
        self.room = np.zeros((len(self._ones), -(-clusters // 8) * 8), bool)
        """Where entries of a block are compared; what is beyond the clusters stays false."""
        self._fill()

    def _fill(self) -> None:
        centres = self.centres
        clusters, features = centres.shape
        self._whole = np.empty((features + 1) * (clusters + 1), self._dtype)  # beside each other, so one seal does
        product = self._whole[: features * clusters].reshape(features, clusters)
        norms = self._whole[features * clusters :][:clusters]
        self.total = self._whole[features * clusters + clusters :][:features]
        """(d,): the sum of the table's columns, whose product with a sample is the sum of the sample's products."""
        self._whole[-1] = 0
        np.multiply(centres.T, -2, out=product, casting="same_kind")
        squares = np.einsum("ij,ij->i", centres, centres)
        norms[:] = squares
        self.total[:] = product.sum(axis=1, dtype=np.float64)
        self.table = Table(product, norms, kmeans.room_for(centres, self._dtype))
        self.all_squares = float(squares.sum())
        self.ceiling = kmeans.ceiling(self._dtype, clusters)
        self._longest = math.sqrt(float(squares.max(initial=0.0)))
        self._root, self._root_squares = 2 * math.sqrt(self.all_squares), float(np.linalg.norm(squares))
        self._lengths, self._squares = 2 * np.sqrt(squares), squares
        self._seals = seal(self._whole), seal(self._ones)

    @property
    def centres(self) -> Doubles:
        """The centres themselves: (k, d)."""
        return self._master.get(self._watch)

    def check(self) -> None:
        """Finds a flipped bit, and makes the table anew from the centres.

        Raises:
            Flipped: there was one.
        """
        if (seal(self._whole), seal(self._ones)) != self._seals:
            self._ones[:] = 1
            self._fill()
            raise Flipped("a bit of the centres in use has flipped")

    def ones(self, count: int) -> Array:
        """(count,)."""
        return self._ones[:count] if count <= len(self._ones) else np.ones(count, self._dtype)

    def row_bounds(self, lengths: Any, *, certain: bool) -> Any:
        """How far the sum of the distances of samples, of these lengths, may be off by rounding."""
        features, clusters = self.table.product.shape
        if certain:
            terms = 2.2 * (features + clusters + 4) * math.sqrt(clusters)
        else:
            terms = _LIKELY * math.sqrt(features + clusters)
        terms *= self.unit
        return terms * self._root * lengths + (terms * self._root_squares + (features + clusters) * self.tiny)

    def column_bounds(self, count: int, total: float, *, certain: bool) -> Doubles:
        """The same of the sum of each centre's distances, of samples with this sum of squares: (k,)."""
        features = self.table.product.shape[0]
        terms = 2.2 * (features + count + 4) if certain else 2 * math.sqrt(features + count)
        terms *= self.unit * math.sqrt(count)
        found: Doubles = terms * math.sqrt(total) * self._lengths
        found += terms * math.sqrt(count) * self._squares + (features + count) * self.tiny
        return found

    def margins(self, lengths: Any, bounds: Any) -> Any:
        """How much nearer than the next the nearest centre must be, if no error within the bounds is to matter."""
        entry = self.unit * (len(self.total) + 4) * self._longest
        return 4 * bounds + 8 * entry * lengths + 4 * entry * self._longest


def block(samples: Array, before: int, read: Callable[[], Array], known: CheckedTable, watch: Watch) -> Assigned:
    """Assigns a block of samples. One that has changed is read again; a fault is noted, and the work done again.

    Args:
        samples: (n, d), of the table's type.
        before: their seal, made when they were read.
        read: gives them once more.
        known: the centres.
        watch: is told of faults.

    Raises:
        TaskError: a fault comes again, or the samples are too large for sums of their squares.
    """
    try:
        return _sealed(samples, before, known, watch)
    except Flipped as fault:
        watch.note(fault)
    if seal(samples) != before:
        samples = read()
        before = seal(samples)
    try:
        return _sealed(samples, before, known, watch)
    except Flipped as fault:
        raise watch.again(fault) from None


def _sealed(samples: Array, before: int, known: CheckedTable, watch: Watch) -> Assigned:
    """As `assigned`; the samples are the same before and after.

    Raises:
        Flipped: they are not, or as there.
        TaskError: as there.
    """
    trouble: Exception | None = None
    found = None
    with np.errstate(all="ignore"):
        try:
            found = assigned(samples, known, watch)
        except (TaskError, IndexError, ValueError, MemoryError) as error:  # of flipped samples or labels, or real
            trouble = error
    if seal(samples) != before:
        raise Flipped("a bit of the samples has flipped")
    if trouble:
        raise trouble
    assert found is not None
    return found


def assigned(samples: Array, known: CheckedTable, watch: Watch) -> Assigned:
    """As `kmeans.assigned`, checked; the caller compares the seal of the samples before and after.

    Raises:
        Flipped: what the centres, labels or sums hold has changed.
        TaskError: a wrong product comes again, or the samples are too large for sums of their squares.
    """
    table = known.table
    total, lengths = _lengths(samples, known.tiny)
    if not total < known.ceiling:

        def part(finite: Array, _: Table) -> Assigned:
            return _sealed(finite, seal(finite), known, watch)

        return kmeans.without_unknown(samples, table, part)
    columns = known.ones(len(samples)) @ samples
    most = total + samples.size * known.tiny  # squares of tiny numbers vanish
    labels, least = _labels(samples, columns, most, lengths, known, watch)
    before = seal(labels)
    clusters = len(table.norms)
    try:
        sums = _sums(samples, labels, columns, most, known)
        counts = np.bincount(labels, minlength=clusters)
    except (IndexError, ValueError, MemoryError):
        if seal(labels) == before:
            raise
        raise Flipped("a bit of the labels has flipped") from None
    if len(counts) != clusters or int(counts.sum()) != len(samples):
        raise Flipped("the counts of the clusters are not those of the samples")
    inertia = total + float(least.sum(dtype=np.float64))
    kept = labels.astype(np.int32)
    if seal(labels) != before:
        raise Flipped("a bit of the labels has flipped")
    known.check()
    return Assigned(sums.astype(np.float64), counts, inertia, 0, kept)


def _lengths(samples: Array, tiny: float) -> tuple[float, Any]:
    """The sum of the squares, and bounds of the lengths: (n,). Where digits are many, one bound for all does."""
    if samples.dtype.itemsize >= 8:
        total = kmeans.square(samples)
        return total, math.sqrt(total + samples.shape[1] * tiny)
    squares = np.einsum("ij,ij->i", samples, samples)
    total = float(squares.sum(dtype=np.float64))
    squares += squares.dtype.type(samples.shape[1] * tiny)
    return total, np.sqrt(squares, out=squares)


def _labels(
    samples: Array, columns: Array, total: float, lengths: Any, known: CheckedTable, watch: Watch
) -> tuple[NDArray[np.int64], Array]:
    """The label of each sample, and its entry of the product."""
    bounds = known.row_bounds(lengths, certain=False)
    distances = kmeans.products(samples, known.table)
    for attempt in range(2):
        labels, least, limits, close = _chosen(distances, known.margins(lengths, bounds), known.room)
        wrong = _sums_differ(samples, columns, distances, total, bounds, known, certain=False)
        if not wrong:
            break
        known.check()
        before = seal(distances)
        distances = kmeans.products(samples, known.table)
        if seal(distances) == before:  # the same bit by bit: rounding, or what is wrong always
            bounds = known.row_bounds(lengths, certain=True)
            if _sums_differ(samples, columns, distances, total, bounds, known, certain=True):
                raise watch.again(wrong)
            labels, least, limits, close = _chosen(distances, known.margins(lengths, bounds), known.room)
            break
        if attempt:
            raise watch.again(wrong)
        watch.note(wrong)
    if len(close):
        labels[close] = _decided(samples[close], distances[close] <= limits[close][:, None], known)
        least[close] = distances[close, labels[close]]
    return labels, least


def _chosen(distances: Array, margins: Any, room: Array) -> tuple[NDArray[np.int64], Array, Array, NDArray[np.int64]]:
    """Labels, their entries, what others must be above lest an unseen error hides between, and the samples that have
    others below: (n,), (n,), (n,), and as many as there are."""
    labels = kmeans.nearest(distances)
    rows, clusters = distances.shape
    if int(labels.view(np.uint64).max(initial=0)) >= clusters:
        raise Flipped("a bit of the labels has flipped")
    flat, places = distances.reshape(-1), np.arange(0, rows * clusters, clusters)
    places += labels
    least = flat[places]
    limits = (least + margins).astype(distances.dtype, copy=False)
    if clusters * distances.itemsize > _LONG:
        flat[places] = limits
        close = np.flatnonzero(kmeans.nearest(distances) != labels)
        flat[places] = least
        return labels, least, limits, close
    wide = room.shape[1]
    near = room[:rows] if rows <= len(room) else np.zeros((rows, wide), bool)
    np.less_equal(distances, limits[:, None], out=near[:, :clusters])
    near.reshape(-1)[np.arange(0, rows * wide, wide) + labels] = False
    close = np.flatnonzero(near.reshape(-1).view(np.uint64) != 0) // (wide // 8)
    return labels, least, limits, close[np.diff(close, prepend=-1) != 0]


def _sums_differ(
    samples: Array, columns: Array, distances: Array, total: float, bounds: Any, known: CheckedTable, *, certain: bool
) -> str:
    """Whether the sums of the product's rows or columns are other than by rounding: words, or nothing."""
    count, clusters = distances.shape
    rows = distances @ known.ones(clusters)
    rows -= samples @ known.total
    rows -= rows.dtype.type(known.all_squares)
    if not (np.abs(rows, out=rows) <= bounds).all():
        return "a sum of a row of the distances is wrong"
    apart = known.ones(count) @ distances
    apart -= columns @ known.table.product
    apart -= count * known.table.norms
    if not (np.abs(apart, out=apart) <= known.column_bounds(count, total, certain=certain)).all():
        return "a sum of a column of the distances is wrong"
    return ""


def _decided(samples: Array, close: NDArray[np.bool_], known: CheckedTable) -> NDArray[np.int64]:
    """Labels of samples by their distances from the close centres, in double precision, term by term; of several at the
    same distance the first.

    Args:
        samples: (m, d).
        close: (m, k).
        known: the centres.
    """
    rows, clusters = np.nonzero(close)
    centres = known.centres
    apart = np.full(close.shape, np.inf)
    at_once = max(1, _AT_ONCE // samples.shape[1])
    for first in range(0, len(rows), at_once):
        row, cluster = rows[first : first + at_once], clusters[first : first + at_once]
        away = samples[row] - centres[cluster]
        apart[row, cluster] = np.einsum("ij,ij->i", away, away)
    found: NDArray[np.int64] = apart.argmin(axis=1)
    return found


def _sums(samples: Array, labels: NDArray[np.int64], columns: Array, total: float, known: CheckedTable) -> Array:
    """The sums of the clusters' samples; all together they are those of all samples.

    Raises:
        Flipped: they are not.
    """
    clusters = len(known.table.norms)
    sums = kmeans.cluster_sums(samples, labels, clusters)
    count = len(samples)
    size = known.unit * math.sqrt(total) * math.sqrt(max(count, 1))
    off = float(np.abs(known.ones(clusters) @ sums - columns).max(initial=0.0))
    if off <= _LIKELY * size + count * known.tiny:
        return sums
    again = kmeans.cluster_sums(samples, labels, clusters)
    if seal(again) == seal(sums) and off <= 2.2 * (count + clusters) * size + count * known.tiny:
        return sums
    raise Flipped("the sums of the clusters are not those of the samples")
