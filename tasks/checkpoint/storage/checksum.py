"""CRC-32, the digest of blocks and pieces: by ISA-L at the speed of memory, or else by zlib, ten times slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

crc32: Callable[..., int]
try:
    from isal.isal_zlib import crc32
except ModuleNotFoundError:  # a machine that there is no ISA-L for
    from zlib import crc32

__all__ = ["crc32", "crc32_of"]


def crc32_of(pieces: list[Any], value: int = 0) -> int:
    """The CRC-32 of pieces of memory, one after the other, behind bytes that have that `value`."""
    for piece in pieces:
        value = crc32(piece, value)
    return value
