"""Reads a file with Python's own functions: bytes_read.py NAME."""

import sys
from pathlib import Path

print(f"{len(Path(sys.argv[1]).read_bytes())} bytes")
