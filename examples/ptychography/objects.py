"""Objects to look at: four families of thin specimens, each of a shape and a material.

Shapes are maps of the thickness, from 0 to 1. A material delays a wave and absorbs some of it, in a ratio of its own
(for X-rays, that of the two parts of its refractive index). One pattern does not tell the two apart: who is to guess an
object from it has to know the families.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def smooth(size: int, rng: np.random.Generator, length: float = 4.0) -> np.ndarray:
    """Clouds: a Gaussian random field with a correlation length in pixels, through a sigmoid."""
    frequency = np.fft.fftfreq(size)
    damping = np.exp(-2 * (np.pi * length * np.hypot(frequency[:, None], frequency)) ** 2 / 2)
    field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((size, size))) * damping).real
    return 1 / (1 + np.exp(-2 * field / field.std()))


def cells(size: int, rng: np.random.Generator, radius: float = 3.0) -> np.ndarray:
    """Round cells of about one radius in pixels, in suspension: as thick as balls, several above one another."""
    y, x = np.mgrid[:size, :size]
    field = np.zeros((size, size))
    for _ in range(round(size**2 / (4 * radius) ** 2 * 2)):
        row, column = rng.uniform(0, size, 2)
        r = radius * rng.uniform(0.8, 1.3)
        field += np.sqrt(np.maximum(1 - ((y - row) ** 2 + (x - column) ** 2) / r**2, 0))
    return np.minimum(field, 2) / 2


def fibres(size: int, rng: np.random.Generator, width: float = 1.5) -> np.ndarray:
    """Straight fibres of one width in pixels, criss-cross."""
    y, x = np.mgrid[:size, :size] - size / 2
    field = np.zeros((size, size))
    for _ in range(round(size / 6)):
        angle, offset = rng.uniform(0, np.pi), rng.uniform(-size / 2, size / 2) * 1.2
        away = x * np.cos(angle) + y * np.sin(angle) - offset
        field += np.exp(-((away / width) ** 2) / 2)
    return np.minimum(field, 2) / 2


def grains(size: int, rng: np.random.Generator, diameter: float = 8.0) -> np.ndarray:
    """A polycrystal: the nearest of random seeds says which grain a pixel is in, each of a thickness of its own."""
    count = round((size / diameter) ** 2)
    seeds = rng.uniform(0, size, (count, 2))
    y, x = np.mgrid[:size, :size]
    apart = (y[..., None] - seeds[:, 0]) ** 2 + (x[..., None] - seeds[:, 1]) ** 2
    # Borders are about a pixel wide: weights fall off with the difference of the distances.
    distance = np.sqrt(apart)
    weight = np.exp(-(distance - distance.min(axis=-1, keepdims=True)) / 0.5)
    return weight @ rng.uniform(0, 1, count) / weight.sum(axis=-1)


@dataclass(frozen=True)
class Family:
    """Specimens of one kind."""

    thickness: Callable[[int, np.random.Generator], np.ndarray]
    phase: float
    """Delay of the wave by the full thickness, in radian."""
    absorption: float
    """Logarithm of the amplitude, before over behind the full thickness."""

    def transmission(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """What a random specimen of size x size pixels does to a wave: complex factors, with a modulus of at most 1."""
        return np.exp((1j * self.phase - self.absorption) * self.thickness(size, rng))


FAMILIES = {
    "smooth": Family(smooth, 1.2, 0.05),
    "grains": Family(grains, 0.2, 0.8),
    "cells": Family(cells, -0.8, 0.3),
    "fibres": Family(fibres, 1.5, 0.4),
}
