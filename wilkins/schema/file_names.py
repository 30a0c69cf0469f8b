"""The names of a port's files: one, or a list of names whose files of one number are one step."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import yaml

from wilkins.schema.kinds import ListOf, text
from wilkins.schema.reading import INVALID, Kind, Reader

LIST_BYTES = 1000
_WILDCARDS = r"\*|\?|\[[!^]?[^]]+\]"


class FileName(str):
    """The first of several names; `names` are all."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, names: Sequence[str]) -> FileName:
        """The first name, which knows them all."""
        made = super().__new__(cls, names[0])
        made.names = tuple(names)
        return made


def names_of(name: str) -> tuple[str, ...]:
    """All names of a port."""
    return name.names if isinstance(name, FileName) else (name,)


def has_pieces(names: Sequence[str]) -> bool:
    """True if some name of a list stands for several files of a step: what it has beside ``*`` is no number."""
    return any("*" in _last(name) for name in names) and any(re.search(r"\?|\[", _last(name)) for name in names)


def number_wildcards(names: Sequence[str]) -> list[int]:
    """How many wildcards of each name stand for the number: ``*``, and all where no name has one."""
    stars = any("*" in _last(name) for name in names)
    return [_last(name).count("*") if stars else len(re.findall(_WILDCARDS, _last(name))) for name in names]


def _last(name: str) -> str:
    return posixpath.basename(name)


class FileNames(Kind):
    """The name or pattern of a port's files, or several."""

    meaning = "a text, or a list of texts"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> object:
        """A text; of a list, one that knows all names."""
        if not isinstance(node, yaml.SequenceNode):
            name = text().read(reader, node, who)
            return _normal(name) if isinstance(name, str) else name
        names = ListOf(text(), 1).read(reader, node, who)
        if names is not INVALID:
            names = tuple(map(_normal, names))
        if names is INVALID or len(names) == 1:
            return INVALID if names is INVALID else names[0]
        for item, name, message in _problems(node, names):
            return reader.problem(item, f"{who} {name!r}: {message}")
        return FileName(names)

    def schema(self) -> dict[str, object]:
        """The JSON schema of the value."""
        return ListOf(text(), 1).schema()


def _normal(name: str) -> str:
    """Without ``./``, ``//`` and ``a/../``, as the layer takes the names that programs say."""
    normal = posixpath.normpath(name)
    if not name or normal in (".", "..", "/", "//"):
        return name
    return normal.replace("//", "/") + "/" * name.endswith("/")


def _problems(node: yaml.SequenceNode, names: Sequence[str]) -> list[tuple[yaml.Node, str, str]]:
    """What keeps files of these names from being one step, and at which of them."""
    first, counts = names[0], number_wildcards(names)
    found = []
    for item, name, count, place in zip(node.value, names, counts, range(len(names)), strict=True):
        if name.endswith("/"):
            message = "a list is of files, and this is a folder; give the folder a port of its own"
        elif name in names[:place]:
            message = "it is in the list twice; remove one"
        elif posixpath.dirname(name) != posixpath.dirname(first):
            message = f"the files of a list lie in one folder, and those of {first!r} lie in another one"
        elif count != counts[0]:
            message = (
                f"files are one step if the same text stands for the wildcards of their names: it has {count}, and "
                f"{first!r} has {counts[0]}; "
                + (
                    "where it stands for several files of a step, write '?' or '[0-9]' for what tells them apart"
                    if count > counts[0] > 0
                    else "write as many in each, or give it a port of its own"
                )
            )
        elif place == 0 and has_pieces([name]):
            message = (
                "the first name names the step, and stands for one file of it; put another one first, without '?' or "
                "'[...]' beside '*'"
            )
        elif sum(len(one.encode()) + 1 for one in names) > LIST_BYTES:
            message = f"the names of a list may have {LIST_BYTES} bytes together; shorten them"
        else:
            continue
        found.append((item, name, message))
    return found
