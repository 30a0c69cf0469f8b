"""Rules by which datasets are compressed, as they stand in workflow files: `[{dset: /fields/*, absolute: 1e-3}]`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wilkins.schema.kinds import number, text
from wilkins.schema.reading import Where, key
from wilkins.schema.sections import SectionList
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """How datasets are compressed."""

    dset: str = key(text(), doc="Path of the dataset, or a pattern of paths: `/fields/*`, or `*` for all.")
    absolute: float | None = key(
        number(), default=None, doc="The largest error of an element, in the dataset's own unit, above 0."
    )
    relative: float | None = key(
        number(),
        default=None,
        doc="The same, as a part of the dataset's range in that step (the greatest minus the least value), above 0 and "
        "below 1. With `absolute` as well, the smaller one counts; without both, every bit is kept.",
    )
    where: Where


def rules() -> SectionList:
    """The kind of a key that holds such rules."""

    def label(context: str, texts: dict[str, str]) -> str:
        return f"{context}, rule {texts['dset']!r}" if texts.get("dset") else ""

    return SectionList(Compress, "rule", label)


def problems_of(rule: Compress) -> Iterator[str]:
    """What is wrong with the bounds of a rule."""
    if rule.absolute is not None and not 0 < rule.absolute < math.inf:
        yield f"'absolute' of {rule.dset!r} is {rule.absolute:g}, and must be above 0; leave it out to keep every bit"
    if rule.relative is not None and not 0 < rule.relative < 1:
        what = f"'relative' of {rule.dset!r} is {rule.relative:g}, and must be above 0 and below 1"
        yield f"{what}; leave it out to keep every bit"
