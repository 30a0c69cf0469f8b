"""How far a compressed dataset may be from what it was, and how far it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LOSSY = ("<f4", "<f8")
"""What an error-bounded compressor takes; all else is kept bit by bit."""
_INSIDE = 1 - 2.0**-20
"""Of a bound, what the compressor is given, so that rounding does not lead beyond it."""


class Rule(NamedTuple):
    """How datasets are compressed."""

    dset: str
    """A path, or a pattern of paths."""
    absolute: float | None = None
    """The largest difference of an element, in its own unit."""
    relative: float | None = None
    """The same, as a part of the range (greatest minus least value) of the dataset in that step."""

    def means(self, path: str) -> bool:
        """Whether it says of the dataset of a path. One whose name holds brackets is also meant by just that name."""
        own, pattern = path.lstrip("/"), self.dset.lstrip("/")
        return own == pattern or fnmatchcase(path, self.dset) or fnmatchcase(own, pattern)

    @property
    def lossy(self) -> bool:
        """Whether elements may differ at all."""
        return self.absolute is not None or self.relative is not None

    def bound(self, dtype: np.dtype[Any], low: float, high: float) -> float:
        """The largest difference that elements of such a type may have; 0: none.

        Args:
            low: the least finite element.
            high: the greatest one.
        """
        if not self.lossy or dtype.str not in _LOSSY or dtype.names is not None:
            return 0.0
        asked = [] if self.absolute is None else [self.absolute]
        if self.relative is not None:
            asked.append(self.relative * (high - low))
        bound = min(asked)
        return bound if math.isfinite(bound) else 0.0


class Difference(NamedTuple):
    """Between elements that were and those that a copy has."""

    largest: float = 0.0
    total: float = 0.0
    """The sum of the absolute differences."""
    squares: float = 0.0
    """The sum of their squares, in units of the bound's: their own might be no numbers of 8 bytes."""
    elements: int = 0

    def __or__(self, other: Difference) -> Difference:
        """Of both together."""
        return Difference(
            max(self.largest, other.largest),
            self.total + other.total,
            self.squares + other.squares,
            self.elements + other.elements,
        )

    def psnr(self, low: float, high: float, bound: float) -> float:
        """The peak signal-to-noise ratio in dB: of the range to the root of the mean square; infinite without noise."""
        if not self.squares or not self.elements:
            return math.inf
        if high <= low:
            return -math.inf
        wide = math.log10(high - low) if math.isfinite(high - low) else math.log10(high / 2 - low / 2) + math.log10(2)
        return 20 * (wide - math.log10(bound)) - 10 * math.log10(self.squares / self.elements)


def inside(bound: float) -> float:
    """What a compressor is asked for to keep a bound."""
    return bound * _INSIDE


def difference(before: NDArray[Any], after: NDArray[Any], bound: float) -> Difference | None:
    """How arrays differ; None: by more than the bound.

    Of NaN and infinities the bits must be the same; with a bound of 0, those of all elements.
    """
    if before.dtype != after.dtype or before.shape != after.shape:
        return None
    if bound <= 0:
        return Difference(elements=before.size) if same_bits(before, after) else None
    if not before.size:
        return Difference()
    with np.errstate(all="ignore"):
        apart = np.abs(after.astype("f8") - before.astype("f8"))
    strange = ~np.isfinite(apart)
    if strange.any():
        if not same_bits(before[strange], after[strange]):
            return None
        apart[strange] = 0.0
    largest = float(apart.max())
    if not largest < bound:
        return None
    return Difference(largest, float(apart.sum()), float(np.square(apart / bound).sum()), before.size)


def same_bits(before: NDArray[Any], after: NDArray[Any]) -> bool:
    """Whether arrays of one type have the same bytes."""
    return before.tobytes() == after.tobytes()


def span(block: NDArray[Any]) -> tuple[float, float]:
    """The least and the greatest finite element; (inf, -inf) if there is none."""
    finite = block[np.isfinite(block)]
    return (float(finite.min()), float(finite.max())) if finite.size else (math.inf, -math.inf)


def rules_of(paths: Iterable[str], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules for a dataset of these paths: of each path the first one that fits it."""
    found = (next((rule for rule in rules if rule.means(path)), None) for path in paths)
    return tuple(rule for rule in found if rule is not None)
