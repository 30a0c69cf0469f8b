"""Checked analyses: a flipped bit gives no wrong result, and is named; where none has flipped, nothing is named."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from support.flips import flip, places
from wilkins.tasks.analysis import checked_kmeans, histogram, kmeans
from wilkins.tasks.analysis.checked_kmeans import CheckedTable
from wilkins.tasks.analysis.checked_moments import moments_checked
from wilkins.tasks.analysis.checks import Flipped, Guarded, Watch, seal
from wilkins.tasks.analysis.clusters import KMeansAnalyzer
from wilkins.tasks.analysis.kmeans import Assigned, Frame
from wilkins.tasks.analysis.moments import Moments
from wilkins.tasks.analysis.run import HistogramAnalyzer, MomentsAnalyzer
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group

Array = NDArray[Any]
TYPES = pytest.mark.parametrize("dtype", ["f4", "f8"])


class Case:
    """A block of samples and centres, and what comes of it if nothing flips."""

    def __init__(self, dtype: str, seed: int, *, grid: bool = False, rows: int = 40) -> None:
        random = np.random.default_rng(seed)
        self.features, self.clusters = int(random.integers(1, 12)), int(random.integers(2, 24))
        if seed % 5 == 0:
            self.clusters += 80  # looks for the least a second time
        centres = random.normal(size=(self.clusters, self.features)) * 3
        samples = random.normal(size=(rows, self.features)) * 3
        if grid:  # many samples are as far from one centre as from another
            centres, samples = np.rint(centres), np.rint(samples)
        self.samples = samples.astype(dtype)
        self.centres = centres
        self.watch = Watch(0, "x")
        self.watch.step = "step.h5"
        self.known = CheckedTable(Guarded(centres.copy(), "centres"), self.samples.dtype, self.watch)
        self.clean = self.assigned(self.samples.copy())
        assert self.watch.count == 0

    def assigned(self, samples: Array, before: int | None = None) -> Assigned:
        """What the checked assignment gives for these samples, of which a copy can be read again."""
        sealed = seal(self.samples) if before is None else before
        return checked_kmeans.block(samples, sealed, self.samples.copy, self.known, self.watch)

    def assert_same(self, found: Assigned) -> None:
        """Labels and counts are those of the clean run, sums as well, to within rounding."""
        np.testing.assert_array_equal(found.labels, self.clean.labels)
        np.testing.assert_array_equal(found.counts, self.clean.counts)
        size = float(np.abs(self.samples).sum())
        np.testing.assert_allclose(found.sums, self.clean.sums, atol=50 * np.finfo(self.samples.dtype).eps * size)


def cases(dtype: str, flips: int, each: int = 64) -> Any:
    """Cases, half of them on a grid, with the numbers of flips to make in each."""
    return ((Case(dtype, number, grid=bool(number % 2)), each) for number in range(-(-flips // each)))


def many(usual: int) -> pytest.MarkDecorator:
    """How many flips: some, and ten thousand at night."""
    return pytest.mark.parametrize("flips", [usual, pytest.param(10_000, marks=pytest.mark.nightly)])


@TYPES
@many(320)
def test_flips_in_samples(dtype: str, flips: int) -> None:
    """All are found: after the samples were read and sealed."""
    random = np.random.default_rng(1)
    for case, each in cases(dtype, flips):
        for number, (place, bit) in enumerate(places(case.samples, each, random)):
            samples = case.samples.copy()
            flip(samples, place, bit)
            case.assert_same(case.assigned(samples))
            assert case.watch.count == number + 1


@TYPES
@many(320)
def test_flips_in_samples_while_they_are_used(monkeypatch: pytest.MonkeyPatch, dtype: str, flips: int) -> None:
    """Between the distances and the sums of the clusters."""
    random = np.random.default_rng(2)
    later: list[tuple[int, int]] = []
    real = kmeans.cluster_sums

    def sums(samples: Array, labels: Any, clusters: int) -> Array:
        if later:
            flip(samples, *later.pop())
        return real(samples, labels, clusters)

    monkeypatch.setattr(kmeans, "cluster_sums", sums)
    for case, each in cases(dtype, flips):
        for number, where in enumerate(places(case.samples, each, random)):
            later.append(where)
            case.assert_same(case.assigned(case.samples.copy()))
            assert case.watch.count == number + 1


@TYPES
@many(640)
def test_flips_in_products(monkeypatch: pytest.MonkeyPatch, dtype: str, flips: int) -> None:
    """One goes unnoticed only if it changes no label: also where samples are as far from one centre as from another."""
    random = np.random.default_rng(3)
    later: list[tuple[int, int]] = []
    real = kmeans.products

    def products(samples: Array, table: Any) -> Array:
        found = real(samples, table)
        if later:
            flip(found, *later.pop())
        return found

    monkeypatch.setattr(kmeans, "products", products)
    found = 0
    for case, each in cases(dtype, flips):
        size = np.empty((len(case.samples), case.clusters), dtype)
        for where in places(size, each, random):
            later.append(where)
            case.assert_same(case.assigned(case.samples.copy()))
            assert not later
        found += case.watch.count
    assert found > flips / 4


@TYPES
def test_flips_that_would_change_a_label(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Of samples halfway between two centres, each bit of both distances."""
    samples = np.zeros((3, 3), dtype)
    samples[:, 1] = np.arange(3)
    centres = np.array([[1.0, 0, 0], [-1.0, 0, 0], [40.0, 0, 0]])
    watch = Watch(0, "x")
    known = CheckedTable(Guarded(centres, "centres"), samples.dtype, watch)
    real = kmeans.products
    later: list[tuple[int, int]] = []

    def products(values: Array, table: Any) -> Array:
        found = real(values, table)
        if later:
            flip(found, *later.pop())
        return found

    monkeypatch.setattr(kmeans, "products", products)
    wrong = 0
    for place in range(9):
        for bit in range(samples.dtype.itemsize * 8):
            later.append((place, bit))
            wrong += kmeans.assigned(samples, known.table).labels.tolist() != [0] * 3
            later.append((place, bit))
            found = checked_kmeans.block(samples, seal(samples), samples.copy, known, watch)
            assert found.labels.tolist() == [0] * 3
    assert wrong > 50  # without the check


@TYPES
@many(320)
def test_flips_in_centres(dtype: str, flips: int) -> None:
    """In those that the products are made of, and in those they come from."""
    random = np.random.default_rng(4)
    for case, each in cases(dtype, flips):
        for number, (place, bit) in enumerate(places(case.known._whole[:-1], each, random)):
            flip(case.known._whole, place, bit)
            case.assert_same(case.assigned(case.samples.copy()))
            assert case.watch.count == number + 1
        for number, (place, bit) in enumerate(places(case.centres, each, random)):
            flip(case.known._master.values, place, bit)
            case.assert_same(case.assigned(case.samples.copy()))
            case.known = CheckedTable(case.known._master, case.samples.dtype, case.watch)
            assert case.watch.count >= each + number + 1
            np.testing.assert_array_equal(case.known.centres, case.centres)


@many(320)
def test_flips_in_labels(monkeypatch: pytest.MonkeyPatch, flips: int) -> None:
    random = np.random.default_rng(5)
    later: list[tuple[int, int]] = []
    real = kmeans.nearest

    def nearest(distances: Array) -> Any:
        found = real(distances)
        if later:
            flip(found, *later.pop())
        return found

    monkeypatch.setattr(kmeans, "nearest", nearest)
    for case, each in cases("f8", flips):
        for where in places(np.empty(len(case.samples), np.int64), each, random):
            later.append(where)
            case.assert_same(case.assigned(case.samples.copy()))


@TYPES
@many(320)
def test_flips_in_sums(monkeypatch: pytest.MonkeyPatch, dtype: str, flips: int) -> None:
    """Found, unless they are as small as rounding."""
    random = np.random.default_rng(6)
    later: list[tuple[int, int]] = []
    real = kmeans.cluster_sums

    def sums(samples: Array, labels: Any, clusters: int) -> Array:
        found = np.ascontiguousarray(real(samples, labels, clusters))
        if later:
            flip(found, *later.pop())
        return found

    monkeypatch.setattr(kmeans, "cluster_sums", sums)
    for case, each in cases(dtype, flips):
        for where in places(np.empty((case.clusters, case.features), dtype), each, random):
            later.append(where)
            case.assert_same(case.assigned(case.samples.copy()))


def test_flips_in_what_is_kept_between_steps() -> None:
    """Centres, weights and sums are kept twice; both copies flipped are an error."""
    values = np.random.default_rng(0).normal(size=(5, 3))
    for bit in range(64):
        watch, guarded = Watch(0, "x"), Guarded(values.copy(), "centres")
        flip(guarded.values, 7, bit)
        np.testing.assert_array_equal(guarded.get(watch), values)
        np.testing.assert_array_equal(guarded.get(watch), values)
        assert watch.count == 1
    flip(guarded.values, 7, 3)
    flip(guarded._spare, 2, 3)
    with pytest.raises(TaskError, match="a bit of the centres has flipped, again"):
        guarded.get(watch)


def drawn(random: np.random.Generator, dtype: str) -> tuple[Array, Array]:
    """Samples and centres of any size and scale: clustered, constant, whole numbers, sparse, with denormal numbers."""
    features, clusters = int(2 ** random.uniform(0, 8)), int(2 ** random.uniform(0, 8.2))
    rows = int(2 ** random.uniform(0, 7))
    centres = random.normal(size=(clusters, features))
    samples = centres[random.integers(clusters, size=rows)] + random.normal(size=(rows, features))
    kind = random.integers(6)
    if kind == 1:
        samples[:] = centres[:] = random.normal()
    elif kind == 2:
        samples, centres = np.rint(3 * samples), np.rint(3 * centres)
    elif kind == 3:
        samples *= random.random(samples.shape) < 0.1
    elif kind == 4:
        samples *= 10 ** random.uniform(-20, 3, features)
    elif kind == 5:
        samples, centres = np.abs(samples) + 100, np.abs(centres) + 100
    low, high = (-44, 36) if dtype == "f4" else (-322, 300)
    scale = 10 ** random.uniform(low, high)
    with np.errstate(over="ignore"):
        return (samples * scale).astype(dtype), centres * scale


@TYPES
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_no_false_alarm(dtype: str, count: int) -> None:
    """In clean cases; labels are those of a nearest centre, to within rounding."""
    random = np.random.default_rng(7)
    watch = Watch(0, "x")
    done = 0
    while done < count:
        samples, centres = drawn(random, dtype)
        if not np.isfinite(samples).all() or not np.isfinite(centres).all():
            continue
        done += 1
        frame = Frame.of(np.vstack([samples.astype(float), centres]))
        samples = frame.seen(samples)
        centres = frame.seen(centres)
        known = CheckedTable(Guarded(centres, "centres"), samples.dtype, watch)
        found = checked_kmeans.block(samples, seal(samples), samples.copy, known, watch)
        assert watch.count == 0
        apart = np.square(samples[:, None].astype(float) - centres).sum(axis=2)
        size = np.square(samples.astype(float)).sum(axis=1) + np.square(centres).sum(axis=1).max()
        off = apart[np.arange(len(samples)), found.labels] - apart.min(axis=1)
        assert (off <= 8 * (samples.shape[1] + 4) * np.finfo(dtype).eps * size).all()


def test_what_comes_again_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("f8", 1)
    real = kmeans.products

    def products(samples: Array, table: Any) -> Array:
        found = real(samples, table)
        found[3, 1] += 1 + float(np.random.default_rng().random())
        return found

    monkeypatch.setattr(kmeans, "products", products)
    with pytest.raises(TaskError, match="a sum of a row of the distances is wrong, again after the work was repeated"):
        case.assigned(case.samples.copy())
    said = capsys.readouterr().out
    assert f"host {socket.gethostname()}, rank 0: step.h5, 'x': a sum of a row of the distances is wrong; done" in said
    monkeypatch.setattr(kmeans, "products", lambda samples, table: real(samples, table) + np.eye(*(40, case.clusters)))
    with pytest.raises(TaskError, match="run the task on another host"):  # the same bit by bit, beyond any rounding
        case.assigned(case.samples.copy())


def test_a_step_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any) -> None:
    """The analysis of a file of which one block changes in memory gives what it gives unchanged."""
    values = np.random.default_rng(8).normal(size=(50_000, 4)).astype("f4")
    values[5] = math.nan
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = values
    results = []
    for damage in (False, True):
        options: Any = {"dsets": ["x"], "k": 5, "passes": 3, "half_life": None, "seed": 0, "labels": True}
        folder = tmp_path / str(damage)
        analyzer = KMeansAnalyzer({**options, "filename": "out.h5", "checked": True}, folder, Group(), None)
        real = checked_kmeans.assigned
        calls: list[int] = []

        def assigned(
            samples: Array, *rest: Any, real: Callable[..., Any] = real, calls: list[int] = calls, on: bool = damage
        ) -> Any:
            calls.append(1)
            if on and len(calls) == 3:
                flip(samples, 17, 30)
            return real(samples, *rest)

        with monkeypatch.context() as patch, h5py.File(tmp_path / "in.h5") as file:
            patch.setattr(checked_kmeans, "assigned", assigned)
            analyzer.step(0, SimpleNamespace(file=file, filename="in.h5"))  # type: ignore[arg-type]
        with h5py.File(folder / "out.h5") as file:
            results.append((file["labels"][:], file["centres"][:]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert capsys.readouterr().out.count("a bit of the samples has flipped; done again") == 1


@pytest.mark.parametrize("kind", [MomentsAnalyzer, HistogramAnalyzer])
def test_tables_are_the_same_with_checks(tmp_path: Any, kind: Any, capsys: Any) -> None:
    values = np.random.default_rng(12).normal(size=(40, 50))
    values[3, 7:9] = math.nan, math.inf
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = values
    for checked in (False, True):
        options = {"dset": "x", "bins": 9, "range": (-2.0, 2.0), "filename": None, "checked": checked}
        with h5py.File(tmp_path / "in.h5") as file:
            analyzer = kind(options, tmp_path / str(checked), Group(), None)
            analyzer.step(0, SimpleNamespace(file=file, filename="in.h5"))
            analyzer.end()
    for path in (tmp_path / "True").iterdir():
        assert path.read_bytes() == (tmp_path / "False" / path.name).read_bytes()
    assert not capsys.readouterr().out


ARRAYS = hnp.arrays(
    st.sampled_from(["f4", "f8", "i4", "u1", "i8", "f2"]),
    st.tuples(st.integers(0, 60)),
    elements=None,
)


@settings(max_examples=40)
@given(ARRAYS)
def test_checked_moments_and_histograms_are_the_plain_ones(values: Array) -> None:
    with np.errstate(all="ignore"):
        moments, after = moments_checked(values)
        plain = Moments.of(values)
    assert after == seal(values)
    assert repr(moments) == repr(plain)
    edges = histogram.edges_between(-3, 100, 7)
    counts, after = histogram.count_checked(values, edges)
    expected = histogram.count(values, edges)
    assert after == seal(values)
    assert (counts.bins.tolist(), counts.below, counts.above, counts.nans) == (
        expected.bins.tolist(),
        expected.below,
        expected.above,
        expected.nans,
    )


@pytest.mark.parametrize("work", ["moments", "histogram"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_flips_in_elements_of_moments_and_histograms(work: str, dtype: str) -> None:
    """Each bit, before and after they were used."""
    values = (np.random.default_rng(9).normal(size=3000) * 100).astype(dtype)
    edges = histogram.edges_between(-300, 300, 20)
    works: dict[str, Callable[[Array], Any]] = {
        "moments": moments_checked,
        "histogram": lambda array: histogram.count_checked(array, edges),
    }
    expected = repr(works[work](values)[0])
    for bit in range(values.dtype.itemsize * 8):
        watch, once = Watch(0, "x"), [bit]

        def damaged(array: Array, once: list[int] = once, bit: int = bit) -> Any:
            if once:
                once.pop()
                flip(array, 55, bit)
            with np.errstate(all="ignore"):
                return works[work](array)

        assert repr(watch.steady(values.copy, damaged)) == expected
        assert watch.count == 1


def test_flips_in_sums_of_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, or as small as rounding."""
    values = np.random.default_rng(10).normal(size=5000) + 3
    plain = Moments.of(values)
    names = ("mean", "m2", "m3", "m4", "least", "greatest")
    found = 0
    for name in names:
        for bit in range(64):
            changed = np.array([getattr(plain, name)])
            flip(changed, 0, bit)
            wrong = Moments(**{**{one: getattr(plain, one) for one in Moments.__slots__}, name: changed[0].item()})
            monkeypatch.setattr(Moments, "of", lambda _, wrong=wrong: wrong)
            try:
                with np.errstate(all="ignore"):
                    given_back, _ = moments_checked(values)
            except Flipped:
                found += 1
            else:
                assert getattr(given_back, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-7)
    assert found > len(names) * 30


def test_flips_in_the_sorted_copy_of_a_histogram(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(11).normal(size=2000)
    edges = histogram.edges_between(-3, 3, 20)
    real = np.sort
    for bit in range(64):

        def ordered(array: Array, bit: int = bit) -> Array:
            found = real(array)
            flip(found, 1000, bit)
            return found

        monkeypatch.setattr(np, "sort", ordered)
        with pytest.raises(Flipped):
            histogram.count_checked(values, edges)
