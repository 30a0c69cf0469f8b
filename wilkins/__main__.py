"""The command ``wilkins``, and ``python -m wilkins``."""

from __future__ import annotations

import gc

_OBJECTS = 50_000
"""Objects between two runs of the garbage collector: a start makes many, which all stay."""


def command() -> int:
    """Run the command line; returns the exit code."""
    gc.set_threshold(_OBJECTS)
    from wilkins.cli import main

    code = main()
    gc.freeze()  # the system takes the memory of a process that ends sooner than Python finds what can be freed
    return code


if __name__ == "__main__":
    raise SystemExit(command())
