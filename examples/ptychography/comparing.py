"""How far a reconstruction is from the object that is known to be the right one.

Diffraction leaves some things open, and those are no error: one complex factor; and where the probe was not known
either, a phase ramp (the probe has the opposite one) and a shift (the probe moves along).

Sources: A. M. Maiden, J. M. Rodenburg, Ultramicroscopy 109 (2009) 1256, equations 9 and 10, for the factor;
M. Guizar-Sicairos, S. T. Thurman, J. R. Fienup, Optics Letters 33 (2008) 156, for maxima between pixels.
"""

import numpy as np

import optics


def illumination(light: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Light that each pixel of the object got during a scan (rows, columns), over the most that one of them got."""
    size = len(light)
    total = np.zeros(positions.max(axis=0) + size)
    for row, column in positions:
        total[row : row + size, column : column + size] += np.abs(light) ** 2
    return total / total.max()


def error(found: np.ndarray, true: np.ndarray, weight: np.ndarray, free_probe: bool = False) -> float:
    """The norm of what is wrong over the norm of the true object's contrast: 0 is right, 1 as good as no object.

    Args:
        found: complex object (rows, columns).
        true: complex object, at least as large, beginning at the same pixel.
        weight: of each pixel (rows, columns): 0 where no light came.
        free_probe: the probe was not known, so a ramp and a shift are no error.
    """
    true = true[: found.shape[0], : found.shape[1]]
    if free_probe:
        for _ in range(3):
            found = found * _ramp(np.conj(found) * true * weight)
            found = _moved(found, true, weight)
    factor = (np.conj(found) * true * weight).sum() / (np.abs(found) ** 2 * weight).sum()
    wrong = (np.abs(true - factor * found) ** 2 * weight).sum()
    return float(np.sqrt(wrong / (np.abs(true - _mean(true, weight)) ** 2 * weight).sum()))


def _mean(field: np.ndarray, weight: np.ndarray) -> complex:
    return complex((field * weight).sum() / weight.sum())


def _moved(found: np.ndarray, true: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The found object, moved by parts of a pixel to where its contrast is most like that of the true one."""
    mean = _mean(found, weight)
    spectrum, wanted = np.fft.fft2((found - mean) * weight), np.fft.fft2((true - _mean(true, weight)) * weight)
    ramp = _ramp(np.fft.fftshift(np.conj(spectrum) * wanted))  # a shift of the object is a ramp of its spectrum
    return mean + np.fft.ifft2(np.fft.fft2(found - mean) * np.fft.ifftshift(ramp))


def _ramp(product: np.ndarray, reach: float = 2.0, finest: float = 0.01) -> np.ndarray:
    """The phase ramp (rows, columns) whose inner product with a field has the greatest modulus.

    Its frequency is looked for within `reach` pixels of the discrete transform, in ever finer steps down to `finest`.
    """
    places = [(np.arange(n) - n // 2) / n for n in product.shape]
    centre = np.zeros(2)
    while reach > finest:
        tried = [middle + np.linspace(-reach, reach, 17) for middle in centre]
        rows, columns = (np.exp(-2j * np.pi * np.outer(k, r)) for k, r in zip(tried, places, strict=True))
        sums = np.abs(rows @ product @ columns.T)
        best = np.unravel_index(sums.argmax(), sums.shape)
        centre = np.array([k[i] for k, i in zip(tried, best, strict=True)])
        reach /= 6
    return np.outer(*(np.exp(2j * np.pi * k * r) for k, r in zip(centre, places, strict=True)))


def residual(patterns: np.ndarray, field: np.ndarray, light: np.ndarray, positions: np.ndarray) -> float:
    """How far an object is from explaining its patterns: what their moduli are off, over those moduli, as norms.

    It needs no knowledge of the true object. Exact patterns give 0 for the true one. Counting photons alone moves each
    modulus of a bright pixel by 1/2, so of n bright pixels and m photons in a pattern it makes sqrt(n / m) / 2.
    """
    modulus = np.abs(optics.far_field(light * optics.patches(field, positions, len(light))))
    measured = np.sqrt(patterns)
    return float(np.linalg.norm(modulus - measured) / np.linalg.norm(measured))
