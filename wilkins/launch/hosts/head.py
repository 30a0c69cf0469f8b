"""Directs a run over several hosts: starts a keeper on each, forwards messages between them, and reports the result."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from wilkins.errors import ResourceError, count_of
from wilkins.launch.begin import begin_run, end_export, exporter_of
from wilkins.launch.hosts import waits
from wilkins.launch.hosts.clocks import compared
from wilkins.launch.hosts.control import SILENT_FOR, Control, Message, unpacked
from wilkins.launch.hosts.crossings import crossings_of, host_trace
from wilkins.launch.hosts.host import Host, cleaning, end, started
from wilkins.launch.hosts.merge import ends_of, merged, wrong
from wilkins.launch.hosts.messages import (
    Addresses,
    Alive,
    AmongHosts,
    Beat,
    DoneEverywhere,
    EndWait,
    Failed,
    Grow,
    Helped,
    Lines,
    MayFail,
    MayFailReply,
    RanksCame,
    Ready,
    Say,
    Setup,
    StartRanks,
    Stays,
    StopRun,
    TaskEnded,
    UnusedReceivers,
    UnusedSenders,
)
from wilkins.launch.hosts.pulse import BEAT
from wilkins.launch.hosts.relaynames import relay_name_replacer
from wilkins.launch.hosts.relays import needed_hosts
from wilkins.launch.hosts.span import needed_servers
from wilkins.launch.hosts.status import Echo, HostStatus, PartEnded, Status
from wilkins.launch.options import Ended, RunOptions
from wilkins.launch.programs.environment import user_environment
from wilkins.launch.programs.output import Terminal
from wilkins.launch.programs.process import GRACE, allow_open_files
from wilkins.launch.programs.signals import Signals
from wilkins.launch.records.conclude import Ending, report_end
from wilkins.launch.records.rundir import CLOCKS, RunDirectory
from wilkins.launch.watch import helppages
from wilkins.launch.watch.progress import Progress
from wilkins.launch.watch.stopping import Stop
from wilkins.launch.watch.stuck import QUIET_FOR
from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart, host_parts
from wilkins.transport import fabric, handshake
from wilkins.transport.report_table import Report
from wilkins.values import asdict

_FILES_OF_A_HOST = 2
"""That its standard streams take here."""

_UP_WITHIN = 60.0
"""Seconds within which a keeper must be there."""

_LOOKS_ARE = 10.0
"""So many times as long as a look at all hosts takes, the head hears what they say until the next one; at most a
quarter of a heartbeat."""

_CLEAN_WITHIN = 10.0
"""Seconds for cleaning up on a host that is lost."""


def run(
    plan: Plan,
    options: RunOptions,
    kind: Callable[..., Head] | None = None,
    labels: Sequence[str] = (),
) -> Ended:
    """Run a plan over its hosts.

    Args:
        kind: makes the head, of what `Head` takes; None: one that starts a keeper on each host.
        labels: under which others show what programs print, beside the names of tasks.

    Raises:
        WilkinsError: the run could not be set up.
    """
    fabric.wish()  # refuses a variable that relays could not use
    found = host_parts(plan)
    records = begin_run(plan, options)
    (records.path / "hosts").mkdir()
    names = [*(task.name for task in plan.tasks), *labels]
    # Ranks of a job may have a terminal of their own, of which an mpiexec writes to a file.
    terminal = Terminal(names, quiet=options.quiet, colours=plan.launch == "alone")
    for note in plan.notes:
        terminal.say(note)
    head = (kind or Head)(plan, found, records, terminal, options)
    try:
        return head.run()
    finally:
        head.close()
        records.release()


class Head:
    """Directs a run whose keepers it starts."""

    def __init__(
        self, plan: Plan, found: Sequence[HostPart], records: RunDirectory, terminal: Terminal, options: RunOptions
    ) -> None:
        self.plan = plan
        self.records = records
        self.terminal = terminal
        self.options = options
        self.stop: Stop | None = None
        self.stopped_at = 0.0
        self.started = time.monotonic()
        self.hosts: list[Host] = []
        self._stuck = waits.StuckDetector()
        self._replace_relay_names = relay_name_replacer(plan)
        self._candidates: list[Host] = []
        self._request: Grow | EndWait = EndWait()
        """The request that they get one after another, until one of them can fulfil it."""
        self._spared: dict[int, set[int]] = defaultdict(set)
        """By entry of the workflow file: instances that have failed, and that the run goes on without."""
        self._came = Counter[int]()
        """By task: the hosts on which its ranks were about to start, over all its starts."""
        self._unused: dict[int, list[int]] = defaultdict(list)
        """By host that reads: relays that bring nothing, of which it is still to hear."""
        self._explained = False
        self._exporter = exporter_of(plan, options, records, terminal)
        self._progress = Progress(plan, records.path, terminal, self._exporter)
        self._connected = False
        """All hosts were ready, and have begun."""
        self._done_everywhere = False
        self._last_beat = 0.0
        self._noted: dict[str, dict[str, int]] | None = None
        """Clocks."""
        self._selector = selectors.DefaultSelector()
        self._key = secrets.token_hex(16)
        if plan.encrypts:
            self._require_encryption(found)
        else:
            handshake.write_key(records.path / "hosts", self._key)
        allow_open_files(_FILES_OF_A_HOST * len(found))
        for part in found:
            self.hosts.append(self.start(part))
        self._pulse = Control.with_pulse([host.control for host in self.hosts], options.patience)
        for host in self.hosts:
            self._selector.register(host.control.reads, selectors.EVENT_READ, host)
            self.send(host, self.setup(host.part))

    def setup(self, part: HostPart) -> Setup:
        """The first message to a keeper."""
        return Setup(
            run=str(self.records.path),
            host=part.host,
            go_back=self.options.go_back,
            quiet=self.options.quiet,
            patience=self.options.patience,
            folder=str(Path.cwd()),
            environment=_passed_on(),
            key=self._key if self.plan.encrypts else "",
        )

    def _require_encryption(self, found: Sequence[HostPart]) -> None:
        from wilkins.launch.hosts import encryption

        encryption.require([self.plan.hosts[part.host].name for part in found])
        for note in encryption.notes(self.plan):
            self.terminal.say(note)

    def start(self, part: HostPart) -> Host:
        """Have a keeper on a host.

        Raises:
            ResourceError: it cannot be reached.
        """
        return started(part, self.plan.hosts[part.host].name, self.records.path)

    def send(self, to: Host, message: Message) -> None:
        """Send a message to a keeper."""
        with contextlib.suppress(OSError):  # it has left: its last messages are still to be read
            to.control.send(message)

    def run(self) -> Ended:
        """Let all hosts do their parts."""
        look_at = 0.0
        goes_on = True
        has_heard = False
        """Since the last look."""
        with Signals() as signals:
            self._selector.register(signals.reader, selectors.EVENT_READ)
            while goes_on:
                within = max(0.0, look_at - time.monotonic()) if has_heard else BEAT / 4
                for key, _ in self._selector.select(within):
                    has_heard = True
                    if isinstance(key.data, Host):
                        self._hear(key.data)
                    else:
                        signals.drain()
                now = time.monotonic()
                if now >= look_at or not has_heard:
                    has_heard, used = False, time.thread_time()
                    self._look(now, signals)
                    goes_on = not all(host.over for host in self.hosts)
                    look_at = now + min(_LOOKS_ARE * (time.thread_time() - used), BEAT / 4)
        code = self._conclude()
        # A task with ranks on several hosts has failed where it was started.
        failures = Counter[int]()
        for host in self.hosts:
            failures |= Counter(host.ended.failures if host.ended is not None else {})
        return Ended(
            code,
            self.records.path,
            self.stop is not None and self.stop.goes_on,
            failures,
        )

    def _look(self, now: float, signals: Signals) -> None:
        """Do what comes of all that was heard: for thousands of hosts that takes some time."""
        if not self._connected and self.stop is None and all(host.ready is not None for host in self.hosts):
            self._connected = True
            self._send_addresses()
        if now - self._last_beat >= BEAT:
            self._last_beat = now
            alone = sorted(waits.sole_active(self._states()))
            with contextlib.suppress(ResourceError):  # reported at the end, if it still cannot be written then
                self._note_clocks()
            for host in self.hosts:
                if not host.over:
                    asks = self._progress.is_wanted(now)
                    self.send(host, Beat(time.monotonic_ns(), alone, asks))
        self._report_unused()
        self._let_leave()
        self._check(now, signals)

    def _send_addresses(self) -> None:
        addresses = {
            name: f"{host.address}{where}" if where.startswith(":") else where
            for host in self.hosts
            for name, where in (host.ready or {}).items()
        }
        handshake.remove_key(self.records.path / "hosts")
        for host in self.hosts:
            needed = (*needed_hosts(host.part), *needed_servers(self.plan, host.part))
            self.send(host, Addresses({name: addresses[name] for name in needed}))

    def _hear(self, host: Host) -> None:
        try:
            messages = host.control.received()
        except ResourceError as error:
            host.kill()
            self._lost(host, f": {error}")
            return
        if messages is None:
            self._lost(host)
            return
        if messages:
            host.heard = time.monotonic()
        for message in messages:
            self.handle(host, message)

    def handle(self, host: Host, message: Message) -> None:
        """Handle a message of a keeper."""
        host.stands = message.stands if isinstance(message, Alive) else 0.0
        match message:
            case Lines(task, packed) if not _is_relay(self.plan, task):
                self.terminal.lines(task, unpacked(packed))
            case Say(text):
                self.terminal.say(f"{host.name}: {self._replace_relay_names(text)}")
            case Status():
                self._compare_clocks(host, message.echo)
                host.state, host.report, host.steps = message.state, message.report, message.steps
            case Ready(addresses):
                host.ready = addresses
            case Helped(did):
                self._handle_answer(host, did=did)
            case RanksCame(task):
                self._came[task] += 1
                if self._came[task] % len(self.plan.tasks[task].share) == 0:
                    self._forward(None, StartRanks(task), [one for one in self.hosts if task in one.part.tasks])
            case AmongHosts():
                self._forward(host, message, [other for other in self.hosts if message.task in other.part.tasks])
            case TaskEnded():
                self._forward(host, message, self.hosts)
            case UnusedSenders(relays):
                for reads, some in relays.items():
                    self._unused[reads] += some
            case MayFail(task):
                self.send(host, MayFailReply(task, self._may_fail(task)))
            case StopRun(code, reason, goes_on):
                self._end(Stop(code, f"{host.name}: {self._replace_relay_names(reason)}", goes_on), said=True)
            case Failed(reason, code):
                host.gone = True
                self._end(Stop(code, f"{host.name}: {self._replace_relay_names(reason)}"))
            case Stays():
                host.stays = True
            case PartEnded(result):
                self._compare_clocks(host, message.echo)
                host.ended = result
                host.report = result.report or host.report

    def _forward(self, sender: Host | None, message: Message, to: Sequence[Host]) -> None:
        for host in to:
            if host is not sender and not host.over:
                self.send(host, message)

    def _compare_clocks(self, host: Host, echo: Echo | None) -> None:
        if echo is not None:
            host.clock = compared(host.clock, echo.said, echo.heard, echo.answered, time.monotonic_ns())

    def _report_unused(self) -> None:
        """Once for what many hosts have said."""
        for host in self.hosts if self._unused else ():
            if host.part.host in self._unused and not host.over:
                self.send(host, UnusedReceivers(self._unused[host.part.host]))
        self._unused.clear()

    def _let_leave(self) -> None:
        """End the servers of files when no host has programs any more."""
        rest = [host for host in self.hosts if not host.over]
        if rest and not self._done_everywhere and all(host.stays for host in rest):
            self._done_everywhere = True
            for host in rest:
                self.send(host, DoneEverywhere())

    def _may_fail(self, task: int) -> bool:
        """Whether enough instances of an ensemble are left without one that has failed."""
        of_entry = self._spared[self.plan.tasks[task].entry]
        if len(of_entry | {task}) > self.plan.tasks[task].spares:
            return False
        of_entry.add(task)
        return True

    def _silence(self, host: Host, limit: float) -> str:
        """Of a host that is silent: what was heard last."""
        if host.stands > self.options.patience - 3 * BEAT:  # else it was cut off in the middle of something
            return (
                f": its keeper stood still for {self.options.patience:g} s, as where a file system hangs; with "
                "--patience TIME the run waits longer"
            )
        return f": nothing was heard of it for {limit:g} s"

    def _lost(self, host: Host, silence: str = "") -> None:
        """The keeper is gone, or silent for too long, and how that is."""
        if host.over:
            with contextlib.suppress(KeyError):
                self._selector.unregister(host.control.reads)
            host.gone = host.ended is None
            return
        host.gone = True
        with contextlib.suppress(KeyError):
            self._selector.unregister(host.control.reads)
        log = self.records.path / "hosts" / f"{host.name}.log"
        tasks = ", ".join(f"{self.plan.tasks[task].name}{self._after(task)}" for task in host.part.tasks)
        log_tail = log.read_text(errors="replace").strip().splitlines()[-3:]
        self._end(
            Stop(
                1,
                "\n".join(
                    [f"the host {host.name} is lost, with {tasks}{silence}; what it said last is in {log}", *log_tail]
                ),
            )
        )

    def _after(self, task: int) -> str:
        """The progress of a task, in words, by the last reports of its hosts."""
        of = [dict(zip(host.part.tasks, host.steps, strict=False)) for host in self.hosts]
        steps = max(one.get(task, 0) for one in of)
        return f" (after {count_of(steps, 'step')})" if steps else ""

    def _end(self, stop: Stop, *, said: bool = False) -> None:
        if self.stop is not None:
            return
        self.stop = stop
        self.stopped_at = time.monotonic()
        if not said:
            self.terminal.say(stop.reason)
        for host in self.hosts:
            if not host.over:
                self.send(host, StopRun(stop.code, stop.reason))

    def _check(self, now: float, signals: Signals) -> None:
        while signals.received:
            number = signals.received.pop(0)
            self._end(Stop(128 + number, f"stopped by {signal.Signals(number).name}"))
        if self.options.timeout is not None and now - self.started >= self.options.timeout:
            states = self._states()
            said = f"the run took longer than --timeout {self.options.timeout:g} s; stopped"
            self._end(Stop(4, "\n".join([said, *waits.lines(self.plan, states), helppages.STUCK])))
        for host in self.hosts:
            if host.over:
                continue
            limit = SILENT_FOR if host.ready is not None else _UP_WITHIN
            if now - host.heard > limit:
                self._hear(host)  # what has come while this process stood still counts
            if not host.over and now - host.heard > limit:
                host.kill()
                self._lost(host, self._silence(host, limit))
            elif self.stop is not None and now - self.stopped_at > 3 * GRACE + SILENT_FOR:
                host.kill()
                host.gone = True
        if self._connected and self.stop is None:
            self._check_stuck(now)
        if self._connected and self.stop is None:
            self._progress.turn(now, self._report, dict)

    def _report(self) -> Report | None:
        """The merged report of all hosts; None unless all have reported."""
        reports = [
            (host.part.only(told.relays), told.report) for host in self.hosts if (told := host.report) is not None
        ]
        return merged(self.plan, reports) if len(reports) == len(self.hosts) else None

    def _states(self) -> list[tuple[HostPart, HostStatus]]:
        """The last status of each host that goes on."""
        return [(host.part, host.state) for host in self.hosts if not host.over]

    def _check_stuck(self, now: float) -> None:
        states = self._states()
        quiet = min((state.still for _, state in states), default=0.0)
        if quiet >= QUIET_FOR and not self._explained and (said := waits.lines(self.plan, states)):
            self.terminal.say("\n".join([f"nothing has moved for {QUIET_FOR:g} s:", *said, helppages.STUCK]))
        self._explained = quiet >= QUIET_FOR
        verdict = self._stuck.verdict(states, now)
        if verdict == "stuck":
            self._end(Stop(4, waits.stuck_message(self.plan, states)))
        elif verdict == "does not end":
            self._end(Stop(4, waits.not_ended_message(self.plan, states)))
        elif verdict != "goes on" and not self._candidates:
            self._candidates = [host for host in self.hosts if not host.over]
            self._request = Grow(self._stuck.step) if verdict == "may grow" else EndWait()
            self.send(self._candidates[0], self._request)

    def _handle_answer(self, host: Host, *, did: bool) -> None:
        """A host answers whether it could fulfil the request; one host is enough."""
        if not self._candidates or host is not self._candidates[0]:
            return
        del self._candidates[0]
        if did or not self._candidates:
            self._candidates = []
            self._stuck.tried(self._request, did=did)
            for one in self.hosts if did else ():
                one.state = HostStatus()
        else:
            self.send(self._candidates[0], self._request)

    def _conclude(self) -> int:
        self._progress.end()
        self._note_clocks()
        results = [(host.part, host.ended) for host in self.hosts if host.ended is not None and host.ended.report]
        codes = [host.ended.code for host in self.hosts if host.ended is not None]
        reports = [(part.only(told.relays), told.report) for part, account in results if (told := account.report)]
        report = merged(self.plan, reports)
        self._join_logs()
        if self.stop is None and (said := [*wrong(self.plan, reports, report), *self._clashes()]):
            self._end(Stop(1, "\n".join(said)))
        ending = Ending(
            self.plan,
            report,
            ends_of(self.plan, results),
            self.stop,
            self.stop.code if self.stop else max(codes, default=1),
            time.monotonic() - self.started,
            datasets=[] if self.stop else [line for _, account in results for line in account.datasets],
            crossings=crossings_of(self.plan, results),
            traces=[
                host_trace(self.plan, host.part, RunDirectory(self.records.path / "hosts" / host.name).trace)
                for host in self.hosts
            ],
            lost={host.name for host in self.hosts if host.gone},
        )
        code = report_end(ending, self.records, self.terminal, strict=self.options.strict)
        end_export(self._exporter, report if reports else None, code, self.terminal)
        return code

    def _clashes(self) -> list[str]:
        """Files that ranks on several hosts wrote at one time."""
        from wilkins.launch.hosts.clashes import clashes

        traces = [(host.part, RunDirectory(self.records.path / "hosts" / host.name).trace) for host in self.hosts]
        return clashes(self.plan, traces, {host.part.host: host.clock for host in self.hosts if host.clock is not None})

    def _note_clocks(self) -> None:
        """As soon as they are known better: the head may be killed at any moment."""
        clocks = {host.name: asdict(host.clock) for host in self.hosts if host.clock is not None}
        if clocks != self._noted:
            self._noted = clocks
            self.records.write_json(CLOCKS, clocks)

    def _join_logs(self) -> None:
        """Append the layer's logs of all hosts to the log of the run."""
        for host in self.hosts:
            log = self.records.path / "hosts" / host.name / self.records.layer_log.name
            with contextlib.suppress(OSError), self.records.layer_log.open("ab") as whole:
                whole.write(os.fsencode(self._replace_relay_names(os.fsdecode(log.read_bytes()))))

    def close(self) -> None:
        """End what is left of the connections, and clean up on hosts whose keepers are lost, if they can be reached."""
        self._pulse.close()
        handshake.remove_key(self.records.path / "hosts")
        reaching = [host.process for host in self.hosts if host.process is not None]
        for process in reaching:
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        end(reaching, GRACE)
        self._selector.close()
        end(list(cleaning([host.name for host in self.hosts if host.gone], self.records.path)), _CLEAN_WITHIN)


def _is_relay(plan: Plan, name: str) -> bool:
    return all(task.name != name for task in plan.tasks)


def _passed_on() -> dict[str, str]:
    """Variables that programs on other hosts get as those on this one do."""
    own = ("SSH_", "DISPLAY", "XDG_", "SLURM_", "FLUX_", "HOSTNAME", "PWD", "TMPDIR")
    return {name: value for name, value in user_environment().items() if not name.startswith(own)}
