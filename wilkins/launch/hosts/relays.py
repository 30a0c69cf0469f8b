"""The relays of one host: what their programs need to meet their other halves, and how far they are."""

from __future__ import annotations

import os
from collections.abc import Mapping

from wilkins.plan.plan import Plan
from wilkins.plan.split import HostPart
from wilkins.transport import relay, relay_messages
from wilkins.transport.listening import address_in, listen


def needed_receivers(part: HostPart) -> list[str]:
    """The receivers on other hosts to which a host sends, by what all hosts call them."""
    return [str(one.index) for _, one in part.senders]


class Relays:
    """Senders and receivers, which are tasks of the host's part of the plan."""

    def __init__(self, plan: Plan, part: HostPart) -> None:
        self._plan = plan
        self._part = part
        self._listeners = {task: listen(plan.hosts[part.host].name) for task, _ in part.receivers}
        self._variables: dict[int, dict[str, str]] = {}
        self._descriptors: dict[int, list[int]] = {}
        """By task: what it inherits, to be closed here once all that share it were started."""
        self._messages: dict[int, relay_messages.Messages] = {}
        """By relay, of the receivers."""
        self._packs: dict[int, relay_messages.Messages] = {}
        """By relay, of the senders that compress."""

    def addresses(self) -> dict[str, str]:
        """The addresses of the receivers, by relay."""
        return {str(one.index): address_in(self._listeners[task]) for task, one in self._part.receivers}

    def meet(self, addresses: Mapping[str, str]) -> None:
        """Hear where the receivers of all hosts are, by relay."""
        for task, one in self._part.senders:
            self._variables[task] = {relay.ADDRESS: addresses[str(one.index)]}
            if self._plan.ports[one.outport].compress:
                count = relay_messages.Messages.made()
                self._packs[one.index] = relay_messages.Messages(count)
                self._variables[task][relay_messages.VARIABLE] = str(count)
                self._descriptors[task] = [count]
        ends: dict[int, tuple[int, int]] = {}
        for task, one in self._part.receivers:
            producer = self._plan.ports[one.outport].task
            theirs, ours = ends[producer] = ends.get(producer) or os.pipe()
            listener = self._listeners[task].detach()
            count = relay_messages.Messages.made()
            self._messages[one.index] = relay_messages.Messages(count)
            self._variables[task] = {
                relay.LISTENS: str(listener),
                relay.ENDS: f"{ours},{theirs}",
                relay_messages.VARIABLE: str(count),
            }
            self._descriptors[task] = [listener, ours, theirs, count]

    def others(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """By host to which steps go from here: where one of its receivers listens."""
        hosts = self._plan.hosts
        return {hosts[one.reads].name: addresses[str(one.index)] for _, one in self._part.senders}

    def extras(self, task: int) -> tuple[dict[str, str], tuple[int, ...]]:
        """Variables and open descriptors that a program of this host needs beside the usual."""
        return self._variables.get(task, {}), tuple(self._descriptors.get(task, ()))

    def started(self, task: int) -> None:
        """A program has what it inherits."""
        inherited = self._descriptors.pop(task, [])
        shared = {descriptor for others in self._descriptors.values() for descriptor in others}
        for descriptor in inherited:
            if descriptor not in shared:
                os.close(descriptor)

    def over(self) -> list[int]:
        """Receivers that have all they will get."""
        return [index for index, messages in self._messages.items() if messages.over]

    def counts(self) -> dict[int, int]:
        """By relay: how many messages a receiver has exchanged."""
        return {index: messages.count for index, messages in self._messages.items()}

    def unfit(self) -> dict[int, tuple[int, ...]]:
        """By relay: rules of compression that have fitted nothing in the sender's steps."""
        return {index: messages.unfit for index, messages in self._packs.items()}

    def compressed(self) -> dict[int, relay_messages.Compressed]:
        """By relay: what compression has done for the receiver's steps."""
        return {index: messages.compressed for index, messages in self._messages.items()}
