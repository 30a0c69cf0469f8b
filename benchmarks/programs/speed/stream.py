"""A stream of steps from one Python program to another: `stream.py ROLE WAY BYTES SHEET STEPS WARM PACED`.

ROLE is w or r, and - for messages, where the rank says it. Each way is two functions, which make ready for writing or
reading and return what does it for one step.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.programs.speed.sheet import (
    AHEAD,
    BEGIN,
    CREATED,
    OPENED,
    OPENING,
    READ,
    RELEASED,
    WAITING,
    WRITTEN,
    Sheet,
)

Array = np.ndarray[Any, np.dtype[np.float64]]
Write = Callable[[int], None]
Read = Callable[[int], Array]


def h5py_writer(data: Array, sheet: Sheet, names: int = 1000000, **options: Any) -> Write:
    """Files by h5py, whose names take turns; the layer between the programs does the waiting."""
    import h5py

    def write(step: int) -> None:
        with h5py.File(f"step-{step % names:06d}.h5", "w", **options) as file:
            dataset = file.create_dataset("x0", data.shape, data.dtype)
            sheet.note(step, CREATED)
            dataset.write_direct(data)
            sheet.note(step, WRITTEN)

    return write


def h5py_reader(data: Array, sheet: Sheet, names: int = 1000000) -> Read:
    import h5py

    def read(step: int) -> Array:
        sheet.note(step, OPENING)
        with h5py.File(f"step-{step % names:06d}.h5", "r") as file:
            sheet.note(step, OPENED)
            file["x0"].read_direct(data)
        return data

    return read


def files_writer(data: Array, sheet: Sheet) -> Write:
    """The same without a layer: the programs wait for each other by the sheet."""
    write = h5py_writer(data, sheet, AHEAD + 1)

    def write_in_turn(step: int) -> None:
        if step >= AHEAD:
            sheet.wait_for(step - AHEAD, READ)
        write(step)

    return write_in_turn


def files_reader(data: Array, sheet: Sheet) -> Read:
    read = h5py_reader(data, sheet, AHEAD + 1)

    def read_in_turn(step: int) -> Array:
        sheet.wait_for(step, RELEASED)
        return read(step)

    return read_in_turn


def core_writer(data: Array, sheet: Sheet) -> Write:
    """What h5py and HDF5 do by themselves: files of HDF5's core driver, which nobody reads."""
    return h5py_writer(data, sheet, driver="core", backing_store=False, block_size=data.nbytes + (1 << 20))


def views_writer(data: Array, sheet: Sheet) -> Write:  # noqa: ARG001
    """Channels: a step is published by one call, and read as an array over its memory."""
    import wilkins.transport

    return lambda step: wilkins.transport.publish(f"step-{step:06d}.h5", {"x0": data})


def views_reader(data: Array, sheet: Sheet) -> Read:  # noqa: ARG001
    import wilkins.transport

    channel = iter(wilkins.transport.open())

    def read(step: int) -> Array:
        sheet.note(step, OPENING)
        stored = next(channel)
        sheet.note(step, OPENED)
        array: Array = stored["x0"]
        return array

    return read


def buffers(data: Array, sheet: Sheet, mode: Any) -> Array:
    """Two buffers in shared memory, in a file beside the sheet."""
    return np.memmap(f"{sheet.path}.buffers", data.dtype, mode, shape=(2, data.size))


def hand_writer(data: Array, sheet: Sheet) -> Write:
    """Shared memory, double-buffered by hand."""
    shared = buffers(data, sheet, "w+")

    def write(step: int) -> None:
        if step >= 2:
            sheet.wait_for(step - 2, READ)
        np.copyto(shared[step % 2], data)

    return write


def hand_reader(data: Array, sheet: Sheet) -> Read:
    sheet.wait_for(0, RELEASED)  # now the buffers are there
    shared = buffers(data, sheet, "r+")

    def read(step: int) -> Array:
        sheet.wait_for(step, RELEASED)
        np.copyto(data, shared[step % 2])
        return data

    return read


def message_writer(data: Array, sheet: Sheet) -> Write:  # noqa: ARG001
    """Messages by mpi4py."""
    from mpi4py import MPI

    return lambda step: MPI.COMM_WORLD.Send(data, 1, step % 2)


def message_reader(data: Array, sheet: Sheet) -> Read:  # noqa: ARG001
    from mpi4py import MPI

    def read(step: int) -> Array:
        MPI.COMM_WORLD.Recv(data, 0, step % 2)
        return data

    return read


def close(engine: Any, adios: Any) -> None:  # noqa: ARG001
    """End a stream of ADIOS2, whose library must live until then."""
    engine.close()


def sst_writer(data: Array, sheet: Sheet) -> Write:
    """ADIOS2's SST, with a queue of two steps, as the layer has."""
    import adios2

    adios = adios2.Adios()
    io = adios.declare_io("stream")
    io.set_engine("SST")
    io.set_parameters({"QueueLimit": "2", "QueueFullPolicy": "Block", "RendezvousReaderCount": "1"})
    variable = io.define_variable("x0", data, [data.size], [0], [data.size], True)
    engine = io.open("stream", adios2.bindings.Mode.Write)
    atexit.register(close, engine, adios)

    def write(step: int) -> None:
        engine.begin_step()
        sheet.note(step, CREATED)
        engine.put(variable, data)
        sheet.note(step, WRITTEN)
        engine.end_step()

    return write


def sst_reader(data: Array, sheet: Sheet) -> Read:
    import adios2

    adios = adios2.Adios()
    io = adios.declare_io("stream")
    io.set_engine("SST")
    engine = io.open("stream", adios2.bindings.Mode.Read)
    atexit.register(close, engine, adios)

    def read(step: int) -> Array:
        sheet.note(step, OPENING)
        engine.begin_step()
        sheet.note(step, OPENED)
        engine.get(io.inquire_variable("x0"), data, adios2.bindings.Mode.Sync)
        engine.end_step()
        return data

    return read


WAYS: dict[str, tuple[Callable[[Array, Sheet], Write], Callable[[Array, Sheet], Read]]] = {
    "h5py": (h5py_writer, h5py_reader),
    "files": (files_writer, files_reader),
    "core": (core_writer, h5py_reader),
    "views": (views_writer, views_reader),
    "hand": (hand_writer, hand_reader),
    "message": (message_writer, message_reader),
    "sst": (sst_writer, sst_reader),
}


def is_writer(role: str) -> bool:
    """What this process is, by its word or by its rank."""
    if role != "-":
        return role == "w"
    from mpi4py import MPI

    rank: int = MPI.COMM_WORLD.rank
    return rank == 0


def main() -> None:
    """Write or read all steps."""
    role, way, size = sys.argv[1:4]
    sheet = Sheet(sys.argv[4:])
    data = np.arange(int(size) // 8, dtype=np.float64)
    writer, reader = WAYS[way]
    if is_writer(role):
        write = writer(data, sheet)
        for step in range(sheet.steps):
            sheet.pace(step, has_consumer=way != "core")
            data[0] = data[-1] = step
            sheet.note(step, BEGIN)
            write(step)
            sheet.note(step, RELEASED)
        return
    read = reader(data, sheet)
    for step in range(sheet.steps):
        sheet.note(step, WAITING)
        array = read(step)
        sheet.note(step, READ)
        if array[0] != step or array[-1] != step:
            raise SystemExit(f"step {step}: read {array[0]}")
        del array


if __name__ == "__main__":
    main()
