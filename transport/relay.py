"""Carries the steps of a port to another host: ``relay.py send PATTERN`` here, ``relay.py receive PATTERN`` there.

A third argument has the port's rules of `compress`, a list of [dset, absolute, relative] as JSON. Then steps cross
whole, and parts of them packed (`wilkins/compression`): always or, if a fourth argument is ``faster``, where that is.

Each half is a task like any other. The sender reads steps as their bytes; the receiver writes files of the same names,
which are published when they are closed. The receiver asks for a step when it can take one, so a reader that is slow
slows its producer down, as on one host. The layer moves the bytes (``python/relay_send.cpp``,
``python/relay_receive.cpp``).

A host with receivers has one listener, its keeper's. A sender finds it by ``WILKINS_RELAY_ADDRESS`` (host:port), shows
that it knows the run's key, and says which relay it is of (``WILKINS_RELAY_NUMBER``, `GREETING`). Then the keeper
starts the receiver, with the connection (``WILKINS_RELAY_WIRE``, a descriptor) and what both sides have said by then
(``WILKINS_RELAY_SEEN``), of which the keys of an encrypted run are made (`handshake.py`).
``WILKINS_RELAY_ENDS`` names the ends of a pipe that the receivers of one producer share: they end together, as the
producer's ports do. The receiver counts the messages of both; the sender notes rules that fit nothing
(`relay_messages.py`).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wilkins.errors import ResourceError
from wilkins.transport import fabric, far_files, handshake, relay_messages, steps
from wilkins.transport.board import native_library
from wilkins.transport.errors import NoSuchPort
from wilkins.transport.listening import listen_at

if TYPE_CHECKING:
    from wilkins.compression.crossing import Packer

ADDRESS = "WILKINS_RELAY_ADDRESS"
NUMBER, WIRE = "WILKINS_RELAY_NUMBER", "WILKINS_RELAY_WIRE"
SEEN, ENDS = "WILKINS_RELAY_SEEN", "WILKINS_RELAY_ENDS"

SERVICE = "steps"
GREETING = struct.Struct("!Q")
"""Of a sender: the number of its relay."""
_NAME_MAX = 1024
_PORT = struct.Struct("!H")
"""Of the sender, where it gives what is absent of steps on the other host."""
_END = -1
_MEETS_WITHIN = 60.0
"""Seconds within which the receiver's keeper must answer."""
_TOLD = 3.0
"""Seconds in which this host tells what has changed in its memory, or the other one why its half of the relay has left,
before this half fails for it."""
_REASONS = {
    errno.ECONNRESET: "the other half of the relay has left before the end",
    errno.EPIPE: "the other half of the relay has left before the end",
    errno.EPROTO: "the other half of the relay says what this one does not understand",
    errno.EBADMSG: "bytes were damaged on their way between its halves, as their checksum shows; "
    "let somebody look at the network",
    errno.ENOPKG: "libwilkins-cipher.so cannot be loaded",
    errno.EIO: "bytes of the step are not those that were published any more, as their checksum shows",
    errno.EINTR: "the run is being stopped",
    errno.ENOTDIR: "its producer has turned to another folder meanwhile; let it give absolute names",
}


class _Piece(ctypes.Structure):
    """Bytes of a step that cross in fewer bytes."""

    _fields_ = (("begin", ctypes.c_uint64), ("end", ctypes.c_uint64), ("stored", ctypes.c_uint64))


class _Packing(ctypes.Structure):
    """All such pieces of a step, and what they are packed into."""

    _fields_ = (
        ("pieces", ctypes.POINTER(_Piece)),
        ("count", ctypes.c_uint64),
        ("bytes", ctypes.c_void_p),
        ("length", ctypes.c_uint64),
        ("error", ctypes.c_double),
        ("part", ctypes.c_double),
        ("seconds", ctypes.c_double),
    )


_UNPACK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Packing))


def send(pattern: str, rules: str = "", when: str = "always") -> None:
    """Send all steps of this task's in-port, each when the other side asks for one."""
    host, _, number = os.environ[ADDRESS].rpartition(":")
    port = steps.port(pattern)
    if port is None:
        raise NoSuchPort(errno.ENOENT, "this is no in-port of the task", pattern)
    with socket.create_connection((host, int(number))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        run = far_files.run_key()
        greeting = GREETING.pack(int(os.environ[NUMBER]))
        seen = handshake.authenticate(wire, SERVICE, run.key, _MEETS_WITHIN, greeting)
        _seal(wire, run, "client", seen)
        wire.sendall(_PORT.pack(_start_server(wire.getsockname()[0])))
        by = fabric.agree_as_sender(wire, encrypts=run.encrypts)
        line = (_Line(wire) if by.kind == "tcp" else lambda: fabric.rate(wire) or None) if when == "faster" else None
        packs = _Packs(_packer(rules, line), _messages()) if rules else None
        take, give = _library().wilkins_relay_take, _library().wilkins_relay_give
        at, size = ctypes.c_void_p(), ctypes.c_uint64()

        def moved(name: ctypes.Array[ctypes.c_char], folder: ctypes.Array[ctypes.c_char]) -> int:
            whole = int(packs is not None)
            if code := int(take(port, wire.fileno(), name, folder, whole, ctypes.byref(at), ctypes.byref(size))):
                return code
            packing = packs.of(at.value or 0, size.value) if packs else _Packing()
            return int(give(wire.fileno(), name, folder, ctypes.byref(packing)))

        try:
            _move_all(moved, "")
        except BaseException:
            _library().wilkins_relay_break_off(wire.fileno())
            raise
        wire.recv(1)  # the receiver leaves when nothing more can be read of its lazy steps


def _packer(rules: str, line: Callable[[], float | None] | None = None) -> Packer:
    """Imported only where it is needed: it brings h5py. `line`: tells how fast it is, where that decides."""
    from wilkins.compression.bounds import Rule
    from wilkins.compression.choice import Choice
    from wilkins.compression.crossing import Packer

    return Packer((Rule(*rule) for rule in json.loads(rules)), Choice(line) if line else None)


class _Line:
    """How many bytes a connection carries per second while there is something to carry, by the kernel's account."""

    _INFO = struct.Struct("=120x Q 40x Q")
    """Of ``struct tcp_info``: the bytes that were acknowledged, and the microseconds in which some were under way."""
    _LATEST = struct.Struct("=160x Q")
    """Of the same: bytes per second, of the latest that were acknowledged."""
    _LEAST = 1 << 16
    """Bytes of which a rate is made."""
    _KEPT = 0.75
    """Of what is known already, when more is known: lines change."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._carried = self._busy = 0
        self._rate: float | None = None

    def __call__(self) -> float | None:
        """Bytes per second; None: not known, as where nothing has been sent yet."""
        info = self._wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        if len(info) < self._INFO.size:
            return None
        carried, busy = self._INFO.unpack_from(info)
        if carried - self._carried >= self._LEAST and busy > self._busy:
            rate = max((carried - self._carried) / (busy - self._busy) * 1e6, *self._LATEST.unpack_from(info))
            self._rate = rate if self._rate is None else self._KEPT * self._rate + (1 - self._KEPT) * rate
            self._carried, self._busy = carried, busy
        return self._rate


def _messages() -> relay_messages.Messages:
    return relay_messages.Messages(int(os.environ[relay_messages.VARIABLE]))


def _memory(at: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(at)).cast("B") if size else memoryview(b"")


class _Packs:
    """Packs steps. What a step was packed into stays until the next one has been packed and given, too."""

    def __init__(self, packer: Packer, messages: relay_messages.Messages) -> None:
        self._packer, self._messages = packer, messages
        self._kept = deque[object](maxlen=2)
        self._said = ""
        """Why the last step was not packed that could not be: said in the relay's log, once for each reason."""

    def of(self, at: int, size: int) -> _Packing:
        """The parts of a step that cross packed."""
        step = self._packer.pack(_memory(at, size))
        if step.why and step.why != self._said:
            self._said = step.why
            print(f"a step crosses as it is, not compressed: {step.why}", file=sys.stderr, flush=True)
        if step.unfit is not None:
            self._messages.packed(step.unfit)
        pieces = (_Piece * len(step.pieces))(*(_Piece(*piece) for piece in step.pieces))
        data = ctypes.c_char_p(step.data)
        self._kept.append((pieces, data, step))
        address = ctypes.cast(data, ctypes.c_void_p)
        return _Packing(pieces, len(step.pieces), address, len(step.data), step.error, step.part, step.seconds)


class _Unpacks:
    """Unpacks steps, and counts what that has saved."""

    def __init__(self, packer: Packer, messages: relay_messages.Messages) -> None:
        self._packer, self._messages = packer, messages
        self.error: BaseException | None = None
        """What a step could not be unpacked for."""

    def __call__(self, at: int, size: int, packing: ctypes._Pointer[_Packing]) -> int:
        """Put the parts of a step where they belong; returns 0 or an errno."""
        try:
            came = packing.contents
            pieces = [(one.begin, one.end, one.stored) for one in came.pieces[: came.count]] if came.count else []
            seconds = self._packer.unpack(_memory(at, size), pieces, _memory(came.bytes or 0, came.length))
        except BaseException as error:
            self.error = error
            return errno.EPROTO
        before = sum(end - begin for begin, end, _ in pieces)
        self._messages.unpacked(before, came.length, came.error, came.part, came.seconds + seconds)
        return 0


def _start_server(address: str) -> int:
    """Give what is absent of steps on the other host, which knows this one by `address`; returns the port."""
    listener = listen_at(address)
    port = int(listener.getsockname()[1])
    threading.Thread(target=far_files.serve, args=(listener,), daemon=True).start()
    return port


def receive(pattern: str, rules: str = "", when: str = "always") -> None:
    """Write the steps that come as files of this task's out-port."""
    del pattern, when  # names come with the steps, and how these were packed
    messages = _messages()
    unpacks = _Unpacks(_packer(rules), messages) if rules else None
    unpack = _UNPACK(unpacks) if unpacks else _UNPACK()
    move = _library().wilkins_relay_receive
    run = far_files.run_key()
    with socket.socket(fileno=int(os.environ[WIRE])) as wire:
        _seal(wire, run, "server", bytes.fromhex(os.environ[SEEN]))
        messages.add(1)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        (port,) = _PORT.unpack(wire.recv(_PORT.size, socket.MSG_WAITALL))
        address = wire.getpeername()[0].removeprefix("::ffff:")  # of IPv4, where both kinds come to one listener
        server = os.fsencode(f"{address}:{port}")
        by = fabric.agree_as_receiver(wire, encrypts=run.encrypts)
        messages.add(by.messages)
        messages.crosses_by(by.kind, by.why)

        def moved(name: ctypes.Array[ctypes.c_char], folder: ctypes.Array[ctypes.c_char]) -> int:
            code = int(move(wire.fileno(), server, name, folder, unpack))
            if unpacks and unpacks.error:
                raise unpacks.error
            messages.add(relay_messages.OF_A_STEP)
            return code

        _move_all(moved, os.getcwd())  # noqa: PTH109 - as its producer gave it
        messages.end()
        ours, theirs = map(int, os.environ[ENDS].split(","))
        os.close(ours)
        os.read(theirs, 1)
        if code := _library().wilkins_relay_end():
            raise OSError(code, _REASONS.get(code, os.strerror(code)))


def _move_all(move: Callable[[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]], int], folder: str) -> None:
    """Move steps to the end of the stream, by a call that moves one and says what it is called, and in which folder."""
    named = ctypes.create_string_buffer(_NAME_MAX)
    there = ctypes.create_string_buffer(os.fsencode(folder), _NAME_MAX)
    while not (code := move(named, there)):
        pass
    if code in (errno.EIO, errno.ECONNRESET, errno.EPIPE):
        time.sleep(_TOLD)
    if code != _END:
        raise OSError(code, _REASONS.get(code, os.strerror(code)), os.fsdecode(named.value))


def _seal(wire: socket.socket, run: handshake.RunKey, side: str, seen: bytes) -> None:
    """Let the layer seal what it sends on a connection from now on, if the run encrypts."""
    if run.encrypts:
        keys = handshake.frame_keys(run.key, SERVICE, side, seen)
        if code := _library().wilkins_relay_seal(wire.fileno(), keys, len(keys)):
            raise OSError(code, _REASONS.get(code, os.strerror(code)))


def _library() -> ctypes.PyDLL:
    """The layer in this process. It is called with Python's lock, and releases it while it waits, to see to signals."""
    library = ctypes.PyDLL(str(native_library()))
    text, number, pointer = ctypes.c_char_p, ctypes.c_int, ctypes.POINTER
    size = pointer(ctypes.c_uint64)
    library.wilkins_relay_take.argtypes = [number, number, text, text, number, pointer(ctypes.c_void_p), size]
    library.wilkins_relay_give.argtypes = [number, text, text, pointer(_Packing)]
    library.wilkins_relay_break_off.argtypes = [number]
    library.wilkins_relay_seal.argtypes = [number, text, number]
    library.wilkins_relay_receive.argtypes = [number, text, text, text, _UNPACK]
    return library


def main(args: Sequence[str]) -> None:
    """Be a half: its arguments are those of the command."""
    try:
        {"send": send, "receive": receive}[args[0]](*args[1:])
    except (ResourceError, OSError) as failure:  # which runs that end over it show
        raise SystemExit(f"wilkins: error: {failure}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
