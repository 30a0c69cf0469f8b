"""The page of commands, docs/reference/commands.md, made of what the command line knows of itself.

``python tests/front/commands_page.py`` writes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from wilkins.arguments import parser_of
from wilkins.cli import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
_HEAD = """# Commands

<!-- Written by `python tests/front/commands_page.py`; edit wilkins/cli.py instead. -->

`wilkins COMMAND --help` says the same on the terminal. `--debug` with any of them, or `WILKINS_DEBUG=1` in the
environment, shows the traceback of an error, too.
"""


def page() -> str:
    """The page's text."""
    parser = parser_of(COMMANDS)
    parts = [_HEAD, *_sections(parser), f"## Exit codes\n\n{_exit_codes(parser)}"]
    return "\n".join(parts)


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    for name, child in _children(parser):
        yield f"## `wilkins {name}`\n\n{child.description}\n\n{_arguments(child)}"
        for action, below in _children(child):
            yield f"### `wilkins {name} {action}`\n\n{_arguments(below)}"


def _children(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # argparse gives them by no other way
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _arguments(parser: argparse.ArgumentParser) -> str:
    rows = [
        (f"`{_typed(action)}`", _meaning(action))
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction) and action.dest != "debug"
    ]
    if not rows:
        return ""
    return "\n".join(["| argument | meaning |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows)]) + "\n"


def _typed(action: argparse.Action) -> str:
    words = [*action.option_strings[:1], *([] if action.nargs == 0 else [action.metavar or action.dest.upper()])]
    return " ".join(map(str, words))


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("|", "\\|")
    if action.choices:
        text += f" (one of {', '.join(f'`{choice}`' for choice in action.choices)})"
    return text[0].upper() + text[1:]


def _exit_codes(parser: argparse.ArgumentParser) -> str:
    epilog = parser.epilog or ""
    codes = epilog.removeprefix("Exit codes: ").rstrip(".").split(", ")
    rows = [code.partition(" ") for code in _whole(codes)]
    return "\n".join(["| code | means |", "|---|---|", *(f"| {code} | {text} |" for code, _, text in rows)]) + "\n"


def _whole(parts: list[str]) -> list[str]:
    """What commas within parentheses have parted."""
    joined: list[str] = []
    for part in parts:
        if part[0].isdigit():
            joined.append(part)
        else:
            joined[-1] += f", {part}"
    return joined


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
