"""What JSON of a version must hold, checked once, value by value, before anything uses it.

A check takes a value and where it stands, and returns the value as it is used, or raises `Wrong`. Checks are put
together from others, so that the form of a file is written down in one place, beside what the file is read into.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from wilkins.errors import WilkinsError

Check = Callable[[Any, str], Any]

LARGEST = 2**63 - 1
"""What the system's calls take for a size or an offset."""
_NAME = re.compile(r"[^/.\0][^/\0]*")


class Wrong(WilkinsError, ValueError):
    """A value is not what it must be: which, and what it must be."""


def parse(text: str | bytes) -> Any:
    """JSON as Wilkins writes it: numbers are finite, and an object has a key once.

    Raises:
        Wrong: it is something else.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except Wrong:
        raise
    except RecursionError:
        raise Wrong("it is nested more deeply than Wilkins writes anything") from None
    except MemoryError:
        raise Wrong("it takes more memory than there is") from None
    except ValueError as error:
        raise Wrong(f"it is no JSON ({error})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise Wrong(f"it has the key {next(one for one in names if names.count(one) > 1)!r} twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise Wrong(f"it holds {name}, which is no number")


def wrong(where: str, value: Any, must: str) -> Wrong:
    """What to raise for a value that must be something else."""
    if isinstance(value, (dict, list)):
        text = "an object" if isinstance(value, dict) else "a list"
    else:
        text = repr(value)
        text = text if len(text) <= 40 else f"{text[:40]}..."
    return Wrong(f"{where or 'it'} is {text}, and must be {must}")


def whole(low: int = 0, high: int | None = LARGEST) -> Check:
    """An integer from `low` to `high`, both included; None: without an upper bound."""

    def check(value: Any, where: str) -> int:
        if type(value) is not int or value < low or (high is not None and value > high):
            span = f"{low} or more" if high is None else f"from {low} to {high}"
            raise wrong(where, value, f"an integer, {span}")
        return value

    return check


def real(value: Any, where: str) -> float:
    """A finite number, of a size that a float has."""
    if type(value) not in (int, float) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise wrong(where, value, "a finite number")
    return value  # type: ignore[no-any-return]


def truth(value: Any, where: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise wrong(where, value, "true or false")
    return value


def text(value: Any, where: str) -> str:
    """Any string."""
    if type(value) is not str:
        raise wrong(where, value, "a string")
    return value


def like(pattern: re.Pattern[str], must: str) -> Check:
    """A string that matches all of a pattern."""

    def check(value: Any, where: str) -> str:
        if type(value) is not str or not pattern.fullmatch(value):
            raise wrong(where, value, must)
        return value

    return check


def one_of(*values: str) -> Check:
    """One of some strings."""
    return like(re.compile("|".join(map(re.escape, values))), " or ".join(values))


def file_name(value: Any, where: str) -> str:
    """The name of a file that stands in the version's own folder, and is not hidden."""
    must = "the name of a file in the version's folder"
    if type(value) is not str or not _NAME.fullmatch(value):
        raise wrong(where, value, must)
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise wrong(where, value, must) from None
    return value


def listed(value: Any, where: str) -> list[Any]:
    """A list, whose items are checked by who takes it."""
    if type(value) is not list:
        raise wrong(where, value, "a list")
    return value


def items(of: Check, *, least: int = 0) -> Check:
    """A list of at least `least` items, as a tuple."""

    def check(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not list or len(value) < least:
            raise wrong(where, value, f"a list of {least} or more" if least else "a list")
        try:
            return tuple([of(one, "") for one in value])
        except Wrong:  # only then it matters where
            for number, one in enumerate(value):
                of(one, f"{where}[{number}]")
            raise

    return check


def table(names: Check, of: Check) -> Check:
    """An object of any keys that `names` takes, as a dict."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise wrong(where, value, "an object")
        return {names(name, f"a key of {where}"): of(one, f"{where}[{name!r}]") for name, one in value.items()}

    return check


def record(fields: Mapping[str, Check], optional: Sequence[str] = ()) -> Check:
    """An object of exactly these keys, but for those that may be left out, as a dict."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise wrong(where, value, "an object")
        if missing := [name for name in fields if name not in value and name not in optional]:
            raise Wrong(f"{where or 'it'} has no {missing[0]!r}")
        if strange := [name for name in value if name not in fields]:
            raise Wrong(f"{where or 'it'} has {strange[0][:40]!r}, which this Wilkins does not know")
        try:
            return {name: of(value[name], "") for name, of in fields.items() if name in value}
        except Wrong:  # only then it matters where
            within = f"{where}." if where else ""
            for name, of in fields.items():
                if name in value:
                    of(value[name], f"{within}{name}")
            raise

    return check


def nothing_or(of: Check) -> Check:
    """None, or what another check takes."""

    def check(value: Any, where: str) -> Any:
        return None if value is None else of(value, where)

    return check
