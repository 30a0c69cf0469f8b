"""Sentences about the name that a failed program asked for last, of which no step came. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wilkins.errors import count_of
from wilkins.plan.plan import TaskPlan
from wilkins.terminal.wording import listed
from wilkins.transport.report_table import Report, VainOpen


def in_vain(task: TaskPlan, report: Report) -> Iterator[str]:
    """Why the failure of a task after an open in vain is not the end of its stream, and what mends it."""
    vain = report.tasks[task.index].vain_open
    if vain is None:
        return
    name, sought = vain.name, vain.sought
    if sought in ("next name", "next step"):
        if vain.went_on != "no":
            then = "read" if vain.went_on == "read" else "opened for writing"
            yield (
                f"it asked for {name!r}, of which no step was to come, and then {then} {vain.then!r}: so its "
                "failure is not taken for the end of its input; if that is how it ends, let it exit with 0"
            )
    elif (said := _MESSAGES.get(sought)) and (vain.went_on != "read" or sought == "only step"):
        yield from said(vain, report)


def _once(vain: VainOpen, report: Report) -> Iterator[str]:
    name, port = vain.name, report.ports[vain.port].pattern
    if not vain.steps:
        yield f"it opened {name!r}, and {_writers(vain.port, report)} ended without a step of that name"
        return
    yield (
        f"it opened {name!r} {count_of(vain.opens, 'time')}, and there was one step of that name: if it opens the "
        f"same file several times, give its in-port {port!r} `opens_per_step: {vain.opens}`"
    )


def _unequal(vain: VainOpen, report: Report) -> Iterator[str]:
    name, port = vain.name, report.ports[vain.port].pattern
    yield (
        f"it opened {name!r} again when it had read all steps of that name, some of them {vain.opens} times: if it "
        f"opens each several times, give its in-port {port!r} `opens_per_step: {vain.opens}`"
    )


def _unread(vain: VainOpen, report: Report) -> Iterator[str]:
    outs = out_ports(report, vain.port)
    yield (
        f"it opened {vain.name!r} again when it had read all steps of that name, and left steps of other names "
        f"unread: if a file is whole only when it was written several times, {publish_remedy(report, outs)}; then a "
        "name means one file, however often it is opened"
    )


def _gone(vain: VainOpen, report: Report) -> Iterator[str]:
    channels = [channel for channel in report.channels if channel.inport == vain.port]
    if any(channel.given_up for channel in channels):
        return  # the account says why it was not kept
    port = report.ports[vain.port].pattern
    most = max(channel.published for channel in channels)
    yield (
        f"it opened {vain.name!r}, whose step is not in memory any more: if it goes over its files more than once, "
        f"give its in-port {port!r} `mode: both`, or `reorder: {most}`"
    )


_MESSAGES = {"only step": _once, "unequal": _unequal, "unread": _unread, "gone": _gone}


def out_ports(report: Report, inport: int) -> list[int]:
    """Where the steps of an in-port come from."""
    return [channel.outport for channel in report.channels if channel.inport == inport]


def publish_remedy(report: Report, outports: Sequence[int]) -> str:
    """The key for out-ports that write each of their files several times."""
    ports = [report.ports[place] for place in outports]
    times = {port.steps / port.names for port in ports if port.names}
    patterns = listed(dict.fromkeys(repr(port.pattern) for port in ports))
    number = times.pop() if len(times) == 1 else 0.0
    reopened = all(port.steps - port.names <= port.reopened for port in ports)
    keys = ["`publish: next`"] if reopened else []
    if number >= 2 and number.is_integer():
        keys.insert(0, f"`publish: {number:.0f}`, for it wrote each so often,")
    elif not keys:
        keys.append("`publish: n`, if it writes each n times")
    return f"give the out-port {patterns} {' or '.join(keys)}".rstrip(",")


def _writers(inport: int, report: Report) -> str:
    tasks = (report.tasks[report.ports[place].task].name for place in out_ports(report, inport))
    return listed(dict.fromkeys(tasks))
