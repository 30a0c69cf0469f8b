"""Says of steps that are compressed on their way between hosts how small they get, and whether that pays there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from wilkins.errors import count_of
from wilkins.flow.model import Model, ModelHost
from wilkins.flow.packing import MOST_CORES, Packing, least_ratio
from wilkins.flow.placement import Host, Share
from wilkins.flow.timeline import Crossing, Timeline
from wilkins.plan import planfile
from wilkins.plan.graph import instance_name
from wilkins.plan.placing import crossing
from wilkins.plan.plan import Plan
from wilkins.spec.load import Document
from wilkins.terminal.tables import size
from wilkins.terminal.wording import listed

Rules = tuple[tuple[str, float | None, float | None], ...]
"""As `PortPlan.compress` has them."""


class Asked(NamedTuple):
    """What an out-port says of compression."""

    rules: Rules
    when_faster: bool
    """Steps are compressed only where they arrive sooner by it."""


Port = tuple[str, str]
"""Name of a task's instance, and pattern of an out-port."""
_ASKS = " (give that of your network: --bandwidth 125MB/s)"
_ANY = 1.01
"""Times smaller, up to which any ratio is enough."""
_SIDE = 362
"""Of the field by which the rate of this machine is measured: a block of 1 MB."""


class Packed(NamedTuple):
    """What is known of the packing of an out-port's steps."""

    packing: Packing
    """If it is not known how small steps get: as if nothing was left of them."""
    measured: str
    """Where: in which run, or here."""
    why: str = ""
    """Why that is not known; empty: it is."""


def compressed_ports(document: Document) -> dict[Port, Asked]:
    """The out-ports of a workflow that have `compress`."""
    return {
        (instance_name(task, instance), port.pattern(instance)): Asked(
            tuple((rule.dset, rule.absolute, rule.relative) for rule in port.compress), port.compress_when == "faster"
        )
        for task in document.workflow.tasks
        for port in task.outports
        for instance in range(task.taskCount)
        if port.compress
    }


def known(ports: Mapping[Port, Asked], run: Path | None) -> dict[Port, Packed]:
    """What is known of the packing of out-ports with `compress`.

    Args:
        run: the folder of a run that may have measured it; else this machine packs a smooth field.
    """
    seen = _of_run(run) if run else {}
    found: dict[Port, Packed] = {}
    for port, (rules, when_faster) in ports.items():
        was = seen.get(port)
        if run and was and was[0] == rules:
            found[port] = Packed(replace(was[1], when_faster=when_faster), f"in {run.name}")
            continue
        here = Packing(0.0, _seconds_here(any(rule[1:] != (None, None) for rule in rules)), when_faster)
        why = "no run is given"
        if run:
            why = f"{run.name} had other entries, and is no run" if was else f"{run.name} is no run"
        found[port] = Packed(here, "here, of a smooth field", why)
    return found


def _of_run(folder: Path) -> dict[Port, tuple[Rules, Packing]]:
    """The rules of a run, and what packing did there, by out-port; of a run without such records: nothing."""
    folder = folder if folder.is_dir() else folder.parent
    try:
        plan = planfile.loads((folder / "plan.json").read_text(encoding="utf-8"))
        crossings = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["crossings"]
    except (OSError, ValueError, KeyError):
        return {}
    ports = {(plan.tasks[port.task].name, port.pattern): port for port in plan.ports}
    sums: dict[Port, list[float]] = {}
    for one in crossings:
        port = ports.get((one["producer"], one["files"]))
        if one["steps"] and port is not None:
            added = sums.setdefault((one["producer"], one["files"]), [0.0, 0.0, 0.0])
            tried = one["compressed_steps"] / one["steps"] if port.compress_when == "faster" else 1
            added[0] += tried * one["bytes"]
            added[1] += one["compressed"] - one["compressed_to"]
            added[2] += one["compression_s"]
    return {
        port: (ports[port].compress, Packing(1 - saved / before, seconds / before))
        for port, (before, saved, seconds) in sums.items()
        if ports[port].compress and before
    }


@cache
def _seconds_here(lossy: bool) -> float:
    """CPU time of this machine for packing and unpacking a byte of a smooth field, to 1e-3 of its range or exactly."""
    import numpy as np

    from wilkins.compression.packing import pack, unpack

    line = np.sin(np.linspace(0, 6, _SIDE))
    field = np.outer(line, line).reshape(1, _SIDE, _SIDE)
    into, times = memoryview(bytearray(field.nbytes)), []
    for _ in range(3):
        began = time.process_time()
        found = pack(field, 2e-3 if lossy else 0.0)
        if found:
            unpack(found.data, into)
        times.append(time.process_time() - began)
    return min(times) / field.nbytes


def free_cores(hosts: Sequence[Host], shares: Iterable[Share]) -> list[int]:
    """For each host, on how many cores a relay packs: as many as slots that no rank has, one at least."""
    taken = [0] * len(hosts)
    for share in shares:
        for host, count in share:
            taken[host] += count
    return [max(1, min(MOST_CORES, host.slots - count)) for host, count in zip(hosts, taken, strict=True)]


def with_packing(model: Model, packed: Mapping[Port, Packed]) -> Model:
    """The model with what is known of the packing of its steps; where it is not, they cross as they are."""
    ports = (
        replace(port, packing=one.packing)
        if (one := packed.get((model.tasks[port.task].name, port.pattern))) and not one.why
        else port
        for port in model.outports
    )
    return replace(model, outports=tuple(ports))


class Verdict(NamedTuple):
    """Whether compression pays for a crossing, in words."""

    who: str
    """Its producer and readers."""
    said: str
    slower: bool
    """Steps arrive later with it."""
    files: str
    """Pattern of the out-port."""

    @property
    def text(self) -> str:
        """A sentence of its own."""
        return f"{'warning: ' if self.slower else ''}{self.who}: 'compress' of {self.files!r} {self.said}"


def verdict(who: str, files: str, packed: Packed, cores: int, bandwidth: float | None) -> Verdict:
    """Whether compression pays for a crossing.

    Args:
        cores: on which steps are packed.
        bandwidth: bytes per second of the line; None: not known.
    """
    packing, rate = packed.packing, packed.packing.rate(cores)
    below = packing.pays_below(cores)
    measured = f"(measured {packed.measured})"
    packs = f"{count_of(cores, 'core')} {'packs and unpacks' if cores == 1 else 'pack and unpack'} {size(rate)}/s"
    line = f"this network has {size(bandwidth or 0)}/s"
    if packing.sent >= 1 and not packing.when_faster:
        said = f"makes no step smaller {measured}, and takes time; remove it from the out-port"
        return Verdict(who, said, slower=True, files=files)
    smaller = f"steps get {1 / packing.sent:.3g} times smaller" if packing.sent else ""
    if packing.sent >= 1:
        return Verdict(who, f"is not used, since it makes no step smaller {measured}", slower=False, files=files)
    if bandwidth is not None and below <= bandwidth:
        if packed.why:
            reason = f"{packs} {measured}, so it pays on slower networks only, and {line}"
        else:
            reason = f"{packs} and {smaller} {measured}, so it pays on networks below {size(below)}/s, and {line}"
        if packing.when_faster:
            return Verdict(who, f"is not used, since steps arrive sooner without: {reason}", False, files)
        return Verdict(who, f"makes steps arrive later: {reason}; remove it from the out-port", True, files)
    if not packed.why:
        pays = f"pays, since {line}" if bandwidth else f"pays on networks below {size(below)}/s{_ASKS}"
        return Verdict(who, f"{pays}: {packs} and {smaller} {measured}", False, files)
    least = least_ratio(rate, bandwidth) if bandwidth else None
    if least:
        pays = f"if steps get {f'{least:.3g} times smaller' if least > _ANY else 'smaller at all'}, since {line}"
    else:
        pays = f"on slower networks only{_ASKS}"
    said = (
        f"counts as if it was not there, since {packed.why} that says how small steps get: {packs} {measured}, and it "
        f"pays {pays}; to know more, run with --hosts, then give --from RUN"
    )
    return Verdict(who, said, False, files)


def of_timeline(timeline: Timeline, hosts: Sequence[ModelHost], packed: Mapping[Port, Packed]) -> list[Verdict]:
    """Whether compression pays, for the crossings of a prediction."""
    by_name = {host.name: host for host in hosts}

    def one(crossed: Crossing, what: Packed) -> Verdict:
        ends = by_name[crossed.writes], by_name[crossed.reads]
        who = f"{crossed.task} -> {listed(crossed.readers)}"
        return verdict(who, crossed.pattern, what, min(end.cores for end in ends), _bandwidth(ends))

    return _together(
        one(crossed, what)
        for crossed in timeline.crossings
        if (what := packed.get((crossed.task, crossed.pattern))) is not None
    )


def of_plan(plan: Plan, hosts: Sequence[ModelHost], run: Path | None) -> list[Verdict]:
    """Whether compression pays, for the channels of a plan that cross.

    Args:
        hosts: of the plan, with their network.
        run: the folder of a run that may have measured it.
    """
    joined: dict[tuple[int, int], list[str]] = {}
    for channel in plan.channels:
        if plan.ports[channel.outport].compress:
            for host in crossing(plan, channel).across:
                reader = plan.tasks[plan.ports[channel.inport].task].name
                joined.setdefault((channel.outport, host), []).append(reader)
    if not joined:
        return []
    ports = {index: plan.ports[index] for index, _ in joined}
    names = {index: (plan.tasks[port.task].name, port.pattern) for index, port in ports.items()}
    asked = {names[index]: Asked(port.compress, port.compress_when == "faster") for index, port in ports.items()}
    packed = known(asked, run)
    cores = free_cores(plan.hosts, (task.share for task in plan.tasks))

    def one(outport: int, reads: int, readers: Sequence[str]) -> Verdict:
        writes = plan.tasks[ports[outport].task].share[0][0]
        name, pattern = names[outport]
        who = f"{name} -> {listed(list(dict.fromkeys(readers)))}"
        bandwidth = _bandwidth((hosts[writes], hosts[reads]))
        return verdict(who, pattern, packed[name, pattern], min(cores[writes], cores[reads]), bandwidth)

    return _together(one(outport, reads, readers) for (outport, reads), readers in joined.items())


def _bandwidth(ends: Iterable[ModelHost]) -> float | None:
    return min((end.bandwidth for end in ends if end.bandwidth is not None), default=None)


def _together(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """One of those that say the same, as of instances of a task, with how many there are."""
    alike: dict[str, list[Verdict]] = {}
    for one in verdicts:
        alike.setdefault(one.said, []).append(one)
    return [
        same[0]._replace(who=f"{same[0].who} and {len(same) - 1} alike") if same[1:] else same[0]
        for same in alike.values()
    ]
