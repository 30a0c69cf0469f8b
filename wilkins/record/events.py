"""The record that the recorder's library leaves: a line for each call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the record.

    ==================  =======================================================================
    ``read``            a file is opened to be read,
    ``update``          to be written as it is, or
    ``create``          to be written from its beginning
    ``empty``           what an open file holds is taken away: it begins anew
    ``absent``          there was no file to open
    ``close``           a descriptor is closed; `bytes`: how many were written through it
    ``look``            the program looks whether a file is there (`stat`, `access`), and it is
    ``missing``         the same, and it is not
    ``list``            a folder is listed
    ``move``            a file is renamed; the next line, ``moved``, has its new name
    ``flush``           `H5Fflush`
    ``dwrite, dread``   a dataset is written or read; `path`: its path, if it has one yet
    ==================  =======================================================================
    """

    pid: int
    event: str
    fd: int
    bytes: int
    name: str
    """Absolute and normal."""
    path: str = ""


def read_events(file: Path) -> list[Event]:
    """All lines of a record, in the order in which they were written."""
    events = []
    for line in os.fsdecode(file.read_bytes()).split("\n"):  # names may hold what else ends a line for Python
        words = line.split("\t")
        if len(words) == 6:  # a killed process may leave a part of a line
            pid, event, fd, size, name, path = words
            events.append(Event(int(pid), event, int(fd), int(size), os.path.normpath(name), path))
    return events
