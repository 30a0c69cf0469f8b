"""The relays of one host: what their programs need to meet their other halves, and how far they are."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import Relay
from wilkins.plan.split import HostPart
from wilkins.transport import fabric, handshake, relay, relay_messages
from wilkins.transport.listening import address_in, listen


def needed_hosts(part: HostPart) -> list[str]:
    """The hosts to which steps go from one, as all call where they listen."""
    return [_listener(host) for host in sorted(part.sends_to())]


def _listener(host: int) -> str:
    """What all hosts call the listener of a host for its receivers."""
    return f"host {host}"


class Relays:
    """Senders and receivers, which are tasks of the host's part of the plan. Each starts when it is needed."""

    def __init__(self, plan: Plan, part: HostPart) -> None:
        self._plan = plan
        self._part = part
        self._senders = dict(part.senders)
        self._receivers = dict(part.receivers)
        self._listener = listen(plan.hosts[part.host].name) if part.receivers else None
        self._door: handshake.AuthenticatedListener | None = None
        """The same, once senders may come."""
        self._awaited = {one.index: task for task, one in part.receivers}
        """By relay: receivers whose senders have not come."""
        self._addresses: Mapping[str, str] = {}
        self._come: dict[int, tuple[socket.socket, bytes]] = {}
        """Receivers that are about to start: the connection of the sender, and what makes its keys."""
        self._without: set[int] = set()
        """Receivers to which no sender will come, while others of their producer's go on."""
        self._ended: set[int] = set()
        """Those for which all others have got all since then."""
        self._ends: dict[int, tuple[int, int]] = {}
        """By producer with receivers of which it is not known yet whether they start: the pipe that they share."""
        self._undecided = Counter(self._producer(one) for one in self._receivers.values())
        """Of these receivers, by producer."""
        self._descriptors: dict[int, list[int]] = {}
        """By task: what it alone inherits, to be closed here once it was started."""
        self._messages: dict[int, relay_messages.Messages] = {}
        """By relay, of the receivers that have started."""
        self._packs: dict[int, relay_messages.Messages] = {}
        """By relay, of the senders that compress and have started."""

    def _producer(self, relay: Relay) -> int:
        return self._plan.ports[relay.outport].task

    def addresses(self) -> dict[str, str]:
        """Where senders find this host, if it has receivers."""
        return {} if self._listener is None else {_listener(self._part.host): address_in(self._listener)}

    def meet(self, addresses: Mapping[str, str], key: bytes) -> None:
        """Hear where the hosts listen to which steps go from here, and let in those who know the key."""
        self._addresses = addresses
        if self._listener is not None:
            self._door = handshake.AuthenticatedListener(self._listener, relay.SERVICE, key, relay.GREETING.size)

    def others(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """By host to which steps go from here: where it listens."""
        return {self._plan.hosts[one.reads].name: addresses[_listener(one.reads)] for one in self._senders.values()}

    @property
    def door(self) -> handshake.AuthenticatedListener | None:
        """Readable when somebody may have come; None: this host has no receivers."""
        return self._door

    def arrived(self) -> list[int]:
        """The receivers whose senders have come since the last call."""
        found: list[int] = []
        if self._door is None:
            return found
        for wire in self._door.accept():
            (index,) = relay.GREETING.unpack(self._door.greeting(wire))
            task = self._awaited.pop(index, None)
            if task is None:
                wire.close()
            else:
                self._come[task] = wire, self._door.seen(wire)
                found.append(task)
        return found

    def has_come(self, task: int) -> bool:
        """Whether a receiver's sender has come."""
        return task in self._come

    def note_unused(self, relays: Collection[int]) -> None:
        """No sender of these relays will come."""
        for index in relays:
            if (task := self._awaited.pop(index, None)) is not None:
                self._without.add(task)
                self._decided(self._receivers[task])

    def unused(self, tasks: Iterable[int]) -> dict[int, list[int]]:
        """Relays of senders, by the host that reads."""
        found: dict[int, list[int]] = {}
        for task in tasks:
            found.setdefault(self._senders[task].reads, []).append(self._senders[task].index)
        return found

    def without(self) -> Collection[int]:
        """Receivers to which no sender will come, while others of their producer's go on."""
        return self._without

    def is_over_without(self, task: int) -> bool:
        """Whether no sender will come for a receiver, and all others of its producer's have got all: the ports of a
        producer end together."""
        producer = self._producer(self._receivers[task])
        if task not in self._without or self._undecided[producer]:
            return False
        others = (one.index for other, one in self._of_producer(producer) if other not in self._without | self._ended)
        if not all(self._messages[index].over for index in others):
            return False
        self._without.remove(task)
        self._ended.add(task)
        return True

    def _of_producer(self, producer: int) -> list[tuple[int, Relay]]:
        return [(task, one) for task, one in self._receivers.items() if self._producer(one) == producer]

    def _decided(self, relay: Relay) -> None:
        """A receiver has started, or never will."""
        producer = self._producer(relay)
        self._undecided[producer] -= 1
        if not self._undecided[producer] and producer in self._ends:
            for descriptor in self._ends.pop(producer):
                os.close(descriptor)

    def extras(self, task: int) -> tuple[dict[str, str], tuple[int, ...]]:
        """Variables and open descriptors that a program of this host needs beside the usual, as it starts."""
        if task in self._senders:
            return self._of_sender(task, self._senders[task])
        if task in self._receivers:
            return self._of_receiver(task, self._receivers[task])
        return {}, ()

    def _of_sender(self, task: int, one: Relay) -> tuple[dict[str, str], tuple[int, ...]]:
        where = self._addresses[_listener(one.reads)]
        variables = {relay.ADDRESS: where, relay.NUMBER: str(one.index), **fabric.VARIABLES}
        if not self._plan.ports[one.outport].compress:
            return variables, ()
        count = relay_messages.Messages.made()
        self._packs[one.index] = relay_messages.Messages(count)
        self._descriptors[task] = [count]
        return {**variables, relay_messages.VARIABLE: str(count)}, (count,)

    def _of_receiver(self, task: int, one: Relay) -> tuple[dict[str, str], tuple[int, ...]]:
        producer = self._producer(one)
        theirs, ours = self._ends[producer] = self._ends.get(producer) or os.pipe()
        count = relay_messages.Messages.made()
        self._messages[one.index] = relay_messages.Messages(count)
        connection, seen = self._come.pop(task)
        wire = connection.detach()
        self._descriptors[task] = [wire, count]
        variables = {
            relay.WIRE: str(wire),
            relay.SEEN: seen.hex(),
            relay.ENDS: f"{ours},{theirs}",
            relay_messages.VARIABLE: str(count),
            **fabric.VARIABLES,
        }
        return variables, (wire, ours, theirs, count)

    def started(self, task: int) -> None:
        """A program has what it inherits."""
        for descriptor in self._descriptors.pop(task, ()):
            os.close(descriptor)
        if task in self._receivers:
            self._decided(self._receivers[task])

    def over(self) -> list[int]:
        """Relays whose receivers have all they will get."""
        without = [self._receivers[task].index for task in self._without | self._ended]
        return [*(index for index, messages in self._messages.items() if messages.over), *without]

    def counts(self) -> dict[int, int]:
        """By relay whose receiver has started: how many messages that has exchanged."""
        return {index: messages.count for index, messages in self._messages.items()}

    def unfit(self) -> dict[int, tuple[int, ...]]:
        """By relay: rules of compression that have fitted nothing in the sender's steps."""
        return {index: messages.unfit for index, messages in self._packs.items()}

    def compressed(self) -> dict[int, relay_messages.Compressed]:
        """By relay: what compression has done for the receiver's steps."""
        return {index: messages.compressed for index, messages in self._messages.items()}

    def fabrics(self) -> dict[int, tuple[str, str]]:
        """By relay: by what bytes cross to a receiver, and why."""
        return {index: messages.fabric for index, messages in self._messages.items()}
