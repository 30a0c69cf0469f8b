"""The pages of the documentation on the terminal: ``wilkins help TOPIC``. The wheel has them too."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import textwrap
from pathlib import Path

from wilkins.errors import UsageError

PAGES = Path(__file__).resolve().parents[1] / "docs"
_SECTIONS = {
    "": "To begin with",
    "learn": "Learning step by step",
    "guides": "Guides",
    "reference": "Reference",
    "developers": "For developers",
}
_LINK = re.compile(r"!?\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")
_COMMENT = re.compile(r"^<!--.*?-->\n+", re.MULTILINE | re.DOTALL)


def topics() -> dict[str, Path]:
    """Every page by the name of its file, section by section; a section's pages in the order of its index."""
    found: dict[str, Path] = {}
    for section in _SECTIONS:
        index = PAGES / section / "index.md"
        for name in re.findall(r"^([a-z0-9-]+)$", index.read_text(encoding="utf-8"), re.MULTILINE):
            found[name] = index.parent / f"{name}.md"
    return {name: path for name, path in found.items() if path.exists()}


def listed() -> str:
    """All topics, with the titles of their pages; no line is wider than the terminal, if that has 40 columns."""
    pages = topics()
    width = max(map(len, pages))
    columns = max(40, shutil.get_terminal_size().columns)
    intro = "wilkins help TOPIC shows one of these pages; wilkins COMMAND --help, the options of a command."
    lines = textwrap.wrap(intro, columns)
    for section, heading in _SECTIONS.items():
        below = {name: path for name, path in pages.items() if path.parent == PAGES / section}
        if below:
            lines += ["", f"{heading}:"]
        for name, path in below.items():
            first = f"  {name:<{width}}  "
            lines += textwrap.wrap(_title(path), columns, initial_indent=first, subsequent_indent=" " * len(first))
    return "\n".join(lines)


def _explained_in(word: str, pages: dict[str, Path]) -> list[str]:
    """The pages that say most of a key, an option or a command: three at most."""
    word = re.escape(word)
    counts = {
        name: len(re.findall(rf"`[^`\n]*(?<![\w-]){word}(?![\w-])[^`\n]*`", path.read_text(encoding="utf-8")))
        for name, path in pages.items()
    }
    return sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])[:3]


def shown(topic: str) -> str:
    """A page as text, its links to other pages as the commands that show them.

    Raises:
        UsageError: there is no such page.
    """
    pages = topics()
    if topic not in pages:
        if found := _explained_in(topic, pages):
            raise UsageError(f"there is no page {topic!r}; it is explained in {' and '.join(found)}")
        near = difflib.get_close_matches(topic, pages, n=3, cutoff=0.5)
        near += [name for name, path in pages.items() if topic.lower() in _title(path).lower() and name not in near]
        meant = f"did you mean {' or '.join(near)}?" if near else "wilkins help, by itself, lists all"
        raise UsageError(f"there is no page {topic!r}; {meant}")
    return _as_text(pages[topic])


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next(line[2:].strip() for line in file if line.startswith("# "))


def _as_text(path: Path) -> str:
    lines, fenced = [], False
    for line in _COMMENT.sub("", path.read_text(encoding="utf-8")).splitlines():
        if _FENCE.match(line.lstrip()):
            fenced = not fenced
            continue
        lines.append(f"    {line}".rstrip() if fenced else _LINK.sub(lambda found: _link(found, path), line))
    return "\n".join(lines).rstrip()


def _link(found: re.Match[str], page: Path) -> str:
    """The text of a link, and where it leads unless the text says that: a page's command, or an address."""
    text, target = found["text"], found["target"]
    if ":" in target:
        return text if target in text else f"{text} ({target})"
    file = Path(os.path.normpath(page.parent / target.partition("#")[0]))
    if target.startswith("#") or file == page or topics().get(file.stem) != file:
        return text
    return f"{text} (`wilkins help {file.stem}`)"
