"""Simulates Burgers' equation, u_t + u u_x = 0.1 u_xx, on a ring, and writes how states change: `waves.py [SEED]`.

Each of eight files, waves-0.h5 and on, has in `train/u` 8 courses of a wave: 17 states, 0.05 apart, at 64 points
(float32). The first one has 50 courses more in `test/u`. Explicit finite differences, 0.005 at a time.
"""

import sys

import h5py
import numpy as np

POINTS, STATES, SMALL = 64, 17, 0.005
APART = 2 * np.pi / POINTS
rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def courses(count: int) -> np.ndarray:
    """Of waves of three lengths with amplitudes between -1 and 1."""
    angles = np.outer(np.arange(1, 4), np.arange(POINTS) * APART)
    states = [rng.uniform(-1, 1, (count, 6)) @ np.concatenate([np.cos(angles), np.sin(angles)])]
    for _ in range(STATES - 1):
        u = states[-1]
        for _ in range(10):
            right, left = np.roll(u, -1, axis=1), np.roll(u, 1, axis=1)
            u = u + SMALL * (0.1 * (right - 2 * u + left) / APART**2 - (right**2 - left**2) / (4 * APART))
        states.append(u)
    return np.stack(states, axis=1).astype("f4")


for step in range(8):
    with h5py.File(f"waves-{step}.h5", "w") as file:
        file["train/u"] = courses(8)
        if step == 0:
            file["test/u"] = courses(50)
