"""What a program may ask for is kept: so many bytes per second to storage at most, so much of its time at most."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wilkins.tasks.checkpoint import Checkpointer, When
from wilkins.tasks.checkpoint.storage.files import File, Pace

from .conftest import Opener

BLOCK = 65536


def assert_no_faster(written: Sequence[tuple[float, int]], rate: float, threads: int) -> None:
    """In no span of time more bytes than the rate allows, and a piece per thread that had been held up before."""
    written = sorted(written)
    most = max(size for _, size in written)
    for first in range(len(written)):
        size = 0
        for when, one in written[first:]:
            size += one
            assert size <= rate * (when - written[first][0]) + (threads + 1) * most


def test_threads_together_keep_the_pace_and_save_none_up() -> None:
    pace, rate, size = Pace(2e6), 2e6, 20_000
    written: list[tuple[float, int]] = []

    def write() -> None:
        for _ in range(8):
            pace.wait(size)
            written.append((time.monotonic(), size))

    began = time.monotonic()
    for _ in range(2):
        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.1)  # which does not count
    assert time.monotonic() - began >= 46 * size / rate + 0.2
    assert_no_faster(written, rate, 3)


def test_a_pace_that_is_lifted_holds_nobody_up() -> None:
    pace = Pace(1.0)
    pace.wait(10)
    waiting = threading.Thread(target=pace.wait, args=(10,))
    waiting.start()
    pace.lift()
    waiting.join(60)
    assert not waiting.is_alive()
    pace.wait(10**9)


@pytest.mark.parametrize("memory", [False, True])
def test_storage_is_never_written_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: bool) -> None:
    """By all threads, over several versions; a level in memory is not held up."""
    storage, rate = tmp_path / "storage", 8e6
    written: list[tuple[float, int]] = []
    write, opened = File.write, File.__init__

    def note_path(self: Any, path: Path, *others: Any) -> None:
        opened(self, path, *others)
        paths[id(self)] = path

    def note(self: Any, data: memoryview, offset: int) -> None:
        if storage in paths[id(self)].parents:
            written.append((time.monotonic(), len(data)))
        write(self, data, offset)

    paths: dict[int, Path] = {}
    began = time.monotonic()
    monkeypatch.setattr(File, "__init__", note_path)
    monkeypatch.setattr(File, "write", note)
    with Checkpointer(storage, rate=rate, block=BLOCK, memory=tmp_path / "memory" if memory else False) as checkpointer:
        for step in range(3):
            checkpointer.save(step, {"x": np.full(1_000_000, step, np.uint8)})
    assert sum(size for _, size in written) >= 3_000_000
    assert max(when for when, _ in written) - began >= (3_000_000 - BLOCK) / rate
    assert_no_faster(written, rate, 2)


@pytest.mark.nightly
def test_versions_take_no_more_of_the_time_than_they_may(opened: Opener) -> None:
    """Through a ring of two blocks to slow storage, each holds the program up: so they come less often.

    They are on storage before the next step is asked for.
    """
    share = 0.1
    checkpointer = opened(when=When(overhead=share), ring=1, rate=8e6, keep=9)
    state = {"x": np.zeros(1_200_000, np.uint8)}
    calls: list[tuple[float, float]] = []
    step = 0
    while len(calls) < 4:
        step += 1
        began = time.monotonic()
        if checkpointer.save_if_due(step, lambda: state):
            calls.append((began, time.monotonic()))
        checkpointer.wait_captured()
        time.sleep(0.2)
    blocked = [one.blocked for one in checkpointer.history]
    assert min(blocked[:3]) > 0.1  # 1.1 MB at 8 MB/s, while the program waits
    for number, ((began, _), (_, ended)) in enumerate(itertools.pairwise(calls)):
        assert share * (ended - began) >= min(blocked[: number + 1])  # a mean of what those before have cost, or more
