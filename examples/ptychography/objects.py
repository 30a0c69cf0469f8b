"""Objects to look at: four families of thin specimens, as maps of their thickness between 0 and 1."""

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


FAMILIES = {"smooth": smooth, "cells": cells, "fibres": fibres, "grains": grains}
