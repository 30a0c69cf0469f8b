"""Whether the programs of a host will be able to connect to other hosts: found out before any is started."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import time
from collections.abc import Mapping

from wilkins.errors import ResourceError

WITHIN = 10.0
"""Seconds in which another host must answer. Where packets are dropped, the system tries for minutes."""


def check(addresses: Mapping[str, str]) -> None:
    """Connect to other hosts, to all at once.

    Args:
        addresses: by host, where one of its processes listens (``address:port``).

    Raises:
        ResourceError: one of them cannot be reached.
    """
    until = time.monotonic() + WITHIN
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for host, where in addresses.items():
            address, _, port = where.rpartition(":")
            try:
                found = socket.getaddrinfo(address, int(port), type=socket.SOCK_STREAM)[0]
            except OSError as error:
                raise _unreached(host, where, error.strerror or str(error)) from error
            wire = stack.enter_context(socket.socket(*found[:3]))
            wire.setblocking(False)
            if (begun := wire.connect_ex(found[4])) not in (0, errno.EINPROGRESS):
                raise _unreached(host, where, os.strerror(begun))
            selector.register(wire, selectors.EVENT_WRITE, (host, where))
        while selector.get_map():
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                if failed := key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # type: ignore[union-attr]
                    raise _unreached(key.data[0], key.data[1], os.strerror(failed))
                selector.unregister(key.fileobj)
            if time.monotonic() >= until and (left := list(selector.get_map().values())):
                raise _unreached(left[0].data[0], left[0].data[1], f"no answer within {WITHIN:g} s")


def _unreached(host: str, where: str, why: str) -> ResourceError:
    return ResourceError(
        f"this host cannot connect to {host} at {where}: {why}; if a firewall is between them, open the TCP ports from "
        "each host of the run to each other, or name a network that they share with --interface"
    )
