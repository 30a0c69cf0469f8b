"""Checkpoints of a stream: a program's own files are taken from memory and go to storage behind its back.

The main thread takes steps as they are published, so that the program waits for nothing. Another one stores them. When
the run is stopped, or this task is asked to end, there are a few seconds to store the newest.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wilkins.tasks.checkpoint.archive.archive import Archive
from wilkins.tasks.checkpoint.engine.capture import calm
from wilkins.tasks.checkpoint.engine.schedule import Schedule, When
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.placement.places import Storage
from wilkins.tasks.checkpoint.state.tree import encode
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.clearing import make_room, recover
from wilkins.tasks.checkpoint.storage.files import File, Pace, cannot, tidied
from wilkins.tasks.checkpoint.storage.layout import BLOCK, Place, names_of
from wilkins.tasks.checkpoint.storage.locks import Lock
from wilkins.tasks.checkpoint.storage.versions import Manifest, Stream
from wilkins.tasks.checkpoint.stream.window import Bytes, Held, Window
from wilkins.tasks.group import Group
from wilkins.tasks.registry import Ports
from wilkins.transport import memory, points, steps
from wilkins.transport.board import Board

NICENESS = 10
"""How far the storing steps back behind programs that compute."""


def main(options: Mapping[str, Any], ports: Ports, ranks: Group) -> None:  # noqa: ARG001 - there is one rank
    """Keeps checkpoints of the task's in-port, until its stream ends or the run is stopped.

    Args:
        options: the section `checkpoint:` as plain data.
        ports: the pattern of the one in-port.

    Raises:
        CheckpointError: the folder is another task's, or the last step could not be stored.
        OSError: the folder cannot be made.
    """
    port = steps.port(ports.inports[0])
    if port is None:
        raise CheckpointError(
            f"no task of the run writes {ports.inports[0]!r}, so there is nothing to keep; mend the port's 'filename'"
        )
    if (producers := _producers()) > 1:
        raise CheckpointError(
            f"{producers} producers write {ports.inports[0]!r}, and a folder holds the checkpoints of one; give the "
            f"task 'taskCount: {producers}' and a 'folder' with {{instance}} in it"
        )
    folder = Path(options["folder"])
    lock, archive = Lock(folder), None
    try:
        recover(folder)
        archive = _archive(options, folder)
        Keeper(options, ports.inports[0], port, archive).run()
    finally:
        if archive is not None:
            archive.close()
        lock.close()


def _archive(options: Mapping[str, Any], folder: Path) -> Archive | None:
    """The places over which checkpoints are spread, too."""
    if not options["storage"]:
        return None
    places = [{**one, "space": one["space"] or None} for one in options["storage"]]
    storage = Storage(places, reliability=options["reliability"], years=options["years"])
    archive = Archive(storage, folder, options["keep"], Pace(options["rate"] or None))
    archive.tell()
    return archive


def _producers() -> int:
    """How many tasks, or instances of one, this task's steps come from."""
    board = Board.attach(Path(os.environ["WILKINS_RUN"]))
    try:
        report = board.report()
    finally:
        board.close()
    own = int(os.environ["WILKINS_TASK"])
    return sum(report.ports[channel.inport].task == own for channel in report.channels)


class Keeper:
    """Takes and stores the steps of an in-port."""

    def __init__(self, options: Mapping[str, Any], pattern: str, port: int, archive: Archive | None = None) -> None:
        self._archive = archive
        self._folder = Path(options["folder"])
        self._filename, self._keep = options["filename"], options["keep"]
        self._pattern, self._port = pattern, port
        point = points.chosen()
        self._index = int(point.label) if point else 0
        self._window = Window(options["memory"], block=options["when_full"] == "block")
        self._when = Schedule(When(steps=options["every"], seconds=options["seconds"]), time.monotonic())
        self._pace = Pace(options["rate"] or None)
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._taking = self._over = False
        self._trouble = self._left = ""
        self._failed = False
        """The previous step was not stored, maybe for lack of space."""
        self._taken = self._stored = 0
        self._newest: Path | None = None

    def run(self) -> None:
        """Until all is done."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_end)
        threading.Thread(target=self._listen, name="checkpoint-listen", daemon=True).start()
        storing = threading.Thread(target=self._store, name="checkpoint-store")
        storing.start()
        failure: BaseException | None = None
        try:
            self._take()
        except BaseException as error:  # raised when what is held has been stored
            failure = error
        self._window.end()
        storing.join()
        last = self._window.last
        if failure is not None:
            raise failure
        if last is not None and not last.stored:
            raise CheckpointError(f"the last step, {last.step.name}, is not on storage: {self._trouble}")
        where = f"the newest is {self._newest}" if self._newest else "there was none to keep"
        if self._archive is not None and self._newest:
            where += ", and not on its places" if self._left else f", and in {self._archive.summary()}"
        print(f"stored {self._stored} of {self._taken} steps, {self._window.left_out} left out; {where}")

    def _asked_to_end(self, *_: object) -> None:
        """Handles signals: it must not take locks, which may be held where it interrupts."""
        if self._over and self._taking:
            raise InterruptedError
        self._requests.put(None)

    def _listen(self) -> None:
        self._requests.get()
        self._hurry()

    def _hurry(self) -> None:
        self._pace.lift()
        self._window.hurry()

    def _take(self) -> None:
        try:
            self._taking = True
            try:
                while (step := memory.take(self._port, wait=True)) is not None:
                    now = time.monotonic()
                    due = self._when.due(self._index, now)
                    if due:
                        self._when.begin(now)
                    self._window.add(Held(step, self._index, due))
                    self._index += 1
                    self._taken += 1
            finally:
                self._taking = False
        except EOFError:
            pass
        except InterruptedError:  # the run is being stopped
            self._hurry()

    def _store(self) -> None:
        calm(NICENESS)
        while (held := self._window.next()) is not None:
            self._try(held)
        self._over = True
        if self._taking:  # asked to end while its producers go on
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _try(self, held: Held) -> None:
        stored = False
        try:
            make_room(self._folder, self._keep, math.inf if self._failed else held.step.size, names_of(1))
            after = self._archive.newest() if self._archive is not None else 0
            self._newest = store(held, self._folder, self._filename, self._pace, after)
            self._stored += 1
            stored = True
            consumed = {self._pattern: held.step.sequence + 1}
            points.tell(str(held.index + 1), consumed, file=self._newest.resolve())
        except Exception as error:
            self._trouble = cannot(error, self._folder)
            what = "no run can be resumed from" if stored else "no checkpoint of"
            print(f"{what} {held.step.name}: {self._trouble}", file=sys.stderr, flush=True)
        self._failed = not stored
        self._window.done(held, stored=stored)
        if stored:
            self._spread(held)
            tidied(self._folder, self._keep)

    def _spread(self, held: Held) -> None:
        """Spread the newest version over the places. If that fails, it is in the folder, and the run goes on."""
        if self._archive is None or self._newest is None:
            return
        try:
            self._archive.add(versions.versions(self._folder)[-1])
        except Exception as error:
            self._left = cannot(error, self._folder)
            print(f"{held.step.name} is in {self._folder} only: {self._left}", file=sys.stderr, flush=True)
        else:
            self._left = ""


def store(held: Held, folder: Path, filename: str, pace: Pace, after: int = 0) -> Path:
    """Make a step the newest version in a folder; returns its file, byte by byte the step's.

    Its number is higher than `after`.

    Raises:
        OSError: it cannot be written; then there is no such version.
    """
    serial, new = versions.begin(folder, held.index, after)
    try:
        digests = _write(new / filename, held.step, pace)
        program = {"file": filename, "name": held.step.name, "index": held.index, "sequence": held.step.sequence}
        index = json.dumps({"tree": encode(program, lambda *_: None), "arrays": []})
        versions.write_synced(new / "index-0.json", index)
        raw = index.encode()
        digest = hashlib.sha256(raw).hexdigest()
        stream = Stream(filename, 0, held.step.size, digests, "index-0.json", len(raw), digest)
        files = {filename: held.step.size}
        manifest = Manifest(serial, held.index, versions.now(), BLOCK, files, (stream,))
        return versions.commit(new, manifest).path / filename
    except BaseException:
        versions.drop(new)
        raise


def _write(path: Path, step: Bytes, pace: Pace) -> tuple[int, ...]:
    """Write and sync a step's bytes; returns the digest of each block."""
    file = File(path, Place(0, 0), step.size)
    digests = []
    try:
        with memoryview((ctypes.c_ubyte * step.size).from_address(step.address) if step.size else b"") as view:
            for begin in range(0, step.size, BLOCK):
                with view[begin : begin + BLOCK].cast("B") as block:
                    pace.wait(len(block))
                    digests.append(crc32(block))
                    file.write(block, begin)
        file.cut(step.size)
        file.sync()
    finally:
        file.close()
    return tuple(digests)
