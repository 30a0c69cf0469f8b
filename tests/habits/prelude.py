#!/usr/bin/env python3
"""What programs of habits in Python begin with: the content of steps, and telling what was read."""

import sys
from typing import Any

N = 6
NAMES = [f"plt{k:04d}.dat" for k in range(N)]
NAMES5 = [f"plt{k:04d}.h5" for k in range(N)]


def text(k: int) -> bytes:
    """The bytes of step k: the numbers from k to k + 999, one a line, as `seq` prints them."""
    return "".join(f"{number}\n" for number in range(k, k + 1000)).encode()


def put(name: str, k: int) -> None:
    """Write step k as a plain file."""
    with open(name, "wb") as file:  # noqa: PTH123 - as most programs do
        file.write(text(k))


def get(name: str) -> None:
    """Read a plain file, and tell."""
    with open(name, "rb") as file:  # noqa: PTH123
        show(name, file.read())


def put5(name: str, k: int) -> None:
    """Write step k as an HDF5 file."""
    import h5py

    with h5py.File(name, "w") as file:
        file["x"] = range(k, k + 1000)


def get5(name: str) -> None:
    """Read an HDF5 file, and tell."""
    import h5py

    with h5py.File(name, "r") as file:
        show(name, file["x"][()])


def show(name: object, data: Any) -> None:
    """Tell what was read under a name: the sum that `cksum` prints, of bytes, or of numbers as text."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        data = "".join(f"{number}\n" for number in data).encode()
    tell(name, cksum(bytes(data)))


def tell(*words: object) -> None:
    """A line of what was seen, which is compared."""
    sys.stdout.write("= " + " ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def cksum(data: bytes) -> str:
    """The CRC and the size, as `cksum` prints them."""
    table = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = crc << 1 ^ (0x104C11DB7 if crc & 0x80000000 else 0)
        table.append(crc)
    size, length = len(data), b""
    while size:
        length, size = length + bytes([size & 0xFF]), size >> 8
    crc = 0
    for byte in data + length:
        crc = (crc << 8 & 0xFFFFFFFF) ^ table[crc >> 24 ^ byte]
    return f"{crc ^ 0xFFFFFFFF} {len(data)}"
