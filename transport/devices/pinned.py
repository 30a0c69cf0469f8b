"""Host memory registered with CUDA: the arenas themselves, so that copies to and from a GPU run at the full rate.

A kept mapping of an arena is registered once, over the memory the arena has, and again when that has changed: what CUDA
has registered is the pages of that moment, and memory that an arena gave back and got again is made of others.
Where registering fails, copies from and to that mapping are ordinary ones (right, but slower), and `refusals` says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from wilkins.transport.board import native_library
from wilkins.transport.devices.driver import (
    ATTRIBUTE_READ_ONLY_HOST_REGISTER,
    DEINITIALIZED,
    REGISTER_PORTABLE,
    REGISTER_READ_ONLY,
    CudaError,
    Driver,
)

_PAGE = os.sysconf("SC_PAGE_SIZE")


class ArenaPart(NamedTuple):
    """A process's mapping of an arena, and the memory behind it now."""

    base: int
    length: int
    """bytes of memory that the arena has"""
    cuts: int
    """how often it has lost memory"""
    writable: bool
    kept: bool
    """by the process; else the mapping ends with the step"""
    slot: int
    """the arena's number in the run"""


class _ArenaPart(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("cuts", ctypes.c_uint64),
        ("writable", ctypes.c_int32),
        ("kept", ctypes.c_int32),
        ("slot", ctypes.c_int32),
    )


@cache
def _arena_at() -> Callable[..., int]:
    function = ctypes.CDLL(str(native_library())).wilkins_arena_at
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_uint64, ctypes.POINTER(_ArenaPart)]
    return function


def arena_at(address: int) -> ArenaPart | None:
    """The mapping of an arena that holds an address; None for other memory."""
    if "WILKINS_RUN" not in os.environ:
        return None
    found = _ArenaPart()
    if not _arena_at()(address, ctypes.byref(found)):
        return None
    return ArenaPart(found.base, found.length, found.cuts, bool(found.writable), bool(found.kept), found.slot)


class _Registered(NamedTuple):
    length: int
    cuts: int


class Registrations:
    """The host memory of this process that is registered with CUDA for all its devices."""

    def __init__(self, driver: Driver, context: int, device: int, settle: Callable[[], None]) -> None:
        """For a context of a device; `settle` returns once no copy of this process reads or writes host memory."""
        self._driver = driver
        self._context = context
        self._settle = settle
        self._mutex = threading.Lock()
        self._registered: dict[int, _Registered] = {}
        self._can_read_only = bool(driver.number("cuDeviceGetAttribute", ATTRIBUTE_READ_ONLY_HOST_REGISTER, device))
        self.refusals: dict[int, str] = {}
        """Why memory could not be registered, by the mapping's address."""

    def cover(self, part: ArenaPart | None) -> bool:
        """See to it that a mapping is registered as it is now; False if it cannot be."""
        if part is None or not part.kept or part.base in self.refusals:
            return False
        length = (part.length + _PAGE - 1) // _PAGE * _PAGE
        with self._mutex:
            known = self._registered.get(part.base)
            if known and known.cuts == part.cuts and known.length >= length:
                return True
            with self._driver.current(self._context):
                if known:
                    self._settle()
                    self._unregister(part.base)
                return self._register(part, length)

    def forget(self) -> None:
        """Undo all registrations, before the memory goes."""
        with self._mutex:
            self._settle()
            with self._driver.current(self._context):
                for base in list(self._registered):
                    self._unregister(base)

    def _register(self, part: ArenaPart, length: int) -> bool:
        tried = [REGISTER_PORTABLE]
        if not part.writable:
            # Without the flag, CUDA asks for memory that may be written; some drivers take other memory all the same.
            tried = [REGISTER_PORTABLE | REGISTER_READ_ONLY] * self._can_read_only + tried
        why = ""
        for flags in tried:
            why = self._refusal(part.base, length, flags)
            if not why:
                self._registered[part.base] = _Registered(length, part.cuts)
                return True
        self.refusals[part.base] = why
        return False

    def _refusal(self, base: int, length: int, flags: int) -> str:
        """Why memory cannot be registered; empty, and it is, if it can."""
        try:
            self._driver("cuMemHostRegister_v2", base, length, flags)
        except CudaError as error:
            return str(error)
        return ""

    def _unregister(self, base: int) -> None:
        del self._registered[base]
        try:
            self._driver("cuMemHostUnregister", base)
        except CudaError as error:
            if error.code != DEINITIALIZED:
                raise


def undo_at_exit(registrations: Registrations) -> Callable[[], None]:
    """What to do at the process's end: a driver that has gone already has undone everything."""

    def undo() -> None:
        with contextlib.suppress(CudaError):
            registrations.forget()

    return undo
