"""Writers and removers of one store are killed: every model that is there is whole, none is lost, and nothing is left.

They are killed before each call that changes files, and at random moments while others are at work.
`WILKINS_TEST_KILLS` says how many of the latter, `WILKINS_TEST_SEED` at which moments.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from wilkins.tasks.models import ModelStore

from .conftest import chain, state_of

PROGRAM = Path(__file__).parents[1] / "programs" / "model_store.py"
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
AT_ONCE = ("write", "write", "remove")
LIMIT = 60.0


@dataclass
class Worker:
    """A process that puts models, or removes some."""

    what: str
    log: Path
    process: subprocess.Popen[bytes]

    def has_begun(self) -> bool:
        return b"begins\n" in self.log.read_bytes()


class Workers:
    """Some at once, in one store; each kill is followed by a new one."""

    def __init__(self, folder: Path) -> None:
        self.store, self.logs = folder / "store", folder / "logs"
        self.logs.mkdir()
        self._count = 0
        self.now = [self.started(what) for what in AT_ONCE]

    def started(self, what: str) -> Worker:
        self._count += 1
        log = self.logs / f"{self._count}-{what}"
        words = [sys.executable, str(PROGRAM), what, str(self.store), f"{SEED} {self._count}"]
        with log.open("wb") as file:
            return Worker(what, log, subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT))

    def kill(self, place: int) -> None:
        worker = self.now[place]
        assert worker.process.poll() is None, worker.log.read_text()
        worker.process.kill()
        worker.process.wait(LIMIT)

    def end(self) -> None:
        for worker in self.now:
            worker.process.kill()
            worker.process.wait(LIMIT)

    def told(self, word: str) -> set[str]:
        """The models that processes have told of; a kill never cuts a line in two."""
        return {name for log in self.logs.iterdir() for name in re.findall(rf"^{word} (\w+)$", log.read_text(), re.M)}


def killed(folder: Path, kills: int) -> None:
    moments, workers = random.Random(f"{SEED} {kills}"), Workers(folder)
    store = ModelStore(workers.store)
    try:
        for _ in range(kills):
            place = moments.randrange(len(AT_ONCE))
            given_up = time.monotonic() + LIMIT
            while not workers.now[place].has_begun():
                assert time.monotonic() < given_up, workers.now[place].log.read_text()
                time.sleep(0.005)
            time.sleep(moments.random() * 0.06)
            workers.kill(place)
            workers.now[place] = workers.started(AT_ONCE[place])
            if moments.random() < 0.1 and store.folder.joinpath("models").is_dir():
                check_whole(store)
    finally:
        workers.end()
    check_whole(store)
    lost = workers.told("put") - workers.told("removing") - set(store.names())
    assert not lost, "models were lost that nobody has removed"
    assert len(workers.told("put")) >= kills / 10
    check_nothing_is_left(store)


def check_nothing_is_left(store: ModelStore) -> None:
    store.prune()
    check_whole(store)
    needed = {one.blob for record in store.records() for one in record.tensors.values()}
    assert sorted(digest for digest, _ in store._blobs.files()) == sorted(needed)
    left = [one for one in (store.folder / "models").glob("*/*") if one.suffix != ".json" or one.name[0] == "."]
    assert not left


def check_whole(store: ModelStore) -> None:
    """No model is damaged; one that is removed meanwhile is none."""
    for name in store.names():
        try:
            trouble = store.damage(name)
        except ValueError:
            assert name not in store.names()
            continue
        assert not trouble or name not in store.names(), trouble


_CHANGES = ("open", "os.link", "os.mkdir", "os.remove", "os.rename", "fcntl.flock")
"""Calls that Python tells audit hooks of, before they are made."""


def killed_before(count: int, act: Callable[[], object]) -> bool:
    """Whether a process that does something dies before so many calls; else it has done it."""
    child = os.fork()
    if child == 0:
        left = count

        def hook(event: str, _: object) -> None:
            nonlocal left
            left -= event in _CHANGES
            if left == 0 and event in _CHANGES:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(hook)
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


@pytest.mark.usual("put")
@pytest.mark.parametrize("what", ["the first put", "put", "remove", "prune"])
def test_killed_before_every_call(tmp_path: Path, what: str) -> None:
    base = state_of(3, 1)
    derived = base | {"l2.weight": np.ones(9)}
    before = ModelStore(tmp_path / "before")
    if what != "the first put":
        before.put(chain(3), base, name="a")
        before.put(chain(3), base | {"l1.weight": np.zeros(9)}, name="gone")
    if what == "prune":
        before.remove(["gone"])

    def act(store: ModelStore) -> object:
        if what == "remove":
            store.remove(["gone"])
            return None
        return store.prune() if what == "prune" else store.put(chain(3), derived, name="b")

    for count in range(1, 1000):
        store = ModelStore(tmp_path / str(count))
        if before.folder.exists():
            shutil.copytree(before.folder, store.folder)
        was_killed = killed_before(count, functools.partial(act, store))
        if store.folder.joinpath("models").exists():
            check_whole(store)
            assert "a" in store.names() or what == "the first put"
            check_nothing_is_left(store)
        if not was_killed:
            break
        if "gone" in (store.names() if what == "remove" else ()) or what != "remove":
            act(store)
        check_nothing_is_left(store)
        assert ("b" in store.names()) == ("put" in what)
    assert 3 <= count < 1000


@pytest.mark.nightly
def test_some_kills(tmp_path: Path) -> None:
    killed(tmp_path, 12)


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_five_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path, int(os.environ.get("WILKINS_TEST_KILLS", "500")))
