"""The CUDA driver's calls (libcuda.so.1), by ctypes: no CUDA runtime, and one context with torch and CuPy.

Nothing decides anything here. Where there is no GPU, tests use a stand-in for the driver (tests/devices/stand_in);
prototypes, names of versions (``_v2``) and constants are those of CUDA 13's ``cuda.h``, which CUDA 11.4 and later have.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache

from wilkins.errors import WilkinsError

HOST_MEMORY_ALREADY_REGISTERED = 712
NOT_READY = 600
DEINITIALIZED = 4

REGISTER_PORTABLE = 0x1
REGISTER_READ_ONLY = 0x8
STREAM_NON_BLOCKING = 0x1
EVENT_BLOCKING_SYNC = 0x1
EVENT_DISABLE_TIMING = 0x2
EVENT_INTERPROCESS = 0x4
IPC_LAZY_PEER_ACCESS = 0x1

ATTRIBUTE_HOST_REGISTER = 99
ATTRIBUTE_READ_ONLY_HOST_REGISTER = 113

POINTER_MEMORY_TYPE = 2
POINTER_IS_MANAGED = 8
POINTER_DEVICE_ORDINAL = 9
MEMORY_TYPE_DEVICE = 2

HANDLE_BYTES = 64


class Handle(ctypes.Structure):
    """What another process opens memory or an event by: 64 bytes, passed by value."""

    _fields_ = (("bytes", ctypes.c_ubyte * HANDLE_BYTES),)


class CudaError(WilkinsError, OSError):
    """A call of the CUDA driver failed; `code` is its CUresult."""

    def __init__(self, call: str, code: int, name: str, meaning: str) -> None:
        super().__init__(f"CUDA: {call} failed with {name} ({code}): {meaning}")
        self.call = call
        self.code = code
        self.name = name


class NoCuda(WilkinsError, RuntimeError):
    """This process can use no CUDA device; the message says why."""


_CALLS: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_char_p, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuCtxSynchronize": (),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuIpcGetMemHandle": (POINTER(Handle), c_uint64),
    "cuIpcOpenMemHandle_v2": (POINTER(c_uint64), Handle, c_uint),
    "cuIpcCloseMemHandle": (c_uint64,),
    "cuIpcGetEventHandle": (POINTER(Handle), c_void_p),
    "cuIpcOpenEventHandle": (POINTER(c_void_p), Handle),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}


class Driver:
    """libcuda, loaded and initialised in this process. Calls release Python's GIL."""

    def __init__(self) -> None:
        """Load and initialise it.

        Raises:
            NoCuda: there is no driver, or it finds no device; the message says which.
        """
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoCuda(f"the CUDA driver is not there ({error})") from None
        for name, arguments in _CALLS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise NoCuda(f"the CUDA driver is older than CUDA 11.4 (it lacks {name})") from None
            function.restype = c_int
            function.argtypes = arguments
        code = self._library.cuInit(0)
        if code:
            raise NoCuda(f"the CUDA driver cannot start: {self._meaning(code)[1]}")
        self.devices = self.number("cuDeviceGetCount")
        if not self.devices:
            raise NoCuda("there is no CUDA device (see CUDA_VISIBLE_DEVICES)")

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the driver.

        Raises:
            CudaError: it returned an error.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(name, code, *self._meaning(code))

    def number(self, name: str, *arguments: object) -> int:
        """What a function gives back in an int, its first argument."""
        value = c_int()
        self(name, ctypes.byref(value), *arguments)
        return value.value

    def address(self, name: str, *arguments: object) -> int:
        """What a function gives back in a pointer (a context, stream, event or device address), its first argument."""
        value = c_uint64() if name.startswith(("cuMem", "cuIpcOpenMem")) else c_void_p()
        self(name, ctypes.byref(value), *arguments)
        return value.value or 0

    def handle(self, name: str, of: int) -> bytes:
        """The 64 bytes by which another process can open memory or an event."""
        value = Handle()
        self(name, ctypes.byref(value), of)
        return bytes(value.bytes)

    def is_done(self, event: int) -> bool:
        """Whether all work before the event's last record is done."""
        try:
            self("cuEventQuery", event)
        except CudaError as error:
            if error.code == NOT_READY:
                return False
            raise
        return True

    def name_of(self, device: int) -> str:
        """A device's name."""
        text = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", text, len(text), device)
        return text.value.decode(errors="replace")

    def uuid_of(self, device: int) -> str:
        """What identifies a device in all processes of the machine, whichever devices they see."""
        raw = ctypes.create_string_buffer(16)
        self("cuDeviceGetUuid_v2", raw, device)
        return raw.raw.hex()

    def device_of(self, pointer: int) -> int | None:
        """The number of the device whose memory a pointer leads to; None for host (also managed) memory."""
        kind, managed = c_uint(), c_uint()
        try:
            self("cuPointerGetAttribute", ctypes.byref(kind), POINTER_MEMORY_TYPE, pointer)
            self("cuPointerGetAttribute", ctypes.byref(managed), POINTER_IS_MANAGED, pointer)
        except CudaError:
            return None  # an address that CUDA knows nothing of
        if kind.value != MEMORY_TYPE_DEVICE or managed.value:
            return None
        number = c_int()
        self("cuPointerGetAttribute", ctypes.byref(number), POINTER_DEVICE_ORDINAL, pointer)
        return number.value

    @contextlib.contextmanager
    def current(self, context: int) -> Iterator[None]:
        """Make a context the thread's current one while the block lasts."""
        self("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def _meaning(self, code: int) -> tuple[str, str]:
        found = []
        for call in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            getattr(self._library, call)(code, ctypes.byref(text))
            found.append((text.value or b"unknown error").decode(errors="replace"))
        return found[0], found[1]


@cache
def _driver(_pid: int) -> Driver | NoCuda:
    try:
        return Driver()
    except NoCuda as why:
        return why


def driver() -> Driver:
    """The process's driver, loaded on first use.

    Raises:
        NoCuda: this process can use no CUDA device.
    """
    found = _driver(os.getpid())
    if isinstance(found, NoCuda):
        raise NoCuda(*found.args)
    return found
