"""Whether a run over several hosts can encrypt what crosses, and what it leaves in clear."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator, Sequence

from wilkins.errors import ResourceError
from wilkins.launch.hosts.remote import RSH, launcher_in_clear
from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import spans
from wilkins.transport import fabric
from wilkins.transport.board import native_library

CIPHER = "libwilkins-cipher.so"
"""Beside the layer, which loads it in each process that reads or sends steps of other hosts."""


def require(hosts: Sequence[str]) -> None:
    """See that these hosts get the run's key by a connection that others cannot read, and send nothing by UCX.

    Raises:
        ResourceError: they do not, or would.
    """
    if os.environ.get(fabric.FABRIC) == "ucx":
        raise ResourceError(
            f"--encrypt: {fabric.FABRIC} (--fabric) asks for UCX, which does not encrypt; leave out one of both"
        )
    for host in hosts:
        if launcher := launcher_in_clear(host):
            raise ResourceError(
                f"--encrypt: in this allocation {launcher} starts the run on {host}, and carries the run's key in "
                f"clear; let ssh do so ({RSH}=ssh), or leave out --encrypt"
            )


def require_cipher() -> None:
    """See that this host can encrypt.

    Raises:
        ResourceError: it cannot.
    """
    path = native_library().with_name(CIPHER)
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        why = str(error) if path.exists() else f"there is no {path}"
        raise ResourceError(
            f"--encrypt: the Wilkins on {socket.gethostname()} cannot encrypt: {why}; install OpenSSL's "
            "static library (Debian: libssl-dev), then Wilkins again from its checkout, or leave out --encrypt"
        ) from error


def notes(plan: Plan) -> Iterator[str]:
    """What crosses in clear all the same."""
    for task in plan.tasks:
        if spans(task):
            among = ", ".join(plan.hosts[host].name for host, _ in task.share)
            what = "PyTorch" if task.is_elastic else "MPI"
            yield f"--encrypt: what ranks of {task.name} send each other by {what} between {among} is not encrypted"
