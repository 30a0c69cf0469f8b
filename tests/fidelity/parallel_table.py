"""The table of parallel files in docs/reference/fidelity.md.

``python -m fidelity.parallel_table`` runs and writes it.

Each column is run with all its cases, with several numbers of ranks on either side. A case that does not come to "same"
is an error, and then nothing is written.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fidelity import pages, parallel
from fidelity.parallel import COLUMNS, FEATURES, Combination

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fidelity.md"
SECTION = "parallel"
NUMBERS = ((3, 2), (2, 4))
"""Writers and readers with which each column is run for the page."""


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


def text() -> str:
    """The section of the page, from what the sources of the cases say."""
    head = "| | cases | " + " | ".join(column.title for column in COLUMNS) + " |"
    rows = [head, "|---" * (len(COLUMNS) + 2) + "|", *map(row, FEATURES)]
    return f"{len(COLUMNS)} columns, {max(len(column.cases) for column in COLUMNS)} cases.\n\n" + "\n".join(rows) + "\n"


def runs() -> Iterator[pages.Run]:
    """Run all cases in every column."""
    for column in COLUMNS:
        for writers, readers in NUMBERS:
            combination = Combination(column, writers, readers)
            with tempfile.TemporaryDirectory(prefix="wilkins-fidelity-") as folder:
                found = parallel.both_ways(Path(folder), combination)
            yield combination, len(found), {name: came_to for name, came_to in found.items() if came_to != "same"}


if __name__ == "__main__":
    sys.exit(pages.write(PAGE, SECTION, text, runs()))
