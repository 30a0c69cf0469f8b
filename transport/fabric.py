"""By what the bytes of steps cross between hosts: TCP, or the site's UCX where that knows a faster network.

The halves of a relay agree on it when they meet. The sender says how UCX reaches it, or why it does not use it; the
receiver answers likewise; then a message crosses on trial. Words go by TCP in any case, and all bytes where UCX fails
on trial. The layer has the library (``transport/native/far/ucx.cpp``).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from pathlib import Path
from typing import Literal

from wilkins.errors import ResourceError, UsageError
from wilkins.transport.board import native_library
from wilkins.transport.listening import INTERFACE, interface_of
from wilkins.values import dataclass

FABRIC = "WILKINS_FABRIC"
"""``auto``, ``tcp`` or ``ucx``."""
LIBRARY = "WILKINS_UCX"
"""The path of the site's ``libucp.so``, where the dynamic linker does not find it."""
KINDS = ("auto", "tcp", "ucx")
VARIABLES = {"UCX_MEM_EVENTS": "n", "UCX_HANDLE_ERRORS": "none"}
"""What the process that loads it has in its environment: no hooks of UCX's for memory, and none for signals."""

_DEFAULT_LIBRARY = "libucp.so.0"
_SYSTEM = Path("/sys/class")
_ADDRESS_MAX = 1 << 16
_TEXT_MAX = 512
_MESSAGE = struct.Struct("!?QI")
"""Whether UCX is offered, the tag of its first message, and the bytes that follow: its address, or why not."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a host would use."""

    ucx: bool
    why: str
    """In words."""
    forced: bool = False
    """UCX or nothing."""
    library: str = ""
    devices: str = ""
    """The network devices for it, by its names; empty: all."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """What the halves of a relay use."""

    kind: Literal["tcp", "ucx"]
    why: str
    messages: int = 0
    """How many it took to agree on it, beside the sender's greeting."""


def wish(system: Path = _SYSTEM, *, encrypts: bool = False) -> Wish:
    """What this host would use, by the variables of its environment and its network devices.

    Args:
        encrypts: the run encrypts what crosses, which is for the layer's own connections.

    Raises:
        UsageError: `FABRIC` says what nobody knows.
    """
    said = os.environ.get(FABRIC, "") or "auto"
    library = os.environ.get(LIBRARY, "") or _DEFAULT_LIBRARY
    if said not in KINDS:
        raise UsageError(f"{FABRIC} must be one of {', '.join(KINDS)}, not {said!r}")
    if said == "tcp":
        return Wish(ucx=False, why=f"{FABRIC} says so", library=library)
    if encrypts:
        return Wish(ucx=False, why="the run encrypts, and UCX does not", forced=said == "ucx", library=library)
    direct = _direct_devices(system)
    if said == "ucx":
        return Wish(ucx=True, why=f"{FABRIC} says so", forced=True, library=library, devices=_allowed(system, direct))
    if not direct:
        return Wish(ucx=False, why="this host has no RDMA device", library=library)
    return Wish(
        ucx=True, why=f"this host has RDMA by {', '.join(direct)}", library=library, devices=_allowed(system, direct)
    )


def shown(wished: Wish) -> str:
    """A wish, in words."""
    also = "" if wished.forced or not wished.ucx else "; by TCP to hosts that cannot do so"
    return f"bytes of steps cross by {'UCX' if wished.ucx else 'TCP'}: {wished.why}{also}"


def tried(wished: Wish) -> tuple[str, str]:
    """UCX as it is on this host, in words; and why it cannot be used, empty if it can."""
    address, length = ctypes.create_string_buffer(_ADDRESS_MAX), ctypes.c_uint64(_ADDRESS_MAX)
    said, failed = _offered(-1, wished, wished.devices, address, length)
    return ("", said) if failed else (said, "")


def agree_as_sender(wire: socket.socket, *, encrypts: bool = False) -> Fabric:
    """Agree with the receiver on what bytes cross by.

    Raises:
        UsageError: see `wish`.
        ResourceError: it is not what `FABRIC` says.
    """
    wished = wish(encrypts=encrypts)
    tag = int.from_bytes(os.urandom(8), "big")
    offer, why = _offer(wire, wished)
    _say(wire, offer, tag, why)
    if not offer:
        return _chosen(wished, why)
    theirs, _, said = _hear(wire)
    if not theirs:
        _drop(wire)
        return _chosen(wished, _text(said), 1)
    return _on_trial(wire, wished, said, tag, sends=True)


def agree_as_receiver(wire: socket.socket, *, encrypts: bool = False) -> Fabric:
    """The other side of `agree_as_sender`."""
    theirs, tag, said = _hear(wire)
    wished = wish(encrypts=encrypts)
    if not theirs:
        return _chosen(wished, _text(said) if wished.ucx else wished.why)
    offer, why = _offer(wire, wished)
    _say(wire, offer, tag, why)
    return _on_trial(wire, wished, said, tag, sends=False) if offer else _chosen(wished, why, 1)


def rate(wire: socket.socket) -> float:
    """Bytes per second of what UCX has sent; 0: not known."""
    return float(_layer().wilkins_relay_ucx_rate(wire.fileno()))


def _on_trial(wire: socket.socket, wished: Wish, address: bytes, tag: int, *, sends: bool) -> Fabric:
    layer = _layer()
    said = ctypes.create_string_buffer(_TEXT_MAX)
    failed = layer.wilkins_relay_ucx_join(wire.fileno(), address, len(address), tag, int(sends), said)
    own = os.fsdecode(said.value)
    if failed and failed != errno.EHOSTUNREACH:
        own = f"{own} ({os.strerror(failed)})"
    _say(wire, not failed, 0, own)
    theirs, _, other = _hear(wire)
    if not failed and theirs:
        return Fabric("ucx", own, 3)
    _drop(wire)
    return _chosen(wished, own if failed else _text(other), 3)


def _drop(wire: socket.socket) -> None:
    _layer().wilkins_relay_ucx_drop(wire.fileno())


def _chosen(wished: Wish, why: str, messages: int = 0) -> Fabric:
    """TCP, unless that is refused."""
    if wished.forced:
        raise ResourceError(
            f"{FABRIC}=ucx: {why}; mend that ({LIBRARY}=PATH says where the site's libucp.so is), or leave out --fabric"
        )
    return Fabric("tcp", why, messages)


def _offer(wire: socket.socket, wished: Wish) -> tuple[bytes, str]:
    """How UCX reaches this half, or nothing and why not."""
    if not wished.ucx:
        return b"", wished.why
    address, length = ctypes.create_string_buffer(_ADDRESS_MAX), ctypes.c_uint64(_ADDRESS_MAX)
    own = interface_of(wire.getsockname()[0]) if wished.forced else ""
    devices = ",".join(filter(None, (own, wished.devices)))
    said, failed = _offered(wire.fileno(), wished, devices, address, length)
    return (b"", said) if failed else (address.raw[: length.value], wished.why)


def _offered(
    wire: int, wished: Wish, devices: str, address: ctypes.Array[ctypes.c_char], length: ctypes.c_uint64
) -> tuple[str, bool]:
    """UCX's version or why it cannot be used, and which of both that is. `wire`: of the relay; -1: nothing is kept."""
    said = ctypes.create_string_buffer(_TEXT_MAX)
    words = os.fsencode(wished.library), os.fsencode(devices), int(wished.ucx and not wished.forced)
    failed = _layer().wilkins_relay_ucx_offer(wire, *words, address, ctypes.byref(length), said)
    return os.fsdecode(said.value) or os.strerror(failed), bool(failed)


def _say(wire: socket.socket, offer: bytes | bool, tag: int, why: str) -> None:
    told = offer if isinstance(offer, bytes) and offer else os.fsencode(why)
    wire.sendall(_MESSAGE.pack(bool(offer), tag, len(told)) + told)


def _hear(wire: socket.socket) -> tuple[bool, int, bytes]:
    offered, tag, length = _MESSAGE.unpack(_whole(wire, _MESSAGE.size))
    if length > _ADDRESS_MAX:
        raise OSError(errno.EPROTO, "the other half of the relay says what this one does not understand")
    return offered, tag, _whole(wire, length)


def _whole(wire: socket.socket, length: int) -> bytes:
    read = wire.recv(length, socket.MSG_WAITALL) if length else b""
    if len(read) < length:
        raise ConnectionResetError(errno.ECONNRESET, "the other half of the relay has left before the end")
    return read


def _text(said: bytes) -> str:
    return f"on the other host: {said.decode(errors='replace')}"


def _direct_devices(system: Path) -> list[str]:
    """Network devices that reach memory by themselves, as UCX calls them."""
    return sorted(
        f"{port.parents[1].name}:{port.name}"
        for port in system.glob("infiniband/*/ports/*")
        if "ACTIVE" in _said(port / "state")
    )


def _said(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _allowed(system: Path, direct: list[str]) -> str:
    """Of these devices those that `INTERFACE` means, or all if that names none of theirs."""
    wanted = os.environ.get(INTERFACE, "")
    there = {one.name for one in (system / "net" / wanted / "device/infiniband").glob("*")} if wanted else set()
    return ",".join(one for one in direct if not there or one.partition(":")[0] in there)


def _layer() -> ctypes.PyDLL:
    library = ctypes.PyDLL(str(native_library()))
    text, number, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64
    library.wilkins_relay_ucx_offer.argtypes = [number, text, text, number, text, ctypes.POINTER(size), text]
    library.wilkins_relay_ucx_join.argtypes = [number, text, size, size, number, text]
    library.wilkins_relay_ucx_drop.argtypes = [number]
    library.wilkins_relay_ucx_rate.argtypes = [number]
    library.wilkins_relay_ucx_rate.restype = ctypes.c_double
    return library
