"""A program of several ranks that checkpoints NumPy arrays: `ACTION FOLDER WORDS`, see the functions."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from same_state import same  # type: ignore[import-not-found] # it lies beside this program, which tests start

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Partners, Shard

ROWS, COLUMNS = 13, 1 << 13


def comm() -> Any:
    """The world, if there is one."""
    if not any(name in os.environ for name in ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE")):
        return None
    from mpi4py import MPI

    return MPI.COMM_WORLD


def say(line: str, mine: bool = True) -> None:
    """Print a line in one piece, so that those of several ranks do not mix."""
    if mine:
        os.write(1, f"{line}\n".encode())


def rows_of(rank: int, size: int) -> tuple[int, int]:
    """The rows of the shared array that a rank holds."""
    return ROWS * rank // size, ROWS * (rank + 1) // size


def grid(step: int) -> Any:
    """All of the shared array at a step."""
    return np.random.default_rng(step).standard_normal((ROWS, COLUMNS))


def state_of(step: int, rank: int, size: int) -> dict[str, Any]:
    """What a rank holds at a step; everything in it tells the step."""
    low, high = rows_of(rank, size)
    rng = np.random.default_rng(1000 + step)
    return {
        "model": {"weight": rng.integers(0, 255, 300_001, np.uint8), "bias": rng.standard_normal(7)},
        "optimizer": {0: {"moment": rng.standard_normal((3, 50_000))}, "lr": 0.1 / (1 + step)},
        "grid": Shard(grid(step)[low:high], (ROWS, COLUMNS), (low, 0)),
        "own": np.full(1000 + rank, 100 * step + rank, np.int32),
        "words": ["step", step, None, (True, float("inf"))],
    }


def open_in(folder: str, world: Any, **options: Any) -> Checkpointer:
    """With a ring that is smaller than the state, so that everything goes through it in pieces.

    `nodes` says how many there are to be, with as many ranks each; 0: what the host names tell. `{node}` in `memory` is
    replaced by the node's name.
    """
    if "nodes" in options:
        rank, size, nodes = (world.rank, world.size, options.pop("nodes")) if world else (0, 1, options.pop("nodes"))
        node = f"node{rank * nodes // size}" if nodes else os.uname().nodename
        options |= {"node": node if nodes else None, "memory": options["memory"].format(node=node)}
        if options.get("partners"):
            options["partners"] = Partners(*options["partners"])
    given: dict[str, Any] = {"ranks": world, "replicated": ("model", "optimizer"), "keep": 3, "ring": 1, "block": 65536}
    return Checkpointer(folder, **given | options)


def run(folder: str, world: Any, steps: int, pause: float = 0.0, **options: Any) -> None:
    """Resume where a checkpoint says, checking it, and save up to a step; print each step that is on storage."""
    rank, size = (world.rank, world.size) if world else (0, 1)
    say(f"rank {rank} is process {os.getpid()}")
    with open_in(folder, world, **options) as checkpointer:
        say("restoring", rank == 0)
        restored = checkpointer.restore()
        first = 0
        if restored is not None:
            assert same(restored.state, state_of(restored.step, rank, size)), f"step {restored.step} differs"
            say(f"resumed {restored.step}", rank == 0)
            first = restored.step + 1
        say("restored", rank == 0)
        for step in range(first, steps):
            checkpointer.save(step, state_of(step, rank, size))
            time.sleep(pause)
            checkpointer.wait_captured()
            if step % 4 == 3:
                checkpointer.wait()
                say(f"durable {step}", rank == 0)


def restore(folder: str, world: Any, saved_ranks: int, **options: Any) -> None:
    """Restore the newest version on this many ranks, from that many: shards, replicas and what was a rank's own."""
    rank, size = (world.rank, world.size) if world else (0, 1)
    low, high = rows_of(rank, size)
    with open_in(folder, world, **options) as checkpointer:
        target: dict[str, Any] = {"grid": Shard(np.zeros((high - low, COLUMNS)), (ROWS, COLUMNS), (low, 0))}
        if size == saved_ranks:
            target["own"] = np.zeros(1000 + rank, np.int32)
        restored = checkpointer.restore(target, allow_missing=("model", "optimizer", "own"))
        assert restored is not None
        expected = state_of(restored.step, rank % saved_ranks, saved_ranks)
        assert same(target["grid"], Shard(grid(restored.step)[low:high], (ROWS, COLUMNS), (low, 0)))
        assert restored.state["grid"] is target["grid"]
        for name in ("model", "optimizer", "words"):
            assert same(restored.state[name], expected[name]), name
        if rank < saved_ranks:
            assert same(restored.state["own"], expected["own"])
        else:
            assert "own" not in restored.state and restored.missing == ("own",)
        whole = checkpointer.restore()
        assert whole is not None
        got = whole.state["grid"]
        assert same(got, expected["grid"]) if size == saved_ranks else same(got, grid(restored.step))
    say(f"rank {rank} of {size}: all right")


def trouble(folder: str, world: Any, kind: str) -> None:
    """What all ranks are told when one holds other replicas, or cannot write."""
    rank, size = world.rank, world.size
    with open_in(folder, world) as checkpointer:
        checkpointer.save(0, state_of(0, rank, size))
        checkpointer.wait()
        state = state_of(1, rank, size)
        if kind == "corrupt" and rank == size - 1:
            state["model"]["weight"][70_000] ^= 4
        if kind == "shape" and rank == size - 1:
            state["model"]["weight"] = state["model"]["weight"][1:]
        if kind == "step":
            checkpointer.save(1 + rank, state)
        else:
            checkpointer.save(1, state)
        try:
            checkpointer.wait()
        except CheckpointError as error:
            say(json.dumps([rank, str(error)]))
        checkpointer.save(5, state_of(5, rank, size))
        checkpointer.wait()
    names = sorted(entry.name for entry in Path(folder).iterdir())
    world.Barrier()
    say(json.dumps(names), rank == 0)


def main() -> None:
    """Do what the first argument names."""
    action, folder, *words = sys.argv[1:]
    world = comm()
    if action == "run":
        options = json.loads(words[2]) if len(words) > 2 else {}
        run(folder, world, int(words[0]), float(words[1]) if len(words) > 1 else 0.0, **options)
    elif action == "restore":
        restore(folder, world, int(words[0]), **(json.loads(words[1]) if len(words) > 1 else {}))
    else:
        trouble(folder, world, words[0])


if __name__ == "__main__":
    main()
