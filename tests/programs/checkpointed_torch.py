"""Two processes of torch.distributed save replicas and DTensors; they, and then one process, restore them."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.checkpoint import state_dict_loader as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from wilkins.tasks.checkpoint import Checkpointer
from wilkins.tasks.checkpoint.dcp import VersionReader

WHOLE = torch.arange(70 * 300, dtype=torch.float32).reshape(70, 300)


def say(line: str) -> None:
    """Print a line in one piece."""
    os.write(1, f"{line}\n".encode())


def rank_main(rank: int, folder: str, meeting: str) -> None:
    """What each of the two does."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state: dict[str, Any] = {
        "rows": distribute_tensor(WHOLE, mesh, [Shard(0)]),
        "columns": distribute_tensor(WHOLE, mesh, [Shard(1)]),
        "everywhere": distribute_tensor(WHOLE, mesh, [Replicate()]),
        "model": {"weight": WHOLE.bfloat16() / 7},
        "own": torch.full((5,), rank),
        "lr": 0.1,
    }
    with Checkpointer(folder, ranks="torch", replicated=("model",), block=4096) as checkpointer:
        checkpointer.save(3, state)
        checkpointer.wait()
        target = {
            "rows": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Shard(1)]),
            "columns": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
            "everywhere": distribute_tensor(torch.zeros_like(WHOLE), mesh, [Replicate()]),
        }
        restored = checkpointer.restore(target)
        assert restored is not None and not restored.missing
        assert all(torch.equal(one.full_tensor(), WHOLE) for one in target.values())
        assert torch.equal(restored.state["model"]["weight"], state["model"]["weight"])
        assert torch.equal(restored.state["own"], state["own"])
        for one in target.values():
            one.zero_()
        planned: dict[str, Any] = {**target, "model": {"weight": torch.zeros(70, 300).bfloat16()}, "lr": 0.0}
        dcp.load(planned, storage_reader=VersionReader(Path(folder) / "latest"))
        assert all(torch.equal(one.full_tensor(), WHOLE) for one in target.values())
        assert torch.equal(planned["model"]["weight"], state["model"]["weight"]) and planned["lr"] == 0.1
    say(f"rank {rank}: all right")
    dist.destroy_process_group()


def main() -> None:
    """Save by two, restore by one."""
    folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        # Forked, so that torch is imported once.
        forked = multiprocessing.get_context("fork")
        meeting = str(Path(scratch) / "meeting")
        ranks = [forked.Process(target=rank_main, args=(rank, folder, meeting)) for rank in (0, 1)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    assert not any(one.exitcode for one in ranks)
    with Checkpointer(folder) as checkpointer:
        restored = checkpointer.restore()
    assert restored is not None
    assert all(torch.equal(restored.state[name], WHOLE) for name in ("rows", "columns", "everywhere"))
    assert torch.equal(restored.state["own"], torch.zeros(5, dtype=torch.int64))
    say("alone: all right")


if __name__ == "__main__":
    main()
