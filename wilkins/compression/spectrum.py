"""What became of the power spectrum of a field: up to which wavenumber it is what it was."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TOLERANCES = 0.01, 0.1
"""Parts of its power by which that of a wavenumber may change, to be what it was."""
_LARGEST = 1 << 26
"""Elements of a field, at most: its transform is in memory."""
_SIDES = 4


class Kept(NamedTuple):
    """Of a spectrum."""

    why: str = ""
    """Why there is none; empty: there is."""
    upto: tuple[int, ...] = ()
    """For each of `TOLERANCES`: the wavenumber up to which all powers are what they were."""
    highest: int = 0
    """The highest wavenumber of the grid."""


def reason_against(shape: tuple[int, ...]) -> str:
    """Why fields of a shape are not transformed; empty: they are."""
    sides = [side for side in shape if side != 1]
    if not sides or 0 in sides or max(sides) < _SIDES or len(sides) > _SIDES:
        return "no field"
    return "too large" if math.prod(sides) > _LARGEST else ""


def kept(before: NDArray[Any], after: NDArray[Any]) -> Kept:
    """Up to which wavenumber the power spectrum of a field is what it was.

    Args:
        before: a real field of any number of dimensions, on an even grid, periodic or taken as such.
        after: the same field as it is.
    """
    if why := reason_against(before.shape):
        return Kept(why)
    fields = [np.squeeze(one).astype("f8") for one in (before, after)]
    if not all(np.isfinite(one).all() for one in fields):
        return Kept("NaN or inf")
    scale = max(float(np.abs(one).max()) for one in fields) or 1.0
    was, now = (powers(one / scale) for one in fields)
    changed = np.abs(now - was) > np.multiply.outer(TOLERANCES, was)
    upto = [int(one.argmax()) if one.any() else one.size for one in changed]
    return Kept("", tuple(upto), was.size)


def powers(field: NDArray[Any]) -> NDArray[Any]:
    """The power of each wavenumber, from 1 to the highest of the grid: of waves in any direction.

    Args:
        field: of real numbers.

    Returns:
        By the number of waves across the longest side.
    """
    longest = max(field.shape)
    transformed = np.fft.rfftn(field)
    power = transformed.real**2 + transformed.imag**2
    power[..., 1 : (field.shape[-1] + 1) // 2] *= 2  # for those of the other half
    square = np.zeros(())
    for axis, side in enumerate(field.shape):
        along = np.fft.rfftfreq(side) if axis == field.ndim - 1 else np.fft.fftfreq(side)
        square = np.add.outer(square, (along * longest) ** 2)
    waves = np.rint(np.sqrt(square)).astype("i8")
    return np.bincount(waves.reshape(-1), power.reshape(-1), longest // 2 + 1)[1 : longest // 2 + 1]
