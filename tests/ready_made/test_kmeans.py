"""k-means on a stream: the nearest centres, what moves them, on any number of ranks, resumed, and what it refuses."""

from __future__ import annotations

import copy
import json
import math
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from support.analysis_results import numbers_in, rows_of
from support.running import MPIEXEC, WILKINS, run_tree
from wilkins.tasks.analysis import kmeans
from wilkins.tasks.analysis.clusters import KMeansAnalyzer
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group

Array = NDArray[Any]
OPTIONS: dict[str, Any] = {
    "dsets": ["x"],
    "k": 3,
    "passes": 1,
    "half_life": None,
    "seed": 0,
    "filename": "step-{step}.h5",
    "labels": True,
    "checked": False,
}
CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def samples_of(step: int, count: int = 300) -> Array:
    random = np.random.default_rng(step)
    found: Array = CENTRES[random.integers(3, size=count)] + random.normal(size=(count, 2))
    return found


def fed(analyzer: KMeansAnalyzer, folder: Path, number: int, **datasets: Array) -> Path:
    """Gives the analyzer a step of these datasets; its file of results."""
    with h5py.File(folder / f"in-{number}.h5", "w") as file:
        for name, values in datasets.items():
            file[name] = values
    with h5py.File(folder / f"in-{number}.h5") as file:
        path = analyzer.step(number, SimpleNamespace(file=file, filename=f"in-{number}.h5"))  # type: ignore[arg-type]
    assert path is not None
    return path


def made(folder: Path, before: Any = None, **options: Any) -> KMeansAnalyzer:
    return KMeansAnalyzer({**OPTIONS, **options}, folder, Group(), before)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("features", "clusters"), [(1, 1), (3, 2), (5, 17), (40, 70)])
def test_samples_go_to_the_nearest_centre(features: int, clusters: int, dtype: str) -> None:
    random = np.random.default_rng(features)
    samples = random.normal(size=(500, features)).astype(dtype)
    centres = random.normal(size=(clusters, features))
    found = kmeans.assigned(samples, kmeans.Table.of(centres, samples.dtype))
    apart = np.square(samples[:, None].astype(float) - centres).sum(axis=2)
    tolerance = 1e-4 if dtype == "f4" else 1e-12
    np.testing.assert_allclose(apart[np.arange(500), found.labels], apart.min(axis=1), atol=tolerance)
    assert found.counts.tolist() == np.bincount(found.labels, minlength=clusters).tolist()
    assert found.inertia == pytest.approx(apart.min(axis=1).sum(), rel=tolerance)
    sums = np.array([samples[found.labels == one].sum(axis=0, dtype=float) for one in range(clusters)])
    np.testing.assert_allclose(found.sums, sums, atol=500 * tolerance)


def test_first_centres_are_samples_far_from_each_other() -> None:
    samples = samples_of(0)
    for seed in range(20):
        found = kmeans.first_centres(samples, 3, np.random.default_rng(seed))
        assert all((samples == centre).all(axis=1).any() for centre in found)
        apart = [math.dist(found[a], found[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
        assert min(apart) > 0
    equal = kmeans.first_centres(np.ones((5, 2)), 3, np.random.default_rng(0))
    assert equal.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(("half_life", "passes"), [(None, 1), (None, 4), (2.0, 1), (0.5, 3)])
def test_a_step_moves_the_centres(tmp_path: Path, half_life: float | None, passes: int) -> None:
    """As computed here, sample by sample."""
    analyzer = made(tmp_path, half_life=half_life, passes=passes)
    first = fed(analyzer, tmp_path, 0, x=samples_of(0))
    with h5py.File(first) as file:
        centres, weights = file["centres"][:], file["counts"][:].astype(float)
    for step in (1, 2, 3):
        values = samples_of(step)
        start, now = centres, centres
        weights *= 0.5 ** (1 / half_life) if half_life else 1
        for _ in range(passes):
            labels = np.square(values[:, None] - now).sum(axis=2).argmin(axis=1)
            counts = np.bincount(labels, minlength=3)
            sums = np.array([values[labels == one].sum(axis=0) for one in range(3)])
            now = (weights[:, None] * start + sums) / (weights + counts)[:, None]
        centres, weights = now, weights + counts
        with h5py.File(fed(analyzer, tmp_path, step, x=values)) as file:
            np.testing.assert_allclose(file["centres"][:], centres, rtol=1e-12)
            assert file["labels"][:].tolist() == labels.tolist()
            assert file["counts"][:].tolist() == counts.tolist()
    analyzer.end()
    result = json.loads((tmp_path / "x-kmeans.json").read_text())
    np.testing.assert_allclose(result["centres"], centres, rtol=1e-12)
    np.testing.assert_allclose(result["weights"], weights, rtol=1e-12)
    assert [row["samples"] for row in rows_of(tmp_path / "x-kmeans.csv")] == ["300"] * 4


@pytest.mark.parametrize("checked", [False, True])
def test_datasets_stand_beside_each_other_and_samples_with_nan_are_left_out(tmp_path: Path, checked: bool) -> None:
    values = samples_of(0)
    values[3, 0], values[8, 1] = math.nan, math.inf
    one = fed(made(tmp_path, checked=checked, passes=5), tmp_path, 0, x=values)
    with h5py.File(one) as file:
        labels = file["labels"][:]
        assert (labels == -1).nonzero()[0].tolist() == [3, 8]
        assert (file.attrs["samples"], file.attrs["left_out"]) == (298, 2)
        whole = file["centres"][:]
    analyzer = made(tmp_path / "two", checked=checked, passes=5, dsets=["a", "b"])
    with h5py.File(fed(analyzer, tmp_path, 1, a=values[:, 0], b=values[:, 1])) as file:
        np.testing.assert_array_equal(file["centres"][:], whole)
        np.testing.assert_array_equal(file["labels"][:], labels)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("scale", "offset"), [(1, 1e9), (1e-200, 0), (1e200, 0), (5e-324, 0), (1e-3, -1e6)])
def test_no_digits_are_lost_far_from_zero_or_from_one(
    tmp_path: Path, scale: float, offset: float, checked: bool
) -> None:
    values = np.rint(samples_of(0) * 1000) * scale + offset
    analyzer = made(tmp_path, passes=10, checked=checked)
    with h5py.File(fed(analyzer, tmp_path, 0, x=values)) as file:
        found = np.array(sorted(((file["centres"][:] - offset) / scale / 1000).tolist()))
    np.testing.assert_allclose(found, sorted(CENTRES.tolist()), atol=0.5)


def test_single_precision_and_whole_numbers(tmp_path: Path) -> None:
    for number, dtype in enumerate(("f4", "f2", ">f8", "i8", "u1")):
        values = np.abs(np.rint(samples_of(0) + 5)).astype(dtype)
        with h5py.File(fed(made(tmp_path / dtype, passes=9), tmp_path, number, x=values)) as file:
            found = np.array(sorted(file["centres"][:].tolist()))
        np.testing.assert_allclose(found, np.array(sorted(CENTRES.tolist())) + 5, atol=0.5)


def test_a_state_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole", half_life=3.0, checked=True)
    for step in range(6):
        fed(whole, tmp_path, step, x=samples_of(step) + 1e5)
    half = made(tmp_path / "half", half_life=3.0, checked=True)
    for step in range(3):
        fed(half, tmp_path, step, x=samples_of(step) + 1e5)
    state = json.loads(json.dumps(half.state()))
    again = made(tmp_path / "half", state, half_life=3.0, checked=True)
    for step in range(3, 6):
        fed(again, tmp_path, step, x=samples_of(step) + 1e5)
    whole.end()
    again.end()
    for name in ("x-kmeans.csv", "x-kmeans.json"):
        assert (tmp_path / "half" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_step_without_samples_changes_nothing(tmp_path: Path) -> None:
    analyzer = made(tmp_path)
    fed(analyzer, tmp_path, 0, x=np.zeros((0, 2)))
    with h5py.File(fed(analyzer, tmp_path, 1, x=samples_of(1))) as file:
        centres = file["centres"][:]
    with h5py.File(fed(analyzer, tmp_path, 2, x=np.zeros((0, 2)))) as file:
        np.testing.assert_array_equal(file["centres"][:], centres)
    assert [row["samples"] for row in rows_of(tmp_path / "x-kmeans.csv")] == ["0", "300", "0"]


@pytest.mark.parametrize(
    ("datasets", "words"),
    [
        ({"y": np.ones((3, 2))}, "the dataset 'x' does not exist; datasets there are: /y"),
        ({"x": np.float64(1)}, "the dataset 'x' has no axis, and so no rows"),
        ({"x": np.ones((3, 0))}, "rows of 'x' hold nothing"),
        ({"x": np.ones((2, 5))}, "2 finite samples among 2 drawn, and k-means of ['x'] needs 3 in the first step"),
        ({"x": np.full((9, 1), math.nan)}, "0 finite samples among 9 drawn"),
    ],
)
def test_what_it_refuses(tmp_path: Path, datasets: dict[str, Array], words: str) -> None:
    with pytest.raises(TaskError) as caught:
        fed(made(tmp_path), tmp_path, 0, **datasets)
    assert words in str(caught.value)


def test_shapes_must_stay(tmp_path: Path) -> None:
    analyzer = made(tmp_path)
    fed(analyzer, tmp_path, 0, x=samples_of(0))
    with pytest.raises(TaskError, match="samples of 3 features, and those before have 2"):
        fed(analyzer, tmp_path, 1, x=np.ones((5, 3)))
    with pytest.raises(TaskError, match="'b' has 4 rows, and 'a' has 5"):
        fed(made(tmp_path, dsets=["a", "b"]), tmp_path, 2, a=np.ones(5), b=np.ones(4))
    with pytest.raises(TaskError, match="have squares too large for float64"):
        fed(analyzer, tmp_path, 3, x=samples_of(0) * 1e200)


PRODUCER = """
    import h5py, numpy as np
    for step in range(4):
        random = np.random.default_rng(step)
        place = random.integers(4, size=5000)
        with h5py.File(f"out-{step}.h5", "w") as file:
            file["p"] = (np.eye(4)[place] * 6 + random.normal(size=(5000, 4))).astype("f4")
            file["q"] = place + random.normal(size=5000)
"""


class Threads(Group):
    """Ranks that are threads of this process."""

    def __init__(self, rank: int, size: int, given: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size, self._given, self._barrier = rank, size, given, barrier

    def allgather(self, value: Any) -> list[Any]:
        self._given[self.rank] = value
        self._barrier.wait(20)
        found = copy.deepcopy(self._given)
        self._barrier.wait(20)
        return found


@pytest.mark.parametrize("checked", [False, True])
def test_ranks_that_each_assign_a_part_come_to_the_same(tmp_path: Path, checked: bool) -> None:
    whole = made(tmp_path, checked=checked, passes=2)
    given, barrier = [None] * 3, threading.Barrier(3)
    options = {**OPTIONS, "checked": checked, "passes": 2}
    parts = [KMeansAnalyzer(options, tmp_path / "parts", Threads(rank, 3, given, barrier), None) for rank in range(3)]
    for step in range(3):
        values = samples_of(step, 1000 + step)
        values[step] = math.nan
        alone = fed(whole, tmp_path, step, x=values)
        with h5py.File(tmp_path / f"in-{step}.h5") as file:
            source: Any = SimpleNamespace(file=file, filename=f"in-{step}.h5")
            with ThreadPoolExecutor(3) as pool:
                paths = list(pool.map(lambda part, source=source, step=step: part.step(step, source), parts))
        assert paths[1:] == [None, None]
        with h5py.File(alone) as one, h5py.File(paths[0]) as three:
            np.testing.assert_allclose(three["centres"][:], one["centres"][:], rtol=1e-12)
            np.testing.assert_array_equal(three["labels"][:], one["labels"][:])
            np.testing.assert_array_equal(three["counts"][:], one["counts"][:])


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("checked", ["false", "true"])
def test_the_result_is_the_same_on_any_number_of_ranks(tmp_path: Path, checked: str) -> None:
    found = []
    for ranks in (1, 3):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        (folder / "producer.py").write_text(textwrap.dedent(PRODUCER))
        (folder / "workflow.yaml").write_text(
            "tasks:\n  - {func: producer.py, outports: [{filename: 'out-*.h5'}]}\n"
            f"  - {{func: wilkins.tasks.analysis, nprocs: {ranks}, inports: [{{filename: 'out-*.h5'}}],\n"
            f"     analysis: {{checked: {checked}, kmeans: [{{dsets: [p, q], k: 4, passes: 2, seed: 5,\n"
            "       filename: 'k-{step}.h5', labels: true}]}}\n"
        )
        done = run_tree([*WILKINS, "run", "workflow.yaml"], 100, folder)
        assert done.code == 0, done.out + done.err
        result = numbers_in(folder / "p+q-kmeans.json")
        with h5py.File(folder / "k-3.h5") as file:
            found.append((result, file["labels"][:]))
    (one, labels), (three, labels_of_three) = found
    np.testing.assert_allclose(one["centres"], three["centres"], rtol=1e-9)
    assert one["weights"] == three["weights"]
    assert one["inertia"] == pytest.approx(three["inertia"], rel=1e-9)
    np.testing.assert_array_equal(labels, labels_of_three)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{dsets: [x], k: 3, half_life: 0}", "the 'half_life' of 'x' must be above 0"),
        ("{dsets: [x], k: 3, labels: true}", "'labels' of 'x' needs a 'filename'"),
        ("{dsets: x, k: 3}, {dsets: x, k: 4, filename: a.h5}", "two results would be written to the files of 'x'"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: str, words: str) -> None:
    (tmp_path / "sim.py").touch()
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: sim.py, outports: [{filename: 'x*.h5'}]}\n"
        "  - {func: wilkins.tasks.analysis, inports: [{filename: 'x*.h5'}],\n"
        f"     analysis: {{kmeans: [{options}]}}}}\n"
    )
    done = run_tree([*WILKINS, "check", "workflow.yaml"], 60, tmp_path)
    assert done.code != 0
    assert words in " ".join((done.out + done.err).split())
