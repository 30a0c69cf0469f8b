"""Says in words what is wrong with text that is not YAML, where that is one of the usual mistakes."""

from __future__ import annotations

import re

_WORD = r"[^\s,\[\]{}#]+"
_PARTS = r"\"[^\"]*\"|'[^']*'|\$\{\w+\}|[\[\]{}]"


def mistake(line: str, column: int, problem: str) -> str | None:
    """The mistake in a line of invalid YAML, with its cure; None: no known one.

    Args:
        column: where the parser gave up, from 0.
        problem: the parser's words.
    """
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return "the line is indented with a tab, which YAML does not take; indent it with spaces"
    if variable := _bare_variable(line):
        return f'within [...] and {{...}}, {variable} must stand in quotes: "{variable}"'
    before = line[:column].rstrip("*&%@`!")
    word = re.compile(_WORD).match(line, len(before))
    if word and word[0][0] in "*&%@`!":
        text = word[0].rstrip("\"'")
        return f'a text that begins with {text[0]} must stand in quotes: "{text}"'
    if problem.startswith("mapping values are not allowed"):
        return 'a text with ": " in it must stand in quotes; or the line is indented too far'
    return None


def _bare_variable(line: str) -> str | None:
    """The first ``${NAME}`` outside of quotes within brackets or braces."""
    depth = 0
    for found in re.finditer(_PARTS, line):
        part = found[0]
        if part.startswith("$") and depth:
            return part
        depth += (part in "[{") - (part in "]}")
    return None
