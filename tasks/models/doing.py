"""What a program's own functions do, as a digest: two of one name may be of other code."""

from __future__ import annotations

import hashlib
import inspect
import json
from types import CodeType, FunctionType
from typing import Any


def digest_of(function: Any, owner: type | None = None) -> str:
    """The digest of a function's code, and of its program's functions and plain values that it names.

    What is torch's or Python's is left out: its name says what it does. So is what a function is called, and its lines.

    Args:
        function: in Python; of others the digest is empty.
        owner: the class that it is a method of, whose other methods it may call.
    """
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(plain, FunctionType) or _is_known(plain.__module__):
        return ""
    found: list[Any] = []
    seen = {plain.__code__}
    waiting = [plain]
    while waiting:
        one = waiting.pop()
        found.append([_code(one.__code__), _values([*(one.__defaults__ or ()), *_enclosed(one)])])
        found.append(_values(list((one.__kwdefaults__ or {}).values())))
        for name in sorted(_names(one.__code__)):
            there = inspect.getattr_static(owner, name, None) if owner else None
            there = getattr(there, "__func__", getattr(there, "fget", None) or there)
            for value in (there, one.__globals__.get(name)):
                if isinstance(value, FunctionType):
                    if not _is_known(value.__module__) and value.__code__ not in seen:
                        seen.add(value.__code__)
                        waiting.append(value)
                else:
                    found.append([name, _values([value])])
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def _is_known(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("torch", "builtins")


def _enclosed(function: FunctionType) -> list[Any]:
    """The values that a function has from the one around it; of those that are not there yet, none."""
    found = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        found.append(_code(value.__code__) if isinstance(value, FunctionType) else value)
    return found


def _values(values: list[Any]) -> list[str]:
    """Of values, what is plain; of others nothing is said, since it may have an address in it."""
    plain = (bool, int, float, complex, str, bytes, tuple, list)
    return [text for one in values if isinstance(one, plain) and " at 0x" not in (text := repr(one))]


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def _code(code: CodeType) -> list[Any]:
    constants = [
        _code(one) if isinstance(one, CodeType) else sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)
        for one in code.co_consts
    ]
    return [code.co_code.hex(), list(code.co_names), constants]
