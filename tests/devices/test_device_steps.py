"""Steps to and from GPUs in runs: tasks that publish device arrays, and tasks that read on a device."""

from __future__ import annotations

from pathlib import Path

from devices.device_runs import coupled

MAKE = """
for k in range(6):
    with h5py.File(f"s{k}.h5", "w") as file:
        file["x"] = np.arange(300000.0) + k
        file.create_dataset("packed", data=np.arange(5000) * k, chunks=(500,), compression=1)
"""


def test_a_dataset_comes_from_the_arena_to_the_device(tmp_path: Path, cuda: dict[str, str]) -> None:
    """Any program writes; the reader's copies come from registered memory, which is registered once per arena."""
    coupled(
        tmp_path,
        cuda,
        MAKE,
        """
        kept = []
        slots = set()
        for step in wilkins.transport.open("s*.h5"):
            k = step.index
            x = step.buffer("x", device="cuda")
            assert step.buffer("/x", device="cuda:0") is x, "one copy on a device"
            part = step.buffer("x", slice(10, 20), device="cuda")
            packed = step.buffer("packed", device="cuda")
            slots.add(step["x"].ctypes.data)
            step.release()
            assert np.array_equal(x.numpy(), np.arange(300000.0) + k)
            assert np.array_equal(part.numpy(), np.arange(10.0, 20) + k)
            assert np.array_equal(packed.numpy(), np.arange(5000) * k)
            kept.append(x)
        assert len(kept) == 6
        for k, x in enumerate(kept):
            assert x.numpy()[0] == k
        if STAND_IN:
            # Back to pageable memory: .numpy(), and the packed one, which HDF5 reads into such memory.
            assert count("pageable bytes") == 6 * (300000 * 8 * 2 + 80 + 5000 * 8 * 2)
            assert count("registrations") <= 2 * len(slots), (count("registrations"), slots)
        """,
    )


def test_memory_that_cannot_be_registered_costs_speed_and_nothing_else(
    tmp_path: Path, without_gpu: dict[str, str]
) -> None:
    coupled(
        tmp_path,
        without_gpu | {"STAND_IN_FAIL": "cuMemHostRegister_v2=801"},
        MAKE,
        """
        from wilkins.transport.devices.cuda import gpu
        for step in wilkins.transport.open("s*.h5"):
            x = step.buffer("x", device="cuda")
            assert np.array_equal(x.numpy(), np.arange(300000.0) + step.index)
        assert step.index == 5 and count("registrations") == 0
        assert all("CUDA_ERROR_801" in why for why in gpu(0).registrations.refusals.values())
        """,
    )


def test_pinned_steps_are_arrays_of_the_host(tmp_path: Path, cuda: dict[str, str]) -> None:
    """The program copies them to its GPU itself, from registered memory."""
    coupled(
        tmp_path,
        cuda,
        MAKE,
        """
        from wilkins.transport.devices.cuda import gpu
        for step in wilkins.transport.open("s*.h5"):
            x = step.buffer("x", device="pinned")
            assert x.__dlpack_device__() == (1, 0) and np.shares_memory(x.array, step["x"])
            on_gpu = gpu(0).upload(x.array)
            if STAND_IN:
                assert count("registrations") > 0 and count("pageable bytes") == 0
            on_gpu.wait()
        assert step.index == 5
        """,
    )


def test_steps_of_changing_size_stay_right(tmp_path: Path, cuda: dict[str, str]) -> None:
    """An arena that lost memory and got other memory is registered anew."""
    coupled(
        tmp_path,
        cuda,
        """
        for k in range(12):
            with h5py.File(f"s{k}.h5", "w") as file:
                file["x"] = np.arange(400000.0 if k % 3 == 0 else 1000.0 * (k + 1)) + k
        """,
        """
        for step in wilkins.transport.open("s*.h5"):
            k = step.index
            size = 400000 if k % 3 == 0 else 1000 * (k + 1)
            assert np.array_equal(step.buffer("x", device="auto").numpy(), np.arange(float(size)) + k)
        assert k == 11
        """,
    )


def test_device_arrays_are_published_and_any_program_reads_them(tmp_path: Path, cuda: dict[str, str]) -> None:
    coupled(
        tmp_path,
        cuda,
        """
        x, scalar, empty = DeviceArray(np.zeros(300000)), DeviceArray(np.float32(2.5)), DeviceArray(np.zeros((0, 3)))
        flipped = DeviceArray(np.arange(12.0).reshape(3, 4), stream=1)
        flipped.shape, flipped.strides = (4, 3), (8, 32)
        for k in range(6):
            x.set(np.arange(300000.0) * k)
            wilkins.transport.publish(
                f"s{k}.h5", {"x": x, "g": {"scalar": scalar, "empty": empty, "flipped": flipped}}, attrs={"k": k}
            )
            x.set(np.full(300000, -1.0))
        if STAND_IN:
            assert count("pageable bytes") == 0 and count("host bytes") == 6 * (300000 * 8 + 4 + 12 * 8)
        """,
        """
        for k in range(6):
            with h5py.File(f"s{k}.h5") as file:
                assert file.attrs["k"] == k
                assert np.array_equal(file["x"][:], np.arange(300000.0) * k)
                assert file["g/scalar"][()] == 2.5 and file["g/empty"].shape == (0, 3)
                assert np.array_equal(file["g/flipped"][:], np.arange(12.0).reshape(3, 4).T)
        """,
    )


def test_a_gpu_that_is_asked_for_and_not_there_is_told(tmp_path: Path, without_gpu: dict[str, str]) -> None:
    coupled(
        tmp_path,
        without_gpu | {"CUDA_VISIBLE_DEVICES": ""},
        MAKE,
        """
        import os
        os.environ["WILKINS_DEVICES"] = '{"s*.h5": {"device": "auto", "path": "host"}}'
        for step in wilkins.transport.open("s*.h5"):
            assert np.array_equal(np.from_dlpack(step.buffer("x")), np.arange(300000.0) + step.index)
            for ask in (lambda: step.buffer("x", device="cuda"), lambda: step.cupy("x")):
                try:
                    ask()
                except LookupError as error:
                    assert "no CUDA-capable device" in str(error)
                else:
                    raise AssertionError
        """,
    )
