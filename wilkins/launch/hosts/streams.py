"""Starts a program on another host, and gives it the standard streams of this process, by TCP.

For launchers of schedulers: PBS's `pbs_tmrsh` gives a program none, and `flux exec` keeps back what it prints. On this
side, ``streams here RUN LAUNCHER ... -- WORD ...`` lets the launcher start ``streams there FILE`` on the host; that
connects to this side, and becomes the program. What it needs to know is in the file, which all hosts see.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from wilkins.launch.programs.process import end_with_parent
from wilkins.transport import handshake
from wilkins.transport.listening import address_in, listen

SERVICES = ("streams", "errors")
"""The connections: standard input and output, and standard error."""

_LOOKS_EVERY = 0.2
"""Seconds between looks whether the command has ended before the program has connected."""
_CHUNK = 1 << 16


def here(run: Path, launcher: Sequence[str], words: Sequence[str]) -> int:
    """Start a program; returns the exit code of the launcher.

    Args:
        run: the run's directory, which all hosts see.
        launcher: the command that starts what comes behind it on the other host.
    """
    key, name = secrets.token_bytes(16), socket.gethostname()
    listeners = [listen(name) for _ in SERVICES]
    addresses = [where if not where.startswith(":") else name + where for where in map(address_in, listeners)]
    doors = [handshake.AuthenticatedListener(*pair, key) for pair in zip(listeners, SERVICES, strict=True)]
    descriptor, path = tempfile.mkstemp(prefix="streams-", dir=run / "hosts")  # for this user alone
    with os.fdopen(descriptor, "w") as file:
        json.dump([key.hex(), addresses, str(Path.cwd()), list(words)], file)
    command = [*launcher, sys.executable, "-m", "wilkins.launch.hosts.streams", "there", path]
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        wires = [wire for door in doors for wire in _first(door, child)]
        if len(wires) == len(SERVICES):
            _carry(*wires)
        return child.wait()
    finally:
        Path(path).unlink(missing_ok=True)


def _first(door: handshake.AuthenticatedListener, child: subprocess.Popen[bytes]) -> list[socket.socket]:
    """The connection that comes by a door; none if the command ends first."""
    while not (came := door.accept(_LOOKS_EVERY)) and child.poll() is None:
        pass
    door.close()
    return came[:1]


def _carry(streams: socket.socket, errors: socket.socket) -> None:
    """Carry the standard streams until the program has closed those that it writes."""
    streams.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_carry_input, args=(streams,), daemon=True).start()
    reader = threading.Thread(target=_carry_output, args=(errors, sys.stderr.fileno()))
    reader.start()
    _carry_output(streams, sys.stdout.fileno())
    reader.join()


def _carry_input(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the program has left
        while data := os.read(sys.stdin.fileno(), _CHUNK):
            wire.sendall(data)
        wire.shutdown(socket.SHUT_WR)


def _carry_output(wire: socket.socket, to: int) -> None:
    with contextlib.suppress(OSError):  # either side has left
        while data := wire.recv(_CHUNK):
            while data:
                data = data[os.write(to, data) :]
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


def there(path: Path) -> None:
    """Become the program, whose standard streams are connections to the other side."""
    key, addresses, folder, words = json.loads(path.read_text())
    os.chdir(folder)
    ends = []
    for service, where in zip(SERVICES, addresses, strict=True):
        host, _, port = where.rpartition(":")
        wire = socket.create_connection((host, int(port)))
        handshake.authenticate(wire, service, bytes.fromhex(key))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends.append(wire.detach())
    for target, end in enumerate((ends[0], ends[0], ends[1])):
        os.dup2(end, target)
    os.execvp(words[0], words)


def main(side: str, place: Path, *words: str) -> int:
    """Be one of both sides."""
    if side == "here":
        between = words.index("--")
        return here(place, words[:between], words[between + 1 :])
    there(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
