"""Does what a page of the documentation says: writes its files and runs its commands, in order, in one shell.

How a page is read:

- a fenced block after a line that ends with a name in backticks and a colon, as "`workflow.yaml`:", is that file;
- a ``console`` block holds commands after ``$ ``, and under each what it prints: ``...`` stands for anything, on a line
  of its own for any lines or none, and a command under which nothing stands may print anything; a table's rule may be
  of any width, as its columns may be; each command must end with 0, unless ``$ echo $?`` comes next;
- ``<!-- not run: REASON -->`` before a block leaves it out.
"""

from __future__ import annotations

import doctest
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.running import run_tree, write_program

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[a-z+-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r"`(?P<name>[\w./-]+)`[^`\n]*:\s*$")
_LEFT_OUT = re.compile(r"<!-- not run: (?P<reason>.+?) -->\s*$")
_ANY_LINES = re.compile(r"\s+^\.\.\.$", re.MULTILINE)
_RULE = re.compile(r"-{3,}")
_MARK = "--- page mark"
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_WIDE = "200"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int
    """Of the page, where it begins."""
    kind: str
    """The language that the fence names."""
    text: str
    name: str = ""
    """Of the file that it is."""
    left_out: str = ""
    """Why it is not run."""


@dataclass(frozen=True)
class Command:
    """A line that the reader types, and what the page says it prints."""

    line: int
    text: str
    output: str


def pages() -> list[Path]:
    """All pages that are written by hand."""
    return sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()].rstrip()
        left_out, name = _LEFT_OUT.search(before), _NAME.search(before)
        indent = fence["indent"]
        inner = "".join(line.removeprefix(indent) for line in fence["text"].splitlines(keepends=True))
        found.append(
            Block(
                text.count("\n", 0, fence.start()) + 1,
                fence["kind"],
                inner,
                name["name"] if name and fence["kind"] != "console" else "",
                left_out["reason"] if left_out else "",
            )
        )
    return found


def commands(block: Block) -> Iterator[Command]:
    """What a ``console`` block lets the reader type."""
    for part in re.finditer(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n?)*)", block.text, re.MULTILINE):
        yield Command(block.line + 1 + block.text.count("\n", 0, part.start()), part[1], part[2])


def follow(page: Path, folder: Path, timeout: float, env: Mapping[str, str] | None = None) -> list[str]:
    """Do all that a page says, in a folder; returns what went otherwise than it says."""
    script, typed = ["exec 2>&1"], []
    for number, block in enumerate(block for block in blocks(page) if not block.left_out):
        if block.name:
            # Written when its turn comes: a page may show a file, run it, and show it anew.
            source = folder.parent / f"{page.stem}-{number}"
            write_program(source, block.text)
            kept = "0755" if block.text.startswith("#!") else "0644"
            script.append(f"install -D -m {kept} '{source}' '{block.name}'")
        elif block.kind == "console":
            for command in commands(block):
                typed.append(command)
                script.append(f"{command.text}\n_code=$?; echo '{_MARK}' $_code; (exit $_code)")
    write_program(folder.parent / f"{page.stem}.sh", "\n".join(script) + "\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "COLUMNS": _WIDE, **(env or {})}
    finished = run_tree(["bash", folder.parent / f"{page.stem}.sh"], timeout, folder, env)
    parts = re.split(rf"^{_MARK} (\d+)\n", finished.out, flags=re.MULTILINE)
    printed, codes = parts[0::2], [int(code) for code in parts[1::2]]
    return list(_differences(page, typed, printed, codes))


def _differences(page: Path, typed: list[Command], printed: list[str], codes: list[int]) -> Iterator[str]:
    checker = doctest.OutputChecker()
    for number, command in enumerate(typed):
        place = f"{os.path.relpath(page, DOCS)}:{command.line}: $ {command.text}"
        if number >= len(codes):
            yield f"{place}: was not reached\n{printed[-1]}"
            return
        asked = number + 1 < len(typed) and typed[number + 1].text == "echo $?"
        if codes[number] and not asked:
            yield f"{place}: ended with {codes[number]}\n{printed[number]}"
        said = _ANY_LINES.sub("...", command.output)
        if said.strip() and not checker.check_output(_RULE.sub("---", said), _RULE.sub("---", printed[number]), _SAME):
            yield f"{place}: the page says\n{command.output}\nand it printed\n{printed[number]}"
