"""From an object to what a network is to learn of it, patch by patch, and back from patches to the object.

A pattern tells of the patch under the probe only what is lit, nothing of its overall phase, and its overall brightness
alone. So what belongs to a pattern is the patch's *view*: its contrast, as bright as it is lit:

    view = window (patch / mean - 1),  window = |probe| / max |probe|

with the mean of the patch weighted by the light. Where there is no contrast, or no light, the view is 0.
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
        field: complex transmission of the object (rows, columns), with any overall factor.
        positions: int (k, 2), first row and column of each patch.
        light: complex probe (n, n).

    Returns:
        float32 (k, 2, n, n): real and imaginary part of the views.
    """
    bright = window(light)
    parts = optics.patches(field, positions, len(light))
    means = (bright**2 * parts).sum(axis=(1, 2), keepdims=True) / (bright**2).sum()
    seen = bright * (parts / means - 1)
    return np.stack([seen.real, seen.imag], axis=1).astype("f4")


def join(
    seen: np.ndarray, patterns: np.ndarray, positions: np.ndarray, light: np.ndarray, passes: int = 3
) -> np.ndarray:
    """The object that fits the views best.

    How bright a patch is, the photons in its pattern say. How steep its phase is on the whole, their centre of mass
    says (differential phase contrast): a slope that all views get wrong by a little in the same way would add up to a
    ramp across the object, so it is taken out. What is left is a problem of least squares, for the object and for each
    view's unknown phase. With given phases the object is a weighted mean of the patches; with a given object each phase
    is that of an inner product. So these are computed in turn: first as the patches are laid one after the other, then
    for all of them.

    Args:
        seen: (k, 2, n, n), as from `views`.
        patterns: (k, n, n): photons in each pixel.
        positions: int (k, 2).
        light: complex probe (n, n).
        passes: how often all phases are computed anew.

    Returns:
        complex (rows, columns), with an overall phase that means nothing; about 1 where no light came.
    """
    bright = window(light)
    size = len(bright)
    parts = seen[:, 0] + 1j * seen[:, 1] + bright
    expected = np.abs(optics.far_field(light / bright * parts)) ** 2
    parts = parts * np.sqrt(patterns.sum(axis=(1, 2)) / expected.sum(axis=(1, 2)))[:, None, None]
    parts = parts * _ramp((_centre(patterns) - _centre(expected)).mean(axis=0), size)
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


def _centre(patterns: np.ndarray) -> np.ndarray:
    """The centre of mass of each pattern (k, n, n), in pixels from the middle: (k, 2)."""
    line = np.arange(patterns.shape[-1]) - patterns.shape[-1] // 2
    moments = [(patterns.sum(axis=axis) * line).sum(axis=1) for axis in (2, 1)]
    return np.stack(moments, axis=1) / patterns.sum(axis=(1, 2))[:, None]


def _ramp(shift: np.ndarray, size: int) -> np.ndarray:
    """The phase ramp (size, size) that shifts a pattern by parts of pixels (2)."""
    line = (np.arange(size) - size // 2) / size
    return np.outer(*(np.exp(2j * np.pi * along * line) for along in shift))


def _phase(field: np.ndarray, bright: np.ndarray, part: np.ndarray) -> complex:
    """The factor of modulus 1 that turns a part to the phase of the field that has been found so far."""
    product = (bright * field * np.conj(part)).sum()
    return complex(product / abs(product)) if product else 1.0
