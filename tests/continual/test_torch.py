"""Tensors in, tensors out: dtypes that NumPy lacks, storage on a torch device, mixed batches; CuPy's arrays."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wilkins.tasks.continual import BadSample, RehearsalBuffer, RehearsalOptions, concatenate


def options(**changes: Any) -> RehearsalOptions:
    given: dict[str, Any] = {"batch": 6, "candidates": 6, "representatives": 6, "samples": 6}
    return RehearsalOptions(**given | changes)


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64", "float8_e4m3fn"]


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("device", ["host", "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_come_back(torch: Any, dtype: str, device: str) -> None:
    """Of any dtype, from strided tensors that need a gradient, kept in host memory or on a torch device."""
    kind = getattr(torch, dtype)
    values = torch.arange(6 * 2 * 4).reshape(6, 4, 2).to(kind).transpose(1, 2)
    if dtype == "float32":
        values.requires_grad_()
    number = torch.arange(6)
    with RehearsalBuffer(options(device=device)) as buffer:
        for _ in range(3):
            drawn = buffer.update({"x": values, "n": number})
        empty = RehearsalBuffer(options(device=device)).update({"x": values, "n": number})
    assert drawn["x"].dtype == kind
    assert drawn["x"].is_contiguous()
    assert not drawn["x"].requires_grad
    wide = torch.complex64 if dtype == "complex64" else torch.float64
    assert torch.equal(drawn["x"].to(wide), values.detach().to(wide)[drawn["n"]])
    assert sorted(drawn["n"].tolist()) == list(range(6))
    assert tuple(empty["x"].shape) == (0, 2, 4)
    assert len(concatenate({"x": values}, drawn)["x"]) == 12


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("device", ["host", "cpu"])
def test_a_mixed_batch(torch: Any, device: str) -> None:
    """Each name comes back as the kind of array it came in; labels may be tensors."""
    with RehearsalBuffer(options(device=device, label="y", classes=3)) as buffer:
        for step in range(10):
            y = torch.tensor([0, 1, 2, 0, 1, 2])
            drawn = buffer.update({"y": y, "x": np.full((6, 2), step) + y.numpy()[:, None] / 10})
        buffer.take()
        assert buffer.statistics().classes == {0: 2, 1: 2, 2: 2}
    assert isinstance(drawn["x"], np.ndarray)
    assert torch.equal((torch.from_numpy(drawn["x"])[:, 0] * 10).round().long() % 10, drawn["y"])


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_nan_in_tensors(torch: Any, dtype: str) -> None:
    x = torch.zeros(6, 3)
    x[4, 1] = float("nan")
    with pytest.raises(BadSample, match="tensor 'x': sample 4 holds NaN"), RehearsalBuffer(options()) as buffer:
        buffer.update({"x": x.to(getattr(torch, dtype))})


@pytest.mark.needs("python:torch")
def test_bad_tensors(torch: Any) -> None:
    with pytest.raises(BadSample, match="sparse"), RehearsalBuffer(options()) as buffer:
        buffer.update({"x": torch.zeros(6, 3).to_sparse()})
    with pytest.raises(BadSample, match=r"labels are torch\.float32"), RehearsalBuffer(options(label="y")) as buffer:
        buffer.update({"y": torch.zeros(6)})
    with (
        pytest.raises(BadSample, match="sample 5 has label 9"),
        RehearsalBuffer(options(label="y", classes=9)) as buffer,
    ):
        buffer.update({"y": torch.tensor([0, 1, 2, 3, 4, 9])})


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("device", ["host", "cpu"])
def test_restart_with_tensors(torch: Any, tmp_path: Path, device: str) -> None:
    """What is at hand comes back as tensors after a restart; a buffer kept on a device can go on in host memory."""
    batches = [{"x": torch.full((6, 2), float(step), dtype=torch.bfloat16)} for step in range(12)]
    expected = []
    with RehearsalBuffer(options(device=device, samples=9)) as buffer:
        for step, batch in enumerate(batches):
            if step == 6:
                buffer.save(tmp_path)
            expected.append(buffer.update(batch)["x"].tolist())
    with RehearsalBuffer(options(samples=9)) as buffer:
        assert buffer.load(tmp_path) == 6
        assert [buffer.update(batch)["x"].tolist() for batch in batches[6:]] == expected[6:]


class Cupy(types.ModuleType):
    """What the buffer uses of CuPy, on NumPy's memory: arrays that only give their content by `get`."""

    class Ndarray:
        """An array said to be on device 0."""

        __module__ = "cupy"

        def __init__(self, content: Any) -> None:
            self.content = content
            self.shape, self.dtype = content.shape, content.dtype
            self.device = types.SimpleNamespace(id=0)

        def __getitem__(self, chosen: Any) -> Any:
            return type(self)(self.content[chosen])

        def __len__(self) -> int:
            return len(self.content)

        def get(self) -> Any:
            return self.content.copy()

    def asarray(self, content: Any) -> Any:
        return self.Ndarray(content)

    def concatenate(self, arrays: Any) -> Any:
        return self.Ndarray(np.concatenate([array.content for array in arrays]))


def test_arrays_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are CuPy's; whether it answers as on a device, only a device can tell."""
    cupy = Cupy("cupy")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    number = np.arange(6)
    with RehearsalBuffer(options(label="y")) as buffer:
        for _ in range(3):
            batch = {"x": cupy.asarray(np.tile(number[:, None], (1, 3)) / 4), "y": cupy.asarray(number % 2)}
            drawn = buffer.update(batch)
    assert isinstance(drawn["x"], Cupy.Ndarray)
    assert sorted(drawn["x"].get()[:, 2] * 4) == number.tolist()
    assert concatenate(batch, drawn)["x"].shape == (12, 3)
