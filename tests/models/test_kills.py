"""Writers and removers of one store are killed at random moments: every model that is there is whole, none is lost, and
nothing is left over.

`WILKINS_TEST_KILLS` says how many are killed, `WILKINS_TEST_SEED` at which moments.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from wilkins.tasks.models import ModelStore

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
    store.prune()
    check_whole(store)
    needed = {one.blob for record in store.records() for one in record.tensors.values()}
    assert sorted(digest for digest, _ in store._blobs.files()) == sorted(needed)
    assert all(one.suffix == ".json" and one.name[0] != "." for one in (store.folder / "models").iterdir())


def check_whole(store: ModelStore) -> None:
    """No model is damaged; one that is removed meanwhile is none."""
    for name in store.names():
        try:
            trouble = store.damage(name)
        except ValueError:
            assert name not in store.names()
            continue
        assert not trouble or name not in store.names(), trouble


def test_some_kills(tmp_path: Path) -> None:
    killed(tmp_path, 12)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_five_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path, int(os.environ.get("WILKINS_TEST_KILLS", "500")))
