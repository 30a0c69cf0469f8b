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


def expected(step: int) -> Any:
    """The values of a step."""
    return np.arange(COUNT, dtype="f4") + np.float32(step)


def on_gpu(step: Any) -> Any:
    """Its dataset on the GPU."""
    return step.buffer("x", device="cuda")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def raw() -> float:
    """Milliseconds of the driver's own copy from its own pinned memory to the device."""
    device = gpu(0)
    size = 4 * COUNT
    with device.current():
        host = ctypes.c_void_p()
        library = ctypes.CDLL("libcuda.so.1")
        assert not library.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), 0)
        to = device.allocate(size)

        def copy() -> None:
            device.driver("cuMemcpyHtoDAsync_v2", to, host.value, size, device.stream)
            device.driver("cuStreamSynchronize", device.stream)

        return statistics.median([timed(copy) for _ in range(WARM + 10)][WARM:])


def read() -> dict[str, float]:
    """Bring each step's dataset to the GPU, as a torch tensor if torch can use it."""
    try:
        import torch

        by = "torch" if torch.cuda.is_available() else "buffer"
    except ModuleNotFoundError:
        by = "buffer"
    times = []
    for step in wilkins.transport.open():
        _ = step.file["x"].shape  # the step's file is open

        def bring(step: wilkins.transport.Step = step) -> None:
            if by == "torch":
                step.torch("x", device="cuda")
            on_gpu(step).wait()

        times.append(timed(bring))
        assert np.array_equal(on_gpu(step).numpy(), expected(step.index)), f"step {step.index}"
    return {"as a torch tensor": float(by == "torch"), "step": statistics.median(times[WARM:]), "raw": raw()}


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
