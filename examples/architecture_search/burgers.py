"""Simulates Burgers' equation, u_t + u u_x = 0.03 u_xx, on a ring; writes what it computed as a stream of samples.

A sample is an initial state and what becomes of it: `x`, 6 amplitudes of the first three waves, and `y`, u at 32 points
at the time 0.5 (both float32). Each step, burgers-0000.h5 and on, has samples of its own in `train`. The samples in
`held_out` and `test` are the same in all steps, so that errors of networks trained on different steps can be compared.

Integrated by the Fourier method, with the viscous term as an integrating factor, and the classical Runge-Kutta method
(L. N. Trefethen: Spectral Methods in MATLAB, SIAM 2000, chapter 10).
"""

import argparse

import h5py
import numpy as np

POINTS, WAVES, VISCOSITY, TIME, STEP = 64, 3, 0.03, 0.5, 0.01


def evolved(u: np.ndarray) -> np.ndarray:
    """The states (samples, points) at the end, from those at the beginning."""
    wave = np.fft.rfftfreq(POINTS, 1 / POINTS)
    decay, resolved = np.exp(-VISCOSITY * wave**2 * STEP / 2), wave < POINTS / 3

    def slope(v: np.ndarray) -> np.ndarray:
        return -0.5j * wave * np.fft.rfft(np.fft.irfft(v * resolved, POINTS) ** 2)

    v = np.fft.rfft(u)
    for _ in range(round(TIME / STEP)):
        a = slope(v)
        b = slope(decay * (v + STEP / 2 * a))
        c = slope(decay * v + STEP / 2 * b)
        d = slope(decay**2 * v + STEP * decay * c)
        v = decay**2 * v + STEP / 6 * (decay**2 * a + 2 * decay * (b + c) + d)
    return np.fft.irfft(v, POINTS)


def samples(count: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes (count, 6), uniform between -1 and 1, and final states (count, 32)."""
    amplitudes = np.random.default_rng(seed).uniform(-1, 1, (count, 2 * WAVES))
    angles = np.outer(np.arange(1, WAVES + 1), np.linspace(0, 2 * np.pi, POINTS, endpoint=False))
    states = amplitudes @ np.concatenate([np.cos(angles), np.sin(angles)])
    return amplitudes.astype("f4"), evolved(states)[:, ::2].astype("f4")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--samples", type=int, default=256, help="to train on, in each step")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fixed = {"held_out": samples(256, options.seed, 1), "test": samples(512, options.seed, 2)}
    for step in range(options.steps):
        with h5py.File(f"burgers-{step:04}.h5", "w") as file:
            for name, (x, y) in {"train": samples(options.samples, options.seed, 0, step), **fixed}.items():
                file[f"{name}/x"], file[f"{name}/y"] = x, y
