"""Processes of torch.distributed with replicas and DTensors: `FOLDER some SAVED RESTORED...` or `FOLDER killed`.

`some`: so many save, and then others restore, one alone among them. `killed`: one of two dies while they save.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.checkpoint import state_dict_loader as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.dcp import VersionReader

WHOLE = torch.arange(70 * 300, dtype=torch.float32).reshape(70, 300)


def say(line: str) -> None:
    """Print a line in one piece."""
    os.write(1, f"{line}\n".encode())


def state_of(rank: int, mesh: Any) -> dict[str, Any]:
    """What a rank saves."""
    return {
        "rows": distribute_tensor(WHOLE, mesh, [Shard(0)]),
        "columns": distribute_tensor(WHOLE, mesh, [Shard(1)]),
        "everywhere": distribute_tensor(WHOLE, mesh, [Replicate()]),
        "model": {"weight": WHOLE.bfloat16() / 7},
        "own": torch.full((5,), rank),
        "lr": 0.1,
    }


def save(rank: int, size: int, folder: str) -> None:
    """What each of those does that save."""
    with Checkpointer(folder, ranks="torch", replicated=("model",), block=4096) as checkpointer:
        checkpointer.save(3, state_of(rank, init_device_mesh("cpu", (size,))))
        checkpointer.wait()
    say(f"rank {rank} of {size} saved")


def restore(rank: int, size: int, folder: str, saved: int) -> None:
    """What each of those does that restore: into other shardings, and by torch's planner."""
    mesh = init_device_mesh("cpu", (size,))
    target = {
        "rows": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Shard(1)]),
        "columns": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
        "everywhere": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
    }
    weight = WHOLE.bfloat16() / 7
    with Checkpointer(folder, ranks="torch", replicated=("model",), block=4096) as checkpointer:
        restored = checkpointer.restore(target)
        assert restored is not None
        assert all(torch.equal(one.full_tensor(), WHOLE) for one in target.values())
        assert torch.equal(restored.state["model"]["weight"], weight)
        assert restored.missing == (() if rank < saved else ("own",))
        assert rank >= saved or torch.equal(restored.state["own"], torch.full((5,), rank))
        for one in target.values():
            one.zero_()
        planned: dict[str, Any] = {**target, "model": {"weight": torch.zeros(70, 300).bfloat16()}, "lr": 0.0}
        dcp.load(planned, storage_reader=VersionReader(Path(folder) / "latest"))
        assert all(torch.equal(one.full_tensor(), WHOLE) for one in target.values())
        assert torch.equal(planned["model"]["weight"], weight) and planned["lr"] == 0.1
    say(f"rank {rank} of {size} restored")


def save_for_ever(rank: int, size: int, folder: str) -> None:
    """Until it is told of trouble."""
    checkpointer = Checkpointer(folder, ranks="torch", replicated=("model",), block=4096)
    state = state_of(rank, init_device_mesh("cpu", (size,)))
    try:
        for step in range(1000):
            checkpointer.save(step, state | {"lr": step})
            checkpointer.wait()
    except CheckpointError as error:
        say(f"rank {rank} was told: {error}")
    finally:
        with contextlib.suppress(CheckpointError):
            checkpointer.close(failed=True)


def together(size: int, work: Callable[..., None], *words: Any) -> list[int | None]:
    """Run processes, forked so that torch is imported once; returns their exit codes."""
    with tempfile.TemporaryDirectory() as scratch:
        forked = multiprocessing.get_context("fork")
        arguments = (str(Path(scratch) / "meeting"), work, *words)
        ranks = [forked.Process(target=joined, args=(rank, size, *arguments)) for rank in range(size)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    return [one.exitcode for one in ranks]


def joined(rank: int, size: int, meeting: str, work: Callable[..., None], *words: Any) -> None:
    """One of the processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    work(rank, size, *words)
    dist.destroy_process_group()


def alone(folder: str) -> Any:
    """What one process restores."""
    with Checkpointer(folder) as checkpointer:
        restored = checkpointer.restore()
    assert restored is not None
    assert all(torch.equal(restored.state[name], WHOLE) for name in ("rows", "columns", "everywhere"))
    assert torch.equal(restored.state["own"], torch.zeros(5, dtype=torch.int64))
    return restored


def main() -> None:
    """Do what the second argument names."""
    folder, action, *counts = sys.argv[1:]
    if action == "killed":
        say(json.dumps(together(2, save_for_ever, folder)))
        restored = alone(folder)
        say(f"step {restored.step}: {restored.state['lr']}")
        return
    saved, *others = map(int, counts)
    assert not any(together(saved, save, folder))
    for size in others:
        assert not any(together(size, restore, folder, saved))
    alone(folder)
    say("alone: all right")


if __name__ == "__main__":
    main()
