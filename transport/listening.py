"""Listening sockets at that address of this host alone by which others reach it."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from wilkins.errors import ResourceError

INTERFACE = "WILKINS_INTERFACE"
"""Names the network interface, the address, or the network (10.1.0.0/16) by which hosts are to reach each other."""

_BACKLOG = 4096
_SILENT_FOR = 30
"""Seconds without a word on a connection, after which the kernel sends one: firewalls forget silent ones, some after
minutes, and a program may compute for hours between two steps."""
_GET_ADDRESS = 0x8915
"""SIOCGIFADDR, of ``ioctl(2)``."""


def listen(name: str) -> socket.socket:
    """A listening socket of a host that others know by `name`.

    It is at the address that `INTERFACE` says; else at the one that the name has here; at all addresses if it has none,
    or the loopback interface's, which Debian gives to a host's own name.

    Raises:
        ResourceError: this host does not have what `INTERFACE` says.
    """
    if wanted := os.environ.get(INTERFACE, ""):
        return listen_at(address_of(wanted))
    for address in _resolved(name):
        with contextlib.suppress(OSError):  # it is another host's, such as that of a load balancer
            return listen_at(address)
    return listen_at("")


def listen_at(address: str) -> socket.socket:
    """A listening socket at an address of this host; empty: at all, of IPv4 and IPv6. Its connections are kept alive.

    Raises:
        OSError: the host has no such address.
    """
    listener = _listener(address)
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_FOR),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENT_FOR),
    ):
        listener.setsockopt(level, option, value)
    return listener


def _listener(address: str) -> socket.socket:
    if not address and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 is switched off here
            return socket.create_server((address, 0), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=_BACKLOG)


def address_in(listener: socket.socket) -> str:
    """``address:port``, as others have to be told it; without an address if that is as good as any of the host's."""
    address, port = listener.getsockname()[:2]
    return f":{port}" if ipaddress.ip_address(address).is_unspecified else f"{address}:{port}"


def address_of(wanted: str) -> str:
    """The address that a value of `INTERFACE` means on this host.

    Raises:
        ResourceError: there is none.
    """
    known = list(_addresses())
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(wanted, strict=False)
        known = [(name, address) for name, address in known if ipaddress.ip_address(address) in network]
        wanted = known[0][0] if known else wanted
    for name, address in known:
        if name == wanted:
            return address
    there = ", ".join(f"{name} ({address})" for name, address in _addresses())
    raise ResourceError(
        f"{INTERFACE}={wanted}: the host {socket.gethostname()} has nothing of that name; it has {there}"
    )


def interface_of(address: str) -> str:
    """The interface that has an address on this host; empty: none."""
    plain = address.removeprefix("::ffff:")  # of IPv4, where both kinds come to one listener
    return next((name for name, own in _addresses() if own == plain), "")


def _resolved(name: str) -> Iterator[str]:
    """What a name means here, IPv4 first, but for addresses that other hosts cannot use."""
    with contextlib.suppress(OSError):
        for _, _, _, _, where in sorted(socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)):
            found = ipaddress.ip_address(where[0])
            if not found.is_loopback and not found.is_link_local:
                yield str(found)


def _addresses() -> Iterator[tuple[str, str]]:
    """Of this host, with the names of their interfaces: those of IPv4 before those of IPv6 that are of wider use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, struct.pack("256s", os.fsencode(name)[:15]))
                yield name, socket.inet_ntoa(answer[20:24])
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, _, _, scope, _, name = line.split()
            if scope == "00" or name == "lo":
                yield name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
