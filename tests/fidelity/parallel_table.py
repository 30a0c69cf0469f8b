"""The table of parallel files, docs/reference/fidelity-parallel.md.

``python -m fidelity.parallel_table`` runs and writes it.

Each column is run with all its cases, with several numbers of ranks on either side. A case that does not come to "same"
is an error, and then no page is written.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fidelity import pages, parallel
from fidelity.parallel import COLUMNS, FEATURES, Combination

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fidelity-parallel.md"
NUMBERS = ((3, 2), (2, 4))
"""Writers and readers with which each column is run for the page."""

HEAD = """# Parallel files are what they are on disk

Each cell is the outcome of programs whose ranks wrote and read files together, through parallel HDF5: once on disk,
once through channels. What every rank read, return codes, error classes and messages, sizes, and how HDF5 says it moved
the data was compared, and the complete view that h5py (2.0 and 1.10) has of each file; see
[fidelity.md](fidelity.md). The programs are in `tests/fidelity/pairs`, in `parallel` and, for what needs HDF5 1.14, in
`parallel_newer`; HDF5 1.14 is Debian 13's, inside programs of Debian 12 (`tools/newer-hdf5`). This page is made by
`cd tests && python -m fidelity.parallel_table`, which runs all of them in every column, with 3 ranks to 2 and 2 to 4.
`make test-all` runs each with either MPI and HDF5, and 1 to 5 ranks; `WILKINS_FIDELITY=all python -m pytest
tests/fidelity/test_parallel.py` with all numbers up to 6.

- **same**: nothing that any rank or reader saw differs.
- **none**: that HDF5 does not have it.

Under Open MPI, whose own MPI-IO mixes atomic transfers that race on disk at times, these are not compared, but must not
be mixed in memory; and `several_at_once` has no filtered chunks, of which it misreads some on disk.

Bytes that no call can read are not compared: HDF5 1.10 writes memory that it has not set into the nodes of chunk
indices. Nor are elements that no rank writes and HDF5 does not fill (it leaves out its own fill value): on disk,
MPICH's MPI-IO leaves there what was in its memory where it writes together what ranks have selected with gaps; in
memory they are zero. What MPI-IO by itself refuses in memory is told in
[parallel-files.md](parallel-files.md#what-is-different-from-a-file-on-disk).

"""


def row(feature: str) -> str:
    """The cells of a feature.

    Raises:
        LookupError: no case is about it.
    """

    cases = {case.name: None for column in COLUMNS for case in column.cases if feature in case.features}
    if not cases:
        raise LookupError(f"no case is about {feature!r}: add one, or remove its row")
    cells = ("same" if any(feature in case.features for case in column.cases) else "none" for column in COLUMNS)
    return f"| {FEATURES[feature]} | {', '.join(cases)} | " + " | ".join(cells) + " |"


def page() -> str:
    """The page, from what the sources of the cases say."""
    head = "| | cases | " + " | ".join(column.title for column in COLUMNS) + " |"
    rows = [head, "|---" * (len(COLUMNS) + 2) + "|", *map(row, FEATURES)]
    return (
        f"{HEAD}{len(COLUMNS)} columns, {max(len(column.cases) for column in COLUMNS)} cases.\n\n"
        + "\n".join(rows)
        + "\n"
    )


def runs() -> Iterator[pages.Run]:
    """Run all cases in every column."""
    for column in COLUMNS:
        for writers, readers in NUMBERS:
            combination = Combination(column, writers, readers)
            with tempfile.TemporaryDirectory(prefix="wilkins-fidelity-") as folder:
                found = parallel.both_ways(Path(folder), combination)
            yield combination, len(found), {name: text for name, text in found.items() if text != "same"}


if __name__ == "__main__":
    sys.exit(pages.write(PAGE, page, runs()))
