"""The messages between the head of a run and the keepers of its hosts, but for those about a host's state (`status`).

Tasks have their indices in the whole plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wilkins.launch.hosts.control import Message
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup(Message):
    """The head's first message to a keeper."""

    run: str
    """The run's directory."""
    host: int
    """The keeper's, in the plan."""
    go_back: str
    """As of `options.RunOptions`."""
    quiet: bool
    patience: float
    """Seconds."""
    folder: str
    environment: Mapping[str, str]
    key: str
    """The run's key, if the run encrypts. Empty: it does not, and the key is in a file that all hosts see."""


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """A keeper has set up its part."""

    addresses: Mapping[str, str]
    """Where it listens for senders, and its servers of files do, by what all hosts call them."""


@dataclass(frozen=True, slots=True)
class Addresses(Message):
    """The head lets a keeper begin: where those hosts and servers of files listen that it needs."""

    addresses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """A keeper could not set up its part, and ends."""

    reason: str
    code: int


@dataclass(frozen=True, slots=True)
class Alive(Message):
    """A keeper's process lives, but has not moved for some seconds (`pulse`)."""

    stands: float


@dataclass(frozen=True, slots=True)
class Beat(Message):
    """A heartbeat of the head's."""

    said: int
    """Its clock, in nanoseconds."""
    alone: Sequence[int]
    """The only tasks that neither wait nor have ended."""
    asks: bool
    """The head wants the whole report of the board."""


@dataclass(frozen=True, slots=True)
class Lines(Message):
    """Lines that a task has printed."""

    task: str
    packed: str
    """As `control.packed` has it."""


@dataclass(frozen=True, slots=True)
class Say(Message):
    """A line for the run's terminal."""

    text: str


@dataclass(frozen=True, slots=True)
class StopRun(Message):
    """The run is to stop: to a keeper, or from one whose part has failed."""

    code: int
    reason: str
    goes_on: bool = False
    """As of `Stop`."""


@dataclass(frozen=True, slots=True)
class Stays(Message):
    """A keeper's programs have ended, and other hosts may still read what they wrote."""


@dataclass(frozen=True, slots=True)
class DoneEverywhere(Message):
    """No host has programs any more."""


@dataclass(frozen=True, slots=True)
class RanksCame(Message):
    """Ranks of a task on several hosts are about to start on the keeper's."""

    task: int


@dataclass(frozen=True, slots=True)
class StartRanks(Message):
    """They are on all its hosts, so that a keeper may let them start."""

    task: int


class AmongHosts(Message):
    """From a keeper to all others that have ranks of a task."""

    __slots__ = ()
    task: int


@dataclass(frozen=True, slots=True)
class JobEnded(AmongHosts):
    """The job of a task with ranks on several hosts has ended: from the keeper that started it."""

    task: int
    clean: bool


@dataclass(frozen=True, slots=True)
class StartEnded(AmongHosts):
    """It has ended well, and may be started again for the next step."""

    task: int


@dataclass(frozen=True, slots=True)
class RanksRead(AmongHosts):
    """The answer: what the ranks on a host have read."""

    task: int
    host: int
    opened: int
    """Steps since the start,"""
    steps: int
    """and in all."""


@dataclass(frozen=True, slots=True)
class GoesOn(AmongHosts):
    """It will be started again, when the ranks on each host are past so many steps."""

    task: int
    steps: int


@dataclass(frozen=True, slots=True)
class StartsFor(AmongHosts):
    """It is started again."""

    task: int
    name: str
    """For the step of that name; empty if its program is told none."""


@dataclass(frozen=True, slots=True)
class UnusedSenders(Message):
    """Senders on a host have ended without a start, for no step has come for them."""

    relays: Mapping[int, Sequence[int]]
    """By host that reads."""


@dataclass(frozen=True, slots=True)
class UnusedReceivers(Message):
    """To a host that reads: nothing comes by these relays."""

    relays: Sequence[int]


@dataclass(frozen=True, slots=True)
class TaskEnded(Message):
    """A task that others come after has ended: from its keeper, to all others."""

    task: int
    lost: bool


@dataclass(frozen=True, slots=True)
class MayFail(Message):
    """A keeper asks whether the run goes on without an instance that has failed."""

    task: int


@dataclass(frozen=True, slots=True)
class MayFailReply(Message):
    """The answer."""

    task: int
    allowed: bool


@dataclass(frozen=True, slots=True)
class Grow(Message):
    """The head asks a keeper to let a queue grow, by so many steps, since nothing moves on any host."""

    steps: int


@dataclass(frozen=True, slots=True)
class EndWait(Message):
    """The head asks a keeper to let a wait end, since no queue can grow."""


@dataclass(frozen=True, slots=True)
class Helped(Message):
    """The answer to both."""

    did: bool
    """It changed anything."""
