"""Looks at files in a process of its own: a damaged file may crash or hang a library, or take all memory."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from wilkins.contents.summary import Contents, as_value, from_value

_SECONDS = 20.0
"""For each file; on a busy machine, importing a package from a slow disk takes some."""
_ALL = 3
"""As many times that long, and further files are not looked at."""
_MOST_MEMORY = 8 << 30
"""Bytes of addresses: of libraries, stacks and what a file is unpacked to."""
_FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from wilkins.contents.apart import main; main()"
"""What is in the folder where it is started, as a user's own `numpy.py`, is not imported."""


def look_apart(paths: Sequence[Path], seconds: float = _SECONDS) -> list[Contents]:
    """What files hold, as `wilkins.contents.look.look` says, each within some seconds, and all within a few times that.
    It raises nothing.

    Args:
        seconds: for each file.
    """
    found: list[Contents] = []
    until = time.monotonic() + _ALL * seconds
    while len(found) < len(paths):
        rest = paths[len(found) :]
        if time.monotonic() > until:
            return found + [_unread(path, "it was not looked at: others before it took too long") for path in rest]
        why = "it cannot be read: no process could be started for that"
        try:
            with _started(rest) as child:
                lines = _lines(child, seconds)
                for _, line in zip(rest, lines, strict=False):
                    found.append(from_value(json.loads(line)))
                child.kill()
                slow = child.wait() == -9
            why = f"reading it took longer than {seconds:g} s" if slow else "it is damaged: its library crashed over it"
        except OSError:
            pass
        if len(found) < len(paths):
            found.append(_unread(paths[len(found)], why))
    return found


def _unread(path: Path, why: str) -> Contents:
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return Contents(str(path), "", size, problem=why)


def _started(paths: Sequence[Path]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **_FEW_THREADS},
    )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps([str(path.absolute()) for path in paths]).encode())
        child.stdin.close()
    except OSError:  # it has died already, which is seen when nothing comes
        pass
    return child


def _lines(child: subprocess.Popen[bytes], seconds: float) -> Iterator[bytes]:
    """The lines that a child prints, until one takes too long."""
    assert child.stdout is not None
    data, searched, until = bytearray(), 0, time.monotonic() + seconds
    while True:
        end = data.find(b"\n", searched)
        if end >= 0:
            yield bytes(data[:end])
            del data[: end + 1]
            searched, until = 0, time.monotonic() + seconds
            continue
        searched, left = len(data), until - time.monotonic()
        ready = left > 0 and select.select([child.stdout], [], [], left)[0]
        part = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
        if not part:
            return
        data += part


def main() -> None:
    """The process: reads paths, a list in JSON, and prints what each holds, a line of JSON each."""
    import resource

    from wilkins.contents.look import look

    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = _MOST_MEMORY if limit == resource.RLIM_INFINITY else min(_MOST_MEMORY, limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    for path in json.loads(sys.stdin.read()):
        output.write(json.dumps(as_value(look(Path(path)))) + "\n")
        output.flush()
