"""DLPack and array interfaces on host buffers: what other libraries take over, keep alive and let go."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from wilkins.transport.devices import dlpack
from wilkins.transport.devices.host import HostBuffer
from wilkins.transport.devices.pinned import PinnedBuffer

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"]


def from_dlpack(buffer: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """NumPy's array of another library's memory."""
    return np.from_dlpack(buffer)


def example(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of small numbers."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_numpy_takes_every_type_without_a_copy(dtype: str) -> None:
    array = example(dtype)
    taken = from_dlpack(HostBuffer(array))
    assert taken.dtype == array.dtype
    assert np.array_equal(taken, array)
    assert taken.__array_interface__["data"][0] == array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (1, 1), (2, 3, 4, 5)])
def test_any_shape_goes_through(shape: tuple[int, ...]) -> None:
    array = example("f8", shape)
    found = dlpack.read(HostBuffer(array).__dlpack__())
    assert (found.shape, found.contiguous, found.nbytes) == (shape, True, array.nbytes)
    assert np.array_equal(from_dlpack(HostBuffer(array)), array)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2)])
def test_what_another_library_takes_lives_as_long_as_it_needs_it(version: tuple[int, int] | None) -> None:
    freed: list[int] = []

    class Memory(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            freed.append(1)

    array = np.zeros(1000).view(Memory)
    taken = dlpack.read(HostBuffer(array).__dlpack__(max_version=version))
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
    capsule = HostBuffer(np.zeros(3)).__dlpack__()
    dlpack.read(capsule)
    with pytest.raises(BufferError, match="taken already"):
        dlpack.read(capsule)


def test_a_view_of_a_step_stays_read_only() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    buffer = HostBuffer(array)
    assert dlpack.read(buffer.__dlpack__(max_version=(1, 0))).read_only
    assert buffer.__array_interface__["data"][1] is True
    with pytest.raises(BufferError, match="read-only"):
        buffer.__dlpack__()
    assert dlpack.read(buffer.__dlpack__(max_version=(1, 0), copy=True)).read_only is False


@pytest.mark.parametrize(
    "array", [np.zeros(2, ">f8"), np.zeros(2, "S3"), np.zeros(2, [("a", "i4")]), np.zeros(2, object)]
)
def test_a_type_without_a_code_is_refused(array: np.ndarray[Any, np.dtype[Any]]) -> None:
    with pytest.raises(BufferError, match="DLPack has no type"):
        HostBuffer(array).__dlpack__()


def test_streams_and_other_devices_are_refused() -> None:
    buffer = HostBuffer(np.zeros(2))
    with pytest.raises(BufferError, match="no streams"):
        buffer.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not on device"):
        buffer.__dlpack__(dl_device=(2, 0))
    assert buffer.__dlpack_device__() == (1, 0)
    assert PinnedBuffer(np.zeros(2)).__dlpack_device__() == (3, 0)


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
    tensor = torch.utils.dlpack.from_dlpack(HostBuffer(array))
    assert tensor.data_ptr() == array.ctypes.data
    assert np.array_equal(tensor.numpy(), array)
    given = dlpack.read(tensor.t().__dlpack__())
    assert (given.shape, given.strides, given.dtype) == ((4, 3), (1, 4), array.dtype)


@pytest.mark.needs("python:torch")
def test_bfloat16_travels_as_its_bits() -> None:
    import torch

    found = dlpack.read(torch.ones(3, dtype=torch.bfloat16).__dlpack__())
    assert (found.shape, found.dtype) == ((3,), np.dtype("u2"))
