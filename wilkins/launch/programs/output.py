"""Carries what tasks print to their logs, byte for byte, and to the terminal, line by line under the task's name."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from wilkins.errors import count_of, refused
from wilkins.terminal.wording import paragraphs

_CHUNK = 65536
_LAST = 20
"""Lines of a failed task that are shown, if none were before."""
_COLOURS = (36, 33, 35, 32, 34, 31)


def say(message: str) -> None:
    """Show lines of the launcher itself, unless its error stream is closed."""
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(f"wilkins: {line}" for line in message.splitlines()), file=sys.stderr, flush=True)


def report_leftovers(folders: Sequence[Path]) -> None:
    """Print the folders in which a run has left hidden files, since their disk does not answer."""
    if folders:
        many = f" and {count_of(len(folders) - 1, 'other folder')}" if len(folders) > 1 else ""
        say(
            paragraphs(
                f"the disk with {folders[0]}{many} does not answer: files of the run whose names begin with "
                "'.wilkins-' may be left there",
                "when it answers again, `wilkins clean` removes them, and so does the next run",
            )
        )


class Below:
    """Lines that stay below all others on a terminal, and are written anew when they change."""

    def __init__(self) -> None:
        self.is_live = False
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed
            self.is_live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._lines: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines from now on, as many as there is room for."""
        if not self.is_live:
            return
        self._erase()
        with contextlib.suppress(OSError):
            lines = lines[: os.get_terminal_size(sys.stderr.fileno()).lines - 1]
        self._lines = lines
        self._draw()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Hide them while other lines are written above."""
        if not self._lines:
            yield
            return
        self._erase()
        try:
            yield
        finally:
            self._draw()

    def _erase(self) -> None:
        if self._lines:
            self._put(f"\033[{len(self._lines)}F\033[J")

    def _draw(self) -> None:
        if self._lines:  # a line that is too long is cut, not wrapped
            self._put("\033[?7l" + "".join(f"{line}\n" for line in self._lines) + "\033[?7h")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)


class Terminal:
    """The launcher's terminal: tasks' lines on stdout, the launcher's own on stderr."""

    def __init__(self, names: list[str], *, quiet: bool, colours: bool = True) -> None:
        self._below = Below()
        self._quiet = quiet or sys.stdout is None  # the launcher may be started with its output closed
        width = max((len(name) for name in names), default=0)
        coloured = colours and sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._labels = {}
        for index, name in enumerate(names):
            label = f"{name:<{width}} | "
            if coloured:
                label = f"\033[{_COLOURS[index % len(_COLOURS)]}m{label}\033[0m"
            self._labels[name] = os.fsencode(label)

    def lines(self, name: str, text: bytes) -> None:
        """Show complete lines of a task."""
        if self._quiet or not text:
            return
        label = self._labels[name]
        shown = b"".join(label + line for line in text.splitlines(keepends=True) if line)
        with self._below.aside():
            try:
                sys.stdout.buffer.write(shown)
                sys.stdout.buffer.flush()
            except (OSError, ValueError):  # nobody reads it any more; the logs go on
                self._quiet = True

    def say(self, message: str) -> None:
        """Show lines of the launcher itself."""
        with self._below.aside():
            say(message)

    def table(self, text: str) -> None:
        """Show a block as it is."""
        with self._below.aside(), contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)

    @property
    def is_quiet(self) -> bool:
        """Whether tasks' lines are not shown, and stand in their logs alone."""
        return self._quiet

    @property
    def is_live(self) -> bool:
        """Whether lines can be kept below all others: the error stream is a terminal that can move its cursor."""
        return self._below.is_live

    def keep_below(self, lines: Sequence[str]) -> None:
        """Have these lines below all others, in the place of those before."""
        self._below.show(lines)


class Log:
    """A task's log file, which goes on over its starts.

    `spare`: others write what the task prints, so that nothing stays of it if nothing is written.

    Raises:
        ResourceError: it cannot be made.
    """

    def __init__(self, name: str, path: Path, terminal: Terminal, *, spare: bool = False) -> None:
        self.name = name
        self.path = path
        self._spare = path if spare else None
        self._terminal = terminal
        self._shown = True
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise refused(path, "make this log of a task", error) from error

    def close(self) -> None:
        """Close the file."""
        if self._spare is not None and os.fstat(self._file).st_size == 0:
            self._spare.unlink(missing_ok=True)
        os.close(self._file)

    def write(self, data: bytes) -> None:
        """Append to the file.

        Raises:
            ResourceError: the system refuses it.
        """
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise refused(self.path, "write there what the task prints", error) from error

    def say(self, message: str) -> None:
        """Show lines of the launcher about the task."""
        self._terminal.say(message)

    def unseen(self) -> list[str]:
        """The last lines that the task has printed, if the terminal does not show them."""
        return self.last() if self._terminal.is_quiet else []

    def last(self) -> list[str]:
        """The last lines that the task has printed."""
        import glob  # a run that ends well does without

        ranks = self.path.parent.glob(f"{glob.escape(self.path.stem)}.[0-9]*.log")  # in one job, of a task of several
        with contextlib.suppress(OSError):
            written = [path for path in (self.path, *ranks) if path.stat().st_size]
            newest = max(written, key=lambda path: path.stat().st_mtime, default=self.path)
            with newest.open("rb") as file:
                file.seek(max(0, newest.stat().st_size - _CHUNK))
                return file.read().decode(errors="backslashreplace").rstrip().splitlines()[-_LAST:]
        return []

    def mute(self) -> None:
        """Show nothing more on the terminal."""
        self._shown = False

    def show(self, lines: bytes) -> None:
        """Pass complete lines on to the terminal."""
        if self._shown:
            self._terminal.lines(self.name, lines)


class Stream:
    """One start's output on its way from the pipe to the log."""

    def __init__(self, pipe: int, log: Log) -> None:
        self.pipe = pipe
        self._log = log
        self._partial = b""

    def pump(self) -> bool:
        """Carry on what has arrived; False at the end of the output, after which the pipe is closed."""
        while True:
            try:
                data = os.read(self.pipe, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                self.close()
                return False
            self._log.write(data)
            text = self._partial + data
            cut = text.rfind(b"\n") + 1
            if len(text) - cut > _CHUNK:
                cut = len(text)
            self._partial = text[cut:]
            self._log.show(text[:cut])
            if len(data) < _CHUNK:
                return True

    def close(self) -> None:
        """Show what is left without a line's end, and close the pipe."""
        if self.pipe < 0:
            return
        os.close(self.pipe)
        self.pipe = -1
        if self._partial:
            self._log.show(self._partial + b"\n")
            self._partial = b""
