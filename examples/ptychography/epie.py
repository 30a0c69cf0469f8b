"""Solves for the object, and for the probe if that is not known, from diffraction patterns: ePIE.

Source: A. M. Maiden, J. M. Rodenburg, An improved ptychographical phase retrieval algorithm for diffractive imaging,
Ultramicroscopy 109 (2009) 1256: equations 4 to 8 (the update of object and probe), and 9 to 10 (the error).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Solution:
    """What `solve` found."""

    field: np.ndarray
    """Complex transmission of the object, known up to one factor of modulus 1."""
    light: np.ndarray
    """Complex probe (n, n)."""
    residuals: list[float]
    """What the patterns' moduli are off, over those moduli, as norms: in the course of each iteration."""


def solve(
    patterns: np.ndarray,
    positions: np.ndarray,
    light: np.ndarray,
    iterations: int,
    seed: int = 0,
    refine: bool = False,
    start: np.ndarray | None = None,
    tolerance: float = -np.inf,
) -> Solution:
    """Fits object (and probe) to the patterns, one pattern after the other, in a new random order in each iteration.

    Args:
        patterns: (k, n, n), photons in each pixel.
        positions: int (k, 2), as from `optics.scan`.
        light: complex probe (n, n), in roots of photons: what it is, or with `refine` a guess of it.
        iterations: passes over all patterns, at most.
        seed: draws the orders.
        refine: fits the probe too, from the third pass on. Object and probe are then known up to factors, opposite
            phase ramps and a common shift.
        start: complex object to start from, at least as large as what is scanned; None: nothing in the way, 1.
        tolerance: ends when an iteration lowers the residual by less than this share of it; left out: never.
    """
    rng = np.random.default_rng(seed)
    size = light.shape[-1]
    # In the loop, patterns are as they come out of the transform.
    moduli = np.fft.ifftshift(np.sqrt(patterns), axes=(1, 2)).astype("f4")
    wave = light.astype("c8")
    shape = positions.max(axis=0) + size
    field = np.ones(shape, "c8") if start is None else start[: shape[0], : shape[1]].astype("c8")
    total = float((moduli**2).sum())
    residuals: list[float] = []
    for iteration in range(iterations):
        off = 0.0
        strength = np.conj(wave) / (np.abs(wave) ** 2).max()
        for k in rng.permutation(len(patterns)):
            row, column = positions[k]
            patch = field[row : row + size, column : column + size]
            leaving = wave * patch
            arriving = np.fft.fft2(leaving, norm="ortho")
            modulus = np.abs(arriving)
            off += float(((modulus - moduli[k]) ** 2).sum())
            change = np.fft.ifft2(arriving * (moduli[k] / np.maximum(modulus, 1e-9)), norm="ortho") - leaving
            if refine and iteration >= 2:
                before = patch.copy()
                patch += strength * change
                wave = wave + np.conj(before) / (np.abs(before) ** 2).max() * change
                strength = np.conj(wave) / (np.abs(wave) ** 2).max()
            else:
                patch += strength * change
        residuals.append(float(np.sqrt(off / total)))
        if iteration and residuals[-2] - residuals[-1] < tolerance * residuals[-1]:
            break
    return Solution(field, wave, residuals)
