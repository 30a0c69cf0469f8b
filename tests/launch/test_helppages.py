"""Which pages the end of a run names."""

from __future__ import annotations

import pytest

from wilkins.launch.watch import helppages


@pytest.mark.parametrize(
    ("message", "page"),
    [
        ("give the out-port `publish: next`", "appending"),
        ("give the in-port 'out*.h5' `reorder: 40`", "looking-at-files"),
        ("leave out `looks: now`", "looking-at-files"),
        ("give the task `enough: true`", "stuck"),
    ],
)
def test_a_key_leads_to_its_page(message: str, page: str) -> None:
    assert helppages.pages([message]) == f"more about this: `wilkins help {page}`"


def test_each_page_is_named_once() -> None:
    said = helppages.pages(["`publish: next`", "`publish: 2` or `listing: end`"], ["looking-at-files"])
    assert said == "more about this: `wilkins help appending`, `wilkins help looking-at-files`"


def test_other_messages_lead_nowhere() -> None:
    assert helppages.pages(["exit code 1; `queue: 4`", "file 'looks' is missing"]) == ""
