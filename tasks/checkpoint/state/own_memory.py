"""Copies of this process's memory that may be gone by then: a program may shrink or free an array while it is read."""

from __future__ import annotations

import ctypes
import errno
import os


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


def copy(to: int, address: int, length: int) -> bool:
    """Copy `length` bytes, at memmove's speed, without the interpreter's lock; returns whether all of them were there.

    The kernel reads them (`process_vm_readv`): missing memory is an error code, and does not end the process.
    """
    while length:
        local, remote = _Piece(to, length), _Piece(address, length)
        done = _READ(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if done < 0:
            if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
                return False
            ctypes.memmove(to, address, length)  # a container forbids the call
            return True
        to, address, length = to + done, address + done, length - done
    return True


_READ = ctypes.CDLL(None, use_errno=True).process_vm_readv
_READ.restype = ctypes.c_ssize_t
_READ.argtypes = (
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
)  # fmt: skip
