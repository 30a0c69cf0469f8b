"""The native layer with what only tests use: fault points, and the queue event by event (`tools/hooks` builds it).

The library that is installed has none of it. Where a test sets ``WILKINS_FAULTS``, its programs need this one.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "build-hooks" / "libwilkins.so"


def fault_points() -> list[str]:
    """Where ``WILKINS_FAULTS`` can let a process die or be late, in alphabetical order; none if nothing is built."""
    if not LIBRARY.exists():
        return []
    find = ctypes.CDLL(str(LIBRARY)).wilkins_fault_points
    find.restype = ctypes.POINTER(ctypes.c_char_p)
    count = ctypes.c_size_t()
    names = find(ctypes.byref(count))
    return sorted({(names[k] or b"").decode() for k in range(count.value)})


def faults(what: str) -> dict[str, str]:
    """What a run's environment must have so that its processes obey ``WILKINS_FAULTS=what`` (base/fault.hpp)."""
    return {"WILKINS_FAULTS": what, "WILKINS_LIBRARY": str(LIBRARY)}
