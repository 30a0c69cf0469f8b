"""The starts of a task with ranks on several hosts that is started for each step: all hosts begin with the same one.

When a start has ended well, each host says what its ranks have read. The host of rank 0 judges by all of that what
comes next. If it is another start, each host first passes over steps that only ranks on others have opened. Then the
host of rank 0 waits for the next step, and the others start with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.messages import GoesOn, RanksRead, StartEnded, StartsFor
from wilkins.launch.hosts.span import Spanning
from wilkins.launch.watch import decide
from wilkins.launch.watch.decide import Exit, Facts, Verdict
from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart, starts_for_each
from wilkins.transport.board import Board, EndOfStream, Listed
from wilkins.values import replace


class Agreement:
    """One host's share in the starts of one task."""

    def __init__(
        self,
        plan: Plan,
        part: HostPart,
        place: int,
        control: Control,
        spanning: Spanning,
        stop: Callable[[int, str], None],
    ) -> None:
        """`place`: the task's, in the host's part; `stop`: ends the run."""
        self._plan = plan
        self._host = part.host
        self._place = place
        self._whole = part.tasks[place]
        self._control = control
        self._spanning = spanning
        self._stop = stop
        self._task = plan.tasks[self._whole]
        inports = [port.index for port in part.plan.ports if port.task == place and port.direction == "in"]
        self.reads = any(channel.inport in inports for channel in part.plan.channels)
        """Whether ranks here read."""
        self._reads: dict[int, RanksRead] = {}
        """Since the last start, by host."""
        self._past: int | None = None
        """Steps that all hosts are past before the next start; None: not known yet."""
        self._next: str | None = None

    @property
    def leads(self) -> bool:
        """Whether this host starts the task."""
        return self._spanning.leads(self._place)

    @property
    def is_over(self) -> bool:
        """Whether the host that leads has said that no start comes any more."""
        return self._spanning.is_over(self._place)

    @property
    def next_start(self) -> str | None:
        """The step that the host which leads starts the task for; None: it has not said so yet."""
        return self._next

    def handle(self, message: Message) -> None:
        """Handle a message of another host."""
        match message:
            case StartEnded():
                self._spanning.start_over(self._place)
            case RanksRead(host=host):
                self._reads[host] = message
            case GoesOn(steps=steps):
                self._past = steps
            case StartsFor(name=name):
                self._next = name

    def begins(self, filename: str | None) -> None:
        """The task is about to be started here."""
        self._next = None
        if self.leads:
            self._control.send(StartsFor(self._whole, filename or ""))

    def verdict(self, ended: Exit, facts: Facts, board: Board, port: int) -> Verdict | None:
        """What the end of the program means; None: it is not known yet.

        Raises:
            BoardHeldError: not now.
        """
        if not ended.clean or facts.met_failure or (self.is_over and self._past is None):
            return decide.after_exit(ended, replace(facts, rerun="never"))
        if self._host not in self._reads:
            self._say_read(facts.opened if self.reads else 0, board.port_steps(port))
        if self._past is None and self.leads and len(self._reads) == len(self._task.share):
            verdict = decide.after_exit(ended, self._of_all(facts))
            if verdict != "again":
                return verdict
            self._past = self._agree()
        if self._past is None or not self._passes(board, port, self._past):
            return None
        self._reads.clear()
        self._past = None
        return "again"

    def differ(self, name: str | None) -> None:
        """The next step here is another one than where the task leads, or there is none."""
        here = f"{name!r} is the next step here" if name else "there is no step here any more"
        self._stop(1, f"{self._begin()}its next start is for {self._next!r}, and {here}; {self._cure()}")

    def _say_read(self, opened: int, steps: int) -> None:
        if self.leads:
            self._spanning.start_over(self._place)
            self._control.send(StartEnded(self._whole))
        self._reads[self._host] = RanksRead(self._whole, self._host, opened, steps)
        if not self.leads:
            self._control.send(self._reads[self._host])

    def _of_all(self, facts: Facts) -> Facts:
        """The facts about the ranks on all hosts. What a listing has shown to some of them means no other start."""
        opened, steps = max(one.opened for one in self._reads.values()), max(one.steps for one in self._reads.values())
        listed: Listed = "all" if facts.listed == "all" else "no"
        return replace(facts, opened=opened, read=max(facts.read, steps), listed=listed)

    def _agree(self) -> int | None:
        """Let all hosts go on."""
        past = steps_past(list(self._reads.values()))
        if past is None:
            counts = ", ".join(
                f"{one.steps} on {self._plan.hosts[host].name}" for host, one in sorted(self._reads.items())
            )
            self._stop(1, f"{self._begin()}its ranks have read different steps ({counts} in all); {self._cure()}")
            return None
        self._control.send(GoesOn(self._whole, past))
        return past

    def _passes(self, board: Board, port: int, past: int) -> bool:
        """Pass over steps that ranks on other hosts have read; False: they have not come yet."""
        with contextlib.suppress(EndOfStream):
            while self.reads and board.port_steps(port) < past:
                if not board.pass_step(port):
                    return False
        return True

    def _begin(self) -> str:
        return f"{self._task.origin}: {self._task.name}: it is started for each step, on several hosts; "

    def _cure(self) -> str:
        return (
            "let the ranks on each host read the same step in each start, or none; or give the task "
            "`placement: [HOST]` with a host that has slots for all of its ranks"
        )


def steps_past(reads: Sequence[RanksRead]) -> int | None:
    """How many steps all hosts are to be past before the next start: as many as those whose ranks have opened any; None
    if that differs."""
    most = {one.steps for one in reads if one.opened}
    if len(most) > 1 or any(one.steps > past for past in most for one in reads):
        return None
    return most.pop() if most else 0


def agreements(
    plan: Plan, part: HostPart, control: Control, spanning: Spanning, stop: Callable[[int, str], None]
) -> dict[int, Agreement]:
    """Those of a host, by task of its part."""
    return {
        place: Agreement(plan, part, place, control, spanning, stop)
        for place, whole in spanning.tasks.items()
        if starts_for_each(plan, whole)
    }
