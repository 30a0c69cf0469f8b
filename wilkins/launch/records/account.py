"""The account of the steps that each task was offered, and messages about those that it did not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wilkins.errors import count_of
from wilkins.launch.programs.environment import takes_filename
from wilkins.launch.records.summary import WENT_WELL
from wilkins.launch.records.tracednames import Ends, Trace, Traced, names_of
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.launch.watch.similarnames import as_next, pattern_of
from wilkins.plan.plan import Plan, PortPlan, TaskPlan, reached
from wilkins.schema.patterns import is_wild
from wilkins.terminal.tables import text_table
from wilkins.terminal.wording import listed, paragraphs
from wilkins.transport.plan_table import REORDER
from wilkins.transport.report_table import ChannelFacts, PortFacts, Report
from wilkins.values import asdict, dataclass, field, replace

_MAX_MESSAGES = 8
"""In-ports with a message of their own; an ensemble may have thousands."""

_MOST_ROWS = 20
_MOST_TRACED = 64
"""Channels whose names are sought in the trace."""


@dataclass(frozen=True, slots=True)
class ChannelAccount:
    """The account of the steps that were published for one channel in this run."""

    producer: str
    consumer: str
    files: str
    """The in-port's pattern."""
    published: int
    """Steps whose names the in-port matches, and that its task has not consumed in the run before; of these:"""
    read: int
    """Opened by some rank."""
    skipped: int
    """Left out by `io_freq` or `flow`."""
    dropped: int
    """Given up since the queue was full."""
    let_go: int
    """Given up since the run would have been stuck otherwise."""
    unread: int
    """The others: the task ended before."""
    names: Mapping[str, Ends] = field(default_factory=dict)
    """By "unread" and "dropped" (and those let go): the first and the last name, as far as the trace tells."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An in-port at the end of the run."""

    task: TaskPlan
    port: PortPlan
    facts: PortFacts
    """The port in the report of the board."""
    channels: Sequence[tuple[ChannelAccount, ChannelFacts, PortFacts]]
    """Its channels, each with what the report says of it and of its out-port."""
    starts: int
    read_patterns: frozenset[str] = frozenset()
    unread_patterns: frozenset[str] = frozenset()
    """Patterns of the names that were read, and of those that were not."""
    in_cycle: bool = False
    """Whether the task's output leads back to the in-port."""
    written: Sequence[str] = ()
    """Names that its producers published, matching or not, as far as they are known."""
    opened_again: Sequence[str] = ()
    """Names of in-ports of its task that were opened again when their only step was read, and had no other."""
    missed: str = ""
    """The last name whose open by its task failed, since the step was given up."""
    complete_files: Callable[[], str] = str
    """What makes each file of its producers one step, if they write it several times."""

    @property
    def published(self) -> int:
        """Steps that were offered to it."""
        return sum(account.published for account, _, _ in self.channels)

    @property
    def lost(self) -> int:
        """Steps that its policy gives it, and that it did not read."""
        return sum(
            account.unread + account.let_go
            for account, channel, _ in self.channels
            if channel.every == 1 and channel.waits
        )

    @property
    def newer(self) -> int:
        """Steps that it did not read, of names of which it had read an older one."""
        return sum(channel.newer for _, channel, _ in self.channels)

    @property
    def let_go(self) -> int:
        """Steps that were given up."""
        return sum(account.let_go for account, _, _ in self.channels)

    @property
    def producers(self) -> str:
        """The tasks that write for it, in words; instances by the name of their entry."""
        return listed(dict.fromkeys(_entry(account.producer) for account, _, _ in self.channels))

    @property
    def unmatched(self) -> int:
        """Steps that its producers published, if none of their names matches."""
        return 0 if self.published else sum(out.steps for _, _, out in self.channels)


class Account:
    """The account of a run, from the board's last report."""

    def __init__(
        self,
        plan: Plan,
        report: Report,
        starts: Sequence[int],
        traces: Sequence[Trace],
        gone: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`gone`: by task, the last name whose open failed, since the step was given up."""
        self._plan, self._gone = plan, gone
        ports = BoardPorts(plan)
        planned = ports.planned_channels(plan)
        rows = [
            (channel, plan.ports[one.outport], plan.ports[one.inport])
            for channel, one in zip(report.channels, planned, strict=True)
        ]
        missing = [_ends(plan, out, into) for channel, out, into in rows if _misses(channel)]
        traced = names_of(traces, missing[:_MOST_TRACED])
        self.channels = [
            _account(plan, channel, out, into, traced.get(_ends(plan, out, into), Traced()))
            for channel, out, into in rows
        ]
        self._after: dict[int, set[int]] = {}
        for _, out, into in rows:
            self._after.setdefault(out.task, set()).add(into.task)
        self._readers = self._by_port(report, rows, traced, starts)

    def _by_port(
        self,
        report: Report,
        rows: Sequence[tuple[ChannelFacts, PortPlan, PortPlan]],
        traced: Mapping[Any, Traced],
        starts: Sequence[int],
    ) -> list[Reader]:
        found: dict[int, list[int]] = {}
        for number, (channel, _, _) in enumerate(rows):
            found.setdefault(channel.inport, []).append(number)
        inports = {channel.inport: into for channel, _, into in rows}.items()
        readers = []
        for index, numbers in found.items():
            port = rows[numbers[0]][2]
            seen = [traced.get(_ends(self._plan, *rows[number][1:]), Traced()) for number in numbers]
            after = {port.task, *reached(self._after, port.task)}
            readers.append(
                Reader(
                    self._plan.tasks[port.task],
                    port,
                    report.ports[index],
                    [(self.channels[n], rows[n][0], report.ports[rows[n][0].outport]) for n in numbers],
                    starts[port.task],
                    frozenset(map(pattern_of, (name for one in seen for name in one.read))),
                    frozenset(map(pattern_of, (name for one in seen for name in one.unread.all))),
                    not after.isdisjoint(rows[number][1].task for number in numbers),
                    [name for one in seen for name in one.written.all],
                    [one.called for place, one in inports if one.task == port.task and report.ports[place].again],
                    self._gone.get(self._plan.tasks[port.task].name, ""),
                    complete_files=partial(_remedy, report, [rows[number][0].outport for number in numbers]),
                )
            )
        return readers

    def record(self) -> list[dict[str, Any]]:
        """The account as plain data."""
        return [asdict(account) for account in self.channels]

    def table(self) -> str:
        """The channels of which not every step was read; empty if there are none."""
        rows = [account for account in self.channels if account.read < account.published]
        return rows_of([asdict(account) for account in rows])

    def messages(self, outcomes: Sequence[str], *, stopped: bool) -> list[str]:
        """Messages about the steps that tasks did not read, one for each in-port. `outcomes`: how the
        tasks have ended. `stopped`: the run was, so that only steps count which a task had lost before it failed."""
        failed = [one for one in self._readers if outcomes[one.task.index] == "failed"]
        messages = _together([one for one in failed if one.let_go], _message_of_failed)
        messages += _together([one for one in failed if not one.let_go], _message_of_missed)
        if stopped:
            return messages
        messages += _together(self._astray(outcomes), _message_of_astray)
        messages += _together(self._lossy(outcomes), _message)
        well = [reader for reader in self._readers if outcomes[reader.task.index] in WENT_WELL]
        return [*messages, *_together(well, _no_step)]

    def loses(self, outcomes: Sequence[str]) -> bool:
        """Whether a task that ended well did not read steps that its policy gives it, and does not say so."""
        return bool(self._lossy(outcomes) or self._astray(outcomes))

    def outdated(self, outcomes: Sequence[str]) -> bool:
        """Whether a task that ended well read files of which newer versions were there, and does not say so."""
        return any(reader.newer and not reader.task.enough for reader in self._lossy(outcomes))

    def _lossy(self, outcomes: Sequence[str]) -> list[Reader]:
        return [
            reader
            for reader in self._readers
            if outcomes[reader.task.index] in WENT_WELL
            and not (reader.task.resumed and reader.task.resumed.ended)
            and (reader.let_go or (not reader.task.enough and (reader.lost or reader.unmatched)))
        ]

    def _astray(self, outcomes: Sequence[str]) -> list[Reader]:
        return [
            reader
            for reader in self._readers
            if outcomes[reader.task.index] in WENT_WELL
            and not reader.task.enough
            and any(account.unread for account, _, _ in reader.channels)
            and _asked_for_gone(reader)
        ]


def _asked_for_gone(reader: Reader) -> str:
    """What became of steps that it wanted to open, if it opened one that its policy had not kept; else empty."""
    lost = {what: sum(getattr(one, what) for one, _, _ in reader.channels) for what in ("skipped", "dropped")}
    if not (reader.missed and any(lost.values())):
        return ""
    if not fnmatchcase(Path(reader.missed).name, Path(reader.port.pattern).name):
        return ""
    fates = listed([f"{what} {number}" for what, number in lost.items() if number])
    return f"it {fates} of {reader.published}; `wilkins help looking-at-files`"


def rows_of(accounts: Sequence[Mapping[str, Any]]) -> str:
    """Accounts, as plain data, in a table; empty if there are none."""
    if not accounts:
        return ""
    numbers = ("published", "read", "skipped", "dropped", "let_go", "unread")
    rows = [
        [
            f"{one['producer']} -> {one['consumer']}",
            one["files"],
            *(str(one[key]) if one[key] else "-" for key in numbers),
        ]
        for one in accounts[:_MOST_ROWS]
    ]
    text = text_table(
        ["channel", "files", "published", "read", "skipped", "dropped", "let go", "not read"], rows, {0, 1}
    )
    more = len(accounts) - _MOST_ROWS
    return text + (f"\n... and {count_of(more, 'more channel')}: see summary.json" if more > 0 else "")


def _ends(plan: Plan, out: PortPlan, into: PortPlan) -> tuple[str, str, str, str]:
    """A channel as the trace knows it: names and patterns of both tasks and ports."""
    return plan.tasks[out.task].name, out.pattern, plan.tasks[into.task].name, into.pattern


def _unread(channel: ChannelFacts) -> int:
    return max(0, channel.published - channel.read - channel.given_up)


def _misses(channel: ChannelFacts) -> bool:
    return bool(not channel.published or _unread(channel) or channel.dropped or channel.let_go)


def _account(plan: Plan, channel: ChannelFacts, out: PortPlan, into: PortPlan, traced: Traced) -> ChannelAccount:
    found = {"unread": traced.unread.ends, "dropped": traced.dropped.ends}
    return ChannelAccount(
        plan.tasks[out.task].name,
        plan.tasks[into.task].name,
        into.pattern,
        channel.published,
        channel.read,
        channel.skipped,
        channel.dropped,
        channel.let_go,
        _unread(channel),
        {what: ends for what, ends in found.items() if ends},
    )


_OPENS_GONE = (
    "if it needs every step, give the in-port `io_freq: 1` in place of what it has; if any will do, let it open "
    "the names that a listing shows, or give the task `args: ['{filename}']`"
)

Message = tuple[str, ...]
"""The first sentence of a message, and further sentences."""


def _together(readers: Iterable[Reader], worded: Callable[[Reader], Message]) -> list[str]:
    """Messages about in-ports: one for all instances with the same message, and only the first few."""
    names: dict[tuple[str, Message], list[str]] = {}
    for reader in readers:
        if message := worded(replace(reader, task=replace(reader.task, name=_entry(reader.task.name)))):
            names.setdefault((reader.port.origin, message), []).append(reader.task.name)
    found = [
        paragraphs(f"{listed(tasks)}: {message[0]}", *message[1:])
        for (_, message), tasks in list(names.items())[:_MAX_MESSAGES]
    ]
    more = len(names) - _MAX_MESSAGES
    return [
        *found,
        *([f"{count_of(more, 'more in-port')} had steps that were not read; see summary.json"] if more > 0 else []),
    ]


def _entry(task: str) -> str:
    """The name of the entry of the workflow file that a task is an instance of."""
    return task.partition("[")[0]


def _message(reader: Reader) -> Message:
    pattern = reader.port.pattern
    if reader.unmatched:
        return _message_of_unmatched(reader)
    lost, published = reader.lost, reader.published
    if reader.newer and not reader.task.enough:
        return _message_of_outdated(reader)
    what = "read none" if lost == published else f"did not read {lost}"
    names = _named(reader)
    return (
        f"{what} of the {count_of(published, 'step')} of {pattern!r} that {reader.producers} published for it"
        + (f": {names}" if names else ""),
        *_remedies(reader),
    )


def _message_of_outdated(reader: Reader) -> Message:
    """The message about a task that left newer versions of its files unread."""
    name, names = reader.task.name, _named(reader)
    return (
        f"read older versions: it left {count_of(reader.newer, 'newer version')} of files of {reader.port.pattern!r} "
        f"unread that {reader.producers} published when it had read them before"
        + (f" (not read: {names})" if names else ""),
        f"if a file is whole only when it was written several times, {reader.complete_files()}",
        f"if {name} needs each version, let it open a name as often as it is published",
        f"if the versions that {name} read are right, give the task `enough: true`",
    )


def _named(reader: Reader) -> str:
    """The first and the last of the names that were not read."""
    found = [account.names.get(what) for account, _, _ in reader.channels for what in ("dropped", "unread")]
    ends = [one for one in found if one]
    if not ends or not is_wild(reader.port.pattern):
        return ""
    first, last = ends[0].first, ends[-1].last
    return repr(first) if first == last else f"{first!r} to {last!r}"


def _remedies(reader: Reader) -> Iterable[str]:
    """The remedies, each with its condition."""
    task, pattern, facts = reader.task, reader.port.pattern, reader.facts
    name = task.name
    if reader.opened_again:
        again = listed(map(repr, reader.opened_again))
        yield (
            f"{name} opened {again} again, of which it had read the only step: if it opens the same file several "
            "times, give that in-port `opens_per_step:` with a number as high"
        )
        return
    if reader.let_go:
        yield (
            f"{count_of(reader.let_go, 'step')} had to be let go, or the run would have stood still: let {name} read "
            f"in the order in which the files are written, or give its in-port {pattern!r} "
            f"`reorder: {(reader.port.reorder or REORDER) + reader.let_go}`"
        )
        if not reader.lost - reader.let_go:
            return
    others = bool(reader.read_patterns and reader.unread_patterns and not reader.read_patterns & reader.unread_patterns)
    if others:
        yield (
            f"they are other files than those that {name} read: give it an in-port for each kind of file that it "
            f"reads, such as {sorted(reader.read_patterns)[0]!r}, and none for others"
        )
    if any(out.reopened for _, _, out in reader.channels):
        yield (
            f"{reader.producers} reopened files that were published: if a file is complete only later, give the "
            "out-port `publish: next`"
        )
    if facts.found_nothing and not facts.steps:
        yield from _missing_requests(reader)
    elif takes_filename(task) and reader.starts > 1 and task.rerun != "never":
        yield (
            f"{name} is started for a step of each of its in-ports, and ends with the first of them that ends: let a "
            f"task of its own read {pattern!r}"
        )
    elif reader.in_cycle and reader.lost <= len(reader.channels):
        yield (
            f"{reader.producers} answered once more when {name} had ended, as is usual in a cycle: then give {name} "
            "`enough: true`"
        )
        return
    elif facts.steps and task.rerun != "always" and not others:
        once = reader.starts == 1 and task.rerun == "never" and facts.steps == 1
        yield (
            f"if {name} handles one step and ends, leave out `rerun: never`"
            if once
            else f"if {name} is to be started again for the steps that are left, give it `rerun: always`"
        )
        if is_wild(pattern) and reader.port.listing == "now":
            yield (
                "if it lists the folder once and reads what is there, give the in-port `listing: end`: its listing "
                "then waits for all steps"
            )
    yield f"if {name} ends before its input does on purpose, give the task `enough: true`"


def _message_of_failed(reader: Reader) -> Message:
    """The message about a task that failed after steps were given up: perhaps it needed one of them."""
    return f"failed, and had lost steps of {reader.port.pattern!r} before", next(iter(_remedies(reader)))


def _message_of_missed(reader: Reader) -> Message:
    """The message about a task that failed after it opened a name whose step its in-port's policy did not keep."""
    pattern, name, fates = reader.port.pattern, reader.missed, _asked_for_gone(reader)
    if not fates:
        return ()
    return (
        f"failed after it had opened {name!r}, and its in-port {pattern!r} did not keep the step of that name for it "
        f"({fates})",
        _OPENS_GONE,
    )


def _message_of_astray(reader: Reader) -> Message:
    """The message about a task that ended well, with steps left to read, after it opened a name of no kept step."""
    unread = count_of(sum(account.unread for account, _, _ in reader.channels), "step")
    return (
        f"left {unread} of {reader.port.pattern!r} unread after it had opened {reader.missed!r}, and its in-port did "
        f"not keep the step of that name for it ({_asked_for_gone(reader)})",
        _OPENS_GONE,
        f"if {reader.task.name} is to end so, give it `enough: true`",
    )


def _missing_requests(reader: Reader) -> Iterable[str]:
    """Why a task that opened or looked for steps got none."""
    facts = reader.facts
    asked, pattern = facts.asked, reader.port.pattern
    times = "" if facts.found_nothing == 1 else f" ({facts.found_nothing} times)"
    if facts.only_looks:
        named = {Path(name).name for name in reader.written}
        if named and is_wild(reader.port.called) and Path(asked).name not in named:
            yield f"it only looked for {asked!r}{times}, which is none of the names that were published: compare them"
            return
        waits = "" if reader.port.looks == "wait" else "; leave out `looks: now`, and its looks wait for their files"
        yield (
            f"it only looked for {asked!r}{times}, found nothing before the first step was there, and opened none"
            f"{waits}"
        )
    else:
        alike = {pattern_of(asked)} & {*reader.unread_patterns, *map(pattern_of, reader.written)}
        yield (
            f"it opened {asked!r}{times}, which is none of the names that were published: compare their numbers"
            if alike
            else f"it opened {asked!r}{times}, which is none of the names that were published: "
            f"{as_next(asked, f'the in-port {pattern!r}')}"
        )


def _message_of_unmatched(reader: Reader) -> Message:
    """The message about an in-port that matches no published name."""
    task, pattern = reader.task.name, reader.port.pattern
    state = "had none" if reader.starts else "was never started"
    names = f", such as {reader.written[0]!r}," if reader.written else ""
    cure = (
        f"an absolute pattern is compared with the whole name, as its producer says it: write {Path(pattern).name!r}"
        if pattern.startswith("/")
        else f"compare {pattern!r} with the names that are written"
    )
    return (
        f"{state}: {reader.producers} published {count_of(reader.unmatched, 'step')}, and none of the names{names} "
        f"matches the in-port {pattern!r}",
        cure,
        f"if that is meant, give {task} `enough: true`",
    )


def _remedy(report: Report, outports: Sequence[int]) -> str:
    from wilkins.launch.watch.failedopens import publish_remedy  # few runs say it

    return publish_remedy(report, outports)


def _no_step(reader: Reader) -> Message:
    """The message about an in-port whose task opened or looked for steps while none were published."""
    facts = reader.facts
    written = sum(out.steps for _, _, out in reader.channels)
    if written or facts.steps or not facts.found_nothing or reader.task.resumed:
        return ()
    asked, what = facts.asked, "looked for" if facts.only_looks else "opened"
    return (
        f"{what} {asked!r} of its in-port {reader.port.pattern!r}, and took no step of it: {reader.producers} "
        "published none",
    )
