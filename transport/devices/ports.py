"""How the launcher configures the devices of a task's ports: the variable `WILKINS_DEVICES`, as values.

The variable is a JSON object of the task's own in- and out-port patterns, such as
`{"plt*.h5": {"device": "cuda", "path": "pinned", "ipc": true}}`. The launcher sets it only for tasks with a port whose
device or path is not the host; ports that it does not name are on the host.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from wilkins.transport.plan_table import DevicePath

VARIABLE = "WILKINS_DEVICES"

_DEVICE = re.compile(r"auto|host|pinned|cuda(:[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class PortDevice:
    """Where a port's arrays are, and by which path they get there."""

    device: str = "host"
    """``host``, ``pinned``, ``cuda`` (the first GPU that the process sees) or ``cuda:k``, counted among the GPUs that
    the process sees. The launcher has decided what ``auto`` is; a process that gets ``auto`` decides by itself."""
    path: DevicePath = "host"
    """The path that all channels of the port can take: ``ipc`` only if each of them does, and ``pinned`` if any needs
    the host while another is ``ipc``."""
    ipc: bool = False
    """Whether any channel of the port takes ``ipc``. With ``path == "pinned"`` an out-port has readers of both kinds,
    which need both the device memory and the host's, and an in-port has writers of both kinds, so that it must look at
    each step."""


HOST = PortDevice()


def joined(device: str, paths: Iterable[DevicePath]) -> PortDevice:
    """The port on `device`, from the paths of its channels; without channels, its path is the host's."""
    found = set(paths)
    if found == {"ipc"}:
        return PortDevice(device, "ipc", ipc=True)
    mixed = "ipc" in found
    return PortDevice(device, "pinned" if mixed or "pinned" in found else "host", ipc=mixed)


def dumps(ports: Mapping[str, PortDevice]) -> str:
    """The value of the variable, from the ports by their patterns."""
    return json.dumps(
        {pattern: {"device": port.device, "path": port.path, "ipc": port.ipc} for pattern, port in ports.items()}
    )


def loads(text: str) -> dict[str, PortDevice]:
    """The ports by their patterns, from the value of the variable.

    Raises:
        ValueError: it is not what `dumps` writes.
    """
    try:
        data = json.loads(text)
        return {pattern: _port(pattern, entry) for pattern, entry in data.items()}
    except (AttributeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{VARIABLE} is set to {text!r}, which is not a JSON object of ports; 'wilkins run' sets it, so unset it"
        ) from error


def configured(environment: Mapping[str, str] | None = None) -> dict[str, PortDevice]:
    """How this process's ports are configured, by pattern; ports that are not named are `HOST`.

    Raises:
        ValueError: the variable was set by something else than the launcher.
    """
    return loads((os.environ if environment is None else environment).get(VARIABLE) or "{}")


def _port(pattern: str, entry: Mapping[str, object]) -> PortDevice:
    device, path = entry.get("device", "host"), entry.get("path", "host")
    ipc = entry.get("ipc", path == "ipc")
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise ValueError(f"{VARIABLE}: port {pattern!r} has the device {device!r}; give auto, host, pinned or cuda[:k]")
    for known in get_args(DevicePath):
        if path == known:
            return PortDevice(device, known, bool(ipc))
    raise ValueError(f"{VARIABLE}: port {pattern!r} has the path {path!r}; give host, pinned or ipc")
