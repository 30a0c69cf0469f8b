"""Ranks that are threads of one process: for what needs many of them, and no kill."""

from __future__ import annotations

import pickle
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from wilkins.tasks.group import Group

T = TypeVar("T")
LIMIT = 60


class _World:
    """What the threads share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size)
        self.values = [b""] * size
        self.pipes: dict[tuple[int, int], queue.SimpleQueue[bytes]] = defaultdict(queue.SimpleQueue)
        self.lock = threading.Lock()
        self.others: dict[int, _World] = {}


class ThreadRanks(Group):
    """One of the ranks."""

    def __init__(self, world: _World, rank: int) -> None:
        self._world, self.rank, self.size = world, rank, world.size
        self._made = 0

    def allgather(self, value: T) -> list[T]:
        self._world.values[self.rank] = pickle.dumps(value)
        self._world.barrier.wait(LIMIT)
        found = [pickle.loads(one) for one in self._world.values]
        self._world.barrier.wait(LIMIT)
        return found

    def exchange(self, send: Mapping[int, Any], receive: Mapping[int, Any]) -> None:
        for rank, data in send.items():
            self._pipe(self.rank, rank).put(bytes(data))
        for rank, data in receive.items():
            found = self._pipe(rank, self.rank).get(timeout=LIMIT)
            assert len(found) == len(data)
            data[:] = bytearray(found)

    def _pipe(self, source: int, to: int) -> queue.SimpleQueue[bytes]:
        with self._world.lock:
            return self._world.pipes[source, to]

    def dup(self) -> ThreadRanks:
        self._made += 1
        with self._world.lock:
            world = self._world.others.setdefault(self._made, _World(self.size))
        return ThreadRanks(world, self.rank)


def on_ranks(size: int, work: Callable[[ThreadRanks], T]) -> list[T]:
    """What a function returns on each rank; raises what the first of them raised."""
    world, found, errors = _World(size), {}, {}

    def run(rank: int) -> None:
        try:
            found[rank] = work(ThreadRanks(world, rank))
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LIMIT)
    if errors:
        raise errors[min(errors)]
    assert len(found) == size, "some ranks still wait"
    return [found[rank] for rank in range(size)]
