"""A state as JSON: nested dicts, lists and scalars keep their exact types, arrays become references. No pickle.

JSON's own null, booleans, integers and strings stand for themselves; all else is an object with one key, its kind.
"""

from __future__ import annotations

import base64
import math
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.errors import Damaged, Unsupported
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.state.sources import Shard, is_tensor, numpy_dtype, torch_dtype

DEPTH = 200
"""How deeply a state may be nested: JSON's reader and writer recurse."""

_DICTS: dict[type[dict[Any, Any]], str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
"""Kinds of dicts, and how they are written. Schedules of torch's keep Counters."""

Leaf = Callable[[str, Any], Any]
MISSING = object()
"""What a leaf is made into that is not wanted: dicts leave it out."""


def encode(state: Any, leaf: Leaf) -> Any:
    """The state as JSON values; `leaf(key, array)` takes each tensor, array or `Shard`; what it returns stands for it.

    Raises:
        Unsupported: a value of another kind, named by its path.
    """
    return _encode(state, "", leaf, 0)


def join(key: str, name: Any) -> str:
    """The path of what a dict or list holds under a name."""
    return f"{key}/{name}" if key else str(name)


def _encode(value: Any, key: str, leaf: Leaf, depth: int) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, (np.ndarray, Shard)) or is_tensor(value):
        return leaf(key, value)
    if depth >= DEPTH:
        raise Unsupported(f"{key[:80]}...: the state is nested more than {DEPTH} deep, or holds itself; flatten it")
    if kind in _DICTS:
        pairs = [
            [_encode_key(name, key), _encode(one, join(key, name), leaf, depth + 1)] for name, one in value.items()
        ]
        if kind is not OrderedDict:
            return {_DICTS[kind]: pairs}
        known = vars(value).get("_metadata")  # torch's modules keep the versions of their formats there
        return {"ordered": pairs, "metadata": _encode(known, join(key, "_metadata"), leaf, depth + 1)}
    if kind in (list, tuple):
        return {kind.__name__: [_encode(one, join(key, i), leaf, depth + 1) for i, one in enumerate(value)]}
    return _encode_other(value, key)


def _encode_key(name: Any, key: str) -> Any:
    if name is None or type(name) in (bool, int, str):
        return name
    if type(name) is float and math.isfinite(name):
        return name
    if type(name) is tuple:
        return {"tuple": [_encode_key(one, key) for one in name]}
    raise Unsupported(f"{key or 'the state'}: a dict key {name!r} is not kept; give strings, numbers, tuples of them")


def _encode_other(value: Any, key: str) -> Any:
    kind = type(value)
    if kind is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic) and not value.dtype.hasobject and value.dtype.names is None:
        return {"scalar": [value.dtype.str, base64.b64encode(value.tobytes()).decode()]}
    torch = sys.modules.get("torch")
    if torch is not None:
        if kind is torch.Size:
            return {"size": list(value)}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind is torch.device:
            return {"device": str(value)}
    raise Unsupported(
        f"{key or 'the state'}: a {kind.__module__}.{kind.__qualname__} is not kept. A checkpoint holds tensors, "
        "arrays, numbers, strings, bytes, None, and dicts, lists and tuples of these; give its state_dict() or parts"
    )


def check_tree(tree: Any, arrays: int) -> None:
    """Check that JSON is an encoded state of the given number of arrays; all functions below rely on it.

    Raises:
        Wrong: it is none.
    """
    _check(tree, "tree", arrays, 0)


def _is_leaf(tree: Any, arrays: int) -> bool:
    """Whether it is a value that stands for itself, or one of so many arrays, as most are."""
    if type(tree) is not dict:
        return tree is None or isinstance(tree, (bool, int, float, str))
    number = tree.get("array")
    return len(tree) == 1 and type(number) is int and 0 <= number < arrays


def _check(tree: Any, where: str, arrays: int, depth: int) -> None:
    if _is_leaf(tree, arrays):
        return
    if depth > DEPTH:
        raise checked_json.Wrong(f"{where[:80]}... is nested more than {DEPTH} deep")
    if not isinstance(tree, dict) or not tree:
        raise checked_json.wrong(where, tree, "a value, or an object that says of what kind it is")
    kind, value = next(iter(tree.items()))
    if len(tree) > 1 and list(tree) != ["ordered", "metadata"]:
        raise checked_json.wrong(where, tree, "an object of one key, the kind of the value")
    where = f"{where}.{kind[:40]}"
    if kind == "array":
        checked_json.whole(0, arrays - 1)(value, where)
    elif kind in _DICTS.values():
        for number, pair in enumerate(checked_json.listed(value, where)):
            if type(pair) is list and len(pair) == 2 and type(pair[0]) is str and _is_leaf(pair[1], arrays):
                continue  # tens of thousands of them: where it is matters for the others only
            name, one = _listed(pair, f"{where}[{number}]", 2)
            _check_key(name, f"{where}[{number}][0]", depth)
            _check(one, f"{where}[{number}][1]", arrays, depth + 1)
        if kind == "ordered":
            _check(tree.get("metadata"), f"{where}.metadata", arrays, depth + 1)
    elif kind in ("list", "tuple"):
        for number, one in enumerate(checked_json.listed(value, where)):
            _check(one, f"{where}[{number}]", arrays, depth + 1)
    elif kind in _PLAIN:
        _PLAIN[kind](value, where)
    else:
        raise checked_json.Wrong(f"{where} is of an unknown kind")


def _check_key(name: Any, where: str, depth: int) -> None:
    if name is None or isinstance(name, (bool, int, float, str)):
        return
    if depth > DEPTH or not isinstance(name, dict) or list(name) != ["tuple"]:
        raise checked_json.wrong(where, name, "a key: a string, a number, or a tuple of them")
    for number, one in enumerate(checked_json.listed(name["tuple"], where)):
        _check_key(one, f"{where}[{number}]", depth + 1)


def _listed(value: Any, where: str, length: int) -> list[Any]:
    if type(value) is not list or length != len(value):
        raise checked_json.wrong(where, value, f"a list of {length}")
    return value


def _made(kind: str) -> checked_json.Check:
    """What can be made without torch is made, to see that it can."""

    def check(value: Any, where: str) -> Any:
        try:
            return _decode_other(kind, value)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise checked_json.Wrong(f"{where} cannot be made: {error}") from error

    return check


_PLAIN: dict[str, checked_json.Check] = {
    **{kind: _made(kind) for kind in ("float", "complex", "bytes", "scalar")},
    "size": checked_json.items(checked_json.whole()),
    "dtype": checked_json.text,
    "device": checked_json.like(re.compile("[a-z_]+(:[0-9]+)?"), "a device"),
}
"""What stands under a kind of value that is no dict, list, tuple or array."""


def decode(tree: Any, leaf: Callable[[int], Any], wanted: Callable[[str], bool] = lambda _: True) -> Any:
    """The state that was encoded; `leaf` gives the array of a number, or `MISSING`.

    `wanted` says of a value that is no dict, list or tuple, by its path, whether to keep it: dicts leave out what is
    not, lists and tuples hold None for it.

    Raises:
        Damaged: this is no encoded state.
    """
    try:
        found = _decode(tree, "", leaf, wanted)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"the index of a checkpoint holds what no state is written as ({error})") from error
    return None if found is MISSING else found


def _decode(tree: Any, key: str, leaf: Callable[[int], Any], wanted: Callable[[str], bool]) -> Any:
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree if wanted(key) else MISSING
    kind, value = next(iter(tree.items()))
    if kind == "array":
        return leaf(value) if wanted(key) else MISSING
    if kind in _DICTS.values():
        pairs = ((_decode_key(name), one) for name, one in value)
        found: dict[Any, Any] = next(made for made, name in _DICTS.items() if name == kind)()
        for name, one in pairs:
            inner = _decode(one, join(key, name), leaf, wanted)
            if inner is not MISSING:
                found[name] = inner
        if kind == "ordered" and tree.get("metadata") is not None:
            vars(found)["_metadata"] = _decode(tree["metadata"], "", leaf, lambda _: True)
        return found if found or not value else MISSING
    if kind in ("list", "tuple"):
        parts = [_decode(one, join(key, i), leaf, wanted) for i, one in enumerate(value)]
        if parts and all(one is MISSING for one in parts):
            return MISSING
        parts = [None if one is MISSING else one for one in parts]
        return parts if kind == "list" else tuple(parts)
    return _decode_other(kind, value) if wanted(key) else MISSING


def _decode_key(name: Any) -> Any:
    return tuple(_decode_key(one) for one in name["tuple"]) if isinstance(name, dict) else name


def _decode_other(kind: str, value: Any) -> Any:
    if kind == "float":
        return float(value)
    if kind == "complex":
        return complex(float(value[0]), float(value[1]))
    if kind == "bytes":
        return base64.b64decode(value, validate=True)
    if kind == "scalar":
        raw, dtype = base64.b64decode(value[1], validate=True), numpy_dtype(value[0])
        if len(raw) != dtype.itemsize:
            raise ValueError(f"a {dtype} has {dtype.itemsize} bytes, and {len(raw)} were written")
        return np.frombuffer(raw, dtype)[0] if raw else dtype.type()
    import torch

    if kind == "size":
        return torch.Size(value)
    if kind == "dtype":
        return torch_dtype(value)
    if kind == "device":
        try:
            return torch.device(value)
        except RuntimeError as error:
            raise Damaged(
                f"torch {torch.__version__} has no device {value!r}; read it with the torch that wrote it"
            ) from error
    raise Damaged(f"the index of a checkpoint holds a value of an unknown kind, {kind!r}")


def arrays_in(state: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor, array and `Shard` of a state, with its path."""
    if isinstance(state, (np.ndarray, Shard)) or is_tensor(state):
        yield key, state
    elif isinstance(state, dict):
        for name, one in state.items():
            yield from arrays_in(one, join(key, name))
    elif isinstance(state, (list, tuple)):
        for i, one in enumerate(state):
            yield from arrays_in(one, join(key, i))


def array_references(tree: Any) -> Iterator[dict[str, int]]:
    """What stands for arrays in an encoded state, in the order in which `encode` met them."""
    if not isinstance(tree, dict):
        return
    kind, value = next(iter(tree.items()))
    if kind == "array":
        yield tree
    elif kind in _DICTS.values():
        for _, one in value:
            yield from array_references(one)
        yield from array_references(tree.get("metadata"))
    elif kind in ("list", "tuple"):
        for one in value:
            yield from array_references(one)


def array_paths(tree: Any) -> dict[str, int]:
    """The number of each array in an encoded state, by its path."""
    return {key: int(one["array"]) for key, one in leaves(tree) if isinstance(one, dict) and "array" in one}


def leaves(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of an encoded state that is no dict, list or tuple, as it is encoded, with its path."""
    kind, value = next(iter(tree.items())) if isinstance(tree, dict) else ("", ())
    if kind in _DICTS.values():
        for name, one in value:
            if isinstance(one, dict) and "array" not in one:
                yield from leaves(one, join(key, _decode_key(name)))
            else:
                yield join(key, _decode_key(name)), one
    elif kind in ("list", "tuple"):
        for i, one in enumerate(value):
            yield from leaves(one, join(key, i))
    else:
        yield key, tree
