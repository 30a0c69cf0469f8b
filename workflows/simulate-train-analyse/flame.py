"""A flame front that never comes to rest: the Kuramoto-Sivashinsky equation, u_t = -u u_x - u_xx - u_xxxx, on a circle.

Arguments: the number of snapshots, and a snapshot to go on from. Exponential time differencing of fourth order (A.-K.
Kassam, L. N. Trefethen, Fourth-order time-stepping for stiff PDEs, SIAM J. Sci. Comput. 26, 2005).
"""

import sys

import h5py
import numpy as np
from numpy.typing import NDArray

POINTS, LENGTH, TIME_STEP, STEPS = 128, 32 * np.pi, 0.1, 10  # steps from one snapshot to the next
REACH = 8  # points on either side that a change is learned from

wave = 2 * np.pi / LENGTH * np.fft.rfftfreq(POINTS, 1 / POINTS)
linear = TIME_STEP * (wave**2 - wave**4)
circle = linear[:, None] + np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)  # means over it lose no digits
half = TIME_STEP * ((np.exp(circle / 2) - 1) / circle).mean(1).real
first = TIME_STEP * ((-4 - circle + np.exp(circle) * (4 - 3 * circle + circle**2)) / circle**3).mean(1).real
second = TIME_STEP * ((2 + circle + np.exp(circle) * (circle - 2)) / circle**3).mean(1).real
third = TIME_STEP * ((-4 - 3 * circle - circle**2 + np.exp(circle) * (4 - circle)) / circle**3).mean(1).real
whole_decay, half_decay = np.exp(linear), np.exp(linear / 2)


def advection(v: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """-u u_x."""
    found: NDArray[np.complex128] = -0.5j * wave * np.fft.rfft(np.fft.irfft(v, POINTS) ** 2)
    return found


def advanced(front: NDArray[np.float64]) -> NDArray[np.float64]:
    """The front at the next snapshot."""
    v = np.fft.rfft(front)
    for _ in range(STEPS):
        now = advection(v)
        a = half_decay * v + half * now
        at_a = advection(a)
        at_b = advection(half_decay * v + half * at_a)
        at_c = advection(half_decay * a + half * (2 * at_b - now))
        v = whole_decay * v + first * now + 2 * second * (at_a + at_b) + third * at_c
    found: NDArray[np.float64] = np.fft.irfft(v, POINTS)
    return found


place = LENGTH * np.arange(POINTS) / POINTS
front, done = np.cos(place / 16) * (1 + np.sin(place / 16)), 0
if len(sys.argv) > 2:
    with h5py.File(sys.argv[2]) as file:
        front, done = file["front"][:], int(file.attrs["snapshot"]) + 1
    print(f"goes on from snapshot {done - 1}", flush=True)

for snapshot in range(done, int(sys.argv[1])):
    before, front = front, advanced(front)
    with h5py.File(f"flame-{snapshot:05}.h5", "w") as file:
        file["front"] = front
        file["around"] = np.stack([np.roll(before, shift) for shift in range(REACH, -REACH - 1, -1)], axis=1)
        file["change"] = (front - before)[:, None]
        file.attrs["snapshot"] = snapshot
