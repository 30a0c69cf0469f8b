"""Messages between launchers on several hosts come as they were sent."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from wilkins.errors import ResourceError
from wilkins.launch.hostjob import messages as of_job
from wilkins.launch.hostjob.setup import JobSetup
from wilkins.launch.hosts import messages, status
from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.messages import Beat, Setup, StopRun
from wilkins.launch.job.programs import RankProgram, Worlds

SETUP: dict[str, Any] = {
    "run": "/r",
    "host": 1,
    "go_back": "",
    "quiet": False,
    "patience": 2.5,
    "folder": "/f",
    "environment": {"A": "b", "C": "\udcff"},
    "key": "00ff",
}
SAMPLES: list[Message] = [
    Setup(**SETUP),
    JobSetup(**SETUP, widest="sim 12", worlds=Worlds({"0": 4000}, {}, None)),
    Beat(10**18, [0, 3], True),
    StopRun(130, 'it said "no"\nand more'),
    status.Status(status.HostStatus(0.5, over=(1,)), [4, 0], echo=status.Echo(1, 2, 3)),
    status.PartEnded(status.HostResult(1, None, ("no x",), failures={3: 2})),
    of_job.Start(RankProgram(["a"], {}, {"L": "1"}, "/", ""), "sim 0", "sim 12", True, "log", "ranks", 0),
    of_job.StartIdle(None, "token"),
    of_job.Left(),
]


@pytest.fixture
def sides() -> Iterator[tuple[Control, Control, int]]:
    """Who says, who hears, and the end at which to write anything else."""
    here, there = os.pipe()
    yield Control(os.dup(here), there, waits=False), Control(here, os.dup(there), waits=False), there


def test_messages_come_as_they_were(sides: tuple[Control, Control, int]) -> None:
    says, hears, _ = sides
    for message in SAMPLES:
        says.send(message)
    found = hears.received() or []
    assert found == SAMPLES
    assert list(map(type, found)) == list(map(type, SAMPLES))


def test_each_kind_has_a_name_of_its_own() -> None:
    declared = [
        one
        for module in (messages, status, of_job, importlib.import_module(JobSetup.__module__))
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Message) and one.__module__ == module.__name__
    ]
    assert sorted(one.__name__ for one in declared) == sorted(Message.kinds)
    assert all(Message.kinds[one.__name__] is one for one in declared)


@pytest.mark.parametrize(
    "line", ["Welcome to this machine", "[]", '{"Beat": {"said": 1}}', '{"Unknown": {}}', '{"Stays": {}, "Left": {}}']
)
def test_what_is_no_message_is_refused(sides: tuple[Control, Control, int], line: str) -> None:
    """As a shell says at login on a host, or another version."""
    _, hears, end = sides
    os.write(end, line.encode() + b"\n")
    with pytest.raises(ResourceError) as refused:
        hears.received()
    assert line in str(refused.value)
    assert "same version" in str(refused.value)
