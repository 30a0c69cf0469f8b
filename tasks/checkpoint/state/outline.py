"""What a state looks like, without its values: one that looks as it did before needs no second description.

Training hands over the same arrays at every checkpoint. To name, describe and lay out hundreds of them takes
milliseconds in which the program waits; to see that nothing about them has changed takes a fraction of that.
"""

from __future__ import annotations

import marshal
import sys
from collections import Counter, OrderedDict
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from wilkins.errors import WilkinsError
from wilkins.tasks.checkpoint.state.sources import Shard
from wilkins.tasks.checkpoint.state.tree import DEPTH

_EXACT = 2
"""Version of `marshal` without references: the same values, types included, always give the same bytes."""


class Outline(NamedTuple):
    """A state taken apart."""

    form: list[Any]
    """Kinds of all values and the keys of dicts, as they are met."""
    arrays: list[Any]
    """As they are met; of a `Shard`, its array."""
    plain: list[Any]
    """All other values, as they are met. None of them can change."""


class _Unfamiliar(WilkinsError):
    """The state holds what cannot be recognised."""


def outline(state: Any) -> Outline | None:
    """Take a state apart; None if it holds something that has to be looked at anew each time, such as a DTensor."""
    found = Outline([], [], [])
    try:
        _walk([state], found, 0)
    except (_Unfamiliar, ValueError):  # marshal's, of a key
        return None
    return found


def _walk(values: Collection[Any], found: Outline, depth: int) -> None:
    """In the order of `tree.encode`."""
    form, arrays, plain = found
    if depth > DEPTH:
        raise _Unfamiliar
    kinds: Any = tuple(map(type, values))
    form.append(kinds)
    roles = _roles(kinds)
    if roles == "array":  # the usual innermost dict
        arrays += values
        return
    if roles == "plain":
        plain += values
        return
    for value, kind, role in zip(values, kinds, roles, strict=True):
        if role == "array":
            arrays.append(value)
        elif role == "plain":
            plain.append(value)
        elif role == "dict":
            form.append(marshal.dumps(tuple(value), _EXACT))
            _walk(value.values(), found, depth + 1)
            if kind is OrderedDict:
                _metadata(vars(value).get("_metadata"), form)
        elif role == "list":
            _walk(value, found, depth + 1)
        elif role == "shard":
            _shard(value, found)
        else:
            raise _Unfamiliar


def _shard(value: Shard, found: Outline) -> None:
    kind: Any = type(value.array)
    if _role(kind) != "array":
        raise _Unfamiliar
    found.form.extend((kind, value.shape, value.offsets))
    found.arrays.append(value.array)


def _metadata(value: Any, form: list[Any]) -> None:
    """Keeps the format versions of a torch module's parts. They belong to the form, and are never filled."""
    if isinstance(value, dict):
        value = [type(value).__name__, *value.items()]
    form.append(marshal.dumps(value, _EXACT))


@lru_cache(maxsize=1000)
def _roles(kinds: tuple[Any, ...]) -> tuple[str, ...] | Literal["array", "plain"]:
    """The role of each; one word if all are arrays, or plain values."""
    roles = tuple(map(_role, kinds))
    if set(roles) == {"array"}:
        return "array"
    return "plain" if set(roles) == {"plain"} else roles


@lru_cache(maxsize=1000)
def _role(kind: Any) -> Literal["array", "plain", "dict", "list", "shard", ""]:
    assert isinstance(kind, type)
    torch = sys.modules.get("torch")
    if kind is np.ndarray or (torch is not None and kind in (torch.Tensor, torch.nn.Parameter)):
        return "array"
    if kind in (type(None), bool, int, float, complex, str, bytes):
        return "plain"
    if issubclass(kind, np.generic) and kind is not np.void:
        return "plain"
    if torch is not None and kind in (torch.Size, torch.dtype, torch.device):
        return "plain"
    if kind in (dict, OrderedDict, Counter):
        return "dict"
    if kind in (list, tuple):
        return "list"
    return "shard" if kind is Shard else ""
