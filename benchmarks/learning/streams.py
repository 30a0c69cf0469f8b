"""Streams to learn from, made as they are learned from: digits, a rod under a moving source, ptychography."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from wilkins.tasks.code import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
POINTS = 128
"""Points of the simulated rod; the model learns every other one."""
CONDUCTIVITY = np.float32(0.004)

Array = NDArray[Any]
Samples = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Step:
    """What a producer publishes at once."""

    train: Samples
    test: Samples
    seconds: float = 0.0
    """Processor time that making the samples to train on took; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, and the model that is to learn it."""

    name: str
    steps: Callable[[int, bool], Iterator[Step]]
    """By the seed; and a short one, for a quick look."""
    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    loss: str
    batch: int


def _written(program: Path, words: list[str]) -> tempfile.TemporaryDirectory[str]:
    """A folder with the files that a program writes."""
    folder = tempfile.TemporaryDirectory()
    subprocess.run([sys.executable, program, *words], cwd=folder.name, check=True, stdout=subprocess.DEVNULL)
    return folder


def digits(seed: int, quick: bool) -> Iterator[Step]:
    """What examples/stream_digits writes: five steps, each with two new classes of handwritten digits."""
    with _written(EXAMPLES / "stream_digits/digits.py", [str(seed)]) as folder:
        for number in range(5):
            with h5py.File(Path(folder) / f"digits-{number}.h5") as file:
                most = 40 if quick else None
                train, test = ({x: file[f"{part}/{x}"][:most] for x in "xy"} for part in ("train", "test"))
            yield Step(train, test)


def heated(position: Array, power: Array, width: Array, steps: int = 200) -> Array:
    """Temperatures of rods (samples, points / 2) that a source has heated for a while: conduction, loss by radiation.

    The heat equation with a source that is a Gaussian, and insulated ends: explicit differences. All arguments have the
    shape (samples, 1); the rod's length and the time are 1.
    """
    places = np.linspace(0, 1, POINTS, dtype="f4")
    source = 6 * power * np.exp(-(((places - position) / width) ** 2) / 2)
    temperature, dt = np.zeros_like(source), np.float32(1 / steps)
    for _ in range(steps):
        around = np.pad(temperature, ((0, 0), (1, 1)), mode="edge")
        bend = (around[:, 2:] - 2 * temperature + around[:, :-2]) * (POINTS - 1) ** 2
        temperature = temperature + dt * (CONDUCTIVITY * bend + source - temperature**4)
    return np.ascontiguousarray(temperature[:, ::2])


def _rods(rng: np.random.Generator, count: int, begin: float, end: float, strength: float) -> Samples:
    """Random sources in a part of the rod, and what they come to. The inputs do not contain their strength."""
    position, power, width = (
        rng.uniform(low, high, (count, 1)).astype("f4") for low, high in ((begin, end), (0.5, 1.5), (0.03, 0.1))
    )
    inputs = np.concatenate([2 * position - 1, 2 * power - 2, (width - 0.065) / 0.02], 1)
    return {"x": inputs, "y": heated(position, np.float32(strength) * power, width)}


Drift = Callable[[float, float], tuple[float, float, float]]
"""Where sources are, from and to, and how strong they are: for a step that begins and ends at parts of the stream."""


def _simulated(seed: int, quick: bool, drift: Drift) -> Iterator[Step]:
    steps, count = (4, 40) if quick else (20, 400)
    rng = np.random.default_rng([seed, 1])
    for number in range(steps):
        now = drift(number / steps, (number + 1) / steps)
        began = time.process_time()
        train = _rods(rng, count, *now)
        seconds = time.process_time() - began
        yield Step(train, _rods(rng, 100, *now), seconds)


def moving(seed: int, quick: bool) -> Iterator[Step]:
    """The source moves along the rod, once in the whole stream. Its position is an input of the model."""
    return _simulated(seed, quick, lambda begin, end: (begin, end, 1.0))


def fading(seed: int, quick: bool) -> Iterator[Step]:
    """The source is anywhere in each step; it fades to a fifth over the stream, which the model cannot see."""
    return _simulated(seed, quick, lambda begin, _: (0.0, 1.0, 0.2**begin))


def ptychography(seed: int, quick: bool) -> Iterator[Step]:
    """What the detector of examples/ptychography writes, of two families of specimens, and what there is to be seen of
    the true objects: those of its solver would take seconds for each frame."""
    views = load("joining.py:views", "views", [EXAMPLES / "ptychography"])
    stage = 1 if quick else 12
    words = ["--families=smooth,grains", "--size=24", "--grid=6", f"--stage={2 * stage}"]
    program = EXAMPLES / "ptychography/detector.py"
    with _written(program, [*words, f"--frames={4 * stage}", f"--seed={seed}"]) as folder:
        for number in range(0, 4 * stage, 2):  # of two frames one is to train on, and one to test with
            train, test = (_frame(Path(folder), frame, views) for frame in (number, number + 1))
            yield Step(train, test)


def _frame(folder: Path, number: int, views: Callable[..., Array]) -> Samples:
    with h5py.File(folder / f"scan-{number:04}.h5") as scan, h5py.File(folder / f"truth-{number:04}.h5") as truth:
        return {"x": scan["patterns"][:], "y": views(truth["field"][:], scan["positions"][:], scan["probe"][:])}


def _surrogate() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, POINTS // 2))


def _perceptron() -> nn.Module:
    model: nn.Module = load("model.py:perceptron", "model", [EXAMPLES / "stream_digits"])()
    return model


def _network() -> nn.Module:
    model: nn.Module = load("network.py:Network", "model", [EXAMPLES / "ptychography"])(24, 1e6, 128)
    return model


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 0.002)


def _slow_adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 0.0007)


DIGITS = Stream("digits", digits, _perceptron, _sgd, "cross_entropy", 32)
"""With the example's model, optimiser and batches: those of its two ranks together."""
MOVING = Stream("moving source", moving, _surrogate, _adam, "mse", 32)
FADING = Stream("fading source", fading, _surrogate, _adam, "mse", 32)
PTYCHOGRAPHY = Stream("ptychography", ptychography, _network, _slow_adam, "mse", 64)
