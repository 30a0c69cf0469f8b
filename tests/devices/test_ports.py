"""What processes are told of the devices of their ports: written by the launcher, read by the tasks, one module."""

from __future__ import annotations

import pytest

from wilkins.transport.devices.ports import HOST, VARIABLE, PortDevice, configured, dumps, joined, loads
from wilkins.transport.plan_table import DevicePath


@pytest.mark.parametrize(
    ("paths", "path", "ipc"),
    [
        ([], "host", False),
        (["host", "host"], "host", False),
        (["host", "pinned"], "pinned", False),
        (["pinned"], "pinned", False),
        (["ipc", "ipc"], "ipc", True),
        (["ipc", "pinned"], "pinned", True),
        (["ipc", "host"], "pinned", True),
        (["host", "ipc", "pinned"], "pinned", True),
    ],
)
def test_a_port_takes_the_path_that_all_its_channels_can_take(
    paths: list[DevicePath], path: DevicePath, ipc: bool
) -> None:
    assert joined("cuda", paths) == PortDevice("cuda", path, ipc)


def test_what_is_written_is_read() -> None:
    ports = {
        "plt*.h5": PortDevice("cuda:1", "ipc", ipc=True),
        'odd "name" ä.h5': PortDevice("pinned", "pinned"),
        "other.h5": HOST,
    }
    assert loads(dumps(ports)) == ports
    assert configured({VARIABLE: dumps(ports)}) == ports


def test_nothing_told_means_the_host() -> None:
    assert configured({}) == {} == configured({VARIABLE: ""})
    assert loads('{"a.h5": {}}') == {"a.h5": HOST}
    assert loads('{"a.h5": {"path": "ipc"}}')["a.h5"].ipc


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("host", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"a.h5": 3}', "not a JSON object"),
        ('{"a.h5": {"device": "gpu"}}', "'gpu'"),
        ('{"a.h5": {"device": "host:1"}}', "'host:1'"),
        ('{"a.h5": {"device": 1}}', "port 'a.h5'"),
        ('{"a.h5": {"path": "mpi"}}', "'mpi'"),
    ],
)
def test_what_the_launcher_would_not_write_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE) as error:
        configured({VARIABLE: text})
    assert wrong in str(error.value)
