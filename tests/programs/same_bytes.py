"""Compares two files byte by byte: same_bytes.py ONE OTHER."""

import sys
from pathlib import Path

one, other = (Path(name).read_bytes() for name in sys.argv[1:])
assert len(one) == len(other), (len(one), len(other))
assert one == other, next(i for i, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
print(f"{len(one)} bytes, the same")
