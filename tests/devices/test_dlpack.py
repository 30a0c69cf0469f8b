"""DLPack capsules over host memory: what other libraries take over, keep alive and let go."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from wilkins.transport.devices import dlpack

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"]


def from_dlpack(buffer: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """NumPy's array of another library's memory."""
    return np.from_dlpack(buffer)


class Handed:
    """A NumPy array that others take over by our capsules."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: object) -> object:
        keeps: list[object] = [self.array]
        described = dlpack.Array(
            self.array.ctypes.data,
            self.array.shape,
            dlpack.contiguous_strides(self.array.shape),
            self.array.dtype,
            dlpack.Device(dlpack.CPU, 0),
            read_only=not self.array.flags.writeable,
        )
        return dlpack.capsule(described, keeps.clear, versioned=max_version is not None and max_version[0] >= 1)


def example(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of small numbers."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_numpy_takes_every_type_without_a_copy(dtype: str) -> None:
    array = example(dtype)
    taken = from_dlpack(Handed(array))
    assert taken.dtype == array.dtype
    assert np.array_equal(taken, array)
    assert taken.__array_interface__["data"][0] == array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (1, 1), (2, 3, 4, 5)])
def test_any_shape_goes_through(shape: tuple[int, ...]) -> None:
    array = example("f8", shape)
    found = dlpack.read(Handed(array).__dlpack__())
    assert (found.shape, found.contiguous, found.nbytes) == (shape, True, array.nbytes)
    assert np.array_equal(from_dlpack(Handed(array)), array)


@pytest.mark.usual("None", "version3")
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2)])
def test_what_another_library_takes_lives_as_long_as_it_needs_it(version: tuple[int, int] | None) -> None:
    freed: list[int] = []

    class Memory(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            freed.append(1)

    array = np.zeros(1000).view(Memory)
    taken = dlpack.read(Handed(array).__dlpack__(max_version=version))
    del array
    gc.collect()
    assert not freed
    del taken
    gc.collect()
    assert freed == [1]


def test_a_capsule_that_nobody_takes_lets_go() -> None:
    released: list[int] = []
    array = dlpack.Array(0, (0,), (1,), np.dtype("f8"), dlpack.Device(1, 0), read_only=False)
    for versioned in (False, True):
        capsule = dlpack.capsule(array, lambda: released.append(1), versioned=versioned)
        del capsule
    gc.collect()
    assert released == [1, 1]


def test_a_capsule_can_be_taken_once() -> None:
    capsule = Handed(np.zeros(3)).__dlpack__()
    dlpack.read(capsule)
    with pytest.raises(BufferError, match="taken already"):
        dlpack.read(capsule)


def test_a_view_of_a_step_stays_read_only() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    buffer = Handed(array)
    assert dlpack.read(buffer.__dlpack__(max_version=(1, 0))).read_only
    with pytest.raises(BufferError, match="read-only"):
        buffer.__dlpack__()


@pytest.mark.parametrize(
    "array", [np.zeros(2, ">f8"), np.zeros(2, "S3"), np.zeros(2, [("a", "i4")]), np.zeros(2, object)]
)
def test_a_type_without_a_code_is_refused(array: np.ndarray[Any, np.dtype[Any]]) -> None:
    with pytest.raises(BufferError, match="DLPack has no type"):
        Handed(array).__dlpack__()


def test_arrays_of_others_are_read_with_their_strides() -> None:
    array = np.arange(24.0).reshape(4, 6)[::2, 1:5]
    found = dlpack.read(array.__dlpack__())
    assert (found.shape, found.strides, found.contiguous) == ((2, 4), (12, 1), False)
    assert found.address == array.ctypes.data


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("dtype", ["i8", "u1", "f2", "f4", "f8", "c8", "?"])
def test_torch_takes_and_gives(dtype: str) -> None:
    import torch

    array = example(dtype)
    tensor = torch.utils.dlpack.from_dlpack(Handed(array))
    assert tensor.data_ptr() == array.ctypes.data
    assert np.array_equal(tensor.numpy(), array)
    given = dlpack.read(tensor.t().__dlpack__())
    assert (given.shape, given.strides, given.dtype) == ((4, 3), (1, 4), array.dtype)


@pytest.mark.needs("python:torch")
def test_a_type_that_numpy_lacks_is_named() -> None:
    import torch

    with pytest.raises(BufferError, match=r"without a NumPy name \(DLPack code 4, 16 bits\)"):
        dlpack.read(torch.ones(3, dtype=torch.bfloat16).__dlpack__())
