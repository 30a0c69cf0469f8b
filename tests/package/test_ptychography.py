"""The physics of examples/ptychography: what is known to be right must come out, whatever diffraction leaves open."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest

from support.running import must_run, run_tree

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "ptychography"
PYTHON = sys.executable
SIZE, GRID, STEP = 32, 6, 4.0


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The example's modules as attributes. Their names are left to others afterwards."""
    sys.path.insert(0, str(FOLDER))
    names = ("optics", "objects", "epie", "joining", "comparing")
    modules = ModuleType("example")
    for name in names:
        setattr(modules, name, importlib.import_module(name))
    yield modules
    sys.path.remove(str(FOLDER))
    for name in names:
        del sys.modules[name]


class Scene:
    """A scanned object: field, probe, positions, patterns, and where there was light."""

    def __init__(self, example: Any, family: str = "cells", photons: float = 0.0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.light = example.optics.probe(SIZE, photons or 1e5)
        self.positions = example.optics.scan(GRID, STEP, 1.0, rng)
        pixels = example.optics.extent(GRID, STEP, 1.0, SIZE)
        self.field = example.objects.FAMILIES[family].transmission(pixels, rng)
        self.patterns = example.optics.diffraction(self.field, self.light, self.positions, rng if photons else None)
        self.lit = example.comparing.illumination(self.light, self.positions) >= 0.1


@pytest.mark.parametrize("size", [24, 32, 64])
def test_the_light_is_a_spot_of_unit_energy_in_the_middle(example: Any, size: int) -> None:
    light = example.optics.probe(size)
    intensity = np.abs(light) ** 2
    y, x = np.indices(light.shape) - size / 2
    assert intensity.sum() == pytest.approx(1)
    assert abs((intensity * x).sum()) + abs((intensity * y).sum()) < 0.01
    # A disc of radius r has a mean square distance of r**2 / 2 from its middle; the spot's rim is soft.
    assert np.sqrt(2 * (intensity * (x**2 + y**2)).sum()) == pytest.approx(0.2 * size, rel=0.12)
    assert intensity[: size // 8].sum() < 0.002  # little light beyond the spot: patches do not wrap round
    # Without an object the detector sees the aperture.
    pupil = np.abs(example.optics.far_field(light))
    assert np.sqrt((pupil > pupil.max() / 2).sum() / np.pi) == pytest.approx(size / 4, rel=0.03)


def test_neighbours_overlap_enough_and_all_lie_within_the_object(example: Any) -> None:
    positions = example.optics.scan(GRID, STEP, 1.0, np.random.default_rng(3))
    assert positions.min() >= 0
    assert positions.max() + SIZE <= example.optics.extent(GRID, STEP, 1.0, SIZE)
    diameter = 2 * 0.2 * SIZE
    assert 1 - STEP / diameter > 0.6  # the overlap that solving needs: O. Bunk et al., Ultramicroscopy 108 (2008) 481
    lit = example.comparing.illumination(example.optics.probe(SIZE), positions) >= 0.1
    middle = slice(SIZE // 2, SIZE // 2 + int((GRID - 1) * STEP))
    assert lit[middle, middle].all()


def test_patterns_hold_the_light_and_its_noise_is_poissons(example: Any) -> None:
    scene = Scene(example)
    through = np.abs(scene.light * example.optics.patches(scene.field, scene.positions, SIZE)) ** 2
    assert scene.patterns.sum(axis=(1, 2)) == pytest.approx(through.sum(axis=(1, 2)), rel=1e-5)
    rng = np.random.default_rng(1)
    args = (scene.field, 0.3 * scene.light, scene.positions[:1])
    exact = example.optics.diffraction(*args, None)
    counted = np.concatenate([example.optics.diffraction(*args, rng) for _ in range(400)])
    bright = exact[0] > 5
    assert counted.mean(axis=0)[bright] == pytest.approx(exact[0][bright], rel=0.2)
    ratio = counted.var(axis=0)[bright] / exact[0][bright]
    assert ratio.mean() == pytest.approx(1, abs=0.03)


@pytest.mark.usual("grains-0.16")
@pytest.mark.parametrize(("family", "bound"), [("smooth", 0.08), ("cells", 0.05), ("fibres", 0.08), ("grains", 0.16)])
def test_a_known_object_is_found(example: Any, family: str, bound: float) -> None:
    """Without noise, ePIE goes on towards the object: iterations explain the patterns ever better."""
    scene = Scene(example, family)
    assert 0.1 < scene.field.std() < 0.45  # there is something to see
    solution = example.epie.solve(scene.patterns, scene.positions, scene.light, 120)
    assert example.comparing.error(solution.field, scene.field, scene.lit) < bound
    assert solution.residuals[-1] < 0.3 * solution.residuals[2] < 0.02
    assert np.all(np.diff(solution.residuals[::10]) < 0)
    ended = example.comparing.residual(scene.patterns, solution.field, scene.light, scene.positions)
    assert ended == pytest.approx(solution.residuals[-1], rel=0.2)


def test_the_object_is_the_solution_itself(example: Any) -> None:
    """Started from the object, nothing changes; so the update has no bias."""
    scene = Scene(example)
    solution = example.epie.solve(scene.patterns, scene.positions, scene.light, 3, start=scene.field)
    assert max(solution.residuals) < 2e-5
    assert example.comparing.error(solution.field, scene.field, scene.lit) < 1e-3


def test_with_noise_the_error_ends_at_what_the_photons_allow(example: Any) -> None:
    """More photons, a smaller error; and the residual at the end is that of counting."""
    errors = []
    for photons in (1e4, 1e6):
        scene = Scene(example, photons=photons)
        solution = example.epie.solve(scene.patterns, scene.positions, scene.light, 60)
        errors.append(example.comparing.error(solution.field, scene.field, scene.lit))
        true = example.comparing.residual(scene.patterns, scene.field, scene.light, scene.positions)
        found = example.comparing.residual(scene.patterns, solution.field, scene.light, scene.positions)
        assert found < 1.3 * true
    assert errors[1] < 0.12 < errors[0] < 0.6


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """1 for two fields that differ by a factor only; less for others."""
    return float(abs(np.vdot(one, other)) / (np.linalg.norm(one) * np.linalg.norm(other)))


@pytest.mark.nightly
def test_an_unknown_probe_is_found_too(example: Any) -> None:
    """From a probe that is out of focus by a fifth; object and probe are right but for a ramp, a shift and a factor."""
    scene = Scene(example)
    guess = example.optics.probe(SIZE, 1e5, spread=0.24)
    fixed = example.epie.solve(scene.patterns, scene.positions, guess, 120)
    refined = example.epie.solve(scene.patterns, scene.positions, guess, 120, refine=True)
    assert example.comparing.error(fixed.field, scene.field, scene.lit, free_probe=True) > 0.25
    assert example.comparing.error(refined.field, scene.field, scene.lit, free_probe=True) < 0.08
    assert likeness(refined.light, scene.light) > 0.999 > likeness(guess, scene.light)


def test_the_same_seed_gives_the_same_bytes(example: Any) -> None:
    scene, again = Scene(example, photons=1e4, seed=5), Scene(example, photons=1e4, seed=5)
    assert scene.patterns.tobytes() == again.patterns.tobytes()
    one, two, other = (
        example.epie.solve(s.patterns, s.positions, s.light, 5, seed=seed).field
        for s, seed in ((scene, 1), (again, 1), (scene, 2))
    )
    assert one.tobytes() == two.tobytes() != other.tobytes()


def test_solving_ends_early_where_nothing_more_is_gained(example: Any) -> None:
    scene = Scene(example, photons=1e4)
    solution = example.epie.solve(scene.patterns, scene.positions, scene.light, 200, tolerance=0.01)
    assert 3 < len(solution.residuals) < 60


def test_what_is_left_open_is_no_error_and_all_else_is(example: Any) -> None:
    scene = Scene(example, "smooth")
    error, field = example.comparing.error, scene.field[: scene.lit.shape[0], : scene.lit.shape[1]]
    assert error(0.7 * np.exp(2j) * field, scene.field, scene.lit) < 1e-9
    assert error(np.ones_like(field), scene.field, scene.lit) == pytest.approx(1)
    y, x = np.indices(field.shape) / len(field)
    ramp = np.exp(2j * np.pi * (0.4 * x - 0.7 * y))
    assert error(field * ramp, scene.field, scene.lit) > 0.5
    assert error(field * ramp, scene.field, scene.lit, free_probe=True) < 0.03
    rows, columns = (np.fft.fftfreq(n) for n in field.shape)
    moved = np.fft.ifft2(np.fft.fft2(field) * np.exp(2j * np.pi * (0.6 * rows[:, None] - 0.8 * columns)))
    assert error(moved * ramp, scene.field, scene.lit) > 0.5
    assert error(moved * ramp, scene.field, scene.lit, free_probe=True) < 0.12
    assert error(np.conj(field), scene.field, scene.lit, free_probe=True) > 0.8
    worse = field + 0.5 * field[scene.lit].std() * np.random.default_rng(0).standard_normal(field.shape)
    assert error(worse, scene.field, scene.lit) == pytest.approx(0.5, rel=0.1)


def test_views_are_joined_to_the_object_whatever_their_phases(example: Any) -> None:
    """A view does not know the overall phase of its patch; joining finds all phases from the overlaps."""
    scene = Scene(example, "grains")
    seen = example.joining.views(0.7 * np.exp(1.3j) * scene.field, scene.positions, scene.light)
    assert seen.shape == (GRID**2, 2, SIZE, SIZE)
    assert seen.dtype == np.float32
    same = example.joining.views(scene.field, scene.positions, scene.light)
    assert np.abs(seen - same).max() < 1e-5
    joined = example.joining.join(seen, scene.patterns, scene.positions, scene.light)
    assert example.comparing.error(joined, scene.field, scene.lit) < 0.03
    assert np.abs(joined[0, 0] - 1) < 1e-3  # no light, no object
    assert example.comparing.residual(scene.patterns, joined, scene.light, scene.positions) < 0.05
    # Errors of single views average out where views overlap.
    noise = 0.1 * np.random.default_rng(0).standard_normal(seen.shape)
    off = np.linalg.norm(noise * example.joining.window(scene.light)) / np.linalg.norm(seen)
    seen = seen + noise * example.joining.window(scene.light)
    noisy = example.joining.join(seen, scene.patterns, scene.positions, scene.light)
    assert example.comparing.error(noisy, scene.field, scene.lit) < off / 2


def test_a_slope_that_all_views_get_wrong_is_mended_by_the_patterns(example: Any) -> None:
    """It would add up to a ramp over the object, which single views would hardly show."""
    scene = Scene(example, "smooth", photons=1e6)
    seen = example.joining.views(scene.field, scene.positions, scene.light)
    wrong = seen.copy()
    wrong[:, 1] += 0.1 * example.joining.window(scene.light) * np.linspace(-2, 2, SIZE)
    assert np.linalg.norm(wrong - seen) < 0.25 * np.linalg.norm(seen)
    joined = example.joining.join(wrong, scene.patterns, scene.positions, scene.light)
    assert example.comparing.error(joined, scene.field, scene.lit) < 0.1


def test_no_object_is_seen_as_nothing(example: Any) -> None:
    scene = Scene(example)
    nothing = np.ones_like(scene.field)
    assert np.abs(example.joining.views(nothing, scene.positions, scene.light)).max() < 1e-6


DETECTOR = ("detector.py", "--frames", "4", "--families", "cells,grains", "--stage", "2", "--size", "24", "--grid", "5")


@pytest.mark.nightly
def test_the_programs_work_one_after_the_other_through_files(tmp_path: Path) -> None:
    """Nobody predicts anything, so every frame is solved."""
    must_run(tmp_path, PYTHON, FOLDER / DETECTOR[0], *DETECTOR[1:])
    must_run(tmp_path, PYTHON, FOLDER / "reconstruct.py", "--iterations", "30")
    must_run(tmp_path, PYTHON, FOLDER / "compare.py", "alone.csv")
    alone = np.genfromtxt(tmp_path / "alone.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert list(alone["family"]) == ["cells", "cells", "grains", "grains"]
    assert np.all(alone["error"] < 0.45)
    assert np.all(alone["error"] == alone["error_solved"])
    assert np.all(np.isnan(alone["error_predicted"]))
    assert len(list(tmp_path.glob("pairs-*.h5"))) == 4
    with h5py.File(tmp_path / "pairs-0003.h5") as pairs, h5py.File(tmp_path / "scan-0003.h5") as scan:
        assert pairs["patterns"][:].tobytes() == scan["patterns"][:].tobytes()
        assert pairs["views"].shape == (25, 2, 24, 24)


def test_predictions_are_used_where_they_are_good(example: Any, tmp_path: Path) -> None:
    """Made here from the truth: none for frame 0, not good for 1, then good, but that of 8 is of another object."""
    frames = 9
    must_run(tmp_path, PYTHON, FOLDER / DETECTOR[0], "--frames", str(frames), *DETECTOR[3:])
    for frame in range(1, frames):
        shown = frame if frame != 8 else 2
        with h5py.File(tmp_path / f"scan-{frame:04}.h5") as scan, h5py.File(tmp_path / f"truth-{shown:04}.h5") as truth:
            views = example.joining.views(truth["field"][:], scan["positions"][:], scan["probe"][:])
        with h5py.File(tmp_path / f"prediction-{frame:04}.h5", "w") as file:
            file["prediction"] = views
            file.attrs.update(good=int(frame > 1), model_version=frame, model_error=0.1)
    said = must_run(tmp_path, PYTHON, FOLDER / "reconstruct.py", "--iterations", "5", "--verify", "3")
    assert "9 frames, of which 5 were solved and 4 predicted" in said
    assert [path.name for path in sorted(tmp_path.glob("pairs-*"))] == [f"pairs-000{k}.h5" for k in (0, 1, 4, 7, 8)]
    must_run(tmp_path, PYTHON, FOLDER / "compare.py")
    table = np.genfromtxt(tmp_path / "frames.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert np.all(table["error_predicted"][1:8] < 0.06)
    assert table["error_predicted"][8] > 0.5
    counts = np.where(np.isnan(table["error_solved"]), table["error_predicted"], table["error_solved"])
    assert np.all(table["error"] == counts)
    assert list(table["model_version"][1:]) == list(range(1, frames))


def test_a_family_that_does_not_exist(tmp_path: Path) -> None:
    done = run_tree([PYTHON, str(FOLDER / "detector.py"), "--families", "smooth,cels"], 60, tmp_path)
    assert done.code == 2
    assert "there is no family 'cels'; choose of smooth, grains, cells, fibres" in done.err
