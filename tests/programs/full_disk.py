"""Checkpoints on a disk that is full: `FOLDER OPTIONS`, on any number of ranks; the disk is a small one that is FOLDER.

It is filled so that a version fails here and there: for want of pages, for its data, an index or the manifest; for want
of names, for its folder, its files or the link. Prints what happened.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Shard
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage

PAGE = 4096


def state_of(step: int, rank: int, size: int) -> dict[str, Any]:
    """What a rank holds at a step."""
    rng = np.random.default_rng(step)
    whole = rng.standard_normal((size, 3000))
    return {"step": step, "same": rng.integers(0, 99, 9000), "grid": Shard(whole[rank:][:1], whole.shape, (rank, 0))}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two states are the same."""
    alike = one["step"] == other["step"] and one["same"].tobytes() == other["same"].tobytes()
    return bool(alike and one["grid"].array.tobytes() == other["grid"].array.tobytes())


class Disk:
    """A small disk, and what fills it."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"
        self._names = folder / "names"
        self._names.mkdir()
        self._folder = folder

    def leave(self, pages: int | None, names: int | None) -> None:
        """Fill it but for so many pages, or so many names."""
        if pages is not None:
            free = os.statvfs(self._folder).f_bavail
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, (free - pages) * PAGE)
        if names is not None:
            for number in range(os.statvfs(self._folder).f_favail - names):
                (self._names / str(number)).touch()

    def empty(self) -> None:
        """Make room."""
        self._ballast.unlink(missing_ok=True)
        for one in self._names.iterdir():
            one.unlink()


def try_to_save(checkpointer: Checkpointer, step: int, state: dict[str, Any]) -> str:
    """Returns what is told, or nothing."""
    try:
        checkpointer.save(step, state)
        checkpointer.wait()
    except CheckpointError as error:
        return str(error)
    return ""


def main() -> None:
    """Fill the disk in every way, and look at what is there. With `memory` elsewhere, copies to the disk fail."""
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    world: Any = None
    if "PMI_SIZE" in os.environ:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
    rank, size = (world.rank, world.size) if world else (0, 1)

    def together() -> None:
        if world:
            world.Barrier()

    where = folder / "versions"
    given = {"folder": where, "replicated": ("same",), "keep": 2, "block": PAGE, **options}
    behind = given["folder"] == where and "memory" in given
    with Checkpointer(ranks=world, **given) as saver:
        disk = Disk(folder) if rank == 0 else None
        saver.save(0, state_of(0, rank, size))
        saver.save(1, state_of(1, rank, size))
        saver.wait()
        took = sum(-(-one.stat().st_size // PAGE) for one in (where / "000002-step-1").iterdir())
        newest, failed = 1, Counter[str]()
        cases = [(pages, None) for pages in range(took + 9)] + [(None, names) for names in range(5 + 2 * size)]
        for step, (pages, names) in enumerate(cases, 2):
            if disk is not None:
                disk.leave(pages, names)
            together()
            told = try_to_save(saver, step, state_of(step, rank, size))
            assert "No space left on device; free space there" in told if told else True, told
            failed[f"{'pages' if names is None else 'names'} {'told' if told else 'fits'}"] += 1
            together()
            there = versions.versions(where)
            # Whole but for its link, which found no room: told as well, and there all the same.
            assert [one.step for one in there][-1] in ((newest, step) if told else (step,)), (told, there)
            newest = there[-1].step
            assert len(there) <= 3 and not any(damage(one) for one in there)
            linked = where / "latest"
            assert linked.resolve() in [one.path.resolve() for one in there], linked.readlink()
            assert told or linked.readlink().name == there[-1].name
            assert not [one for one in where.iterdir() if one.name.endswith((".new", ".old"))]
            together()
            restored = saver.restore()
            expected = step if behind else newest  # what finds no room on storage is in memory
            assert restored is not None and restored.step == expected, (restored, expected)
            assert same(restored.state, state_of(expected, rank, size))
            together()
            if disk is not None:
                disk.empty()
            together()
        if rank == 0:
            os.write(1, f"{json.dumps(failed, sort_keys=True)}\n".encode())


if __name__ == "__main__":
    main()
