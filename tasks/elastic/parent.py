"""The parent of the ranks: starts them, tells them who trains together, and holds the store by which groups connect.

No rank is special: whichever dies, membership and store are still there.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from wilkins.tasks.elastic.membership import Break, End, Ended, Expel, Form, Instruction, Membership, Wanted, report_of
from wilkins.tasks.elastic.processes import LOOK, Died, Event, HungUp, Place, Said
from wilkins.tasks.elastic.wire import Message
from wilkins.values import asdict

PATIENCE = 120.0
"""Seconds in which a rank leaves a group that is broken, unless it says otherwise; it may be in the middle of a batch.
Then it is killed."""
GRACE = 3.0
"""Seconds between the polite request to end and the end."""


class Pages:
    """The store of one group: keys that its members set, and who waits for which."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._waiting: list[tuple[str, int, int]] = []

    def set(self, key: str, value: str) -> list[tuple[int, int]]:
        """Set a key; the ranks that have waited for it, with the numbers of their questions."""
        self._values[key] = value
        answered = [(rank, number) for wanted, rank, number in self._waiting if wanted == key]
        self._waiting = [one for one in self._waiting if one[0] != key]
        return answered

    def get(self, key: str, rank: int, number: int) -> str | None:
        """The value of a key; None: the rank waits for it."""
        if key not in self._values:
            self._waiting.append((key, rank, number))
        return self._values.get(key)

    def close(self) -> list[tuple[int, int]]:
        """Nobody sets a key any more; those that have waited."""
        waiting, self._waiting = self._waiting, []
        return [(rank, number) for _, rank, number in waiting]


class _Rank:
    """What is known of a rank."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lives = True
        self.loses = ""
        """What is lost if it dies, in its words."""


class Parent:
    """Runs the ranks of one training, from their start to their end.

    Args:
        places: where the ranks are; their numbers go from place to place.
        restarts: how often, in all, a rank that has died is started again, to join the others.
        say: is told what becomes of the ranks, a sentence each.
    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        restarts: int = 0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._places = places
        self._of = [place for place in places for _ in range(place.size)]
        self._restarts = restarts
        self._patience = PATIENCE
        self._say = say
        self._membership = Membership(range(len(self._of)))
        self._ranks: dict[int, _Rank] = {}
        self._pages: dict[int, Pages] = {}
        self._overdue: tuple[float, int] | None = None
        self._selector = selectors.DefaultSelector()
        self._failed = 0
        self._stopping = False
        self.deaths = 0
        """Ranks that have died before the end of the training."""

    @property
    def ended(self) -> bool:
        """Whether all steps have been made."""
        return self._membership.ended

    def run(self) -> int:
        """Run the training; the exit code: 0 if a rank has ended well, and the one that prints and saves."""
        self._waits_until = time.monotonic() + PATIENCE
        opened: list[Place] = []
        try:
            for place in self._places:
                place.open(self._selector)
                opened.append(place)
            for rank in range(len(self._of)):
                self._begin(rank)
            while self._living():
                self._turn()
        finally:
            for place in opened:
                place.close()
            self._selector.close()
        return self._failed

    def stop(self) -> None:
        """Ask all ranks to end, and start none again; `run` returns when they have."""
        self._stopping = True
        self._overdue = (time.monotonic() + GRACE, -1)
        self._send(self._living(), signal.SIGTERM)

    def _living(self) -> list[int]:
        return [rank for rank, one in self._ranks.items() if one.lives]

    def _send(self, ranks: Iterable[int], number: int) -> None:
        for rank in ranks:
            self._ranks[rank].place.send([rank], number)

    def _begin(self, rank: int) -> None:
        self._follow(self._membership.started(rank))
        self._ranks[rank] = _Rank(self._of[rank])
        self._of[rank].begin(rank, len(self._of))

    def _turn(self) -> None:
        """Wait for what comes next, and see to it."""
        for key, _ in self._selector.select(LOOK):
            for event in key.data.hear(key.fileobj):
                self._see(event)
        for place in self._places:
            for event in place.look():
                self._see(event)
        if (late := self._membership.awaited) and time.monotonic() > self._waits_until:
            self._waits_until += PATIENCE
            self._say(f"ranks {_shown(late)} have not come to their first step yet; the others wait for them")
        if self._overdue and time.monotonic() > self._overdue[0]:
            generation, self._overdue = self._overdue[1], None
            if self._stopping:
                self._send(self._living(), signal.SIGKILL)
            else:
                self._follow(self._membership.overdue(generation))

    def _see(self, event: Event) -> None:
        if isinstance(event, Died):
            self._bury(event)
        elif isinstance(event, HungUp):
            self._follow(self._membership.gone(event.rank))
        else:
            try:
                self._take(event)
            except (ValueError, KeyError, TypeError):  # no message of a rank
                self._send([event.rank], signal.SIGKILL)

    def _take(self, said: Said) -> None:
        rank, message = said.rank, said.message
        if "patience" in message:
            self._patience = float(message["patience"])
        elif "ready" in message:
            self._follow(self._membership.ready(rank, report_of(message["ready"])))
        elif "loses" in message:
            self._ranks[rank].loses = str(message["loses"])
        elif "set" in message:
            self._set(int(message["generation"]), str(message["set"]), str(message["value"]))
        elif "get" in message:
            self._get(int(message["generation"]), str(message["get"]), rank, int(message["number"]))

    def _set(self, generation: int, key: str, value: str) -> None:
        if generation in self._pages:
            for rank, number in self._pages[generation].set(key, value):
                self._tell(rank, {"got": number, "value": value})

    def _get(self, generation: int, key: str, rank: int, number: int) -> None:
        if generation not in self._pages:
            self._tell(rank, {"got": number, "value": None})
            return
        value = self._pages[generation].get(key, rank, number)
        if value is not None:
            self._tell(rank, {"got": number, "value": value})

    def _follow(self, instructions: Iterable[Instruction]) -> None:
        """Do what the membership says."""
        for one in instructions:
            if isinstance(one, Form):
                self._pages = {one.group.generation: Pages()}
                self._overdue = None
                anew = ", anew: nobody is left who has trained" if one.anew else ""
                where = f"ranks {_shown(one.group.members)} at step {one.group.step}{anew}"
                self._say(f"group {one.group.generation}: {where}")
                self._tell_all(one.group.members, {"form": asdict(one.group)})
            elif isinstance(one, Break):
                self._overdue = (time.monotonic() + self._patience, one.generation)
                self._tell_all(one.ranks, {"break": one.generation})
                for rank, number in self._pages.pop(one.generation, Pages()).close():
                    self._tell(rank, {"got": number, "value": None})
            elif isinstance(one, Wanted):
                self._tell_all(one.ranks, {"wanted": one.generation})
            elif isinstance(one, Ended):
                self._tell_all(one.ranks, {"ended": one.step, "generation": one.generation})
            elif isinstance(one, End):
                self._tell_all(one.ranks, {"end": one.survivors})
            elif isinstance(one, Expel):
                self._say(f"ranks {_shown(one.ranks)} have not answered for {self._patience:g} s, and are killed")
                self._send(one.ranks, signal.SIGKILL)

    def _tell_all(self, ranks: Iterable[int], message: Message) -> None:
        for rank in ranks:
            self._tell(rank, message)

    def _tell(self, rank: int, message: Message) -> None:
        self._ranks[rank].place.tell(rank, message)

    def _bury(self, died: Died) -> None:
        """A rank is no more: say so, let the others go on, and start it again if that is wanted."""
        one = self._ranks[died.rank]
        one.lives = False
        again = self._judge(died)
        self._follow(self._membership.gone(died.rank))
        if again:
            self._begin(died.rank)
            return
        places = [self._ranks[rank].place for rank in self._living()]
        if places and one.place not in places and not self._membership.ended:
            one.place.leave()

    def _judge(self, died: Died) -> bool:
        """Say what the end of a rank means; whether it is to be started again."""
        rank, code = died.rank, died.code
        how = died.cause or (f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}")
        if self._membership.ended:
            if code:
                self._say(f"rank {rank} {how} after all steps were made")
                if rank == self._membership.survivors[0]:
                    self._failed = _exit_code(code)
            return False
        if code == 0:
            how = "has left the training, with exit code 0, before all steps were made"
        else:
            self.deaths += 1
        lost = f"; lost with it: {one}" if (one := self._ranks[rank].loses) else ""
        if code and not died.cause and self._restarts > 0 and not self._stopping:
            self._restarts -= 1
            self._say(f"rank {rank} {how}; it is started again, and joins the others{lost}")
            return True
        left = len(self._living())
        on = "all ranks are being ended" if self._stopping else f"{left} go on without it" if left else "none is left"
        self._say(f"rank {rank} {how}; {on}{lost}")
        if not left:  # nobody has come to the end
            self._failed = _exit_code(code) or 1
        return False


def _exit_code(code: int) -> int:
    """As a shell gives it: that of a process killed by a signal is 128 and the signal."""
    return code if code >= 0 else 128 - code


def _shown(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))
