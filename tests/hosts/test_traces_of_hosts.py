"""The traces of several hosts tell what that of one machine would, whatever their clocks show and wherever they end."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from wilkins.flow.placement import Host
from wilkins.flow.trace import Event
from wilkins.launch.records.hosttraces import UNCLEAR, joined
from wilkins.plan.plan import Plan
from wilkins.plan.planner import plan_file
from wilkins.plan.split import HostPart, host_parts

READERS = """
tasks:
  - {name: sim, func: /bin/true, outports: [{filename: "u*.h5"}]}
  - {name: near, func: /bin/true, inports: [{filename: "u*.h5"}], placement: [a]}
  - {name: all, func: /bin/true, inports: [{filename: "u*.h5"}], placement: [b]}
  - {name: half, func: /bin/true, inports: [{filename: "u*.h5", io_freq: 2}], placement: [b]}
"""


def planned(folder: Path, text: str, *hosts: Host) -> Plan:
    (folder / "workflow.yaml").write_text(text)
    return plan_file(folder / "workflow.yaml", hosts=hosts)


def half_done(plan: Plan, *counts: int) -> Plan:
    """The plan of a run that goes on with another one: the producer begins anew, and its readers have had so many."""
    channels = [replace(channel, rests=((count, 0),)) for channel, count in zip(plan.channels, counts, strict=True)]
    return replace(plan, channels=tuple(channels), resumes=Path("/before"))


class Hosts:
    """What is told on each host, in one order, by clocks that are not alike."""

    def __init__(self, plan: Plan, draw: random.Random) -> None:
        self.parts = host_parts(plan)
        self.told: dict[int, list[Event]] = {part.host: [] for part in self.parts}
        self._ahead = {part.host: draw.randrange(-10000, 10000) for part in self.parts}
        self._now = 0

    def tell(self, host: int, kind: str, task: str, pattern: str, name: str, number: int, rank: int = 0) -> None:
        self._now += 1
        event = Event(self._now + self._ahead[host], kind, task, rank, pattern, name, number)  # type: ignore[arg-type]
        self.told[host].append(event)


def relays(found: tuple[HostPart, ...]) -> dict[int, tuple[str, str]]:
    """Both halves' names, by relay."""
    halves: dict[int, dict[str, str]] = {}
    for part in found:
        for what, some in (("send", part.senders), ("receive", part.receivers)):
            for place, relay in some:
                halves.setdefault(relay.index, {})[what] = part.plan.tasks[place].name
    return {index: (names["send"], names["receive"]) for index, names in halves.items()}


def a_run(hosts: Hosts, draw: random.Random, plan: Plan, steps: int) -> None:
    """The producer publishes, relays carry, readers open: each a little at a time, in any order that can be."""
    names = relays(hosts.parts)
    carried = {relay.index: relay for part in hosts.parts for _, relay in part.receivers}
    firsts = {plan.ports[one.inport].task: one.rests[0][0] if one.rests else 0 for one in plan.channels}
    published = 0
    near = firsts[1]
    taken: dict[int, list[int]] = {index: [] for index in carried}
    looked = dict.fromkeys(carried, 0)
    come = dict.fromkeys(carried, 0)
    opened = dict.fromkeys((2, 3), 0)
    while published < steps or any(looked[one] < steps for one in carried) or draw.random() < 0.9:
        what = draw.randrange(5)
        relay = draw.choice(list(carried))
        channels = [plan.channels[one] for one in carried[relay].channels]
        alike = len({channel.every for channel in channels}) == 1
        if what == 0 and published < steps:
            hosts.tell(0, "publish", "sim", "u*.h5", f"u{published}.h5", published)
            published += 1
        elif what == 1 and near < published:
            hosts.tell(0, "open", "near", "u*.h5", f"u{near}.h5", near)
            near += 1
        elif what == 2 and looked[relay] < published:
            step, looked[relay] = looked[relay], looked[relay] + 1
            lacks = step >= (channels[0].rests[0][0] if channels[0].rests else 0)
            wanted = lacks and (not alike or step % channels[0].every == channels[0].offset)
            hosts.tell(0, "open" if wanted else "skip", names[relay][0], "u*.h5", f"u{step}.h5", step)
            if wanted:
                taken[relay].append(step)
        elif what == 3 and come[relay] < len(taken[relay]):
            step = taken[relay][come[relay]]
            begin = begins(hosts.parts[1], relay)
            hosts.tell(1, "publish", names[relay][1], "u*.h5", f"u{step}.h5", begin + come[relay])
            come[relay] += 1
        elif what == 4:
            task = draw.choice((2, 3))
            mine = next(one for one in carried.values() if task in readers(plan, one.channels))
            if opened[task] < come[mine.index]:
                place, opened[task] = opened[task], opened[task] + 1
                step = taken[mine.index][place]
                channel = next(
                    plan.channels[one] for one in mine.channels if plan.ports[plan.channels[one].inport].task == task
                )
                kind = "open" if step % channel.every == channel.offset else "skip"
                number = begins(hosts.parts[1], mine.index) + place
                hosts.tell(1, kind, plan.tasks[task].name, "u*.h5", f"u{step}.h5", number)


def readers(plan: Plan, channels: tuple[int, ...]) -> set[int]:
    return {plan.ports[plan.channels[one].inport].task for one in channels}


def begins(part: HostPart, relay: int) -> int:
    """The number of the first step that comes by a relay."""
    place = next(place for place, one in part.receivers if one.index == relay)
    port = next(port for port in part.plan.ports if port.task == place)
    return port.begins[0] if port.begins else 0


@pytest.mark.parametrize("seed", range(60))
def test_every_step_has_its_producers_number_and_comes_after_it_was_published(tmp_path: Path, seed: int) -> None:
    """Also where the end of what a host has told is lost."""
    draw = random.Random(seed)
    plan = planned(tmp_path, READERS, Host("a", 2), Host("b", 2))
    if seed % 2:
        plan = half_done(plan, draw.randrange(5), draw.randrange(5), draw.randrange(5))
    hosts = Hosts(plan, draw)
    a_run(hosts, draw, plan, 12)
    kept = {
        host: events[: draw.randrange(len(events) + 1)] if seed % 3 else events for host, events in hosts.told.items()
    }
    whole = joined(plan, hosts.parts, kept)
    published: set[str] = set()
    opened: dict[str, list[str]] = {"near": [], "all": [], "half": []}
    for event in whole:
        assert event.task in ("sim", "near", "all", "half")
        assert event.name == f"u{event.sequence}.h5"
        if event.event == "publish":
            published.add(event.name)
        elif event.event == "open":
            assert event.name in published
            opened[event.task].append(event.name)
    for task, names in opened.items():
        told = [
            event.name for events in kept.values() for event in events if (event.task, event.event) == (task, "open")
        ]
        assert names == told[: len(names)]
        assert len(names) == len(told) or seed % 3


RANKS = """
tasks:
  - {name: sim, func: /bin/true, nprocs: 2, mpiexec: /bin/true, outports: [{filename: "p*.h5"}], placement: spread}
  - {name: ana, func: /bin/true, inports: [{filename: "p*.h5"}], placement: [b]}
"""


A, B = Host("a", 1), Host("b", 2)


def test_ranks_of_a_task_on_two_hosts_have_their_own_numbers(tmp_path: Path) -> None:
    """Only the host that starts the program tells of its start and its end."""
    plan = planned(tmp_path, RANKS, A, B)
    hosts = Hosts(plan, random.Random(1))
    ((sender, receiver),) = relays(hosts.parts).values()
    for host in (1, 0):
        hosts.tell(host, "start", "sim", "-", "-", -1, rank=-1)
        hosts.tell(host, "publish", "sim", "p*.h5", f"p{host}.h5", 0)
    hosts.tell(1, "open", "ana", "p*.h5", "p1.h5", 0)
    hosts.tell(0, "open", sender, "p*.h5", "p0.h5", 0)
    hosts.tell(1, "publish", receiver, "p*.h5", "p0.h5", 0)
    hosts.tell(1, "open", "ana", "p*.h5", "p0.h5", 0)
    told = [(event.event, event.rank, event.name) for event in joined(plan, hosts.parts, hosts.told)]
    assert sorted(told) == sorted(
        [
            ("start", -1, "-"),
            ("publish", 0, "p0.h5"),
            ("publish", 1, "p1.h5"),
            ("open", 0, "p1.h5"),
            ("open", 0, "p0.h5"),
        ]
    )


def test_a_step_that_may_be_any_of_several_has_no_number(tmp_path: Path) -> None:
    """The number of a step that came is that of another one on its host, of the same name."""
    plan = planned(tmp_path, RANKS.replace('p*.h5"}], placement: [b]', 'p*.h5", io_freq: 2}], placement: [b]'), A, B)
    hosts = Hosts(plan, random.Random(1))
    ((sender, receiver),) = relays(hosts.parts).values()
    for number in range(2):
        hosts.tell(0, "publish", "sim", "p*.h5", "p.h5", number)
    hosts.tell(0, "skip", sender, "p*.h5", "p.h5", 0)
    hosts.tell(0, "open", sender, "p*.h5", "p.h5", 1)
    hosts.tell(1, "publish", receiver, "p*.h5", "p.h5", 0)
    hosts.tell(1, "publish", "sim", "p*.h5", "p.h5", 0)
    hosts.tell(1, "open", "ana", "p*.h5", "p.h5", 0)
    events = joined(plan, hosts.parts, hosts.told)
    assert [event.sequence for event in events if event.event == "open"] == [UNCLEAR]


def test_readers_that_lack_the_same_share_a_relay(tmp_path: Path) -> None:
    """Others have one of their own, which takes no step that they have had; its numbers go on."""
    text = READERS.replace("io_freq: 2", "queue: 2")
    plan = planned(tmp_path, text, Host("a", 2), Host("b", 2))
    for counts, firsts in (((0, 4, 4), [4]), ((0, 4, 7), [4, 7])):
        here, there = host_parts(half_done(plan, *counts))
        senders = [here.plan.ports[one.inport].task for one in here.plan.channels]
        of_relays = [one for one, task in zip(here.plan.channels, senders, strict=True) if task >= len(here.tasks)]
        assert [one.rests for one in of_relays] == [((first, 0),) for first in firsts]
        assert [begins(there, relay.index) for _, relay in there.receivers] == firsts
        assert {one.rests for one in there.plan.channels} == {((first, 0),) for first in firsts}
