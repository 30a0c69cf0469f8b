"""Arrays to a GPU and back: right values, whatever is under way; host memory is held while it is read, no longer."""

from __future__ import annotations

import ctypes
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from support.running import Finished, run_tree
from wilkins.transport.devices import dlpack, frameworks
from wilkins.transport.devices.frameworks import Stream

HEAD = """
import gc, sys, time
sys.path.insert(0, {here!r})
import numpy as np
from gpu_memory import DeviceArray, STAND_IN, count, peek, poke
from wilkins.transport.devices import cuda, dlpack
from wilkins.transport.devices.cuda import borrow, gpu
from wilkins.transport.devices.frameworks import Stream
from wilkins.transport.devices.driver import CudaError, NoCuda, driver
"""


def run(folder: Path, env: dict[str, str], text: str) -> Finished:
    """Run a script that works with device memory."""
    script = folder / "program.py"
    script.write_text(HEAD.format(here=str(Path(__file__).parent)) + textwrap.dedent(text))
    return run_tree([sys.executable, script], 120, folder, env)


def check(folder: Path, env: dict[str, str], text: str, said: str = "") -> None:
    """The same, for one that must succeed, and say this on its standard error."""
    finished = run(folder, env, text)
    assert finished.code == 0, finished.err
    assert said in finished.err


def test_an_array_comes_to_the_device_and_back(tmp_path: Path, cuda: dict[str, str]) -> None:
    check(
        tmp_path,
        cuda,
        """
        for shape in [(1000,), (3, 5), (), (0, 4), (1 << 20,)]:
            for dtype in ["f8", "i4", "u1", "?", ">f4"]:
                array = (np.arange(np.prod(shape, dtype=int)) % 100).reshape(shape).astype(dtype)
                buffer = gpu(0).upload(array)
                assert buffer.shape == shape and buffer.dtype == array.dtype.newbyteorder("=")
                assert np.array_equal(buffer.numpy(), array), (shape, dtype)
        view = np.arange(60.0).reshape(6, 10)[::2, 3:7]
        assert np.array_equal(gpu(0).upload(view).numpy(), view)
        """,
    )


def test_whoever_takes_a_buffer_finds_it_ready_on_its_stream(tmp_path: Path, cuda: dict[str, str]) -> None:
    check(
        tmp_path,
        cuda,
        """
        device = gpu(0)
        array = np.arange(1 << 18, dtype="f8")
        with device.current():
            stream = device.driver.address("cuStreamCreate", 1)
        into = DeviceArray(np.zeros_like(array))

        def copy_and_get(address):
            # What another library's kernel would do on its stream.
            with device.current():
                device.driver("cuMemcpyDtoDAsync_v2", into.address, address, array.nbytes, stream)
                device.driver("cuStreamSynchronize", stream)
            return into.get()

        import mmap
        pinned = np.frombuffer(mmap.mmap(-1, array.nbytes), "f8")
        with device.current():
            device.driver("cuMemHostRegister_v2", pinned.ctypes.data, array.nbytes, 0)
        for k in range(5):
            pinned[:] = array + k
            buffer = device.upload(pinned)  # of registered memory: it returns before the copy is done
            taken = dlpack.read(buffer.__dlpack__(stream=stream, max_version=(1, 0)))
            assert taken.device == (2, 0) and taken.contiguous and not taken.read_only
            del buffer
            assert np.array_equal(copy_and_get(taken.address), array + k)
            del taken

        interface = device.upload(array).__cuda_array_interface__
        assert interface["version"] == 3 and interface["typestr"] == "<f8" and interface["strides"] is None
        assert interface["stream"] is None, "nobody need wait"
        pinned[:] = array + 9
        interface = (buffer := device.upload(pinned)).__cuda_array_interface__
        assert np.array_equal(peek(device, interface["data"][0], array.shape, array.dtype), array + 9), "torch does not"

        wrongs = [(dict(stream=0), ValueError), (dict(dl_device=(1, 0)), BufferError), (dict(copy=True), BufferError)]
        for wrong, error in wrongs:
            try:
                device.upload(array).__dlpack__(**wrong)
            except error:
                pass
            else:
                raise AssertionError(wrong)
        """,
    )


def test_memory_is_not_written_again_while_a_stream_may_read_it(tmp_path: Path, cuda: dict[str, str]) -> None:
    """A slow reader on another stream sees its own step, though its buffer was let go of and the next came into it."""
    check(
        tmp_path,
        cuda,
        """
        device = gpu(0)
        with device.current():
            handle = device.driver.address("cuStreamCreate", 1)
        owner = object()
        results, addresses = [], set()
        for k in range(12):
            into = DeviceArray(np.zeros(1 << 16))
            buffer = device.upload(np.full(1 << 16, float(k)))
            addresses.add(buffer.address)
            buffer.use_on(Stream(handle, owner))
            with device.current():
                for _ in range(3):
                    device.driver("cuMemcpyDtoDAsync_v2", into.address, buffer.address, buffer.nbytes, handle)
            results.append(into)
            del buffer
        with device.current():
            device.driver("cuStreamSynchronize", handle)
        for k, into in enumerate(results):
            assert set(into.get()) == {float(k)}, k
        assert len(addresses) < 4, "memory is used again"
        """,
    )


def test_host_memory_is_held_until_it_was_copied_and_no_longer(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    check(
        tmp_path,
        without_gpu | {"STAND_IN_DELAY_US": "100000"},
        """
        held = []

        class Memory(np.ndarray):
            def __del__(self):
                with device.current():
                    held.append(device.driver.is_done(buffer._ready.event))

        device = gpu(0)
        with device.current():
            array = np.ones(1 << 16).view(Memory)
            first, last = array.ctypes.data & ~4095, (array.ctypes.data + array.nbytes + 4095) & ~4095
            device.driver("cuMemHostRegister_v2", first, last - first, 0)
        buffer = device.upload(array)
        del array
        while not held:
            time.sleep(0.01)
        assert held == [True], "the copy was done"
        assert buffer.numpy().sum() == 1 << 16
        """,
    )


def test_device_arrays_of_others_come_to_the_host(tmp_path: Path, cuda: dict[str, str]) -> None:
    check(
        tmp_path,
        cuda,
        """
        values = np.arange(24, dtype="i4").reshape(4, 6)
        for stream in (None, 1, 2):
            array = DeviceArray(values, stream=stream)
            device, found = borrow(array)
            out = np.empty(found.shape, found.dtype)
            device.copy_to_host(out, found.address, found.strides)
            assert np.array_equal(out, values)
        array.shape, array.strides = (6, 4), (4, 24)
        device, found = borrow(array)
        out = np.empty(found.shape, found.dtype)
        device.copy_to_host(out, found.address, found.strides)
        assert np.array_equal(out, values.T)

        buffer = gpu(0).upload(values)
        device, found = borrow(buffer)
        out = np.empty(found.shape, found.dtype)
        device.copy_to_host(out, found.address, found.strides)
        assert np.array_equal(out, values)

        for wrong in (np.zeros(3), type("X", (), {"__cuda_array_interface__": {
                "data": (out.ctypes.data, False), "shape": (3,), "typestr": "<f4", "version": 3}})()):
            try:
                borrow(wrong)
            except BufferError as error:
                assert "CUDA device" in str(error)
            else:
                raise AssertionError(wrong)
        """,
    )


def test_which_streams_are_there_when_an_array_goes() -> None:
    """The default stream of threads is another one in the thread that lets go."""
    owner = object()
    lasting = [Stream(0), Stream(1), Stream(0, owner), Stream(1234, owner)]
    assert all(stream.lasts for stream in lasting)
    assert not any(stream.lasts for stream in (Stream(2), Stream(2, owner), Stream(1234)))


@pytest.mark.needs("python:torch")
def test_torch_lends_the_values_that_its_tensors_stand_for() -> None:
    import torch

    complex_ones = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    for tensor in (complex_ones.conj(), complex_ones.conj().imag, complex_ones.real):
        array = dlpack.read(frameworks.exportable(tensor).__dlpack__())
        assert array.contiguous or array.strides == (2,)
        raw = ctypes.string_at(array.address, (array.strides[0] + 1) * array.dtype.itemsize)
        values = np.frombuffer(raw, array.dtype)[:: array.strides[0]]
        assert np.array_equal(values, tensor.detach().resolve_conj().resolve_neg().numpy())
    assert frameworks.exportable(owner := np.ones(2)) is owner


def test_arrays_may_go_while_another_thread_registers_memory(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    """Two locks, for the device and for registered memory: always taken in the same order."""
    check(
        tmp_path,
        without_gpu,
        """
        import threading
        device, kept = gpu(0), []
        registering, going = threading.Event(), threading.Event()
        class Registrations:
            # Memory is registered by another thread at this moment, where Python lets go of a device array.
            mutex = threading.Lock()
            def cover(self, part):
                with self.mutex:
                    if threading.current_thread() is not threading.main_thread():
                        registering.set()
                        going.wait(10)
                        kept.clear()
                return False
            def __getattr__(self, name):
                return getattr(real, name)
        real, device.registrations = device.registrations, Registrations()
        kept.append(device.upload(np.ones(1000)))
        target = np.zeros(1000)
        other = device.upload(np.ones(1000))
        thread = threading.Thread(target=lambda: device.copy_to_host(target, other.address, (1,)), daemon=True)
        thread.start()
        registering.wait(10)
        cover = device.registrations.cover
        def cover_after_the_other_goes_on(part):
            going.set()
            time.sleep(0.2)
            return cover(part)
        device.registrations.cover = cover_after_the_other_goes_on
        device.upload(np.ones(1000)).wait()
        thread.join(20)
        assert not thread.is_alive() and not kept, "the threads wait for each other"
        """,
    )


def test_no_thread_is_left_when_python_ends(tmp_path: Path, cuda: dict[str, str]) -> None:
    """One that Python ends while it has a lock makes the process wait for it for ever (seen on an H200)."""
    check(
        tmp_path,
        cuda,
        """
        import atexit, threading
        atexit.register(lambda: print([thread.name for thread in threading.enumerate()], file=sys.stderr))
        buffer = gpu(0).upload(np.ones(1 << 18))
        assert threading.active_count() == 2
        """,
        said="['MainThread']",
    )


def test_python_objects_do_not_come_to_the_device(tmp_path: Path, cuda: dict[str, str]) -> None:
    check(
        tmp_path,
        cuda,
        """
        try:
            gpu(0).upload(np.array(["text", None], object))
        except TypeError as error:
            assert "Python's objects" in str(error)
        else:
            raise AssertionError("addresses of this process were copied")
        """,
    )


def test_pieces_without_end_are_refused(tmp_path: Path, cuda: dict[str, str]) -> None:
    check(
        tmp_path,
        cuda,
        """
        array = DeviceArray(np.zeros(1 << 18))
        array.shape, array.strides = (1 << 17,), (16,)
        device, found = borrow(array)
        try:
            device.copy_to_host(np.empty(found.shape), found.address, found.strides)
        except BufferError as error:
            assert "131072 pieces" in str(error)
        else:
            raise AssertionError("131072 copies")
        """,
    )


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"STAND_IN_DEVICES": "0"}, "no CUDA-capable device"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "no CUDA-capable device"),
        ({"STAND_IN_FAIL": "cuInit=999"}, "cannot start"),
        ({"LD_LIBRARY_PATH": "."}, "the CUDA driver is not there"),
    ],
)
def test_without_a_device_the_reason_is_told(
    tmp_path: Path, without_gpu: dict[str, str], variables: dict[str, str], why: str
) -> None:
    (tmp_path / "libcuda.so.1").touch()  # found first with that path, also on a machine that has a driver
    finished = run_tree(
        [sys.executable, "-c", "from wilkins.transport.devices.driver import driver\ndriver()"],
        60,
        tmp_path,
        without_gpu | variables,
    )
    assert "NoCuda" in finished.err
    assert why in finished.err


def test_a_full_device_is_emptied_of_what_is_free_before_it_is_an_error(
    tmp_path: Path, without_gpu: dict[str, str]
) -> None:
    check(
        tmp_path,
        without_gpu,
        """
        import os
        device = gpu(0)
        for size in (100, 1000, 10000):
            device.upload(np.zeros(size)).wait()
        gc.collect()
        os.environ["STAND_IN_FAIL"] = "cuMemAlloc_v2=2"
        try:
            device.upload(np.zeros(1 << 20))
        except CudaError as error:
            assert error.code == 2 and "cuMemAlloc" in str(error)
        else:
            raise AssertionError("no error")
        """,
    )


def test_two_devices_each_have_their_own_memory(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    check(
        tmp_path,
        without_gpu | {"STAND_IN_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "2,0"},
        """
        assert driver().devices == 2 and gpu(0).uuid != gpu(1).uuid
        first, second = gpu(0).upload(np.zeros(10)), gpu(1).upload(np.ones(10))
        assert first.device == (2, 0) and second.device == (2, 1)
        assert first.numpy().sum() == 0 and second.numpy().sum() == 10
        assert gpu(0).registrations is gpu(1).registrations, "memory is registered once, for all"
        """,
    )


def test_memory_is_registered_again_when_it_is_other_memory(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    """Once while an arena keeps its memory; anew when it has lost some, or got more; not at all where it cannot be."""
    check(
        tmp_path,
        without_gpu,
        """
        import mmap, os
        from wilkins.transport.devices.pinned import ArenaPart
        registrations = gpu(0).registrations
        file = os.open("arena", os.O_RDWR | os.O_CREAT)
        os.truncate(file, 1 << 20)
        memory = mmap.mmap(file, 1 << 20, mmap.MAP_SHARED, mmap.PROT_READ)
        base = np.frombuffer(memory, "u1").ctypes.data
        part = ArenaPart(base, 100000, 0, writable=False, kept=True, slot=0)
        steps = [({}, 1), ({}, 1), ({"length": 50000}, 1), ({"length": 200000}, 2), ({"cuts": 1}, 3), ({}, 3)]
        for change, times in steps:
            part = part._replace(**change)
            assert registrations.cover(part) and count("registrations") == times, (change, times)
        assert not registrations.cover(part._replace(base=base + (1 << 19), length=1 << 20)), "behind the file's end"
        assert not registrations.cover(part._replace(kept=False)) and not registrations.cover(None)
        assert len(registrations.refusals) == 1
        registrations.forget()
        try:
            driver()("cuMemHostUnregister", base)
        except CudaError as error:
            assert error.code == 201 or error.code == 713
        else:
            raise AssertionError("it was still registered")
        """,
    )
