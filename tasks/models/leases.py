"""Who may change a model store: any number of processes put and get models in it, or one alone removes blobs.

Leases are locks of files, which the system gives back when a process dies. Who wants to be alone closes the gate first:
those that come later wait there, so that a store that is always written to can be pruned.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from wilkins.tasks.models.errors import ModelError

_LOG = logging.getLogger("wilkins.models")
GATE, LEASE = ".gate", ".lease"
_LOOK_EVERY = 0.002
"""Seconds between two looks at a lock."""
PATIENCE = 600.0
"""Seconds that anybody waits for others, who are at work on one model, or on all blobs."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)


@contextlib.contextmanager
def shared(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Keep blobs from being removed while the block lasts. Where one may only read and no lock is, nothing is locked.

    Raises:
        ModelError: somebody removes blobs for longer than `patience` seconds.
    """
    with contextlib.ExitStack() as held:
        gate = held.enter_context(_opened(folder / GATE))
        lease = held.enter_context(_opened(folder / LEASE))
        if gate < 0 or lease < 0:
            yield
            return
        given_up = time.monotonic() + patience
        try:
            if not (_locked(gate, fcntl.LOCK_SH, given_up) and _locked(lease, fcntl.LOCK_SH, given_up)):
                raise ModelError(
                    f"the model store {folder} is being pruned by {_who(gate)} for longer than {patience:g} s; wait "
                    "for that to end, or end it"
                )
            fcntl.flock(gate, fcntl.LOCK_UN)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _LOG.warning("%s cannot be locked (%s): prune it only while nobody uses it", folder, error.strerror)
        yield


@contextlib.contextmanager
def alone(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Let nobody put or get models while the block lasts.

    Raises:
        ModelError: others do for longer than `patience` seconds, or the file system has no locks.
    """
    with contextlib.ExitStack() as held:
        gate = held.enter_context(_opened(folder / GATE))
        lease = held.enter_context(_opened(folder / LEASE))
        given_up = time.monotonic() + patience
        try:
            if gate < 0 or lease < 0:
                raise OSError(errno.EACCES, "it cannot be written to")
            if not _locked(gate, fcntl.LOCK_EX, given_up):
                raise ModelError(f"the model store {folder} is being pruned by {_who(gate)}; wait for that to end")
            _sign(gate)
            if not _locked(lease, fcntl.LOCK_EX, given_up):
                raise ModelError(
                    f"others have put models into {folder}, or read some, for longer than {patience:g} s; prune it "
                    "when they have ended"
                )
        except OSError as error:
            raise ModelError(
                f"the model store {folder} cannot be locked ({error.strerror}), so nothing is removed there: a model "
                "that is being put could lose tensors; prune it on a host, and by a user, that can"
            ) from error
        yield


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of a file that is locked, made if it is missing; -1: it is not there and cannot be made."""
    descriptor = -1
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            break
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _locked(descriptor: int, how: int, given_up: float) -> bool:
    """Lock a file; whether that came about in time."""
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() > given_up:
            return False
        time.sleep(_LOOK_EVERY)


def _sign(gate: int) -> None:
    """Say in the gate's file who has closed it, if there is room: a full disk is what removing is for."""
    with contextlib.suppress(OSError):
        os.ftruncate(gate, 0)
        os.pwrite(gate, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)


def _who(gate: int) -> str:
    return os.pread(gate, 200, 0).decode(errors="replace").strip() or "another process"
