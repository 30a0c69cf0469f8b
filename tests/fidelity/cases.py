"""The list of cases: each writes one file, named after its number, and may return what it observed while writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Producer = Callable[[str], Any]
Consumer = Callable[[str], Any]


@dataclass(frozen=True)
class Case:
    """One file: how it is written, and how it is looked at besides the complete view."""

    name: str
    number: int
    produce: Producer
    consume: Consumer | None
    times: bool  # the file holds times, so no two are the same byte for byte
    pair: bool  # there is a second file, its target

    @property
    def files(self) -> list[str]:
        return [self.file, target(self.file)] if self.pair else [self.file]

    @property
    def file(self) -> str:
        return f"case-{self.number:04d}.h5"


CASES: list[Case] = []


def case(consume: Consumer | None = None, times: bool = False, pair: bool = False) -> Callable[[Producer], Producer]:
    """Add a function that writes a file of the given name to the cases."""

    def add(produce: Producer) -> Producer:
        CASES.append(Case(produce.__name__, len(CASES), produce, consume, times, pair))
        return produce

    return add


def target(name: str) -> str:
    """The second file of a case, which travels on a port of its own."""
    return name.replace("case-", "target-")


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """What a call returns, or how it fails, in words."""
    try:
        return repr(call(*arguments, **options))
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> str:
    """How a call failed, in words."""
    return f"{type(error).__name__}({getattr(error, 'errno', None)}): {error}"
