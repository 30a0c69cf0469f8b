"""The table of features and libraries, docs/reference/fidelity.md.

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
HEAD = """# What a consumer reads is what HDF5 would have given it

Each cell is the outcome of programs that ran twice: once through real files, once through channels. All that they
and other readers saw was compared: links and their order, attributes, types, spaces, creation properties, values, fill
values, storage, references, names, sizes, bytes, return codes, and the errors of failing calls. The programs are in
`tests/fidelity/pairs`, a file per subject; this page is made by `cd tests && python -m fidelity.table`, which runs them
all.

- **same**: nothing that any side saw differs.
- **refused**: the call fails with an error that says why, and what to do instead.
- empty: the library has no calls for it, or, being made on top of HDF5, leaves it to HDF5, as other columns show it.

`make fuzz` compares random programs in the same way: h5py on HDF5 2.0 and 1.10 on either side, with objects of most
types, selections, overwrites, extents, links, copies, deletes, calls for several datasets and for chunks, reopened and
late files, stale ones of their names on disk, second files that are copied from, mounted, linked and shown, and failing
calls. A quarter of them have several ranks: parallel HDF5 1.10 under MPICH and Open MPI, 1..5 ranks that write to 1..5
that read, with collective and independent transfers, objects that ranks make, resize and delete together, metadata that
some of them read, and files of half the ranks. Hypothesis draws all these, 20,000 in a run (2,000 of them in every
`make test-all`), and shrinks what differs to a file in `tests/fidelity/regressions`, which `make test` runs from then
on. A program that HDF5 itself dies of with files, or whose file it fails to finish, says nothing and is left out; so is
what two runs with files do not agree on. Nor do they do what a step answers in its own way: SWMR, opening a file that
is open with another driver, its size while the core driver holds it ([names.md](names.md)), a file whose close fails
([steps](steps.md#a-close-that-fails)).

Files that several ranks write and read together have [a page of their own](fidelity-parallel.md).

Across versions (`tests/fidelity/test_crossed.py`): what HDF5 1.10, 1.14, 2.0, netCDF4 and PyTables write is read by
C programs with HDF5 1.10 (shared and inside), 1.14 and 2.0, by the tools of HDF5 1.10, PyTables and netCDF4. Where
a reader is too old for a file, it fails with the same errors. `make soak` compares a dataset of 3 GiB and a group of
100,000 objects.

"""


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

    def word(text: str) -> str:
        return text if text in ("same", "refused") else "different"

    return {name: text for name, text in outcome.items() if word(text) != wanted[name]}


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
    for text in explained:
        if text not in notes:
            notes.append(text)
    marks = "".join(f" [{notes.index(text) + 1}]" for text in explained)
    return ("refused" if refused else "same") + marks


def page() -> str:
    """The page, from what the sources of the pairs say."""
    notes: list[str] = []
    rows = ["| | " + " | ".join(library.title for library in LIBRARIES) + " |", "|---" * (len(LIBRARIES) + 1) + "|"]
    for feature, title in FEATURES.items():
        cells = [cell(library, feature, notes) for library in LIBRARIES]
        rows.append(f"| {title} | " + " | ".join(cells) + " |")
    told = "".join(f"{number}. {text}\n" for number, text in enumerate(notes, 1))
    count = sum(len(library.cases) for library in LIBRARIES)
    return f"{HEAD}{len(LIBRARIES)} libraries, {count} cases.\n\n" + "\n".join(rows) + f"\n\n{told}"


def runs() -> Iterator[pages.Run]:
    """Run the pairs of all libraries."""
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory(prefix="wilkins-fidelity-") as folder:
            yield library.name, len(library.cases), found(library, Path(folder))


if __name__ == "__main__":
    sys.exit(pages.write(PAGE, page, runs()))
