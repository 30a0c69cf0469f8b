"""Processes of torch.distributed with replicas and DTensors: `FOLDER ACTION COUNTS`.

`some SAVED RESTORED...`: so many save, and then others restore, one alone among them. `lost`: three save in the memory
of a node each, with parity, one node is lost, and two restore. `killed`: one of two dies while they save. `fsdp SAVED
RESTORED...`: the same as `some`, of a model that torch shards, and its optimizer.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
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

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Partners
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


def in_memory(rank: int, folder: str) -> dict[str, Any]:
    """Options of a rank that is alone on its node."""
    return {"memory": f"{folder}-memory{rank}", "node": f"node{rank}"}


def keep(rank: int, size: int, folder: str) -> None:
    """What each of those does that save in memory only, and end without a word."""
    partners = Partners(size - 1, 1)
    options: dict[str, Any] = {"storage_every": 9, "partners": partners, **in_memory(rank, folder)}
    checkpointer = Checkpointer(folder, ranks="torch", replicated=("model",), block=4096, **options)
    checkpointer.save(3, state_of(rank, init_device_mesh("cpu", (size,))))
    checkpointer.wait()
    say(f"rank {rank} of {size} saved")
    dist.barrier()
    os._exit(0)


def restore(rank: int, size: int, folder: str, saved: int, *, memory: bool = False) -> None:
    """What each of those does that restore: into other shardings, and by torch's planner."""
    mesh = init_device_mesh("cpu", (size,))
    target = {
        "rows": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Shard(1)]),
        "columns": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
        "everywhere": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
    }
    weight = WHOLE.bfloat16() / 7
    options: dict[str, Any] = in_memory(rank, folder) if memory else {}
    with Checkpointer(folder, ranks="torch", replicated=("model",), block=4096, **options) as checkpointer:
        restored = checkpointer.restore(target, allow_missing=("model", "own"))
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


def sharded(steps: int) -> tuple[Any, Any]:
    """A model that torch shards over the ranks, after some updates: what is saved of it, and all its values."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(steps)
    model = torch.nn.Sequential(torch.nn.Linear(40, 70), torch.nn.Linear(70, 3))
    for one in (*model, model):
        fully_shard(one)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 40)).square().mean().backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    return state, lambda: [
        value.full_tensor() if hasattr(value, "full_tensor") else value
        for value in (*model.state_dict().values(), *(v for one in optimizer.state.values() for v in one.values()))
    ]


def save_sharded(rank: int, size: int, folder: str) -> None:
    """After three updates; all values go to a file, for those that restore."""
    state, values = sharded(3)
    with Checkpointer(folder, ranks="torch", block=4096) as checkpointer:
        checkpointer.save(3, state)
    found = values()
    if rank == 0:
        torch.save(found, f"{folder}.expected")
    say(f"rank {rank} of {size} saved")


def restore_sharded(rank: int, size: int, folder: str) -> None:
    """To a model that has other values, also in what each rank has whole."""
    state, values = sharded(1)
    expected = torch.load(f"{folder}.expected")
    assert not all(map(torch.equal, values(), expected))
    with Checkpointer(folder, ranks="torch", block=4096) as checkpointer:
        restored = checkpointer.restore(state)
        assert restored is not None and not restored.missing
        found = values()
        assert len(found) == len(expected) and all(map(torch.equal, found, expected))
        state["own"] = torch.zeros(2)
        if rank != size - 1:
            del state["own"]
        try:
            checkpointer.restore(state)
        except CheckpointError as error:
            say(f"rank {rank} of {size} restored: {error}")


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


def restore_lost(rank: int, size: int, folder: str, saved: int) -> None:
    """From the memory of nodes."""
    restore(rank, size, folder, saved, memory=True)


def main() -> None:
    """Do what the second argument names."""
    folder, action, *counts = sys.argv[1:]
    if action == "lost":
        assert not any(together(3, keep, folder))
        assert not [one for one in Path(folder).iterdir() if one.name.startswith("0")]
        shutil.rmtree(f"{folder}-memory2")
        assert not any(together(2, restore_lost, folder, 3))
        alone(folder)
        say(f"alone: all right; {len(list(Path(folder).parent.glob('*-memory*')))} folders in memory")
        return
    if action == "killed":
        say(json.dumps(together(2, save_for_ever, folder)))
        restored = alone(folder)
        say(f"step {restored.step}: {restored.state['lr']}")
        return
    saved, *others = map(int, counts)
    if action == "fsdp":
        assert not any(together(saved, save_sharded, folder))
        for size in others:
            assert not any(together(size, restore_sharded, folder))
        return
    assert not any(together(saved, save, folder))
    for size in others:
        assert not any(together(size, restore, folder, saved))
    alone(folder)
    say("alone: all right")


if __name__ == "__main__":
    main()
