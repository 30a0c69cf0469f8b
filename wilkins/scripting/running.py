"""A run that goes on, started from Python. Its launcher is a process of its own, since notebooks have threads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from wilkins.errors import TaskFailed, UsageError
from wilkins.scripting.notebook import View
from wilkins.scripting.run import Run
from wilkins.terminal.progress import STATUS, WATCHED, Snapshot, from_json

_LOOK = 0.05
_SHOW = 0.5
"""Seconds between two looks at how far a run is."""
_GRACE = 15.0
"""Seconds after a signal within which a launcher has ended all."""


class Running:
    """A run that was started; `await` it, or `wait` for it."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        """`words`: the command; `folder`: the run's directory, which is there, and empty."""
        self.path = folder
        """The run's directory."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lasts as long as the object
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, cwd=folder.parent.parent
        )
        self._view = View(self._asked)

    @property
    def code(self) -> int | None:
        """The exit code; None: it goes on."""
        return self._process.poll()

    @property
    def messages(self) -> str:
        """The launcher's output so far."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    def progress(self, within: float = 10.0) -> Snapshot | None:
        """How far the tasks are, as ``wilkins top`` shows it; None: the run has ended, or does not answer in time."""
        until = time.monotonic() + within
        before = self._status()
        while self.code is None and time.monotonic() < until:
            now = self._asked()
            if now is not None and (before is None or now.at != before.at):
                return now
            time.sleep(_LOOK)
        return None

    def _asked(self) -> Snapshot | None:
        """The newest answer of the launcher, which is asked for the next one."""
        if (self.path / "plan.json").exists():  # the launcher takes the directory only as long as it is empty
            with contextlib.suppress(OSError):
                (self.path / WATCHED).touch()
        return self._status()

    def _status(self) -> Snapshot | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return from_json(json.loads((self.path / STATUS).read_text(encoding="utf-8")))
        return None

    def wait(self, timeout: float | None = None, *, check: bool = True) -> Run:
        """Wait for the end; a notebook shows how far it is meanwhile.

        Args:
            timeout: in seconds; the run goes on after it.
            check: raise an error if it does not end well.

        Raises:
            TimeoutError: it has not ended by then.
            TaskFailed: it did not end well.
            UsageError: it was not even started.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while self.code is None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.path}: the run goes on after {timeout:g} s")
            pause = min(left, _SHOW) if self._view.is_shown else left
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(None if pause == math.inf else pause)
            self._view.look()
        return self._ended(check=check)

    def finish(self, *, check: bool = True) -> Run:
        """Wait for the end, and do not let the run outlive an exception, such as Ctrl-C. Arguments: as of `wait`.

        Raises:
            TaskFailed, UsageError: as by `wait`.
        """
        try:
            return self.wait(check=check)
        except BaseException:
            self.stop()
            raise

    def _ended(self, *, check: bool) -> Run:
        self._view.end(repr(self))
        if not (self.path / "plan.json").exists():
            with contextlib.suppress(OSError):
                self.path.rmdir()
            raise UsageError(self.messages.strip().removeprefix("wilkins: error: "))
        run = Run(self.path)
        if check and self._process.returncode:
            raise TaskFailed(f"{self.path}: the run ended with exit code {self._process.returncode}:\n{self.messages}")
        return run

    def stop(self) -> None:
        """End the run, if it goes on, as Ctrl-C does; its records stay."""
        if self.code is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._view.end(repr(self))

    def __await__(self) -> Generator[Any, None, Run]:
        return self._finished().__await__()

    async def _finished(self) -> Run:
        looked = time.monotonic()
        while self.code is None:
            await asyncio.sleep(_LOOK)
            if time.monotonic() > looked + _SHOW:
                self._view.look()
                looked = time.monotonic()
        return self._ended(check=True)

    def __repr__(self) -> str:
        return f"<run {self.path.name}: {'goes on' if self.code is None else f'exit code {self.code}'}>"
