"""`StepDataset(..., threads_per_host=n)`: all ranks of a host share n reading threads by what each lacks."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.running import MPIEXEC, WILKINS, must_run, run_tree, wait_for

pytestmark = pytest.mark.needs("python:torch")

WRITE = """\
import h5py
import numpy as np
for step in range(6):
    with h5py.File(f"plt{step}.h5", "w") as file:
        file["y"] = np.arange(20 * step, 20 * step + 20)
"""
TOTAL = 120


def _lacks(most: int = 6) -> st.SearchStrategy[list[Any]]:
    from wilkins.tasks.dataset.lack import Lack

    lack = st.builds(Lack, st.floats(0, 1e6) | st.integers(0, 5), st.integers(0, 12))
    return st.lists(lack, min_size=1, max_size=most)


@given(data=st.data(), budget=st.integers(1, 20))
def test_shares_are_the_whole_budget_and_each_that_lacks_has_one(data: st.DataObject, budget: int) -> None:
    from wilkins.tasks.dataset.lack import shares

    lacks = data.draw(_lacks())
    given_ = shares(lacks, budget)
    can_use = [lack.reads if lack.threads > 0 else 0 for lack in lacks]
    assert sum(given_) == min(budget, sum(can_use))
    assert all(0 <= count <= most for count, most in zip(given_, can_use, strict=True))
    if budget >= sum(most > 0 for most in can_use):
        assert all(count > 0 for count, most in zip(given_, can_use, strict=True) if most)


@given(data=st.data(), budget=st.integers(1, 20), more=st.floats(0, 1e6))
def test_who_lacks_more_has_no_fewer(data: st.DataObject, budget: int, more: float) -> None:
    """Than others, and than if it lacked less; and no other gains by it."""
    from wilkins.tasks.dataset.lack import shares

    lacks = data.draw(_lacks())
    before = shares(lacks, budget)
    for (one, mine), (other, its) in product(zip(lacks, before, strict=True), repeat=2):
        if one.threads > other.threads and one.reads >= other.reads:
            assert mine >= its
    at = data.draw(st.integers(0, len(lacks) - 1))
    lacks[at] = lacks[at]._replace(threads=lacks[at].threads + more)
    after = shares(lacks, budget)
    assert after[at] >= before[at]
    assert all(after[other] <= before[other] for other in range(len(lacks)) if other != at)


@given(lacked=st.lists(st.integers(1, 30), min_size=1, max_size=4), budget=st.integers(1, 10))
def test_the_slowest_is_as_fast_as_it_can_be(lacked: list[int], budget: int) -> None:
    """No other shares would have it ready earlier."""
    from wilkins.tasks.dataset.lack import Lack, shares

    if budget < len(lacked):
        return
    ways = (way for way in product(range(1, budget + 1), repeat=len(lacked)) if sum(way) == budget)
    best = min(max(lack / count for lack, count in zip(lacked, way, strict=True)) for way in ways)
    found = shares([Lack(lack, budget) for lack in lacked], budget)
    assert max(lack / count for lack, count in zip(lacked, found, strict=True)) == best


def test_a_process_lacks_what_is_not_read_for_each_sample_to_come() -> None:
    from wilkins.tasks.dataset.lack import Ahead

    def lack(done: int, *left: int) -> float:
        """With windows of 100 samples, of which some are to be read."""
        one = Ahead()
        for number, samples in enumerate(left, start=1):
            window = one.ask(100 * number)
            window.left = window.reads = samples
        return one.lack(done).threads

    assert lack(0) == lack(0, 0, 0) == 0
    assert lack(0, 25, 25) == pytest.approx(lack(0, 100, 100) / 4)
    assert lack(0, 0, 50) < lack(50, 0, 50) < lack(99, 0, 50) < lack(100, 0, 100)


def _lacks_four(group: str, there: Any) -> None:
    """What a process does that has joined and lacks 4 threads, until it is killed."""
    from wilkins.tasks.dataset.lack import Lack
    from wilkins.tasks.dataset.threads import Party

    party = Party(group)
    while True:
        party.share(Lack(4.0, 8), 8)
        there.set()
        time.sleep(0.01)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Starts such a process."""
    forked, all_of_them = multiprocessing.get_context("fork"), []

    def begin() -> Any:
        there = forked.Event()
        one = forked.Process(target=_lacks_four, args=(str(tmp_path), there))
        one.start()
        all_of_them.append(one)
        assert there.wait(60)
        return one

    yield begin
    for one in all_of_them:
        _kill(one)


def _kill(process: Any) -> None:
    process.kill()
    process.join()


def test_a_killed_or_stopped_process_gives_its_threads_back(tmp_path: Path, begin: Callable[[], Any]) -> None:
    """And leaves nothing behind."""
    from wilkins.tasks.dataset.lack import Lack
    from wilkins.tasks.dataset.threads import Party

    names = Path("/proc/net/unix")
    one, killed, stopped = begin(), begin(), begin()
    party = Party(str(tmp_path))
    name = party._name.decode().replace("\0", "@")

    def share() -> int:
        return party.share(Lack(4.0, 8), 8)

    wait_for(lambda: share() == 2, 30, "a share of four")
    _kill(killed)
    wait_for(lambda: share() in (2, 3), 30, "a share of three")
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_for(lambda: share() == 4, 30, "a share of two")
    os.kill(stopped.pid, signal.SIGCONT)
    wait_for(lambda: share() < 4, 30, "a share of three again")
    for other in (one, stopped):
        _kill(other)
    assert share() == 8
    assert names.read_text().count(name) == 1
    party.close()
    assert name not in names.read_text()


def test_threads_go_where_they_lack(tmp_path: Path, begin: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many reads are going on as this process has threads, more when another one dies."""
    from wilkins.tasks.dataset.lack import Ahead
    from wilkins.tasks.dataset.threads import Party, Threads

    monkeypatch.setattr(Party, "SILENT", 1 << 30)  # on a busy machine, too
    other = begin()
    begun, end = threading.Semaphore(0), threading.Event()

    def read() -> None:
        begun.release()
        end.wait()

    reading = Threads(8, str(tmp_path), Ahead(), lambda: 0)
    try:
        futures = reading.ask(20, [(1, read) for _ in range(20)])
        assert begun.acquire(timeout=30)
        wait_for(lambda: reading._party is not None and reading._limit < 8, 30, "a share of two")
        _kill(other)
        for _ in range(7):
            assert begun.acquire(timeout=30)
        assert not begun.acquire(blocking=False)
    finally:
        end.set()
        for future in futures:
            future.result(30)
        reading.close()


# The samples.


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "write.py").write_text(WRITE)
    must_run(tmp_path, sys.executable, "write.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _dataset(**own: Any) -> Any:
    from wilkins.tasks import StepDataset

    return StepDataset("plt*.h5", "y", epochs=3, **({"shuffle": 20, "batch": 7, "cache": 200} | own))


def _numbers(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch.tolist()]


@pytest.mark.usual("200")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("cache", [0, 200])
def test_samples_and_states_are_those_of_threads_that_are_not_shared(cache: int) -> None:
    whole = _numbers(_dataset(cache=cache, threads=2))
    assert _numbers(_dataset(cache=cache, threads_per_host=3)) == whole
    for stop in (5, 20, 21, 40):
        one = _dataset(cache=cache, threads_per_host=3)
        batches = iter(one)
        before = _numbers(next(batches) for _ in range(stop))
        other = _dataset(cache=cache, threads_per_host=1)
        other.load_state_dict(one.state_dict())
        assert before + _numbers(other) == whole


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_workers_share_them_too(context: str) -> None:
    from torch.utils.data import DataLoader

    def loader(**own: int) -> Any:
        return DataLoader(_dataset(**own), batch_size=None, num_workers=2, multiprocessing_context=context)

    assert _numbers(loader(threads_per_host=4)) == _numbers(loader(threads=4))


def _rank(rank: int, dies: bool, threads: dict[str, int], seen: Any) -> None:
    numbers = []
    for batch in _dataset(rank=rank, world_size=2, **threads):
        numbers += batch.tolist()
        if dies and len(numbers) > 80:
            os.kill(os.getpid(), signal.SIGKILL)
    seen.put(numbers)


@pytest.mark.usefixtures("files")
def test_a_rank_goes_on_when_another_is_killed() -> None:
    import wilkins.tasks.dataset  # noqa: F401 - before the fork

    forked = multiprocessing.get_context("fork")
    seen = forked.SimpleQueue()
    ranks = [forked.Process(target=_rank, args=(rank, rank == 1, {"threads_per_host": 3}, seen)) for rank in range(2)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(60)
    assert [one.exitcode for one in ranks] == [0, -signal.SIGKILL]
    assert seen.get() == _numbers(_dataset(rank=0, world_size=2, threads=2))


RANK = """\
import json, os
from wilkins.tasks import StepDataset
seen = []
for batch in StepDataset("plt*.h5", "y", epochs=3, shuffle=20, batch=7, cache=200, **json.loads(os.environ["THREADS"])):
    seen += batch.tolist()
with open(f"seen-{os.environ['RANK']}.json", "w") as file:
    json.dump(seen, file)
"""


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_the_ranks_of_a_run_share_them(tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(WRITE)
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {func: write.py, outports: [{filename: "plt*.h5", mode: both}]}\n'
        '  - {func: rank.py, nprocs: 2, threads: 1, inports: [{filename: "plt*.h5"}]}\n'
    )
    seen = []
    for threads in ('{"threads": 2}', '{"threads_per_host": 3}'):
        done = run_tree([*WILKINS, "run"], 180, tmp_path, {"THREADS": threads})
        assert done.code == 0, done.out + done.err
        seen.append([json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in range(2)])
    assert seen[0] == seen[1]
    assert sorted(seen[0][0] + seen[0][1]) == sorted(3 * list(range(TOTAL)))


@pytest.mark.nightly
@pytest.mark.usefixtures("files")
def test_a_program_may_end_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    program = f"""\
from wilkins.tasks import StepDataset
batches = iter(StepDataset("plt*.h5", "y", epochs=3, batch=7, cache=0, threads_per_host=2))
for _ in range({TOTAL // 7 + 3}):
    next(batches)
"""
    done = run_tree([sys.executable, "-c", program], 60, tmp_path)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"threads": 4, "threads_per_host": 8}, TypeError, "and not both"),
        ({"threads_per_host": 0}, ValueError, "threads_per_host is 0, but must be 1 or more"),
        ({"threads_per_host": "8"}, TypeError, "threads_per_host is '8', but must be a whole number"),
    ],
)
def test_what_is_wrong(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        _dataset(**options)


@pytest.mark.nightly
def test_the_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import epochs

    load = epochs.Load(steps=4, rows=32, width=64, batch=16, epochs=3)
    with epochs.Storage(1000, 0.1):
        epochs.compare_threads(tmp_path, load, [8], 1)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(epochs.RANKS)
