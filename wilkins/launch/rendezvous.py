"""Where the launchers of one job's ranks meet: a folder in shared memory that the first rank makes and removes.

It is the folder of the run's board. `job.json` appears in it when all is set up, or when that has failed. `ranks` holds
two bytes per rank of the job. The first only grows: RUNNING, OVER (the program has done its last; the layer inside it
writes this before it waits in MPI_Finalize, and its exit status into the second byte), ENDED (the launcher of the rank
has left its result), SEEN (it has seen the verdict). Two more bytes tell that `stopped` and `verdict` are there.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from wilkins.errors import ResourceError
from wilkins.transport.board import remove_run

RUNNING, OVER, ENDED, SEEN = 0, 1, 2, 3

_SHM = Path("/dev/shm")
_PATIENCE = 120.0
_FAREWELL = 5.0


class Rendezvous:
    """The folder, as one rank's launcher uses it."""

    def __init__(self, key: str, rank: int, size: int) -> None:
        self.path = _SHM / f"wilkins-{os.getuid()}-{key}"
        self.rank = rank
        self.size = size
        self.leave_at = 0.0
        """Monotonic time, the same for all ranks, at which they may go."""
        self._ranks = -1

    def open(self, job: dict[str, Any]) -> None:
        """First rank: let the others in. Makes the folder if the set-up did not come so far."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        self._ranks = os.open(self.path / "ranks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._ranks, 2 * self.size + 2)
        self._write("job.json", job)

    def enter(self) -> dict[str, Any]:
        """Other ranks: wait until the first has let them in.

        Raises:
            ResourceError: it did not, or the folder is not this user's.
        """
        until = time.monotonic() + _PATIENCE
        pause = 0.002
        while (job := self._read("job.json")) is None:
            if time.monotonic() > until:
                raise ResourceError(
                    f"rank {self.rank}: rank 0 of the job did not set up the run within {_PATIENCE:g} s; "
                    "are all ranks started by one mpiexec, and on one node?"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        state = self.path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
            raise ResourceError(f"{self.path}: belongs to somebody else; remove it or ask its owner to")
        self._ranks = os.open(self.path / "ranks", os.O_RDWR | os.O_CLOEXEC)
        return job

    def mark(self, state: int) -> None:
        """Say how far this rank is."""
        os.pwrite(self._ranks, bytes([state]), 2 * self.rank)

    def ranks(self) -> bytes:
        """How far every rank is."""
        return os.pread(self._ranks, 2 * self.size, 0)[::2]

    def exit_status(self) -> int:
        """The exit status that this rank's program is about to end with, once it is OVER."""
        return os.pread(self._ranks, 1, 2 * self.rank + 1)[0]

    def count_end(self, task: int, nprocs: int, clean: bool) -> bool | None:
        """Count the end of a rank of a task. For the last one, whether none of them failed; for others, None."""
        file = os.open(self.path / f"ended.{task}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, b"+" if clean else b"-")
            ends = os.pread(file, nprocs, 0)
            return b"-" not in ends if len(ends) == nprocs else None
        finally:
            os.close(file)

    def stop(self, code: int, reason: str) -> None:
        """Let every rank stop; the first reason counts."""
        new = self.path / f"stop.{self.rank}"
        try:
            new.write_text(json.dumps({"code": code, "reason": reason}), encoding="utf-8")
            os.link(new, self.path / "stopped")
        except (FileExistsError, FileNotFoundError):
            return
        os.pwrite(self._ranks, b"1", 2 * self.size)

    def stopped(self) -> dict[str, Any] | None:
        """Why all ranks are to stop, if they are."""
        return self._read("stopped") if self._news(0) else None

    def leave_result(self, result: dict[str, Any]) -> None:
        """What became of this rank."""
        self._write(f"result.{self.rank}", result)
        self.mark(ENDED)

    def result(self, rank: int) -> dict[str, Any] | None:
        """What became of a rank; None if its launcher did not live to tell."""
        return self._read(f"result.{rank}")

    def decide(self, code: int) -> None:
        """First rank: what every rank exits with."""
        self._write("verdict", {"code": code})
        os.pwrite(self._ranks, b"1", 2 * self.size + 1)

    def verdict(self) -> int | None:
        """What every rank exits with, once that is known."""
        found = self._read("verdict") if self._news(1) else None
        return None if found is None else int(found["code"])

    def leave(self, failed: bool) -> None:
        """Other ranks: say that this one knows how it ended; after a failure, learn when all go."""
        self.mark(SEEN)
        until = time.monotonic() + _FAREWELL
        while failed and time.monotonic() < until and self.path.exists():
            if found := self._read("leave"):
                self.leave_at = float(found["at"])
                return
            time.sleep(0.002)

    def close(self, failed: bool) -> None:
        """First rank: remove the folder once every rank has seen how it ended; after a failure, say when all go."""
        self.mark(SEEN)
        until = time.monotonic() + _FAREWELL
        while min(self.ranks()) < SEEN and time.monotonic() < until:
            time.sleep(0.005)
        if failed:
            self.leave_at = time.monotonic() + 0.2 + 0.005 * self.size
            self._write("leave", {"at": self.leave_at})
            time.sleep(0.1)
        remove_run(self.path)

    def _news(self, number: int) -> bool:
        return os.pread(self._ranks, 1, 2 * self.size + number) == b"1"

    def _write(self, name: str, value: dict[str, Any]) -> None:
        new = self.path / f".{name}.{self.rank}"
        new.write_text(json.dumps(value), encoding="utf-8")
        new.replace(self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return value
