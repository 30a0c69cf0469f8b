"""Looks after one host of an MPI job: as on several hosts, but the ranks exist, and get their programs by messages."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wilkins.errors import WilkinsError
from wilkins.launch.hostjob import meeting
from wilkins.launch.hostjob import messages as of_job
from wilkins.launch.hostjob.ranks import Ranks
from wilkins.launch.hostjob.setup import JobSetup
from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.keeper import Keeper, serve
from wilkins.launch.hosts.messages import Say, Setup
from wilkins.launch.hosts.span import Spanning
from wilkins.launch.hosts.startup import Refused, Startup
from wilkins.launch.job.programs import label
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process
from wilkins.launch.programs.guard import VARIABLE
from wilkins.launch.programs.process import GRACE, Program
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.watch import decide
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.launch.watch.decide import Exit
from wilkins.launch.watch.stopping import Stop
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.plan.relayrules import lead_host, spans
from wilkins.plan.split import HostPart
from wilkins.transport.board import Board, BoardHeldError

_VERDICT_WITHIN = 30.0
"""Seconds after the end of a host's part within which the head says what all exit with."""


class _World(Spanning):
    """This host's part of tasks whose first program runs on ranks of the job, on this host or on several."""

    def __init__(self, plan: Plan, part: HostPart, run: Path, setup: JobSetup, ranks: Ranks) -> None:
        super().__init__(plan, part, run)
        self._setup = setup
        self._ranks = ranks
        self._layers: dict[int, dict[str, str]] = {}
        self._started: set[int] = set()
        self._codes: dict[int, dict[int, int]] = {}
        """By task that has begun: how the programs of its ranks here have ended, by place."""
        self.whole = {place: plan.tasks[index] for place, index in enumerate(part.tasks)}

    def serve(self, board: Board, ports: BoardPorts, token: str, addresses: Mapping[str, str]) -> None:
        super().serve(board, ports, token, addresses)
        self._board = board
        self._token = token
        (board.path / "ranks").touch(mode=0o600)
        for place, task in self.whole.items():
            if not env.joins_world(task):
                for number in self.numbers(place):
                    self._ranks.send(number, of_job.StartIdle(self._setup.worlds.idle_rank, token))

    def family(self) -> list[int]:
        return [*process.descendants(os.getpid()), *process.members(VARIABLE, self._token)]

    def hand_out(self, place: int, base: dict[str, str], layer: dict[str, str]) -> None:  # noqa: ARG002
        self._layers[place] = layer

    def numbers(self, place: int) -> range:
        """The ranks of the job that are ranks of a task here."""
        first = self.whole[place].first_rank + self._part.first_ranks[place]
        return range(first, first + self._part.plan.tasks[place].nprocs)

    def place_of(self, number: int) -> tuple[int, int]:
        """The task of a rank of the job, and the rank's place among those of the task here."""
        place = next(place for place in self.whole if number in self.numbers(place))
        return place, number - self.numbers(place).start

    def prints_elsewhere(self, task: TaskPlan) -> bool:
        return env.joins_world(task) or super().prints_elsewhere(task)

    def starts(self, task: TaskPlan) -> bool:
        return env.joins_world(task) and task.index not in self._started

    def start(self, task: TaskPlan, filename: str | None) -> Program:  # noqa: ARG002
        self._started.add(task.index)
        self._codes[task.index] = {}
        for place, number in enumerate(self.numbers(task.index)):
            self._ranks.send(number, self._start(task, place))
        return self.start_placeholder(task)

    def _start(self, task: TaskPlan, place: int) -> of_job.Start:
        """The program of a rank, as a message to its launcher."""
        whole = self.whole[task.index]
        rank = self._part.first_ranks[task.index] + place
        where: dict[str, Any] = {"rank": rank, "local_rank": place}
        if spans(whole):
            where["host"] = self._plan.hosts[lead_host(whole)].name
        own = {VARIABLE: self._token, **self.own_variables(whole)}
        layer = {**self._layers.get(task.index, {}), **self._board.environment(task.index, place)}
        run = self._board.path
        program = self._setup.worlds.program(whole, run, own, layer, **where)
        return of_job.Start(
            program=program,
            label=label(whole, rank),
            widest=self._setup.widest,
            quiet=self._setup.quiet,
            log=str(self.log_path(task.index, place)),
            ranks=str(run / "ranks"),
            place=whole.first_rank + place,
        )

    def log_path(self, task: int, place: int) -> Path:
        """The log of a rank."""
        return RunDirectory(self._run).log_path(self.whole[task].name, self._part.first_ranks[task] + place)

    def note_over(self, number: int, code: int, control: Control) -> None:
        """The program of a rank has done its last."""
        task, place = self.place_of(number)
        codes = self._codes[task]
        codes[place] = code
        if len(codes) == self._part.plan.tasks[task].nprocs:
            control.send(of_job.Done(self._part.tasks[task], not any(codes.values())))

    def code_of(self, number: int) -> int | None:
        """The exit code of its program; None for a rank without one."""
        task, place = self.place_of(number)
        return self._codes.get(task, {}).get(place)

    def bad(self) -> list[tuple[int, int, int]]:
        """Ends with errors of tasks that have not ended: task, place of the rank, exit code."""
        return [
            (task, place, code)
            for task, codes in self._codes.items()
            if task in self._placeholders
            for place, code in codes.items()
            if code
        ]

    def over(self, whole: int, *, clean: bool) -> None:
        task = self._part.tasks.index(whole)
        self._clean[task] = clean
        self.end_placeholder(task, next(filter(None, self._codes[task].values()), 0))

    def ended(self, control: Control, place: int, *, clean: bool) -> bool:  # noqa: ARG002
        return clean and self.was_clean(place)


class JobKeeper(Keeper):
    """The keeper of a host of the job."""

    _spanning: _World

    def __init__(self, control: Control, setup: JobSetup, ranks: Ranks) -> None:
        self._setup = setup
        self._ranks = ranks
        self._late = float("inf")
        super().__init__(control, setup)
        self._inbox.register(ranks.fileno(), selectors.EVENT_READ, self._hear_ranks)

    def make_spanning(self, plan: Plan) -> Spanning:
        return _World(plan, self.part, self.run, self._setup, self._ranks)

    def notice(self) -> bool:
        super().notice()
        return True  # ranks speak after the head has left

    def _hear_ranks(self) -> bool:
        for number, message in self._ranks.heard():
            self._handle_rank(number, message)
        return True

    def _handle(self, messages: Sequence[Message]) -> None:
        super()._handle(messages)
        if any(isinstance(message, of_job.Finalize) for message in messages):
            self._ranks.send_all(of_job.Wake())

    def _handle_rank(self, number: int, message: Message) -> None:
        assert self._supervisor is not None
        match message:
            case of_job.Over(code):
                self._spanning.note_over(number, code, self._control)
            case of_job.Gone(code):
                self._note_gone(number, code)
            case Say():
                self._control.send(message)
            case of_job.Signalled(of_signal):
                self._supervisor.stop(128 + of_signal, f"stopped by {signal.Signals(of_signal).name}")
            case of_job.Orphaned():
                self._supervisor.stop(1, "the process that started the ranks of this job was killed; the run ends")
            case of_job.Left():
                self._supervisor.stop(1, f"the launcher of rank {number} was killed; the run cannot go on")

    def _note_gone(self, number: int, code: int) -> None:
        """The process of a rank's program has ended, which may be long after its last step."""
        known = self._spanning.code_of(number)
        if code in (0, known) or self._supervisor is None:
            return
        task, place = self._spanning.place_of(number)
        who = self._spanning.whole[task].name
        if known is None:
            library = self._setup.worlds.idle_rank
            self._supervisor.stop(1, f"{who}: its rank could not join the MPI job with {library}: {Exit(code)}")
            return
        self._supervisor.stop(
            1,
            f"{who}: rank {number} of the job failed when all was done: {Exit(code)}; its output is in "
            f"{self._spanning.log_path(task, place)}",
        )

    def _stop(self, stop: Stop) -> None:
        super()._stop(stop)
        self._stop_ranks()

    def _report_stop(self, stop: Stop) -> None:
        super()._report_stop(stop)
        self._stop_ranks()

    def _stop_ranks(self) -> None:
        if self._late == float("inf"):
            self._late = time.monotonic() + 2 * GRACE
            self._ranks.send_all(of_job.Stop())

    def _tick(self) -> float | None:
        soon = super()._tick()
        self._judge()
        return None if self._ranks.all_gone or time.monotonic() > self._late else min(1.0, soon or 1.0)

    def _judge(self) -> None:
        """End a task of which a rank has failed; one that has ended with its stream waits for the others."""
        assert self._supervisor is not None
        for task, place, code in self._spanning.bad() if self._supervisor.stopped is None else ():
            run = self._supervisor.crew[task]
            try:
                failed = decide.after_exit(Exit(code), run.facts()) == "failed"
            except BoardHeldError:
                return
            if failed:
                run.log.path = self._spanning.log_path(task, place)
                self._spanning.end_placeholder(task, code)


class _Startup(Startup):
    """The messages before the host's part begins. Ranks connect meanwhile, and are reported to the head."""

    patience = meeting.PATIENCE

    def __init__(self, control: Control, ranks: Ranks) -> None:
        super().__init__(control)
        self._ranks = ranks
        self.selector.register(ranks.fileno(), selectors.EVENT_READ, self._hear_ranks)

    def handle(self, message: Message) -> None:
        if isinstance(message, of_job.Leave):  # the run is not set up
            raise Refused(message.code)
        try:
            super().handle(message)
        except EOFError:  # or ends before it has begun
            raise Refused(_verdict(self._control)) from None

    def _hear_ranks(self) -> None:
        for _, message in self._ranks.heard():
            if isinstance(message, of_job.Comes):
                self._control.send(message)
            elif isinstance(message, of_job.Left):
                raise EOFError


def _keep(link: meeting.Link, ranks: Ranks) -> int:
    """Keep this host to the end of the run; the verdict."""

    def make(setup: Setup) -> Keeper:
        assert isinstance(setup, JobSetup)
        ranks.close_listener()
        keeper = JobKeeper(link.control, setup, ranks)
        with (keeper.run / "hosts" / f"{keeper.name}.log").open("ab") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())
        return keeper

    serve(link.control, _Startup(link.control, ranks), make)
    return _verdict(link.control)


def _verdict(control: Control) -> int:
    until = time.monotonic() + _VERDICT_WITHIN
    with selectors.DefaultSelector() as selector:
        selector.register(control.reads, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            messages = control.received()
            if messages is None:
                break
            for message in messages:
                if isinstance(message, of_job.Leave):
                    return message.code
    return 1


def main(descriptor: int, path: Path) -> int:
    """Keep this host.

    Args:
        descriptor: of the socket where this host's ranks come.
        path: of the file by which the hosts of the job meet.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the ranks get them, and report them
    ranks = Ranks(socket.socket(fileno=descriptor))
    try:
        code = _keep(meeting.join(path, socket.gethostname()), ranks)
    except Refused as refused:
        code = refused.code
    except EOFError:
        code = 1
    except OSError as error:
        print(f"wilkins: the head of the run is gone: {error}", file=sys.stderr, flush=True)
        code = 1
    except WilkinsError as error:
        print(f"wilkins: error: {error}", file=sys.stderr, flush=True)
        code = error.exit_code
    ranks.send_all(of_job.Leave(code))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
