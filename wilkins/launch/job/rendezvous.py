"""Where the launchers of one job's ranks meet: a folder in shared memory that the first rank makes and removes.

It is the folder of the run's board. All ranks know its name (`rank.job_key`). Only who made it writes into it as the
first rank, or removes it. `leader` is locked by the first rank as long as that lives; others enter no folder where it
is not, and each of them claims its number there by `rank.<number>`, which nobody else may have done, and which it keeps
locked as long as it lives.

`job.json` appears in it when all is set up, or when that has failed. `ranks` holds two bytes per rank of the job. The
first only grows: RUNNING, OVER (the program has done its last; the layer inside it writes this before it waits in
MPI_Finalize, and its exit status into the second byte), ENDED (the launcher of the rank has left its result), SEEN (it
has seen the verdict). Two more bytes are set when `stopped` and `verdict` exist.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wilkins import atomic
from wilkins.errors import ResourceError, refused
from wilkins.launch.programs.output import report_leftovers
from wilkins.transport.board import Board
from wilkins.transport.removal import SHARED_MEMORY, remove_run

RUNNING, OVER, ENDED, SEEN = 0, 1, 2, 3

ENDED_WELL, MAY_GO_ON, HAS_FAILED = b"+", b"~", b"-"

_PATIENCE = 120.0
_FAREWELL = 5.0


class Rendezvous:
    """The folder, as one rank's launcher uses it."""

    def __init__(self, key: str, rank: int, size: int) -> None:
        self.path = SHARED_MEMORY / f"wilkins-{os.getuid()}-{key}"
        self.rank = rank
        self.size = size
        self.leave_at = 0.0
        """Monotonic time, the same for all ranks, at which they may go."""
        self._made = False
        self._ranks = -1
        self._leader = -1
        self._claim = -1
        self._unlocked: set[int] = set()

    def make(self, create: Callable[[Path], Board]) -> Board:
        """First rank: make the folder, with the run's board in it.

        Args:
            create: makes a board in a folder of this name, which it makes, too.

        Raises:
            ResourceError: the folder is there already, so it is another run's.
        """
        if self.path.exists():
            raise self._taken()
        board = create(self.path)
        self._made = True
        return board

    def open(self, job: dict[str, Any]) -> None:
        """First rank: let the others in."""
        self._create_files(self.path)
        self._write("job.json", job)

    def refuse(self, code: int) -> None:
        """First rank: let the others know that the set-up has failed, unless the folder is another run's."""
        with contextlib.suppress(OSError, ResourceError):  # then they end as their mpiexec sees this rank fail
            if not self._made:
                with atomic.new_folder(self.path) as new:
                    self._create_files(new)
                self._made = True
            elif self._ranks < 0:
                self._create_files(self.path)
            self._write("job.json", {"failed": code})

    def _create_files(self, folder: Path) -> None:
        self._leader = os.open(folder / "leader", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._leader, fcntl.LOCK_EX)
        os.write(self._leader, f"{os.getpid()}\n".encode())
        self._ranks = os.open(folder / "ranks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._ranks, 2 * self.size + 2)

    def enter(self) -> dict[str, Any]:
        """Other ranks: wait until the first has let them in.

        Raises:
            ResourceError: it did not, or the folder is not this job's.
        """
        until = time.monotonic() + _PATIENCE
        pause = 0.002
        while (job := self._entered()) is None:
            if time.monotonic() > until:
                raise ResourceError(
                    f"rank {self.rank}: rank 0 of the job did not set up the run within {_PATIENCE:g} s; "
                    "are all ranks started by one mpiexec, on one node, and with the same /dev/shm "
                    "(`wilkins help containers`)?"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return job

    def _entered(self) -> dict[str, Any] | None:
        """The settings of the first rank, if it has written them, and lives."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._foreign() from error
        try:
            state = os.fstat(folder)
            if state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
                raise self._foreign()
            job = _read_json("job.json", folder)
            if job is None:
                return None
            leader = os.open("leader", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
            if not _is_locked(leader):  # left by a run that was killed
                os.close(leader)
                return None
            self._leader = leader
            self._ranks = os.open("ranks", os.O_RDWR | os.O_CLOEXEC, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._claim = os.open(f"rank.{self.rank}", flags, 0o600, dir_fd=folder)
            fcntl.flock(self._claim, fcntl.LOCK_EX)
        except FileExistsError as error:
            raise self._taken() from error
        except FileNotFoundError:  # it is being removed
            return None
        finally:
            os.close(folder)
        return job

    def _foreign(self) -> ResourceError:
        return ResourceError(f"{self.path}: belongs to somebody else; remove it or ask its owner to")

    def _taken(self) -> ResourceError:
        return ResourceError(
            f"rank {self.rank}: {self.path}: another run meets there, and what started this job does not tell the two "
            "apart; start one after the other, or with the mpiexec of MPICH or Open MPI, or with srun"
        )

    def leader_lives(self) -> bool:
        """Other ranks: whether the first rank's launcher does."""
        return _is_locked(self._leader)

    def killed(self) -> list[int]:
        """First rank: others whose launchers have come and died before they left a result.

        A claim may not be locked yet when it is looked at, so only what two calls find counts; a second apart will do.
        """
        ranks = self.ranks()
        found = {rank for rank in range(1, self.size) if ranks[rank] < ENDED and self._has_died(rank)}
        both, self._unlocked = found & self._unlocked, found
        return sorted(both)

    def _has_died(self, rank: int) -> bool:
        try:
            claim = os.open(self.path / f"rank.{rank}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # it has yet to come
            return False
        try:
            return not _is_locked(claim)
        finally:
            os.close(claim)

    def mark(self, state: int) -> None:
        """Set the state of this rank."""
        os.pwrite(self._ranks, bytes([state]), 2 * self.rank)

    def ranks(self) -> bytes:
        """The state of every rank."""
        return os.pread(self._ranks, 2 * self.size, 0)[::2]

    def exit_status(self) -> int:
        """The exit status that this rank's program is about to end with, once it is OVER."""
        return os.pread(self._ranks, 1, 2 * self.rank + 1)[0]

    def count_end(self, task: int, *, final: bool, clean: bool) -> None:
        """Count the end of the program of a rank of a task.

        Args:
            final: as far as the rank knows, the task is not to be started again.
            clean: the program has not failed.
        """
        file = os.open(self._ends(task), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, (ENDED_WELL if final else MAY_GO_ON) if clean else HAS_FAILED)
        finally:
            os.close(file)

    def ends(self, task: int) -> bytes:
        """The counted ends of a task: a byte for each rank whose program has ended."""
        try:
            return self._ends(task).read_bytes()
        except FileNotFoundError:
            return b""

    def _ends(self, task: int) -> Path:
        return self.path / f"ended.{task}"

    def report_task_ended(self, task: int, *, lost: bool) -> None:
        """Record that a task has ended; `lost`: it has not done its work."""
        self._write(f"task.{task}", {"lost": lost})

    def task_ended(self, task: int) -> bool | None:
        """Whether a task that has ended has not done its work; None: it goes on."""
        found = self._read(f"task.{task}")
        return None if found is None else bool(found["lost"])

    def count_failed(self, entry: int, task: int) -> int:
        """Count an instance of an ensemble that has failed; its number among those."""
        file = os.open(self.path / f"failed.{entry}", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, b"%d\n" % task)
            return 1 + os.pread(file, os.fstat(file).st_size, 0).split().index(b"%d" % task)
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
        return self._read("stopped") if self._is_set(0) else None

    def leave_result(self, result: dict[str, Any]) -> None:
        """Write the result of this rank."""
        self._write(f"result.{self.rank}", result)
        self.mark(ENDED)

    def result(self, rank: int) -> dict[str, Any] | None:
        """The result of a rank; None if its launcher died before it left one."""
        return self._read(f"result.{rank}")

    def decide(self, code: int) -> None:
        """First rank: set the exit code of every rank."""
        self._write("verdict", {"code": code})
        os.pwrite(self._ranks, b"1", 2 * self.size + 1)

    def verdict(self) -> int | None:
        """The exit code of every rank, once it is known."""
        found = self._read("verdict") if self._is_set(1) else None
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
        """First rank: remove the folder once every rank has seen how it ended; after a failure, say when all go.

        Does nothing if the folder is another run's.
        """
        if not self._made:
            return
        try:
            if self._ranks >= 0:
                self._wait_until_seen(failed)
        finally:
            report_leftovers(remove_run(self.path))
            self._made = False

    def _wait_until_seen(self, failed: bool) -> None:
        self.mark(SEEN)
        until = time.monotonic() + _FAREWELL
        while min(self.ranks()) < SEEN and time.monotonic() < until:
            time.sleep(0.005)
        if failed:
            self.leave_at = time.monotonic() + 0.2 + 0.005 * self.size
            self._write("leave", {"at": self.leave_at})
            time.sleep(0.1)

    def _is_set(self, number: int) -> bool:
        return os.pread(self._ranks, 1, 2 * self.size + number) == b"1"

    def _write(self, name: str, value: dict[str, Any]) -> None:
        try:
            atomic.put(self.path / name, json.dumps(value), writer=str(self.rank))
        except OSError as error:
            raise refused(self.path / name, "write for the other ranks of the job", error) from error

    def _read(self, name: str) -> dict[str, Any] | None:
        return _read_json(self.path / name)


def _read_json(path: str | Path, folder: int | None = None) -> dict[str, Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    with os.fdopen(descriptor, encoding="utf-8") as file:
        value: dict[str, Any] = json.load(file)
    return value


def _is_locked(descriptor: int) -> bool:
    """Whether another process holds the lock on a file that only its maker takes alone."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
