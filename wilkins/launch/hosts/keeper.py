"""Looks after one host of a run: its programs, its shared memory. Started by the head, and ends when that is gone."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from wilkins.errors import ResourceError, WilkinsError, count_of
from wilkins.launch.alone import Start, end_of
from wilkins.launch.begin import brief, make_folders
from wilkins.launch.hosts import reach
from wilkins.launch.hosts.agreement import Agreement, agreements
from wilkins.launch.hosts.control import SILENT_FOR, Control, Message, packed
from wilkins.launch.hosts.dependencies import HostDependencies
from wilkins.launch.hosts.encryption import require_cipher
from wilkins.launch.hosts.hostpolls import HostPolls
from wilkins.launch.hosts.messages import (
    Addresses,
    AmongHosts,
    Beat,
    DoneEverywhere,
    EndWait,
    Failed,
    Grow,
    Helped,
    JobEnded,
    Lines,
    MayFailReply,
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
from wilkins.launch.hosts.nursery import FEW, Nursery
from wilkins.launch.hosts.partreport import PartReport, used_only
from wilkins.launch.hosts.pulse import BEAT
from wilkins.launch.hosts.relayruns import Lookout, ReceiverRun, SenderRun
from wilkins.launch.hosts.relays import Relays
from wilkins.launch.hosts.span import Spanning
from wilkins.launch.hosts.startup import Refused, Startup
from wilkins.launch.hosts.status import Echo, HostResult, HostStatus, PartEnded, Status
from wilkins.launch.options import going_back
from wilkins.launch.programs import environment as env
from wilkins.launch.programs.guard import VARIABLE, Guard, end_members
from wilkins.launch.programs.output import Log, Terminal
from wilkins.launch.programs.process import Program, allow_open_files
from wilkins.launch.records.datasets import missing_datasets
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.records.summary import old_names
from wilkins.launch.watch.boardmap import BoardPorts, create_board
from wilkins.launch.watch.decide import Exit
from wilkins.launch.watch.notices import last_report
from wilkins.launch.watch.stopping import Stop
from wilkins.launch.watch.supervise import Supervisor, WholeRun
from wilkins.launch.watch.taskrun import Ends, TaskRun
from wilkins.plan import planfile
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.plan.relayrules import may_be_unused
from wilkins.plan.split import HostPart, host_parts
from wilkins.transport import handshake
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.removal import sweep
from wilkins.transport.report_table import Report

_FILES_OF_A_RELAY = 3
"""That a half of it takes in the keeper: what it prints, its end, and its messages."""

_SEES_WITHIN = 20.0
"""Seconds within which a file that another host has written must be seen."""


class _RemoteTerminal(Terminal):
    """A terminal at the head's end."""

    def __init__(self, control: Control, *, quiet: bool) -> None:
        super().__init__([], quiet=quiet)
        self._control = control

    def lines(self, name: str, text: bytes) -> None:
        if text:
            self._control.send(Lines(name, packed(text)))

    def say(self, message: str) -> None:
        self._control.send(Say(message))


class _Start(Start):
    """Starts programs, relays with what they need to meet their other halves, and tasks that are on several hosts."""

    spanning: Spanning
    relays: Relays
    nursery: Nursery
    _halves = 0
    """Halves of relays that were started."""

    def started(
        self, task: TaskPlan, words: list[str], variables: Mapping[str, str], descriptors: tuple[int, ...]
    ) -> Program:
        self._halves += task.is_relay
        if task.is_relay and self._halves > FEW:
            own = {name: value for name, value in variables.items() if self._base.get(name) != value}
            own.pop("LD_PRELOAD", None)  # the layer is loaded, not preloaded
            if program := self.nursery.start(task.args[1:], own, task.cwd, descriptors):
                return program
        return super().started(task, words, variables, descriptors)

    def extras(self, task: TaskPlan) -> tuple[dict[str, str], tuple[int, ...]]:
        return self.relays.extras(task.index)

    def __call__(self, task: TaskPlan, filename: str | None) -> Program:
        if self.spanning.starts(task):
            return self.spanning.start(task, filename)
        program = super().__call__(task, filename)
        self.relays.started(task.index)
        return program


class _Ends(Ends):
    """Reports the end of a task's job also to other hosts that have ranks of it."""

    def __init__(self, board: Board, spanning: Spanning, control: Control) -> None:
        super().__init__(board)
        self._spanning = spanning
        self._control = control
        self.lookout: Lookout | None = None

    def exited(self, task: int, *, final: bool, clean: bool) -> bool:
        if final and self.lookout is not None:
            self.lookout.hurry()
        if final:
            clean = self._spanning.ended(self._control, task, clean=clean)
        return super().exited(task, final=final, clean=clean)


class Keeper:
    """One host's launcher."""

    def __init__(self, control: Control, setup: Setup) -> None:
        """`setup`: the head's first message.

        Raises:
            ResourceError: this host does not see the run's directory, or cannot set up its part.
        """
        self._control = control
        self._heard = self._last_beat = 0.0
        self._began = time.monotonic()
        self._wants_report = False
        """Whether the head has asked for a report."""
        self._beat: tuple[int, int] | None = None
        self._stop_asked = False
        self._done_everywhere = False
        """All hosts have done their parts."""
        self.run = Path(setup.run)
        plan = self._plan = planfile.loads(_seen(self.run / "plan.json"))
        self.part: HostPart = next(part for part in host_parts(plan) if part.host == setup.host)
        self.name = plan.hosts[self.part.host].name
        for task in self.part.plan.tasks:
            env.entered(task)
        self._own = len(self.part.tasks)
        """Tasks, of which relays are none."""
        self.records = _HostRecords(self.run, self.name)
        if plan.can_resume:
            self.records.make_kept()
        self._of_run = RunDirectory(self.run)
        self._of_run.hold()
        self._encrypts = bool(setup.key)
        if self._encrypts:
            require_cipher()
        self._key = setup.key or _seen(self.run / "hosts" / handshake.KEY_FILE)
        allow_open_files(_FILES_OF_A_RELAY * (len(self.part.senders) + len(self.part.receivers)))
        self._relays = Relays(plan, self.part)
        self._go_back = setup.go_back
        self._quiet = setup.quiet
        self._spanning = self.make_spanning(plan)
        shared = [task.index for task in self.part.plan.tasks if self._spanning.starts(task)]
        self._polls = HostPolls(plan, self.part, shared)
        self._dependencies = HostDependencies(plan, self.part, control)
        self._agreements: dict[int, Agreement] = {}
        self._supervisor: Supervisor | None = None
        self._lookout: Lookout | None = None
        self._nursery: Nursery | None = None
        self._inbox = selectors.EpollSelector()
        """What has come, and who handles it and says whether more may."""
        self._inbox.register(control.reads, selectors.EVENT_READ, self._hear)

    def make_spanning(self, plan: Plan) -> Spanning:
        """What looks after tasks with ranks on other hosts, too."""
        return Spanning(plan, self.part, self.run)

    def addresses(self) -> dict[str, str]:
        """Where this host listens for senders, and its servers of files do: ``address:port``."""
        return self._relays.addresses() | self._spanning.addresses()

    def keep(self, addresses: Mapping[str, str], after: list[Message]) -> None:
        """Run the host's part to its end, and report the result.

        Args:
            addresses: of other hosts, and of servers of files.
            after: the later messages of the head.
        """
        plan = self.part.plan
        terminal = _RemoteTerminal(self._control, quiet=self._quiet)
        sweep()
        make_folders(plan)
        with Guard() as guard:
            self._relays.meet(addresses, bytes.fromhex(self._key))
            reach.check(self._relays.others(addresses) | self._spanning.others(addresses))
            can_resume = self._plan.can_resume
            board = create_board(plan, self.records.layer_log, self.records.trace, can_resume=can_resume)
            try:
                handshake.write_key(board.path, self._key, encrypts=self._encrypts)
                brief(board, plan, self.run, self._dependencies.all_here)
                crew = self._crew(board, guard.token, addresses, terminal)
                self._board = board
                self._supervisor = Supervisor(
                    crew,
                    board,
                    terminal,
                    whole=WholeRun(),
                    on_stop=self._report_stop,
                    hints=lambda report: [*old_names(plan, report), *self._polls.messages(report)],
                    polls=self._polls.polls,
                    inbox=self,
                    family=self._spanning.family,
                    dependencies=self._dependencies,
                    # The head goes on by itself with a run that has to go back, but for a job.
                    can_resume=can_resume and plan.launch == "alone",
                )
                self._heard = time.monotonic()
                self._handle(after)
                code = self._supervisor.run(self._tick)
                self._dependencies.report_ended(crew)
                self._account(board, crew, code, terminal)
            finally:
                self._spanning.end()
                if self._nursery is not None:
                    self._nursery.close()
                end_members(guard.token)
                board.remove()

    def _crew(self, board: Board, token: str, addresses: Mapping[str, str], terminal: Terminal) -> list[TaskRun]:
        """The tasks of this host, ready to start."""
        plan = self.part.plan
        ports = BoardPorts(plan)
        start = _Start(board, ports, token, self._of_run, can_resume=self._plan.can_resume)
        start.relays, start.spanning = self._relays, self._spanning
        start.nursery = self._nursery = Nursery({**env.user_environment(), VARIABLE: token})
        self._spanning.serve(board, ports, token, addresses)
        ends = _Ends(board, self._spanning, self._control)
        back = going_back(self._go_back, self._plan, self._of_run, self.part, self.records.trace)
        among = self._agreements = agreements(self._plan, self.part, self._control, self._spanning, self._stop_run)

        def run(task: TaskPlan) -> TaskRun:
            of_run = task, board, ports, self._log(task, terminal), start
            if task.index in late:
                return SenderRun(*of_run, ends=ends)
            if task.is_relay and task.index not in senders:
                return ReceiverRun(self._relays, *of_run, ends=ends)
            return TaskRun(*of_run, ends=ends, go_back=back, together=among.get(task.index))

        senders = dict(self.part.senders)
        late = {place for place, relay in senders.items() if may_be_unused(self._plan, relay)}
        crew = [run(task) for task in plan.tasks]
        self._lookout = ends.lookout = Lookout(board, self._relays, crew)
        if self._relays.door is not None:
            self._inbox.register(self._relays.door, selectors.EVENT_READ, self._note_arrivals)
        return crew

    def _note_arrivals(self) -> bool:
        if self._lookout is not None:
            self._lookout.note_arrivals()
        return True

    def _stop_run(self, code: int, reason: str) -> None:
        if self._supervisor is not None:
            self._supervisor.stop(code, reason)

    def _log(self, task: TaskPlan, terminal: Terminal) -> Log:
        path = self._records(task).log_path(task.name)
        return Log(task.name, path, terminal, spare=self._spanning.prints_elsewhere(task))

    def _account(self, board: Board, crew: Sequence[TaskRun], code: int, terminal: Terminal) -> None:
        """Report the result of this host's part to the head, as soon as nobody needs the part any more."""
        report: Report | None = None
        try:
            report = last_report(board)
        except BoardHeldError as error:
            terminal.say(f"there is no account of {self.name}: {error}")
        self._stay()
        self._spanning.end()  # before the head learns that this host has ended
        result = HostResult(
            code,
            None if report is None else self._used(report),
            () if report is None else tuple(missing_datasets(self.part.plan, board)),
            tuple(map(end_of, crew)),
            {index: run.failures for index, run in zip(self.part.tasks, crew, strict=False)},
            self._relays.counts(),
            self._relays.compressed(),
            self._relays.unfit(),
            self._relays.fabrics(),
        )
        self._control.send(PartEnded(result, self._echo()))

    def _stay(self) -> None:
        """Serve files until nobody on another host reads what ranks here have written."""
        if not self._spanning.serves or self._stop_asked:
            return
        self._control.send(Stays())
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self._done_everywhere and not self._stop_asked:
                if selector.select(BEAT) and not self.notice():
                    return
                self._tick()

    def _records(self, task: TaskPlan) -> RunDirectory:
        """Where the log of a task goes: a program's among those of the run."""
        is_placeholder = task.is_part and not self._spanning.leads(task.index)
        return self.records if task.is_relay or is_placeholder else self._of_run

    def fileno(self) -> int:
        """Readable when there is something to handle."""
        return self._inbox.fileno()

    def notice(self) -> bool:
        """Handle what has come; False: the head has left."""
        over = [key.fd for key, _ in self._inbox.select(0) if not key.data()]
        for descriptor in over:
            self._inbox.unregister(descriptor)
        return not over

    def _hear(self) -> bool:
        """Handle the messages of the head; False: it has left."""
        messages = self._control.received()
        if messages is None:
            self._stop_alone("the head of the run is gone")
            return False
        if messages:
            self._heard = time.monotonic()
        self._handle(messages)
        return True

    def _handle(self, messages: Sequence[Message]) -> None:
        for message in messages:
            match message:
                case StopRun(code, reason):
                    self._stop(Stop(code, reason))
                case DoneEverywhere():
                    self._done_everywhere = True
                case StartRanks(task):
                    self._spanning.let_start(task)
                case JobEnded(task, clean):
                    self._spanning.over(task, clean=clean)
                case AmongHosts():
                    self._agreements[self.part.tasks.index(message.task)].handle(message)
                case Beat(said, alone, asks):
                    self._wants_report = asks
                    self._beat = (said, time.monotonic_ns())
                    self._polls.only_active = set(alone)
                case UnusedReceivers(relays):
                    self._relays.note_unused(set(relays))
                case TaskEnded() | MayFailReply():
                    self._dependencies.handle(message)
                case Grow(steps):
                    self._control.send(Helped(self._help(self._board.grow, steps)))
                case EndWait():
                    self._control.send(Helped(self._help(self._board.end_wait, 1)))

    def _echo(self) -> Echo | None:
        """The answer to the head's last heartbeat, if there is none yet."""
        beat, self._beat = self._beat, None
        return None if beat is None else Echo(*beat, time.monotonic_ns())

    def _help(self, what: Callable[[], bool], times: int) -> bool:
        """Try what may help a run without progress; whether it changed anything."""
        try:
            return sum(what() for _ in range(times)) > 0
        except BoardHeldError:
            return False

    def _stop(self, stop: Stop) -> None:
        if self._supervisor is not None and not self._stop_asked:
            self._stop_asked = True
            self._supervisor.join_stop(stop)

    def _stop_alone(self, reason: str) -> None:
        """End all without the head, and record that in the host's log."""
        if self._stop_asked:
            return
        tasks = ", ".join(f"{self.part.plan.tasks[place].name}{self._after(place)}" for place in range(self._own))
        with self.records.layer_log.open("a") as log:
            log.write(f"{time.time():.6f} the keeper of {self.name}: error: {reason}; it ends {tasks}\n")
        self._stop(Stop(1, reason))

    def _report_stop(self, stop: Stop) -> None:
        self._control.send(StopRun(stop.code, stop.reason, stop.goes_on))

    def _tick(self) -> float | None:
        """Send a heartbeat, with the status by which the head decides whether the run can go on."""
        now = time.monotonic()
        # What has come while this process stood still counts.
        if now - self._heard > SILENT_FOR and self.notice() and now - self._heard > SILENT_FOR:
            self._stop_alone(f"nothing was heard of the head for {SILENT_FOR:g} s")
        if now - self._last_beat >= BEAT:
            self._last_beat = now
            self._control.send(Status(self._state(), self._steps(), self._report(), self._echo()))
        if (ended := self._spanning.ended_server()) and self._supervisor is not None:
            self._supervisor.stop(1, self._not_served(*ended))
            self._stop_asked = True
        if self._supervisor is not None:
            self._dependencies.report_ended(self._supervisor.crew)
            if self._supervisor.stopped is None:
                looks = self._spanning.look_at_shells(self._control), self._look_at_relays()
                return min((look for look in looks if look is not None), default=None)
        return None

    def _look_at_relays(self) -> float | None:
        """Let relays start or end that are due; seconds until the next look, or None where none is."""
        if self._lookout is None:
            return None
        self._lookout.note_arrivals()  # also lets those go who say nothing
        if unused := self._lookout.unused():
            self._control.send(UnusedSenders(unused))
        return self._lookout.turn()

    def _report(self) -> PartReport | None:
        """The report of the board, if the head has asked for it."""
        with contextlib.suppress(BoardHeldError):
            return self._used(self._board.report()) if self._wants_report else None
        return None

    def _used(self, report: Report) -> PartReport:
        """A report of the board without relays that have done nothing."""
        return used_only(self.part, report, self._relays.counts())

    def _state(self) -> HostStatus:
        still = min(self._board.still_s(), time.monotonic() - self._began)
        if still < BEAT:
            return HostStatus(still)
        try:
            report = self._board.report(threads=True)
        except BoardHeldError:
            return HostStatus()
        comes = self._supervisor is not None and any(run.will_restart for run in self._supervisor.crew)
        return HostStatus(still, report, tuple(self._relays.over()), comes)

    def _not_served(self, place: int, end: Exit) -> str:
        """The server of a task's files has ended."""
        what = f"the files of {self.part.plan.tasks[place].name} here to its ranks on other hosts"
        return f"the process that serves {what} failed{self._after(place)}: {end}"

    def _after(self, place: int) -> str:
        """The progress of a task, in words. Of a task on several hosts, only steps published on this one count."""
        steps = self._steps()[place : place + 1]
        return f" after {count_of(steps[0], 'step')}" if any(steps) else ""

    def _steps(self) -> list[int]:
        """How many steps each of the host's own tasks has read or published."""
        crew = self._supervisor.crew if self._supervisor is not None else []
        try:
            return [run.steps() for run in crew[: self._own]]
        except BoardHeldError:
            return []


class _HostRecords(RunDirectory):
    """A host's own records, below those of the run."""

    def __init__(self, run: Path, host: str) -> None:
        super().__init__(run / "hosts" / host)
        self.path.mkdir(parents=True, exist_ok=True)


def _seen(path: Path) -> str:
    until = time.monotonic() + _SEES_WITHIN
    while True:
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            if time.monotonic() > until:
                raise ResourceError(
                    f"the host {socket.gethostname()} does not see {path}: {error.strerror}; all hosts must see the "
                    "folder of the run: put the workflow file on a file system that they share, or name a folder there "
                    "with --run-dir"
                ) from error
        time.sleep(0.1)


def serve(control: Control, startup: Startup, make: Callable[[Setup], Keeper]) -> int:
    """Do this host's part of a run; the exit code.

    Args:
        make: makes the keeper, of the head's first message.

    Raises:
        EOFError: the head has left.
        Refused: there is to be no run.
        OSError: it has left.
    """
    try:
        setup = startup.wait(Setup)
        with Control.with_pulse([control], setup.patience):
            os.environ.update(setup.environment)
            os.chdir(setup.folder)
            keeper = make(setup)
            control.send(Ready(keeper.addresses()))
            keeper.keep(startup.wait(Addresses).addresses, startup.rest)
    except Refused:
        raise
    except WilkinsError as error:
        control.send(Failed(str(error), error.exit_code))
        return error.exit_code
    return 0


def main() -> int:
    """Serve the head."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the head gets it, and stops this host
    control = Control(sys.stdin.fileno(), os.dup(sys.stdout.fileno()), waits=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        return serve(control, Startup(control), partial(Keeper, control))
    except (BrokenPipeError, TimeoutError, EOFError):
        return 1


if __name__ == "__main__":
    sys.exit(main())
