"""Tells of the error that ends a command: what users can mend in a line or two, our own faults with the way to their
traceback."""

from __future__ import annotations

import os

from wilkins.errors import ResourceError, WilkinsError, cure, is_of_the_machine
from wilkins.terminal import streams

VARIABLE = "WILKINS_DEBUG"
"""Set to anything but 0: as if every command were given `--debug`."""

_wanted = False


def show_tracebacks(wanted: bool) -> None:
    """Let `report` show tracebacks, too."""
    global _wanted
    _wanted = wanted or os.environ.get(VARIABLE, "0") not in ("", "0")


def report(error: Exception) -> int:
    """Tell of an error on the error stream; returns what the process exits with."""
    if _wanted:
        import traceback

        streams.log("".join(traceback.format_exception(error)), end="")
    if isinstance(error, WilkinsError):
        message = str(error)
        streams.log(message if ": error: " in message else f"wilkins: error: {message}")
        return error.exit_code
    if isinstance(error, OSError) and is_of_the_machine(error):
        where = f"{error.filename}: " if error.filename else ""
        streams.log(f"wilkins: error: {where}cannot go on: {error.strerror}; {cure(error)}")
        return ResourceError.exit_code
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    how = "" if _wanted else "; the same command with --debug shows where"
    streams.log(f"wilkins: error: this is a fault of Wilkins, please report it: {message}{how}")
    return WilkinsError.exit_code
