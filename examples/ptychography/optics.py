"""Ptychography's forward model: probe, scan, transmission of an object, far-field diffraction patterns.

A lens focuses coherent light onto a thin object; a defocus spreads the spot, the *probe*. The probe is moved over the
object in steps smaller than itself, and at every position a detector far away counts the photons of one *diffraction
pattern*: the squared modulus of the Fourier transform of what leaves the object, probe times transmission. Lengths are
in pixels of the object; with a pattern of n x n pixels, a pixel of the detector is a spatial frequency of 1/n.

Source: J. M. Rodenburg, A. M. Maiden, Ptychography, in: Springer Handbook of Microscopy (2019), sections 17.2 to 17.5.
"""

import numpy as np


def probe(size: int, photons: float = 1.0, aperture: float = 0.25, spread: float = 0.2) -> np.ndarray:
    """The light on the object: what a lens with a round aperture makes of a plane wave, out of focus.

    Args:
        size: pixels n of the probe and of a pattern, in each direction.
        photons: light that falls on the object.
        aperture: radius of the lens, as a share of the detector's width.
        spread: radius of the spot that the defocus makes, as a share of n. By geometrical optics: a defocus of w waves
            at the aperture's rim, which is q pixels of the detector wide, moves the ray there by 2 n w / q.

    Returns:
        complex (size, size), the spot in the middle; its squared modulus is photons per pixel.
    """
    frequency = np.fft.fftfreq(size, 1 / size)
    radius = np.hypot(frequency[:, None], frequency) / (aperture * size)
    rim = 1 / (1 + np.exp((radius - 1) * aperture * size / 0.5))  # soft, or the spot has wide rings
    waves = spread * aperture * size / 2
    wave = np.fft.fftshift(np.fft.ifft2(rim * np.exp(2j * np.pi * waves * radius**2)))
    return wave * np.sqrt(photons / (np.abs(wave) ** 2).sum())


def scan(grid: int, step: float, jitter: float, rng: np.random.Generator) -> np.ndarray:
    """Where the probe is placed: a grid of positions, each displaced at random.

    The displacement breaks the symmetry of a raster, which would let a periodic error into the reconstruction
    (P. Thibault et al., Ultramicroscopy 109 (2009) 338).

    Args:
        grid: positions in each direction.
        step: pixels from one to the next; a third of the probe's diameter or less lets neighbours overlap enough.
        jitter: greatest displacement, in pixels.
        rng: draws the displacements.

    Returns:
        int (grid**2, 2): row and column of each patch's first pixel in the object, at least 0.
    """
    line = np.arange(grid) * step + jitter
    places = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.rint(places + rng.uniform(-jitter, jitter, places.shape)).astype(int)


def extent(grid: int, step: float, jitter: float, size: int) -> int:
    """Pixels that the object of a `scan` has in each direction: every patch lies within."""
    return int(np.ceil((grid - 1) * step + 2 * jitter)) + size


def patches(field: np.ndarray, positions: np.ndarray, size: int) -> np.ndarray:
    """The parts of a field (rows, columns) that lie under the probe: (positions, size, size)."""
    windows = np.lib.stride_tricks.sliding_window_view(field, (size, size))
    return windows[positions[:, 0], positions[:, 1]]


def far_field(wave: np.ndarray) -> np.ndarray:
    """Waves (..., n, n) behind the object as they arrive at the detector, the undeflected light in the middle.

    The transform is unitary: energy is conserved.
    """
    return np.fft.fftshift(np.fft.fft2(wave, norm="ortho"), axes=(-2, -1))


def diffraction(
    field: np.ndarray, light: np.ndarray, positions: np.ndarray, rng: np.random.Generator | None
) -> np.ndarray:
    """The patterns of a scan.

    Args:
        field: complex transmission of the object.
        light: complex probe (n, n), as from `probe`.
        positions: (k, 2), as from `scan`.
        rng: draws the photons that are counted, by Poisson's law; None: what is to be expected.

    Returns:
        float32 (k, n, n): photons in each pixel.
    """
    expected = np.abs(far_field(light * patches(field, positions, len(light)))) ** 2
    return (expected if rng is None else rng.poisson(expected)).astype("f4")
