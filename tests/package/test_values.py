"""`wilkins.values` does what `dataclasses` does: each class is declared twice, once with either, and asked the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from wilkins import values

OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
)


def declare(library: Any, **options: bool) -> SimpleNamespace:
    """A class, one that inherits from it, and one that takes its fields by name."""

    @library.dataclass(**options)
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        names: list[str] = library.field(default_factory=list)
        hidden: int = library.field(default=0, repr=False, compare=False)
        later: int = library.field(default=9, init=False)

        def moved(self) -> Any:
            """Further right."""
            return library.replace(self, x=self.x + 1)

    @library.dataclass(**options)
    class Named(Point):
        y: int = 5
        name: str = "a"

        def __post_init__(self) -> None:
            object.__setattr__(self, "names", [*self.names, self.name])

    @library.dataclass(kw_only=True, **options)
    class Keyed:
        inner: Any = None
        number: int

        def __repr__(self) -> str:
            return "its own"

    return SimpleNamespace(library=library, Point=Point, Named=Named, Keyed=Keyed)


def outcome(does: Callable[[SimpleNamespace], Any], of: SimpleNamespace) -> str:
    """What a call gives, or the error it raises."""
    try:
        return repr(does(of)).replace(f"{declare.__name__}.<locals>.", "")
    except Exception as error:
        return type(error).__name__


class Pair(NamedTuple):
    """A tuple that takes its items one by one."""

    a: Any
    b: Any


def _holding_itself(point: Any) -> Any:
    point.names.append(point)
    return point


CASES: dict[str, Callable[[SimpleNamespace], Any]] = {
    "a default": lambda of: (of.Point(1), of.Named(1), of.Keyed(number=1).number),
    "all by position": lambda of: (of.Point(1, 3, ["n"], 4), of.Named(1, 3, ["n"], 4, "b")),
    "all by name": lambda of: of.Named(name="b", x=1, y=3, names=["m"], hidden=1),
    "too few": lambda of: of.Point(),
    "too few by name": lambda of: of.Keyed(inner=1),
    "too many": lambda of: of.Point(1, 2, [], 3, 4),
    "by position what has a name": lambda of: of.Keyed(1),
    "one twice": lambda of: of.Point(1, x=2),
    "an unknown one": lambda of: of.Point(1, z=2),
    "one that is not given": lambda of: of.Point(1, later=2),
    "what is hidden": lambda of: (of.Point(1, hidden=3).hidden, repr(of.Point(1, hidden=3))),
    "what comes later": lambda of: of.Point(1).later,
    "a factory for each": lambda of: of.Point(1).names is of.Point(1).names,
    "equal": lambda of: (
        of.Point(1) == of.Point(1),
        of.Point(1) == of.Point(2),
        of.Point(1, hidden=1) == of.Point(1),
    ),
    "another class": lambda of: (of.Point(1, 5, []) == of.Named(1, 5, []), of.Point(1) == (1, 2, [], 0)),
    "hash": lambda of: len({of.Keyed(number=1), of.Keyed(number=1), of.Keyed(number=2)}),
    "hash of a list": lambda of: isinstance(hash(of.Point(1)), int),
    "set": lambda of: setattr(of.Point(1), "x", 5),
    "delete": lambda of: delattr(of.Point(1), "x"),
    "its own repr": lambda of: (of.Keyed(number=1), of.Keyed(number=1).number),
    "of the class": lambda of: (of.Point.kind, of.Named.kind, getattr(of.Point, "y", None) == 2),
    "a name of the class": lambda of: (of.Point.__match_args__, of.Named.__match_args__, of.Named.__name__),
    "a dictionary of its own": lambda of: hasattr(of.Point(1), "__dict__"),
    "replace": lambda of: (of.Point(1).moved(), of.library.replace(of.Point(1), y=7)),
    "asdict": lambda of: of.library.asdict(of.Keyed(inner=[of.Point(1), {"k": (of.Named(2),)}], number=1)),
    "asdict of a named tuple": lambda of: of.library.asdict(of.Keyed(inner=Pair(of.Point(1), 2), number=1)),
    "fields": lambda of: [
        (one.name, one.init, one.repr, one.compare, one.kw_only, one.type, dict(one.metadata))
        for kind in (of.Point, of.Named, of.Keyed)
        for one in of.library.fields(kind)
    ],
    "is one": lambda of: [of.library.is_dataclass(one) for one in (of.Point, of.Keyed(number=1), 3, int)],
    "copies": lambda of: (copy.copy(of.Point(1, 3)), copy.deepcopy(of.Named(1, 3))),
    "itself inside": lambda of: _holding_itself(of.Point(1)),
    # The standard library's functions take both.
    "standard replace": lambda of: dataclasses.replace(of.Named(1, names=["n"]), x=3),
    "standard asdict": lambda of: dataclasses.asdict(of.Keyed(inner=(of.Point(1),), number=1)),
    "standard fields": lambda of: [
        (one.name, one.default == 2, one.default_factory is list, one.type) for one in dataclasses.fields(of.Point)
    ],
    "standard test": lambda of: [dataclasses.is_dataclass(one) for one in (of.Point, of.Named(1), 3)],
}


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "plain")
@pytest.mark.parametrize("case", CASES)
def test_as_the_standard_library(case: str, options: dict[str, bool]) -> None:
    """Results, and the kinds of errors."""
    standard, own = (outcome(CASES[case], declare(library, **options)) for library in (dataclasses, values))
    assert own == standard


@values.dataclass(frozen=True, slots=True)
class Pickled:
    """Can be found by its name."""

    x: int
    y: tuple[int, ...] = ()


def test_pickle() -> None:
    """A frozen one with slots, which Python alone could not restore."""
    assert pickle.loads(pickle.dumps(Pickled(1, (2, 3)))) == Pickled(1, (2, 3))


def test_refusals_say_what_is_wrong() -> None:
    """In Python's words."""
    made: Any = Pickled
    refused: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        ((), {}, "missing 1 required arguments: 'x'"),
        ((1, (), 2), {}, "takes 3 positional arguments but 4 were given"),
        ((1,), {"x": 2}, "got multiple values for argument 'x'"),
        ((1,), {"z": 2}, "got an unexpected keyword argument 'z'"),
    )
    for args, given, said in refused:
        with pytest.raises(TypeError, match=re.escape(f"Pickled.__init__() {said}")):
            made(*args, **given)


def test_a_default_that_can_change_is_refused() -> None:
    """All instances would share it."""
    with pytest.raises(ValueError, match=re.escape("Shared.items can change")):

        @values.dataclass
        class Shared:
            items: list[int] = []  # noqa: RUF012 - what is tested


def test_the_two_kinds_do_not_inherit_from_each_other() -> None:
    """Each would lack fields of the other."""

    @dataclasses.dataclass
    class Standard:
        x: int

    with pytest.raises(TypeError, match="of the standard library's kind"):

        @values.dataclass
        class Own(Standard):
            y: int


def test_fields_of_the_one_kind_in_a_class_of_the_other_are_refused() -> None:
    """They would be taken for defaults."""

    @dataclasses.dataclass
    class Standard:
        x: int = values.field(default=1)

    with pytest.raises(TypeError, match=re.escape("Standard: x: declared for wilkins.values")):
        values.fields(Standard)
