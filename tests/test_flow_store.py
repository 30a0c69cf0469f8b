"""The rules of names, ranks and circles of waits, one by one: the step store's machine on a table of cases."""

from __future__ import annotations

import pytest
from store_machines import ReferenceStore, StoreCase, store_table


@pytest.mark.parametrize("case", store_table(), ids=lambda case: case.name)
def test_table(case: StoreCase) -> None:
    machine = ReferenceStore(case.setup)
    assert [(event, machine.do(event)) for event, _ in case.events] == list(case.events)
