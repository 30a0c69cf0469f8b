"""From an object to what a network is to learn of it, patch by patch, and back from patches to the object.

A pattern tells of the patch under the probe only what is lit, and nothing of its overall phase. So what belongs to a
pattern is the patch's *view*: the light that leaves it, less what would leave without an object, over the brightest
light there:

    view = window (patch exp(-i theta) - 1),  window = |probe| / max |probe|

with theta the phase of the patch's mean, weighted by the light. Where there is no object, or no light, the view is 0.
"""

import numpy as np

import optics

FAINT = 1e-3  # of the brightest light: with less than that, a pixel is taken to be empty


def window(light: np.ndarray) -> np.ndarray:
    """How bright the probe (n, n) is, in each pixel: between 0 and 1."""
    return np.abs(light) / np.abs(light).max()


def views(field: np.ndarray, positions: np.ndarray, light: np.ndarray) -> np.ndarray:
    """What is seen of an object at each position.

    Args:
        field: complex transmission of the object (rows, columns), with any overall phase.
        positions: int (k, 2), first row and column of each patch.
        light: complex probe (n, n).

    Returns:
        float32 (k, 2, n, n): real and imaginary part of the views.
    """
    bright = window(light)
    parts = optics.patches(field, positions, len(light))
    means = (bright**2 * parts).sum(axis=(1, 2), keepdims=True)
    seen = bright * (parts * (np.conj(means) / np.abs(means)) - 1)
    return np.stack([seen.real, seen.imag], axis=1).astype("f4")


def join(seen: np.ndarray, positions: np.ndarray, light: np.ndarray, passes: int = 3) -> np.ndarray:
    """The object that fits the views best: least squares over the object and over each view's unknown phase.

    With given phases the object is a weighted mean of the patches; with a given object each phase is that of an inner
    product. So these are computed in turn: first as the patches are laid one after the other, then for all of them.

    Args:
        seen: (k, 2, n, n), as from `views`.
        positions: int (k, 2).
        light: complex probe (n, n).
        passes: how often all phases are computed anew.

    Returns:
        complex (rows, columns), with the overall phase of the first patch, which is about 0; 1 where no light came.
    """
    bright = window(light)
    size = len(bright)
    parts = seen[:, 0] + 1j * seen[:, 1] + bright
    shape = tuple(positions.max(axis=0) + size)
    places = [(slice(row, row + size), slice(column, column + size)) for row, column in positions]
    phases = np.ones(len(parts), complex)
    total, weight = np.zeros(shape, complex), np.full(shape, 1e-9)
    for k, place in enumerate(places):
        if k:
            phases[k] = _phase(total[place] / weight[place], bright, parts[k])
        total[place] += bright * parts[k] * phases[k]
        weight[place] += bright**2
    for _ in range(passes):
        field = total / weight
        phases = np.array([_phase(field[place], bright, part) for place, part in zip(places, parts, strict=True)])
        total = np.zeros(shape, complex)
        for place, part, phase in zip(places, parts, phases, strict=True):
            total[place] += bright * part * phase
    return (total + FAINT) / (weight + FAINT)


def _phase(field: np.ndarray, bright: np.ndarray, part: np.ndarray) -> complex:
    """The factor of modulus 1 that turns a part to the phase of the field that has been found so far."""
    product = (bright * field * np.conj(part)).sum()
    return product / abs(product) if product else 1.0
