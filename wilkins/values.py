"""`dataclasses` for what every start of a run imports: the same classes, whose methods are not compiled.

The standard library compiles up to eight functions for each data class, 0.6 ms, and imports `inspect` for that: of the
time before the first program ran, a third. Here all classes share their methods, which loop over the fields: a class
takes a tenth of the time to declare, an instance four times as long to make. So what makes instances by the hundred
thousand has the standard library's.

All that it offers means what it means there: `dataclass` with ``frozen``, ``slots``, ``kw_only`` and ``eq``, and the
functions below. Those of the standard library take these classes as well, and a type checker sees its declarations.
Left out are ``InitVar``, ``KW_ONLY``, ``order``, and classes of the one kind that inherit from one of the other.

Besides, `plain` makes of a value what JSON can hold, and `restored` makes a value of that, by the types that the fields
declare.
"""

from __future__ import annotations

import sys
from collections import abc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin

__all__ = [
    "MISSING",
    "asdict",
    "dataclass",
    "field",
    "fields",
    "is_dataclass",
    "plain",
    "replace",
    "restored",
]

if TYPE_CHECKING:
    from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
else:
    from reprlib import recursive_repr

    _STANDARD = "__dataclass_fields__"

    class _Missing:
        """Of `MISSING`: no default."""

        __slots__ = ()

    MISSING = _Missing()
    _NO_METADATA = MappingProxyType({})

    class _Field:
        """What is declared of a field."""

        __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr", "type")

        def __init__(self, default, default_factory, init, repr, compare, metadata, kw_only):
            self.name = self.type = ""
            self.default = default
            self.default_factory = default_factory
            self.init = init
            self.repr = repr
            self.compare = compare
            self.metadata = _NO_METADATA if metadata is None else metadata
            self.kw_only = kw_only

        def standard(self):
            """The same, as the standard library declares it."""
            import dataclasses

            given = {name: getattr(self, name) for name in ("init", "repr", "compare", "metadata", "kw_only")}
            defaults = {name: getattr(self, name) for name in ("default", "default_factory")}
            return dataclasses.field(**given, **{name: one for name, one in defaults.items() if one is not MISSING})

    class _Shape:
        """What the methods of a class loop over."""

        __slots__ = ("compared", "count", "factories", "fields", "names", "positional", "preset", "shown")

        def __init__(self, declared):
            self.fields = tuple(declared.values())
            self.names = {one.name for one in self.fields if one.init}
            self.positional = tuple(one.name for one in self.fields if one.init and not one.kw_only)
            self.preset = {one.name: one.default for one in self.fields if one.default is not MISSING}
            made = (one for one in self.fields if one.default_factory is not MISSING)
            self.factories = {one.name: one.default_factory for one in made}
            self.count = len({*self.names, *self.preset, *self.factories})
            """How many fields an instance begins with."""
            self.compared = tuple(one.name for one in self.fields if one.compare)
            self.shown = tuple(one.name for one in self.fields if one.repr)

        def refusal(self, args, given):
            """Why a call does not fit, in Python's words; empty if it does."""
            if len(args) > len(self.positional):
                return f"takes {len(self.positional) + 1} positional arguments but {len(args) + 1} were given"
            placed = self.positional[: len(args)]
            for name in given:
                if name in placed:
                    return f"got multiple values for argument {name!r}"
                if name not in self.names:
                    return f"got an unexpected keyword argument {name!r}"
            needed = self.names.difference(placed, given, self.preset, self.factories)
            missing = ", ".join(repr(one.name) for one in self.fields if one.name in needed)
            return f"missing {len(needed)} required arguments: {missing}" if needed else ""

    class _Standard:
        """The attribute by which the standard library knows a data class, made when that asks for it."""

        def __init__(self):
            self.made = None

        def __get__(self, instance, owner):
            if self.made is None:
                import dataclasses

                declared = [(one.name, one.type, one.standard()) for one in owner.__shape__.fields]
                made = dataclasses.make_dataclass(owner.__name__, declared, init=False, repr=False, eq=False)
                self.made = getattr(made, _STANDARD)
            return self.made

    def field(
        *,
        default=MISSING,
        default_factory=MISSING,
        init=True,
        repr=True,
        compare=True,
        metadata=None,
        kw_only=False,
    ):
        """Declares a field that has more than a type and a default."""
        return _Field(default, default_factory, init, repr, compare, metadata, kw_only)

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """Gives a class the methods that its fields ask for."""
        if cls is None:
            return lambda cls: _made(cls, frozen, slots, kw_only, eq)
        return _made(cls, frozen, slots, kw_only, eq)

    def fields(value):
        """What is declared of the fields of a data class, or of an instance's class."""
        if hasattr(value, "__shape__"):
            return value.__shape__.fields
        found = tuple(getattr(value, _STANDARD).values())
        if foreign := [one.name for one in found if isinstance(one.default, _Field)]:
            kind = value if isinstance(value, type) else type(value)
            raise TypeError(
                f"{kind.__qualname__}: {', '.join(foreign)}: declared for wilkins.values, but this is a class of "
                "dataclasses; take dataclass from wilkins.values, too"
            )
        return found

    def is_dataclass(value):
        """Whether it is a data class, or an instance of one."""
        return hasattr(value, "__shape__") or hasattr(value, _STANDARD)

    def replace(value, /, **changes):
        """A new instance with the same values, but for the changes."""
        for one in fields(value):
            if one.init:
                changes.setdefault(one.name, getattr(value, one.name))
        return type(value)(**changes)

    def asdict(value):
        """An instance's values by name, and so on in these, in lists, tuples and mappings; other values as they are."""
        if is_dataclass(value):
            return {one.name: asdict(getattr(value, one.name)) for one in fields(value)}
        if isinstance(value, (list, tuple)):
            inner = [asdict(item) for item in value]
            return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
        if isinstance(value, dict):
            return type(value)((key, asdict(item)) for key, item in value.items())
        return value

    def _made(cls, frozen, slots, kw_only, eq):
        declared = {}
        for base in cls.__mro__[:0:-1]:
            if _STANDARD in base.__dict__ and "__shape__" not in base.__dict__:
                raise TypeError(f"{cls.__qualname__} inherits from {base.__qualname__}, of the standard library's kind")
            if "__shape__" in base.__dict__:
                declared |= {one.name: one for one in base.__shape__.fields}
        for name, type_ in cls.__annotations__.items():
            if str(type_).removeprefix("typing.").startswith("ClassVar"):
                continue
            given = cls.__dict__.get(name, MISSING)
            one = given if isinstance(given, _Field) else field(default=given)
            if type(one.default).__hash__ is None:
                raise ValueError(f"the default of {cls.__qualname__}.{name} can change; give a default_factory")
            one.name, one.type, one.kw_only = name, type_, one.kw_only or kw_only
            declared[name] = one
        shape = _Shape(declared)
        methods = {"__init__": _init, "__repr__": _repr, "__match_args__": shape.positional}
        if eq:
            methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if frozen and slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
        own = dict(cls.__dict__)
        if "__eq__" in own and own.get("__hash__", True) is None:
            del own["__hash__"]  # Python's doing, not the class's
        added = {name: method for name, method in methods.items() if name not in own}
        added |= {"__shape__": shape, _STANDARD: _Standard()}
        if slots:
            return _slotted(cls, own | added, declared)
        for name, one in declared.items():
            if isinstance(own.get(name), _Field):
                (delattr(cls, name) if one.default is MISSING else setattr(cls, name, one.default))
        for name, member in added.items():
            setattr(cls, name, member)
        return cls

    def _slotted(cls, members, declared):
        """The class again, with a slot for each field: a class that is made cannot be given any."""
        taken = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        kept = {name: one for name, one in members.items() if name not in declared}
        kept.pop("__dict__", None)
        kept.pop("__weakref__", None)
        kept["__slots__"] = tuple(name for name in declared if name not in taken)
        made = type(cls)(cls.__name__, cls.__bases__, kept)
        made.__qualname__ = cls.__qualname__
        return made

    def _init(self, /, *args, **given):
        shape = self.__shape__
        placed = dict(zip(shape.positional, args, strict=False))
        values = {**shape.preset, **placed, **given}
        for name, make in shape.factories.items():
            if name not in values:
                values[name] = make()
        fits = len(placed) == len(args) and placed.keys().isdisjoint(given) and given.keys() <= shape.names
        if not fits or len(values) != shape.count:
            raise TypeError(f"{type(self).__name__}.__init__() {shape.refusal(args, given)}")
        for name, value in values.items():
            _set(self, name, value)
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    _set = object.__setattr__

    def _key(instance):
        return [getattr(instance, name) for name in instance.__shape__.compared]

    def _eq(self, other):
        return _key(self) == _key(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash(tuple(_key(self)))

    @recursive_repr()
    def _repr(self):
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__shape__.shown])
        return f"{type(self).__qualname__}({shown})"

    def _refuse(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change {name!r} of a {type(self).__qualname__}")

    def _state(self):
        return [getattr(self, one.name) for one in self.__shape__.fields]

    def _restore(self, state):
        for one, value in zip(self.__shape__.fields, state, strict=True):
            _set(self, one.name, value)


T = TypeVar("T")
_Reader = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """What stands in JSON for a value that it has no form for; give it to `json.dumps` as ``default``."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)


def restored(kind: type[T], data: Any) -> T:
    """A value of a data class again, from what JSON made of it. Fields that are missing have their defaults; what the
    class has no field for is left out.

    Raises:
        TypeError: something is missing, or of another type than its field declares.
    """
    return cast("T", _reader(cast("Any", kind))(data))


@cache
def _reader(kind: Any) -> _Reader:
    """Of a type: what makes its values of plain data."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data: data
    if isinstance(kind, type) and is_dataclass(kind):
        return _of_class(kind)
    if kind is Path:
        return lambda data: Path(_checked((str,), data))
    if origin is Literal:
        return lambda data: data if data in inner else _not_of(f"one of {inner}", data)
    if origin in (Union, UnionType):
        return _of_optional(_reader(next(one for one in inner if one is not NoneType)))
    if origin in (list, abc.Sequence):
        return _of_list(_reader(inner[0]), list)
    if origin is tuple and inner[1:] == (...,):
        return _of_list(_reader(inner[0]), tuple)
    if origin is tuple:
        return _of_tuple([_reader(one) for one in inner])
    if origin in (dict, abc.Mapping):
        return _of_mapping(int if inner[0] is int else _reader(inner[0]), _reader(inner[1]))
    allowed = {float: (float, int), int: (int,)}.get(kind, (kind,))
    return lambda data: _checked(allowed, data)


def _checked(allowed: tuple[type, ...], data: Any) -> Any:
    return data if isinstance(data, allowed) else _not_of(allowed[0].__name__, data)


def _not_of(what: str, data: Any) -> Any:
    raise TypeError(f"not {what}: {data!r}")


def _of_optional(read: _Reader) -> _Reader:
    return lambda data: None if data is None else read(data)


def _of_list(read: _Reader, kind: Callable[[Any], Any]) -> _Reader:
    return lambda data: kind([read(one) for one in _checked((list, tuple), data)])


def _of_tuple(readers: list[_Reader]) -> _Reader:
    def read(data: Any) -> Any:
        if len(_checked((list, tuple), data)) != len(readers):
            _not_of(f"{len(readers)} values", data)
        return tuple([read(one) for read, one in zip(readers, data, strict=True)])

    return read


def _of_mapping(read_key: _Reader, read: _Reader) -> _Reader:
    """JSON has texts for keys."""
    return lambda data: {read_key(key): read(one) for key, one in _checked((dict,), data).items()}


def _of_class(kind: type) -> _Reader:
    """The types are found where the class declares them: it may inherit fields from other modules."""
    words: dict[str, tuple[str, str]] = {}
    for base in kind.__mro__:
        for name, declared in base.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - imports inspect
            words.setdefault(name, (base.__module__, declared))
    known = [(one.name, _named(*words[one.name]), _has_default(one)) for one in fields(cast("Any", kind))]

    def read(data: Any) -> Any:
        _checked((dict,), data)
        values = {}
        for name, reader, optional in known:
            if name in data:
                try:
                    values[name] = reader(data[name])
                except TypeError as error:
                    raise TypeError(f"{name}: {error}") from None
            elif not optional:
                _not_of(f"complete, for {name!r} is missing", data)
        return kind(**values)

    return read


def _has_default(field: Any) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


@cache
def _named(module: str, declared: str) -> _Reader:
    """The reader of a type by its words in a module."""
    return _reader(eval(declared, vars(sys.modules[module])))
