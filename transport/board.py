"""The step store's board, as the launcher sees it: it makes the board, notifies it of starts and ends, and asks it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wilkins import atomic
from wilkins.errors import WilkinsError
from wilkins.transport import plan_table, report_table
from wilkins.transport.plan_table import Arrays, Begin, BoardChannel, BoardPort, BoardTask, FirstStep
from wilkins.transport.removal import SEGMENTS, SHARED_MEMORY, remove_run
from wilkins.transport.report_table import FailedOpen, Holder, Report
from wilkins.values import restored

if TYPE_CHECKING:
    from wilkins.transport.events import Logged

VERSION = plan_table.VERSION ^ report_table.VERSION
"""Of what this package and the library tell each other."""
_NAME_MAX = 1024
_NO_TEXT = ctypes.c_size_t(-1).value
Listed = Literal["no", "some", "all"]
"""What a program has read: also what no listing had shown it, or steps that one had, or after one that showed all."""

_NOT_DONE = 1
"""Of a call for which the board could not be had."""


class EndOfStream(WilkinsError):
    """No further step will come on this port."""


class BoardHeldError(WilkinsError, TimeoutError):
    """A process has held the board's lock for too long; the message names it."""


def native_library() -> Path:
    """The path of libwilkins.so: this package's or checkout's, unless the variable ``WILKINS_LIBRARY`` names another.

    Raises:
        FileNotFoundError: it was not built; the message says how to.
    """
    if named := os.environ.get("WILKINS_LIBRARY"):
        return Path(named)
    return built_library("libwilkins.so")


@cache
def built_library(name: str) -> Path:
    """The path of a native library of this package or checkout.

    Raises:
        FileNotFoundError: it was not built; the message says how to.
    """
    here = Path(__file__).resolve().parent
    for candidate in (here / name, here.parent / "build" / name):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(
        errno.ENOENT,
        f"{name} is neither in {here} nor in {here.parent / 'build'}; run 'make install' in the checkout",
    )


_library: ctypes.CDLL | None = None


def _native() -> ctypes.CDLL:
    global _library
    if _library is None:
        lib = ctypes.CDLL(str(native_library()))
        text, pointer, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "wilkins_tables": (ctypes.c_uint, []),
            "wilkins_board_create": (number, [text, ctypes.POINTER(Arrays)]),
            "wilkins_board_attach": (pointer, [text, ctypes.POINTER(number)]),
            "wilkins_board_detach": (None, [pointer]),
            "wilkins_left_by_run": (None, [pointer, number, *[ctypes.c_uint64] * 3, ctypes.c_int64]),
            "wilkins_uses_links": (None, [pointer, number]),
            "wilkins_task_follows": (None, [pointer, number]),
            "wilkins_task_started": (number, [pointer, number, number, text]),
            "wilkins_task_exited": (None, [pointer, number, number, number]),
            "wilkins_task_failed": (None, [pointer, number, number]),
            "wilkins_go_back": (None, [pointer, number, number, ctypes.c_uint64]),
            "wilkins_rank_gone": (None, [pointer, number, number, number]),
            "wilkins_grow": (number, [pointer]),
            "wilkins_end_wait": (number, [pointer]),
            "wilkins_still_ns": (ctypes.c_int64, [pointer]),
            "wilkins_has_polls": (number, [pointer]),
            "wilkins_settle_inherited": (number, [pointer, number, number, number]),
            "wilkins_note": (None, [pointer, number, number, text, text, ctypes.c_int64]),
            "wilkins_was_late": (number, [pointer]),
            "wilkins_holder": (ctypes.c_size_t, [pointer, text, ctypes.c_size_t]),
            "wilkins_next_name": (number, [pointer, number, text]),
            "wilkins_pass_step": (number, [pointer, number]),
            "wilkins_port_steps": (ctypes.c_uint64, [pointer, number]),
            "wilkins_port_touched": (number, [pointer, number]),
            "wilkins_failed_open": (ctypes.c_size_t, [pointer, number, text, ctypes.c_size_t]),
            "wilkins_task_met_failure": (number, [pointer, number]),
            "wilkins_steps_opened": (ctypes.c_uint, [pointer, number]),
            "wilkins_read_as_listed": (number, [pointer, number]),
            "wilkins_stop": (None, [pointer]),
            "wilkins_last_steps": (ctypes.c_size_t, [pointer, number, text, ctypes.c_size_t]),
            "wilkins_report": (ctypes.c_size_t, [pointer, number, text, ctypes.c_size_t]),
            "wilkins_failure": (ctypes.c_size_t, [pointer, text, ctypes.c_size_t]),
            "wilkins_may_be_stuck": (number, [pointer]),
            "wilkins_stuck": (ctypes.c_size_t, [pointer, text, ctypes.c_size_t]),
            "wilkins_doubtful": (ctypes.c_size_t, [pointer, text, ctypes.c_size_t]),
            "wilkins_ahead_expect": (None, [pointer, number, number, ctypes.c_uint64, ctypes.c_uint]),
            "wilkins_ahead_begin": (pointer, [pointer]),
            "wilkins_ahead_end": (None, [pointer]),
            "wilkins_largest_steps": (ctypes.c_size_t, [pointer, text, ctypes.c_size_t]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(lib, name)
            function.restype = result
            function.argtypes = arguments
        if lib.wilkins_tables() != VERSION:
            why = "it was built from another version of this package; install that again"
            raise OSError(errno.ELIBBAD, why, str(native_library()))
        _library = lib
    return _library


def _check(code: int, what: str, path: Path | None = None) -> None:
    if code:
        raise OSError(code, f"{what}: {os.strerror(code)}", str(path) if path else None)


class Board:
    """A run's shared state. Made by the launcher with `create`; other processes `attach`.

    Whoever has one open holds a shared lock on its file, which is how `sweep` tells a living run from a dead one.

    A process of the run may stand still with the board's lock, stopped or waiting for a device. Questions wait for it a
    second at most, then raise `BoardHeldError`; notifications are pending here, in order, until the lock is free.
    """

    path: Path
    """The run's folder in shared memory."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._pending: list[tuple[Any, tuple[Any, ...]]] = []
        self._room = ctypes.create_string_buffer(1 << 16)
        """For the texts that the board gives."""
        self._maker: int | None = None
        """The thread that makes memory ready."""
        error = ctypes.c_int(0)
        self._handle: int | None = _native().wilkins_board_attach(os.fsencode(path), ctypes.byref(error))
        if self._handle is None:
            os.close(lock)
            _check(error.value, "cannot map the run's board", path)

    @classmethod
    def create(
        cls,
        tasks: Sequence[BoardTask],
        ports: Sequence[BoardPort],
        channels: Sequence[BoardChannel],
        *,
        begins: Sequence[Begin] = (),
        first_steps: Sequence[FirstStep] = (),
        log: Path,
        trace: Path | None = None,
        path: Path | None = None,
        trace_at_once: bool = False,
    ) -> Board:
        """Make a run's board; `log` receives the layer's own lines, `trace` the run's events. `path`: the folder to
        make (default: a new unpredictable one in /dev/shm). Appears complete, by rename. `trace_at_once`: events are
        in their file before anybody can act on them.

        Raises:
            OSError: shared memory is full or cannot be written, or a name is too long.
        """
        lib = _native()
        final = path or SHARED_MEMORY / f"wilkins-{os.getuid()}-{os.urandom(8).hex()}"
        with contextlib.ExitStack() as stack, atomic.new_folder(final) as folder:
            making = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, making)  # after the rename
            fcntl.flock(making, fcntl.LOCK_SH)
            run = Arrays.of(
                log,
                trace,
                trace_at_once,
                tasks=tasks,
                ports=ports,
                channels=channels,
                begins=begins,
                first_steps=first_steps,
            )
            _check(lib.wilkins_board_create(os.fsencode(folder), run), "cannot make the run's board", folder)
            lock = cls._take_lock(folder)
        return cls(final, lock)

    @classmethod
    def attach(cls, path: Path) -> Board:
        """Join an existing run.

        Raises:
            OSError: there is none in this folder, or another version of Wilkins made it.
        """
        return cls(path, cls._take_lock(path))

    @staticmethod
    def _take_lock(folder: Path) -> int:
        descriptor = os.open(folder / "board", os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor

    def environment(self, task: int, rank: int | None) -> dict[str, str]:
        """Variables that make a process part of the run. `rank`: None when an mpiexec assigns it."""
        variables = {"LD_PRELOAD": str(native_library()), "WILKINS_RUN": str(self.path), "WILKINS_TASK": str(task)}
        if rank is not None:
            variables["WILKINS_RANK"] = str(rank)
        return variables

    def task_started(self, task: int) -> None:
        """The task's program is about to start (again): counts per start begin anew.

        Raises:
            BoardHeldError: the board could not be notified; the program must not start yet.
        """
        self._ask(_native().wilkins_task_started, task, -1, None)

    def task_started_for(self, task: int, inport: int) -> str | None:
        """The task's program is about to start for the next step of the in-port: returns its name.

        The step is not dropped before the program has opened it or ended, and a fixed name means it, however often it
        is opened until then. None: there is no step any more, and the program must not start.

        Raises:
            BoardHeldError: the board could not be notified; the program must not start yet.
        """
        name = ctypes.create_string_buffer(_NAME_MAX)
        code = self._ask(_native().wilkins_task_started, task, inport, name, written=True)
        return None if code == errno.EAGAIN else os.fsdecode(name.value)

    def task_exited(self, task: int, *, final: bool, clean: bool = True) -> None:
        """The task's program has ended: its open steps are let go, unfinished ones discarded, its ranks come level.

        `final`: it will not be started again, so its ranks are done with everything and its consumers see the end of
        the stream. `clean`: it did not fail, so the files that it has closed are published, and those
        that it has left to processes which may still write them, as they are now."""
        self._tell(_native().wilkins_settle_inherited, task, 1, int(clean))
        self._tell(_native().wilkins_task_exited, task, int(final), int(clean))

    def task_failed(self, task: int, *, again: bool) -> None:
        """The task's program has failed, and will be started again: as `task_exited`. `again`: for the step that each
        rank has opened last, which comes once more, unless memory was so short that it is gone."""
        self._tell(_native().wilkins_settle_inherited, task, 1, 0)
        self._tell(_native().wilkins_task_failed, task, int(again))

    def go_back(self, outport: int, rank: int, sequence: int) -> None:
        """The task is started again, and the next step of this rank on the out-port has this number: steps that were
        published before are made again, and nobody gets them once more."""
        self._tell(_native().wilkins_go_back, outport, rank, sequence)

    def rank_gone(self, task: int, rank: int, *, began: bool) -> None:
        """The rank has no process. `began`: it had one in this start of its task; else that counts if it has used its
        ports."""
        self._tell(_native().wilkins_rank_gone, task, rank, int(began))

    def still_s(self) -> float:
        """For how long nothing has been published, opened or begun, in seconds."""
        return float(_native().wilkins_still_ns(self._handle)) / 1e9

    def has_polls(self) -> bool:
        """Whether `report` has anything in `polls` or `unmatched_names`; much cheaper than to look.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return bool(self._ask(_native().wilkins_has_polls))

    def grow(self) -> bool:
        """Let a queue grow for a rank that waits for room, in a run in which nothing moves; whether one could.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return bool(self._ask(_native().wilkins_grow))

    def end_wait(self) -> bool:
        """Let a rank go on that waits for what it can do without, in a run in which nothing moves; whether there was
        one: a look, a listing, or an open of a name that the rank has opened before.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return bool(self._ask(_native().wilkins_end_wait))

    def settle_inherited(self) -> bool:
        """Publish steps that programs have left to other processes, where nobody writes them any more; whether there
        are more. Cheap where there is none."""
        return self.deliver() and bool(_native().wilkins_settle_inherited(self._handle, -1, 0, 1))

    def left_by_run(self, inport: int, file: os.stat_result) -> None:
        """An earlier run has left this file, so its name can still become the in-port's alias."""
        self._tell(_native().wilkins_left_by_run, inport, file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns)

    def uses_links(self, task: int) -> None:
        """Symbolic links in the folder in which the task starts lead to steps of its in-ports."""
        _native().wilkins_uses_links(self._handle, task)

    def task_follows(self, task: int) -> None:
        """The task is started when others have ended."""
        _native().wilkins_task_follows(self._handle, task)

    def note(self, task: int, rank: int, event: str, name: str, time_ns: int) -> None:
        """Adds an event of a task (rank -1), or of a rank, to the run's trace; `time_ns` is of the monotonic clock."""
        self._tell(_native().wilkins_note, task, rank, event.encode(), os.fsencode(name), time_ns)

    def _tell(self, function: Any, *arguments: Any) -> None:
        self._pending.append((function, arguments))
        self.deliver()

    def deliver(self) -> bool:
        """Deliver pending notifications; whether none is left."""
        while self._pending:
            function, arguments = self._pending[0]
            function(self._handle, *arguments)
            if _native().wilkins_was_late(self._handle) == _NOT_DONE:
                return False
            del self._pending[0]
        return True

    def _ask(self, function: Any, *arguments: Any, written: bool = False) -> Any:
        """`written`: what the answer follows from must be in the trace, if the run may be gone on with."""
        if self.deliver():
            answer = function(self._handle, *arguments)
            late = _native().wilkins_was_late(self._handle)
            if not late or (late != _NOT_DONE and not written):
                return answer
        raise BoardHeldError(self._held())

    def _held(self) -> str:
        room = 1 << 12
        text = ctypes.create_string_buffer(room)
        _native().wilkins_holder(self._handle, text, room)
        holder = restored(Holder, json.loads(os.fsdecode(text.value)))
        who = f"task '{holder.task}' rank {holder.rank}" if holder.task else "a launcher"
        pid = f"process {holder.pid}{' of its PID namespace' if holder.elsewhere else ''}, {holder.program}"
        if holder.writes:
            return (
                f"{who} ({pid}) stands still as it writes to {holder.writes}, and the others wait until what they "
                "do can be written there: it is stopped, or waits for the file system; let it go on, or end it"
            )
        return (
            f"{who} ({pid}) stands still in the middle of a change to the run's shared state, and nobody else can use "
            "that: it is stopped, or waits for the machine; let it go on, or end it"
        )

    def next_name(self, inport: int) -> str | None:
        """The name of the step the port's task would read next; None if there is none now.

        Raises:
            EndOfStream: none will come.
            BoardHeldError: the board could not be asked.
        """
        name = ctypes.create_string_buffer(_NAME_MAX)
        code = self._ask(_native().wilkins_next_name, inport, name, written=True)
        if code == errno.ENOENT:
            raise EndOfStream
        return None if code == errno.EAGAIN else os.fsdecode(name.value)

    def pass_step(self, inport: int) -> bool:
        """Let the port's task, whose program does not run, read on behind the next step; False: there is none now.

        Raises:
            EndOfStream: none will come.
            BoardHeldError: the board could not be asked.
        """
        code = self._ask(_native().wilkins_pass_step, inport, written=True)
        if code == errno.ENOENT:
            raise EndOfStream
        return bool(code == 0)

    def steps_opened(self, task: int) -> int:
        """Most steps of one source that a rank of the task has opened since it was started (0, 1 or more).

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return int(self._ask(_native().wilkins_steps_opened, task))

    def listed(self, task: int) -> Listed:
        """What the task has read since its last start, compared with what its program was shown in listings of folders.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        answers: tuple[Listed, ...] = ("no", "some", "all")
        return answers[int(self._ask(_native().wilkins_read_as_listed, task))]

    def port_steps(self, port: int) -> int:
        """Steps published on an out-port, or read on an in-port. As cheap with many tasks, which `report` is not.

        Raises:
            BoardHeldError: the board could not be asked, as by the questions below.
        """
        return int(self._ask(_native().wilkins_port_steps, port))

    def touched(self, port: int) -> bool:
        """Whether a program has opened or created a file of the port's."""
        return bool(self._ask(_native().wilkins_port_touched, port))

    def failed_open(self, task: int) -> FailedOpen | None:
        """The last failed open of the task since it was last started, as in `report`."""
        found = json.loads(self._text(_native().wilkins_failed_open, task))
        return found and restored(FailedOpen, found)

    def met_failure(self, task: int) -> bool:
        """Whether a program of the task met an error that ends the run (see `failure`)."""
        return bool(self._ask(_native().wilkins_task_met_failure, task))

    def stop(self) -> None:
        """Ends all waits: every blocked call in every process fails with EINTR. Works whoever holds the board."""
        _native().wilkins_stop(self._handle)

    def _text(self, function: Any, *arguments: Any) -> str:
        while True:
            room = len(self._room)
            needed = int(self._ask(function, *arguments, self._room, room))
            if needed == _NO_TEXT:
                raise OSError(errno.ENOMEM, "there is too little memory to tell the state of the run")
            if needed < room:
                return os.fsdecode(self._room.value)
            self._room = ctypes.create_string_buffer(needed + (needed >> 2) + 1)

    def report(self, *, threads: bool = False) -> Report:
        """Everything on the board. `threads`: looks in /proc at all that use ports; without that, `unsure` and `among`
        tell nothing.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return restored(Report, json.loads(self._text(_native().wilkins_report, int(threads))))

    def last_steps(self, outport: int) -> list[tuple[Path, int]]:
        """The steps of an out-port that are still in memory, newest first: each one's file, and its size in bytes.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        lines = self._text(_native().wilkins_last_steps, outport).splitlines()
        return [(self.path / f"a{slot}", int(size)) for slot, size in (line.split() for line in lines)]

    def may_be_stuck(self) -> bool:
        """Whether `stuck` or `doubtful` may have anything to tell; cheaper than to ask them.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return bool(self._ask(_native().wilkins_may_be_stuck))

    def stuck(self) -> str | None:
        """A description of ranks that wait for each other so that none of them can go on, or None.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return self._text(_native().wilkins_stuck) or None

    def doubtful(self) -> str | None:
        """As `stuck`, where nothing has moved for ten seconds and some of them are not known to wait, or None.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        return self._text(_native().wilkins_doubtful) or None

    def failure(self) -> str | None:
        """An error that ends the run whatever its programs do, such as two ranks that create one name, or None.

        Raises:
            BoardHeldError: the board could not be asked.
        """
        line = self._text(_native().wilkins_failure)
        if not line:
            return None
        from wilkins.transport.events import read  # few runs say it

        logged = read(line)
        if logged and logged.code == "changed_in_memory":
            return self._with_owners(logged)
        return logged.words if logged else line

    def _with_owners(self, logged: Logged) -> str:
        """The words on bytes that have changed in memory, with whose they are."""
        from wilkins.transport.damaged import owners_in  # hardly any run needs it

        slot, begin, end = (int(logged.arguments[name]) for name in ("slot", "begin", "end"))
        owners = owners_in(self.path / f"a{slot}", begin, end)
        return f"{logged.words} ({owners})" if owners else logged.words

    def expect_step(self, outport: int, rank: int, size: int, most: int) -> None:
        """Say what `make_ready` goes by: a step of the rank will take `size` bytes, 0 if that is not known before there
        is one, and no more than `most` are in memory at once."""
        _native().wilkins_ahead_expect(self._handle, outport, rank, size, most)

    def make_ready(self) -> None:
        """Make memory ready for steps before they ask for it, in a thread of its own, until the board is closed.

        That is of no effect but on time: where it cannot be done, and where memory is short, steps get theirs as they
        are written."""
        if self._maker is None:
            self._maker = _native().wilkins_ahead_begin(self._handle)

    def largest_steps(self) -> dict[int, dict[int, int]]:
        """Bytes of the largest step that each rank has published, by out-port and rank; not of those below 2 MiB."""
        found: dict[int, dict[int, int]] = {}
        for line in self._text(_native().wilkins_largest_steps).splitlines():
            port, rank, size = map(int, line.split())
            found.setdefault(port, {})[rank] = size
        return found

    def end_ready(self) -> None:
        """Make no more memory ready; what is stays until the run is removed. Idempotent."""
        maker, self._maker = self._maker, None
        if maker is not None:
            _native().wilkins_ahead_end(maker)

    def close(self) -> None:
        """Leave the run without removing it. Idempotent."""
        self.end_ready()
        if self._handle is not None:
            _native().wilkins_board_detach(self._handle)
            os.close(self._lock)
            self._handle = None

    def note_segment(self, segment: Path) -> None:
        """Let `remove_run` remove this, too: shared memory that a killed job of the run would leave."""
        with (self.path / SEGMENTS).open("ab") as noted:
            noted.write(os.fsencode(segment) + b"\n")

    def remove(self) -> list[Path]:
        """Unlink the run's folder with all in it, and what it hides on disk; returns as `remove_run`. Idempotent."""
        self.end_ready()
        left = remove_run(self.path)
        self.close()
        return left
