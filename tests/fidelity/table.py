"""The table of features and libraries in docs/reference/fidelity.md.

``python -m fidelity.table`` runs every pair and writes it.

What a cell says follows from what the sources of the pairs say of their cases. The command, and the tests of each
library, show by running them that it is so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fidelity import pages, rig
from fidelity.features import EXPLAINED, FEATURES, NOTES, SWMR, absent
from fidelity.libraries import LIBRARIES, Library

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fidelity.md"
SECTION = "libraries"


def expected(library: Library) -> dict[str, str]:
    """What each case of a library comes to: ``same``, ``refused`` or ``different`` (with an explanation)."""

    def of(case: rig.Case) -> str:
        if (library.name, case.name) in EXPLAINED:
            return "different"
        noted = any((library.name, feature) in NOTES for feature in case.features)
        return "refused" if case.refused and not noted else "same"

    return {case.name: of(case) for case in library.cases}


def found(library: Library, folder: Path) -> dict[str, str]:
    """What each case came to that did not come to what is expected: in words."""
    outcome = rig.both_ways(folder, library.program(folder))
    wanted = expected(library)

    def word(came_to: str) -> str:
        return came_to if came_to in ("same", "refused") else "different"

    return {name: came_to for name, came_to in outcome.items() if word(came_to) != wanted[name]}


def cell(library: Library, feature: str, notes: list[str]) -> str:
    """A cell; what it cannot say goes to the notes.

    Raises:
        LookupError: no case of the library is about the feature, and nothing says that it has no calls for it.
    """
    wanted = expected(library)
    cases = [case.name for case in library.cases if feature in case.features]
    if feature in absent(library.name) or (library.on_hdf5 and not cases):
        return ""
    if not cases:
        raise LookupError(f"no case of {library.name} is about {feature!r}: add one, or list it in ABSENT")
    explained = [EXPLAINED[library.name, name] for name in cases if wanted[name] == "different"]
    explained += [NOTES[library.name, feature]] if (library.name, feature) in NOTES else []
    refused = any(wanted[name] == "refused" for name in cases)
    explained += [SWMR] if refused else []
    for note in explained:
        if note not in notes:
            notes.append(note)
    marks = "".join(f" [{notes.index(note) + 1}]" for note in explained)
    return ("refused" if refused else "same") + marks


def text() -> str:
    """The section of the page, from what the sources of the pairs say."""
    notes: list[str] = []
    rows = ["| | " + " | ".join(library.title for library in LIBRARIES) + " |", "|---" * (len(LIBRARIES) + 1) + "|"]
    for feature, title in FEATURES.items():
        cells = [cell(library, feature, notes) for library in LIBRARIES]
        rows.append(f"| {title} | " + " | ".join(cells) + " |")
    told = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    count = sum(len(library.cases) for library in LIBRARIES)
    return f"{len(LIBRARIES)} libraries, {count} cases.\n\n" + "\n".join(rows) + f"\n\n{told}"


def runs() -> Iterator[pages.Run]:
    """Run the pairs of all libraries."""
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory(prefix="wilkins-fidelity-") as folder:
            yield library.name, len(library.cases), found(library, Path(folder))


if __name__ == "__main__":
    sys.exit(pages.write(PAGE, SECTION, text, runs()))
