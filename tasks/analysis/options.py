"""The options of the analysis: what the section `analysis:` of a task may hold."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from wilkins.schema.compress import Compress, problems_of, rules
from wilkins.schema.kinds import ListOf, boolean, choice, integer, number, text
from wilkins.schema.reading import Where, key
from wilkins.schema.sections import SectionList
from wilkins.tasks.registry import ReadyMade
from wilkins.values import dataclass

_FIELDS = ("step", "name", "instance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Statistics of a dataset's elements."""

    dset: str = key(text(), doc="Path of the dataset: integers or floating-point numbers of any shape.")
    filename: str | None = key(
        text(), default=None, doc="HDF5 file that each step's moments are written to as well, such as `mean-{step}.h5`."
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often a dataset's elements lie where."""

    dset: str = key(text(), doc="Path of the dataset: integers or floating-point numbers of any shape.")
    bins: int = key(integer(1, 1_000_000), default=64, doc="Bins of equal width.")
    range: tuple[float, ...] = key(
        ListOf(number(), 2),
        default=(),
        doc="`[low, high]`; left out: the least and the greatest value of the first step.",
    )
    filename: str | None = key(
        text(), default=None, doc="HDF5 file that each step's histogram is written to as well, such as `u-{step}.h5`."
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans:
    """Clusters of samples, by k-means on the stream."""

    dsets: tuple[str, ...] = key(
        ListOf(text(), 1),
        doc="Paths of the datasets that make the samples: a row of the first axis is a sample, all numbers in it are "
        "features; of several datasets the features stand beside each other.",
    )
    k: int = key(integer(1, 4096), doc="Clusters.")
    passes: int = key(integer(1, 1000), default=1, doc="How often the centres are moved in each step.")
    half_life: float | None = key(
        number(), default=None, doc="Steps after which a step counts half; left out: all steps count the same."
    )
    seed: int = key(integer(0), default=0, doc="Chooses the first centres among the samples of the first step.")
    filename: str | None = key(
        text(), default=None, doc="HDF5 file that each step's centres and counts are written to, such as `k-{step}.h5`."
    )
    labels: bool = key(boolean(), default=False, doc="Whether `filename` also holds the cluster of each sample.")
    where: Where

    @property
    def dset(self) -> str:
        """What messages call it."""
        return "+".join(self.dsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A picture of a plane of a dataset."""

    dset: str = key(text(), doc="Path of the dataset, of two or more dimensions.")
    axes: tuple[int, ...] = key(
        ListOf(integer(0, 31), 2),
        default=(),
        doc="The axes that the picture shows, down and across; left out: the last two.",
    )
    at: tuple[int, ...] = key(
        ListOf(integer(0)), default=(), doc="Where the plane lies on the other axes, in order; left out: in the middle."
    )
    range: tuple[float, ...] = key(
        ListOf(number(), 2),
        default=(),
        doc="`[low, high]`: values shown as first and last colour; left out: each step's own.",
    )
    colours: str = key(choice("viridis", "grey"), default="viridis", doc="`viridis` or `grey`.")
    filename: str | None = key(
        text(), default=None, doc="The PNG file of each step; left out: the dataset's name and `-{step:05}.png`."
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsample:
    """Every k-th element of some datasets."""

    dsets: tuple[str, ...] = key(ListOf(text(), 1), doc="Paths of the datasets.")
    stride: tuple[int, ...] = key(
        ListOf(integer(1), 1), doc="Keep every k-th element: one k for all axes, or one per axis."
    )
    filename: str = key(text(), doc="HDF5 file of each step, such as `coarse-{step:05}.h5`.")
    where: Where


def _part(noun: str, cls: type) -> SectionList:
    def label(context: str, texts: dict[str, str]) -> str:
        name = texts.get("dset") or texts.get("filename")
        return f"{context}, {noun} {name!r}" if name else ""

    return SectionList(cls, noun, label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The steps as real files."""

    filename: str = key(
        text(),
        default="{step:05}.h5",
        doc="File that holds each step, byte for byte what the producer would have written.",
    )
    compress: tuple[Compress, ...] = key(
        rules(),
        default=(),
        doc="Datasets that are compressed, with an error bound or without loss (`wilkins help compression`); the first "
        "entry that fits a dataset counts. What was stored and the largest errors stand in a `.csv` beside the files.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The analysis of each step of the in-port."""

    folder: str = key(text(), default=".", doc="Folder of all results, made if it is missing; relative to the task's.")
    moments: tuple[Moments, ...] = key(
        _part("moment", Moments),
        default=(),
        doc="Count, mean, variance, skewness, kurtosis, least and greatest value of a dataset: per step in "
        "`NAME-moments.csv`, over the run in `NAME-moments.json`.",
    )
    histogram: tuple[Histogram, ...] = key(
        _part("histogram", Histogram),
        default=(),
        doc="A histogram of a dataset: per step in `NAME-histogram.csv`, over the run in `NAME-histogram.json`.",
    )
    kmeans: tuple[KMeans, ...] = key(
        _part("clustering", KMeans),
        default=(),
        doc="Clusters of samples (k-means): per step in `NAME-kmeans.csv`, the centres in `NAME-kmeans.json`.",
    )
    checked: bool = key(
        boolean(),
        default=False,
        doc="Whether `moments`, `histogram` and `kmeans` check what they compute for flipped bits "
        "(`wilkins help ready-made`).",
    )
    slice: tuple[Slice, ...] = key(
        _part("slice", Slice), default=(), doc="A picture of a plane of a dataset, per step."
    )
    subsample: tuple[Subsample, ...] = key(
        _part("subsample", Subsample),
        default=(),
        doc="A smaller HDF5 file per step, which may be an out-port of the task.",
    )
    archive: tuple[Archive, ...] = key(_part("archive", Archive), default=(), doc="The steps as real files.")
    where: Where

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Everything that is asked for, with the key it stands under."""
        for name in ("moments", "histogram", "kmeans", "slice", "subsample", "archive"):
            yield from ((name, part) for part in getattr(self, name))


def stem_of(dset: str) -> str:
    """The names of a dataset's result files."""
    return "-".join(part for part in dset.split("/") if part) or "root"


def stem_of_all(dsets: Iterable[str]) -> str:
    """The names of the result files of several datasets together."""
    return "+".join(map(stem_of, dsets))


def table_of(filename: str) -> str:
    """The name of the table beside the files of a compressed archive."""
    bare = re.sub(r"[{}]|:[^}]*(?=})", "", PurePath(filename).stem)
    name = re.sub(r"[^\w.+-]+", "-", bare).strip("-") or "archive"
    return str(PurePath(filename).with_name(f"{name}-compression.csv"))


def _check(options: Analysis, task: Any) -> Iterator[tuple[str, str]]:
    parts = list(options.parts())
    if not parts:
        yield (
            "folder",
            "nothing is asked for; add 'moments:', 'histogram:', 'kmeans:', 'slice:', 'subsample:' or 'archive:'",
        )
    if len(task.inports) != 1:
        yield (
            "folder",
            f"the task needs one in-port and has {len(task.inports)}; give each stream an analysis of its own",
        )
    for name, part in parts:
        span = getattr(part, "range", ())
        if span and not (len(span) == 2 and span[0] < span[1]):
            yield name, f"the 'range' of {part.dset!r} must be [low, high], the lower one first"
        if name == "slice" and part.axes and (len(part.axes) != 2 or part.axes[0] == part.axes[1]):
            yield name, f"the 'axes' of {part.dset!r} must be two different ones, such as [0, 1]"
        if name == "kmeans" and part.half_life is not None and not part.half_life > 0:
            yield name, f"the 'half_life' of {part.dset!r} must be above 0; leave it out to never forget"
        if name == "kmeans" and part.labels and not part.filename:
            yield name, f"'labels' of {part.dset!r} needs a 'filename', such as 'labels-{{step}}.h5', to write them to"
        if name == "archive":
            yield from ((name, problem) for rule in part.compress for problem in problems_of(rule))
        if part.filename and (problem := _format_problem(part.filename)):
            yield name, f"the 'filename' {part.filename!r} {problem}"
    files = Counter(_files(name, part) for name, part in parts)
    for (name, file), count in files.items():
        if count > 1:
            yield name, f"two results would be written to the files of {file!r}; give each a 'filename', or remove one"
    tables = Counter(table_of(part.filename) for part in options.archive if part.compress)
    for table, count in tables.items():
        if count > 1:
            yield "archive", f"two archives would have the table {table!r}; give each another folder, or another name"


def _files(name: str, part: Any) -> tuple[str, str]:
    """What names a part's result files: the tables of k-means have the names of their datasets whatever `filename`."""
    return name, stem_of_all(part.dsets) if name == "kmeans" else part.filename or stem_of(part.dset)


def _format_problem(filename: str) -> str:
    try:
        fields = {field for _, field, _, _ in string.Formatter().parse(filename) if field is not None}
        filename.format(step=0, name="", instance=0)
    except (ValueError, LookupError, AttributeError) as error:
        if not isinstance(error, LookupError):
            return f"cannot be filled in: {error}; write for example 'u-{{step:05}}.h5'"
    unknown = fields - set(_FIELDS)
    return f"holds {{{min(unknown)}}}; it may hold {{step}}, {{name}} and {{instance}}" if unknown else ""


def _has_bounds(options: Analysis) -> bool:
    """Whether a dataset of an archive may differ by a bound."""
    rules = [rule for part in options.archive for rule in part.compress]
    return any(rule.absolute is not None or rule.relative is not None for rule in rules)


TASK = ReadyMade(
    name="analysis",
    doc="Reads the steps of its in-port, on all its ranks; writes statistics, pictures, small or whole copies.",
    options=Analysis,
    module="wilkins.tasks.analysis.run",
    check=_check,
    needs=lambda options: {"hdf5plugin": "compression"} if _has_bounds(options) else {},
)
