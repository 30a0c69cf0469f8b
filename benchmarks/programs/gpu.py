"""A task of the GPU measurements: `write` and `publish` make steps, `read` and `share` bring them to the GPU."""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import wilkins.transport
from wilkins.transport.devices.cuda import gpu

PART, STEPS, MIB = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
COUNT = MIB << 18
WARM = 3
PAUSE = 0.3
"""Seconds before a step is published, in which its reader is done with the one before: nobody waits for room."""


def expected(step: int) -> Any:
    """The values of a step."""
    return np.arange(COUNT, dtype="f4") + np.float32(step)


def on_gpu(step: Any) -> Any:
    """The step's dataset on the GPU."""
    return step.buffer("x", device="cuda")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def raw(host: int | None = None, *, back: bool = False) -> float:
    """Milliseconds of the driver's own copy to the device, or `back`: of `host` memory, or else of its own pinned."""
    device = gpu(0)
    size = 4 * COUNT
    with device.current():
        if host is None:
            pinned = ctypes.c_void_p()
            library = ctypes.CDLL("libcuda.so.1")
            assert not library.cuMemHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(size), 0)
            host = pinned.value
        there = device.allocate(size)
        call, to, source = ("cuMemcpyDtoHAsync_v2", host, there) if back else ("cuMemcpyHtoDAsync_v2", there, host)

        def copy() -> None:
            device.driver(call, to, source, size, device.stream)
            device.driver("cuStreamSynchronize", device.stream)

        times = [timed(copy) for _ in range(WARM + 10)]
        device.driver("cuMemFree_v2", there)
        return statistics.median(times[WARM:])


def read() -> dict[str, float]:
    """Bring each step's dataset to the GPU, as a torch tensor if torch can use it, and wait for it as torch does."""
    try:
        import torch

        by = "torch" if torch.cuda.is_available() else "buffer"
    except ModuleNotFoundError:
        by = "buffer"
    times, asked = [], []
    for step in wilkins.transport.open():
        _ = step.file["x"].shape  # the step's file is open
        began = time.perf_counter()
        array = step.torch("x", device="cuda") if by == "torch" else on_gpu(step)
        asked.append((time.perf_counter() - began) * 1e3)
        if by == "torch":
            torch.cuda.current_stream().synchronize()
        else:
            on_gpu(step).wait()
        times.append((time.perf_counter() - began) * 1e3)
        del array
        assert np.array_equal(on_gpu(step).numpy(), expected(step.index)), f"step {step.index}"
        if step.index == STEPS - 1:
            arena = raw(step["x"].ctypes.data)
    return {
        "as a torch tensor": float(by == "torch"),
        "step": statistics.median(times[WARM:]),
        "asked": statistics.median(asked[WARM:]),
        "raw": raw(),
        "raw from the arena": arena,
        "not registered": float(len(gpu(0).registrations.refusals)),
    }


def share() -> dict[str, float]:
    """Take steps of a producer on the same GPU."""
    times, late = [], []
    before = 0
    for step in wilkins.transport.open():
        late.append((time.time() - float(step.attrs["published"])) * 1e3)
        times.append(timed(on_gpu(step).wait))
        if step.index == WARM:
            before = gpu(0).host_bytes
        if step.index == STEPS - 1:
            copied = gpu(0).host_bytes - before
            assert np.array_equal(on_gpu(step).numpy(), expected(step.index))
    return {"host bytes of the reader": copied, "latency": statistics.median(late[WARM:])}


def publish() -> dict[str, float]:
    """Publish a device array, again and again."""
    device = gpu(0)
    times = []
    before = 0
    for k in range(STEPS):
        array = device.upload(expected(k))
        array.wait()
        if k == WARM:
            before = device.host_bytes
        uploaded = 4 * COUNT * (k - WARM)
        time.sleep(PAUSE)
        times.append(
            timed(
                lambda array=array, k=k: wilkins.transport.publish(  # type: ignore[misc]
                    f"s{k:03}.h5", {"x": array}, attrs={"published": time.time()}
                )
            )
        )
        # The first step goes through the host until every reader has shown that it can open the memory.
        while k == 0 and _shares() and not list(Path(os.environ["WILKINS_RUN"]).glob("ipc-*.*")):
            time.sleep(0.01)
    return {
        "host bytes of the writer": device.host_bytes - before - uploaded,
        "publish": statistics.median(times[WARM:]),
        "raw to the host": raw(back=True),
    }


def _shares() -> bool:
    return '"ipc": true' in os.environ.get("WILKINS_DEVICES", "")


def write() -> dict[str, float]:
    """Write steps by h5py, from host memory."""
    for k in range(STEPS):
        with h5py.File(f"s{k:03}.h5", "w") as file:
            file["x"] = expected(k)
    return {}


def main() -> None:
    """Do one part."""
    found = {"read": read, "share": share, "publish": publish, "write": write}[PART]()
    print("measured", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
