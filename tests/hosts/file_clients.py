"""Ranks on other hosts, as a server of files sees them: many connections of one process (transport/native/far)."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wilkins.transport import far_files, handshake
from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

KEY = "00112233445566778899aabbccddeeff"
WITHIN = 60.0
"""Seconds for each word of a conversation."""
READ, CLOSE, LEAVE = 2, 11, 12
"""Requests, as in far_wire.hpp."""
_FRAME = struct.Struct("<3I")
_REQUEST = struct.Struct("<IiQQ")
_ANSWER = struct.Struct("<qQ")
_OPENED = struct.Struct("<qiiQQ")
_PROOF = 32


def _table() -> Iterator[int]:
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        yield byte


_CRC = list(_table())


def frame(words: bytes) -> bytes:
    """A frame of words, with its checksum (CRC-32C)."""
    crc = 0xFFFFFFFF
    for byte in words:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    return _FRAME.pack(len(words), len(words) ^ 0xFFFFFFFF, crc ^ 0xFFFFFFFF) + words


def hello(name: str) -> bytes:
    """What opens the task's own file of a name, to read it."""
    return frame(struct.pack("<iiQi1024s256s4x", -1, -1, 0, 0, name.encode(), b""))


def request(what: int, place: int = 0, length: int = 0) -> bytes:
    """A question of a rank."""
    return frame(_REQUEST.pack(what, 0, place, length))


class Client:
    """A connection to a server of files."""

    def __init__(self, port: int) -> None:
        self.wire = socket.socket()
        self.wire.setblocking(False)
        self.said = bytearray()
        """What has come, and was not used."""
        self._expected = b""
        with_error = self.wire.connect_ex(("127.0.0.1", port))
        assert with_error in (0, errno.EINPROGRESS), os.strerror(with_error)

    def prove(self, opens: str) -> None:
        """Answer the challenge, and say what is to be opened."""
        challenge, self.said = bytes(self.said), bytearray()
        key, own = bytes.fromhex(KEY), os.urandom(_PROOF)
        seen = challenge + own
        self._expected = handshake._proof(key, "server", far_files.SERVICE, seen)
        self.wire.sendall(own + handshake._proof(key, "client", far_files.SERVICE, seen) + hello(opens))

    def is_open(self, *, again: bool = False) -> bool:
        """Whether the server has opened the step, now that it has said so; `again`: by a connection that it knows."""
        proof = b"" if again else self._expected
        said, opened = bytes(self.said[: len(proof)]), self.said[len(proof) + _FRAME.size :]
        self.said = bytearray()
        return said == proof and _OPENED.unpack(opened)[0] == 0

    def ask(self, what: int, place: int = 0, length: int = 0) -> None:
        """Ask for something of the step."""
        self.wire.sendall(request(what, place, length))

    def bytes_read(self) -> bytes:
        """What has come of bytes that were read."""
        answer, rest = self.said[_FRAME.size :][: _ANSWER.size], self.said[2 * _FRAME.size + _ANSWER.size :]
        self.said = bytearray()
        assert _ANSWER.unpack(answer) == (0, 0)
        return bytes(rest)


CHALLENGE_COMES = _PROOF
OPENED_COMES = _PROOF + _FRAME.size + _OPENED.size
OPENED_AGAIN = _FRAME.size + _OPENED.size
ANSWER_COMES = _FRAME.size + _ANSWER.size


def read_comes(length: int) -> int:
    """Bytes of the answer to a short read."""
    return ANSWER_COMES + _FRAME.size + length


def hear_all(clients: Iterable[Client], count: int, then: Callable[[Client], None] = lambda _: None) -> None:
    """Wait until so many bytes have come to each, and do with it what comes next.

    Raises:
        ConnectionError: the server has ended a connection.
        TimeoutError: nothing comes any more.
    """
    with selectors.DefaultSelector() as selector:
        left = 0
        for one in clients:
            selector.register(one.wire, selectors.EVENT_READ, one)
            left += 1
        while left:
            ready = selector.select(WITHIN)
            if not ready:
                raise TimeoutError(f"{left} connections get no answer")
            for key, _ in ready:
                client: Client = key.data
                part = client.wire.recv(count - len(client.said))
                if not part:
                    raise ConnectionResetError(f"the server has ended a connection; {left} had yet to get their answer")
                client.said += part
                if len(client.said) == count:
                    selector.unregister(client.wire)
                    then(client)
                    left -= 1


class Served:
    """A process that serves a step of a task."""

    def __init__(self, folder: Path, environment: dict[str, str], listener: socket.socket) -> None:
        self.port = listener.getsockname()[1]
        own = {far_files.ADDRESS: f"127.0.0.1:{self.port}", far_files.LISTENS: str(listener.fileno())}
        self._words = [sys.executable, str(far_files.__file__)]
        self._folder = folder
        self._environment = {**environment, **own}
        self._listener = listener
        self._start()

    def _start(self) -> None:
        descriptors = [self._listener.fileno()]
        self._server = subprocess.Popen(self._words, cwd=self._folder, env=self._environment, pass_fds=descriptors)

    @property
    def pid(self) -> int:
        return self._server.pid

    def end(self) -> None:
        """End it, with all its connections."""
        self._server.kill()
        self._server.wait()

    def start_again(self) -> None:
        """Another process takes its place."""
        self.end()
        self._start()

    def status(self, name: str) -> int:
        """A number of /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    def descriptors(self) -> int:
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208


def _board(folder: Path) -> Board:
    made = Board.create(
        [BoardTask("simulation", 1), BoardTask("analysis", 1)],
        [BoardPort(0, "out", "s*.bin"), BoardPort(1, "in", "s*.bin")],
        [BoardChannel(0, 1, every=1, queue=3, when_full="block", readers=1)],
        log=folder / "layer.log",
    )
    handshake.write_key(made.path, KEY)
    return made


@contextmanager
def rank_elsewhere(folder: Path, port: int) -> Iterator[dict[str, str]]:
    """The variables of a rank of the task on another host, where it asks the server for files that it has not."""
    board = _board(folder)
    try:
        yield {**os.environ, **board.environment(0, 0), far_files.ELSEWHERE: f"127.0.0.1:{port}"}
    finally:
        board.remove()


@contextmanager
def serving(folder: Path, name: str, content: bytes) -> Iterator[Served]:
    """Publish a file as a step, and serve it."""
    board = _board(folder)
    try:
        environment = {**os.environ, **board.environment(0, 0)}
        write = f"import sys; open({name!r}, 'wb').write(sys.stdin.buffer.read())"
        subprocess.run([sys.executable, "-c", write], input=content, cwd=folder, env=environment, check=True)
        with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
            served = Served(folder, environment, listener)
            try:
                yield served
            finally:
                served.end()
    finally:
        board.remove()
