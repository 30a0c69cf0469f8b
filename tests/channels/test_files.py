"""`wilkins.transport.open`, `publish` and `create` without a run: files, mapped to be read, and whole or not there."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import wilkins.transport
from support.running import mounted
from wilkins.transport import Step
from wilkins.transport.devices import bring, h5
from wilkins.transport.devices.driver import NoCuda

PAIR = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "<c16")])
VIEWED: dict[str, Any] = {
    "f4": np.arange(12, dtype="<f4").reshape(3, 4),
    "big-endian": np.arange(12, dtype=">i8"),
    "half": np.arange(5, dtype="<f2"),
    "complex": np.arange(4) * (1 + 2j),
    "bool": np.array([True, False, True]),
    "bytes": np.array([b"abc", b"d"], dtype="S5"),
    "compound": np.array([(1, 2.5, 3j), (4, 5.5, 6j)], dtype=PAIR),
    "void": np.array([b"\x00\x01\x02"], dtype="V3"),
    "scalar": np.float64(7),
    "array elements": np.zeros(3, dtype=[("m", "<f4", (2, 2))]),
}


def only(folder: Path) -> Step:
    """The one step of a folder."""
    return next(wilkins.transport.open(folder / "*.h5"))


def lies_in(array: np.ndarray[Any, Any], step: Step) -> bool:
    """Whether an array's first element is in the step's memory."""
    stored = step._stored
    assert stored is not None
    start: int = array.__array_interface__["data"][0]
    return stored.address <= start < stored.address + stored.size


@pytest.mark.parametrize("name", VIEWED)
@pytest.mark.parametrize("writer", ["h5py", "publish"])
def test_types_that_numpy_has_are_views(tmp_path: Path, name: str, writer: str) -> None:
    value = VIEWED[name]
    if writer == "h5py":
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["g/x"] = value
    else:
        wilkins.transport.publish(tmp_path / "x.h5", {"g": {"x": value}})
    with h5py.File(tmp_path / "x.h5") as file:
        expected = file["g/x"][()]
    step = only(tmp_path)
    array = step["g/x"]
    assert lies_in(array, step)
    assert array.dtype == np.asarray(expected).dtype and array.shape == np.shape(expected)
    np.testing.assert_array_equal(array, expected)
    with pytest.raises(ValueError, match="read-only"):
        array[...] = array
    assert step.names() == ["g/x"]


def test_everything_else_is_read(tmp_path: Path) -> None:
    grid = np.arange(24.0).reshape(4, 6)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("chunked", data=grid, chunks=(2, 3))
        file.create_dataset("gzip", data=grid, compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("unwritten", (3, 3), "f4", fillvalue=2.5)
        file["text"] = "grüße"
        file["texts"] = ["a", "bcd"]
        file["empty"] = h5py.Empty("f4")
        file["none"] = np.zeros((0, 3))
        file["reference"] = file["gzip"].ref
        ragged = file.create_dataset("ragged", 2, h5py.vlen_dtype("i4"))
        ragged[0], ragged[1] = [1], [2, 3]
        file.create_dataset("one ragged", (), h5py.vlen_dtype("i4"))[()] = [4, 5, 6]
        layout = h5py.VirtualLayout((4, 6), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "x.h5", "gzip", (4, 6))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", data=grid, external=[(tmp_path / "raw", 0, h5py.h5f.UNLIMITED)])
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        small = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((4, 6)), compact)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, grid)
        odd = h5py.h5t.STD_I32LE.copy()
        odd.set_precision(20)
        twenty = h5py.h5d.create(file.id, b"twenty bits", odd, h5py.h5s.create_simple((2,)))
        twenty.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([-3, 2047], "i4"))
        terminated = h5py.h5t.C_S1.copy()
        terminated.set_size(4)
        h5py.h5d.create(file.id, b"C string", terminated, h5py.h5s.create_simple((1,))).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"ab"], "S4")
        )
    with h5py.File(tmp_path / "linked.hdf5", "w") as file:
        file["elsewhere"] = h5py.ExternalLink(str(tmp_path / "x.h5"), "gzip")
        file["there"] = h5py.ExternalLink(str(tmp_path / "y.hdf5"), "x")
    with h5py.File(tmp_path / "y.hdf5", "w") as file:
        file["x"] = grid
    step = only(tmp_path)
    for name in ("chunked", "gzip", "virtual", "outside", "compact"):
        array = step[name]
        assert not lies_in(array, step)
        np.testing.assert_array_equal(array, grid)
        np.testing.assert_array_equal(step[name, 1:3, ::2], grid[1:3, ::2])
    assert step["unwritten"].tolist() == [[2.5] * 3] * 3
    assert step["text"].shape == () and step["text"][()] == "grüße".encode()
    assert step["texts"].tolist() == [b"a", b"bcd"] and step["texts", 1][()] == b"bcd"
    assert step["empty"].shape == (0,) and step["none"].shape == (0, 3) and step["none", :, 1].shape == (0,)
    assert step.file[step["reference"][()]] == step.file["gzip"]
    assert [part.tolist() for part in step["ragged"]] == [[1], [2, 3]]
    assert step["one ragged"][()].tolist() == [4, 5, 6] and step["ragged", 1][()].tolist() == [2, 3]
    assert step["twenty bits"].tolist() == [-3, 2047] and step["C string"].tolist() == [b"ab"]
    linked = next(wilkins.transport.open(tmp_path / "linked.hdf5"))
    for name in ("elsewhere", "there"):
        np.testing.assert_array_equal(linked[name], grid)
    assert not lies_in(linked["there"], linked)


@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
def test_selections(tmp_path: Path, layout: str) -> None:
    grid = np.arange(60).reshape(3, 4, 5)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("u", data=grid, chunks=(1, 2, 5) if layout == "chunked" else None)
    step = only(tmp_path)
    for selection in (
        np.s_[1],
        np.s_[-1],
        np.s_[1, 2, 3],
        np.s_[0:2],
        np.s_[5:9],
        np.s_[..., 2],
        np.s_[::2, 1:, ...],
        np.s_[0, ..., ::3],
        np.s_[:, np.int64(1), -3:],
    ):
        key = ("u", *selection) if isinstance(selection, tuple) else ("u", selection)
        array = step[key]
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(array, grid[selection])
        assert array.size == 0 or lies_in(array, step) == (layout == "contiguous")
    np.testing.assert_array_equal(step["u", [0, 2]], grid[[0, 2]])
    np.testing.assert_array_equal(step["u", grid % 2 == 0], grid[grid % 2 == 0])
    for key in (("u", 3), ("u", 0, 0, 0, 0), ("u", slice(None, None, -1)), ("u", "text"), ("u", [0, 9])):
        with pytest.raises(IndexError, match=r"dataset 'u' of step 0 .*\(3, 4, 5\)"):
            step[key]


def test_a_user_block(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["x"] = np.arange(100)
    step = only(tmp_path)
    np.testing.assert_array_equal(step["x"], np.arange(100))
    assert lies_in(step["x"], step)


def test_arrays_keep_the_step(tmp_path: Path) -> None:
    wilkins.transport.publish(tmp_path / "x.h5", {"a": np.arange(5), "b": np.arange(3)})
    step = only(tmp_path)
    part = step["a"][2:]
    with pytest.raises(BufferError, match=r"step 0 .*arrays of 'a' are still referenced"):
        step.release()
    np.testing.assert_array_equal(step["b"], np.arange(3))
    stored = weakref.ref(step._stored)
    file = step.file
    file.close()  # by the program: the arrays stay
    np.testing.assert_array_equal(step["b"], np.arange(3))
    with step:
        pass
    with pytest.raises(ValueError, match="was released"):
        step["a"]
    gc.collect()
    assert part.tolist() == [2, 3, 4] and stored() is not None
    del part, step
    gc.collect()
    assert stored() is None


def test_release_is_at_once_and_may_be_repeated(tmp_path: Path) -> None:
    wilkins.transport.publish(tmp_path / "x.h5", {"a": np.arange(5)}, {"time": 3.5})
    step = only(tmp_path)
    assert dict(step.attrs) == {"time": 3.5}
    with pytest.raises(TypeError):
        step.attrs["time"] = 4  # type: ignore[index]
    stored = step._stored
    array = step["a"]
    del array
    step.release()
    step.release()
    assert dict(step.attrs) == {"time": 3.5} and "released" in repr(step)
    with h5py.File(tmp_path / "x.h5", "w"):  # nothing locks it any more
        pass
    assert stored is not None


def test_nobody_adds_to_a_file_that_is_viewed(tmp_path: Path) -> None:
    wilkins.transport.publish(tmp_path / "x.h5", {"a": np.arange(5)})
    array = only(tmp_path)["a"]
    gc.collect()
    with pytest.raises(OSError, match="lock"):
        h5py.File(tmp_path / "x.h5", "r+")
    wilkins.transport.publish(tmp_path / "x.h5", {"a": np.zeros(5)})  # a new file of that name
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_errors_say_what_there_is(tmp_path: Path) -> None:
    wilkins.transport.publish(tmp_path / "x.h5", {"particles": {"position": np.zeros(3)}, "u": 1}, {"time": 0.5})
    step = only(tmp_path)
    with pytest.raises(KeyError) as error:
        step["partikles/position"]
    assert str(error.value) == (
        f"step 0 ({tmp_path}/x.h5) has no 'partikles/position'; did you mean 'particles/position'?"
    )
    assert isinstance(error.value, wilkins.transport.ChannelError)
    with pytest.raises(KeyError, match="is a group, no dataset; there are 'particles/position', 'u'"):
        step["/"]
    with pytest.raises(KeyError) as error:
        step.attrs["tme"]
    assert str(error.value) == f"step 0 ({tmp_path}/x.h5) has no attribute 'tme'; did you mean 'time'?"
    assert isinstance(error.value, wilkins.transport.ChannelError)
    assert step.attrs.get("tme") is None and "tme" not in step.attrs and dict(step.attrs) == {"time": 0.5}
    with pytest.raises(TypeError, match="path is text"):
        step[0]  # type: ignore[index]
    assert "u" in step and "particles" not in step and list(step) == ["particles/position", "u"]
    step.release()
    (tmp_path / "x.h5").write_bytes(b"no HDF5")
    with pytest.raises(OSError, match="step 0 cannot be opened"):
        only(tmp_path)["u"]
    (tmp_path / "x.h5").unlink()
    with pytest.raises(FileNotFoundError, match="no file in") as missing:
        wilkins.transport.open(tmp_path / "*.h5")
    assert isinstance(missing.value, wilkins.transport.ChannelError) and missing.value.errno == errno.ENOENT
    with pytest.raises(ValueError, match="can be 0 to 8"):
        wilkins.transport.open("x", prefetch=9)


def test_what_is_in_host_memory_needs_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring, "driver", no_driver)
    wilkins.transport.publish(tmp_path / "x.h5", {"u": np.zeros(3)})
    with pytest.raises(LookupError, match=r"'u' of step 0 .* cannot be a CuPy array: .*; use step\['u'\]") as error:
        only(tmp_path).cupy("u")
    assert isinstance(error.value, wilkins.transport.ChannelError) and "auto" not in str(error.value)
    with pytest.raises(BufferError, match="this one is in host memory: write it directly") as wrong:
        h5.pointer(np.zeros(3))
    assert isinstance(wrong.value, wilkins.transport.ChannelError)


def no_driver() -> None:
    raise NoCuda("the CUDA driver is not there")


def test_files_come_in_their_order_and_may_be_polled(tmp_path: Path) -> None:
    for number in range(12):
        wilkins.transport.publish(tmp_path / f"x{number}.h5", {"n": number})
    with wilkins.transport.open(tmp_path / "x*.h5", prefetch=2) as channel:
        assert [(step.index, int(step["n"])) for step in channel] == [(n, n) for n in range(12)]
        assert channel.ended and channel.poll() is None
    channel = wilkins.transport.open(tmp_path / "x*.h5")
    first = channel.poll()
    assert first is not None and first.index == 0 and not channel.ended
    channel.close()
    assert next(channel, None) is None and channel.ended and int(first["n"]) == 0


def test_create_is_whole_or_nothing(tmp_path: Path) -> None:
    with wilkins.transport.create(tmp_path / "x.h5") as step:
        u = step.empty("fields/u", (3, 4), "f4")
        u[:] = 5
        step.empty("none", (0, 2))
        step.empty("one", (), "i8")[()] = 3
        step.attrs["time"] = 1.5
        step.file.create_dataset("packed", data=np.arange(100), compression="gzip")
        assert not (tmp_path / "x.h5").exists()
    with pytest.raises(ValueError, match="read-only"):
        u[:] = 6
    with h5py.File(tmp_path / "x.h5") as file:
        assert (file["fields/u"][()] == 5).all() and file["none"].shape == (0, 2) and file["one"][()] == 3
        assert file["packed"].compression == "gzip" and file.attrs["time"] == 1.5
    with pytest.raises(ZeroDivisionError), wilkins.transport.create(tmp_path / "x.h5") as step:
        step.empty("u", 3)[:] = 1 / 0
    with h5py.File(tmp_path / "x.h5") as file:
        assert (file["fields/u"][()] == 5).all()
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5"]


def test_a_file_that_is_replaced_is_read_as_it_was(tmp_path: Path) -> None:
    """`publish` gives a new file an old name, also between the moment a step is taken and its first dataset is read."""
    name = tmp_path / "x.h5"
    packed = np.arange(50_000)
    with wilkins.transport.create(name) as new:
        new["u"], new["w"] = np.full(10_000, 1.0), np.full(10_000, 2.0)
        new.file.create_dataset("packed", data=packed, compression="gzip")
    before = only(tmp_path)
    wilkins.transport.publish(name, {"v": np.full(9_000, 7.0), "u": np.full(10_000, 3.0), "packed": packed[::-1]})
    assert (only(tmp_path)["u"] == 3).all()
    assert sorted(before.names()) == ["packed", "u", "w"]
    assert (before["u"] == 1).all() and (before["w", 10:] == 2).all() and (before["packed"] == packed).all()
    name.unlink()
    assert lies_in(before["u"], before) and (before["u"] == 1).all()
    before.release()


def test_a_fork_that_leaves_the_block_leaves_the_step_alone(tmp_path: Path) -> None:
    with wilkins.transport.create(tmp_path / "x.h5") as new:
        new["u"] = np.arange(1000)
        child = os.fork()
        if not child:
            try:
                new._end(whole=False)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert (only(tmp_path)["u"] == np.arange(1000)).all()


def test_a_program_that_ends_while_a_thread_fills_a_step_leaves_nothing(tmp_path: Path) -> None:
    program = """
        import threading, time, wilkins.transport
        filling = threading.Event()
        def fill():
            with wilkins.transport.create("x.h5") as new:
                new["u"] = 1.0
                filling.set()
                time.sleep(60)
        threading.Thread(target=fill, daemon=True).start()
        filling.wait()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, check=True, timeout=60)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    with mounted(tmp_path / "disk", "2m") as folder:
        yield folder


@pytest.mark.needs("root", "mount")
def test_a_full_disk_is_an_error_and_no_signal(small_disk: Path) -> None:
    """Memory of a file that the disk has no room for cannot be written to: that must be found out before."""
    with pytest.raises(OSError, match=r"no room for 8000000 bytes of 'u'.*No space left"):
        wilkins.transport.publish(small_disk / "x.h5", {"u": np.zeros(1_000_000)})
    assert not list(small_disk.iterdir())
    wilkins.transport.publish(small_disk / "x.h5", {"u": np.ones(100_000)})
    assert (only(small_disk)["u"] == 1).all()


def test_what_cannot_be_published_is_named(tmp_path: Path) -> None:
    for value in (np.array([1, 2], "M8[s]"), np.array([{}, {}]), object()):
        with pytest.raises(TypeError, match=r"'g/bad' in '.*x.h5': HDF5 has no type"):
            wilkins.transport.publish(tmp_path / "x.h5", {"g": {"bad": value}})
    with pytest.raises(TypeError, match="has no fixed size"), wilkins.transport.create(tmp_path / "x.h5") as step:
        step.empty("text", 3, h5py.string_dtype())
    with pytest.raises(OSError, match="'u' cannot be made in"), wilkins.transport.create(tmp_path / "x.h5") as step:
        step["u"] = np.arange(3)
        step["u"] = np.arange(3)
    with pytest.raises(OSError, match="dset_attrs names 'v'"):
        wilkins.transport.publish(tmp_path / "x.h5", {"u": np.arange(3)}, dset_attrs={"v": {"unit": "m"}})
    with pytest.raises(OSError, match="the file cannot be created"):
        wilkins.transport.publish(tmp_path / "nowhere" / "x.h5", {"u": np.arange(3)})
    assert not list(tmp_path.iterdir())


class Shared:
    """An array of a library that has nothing but one protocol."""

    def __init__(self, array: np.ndarray[Any, Any], protocol: str) -> None:
        self.array = array
        if protocol == "interface":
            self.__array_interface__ = array.__array_interface__


class Packed(Shared):
    """One that has DLPack."""

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", ["array", "strided", "transposed", "interface", "DLPack", "list", "buffer", "bool"])
def test_whatever_is_an_array_can_be_published(tmp_path: Path, kind: str) -> None:
    grid = np.arange(24.0).reshape(4, 6)
    value: Any = {
        "array": grid,
        "strided": grid[::2, ::-3],
        "transposed": grid.T,
        "interface": Shared(grid, "interface"),
        "DLPack": Packed(grid, "DLPack"),
        "list": grid.tolist(),
        "buffer": memoryview(grid),  # type: ignore[arg-type]
        "bool": grid > 3,
    }[kind]
    wilkins.transport.publish(tmp_path / "x.h5", {"u": value}, dset_attrs={"u": {"unit": "m"}})
    expected = getattr(value, "array", value)
    np.testing.assert_array_equal(only(tmp_path)["u"], np.asarray(expected))
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["u"].attrs["unit"] == "m"


def test_texts_are_those_of_hdf5(tmp_path: Path) -> None:
    wilkins.transport.publish(tmp_path / "x.h5", {"one": "grüße", "many": ["a", "bc"], "array": np.array(["d", "é"])})
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["one"].asstr()[()] == "grüße"
        assert list(file["many"].asstr()) == ["a", "bc"] and list(file["array"].asstr()) == ["d", "é"]


@pytest.mark.needs("python:torch")
def test_torch(tmp_path: Path) -> None:
    import torch

    values = {
        name: torch.arange(6).to(getattr(torch, name))
        for name in ("float32", "float64", "float16", "int8", "uint8", "int64", "uint32", "complex64", "bool")
    }
    strided = torch.arange(12.0).reshape(3, 4).T
    needs_gradient = torch.ones(3, requires_grad=True)
    wilkins.transport.publish(tmp_path / "x.h5", {**values, "strided": strided, "gradient": needs_gradient})
    step = only(tmp_path)
    for name, value in values.items():
        tensor = step.torch(name)
        assert tensor.dtype == value.dtype and torch.equal(tensor, value)
        assert tensor.data_ptr() == step[name].ctypes.data
    assert torch.equal(step.torch("strided"), strided) and torch.equal(step.torch("gradient"), needs_gradient.detach())
    part = step.torch("float32", np.s_[1:3])
    assert part.tolist() == [1, 2] and part.data_ptr() == step["float32"].ctypes.data + 4
    own = step.torch("float32", copy=True)
    own += 1
    assert own.tolist() == [1, 2, 3, 4, 5, 6] and step["float32"].tolist() == [0, 1, 2, 3, 4, 5]
    packed = torch.utils.dlpack.from_dlpack(step.buffer("float64"))
    assert packed.data_ptr() == step["float64"].ctypes.data and packed.tolist() == [0, 1, 2, 3, 4, 5]
    del tensor
    gc.collect()
    with pytest.raises(BufferError, match="'float32', 'float64'"):
        step.release()
    del part, packed
    gc.collect()
    step.release()
    assert own[0] == 1


@pytest.mark.needs("python:torch")
def test_torch_has_fewer_types(tmp_path: Path) -> None:
    import torch

    wilkins.transport.publish(tmp_path / "x.h5", {"big": np.arange(4, dtype=">f4"), "text": "a"})
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file.create_dataset("gzip", data=np.arange(4.0), compression="gzip")
        file["three bytes"] = np.zeros(3, "i1")
        crooked = h5py.h5d.create(file.id, b"crooked", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((3,)))
        crooked.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(3.0))
    step = only(tmp_path)
    assert lies_in(step["crooked"], step) and not step["crooked"].flags.aligned
    assert step["crooked"].tolist() == step.torch("crooked").tolist() == [0, 1, 2]
    assert step.torch("big").tolist() == [0, 1, 2, 3] and step.torch("gzip").tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match=r"dataset 'text' of step 0 .*torch has no type for object"):
        step.torch("text")
    for tensor in (torch.zeros(3, dtype=torch.bfloat16), torch.eye(3).to_sparse()):
        with pytest.raises(TypeError, match=r"torch tensor of .* cannot be published as it is .*convert it first"):
            wilkins.transport.publish(tmp_path / "y.h5", {"x": tensor})


def test_protocols_of_a_buffer(tmp_path: Path) -> None:
    """What array libraries ask of each other, on host memory."""
    wilkins.transport.publish(tmp_path / "x.h5", {"u": np.arange(6, dtype="i4").reshape(2, 3)})
    buffer: Any = only(tmp_path).buffer("u", np.s_[1])
    assert buffer.__dlpack_device__() == (1, 0) and buffer.shape == (3,) and buffer.read_only
    interface = buffer.__array_interface__
    assert interface["shape"] == (3,) and interface["data"] == (buffer.address, True) and interface["typestr"] == "<i4"
    for view in (np.asarray(buffer), np.from_dlpack(buffer)):
        assert view.__array_interface__["data"][0] == buffer.address and view.tolist() == [3, 4, 5]
        assert not view.flags.writeable
    with pytest.raises(BufferError):  # one that cannot be told that it is read-only
        buffer.__dlpack__()


def test_names_keep_their_order_where_h5py_is_told_to(tmp_path: Path) -> None:
    config = h5py.get_config()
    try:
        for ordered in (True, False):
            config.track_order = ordered
            wilkins.transport.publish(tmp_path / "step.h5", {"z": 1, "a": 2})
            with h5py.File(tmp_path / "step.h5") as file:
                assert list(file) == (["z", "a"] if ordered else ["a", "z"])
    finally:
        config.track_order = False
