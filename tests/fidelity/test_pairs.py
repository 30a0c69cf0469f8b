"""Memory cannot be told from a file: what programs see of a step is what they see of the same file on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from fidelity import pages, table
from fidelity.features import EXPLAINED, FEATURES
from fidelity.libraries import LIBRARIES, Library

EACH = [pytest.param(library, id=library.name, marks=pytest.mark.needs(*library.needs)) for library in LIBRARIES]


@pytest.mark.usual("h5py")
@pytest.mark.parametrize("library", EACH)
def test_a_step_is_what_the_file_would_be(library: Library, tmp_path: Path) -> None:
    """Tree, links, types, properties, values, bytes, and the errors of failing calls, as the table of features says."""
    wrong = table.found(library, tmp_path)
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


def test_the_table_is_up_to_date() -> None:
    """Its cells follow from the sources of the pairs, whose outcomes the other tests show."""
    assert pages.section(table.PAGE, table.SECTION) == table.text(), "cd tests && python -m fidelity.table"


def test_cases_are_about_features_of_the_table() -> None:
    """No case is about a feature that has no row, and no explanation about a case that is gone."""
    known = {(library.name, case.name) for library in LIBRARIES for case in library.cases}
    named = {feature for library in LIBRARIES for case in library.cases for feature in case.features}
    assert named <= set(FEATURES)
    assert set(EXPLAINED) <= known
