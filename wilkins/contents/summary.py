"""What was seen of a file: its format, its datasets, and a field of two dimensions made small. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MOST_DATASETS = 20
"""Datasets of a file that are described; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset, or a link that is not followed."""

    name: str
    """Path in the file, as it is there: it may hold control characters (see `wilkins.names.printable`)."""
    shape: tuple[int, ...] | None
    """None: it has none, as a link, or a dataset that is empty or cannot be read."""
    dtype: str
    nbytes: int = 0
    """Bytes of all values, not compressed; of texts and references, those of what points to them."""
    units: str = ""
    """By its attribute `units`."""
    stored: str = ""
    """Chunks, compression, or another way in which it is stored; empty: in one piece."""
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """A field of two dimensions, as means over blocks."""

    name: str
    """That of the dataset; of more than two dimensions, with what is shown of it: ``/u[3, :, :]``."""
    rows: tuple[tuple[float | None, ...], ...]
    """At most 64 rows of at most 64 means, in `units`; None: no value there is finite."""
    shape: tuple[int, int]
    """Of the field."""
    low: float | None
    """Least value that was read, and the greatest; None: none is finite."""
    high: float | None
    units: str = ""
    is_sampled: bool = False
    """Only some of the values were read: the field is large."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file, or a folder that is one step, holds."""

    path: str
    format: str
    size: int
    """Bytes; of a folder, of the files that were looked at."""
    datasets: tuple[Dataset, ...] = ()
    more: int = 0
    """Further datasets."""
    is_least: bool = False
    """There may be even more than that: counting was given up."""
    attributes: int = 0
    """Of the file itself."""
    preview: Preview | None = None
    problem: str = ""
    """Why it, or a part of it, could not be read."""
    is_read: bool = False
    """Its format is one whose datasets are read."""

    @property
    def others(self) -> str:
        """How many further datasets there are, in words; empty if there are none."""
        if self.is_least:
            return f"and at least {self.more:,} more" if self.more else "and perhaps more"
        return f"and {self.more:,} more" if self.more else ""


def as_value(contents: Contents) -> dict[str, Any]:
    """The same, for JSON."""
    return asdict(contents)


def from_value(value: Mapping[str, Any]) -> Contents:
    """What `as_value` gave, back from JSON."""
    datasets = tuple(
        Dataset(**{**one, "shape": None if one["shape"] is None else tuple(one["shape"])}) for one in value["datasets"]
    )
    seen = value["preview"]
    preview = seen and Preview(**{**seen, "rows": tuple(map(tuple, seen["rows"])), "shape": tuple(seen["shape"])})
    return Contents(**{**value, "datasets": datasets, "preview": preview})
