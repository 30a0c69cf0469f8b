"""Trains a chain of linear layers with Adam, saving every step in one way; writes what it took as JSON.

Arguments: the way, MiB of parameters, tensors, batch, steps, threads, device, a folder for checkpoints, the file of
results.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint import state_dict_saver as dcp

WARM = 2


class Way:
    """A way to save: blocks in `save` and in `wait`; notes when versions were on storage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.durable: list[float] = []

    def save(self, step: int, state: Any) -> None:
        """Save, or begin to."""

    def wait(self) -> None:
        """Return when the state may change."""

    def finish(self) -> None:
        """Return when all is on storage."""

    def _path(self, step: int) -> Path:
        return self.folder / f"{step % 2}"


class Wilkins(Way):
    """This package's engine; with `trusted`, of a program that promises to wait before it changes its state."""

    def __init__(self, folder: Path, *, trusted: bool = False) -> None:
        super().__init__(folder)
        from wilkins.tasks.checkpoint import Checkpointer

        self._checkpointer = Checkpointer(folder, keep=2, trusted=trusted)

    def save(self, step: int, state: Any) -> None:
        self._checkpointer.save(step, state)

    def wait(self) -> None:
        self._checkpointer.wait_captured()

    def finish(self) -> None:
        self._checkpointer.close()
        self.durable = [one.durable or math.nan for one in self._checkpointer.history]


class TorchSave(Way):
    """`torch.save`, synced and renamed, and the folder synced, as a careful program does."""

    def save(self, step: int, state: Any) -> None:
        began = time.monotonic()
        path = self._path(step)
        with path.with_suffix(".new").open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".new").rename(path)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self.durable.append(time.monotonic() - began)


class DcpSave(Way):
    """`dcp.save`, which syncs its files."""

    def save(self, step: int, state: Any) -> None:
        began = time.monotonic()
        dcp.save(state, checkpoint_id=self._path(step))
        self.durable.append(time.monotonic() - began)


class DcpAsync(Way):
    """`dcp.async_save`: with its default stager, or with its asynchronous one, waited for before the update."""

    def __init__(self, folder: Path, stager: Any = None) -> None:
        super().__init__(folder)
        self._stager = stager
        self._staged: Any = None
        self._saved: Any = None

    def save(self, step: int, state: Any) -> None:
        if self._saved is not None:
            self._saved.result()
        began = time.monotonic()
        path = self._path(step)
        if self._stager is None:
            self._saved = dcp.async_save(state, checkpoint_id=path)
        else:
            response: Any = dcp.async_save(state, checkpoint_id=path, async_stager=self._stager)
            self._staged, self._saved = response.staging_completion, response.upload_completion
        self._saved.add_done_callback(lambda _: self.durable.append(time.monotonic() - began))

    def wait(self) -> None:
        if self._staged is not None:
            self._staged.result()

    def finish(self) -> None:
        if self._saved is not None:
            self._saved.result()


def async_stager(folder: Path) -> DcpAsync:
    """With a stager that copies in a thread."""
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    options = StagingOptions(
        use_pinned_memory=False, use_shared_memory=False, use_async_staging=True, use_non_blocking_copy=False
    )
    return DcpAsync(folder, DefaultStager(options))


WAYS: dict[str, Callable[[Path], Way]] = {
    "wilkins": Wilkins,
    "wilkins, trusted": partial(Wilkins, trusted=True),
    "torch.save": TorchSave,
    "dcp.save": DcpSave,
    "dcp.async_save": DcpAsync,
    "dcp.async_save, async stager": async_stager,
}


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Took(NamedTuple):
    """Seconds of an iteration."""

    state: float
    """Making the dicts of the state: the program's own work."""
    blocked: float
    """In the calls that save and wait."""
    computed: float
    """Forward and backward."""


class Training:
    """A model, its optimizer, and what each step took."""

    def __init__(self, mib: int, tensors: int, batch: int, device: str) -> None:
        torch.manual_seed(0)
        self._computed = torch.cuda.synchronize if device != "cpu" else int
        width = math.isqrt(mib * (1 << 20) // 4 // tensors)
        layers = [
            layer for _ in range(tensors) for layer in (torch.nn.Linear(width, width, bias=False), torch.nn.Tanh())
        ]
        self.model = torch.nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5)
        self.x = torch.randn(batch, width, device=device)

    def state(self) -> dict[str, Any]:
        """What is saved."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def step(self, number: int, way: Way | None) -> Took:
        """One iteration: save what the last one made, forward and backward, wait, update."""
        began = time.monotonic()
        state = self.state()
        stated = time.monotonic()
        if way is not None:
            way.save(number, state)
        del state
        saved = time.monotonic()
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self._computed()
        computed = time.monotonic()
        if way is not None:
            way.wait()
        waited = time.monotonic()
        self.optimizer.step()
        self._computed()
        return Took(stated - began, (saved - stated) + (waited - computed), computed - saved)


def timed(training: Training, steps: int, way: Way | None) -> tuple[list[Took], float, float]:
    """Iterations; CPU seconds and seconds of all of them, with what is still on its way afterwards in the first."""
    cpu, began = cpu_seconds(), time.monotonic()
    took = [training.step(WARM + number, way) for number in range(steps)]
    wall = time.monotonic() - began
    if way is not None:
        way.finish()
    return took, cpu_seconds() - cpu, wall


def main() -> None:
    """Train without saving, with, and without again; write what differs."""
    name, mib, tensors, batch, steps, threads, device, folder, result = sys.argv[1:]
    torch.set_num_threads(int(threads))
    warnings.filterwarnings("ignore", module="torch.distributed")  # that it is one process, and overwrites
    training = Training(int(mib), int(tensors), int(batch), device)
    count = int(steps)
    for _ in range(WARM):
        training.step(0, None)
    before = timed(training, -(-count // 2), None)
    path = Path(folder)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    way = WAYS[name](path)
    for number in range(WARM):
        training.step(number, way)
    gc.collect()
    took, cpu, wall = timed(training, count, way)
    after = timed(training, -(-count // 2), None)
    plain = before[0] + after[0]
    step = (before[2] + after[2]) / len(plain)
    Path(result).write_text(
        json.dumps(
            {
                "state": [one.state for one in took],
                "blocked": [one.blocked for one in took],
                "computed": [one.computed for one in took],
                "plain": [one.computed for one in plain],
                "durable": way.durable[WARM:],
                "cpu": cpu / count - (before[1] + after[1]) / len(plain),
                "wall": wall / count - step,
                "step": step,
            }
        )
    )


if __name__ == "__main__":
    main()
