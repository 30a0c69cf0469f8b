"""The ready-made analysis: its numbers are those of a direct computation, on any number of ranks, for any data."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.analysis_results import Array, direct, numbers_in, read_png, rows_of
from support.running import MPIEXEC, WILKINS, Finished, must_run, run_tree
from wilkins.tasks.analysis import histogram, picture
from wilkins.tasks.analysis.moments import Moments, merged

PRODUCER = """
    import h5py, numpy as np
    rng = np.random.default_rng(3)
    for step in range(5):
        field = rng.gamma(2.0, size=(13, 6, 7)) * (step + 1) + 1e6
        field[0, 0, :2] = np.nan, np.inf
        with h5py.File(f"out-{step}.h5", "w") as file:
            file.create_dataset("fields/u", data=field, chunks=True, compression="gzip")
            file["n"] = rng.integers(-1000, 2**60, (40, 3))
            file["f"] = rng.normal(size=1000).astype("f4")
            file["empty"] = np.zeros((0, 4))
            file["scalar"] = 2.5
            file["flags"] = rng.random(10) > 0.5
            file["words"] = "some words"
            file["n"].attrs["unit"] = "m"
            file.attrs["step"] = step
"""


def assert_same(found: dict[str, float], expected: dict[str, float], tolerance: float = 1e-9) -> None:
    """Counts and extremes exactly, moments to within rounding."""
    for name, value in expected.items():
        near = pytest.approx(float(value), rel=tolerance, abs=tolerance, nan_ok=True)
        assert float(found[name]) == near, name


@given(st.data(), st.integers(1, 5), st.floats(-1e6, 1e6))
def test_merged_parts_give_the_moments_of_the_whole(data: st.DataObject, parts: int, offset: float) -> None:
    number = st.floats(-100, 100) | st.just(math.nan) | st.just(math.inf)
    lists = [data.draw(st.lists(number, max_size=20)) for _ in range(parts)]
    arrays = [np.array(values, float) + offset for values in lists]
    whole = np.concatenate(arrays)
    found = merged([Moments.of(array) for array in arrays])
    once = Moments.of(whole)
    scale = max(1.0, once.m2)
    assert (found.count, found.nans, found.infinite) == (once.count, once.nans, once.infinite)
    assert (found.least, found.greatest) == (once.least, once.greatest)
    assert found.mean == pytest.approx(once.mean, rel=1e-12, abs=1e-9)
    # Distances from a mean of about `offset` are known to about 1e-16 of it.
    slack = 1e-15 * abs(offset) * max(1, whole.size)
    assert found.m2 == pytest.approx(once.m2, rel=1e-9, abs=1e-9 + 200 * slack)
    assert found.m3 == pytest.approx(once.m3, rel=1e-9, abs=1e-6 * scale + 200**2 * slack)
    assert found.m4 == pytest.approx(once.m4, rel=1e-9, abs=1e-6 * scale + 200**3 * slack)


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=8), min_size=3, max_size=3))
@example([[0], [2**40 - 1], [738 - 2**40]])
def test_merging_is_associative(lists: list[list[int]]) -> None:
    a, b, c = (Moments.of(np.array(values, np.int64)) for values in lists)
    left, right = ((a + b) + c).results(), (a + (b + c)).results()
    slack = 1e-15 * 2**40  # as far as the mean of such numbers is known
    deviation = float(np.nan_to_num(right["variance"])) ** 0.5
    known = {"count": 0.0, "min": 0.0, "max": 0.0, "mean": slack, "variance": 8 * slack * (1 + deviation)}
    for name, within in known.items():
        assert left[name] == pytest.approx(right[name], rel=1e-9, abs=within, nan_ok=True), name


def test_no_digits_are_lost_far_from_zero() -> None:
    """The sum of squares less the square of the sum would have none left here."""
    values = np.tile([1e9 - 1, 1e9 + 1], 50_000)
    found = merged([Moments.of(part) for part in np.split(values, 10)])
    assert found.mean == 1e9
    assert found.variance == pytest.approx(1, rel=1e-12)
    assert found.kurtosis == pytest.approx(-2, rel=1e-9)


def test_large_integers_keep_their_extremes() -> None:
    found = Moments.of(np.array([2**62 + 1, 3], np.int64)) + Moments.of(np.array([5], np.int64))
    assert (found.least, found.greatest) == (3, 2**62 + 1)


@given(st.lists(st.floats(-50, 50) | st.just(math.nan) | st.just(math.inf), max_size=50), st.integers(1, 12))
def test_every_number_is_in_one_bin_or_beside_them(values: list[float], bins: int) -> None:
    array = np.array(values, float)
    found = histogram.count(array, histogram.edges_between(-10, 10, bins))
    assert int(found.bins.sum()) + found.below + found.above + found.nans == array.size
    assert found.nans == int(np.isnan(array).sum())
    assert found.above == int((array > 10).sum())


def test_a_picture_shows_the_numbers() -> None:
    pixels = read_png(picture.png(np.array([[0.0, 1.0, math.nan], [0.5, 9.0, -3.0]]), "grey", (0.0, 1.0)))
    assert pixels[:, :, 0].tolist() == [[0, 255, 255], [128, 255, 0]]
    assert pixels[0, 2].tolist() == [255, 0, 255]


@pytest.mark.needs("python:matplotlib")
def test_colours_are_close_to_those_of_matplotlib() -> None:
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    other = mpl.colormaps["viridis"](np.linspace(0, 1, 255))[:, :3] * 255
    assert np.abs(other - picture.palette("viridis")[1:].astype(float)).max() < 6


Run = Callable[..., Finished]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the producer and an analysis of its files, given as YAML; both stand in the test's folder."""

    def start(options: str, *job: str, rest: str = "", more: str = "") -> Finished:
        (tmp_path / "producer.py").write_text(textwrap.dedent(PRODUCER))
        (tmp_path / "workflow.yaml").write_text(
            "tasks:\n  - {func: producer.py, outports: [{filename: 'out-*.h5'}]}\n"
            f"  - func: wilkins.tasks.analysis\n    inports: [{{filename: 'out-*.h5'}}]\n"
            f"    analysis: {options}\n{rest and '    ' + rest}\n{more}"
        )
        return run_tree([*job, *WILKINS, "run", "workflow.yaml"], 100, tmp_path)

    return start


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the producer writes when it is run by itself."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "producer.py").write_text(textwrap.dedent(PRODUCER))
    must_run(folder, sys.executable, "producer.py")
    return folder


def values_of(files: Path, dset: str) -> list[Array]:
    """A dataset in every file."""
    found = []
    for step in range(5):
        with h5py.File(files / f"out-{step}.h5") as file:
            found.append(np.asarray(file[dset][()]))
    return found


@pytest.mark.usual("one job")
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(("ranks", "job"), [(1, ()), (3, ()), (3, (MPIEXEC, "-n", "4"))], ids=["1", "3", "one job"])
def test_moments_and_histograms(run: Run, files: Path, tmp_path: Path, ranks: int, job: tuple[str, ...]) -> None:
    names = ("fields/u", "n", "f", "empty", "scalar", "flags")
    moments = ", ".join(f"{{dset: {name}}}" for name in names)
    histograms = "{dset: f, bins: 9, range: [-1, 1]}, {dset: fields/u}"
    options = f"{{folder: results, moments: [{moments}], histogram: [{histograms}]}}"
    done = run(options, *job, rest=f"nprocs: {ranks}")
    assert done.code == 0, done.out + done.err
    assert "analysed 5 steps" in done.out
    for name in names:
        stem = str(tmp_path / "results" / name.replace("/", "-"))
        arrays = values_of(files, name)
        rows = rows_of(Path(f"{stem}-moments.csv"))
        assert [(row["step"], row["file"]) for row in rows] == [(str(step), f"out-{step}.h5") for step in range(5)]
        for row, array in zip(rows, arrays, strict=True):
            assert_same({key: float(value) for key, value in row.items() if key not in ("step", "file")}, direct(array))
        whole = np.concatenate([array.reshape(-1) for array in arrays])
        assert_same(numbers_in(Path(f"{stem}-moments.json")), direct(whole))
    f = np.concatenate(values_of(files, "f"))
    found = json.loads((tmp_path / "results" / "f-histogram.json").read_text())
    assert found["counts"] == np.histogram(f, 9, (-1, 1))[0].tolist()
    assert (found["below"], found["above"]) == (int((f < -1).sum()), int((f > 1).sum()))
    found = json.loads((tmp_path / "results" / "fields-u-histogram.json").read_text())
    first = values_of(files, "fields/u")[0]
    assert (found["edges"][0], found["edges"][-1]) == (np.nanmin(first), first[np.isfinite(first)].max())
    rows = rows_of(tmp_path / "results" / "fields-u-histogram.csv")
    assert all(
        sum(int(value) for key, value in row.items() if key not in ("step", "file")) == first.size for row in rows
    )
    assert rows[0]["nans"] == rows[4]["nans"] == "1"


def test_pictures(run: Run, files: Path, tmp_path: Path) -> None:
    done = run(
        "{slice: [{dset: fields/u, axes: [2, 0], at: 5, colours: grey}, "
        "{dset: n, filename: 'n/{name}.png', range: [0, 1]}]}"
    )
    assert done.code == 0, done.out + done.err
    for step, array in enumerate(values_of(files, "fields/u")):
        found = read_png((tmp_path / f"fields-u-{step:05}.png").read_bytes())
        expected = read_png(picture.png(array[:, 5, :].T, "grey"))
        assert found.shape == (7, 13, 3)
        assert (found == expected).all()
    assert sorted(path.name for path in (tmp_path / "n").iterdir()) == [f"out-{step}.png" for step in range(5)]


def test_subsamples_and_archive_in_files(run: Run, files: Path, tmp_path: Path) -> None:
    done = run(
        "{folder: kept, subsample: [{dsets: [fields/u, n], stride: 2, filename: 'small-{step}.h5'}, "
        "{dsets: n, stride: [5, 1], filename: 'rows-{name}.h5'}], archive: [{filename: 'all/{step:03}.h5'}]}"
    )
    assert done.code == 0, done.out + done.err
    for step, (u, n) in enumerate(zip(values_of(files, "fields/u"), values_of(files, "n"), strict=True)):
        with h5py.File(tmp_path / "kept" / f"small-{step}.h5") as file:
            np.testing.assert_array_equal(file["fields/u"][:], u[::2, ::2, ::2])
            np.testing.assert_array_equal(file["n"][:], n[::2, ::2])
            assert file["n"].attrs["unit"] == "m"
            assert file.attrs["step"] == step
        with h5py.File(tmp_path / "kept" / f"rows-out-{step}.h5") as file:
            np.testing.assert_array_equal(file["n"][:], n[::5])
        kept = tmp_path / "kept" / "all" / f"{step:03}.h5"
        assert kept.read_bytes() == (files / f"out-{step}.h5").read_bytes()
    assert not list(tmp_path.glob("out-*.h5"))


@pytest.mark.nightly
def test_results_feed_a_second_analysis(run: Run, files: Path, tmp_path: Path) -> None:
    """A subsample and the moments of each step go on in memory."""
    done = run(
        "{subsample: [{dsets: n, stride: 3, filename: 'small-{step}.h5'}], "
        "moments: [{dset: f, filename: 'f-{step}.h5'}]}",
        rest="outports: [{filename: 'small-*.h5'}, {filename: 'f-*.h5'}]",
        more=(
            "  - {func: wilkins.tasks.analysis, name: second, inports: [{filename: 'small-*.h5'}],\n"
            "     analysis: {folder: second, moments: [{dset: n}]}}\n"
            "  - {func: wilkins.tasks.analysis, name: third, inports: [{filename: 'f-*.h5'}],\n"
            "     analysis: {folder: third, moments: [{dset: mean}]}}\n"
        ),
    )
    assert done.code == 0, done.out + done.err
    whole = np.concatenate([n[::3, ::3].reshape(-1) for n in values_of(files, "n")])
    assert_same(numbers_in(tmp_path / "second" / "n-moments.json"), direct(whole))
    means = np.array([f.astype(float).mean() for f in values_of(files, "f")])
    assert_same(numbers_in(tmp_path / "third" / "mean-moments.json"), direct(means))
    assert not list(tmp_path.rglob("*.h5"))


@pytest.mark.usual(
    "{moments: [{dset: v}]}-words0",
    "{slice: [{dset: empty}]}-is empty, which makes no picture",
    "{subsample: [{dsets: n, stride: [1, 2, 3], filename: x.h5}]}-has 2 axes, and 'stride' 3 numbers",
)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "{moments: [{dset: v}]}",
            "out-0.h5: the dataset 'v' does not exist; datasets there are: /empty, /f, /fields/u, /flags, /n, /scalar",
        ),
        ("{moments: [{dset: fields}]}", "the dataset 'fields' is a group; datasets there are: /empty"),
        ("{moments: [{dset: words}]}", "the dataset 'words' holds object, and numbers are needed"),
        ("{slice: [{dset: f}]}", "the dataset 'f', of shape (1000,), has no plane to draw"),
        ("{slice: [{dset: n, axes: [0, 2]}]}", "has no axis 2; its axes are 0 to 1"),
        ("{slice: [{dset: fields/u, at: 13, axes: [1, 2]}]}", "ends at 12 on axis 0; 'at' says 13"),
        ("{slice: [{dset: fields/u, at: [1, 2]}]}", "has 1 axes besides those shown, and 'at' gives 2"),
        ("{slice: [{dset: empty}]}", "is empty, which makes no picture"),
        ("{subsample: [{dsets: n, stride: [1, 2, 3], filename: x.h5}]}", "has 2 axes, and 'stride' 3 numbers"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, options: str, words: str) -> None:
    done = run(options)
    assert done.code == 1
    said = done.out + done.err
    assert words in said
    assert "Traceback" not in said


@pytest.mark.needs(MPIEXEC)
def test_an_error_on_several_ranks_ends_them(run: Run) -> None:
    done = run("{moments: [{dset: v}]}", rest="nprocs: 2")
    assert done.code == 1
    assert "the dataset 'v' does not exist" in done.out + done.err


def test_a_fixed_name(tmp_path: Path) -> None:
    """Statistics and archive of one name that is rewritten: each open is of the same step."""
    (tmp_path / "producer.py").write_text(
        "import h5py\nfor step in range(6):\n"
        "    with h5py.File('x.h5', 'w') as file:\n        file['x'] = [step, step]\n"
    )
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: producer.py, outports: [{filename: x.h5}]}\n"
        "  - {func: wilkins.tasks.analysis, inports: [{filename: x.h5}],\n"
        "     analysis: {moments: [{dset: x}], archive: [{filename: 'kept/{step}.h5'}]}}\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.out + done.err
    assert [float(row["mean"]) for row in rows_of(tmp_path / "x-moments.csv")] == [0, 1, 2, 3, 4, 5]
    for step in range(6):
        with h5py.File(tmp_path / "kept" / f"{step}.h5") as file:
            assert file["x"][:].tolist() == [step, step]


def test_alone_on_files(files: Path, tmp_path: Path) -> None:
    """In a workflow in which nobody writes the files, they are those on disk."""
    (tmp_path / "workflow.yaml").write_text(
        f"tasks: [{{func: wilkins.tasks.analysis, cwd: {files}, inports: [{{filename: 'out-*.h5', mode: file}}],\n"
        f"  analysis: {{folder: {tmp_path}/results, moments: [{{dset: n}}]}}}}]\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert done.code == 0, done.out + done.err
    assert len(rows_of(tmp_path / "results" / "n-moments.csv")) == 5
