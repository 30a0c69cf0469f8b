"""Writes (w) or reads (r) steps of raw bytes, each when it is its turn; prints when each was closed, or could be read.

In between, two ranks of it (mpi) move as many bytes by MPI, and print what that took. Whose turn it is, files in the
folder say, which all hosts see.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def await_turn(number: int) -> None:
    """Sleep until it is this turn; even ones are MPI's."""
    while not Path(f"turn-{number}").exists():
        time.sleep(5e-4)


def end_turn(number: int) -> None:
    """Pass the turn to the next process."""
    Path(f"turn-{number + 1}").touch()


def memory(size: int) -> bytearray:
    """Bytes that have been written: all others are one page of zeros, which a core has in its cache."""
    return bytearray(b"\x5a") * size


def write(name: str, data: memoryview) -> float:
    """Write a step, and say when it was closed."""
    step = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    written = 0
    while written < len(data):
        written += os.write(step, data[written:])
    now = time.monotonic()
    os.close(step)
    return now


def read(name: str, data: memoryview) -> float:
    """Read a step whole, and say when it could be read."""
    step = os.open(name, os.O_RDONLY)
    now = time.monotonic()
    got = 0
    while part := os.readv(step, [data[got:]]):
        got += part
    os.close(step)
    assert got == len(data)
    return now


def exchange(times: int, size: int) -> None:
    """Send bytes from rank 0 to rank 1, each time that it is MPI's turn."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    data, asks = memory(size), bytearray(1)
    took = []
    for turn in range(times):
        await_turn(2 * turn)
        began = time.monotonic()
        if world.rank == 0:
            world.Recv(asks, 1)
            world.Send(data, 1)
        else:
            world.Send(asks, 0)
            world.Recv(data, 0)
            took.append(time.monotonic() - began)
            end_turn(2 * turn)
    if world.rank == 1:
        print(json.dumps(took))


def main() -> None:
    """Arguments: w, r or mpi, how many steps, their bytes, and 0 if their turns are those that MPI has otherwise."""
    role, steps, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    first = int(sys.argv[4]) if sys.argv[4:] else 1
    if role == "mpi":
        exchange(steps, size)
        return
    data = memory(size)
    times = []
    for step in range(steps):
        name = f"carried-{step}.raw"
        if role == "w":
            await_turn(2 * step + first)
            data[0] = data[-1] = step % 256
            times.append(write(name, memoryview(data)))
        else:
            times.append(read(name, memoryview(data)))
            assert data[0] == data[-1] == step % 256
            end_turn(2 * step + first)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
