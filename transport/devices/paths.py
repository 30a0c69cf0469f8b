"""Which device a port's data comes to, and by which path: decisions, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from wilkins.transport.devices import ports
from wilkins.transport.errors import NoSuchDevice


@cache
def _configured() -> dict[str, ports.PortDevice]:
    return ports.configured()


def port_of(name: str) -> ports.PortDevice:
    """What the launcher tells of the port that a file belongs to."""
    parts = name.split("/")
    for pattern, port in _configured().items():
        wanted = pattern.split("/")
        last = parts[-len(wanted) :]
        if len(last) == len(wanted) and all(fnmatchcase(part, want) for part, want in zip(last, wanted, strict=True)):
            return port
    return ports.HOST


@dataclass(frozen=True, slots=True)
class Choice:
    """Where arrays are to be: on CUDA device number `cuda`, or on the host (None), perhaps in registered memory."""

    cuda: int | None
    pinned: bool
    why: str

    def __str__(self) -> str:
        return f"cuda:{self.cuda}" if self.cuda is not None else "pinned" if self.pinned else "host"


def choose(device: str, devices: int, why_none: str = "there is no CUDA device") -> Choice:
    """Where arrays are to be that were asked for on `device`, in a process that can use `devices` CUDA devices.

    ``auto`` takes the first GPU if there is one; ``cuda`` is ``cuda:0``, the first that the process sees.

    Raises:
        ValueError: there is no such kind of device.
        LookupError: the GPU asked for is not there; `why_none` is part of the message.
    """
    match = re.fullmatch(r"(auto|host|cpu|pinned|cuda)(?::(\d+))?", device)
    if not match or (match[2] and match[1] != "cuda"):
        raise ValueError(f"'{device}' is no device: give auto, host, pinned, cuda or cuda:<number>")
    kind, number = match[1], int(match[2] or 0)
    if kind in ("host", "cpu"):
        return Choice(None, False, "asked for")
    if kind == "auto":
        return Choice(0, True, "the first GPU") if devices else Choice(None, False, why_none)
    if kind == "pinned":
        return Choice(None, True, "asked for") if devices else Choice(None, False, why_none)
    if number >= devices:
        have = f"this process sees {devices}" if devices else why_none
        raise NoSuchDevice(f"device '{device}' is not there: {have}", "use 'auto' to fall back to the host")
    return Choice(number, True, "asked for")


def copy_runs(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, list[int]]:
    """How to copy an array by runs of elements that lie together: elements per run, and each run's offset in elements.

    The runs come in C order, so that one after the other they make a contiguous array.
    """
    inner = 1
    axis = len(shape)
    while axis > 0 and (shape[axis - 1] == 1 or strides[axis - 1] == inner):
        inner *= shape[axis - 1]
        axis -= 1
    offsets = [0]
    for extent, stride in zip(shape[:axis], strides[:axis], strict=True):
        offsets = [offset + k * stride for offset in offsets for k in range(extent)]
    return inner, offsets if 0 not in shape else []
