"""Messages about the last open of a failed program, of a name without a step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wilkins.errors import count_of
from wilkins.plan.plan import TaskPlan
from wilkins.terminal.wording import listed
from wilkins.transport.report_table import FailedOpen, Report


def failed_open(task: TaskPlan, report: Report) -> Iterator[str]:
    """Why the failure of a task after a failed open does not count as the end of its stream, and the remedy."""
    failed = report.tasks[task.index].failed_open
    if failed is None:
        return
    name, sought = failed.name, failed.sought
    if sought in ("next name", "next step"):
        if failed.went_on != "no":
            then = "read" if failed.went_on == "read" else "opened for writing"
            yield (
                f"it asked for {name!r}, of which no step was to come, and then {then} {failed.then!r}: so its "
                "failure is not taken for the end of its input; if that is how it ends, let it exit with 0"
            )
    elif (said := _MESSAGES.get(sought)) and (failed.went_on != "read" or sought == "only step"):
        yield from said(failed, report)


def _once(failed: FailedOpen, report: Report) -> Iterator[str]:
    name, port = failed.name, report.ports[failed.port].pattern
    if not failed.steps:
        yield f"it opened {name!r}, and {_writers(failed.port, report)} ended without a step of that name"
        return
    yield (
        f"it opened {name!r} {count_of(failed.opens, 'time')}, and there was one step of that name: if it opens the "
        f"same file several times, give its in-port {port!r} `opens_per_step: {failed.opens}`"
    )


def _unequal(failed: FailedOpen, report: Report) -> Iterator[str]:
    name, port = failed.name, report.ports[failed.port].pattern
    yield (
        f"it opened {name!r} again when it had read all steps of that name, some of them {failed.opens} times: if it "
        f"opens each several times, give its in-port {port!r} `opens_per_step: {failed.opens}`"
    )


def _unread(failed: FailedOpen, report: Report) -> Iterator[str]:
    outs = out_ports(report, failed.port)
    yield (
        f"it opened {failed.name!r} again when it had read all steps of that name, and left steps of other names "
        f"unread: if a file is whole only when it was written several times, {publish_remedy(report, outs)}; then a "
        "name means one file, however often it is opened"
    )


def _gone(failed: FailedOpen, report: Report) -> Iterator[str]:
    channels = [channel for channel in report.channels if channel.inport == failed.port]
    if any(channel.given_up for channel in channels):
        return  # the account says why it was not kept
    port = report.ports[failed.port].pattern
    most = max(channel.published for channel in channels)
    yield (
        f"it opened {failed.name!r}, whose step is not in memory any more: if it goes over its files more than once, "
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
