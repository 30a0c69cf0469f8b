"""The places that pieces may be put on, as users describe them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from wilkins.tasks.checkpoint.errors import CheckpointError

MOST = 32
"""Places of a list at most: as many pieces as the code of pyeclib has."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for pieces: a disk, or a folder of another host that is mounted here."""

    path: str
    space: float | None = None
    """Bytes that pieces may take there; None: what the file system has free."""
    write: float = 100e6
    """Bytes per second."""
    read: float = 100e6
    annual_failure: float = 0.02
    """Failures per year: the share of such disks or hosts that are lost in a year."""
    domain: str = ""
    """What fails as a whole: a host, a rack. Empty: the file system that the folder is on."""

    def __post_init__(self) -> None:
        if self.space is not None:
            object.__setattr__(self, "space", int(self.space))  # 4e9 is as good as 4_000_000_000
        rates = (self.write, self.read)
        if not self.path:
            raise CheckpointError("storage: a place has no path; give each one a 'path'")
        if not all(_positive(one) for one in rates) or not (_positive(self.annual_failure) or self.annual_failure == 0):
            raise CheckpointError(
                f"storage: {self.path}: write={self.write}, read={self.read} and annual_failure={self.annual_failure} "
                "are to be bytes per second and failures per year; give positive numbers"
            )
        if self.space is not None and self.space < 0:
            raise CheckpointError(f"storage: {self.path}: space={self.space}: give the bytes that pieces may take")


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def place_of(given: Place | Mapping[str, Any] | str) -> Place:
    """A place, of how users write it: its path alone, or a mapping of its keys.

    Raises:
        CheckpointError: a key is none of a place's.
    """
    if isinstance(given, Place):
        return given
    if not isinstance(given, Mapping):
        return Place(str(given))
    known = [one.name for one in fields(Place)]
    unknown = [name for name in given if name not in known]
    if unknown or "path" not in given:
        raise CheckpointError(
            f"storage: {dict(given)!r}: a place has a path, and maybe {', '.join(known[1:])}; "
            f"{f'remove {unknown[0]!r}' if unknown else 'give the path'}"
        )
    return Place(**{**given, "path": str(given["path"])})


@dataclass(frozen=True, slots=True, init=False)
class Storage:
    """Places over which versions are spread as pieces, and how safe they are to be there."""

    places: tuple[Place, ...]
    reliability: float
    """The probability that a version can be read at the end of `years`, if nobody repairs it meanwhile."""
    years: float
    rule: str
    """How pieces and places are chosen; see `wilkins.tasks.checkpoint.placement.choice.RULES`."""
    keep: int | None
    """How many versions stay there, the newest; None: as many as in the folder."""

    def __init__(
        self,
        places: Sequence[Place | Mapping[str, Any] | str],
        *,
        reliability: float = 0.9999,
        years: float = 1.0,
        rule: str = "least-cost",
        keep: int | None = None,
    ) -> None:
        found = tuple(place_of(one) for one in places)
        for name, value in zip(
            ("places", "reliability", "years", "rule", "keep"), (found, reliability, years, rule, keep), strict=True
        ):
            object.__setattr__(self, name, value)
        paths = [one.path for one in found]
        if not 2 <= len(paths) <= MOST or len(set(paths)) < len(paths):
            raise CheckpointError(f"storage: {len(paths)} places ({', '.join(paths)}); give 2 to {MOST}, each once")
        if not 0 < reliability < 1 or not _positive(years) or (keep is not None and keep < 1):
            raise CheckpointError(
                f"storage: reliability={reliability}, years={years}, keep={keep}: give a probability below 1, such as "
                "0.9999, a time in years, and a number of versions"
            )

    def values(self) -> dict[str, Any]:
        """As plain data; the arguments that make it again."""
        return {
            "places": [asdict(one) for one in self.places],
            "reliability": self.reliability,
            "years": self.years,
            "rule": self.rule,
            "keep": self.keep,
        }


def storage_of(given: Storage | Sequence[Place | Mapping[str, Any] | str]) -> Storage:
    """A `Storage`, or a plain list of places with the usual reliability."""
    return given if isinstance(given, Storage) else Storage(given)
