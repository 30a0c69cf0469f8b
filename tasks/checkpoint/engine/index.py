"""A rank's index as JSON text: what stays the same from version to version is made once, plain values are filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wilkins.tasks.checkpoint.state.sources import Spec
from wilkins.tasks.checkpoint.state.tree import encode
from wilkins.tasks.checkpoint.storage.layout import Extent


class IndexText:
    """The state as JSON; of each array what it is, and where its bytes stand: (rank, offset, start, length).

    Made in pieces when it is first asked for, since that is in the background and `save` is not.
    """

    def __init__(
        self, tree: Any, specs: Sequence[Spec], rank: int, shares: Sequence[Sequence[Extent]], own: Sequence[Extent]
    ) -> None:
        self._tree, self._specs, self._rank, self._shares, self._own = tree, specs, rank, shares, own
        self._pieces: list[str] = []
        self._holes: list[str] = []

    def filled(self, plain: Sequence[Any] | None = None) -> str:
        """The text with the plain values of a state of the same form; left out: of the state it was made for."""
        if not self._pieces:
            self._make()
        holes = self._holes if plain is None else [_dumps(encode(one, _no_leaf)) for one in plain]
        texts = [self._pieces[0]]
        for hole, piece in zip(holes, self._pieces[1:], strict=True):
            texts += (hole, piece)
        return "".join(texts)

    def _make(self) -> None:
        made = [['{"tree":']]
        for text, is_hole in _cut(self._tree):
            if is_hole:
                self._holes.append(text)
                made.append([])
            else:
                made[-1].append(text)
        made[-1].append(f',"arrays":{_dumps(self._arrays())}}}')
        self._pieces = ["".join(one) for one in made]

    def _arrays(self) -> list[dict[str, Any]]:
        where: list[list[tuple[int, int, int, int]]] = [[] for _ in self._specs]
        for owner, share in enumerate(self._shares):
            for extent in share:
                where[extent.array].append((owner, extent.offset, extent.start, extent.length))
        for extent in self._own:
            where[extent.array].append((self._rank, extent.offset, extent.start, extent.length))
        return [
            {**{name: getattr(one, name) for name in Spec.__slots__ if name != "order" or one.order}, "parts": extents}
            for one, extents in zip(self._specs, where, strict=True)
        ]


def _cut(tree: Any) -> Iterator[tuple[str, bool]]:
    """An encoded state as text in pieces, and whether each is that of a plain value."""
    kind = next(iter(tree)) if isinstance(tree, dict) else ""
    if kind == "array":
        yield _dumps(tree), False
    elif kind in ("dict", "ordered"):
        yield f'{{"{kind}":[', False
        for number, (name, value) in enumerate(tree[kind]):
            yield f"{',' if number else ''}[{_dumps(name)},", False
            yield from _cut(value)
            yield "]", False
        rest = {name: value for name, value in tree.items() if name != kind}
        yield f"],{_dumps(rest)[1:-1]}}}" if rest else "]}", False
    elif kind in ("list", "tuple"):
        yield f'{{"{kind}":[', False
        for number, value in enumerate(tree[kind]):
            yield ("," if number else ""), False
            yield from _cut(value)
        yield "]}", False
    else:
        yield _dumps(tree), True


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _no_leaf(key: str, value: Any) -> Any:
    raise TypeError(f"{key}: {type(value).__name__} is no plain value")
