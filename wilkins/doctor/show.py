"""Findings for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from wilkins.doctor.findings import Finding

_WIDTH = 100


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each finding, and its cure below it."""
    import textwrap

    width = max(len(one.level) for one in findings)
    lines = []
    for one in findings:
        begin = f"{one.level:<{width}}  "
        below = " " * len(begin)
        for text, first in ((f"{one.about}: {one.text}", begin), (f"-> {one.cure}" if one.cure else "", below)):
            lines += textwrap.wrap(
                text, _WIDTH, initial_indent=first, subsequent_indent=below, break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """The findings as a list of JSON objects."""
    return json.dumps([asdict(one) for one in findings], indent=2)
